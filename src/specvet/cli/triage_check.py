"""`specvet triage blank`, `specvet triage prefilter`: whether finds rest on features, what measuring first costs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from specvet.cli import models
from specvet.cli.asked_again import opened_as, urls_of
from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.signals import stopped_by_signals
from specvet.cli.vet_many import Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specvet.vetting.blanking import Blank
    from specvet.vetting.blanks import BlankCount
    from specvet.vetting.prefilter import Recall

FLAGGED = 5
"""Exit code: something was flagged."""


def blank(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet made.")],
    *,
    way: Annotated[
        str, typer.Option("--way", metavar="WAY,…", help="smooth keeps colour and noise, level noise alone.")
    ] = "smooth,level",
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="Who is asked; by default who made the run.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Its folder, where it is another now.")] = None,
    base_url: models.BaseUrls = None,
    device: models.Device = "auto",
    dtype: models.Dtype = "auto",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N finds of each task.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, metavar="N")] = 16,
    share: Share = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the noise.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> int:
    """Ask about the finds of a run once more, with their features taken out.

    Each YES is asked about again as the run asked, of the same spectrum with its flux replaced by its smooth continuum
    with noise (smooth), and by noise around one level (level). A policy that says YES still rests on no feature: such
    rows are flagged, as events of the run and in RUN/blank/blank.json. What was asked stands in RUN/blank/smooth and
    RUN/blank/level, runs like any other.

    \b
    Exit codes: 0 nothing is flagged, 5 something is, 1 nothing could be asked, 2 wrong command, 4 cannot write,
    130 interrupted; the same command goes on.
    """
    from specvet.records import RunError, RunFolder
    from specvet.vetting.blanking import WAYS
    from specvet.vetting.blanks import blank_finds, finds_of, note_flags
    from specvet.vetting.report.run import definitions

    ways = [one.strip() for one in way.split(",") if one.strip()]
    if not ways or set(ways) - set(WAYS):
        raise CommandError(f"--way {way}: choose {' or '.join(WAYS)}, or both", USAGE)
    with failing(USAGE, RunError):
        folder = RunFolder.read(run)
    try:
        finds, config, tasks = finds_of(folder, limit), folder.config, definitions(folder)
    finally:
        folder.close()
    finds = {key: items for key, items in finds.items() if key in tasks}
    if not finds:
        raise CommandError(f"{run}: has no YES to ask about", NOTHING_VETTED)
    name = policy or config.get("policy")
    if name is None:
        raise CommandError(f"{run}: its config names no policy; say --policy", USAGE)
    told = {"model": model or (config.get("model") if policy in (None, config.get("policy")) else None)}
    told |= {"base_url": base_url or urls_of(config.get("base_url")), "device": device, "dtype": dtype}

    from specvet.cli.progress import shown_progress

    total = len(ways) * sum(len(items) for items in finds.values())
    with (
        failing(CANNOT_WRITE, OSError, RunError),
        failing(NOTHING_VETTED, *models.fatal_errors(name)),
        ExitStack() as stack,
    ):
        opened = opened_as(stack, name, told, config, concurrency)
        with shown_progress(total, quiet) as progress, stopped_by_signals(progress.stopping) as stop:
            counts = blank_finds(
                Path(run),
                finds,
                tasks,
                cast("Sequence[Blank]", ways),
                opened,
                seed=seed,
                shared=share,
                progress=progress,
                stop=stop,
            )
            stopped = stop.is_set()
        if not stopped:
            note_flags(Path(run), counts, shared=share)
    if json:
        rows = [{"task": c.task, "way": c.way, "finds": c.finds, "answers": c.answers, "flagged": c.flagged}
                for c in counts]  # fmt: skip
        print_json({"run": run, "counts": rows, "interrupted": stopped})
    elif not quiet:
        _print_blanks(run, counts)
    return INTERRUPTED if stopped else FLAGGED if any(c.flagged for c in counts) else DONE


def _print_blanks(run: str, counts: Sequence[BlankCount]) -> None:
    from rich import box
    from rich.table import Table

    from specvet.cli.console import console

    out = console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("task")
    table.add_column("features gone")
    for name in ("finds", "YES still", "NO", "UNSURE", "other"):
        table.add_column(name, justify="right")
    for c in counts:
        other = c.finds - sum(c.answers.get(a, 0) for a in ("YES", "NO", "UNSURE"))
        cells = [c.flagged, c.answers.get("NO", 0), c.answers.get("UNSURE", 0), other]
        table.add_row(c.task, c.way, f"{c.finds:,}", *(f"{n:,}" for n in cells))
    out.print(table)
    flagged = sum(c.flagged for c in counts)
    if flagged:
        out.print(f"{flagged} flagged: they rest on no feature. Which: {run}/blank/blank.json", soft_wrap=True)
    else:
        out.print("none is flagged: every find rests on features")


def prefilter(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of line-indices over labelled spectra.")],
    *,
    labels: Annotated[str, typer.Option("--labels", metavar="L", help="Table of answers, or question file.")],
    below: Annotated[
        float | None,
        typer.Option(
            "--below",
            metavar="P",
            help="Probability of YES below which a row is hopeless; by default a class's own screen says.",
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Keep it for specvet vet --prefilter FILE.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", metavar="DIR", help="Where the table's paths start.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Say what a prefilter keeps and saves, from a labelled set: its recall on positives, with its interval.

    \b
      specvet vet labelled/ --task cv --policy line-indices --out L
      specvet triage prefilter L --labels labels.csv --out prefilter.json
      specvet vet list.csv --task cv --policy torch --model M --prefilter prefilter.json --out RUN

    \b
    Exit codes: 0 told, 1 no label fits, 2 wrong command, 4 cannot write.
    """
    import os

    from specvet.cli.triage_calibrate import label_truths
    from specvet.policies.line_indices import LineIndices
    from specvet.records import RunError, RunFolder
    from specvet.vetting.prefilter import hopeless, recall_of, write_recalls
    from specvet.vetting.report.run import definitions

    if below is not None and not 0.0 < below < 0.5:
        raise CommandError(f"--below {below:g}: give a probability above 0 and under 0.5", USAGE)
    with failing(USAGE, RunError):
        folder = RunFolder.read(run)
    try:
        if folder.config.get("policy") != "line-indices":
            raise CommandError(f"{run}: was not made by line-indices, which is what a prefilter measures with", USAGE)
        if folder.settings.get("policy_fingerprint", LineIndices().fingerprint) != LineIndices().fingerprint:
            raise CommandError(f"{run}: was measured with other thresholds; run specvet vet into a new folder", USAGE)
        truths, _ = label_truths(folder, labels, root, quiet=True)
        tasks = definitions(folder)
        rows = [
            (d.task, truth.yes, bool(hopeless(tasks[d.task], d.verdict, below)))
            for d in folder.decisions()
            if (truth := truths.get((folder.own_key(d.file), d.row, d.task))) is not None and d.task in tasks
        ]
    finally:
        folder.close()
    recalls = recall_of(rows)
    if not any(r.positives for r in recalls):
        raise CommandError(f"{labels}: none of its positives was measured in {run}", NOTHING_VETTED)
    if out is not None:
        with failing(CANNOT_WRITE, OSError):
            write_recalls(out, below, recalls, os.path.basename(labels), tasks)
    if json:
        print_json({"below": below, "recalls": [r.as_dict() for r in recalls]})
        return DONE
    _print_recalls(recalls, below)
    if out is not None:
        say(f"to use it: specvet vet … --prefilter {out}")
    return DONE


def _print_recalls(recalls: Sequence[Recall], below: float | None) -> None:
    from rich import box
    from rich.table import Table

    from specvet.cli.console import console

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title=None)
    table.add_column("task")
    for name in ("positives", "kept", "recall", "95 % interval", "others", "left out"):
        table.add_column(name, justify="right")
    for r in recalls:
        interval = r.interval()
        share = "" if r.recall is None else f"{100 * r.recall:.1f} %"
        ends = "" if interval is None else f"{100 * interval[0]:.1f}-{100 * interval[1]:.1f} %"
        saved = f"{100 * r.left_out / r.others:.0f} %" if r.others else ""
        table.add_row(r.task, f"{r.positives:,}", f"{r.kept:,}", share, ends, f"{r.others:,}", saved)
    how = "what the screens leave out" if below is None else f"line-indices below {below:g}"
    console().print(f"{how} is a NO:")
    console().print(table)
