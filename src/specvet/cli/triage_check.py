"""`specvet triage blank`, `specvet triage prefilter`: whether finds rest on features, what measuring first costs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specvet.cli import asking, models
from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from specvet.records import RunFolder
    from specvet.vetting.blanking import Blank
    from specvet.vetting.blanks import Asked, BlankCount
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
    told |= {"base_url": base_url or _urls(config.get("base_url")), "device": device, "dtype": dtype}

    from specvet.cli.progress import shown_progress

    total = len(ways) * sum(len(items) for items in finds.values())
    with (
        failing(CANNOT_WRITE, OSError, RunError),
        failing(NOTHING_VETTED, *models.fatal_errors(name)),
        ExitStack() as stack,
    ):
        opened = _opened(stack, name, told, config, concurrency)
        with shown_progress(total, quiet) as progress, stopped_by_signals(progress.stopping) as stop:
            counts = blank_finds(
                Path(run), finds, tasks, cast("Sequence[Blank]", ways), opened, seed=seed, progress=progress, stop=stop
            )
            stopped = stop.is_set()
        if not stopped:
            note_flags(Path(run), counts)
    if json:
        rows = [{"task": c.task, "way": c.way, "finds": c.finds, "answers": c.answers, "flagged": c.flagged}
                for c in counts]  # fmt: skip
        print_json({"run": run, "counts": rows, "interrupted": stopped})
    elif not quiet:
        _print_blanks(run, counts)
    return INTERRUPTED if stopped else FLAGGED if any(c.flagged for c in counts) else DONE


def _urls(config: Any) -> list[str]:
    return [config] if isinstance(config, str) else list(config or ())


def _opened(
    stack: ExitStack, name: str, told: Mapping[str, Any], config: Mapping[str, Any], concurrency: int
) -> Callable[[RunFolder], Asked]:
    """What opens the policy for a run of blanked spectra, as the run's own config says that it is asked."""
    from specvet.agent import Budget
    from specvet.policies.manner import PUBLISHED
    from specvet.vetting.blanks import Asked

    frame = config.get("frame_mode", "careful")
    if not models.is_model(name):
        measuring = models.open_measuring(name, told["model"])
        asked = Asked(measuring, frame, Budget(), _style(config), config.get("size"), None)
        return lambda run: asked
    from specvet.policies.options import ModelOptions
    from specvet.policies.tokens import SamplingParams

    given = {"wording": config.get("wording"), "style": config.get("style"), "size": config.get("size")}
    manner, _ = asking.manner_for(name, told["model"], given, PUBLISHED)
    budget = Budget(max_turns=manner.max_turns, turn_tokens=manner.turn_tokens, context=manner.context)
    params = SamplingParams(manner.turn_tokens, temperature=0.0)
    urls = told["base_url"]
    options = ModelOptions(
        model=told["model"],
        adapter=config.get("adapter"),
        base_url=urls[0] if urls else None,
        more_urls=tuple(urls[1:]),
        device=told["device"],
        dtype=told["dtype"],
        branches=concurrency,
        context=manner.context,
    )
    decider = models.open_model(name, options)
    title = config.get("title")

    def opened(run: RunFolder) -> Asked:
        engine = models.opened_engine(
            stack, decider, run, budget, params, style=manner.style, images=False, concurrency=concurrency,
            wording=manner.wording, guard=True,
        )  # fmt: skip
        return Asked(engine, frame, budget, manner.style, manner.pixels, title, concurrency)

    return opened


def _style(config: Mapping[str, Any]) -> str:
    from specvet.views import REFERENCE_STYLE

    return str(config.get("style") or REFERENCE_STYLE)


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
        float, typer.Option("--below", metavar="P", help="Probability of YES below which a row is hopeless.")
    ] = 0.02,
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
    from specvet.records import RunError, RunFolder
    from specvet.vetting.prefilter import recall_of, write_recalls

    if not 0.0 < below < 0.5:
        raise CommandError(f"--below {below:g}: give a probability above 0 and under 0.5", USAGE)
    with failing(USAGE, RunError):
        folder = RunFolder.read(run)
    try:
        if folder.config.get("policy") != "line-indices":
            raise CommandError(f"{run}: was not made by line-indices, which is what a prefilter measures with", USAGE)
        truths, _ = label_truths(folder, labels, root, quiet=True)
        rows = [
            (d.task, truth.yes, d.verdict.answer, d.verdict.p_yes)
            for d in folder.decisions()
            if (truth := truths.get((folder.own_key(d.file), d.row, d.task))) is not None
        ]
    finally:
        folder.close()
    recalls = recall_of(rows, below)
    if not any(r.positives for r in recalls):
        raise CommandError(f"{labels}: none of its positives was measured in {run}", NOTHING_VETTED)
    if out is not None:
        with failing(CANNOT_WRITE, OSError):
            write_recalls(out, below, recalls, os.path.basename(labels))
    if json:
        told = [{"task": r.task, "positives": r.positives, "kept": r.kept, "recall": r.recall,
                 "interval": r.interval(), "others": r.others, "left_out": r.left_out} for r in recalls]  # fmt: skip
        print_json({"below": below, "recalls": told})
        return DONE
    _print_recalls(recalls, below)
    if out is not None:
        say(f"to use it: specvet vet … --prefilter {out}")
    return DONE


def _print_recalls(recalls: Sequence[Recall], below: float) -> None:
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
    console().print(f"line-indices below {below:g} is a NO:")
    console().print(table)
