"""`specvet data trajectories`: a teacher's demonstrations in bulk, about simulated spectra that are not kept."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, CommandError, failing
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from specvet.data.drawing import Container
    from specvet.data.simulate.observed import SurveyName
    from specvet.data.trajectories import Trajectories


def trajectories(
    *,
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Demonstrations.")],
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="A new folder, or one that an earlier call began.")
    ],
    voice: Annotated[
        Literal["full", "terse"],
        typer.Option("--voice", help="full talks as people do, terse is for small models."),
    ] = "full",
    wording: Annotated[
        Literal["full", "short"],
        typer.Option("--wording", help="Of the questions: full tells the task, short only names it."),
    ] = "full",
    style: Annotated[
        str, typer.Option("--style", help="Of the figures: compact (fast, small) or reference (as published).")
    ] = "compact",
    picture_size: Annotated[
        str | None,
        typer.Option("--picture-size", metavar="SIZE", help="Of compact figures: small, published, tiny or WxH."),
    ] = None,
    zoom: Annotated[
        bool, typer.Option("--zoom/--no-zoom", help="Look at windows, or answer at once from the whole view.")
    ] = True,
    kinds: Annotated[
        str | None,
        typer.Option("--kinds", metavar="KIND,…", help="As in cv,wd.DA,m_dwarf; all if not given."),
    ] = None,
    snr: Annotated[
        str | None, typer.Option("--snr", metavar="LOW-HIGH", help="As in 3-60; as the survey has it if not given.")
    ] = None,
    surveys: Annotated[
        str, typer.Option("--surveys", metavar="SURVEY,…", help="Taken in turn.")
    ] = "lamost,sdss,boss,desi",
    templates: Annotated[
        str | None,
        typer.Option("--templates", metavar="PLACE", help="Real spectra that seed some sources: a folder or a file."),
    ] = None,
    fold: Annotated[
        str | None,
        typer.Option("--fold", metavar="K/N", help="Real objects of this part seed nothing, as in 2/5; none: all do."),
    ] = None,
    seeded: Annotated[
        float, typer.Option("--seeded", min=0.0, max=1.0, help="With --fold: share of sources that they seed.")
    ] = 0.5,
    containers: Annotated[
        str,
        typer.Option(
            "--containers", metavar="NAME,…", help="How spectra are told: all, or some of them; see the docs."
        ),
    ] = "published,native",
    yes: Annotated[float, typer.Option("--yes", min=0.0, max=1.0, help="Share of the answers that are YES.")] = 0.4,
    cross: Annotated[
        float,
        typer.Option("--cross", min=0.0, max=1.0, help="Share of the NO that are members of the other classes."),
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed makes others.")] = 0,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores if not given.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Make demonstrations in bulk, all SIMULATED: what a small model learns to look and answer from.

    Tasks and surveys take turns; two in five answers are YES, and most of the others are confusers. Equal commands
    write equal files, whatever the number of workers; Ctrl-C finishes what is under way, and the same command goes on.

    \b
      specvet data trajectories --n 20000 --voice terse --wording short --picture-size tiny --out DEMOS
      specvet data trajectories --n 20000 --voice terse --wording short --picture-size tiny --no-zoom --out WHOLE
      specvet data trajectories --n 20000 --templates seeds.npz --fold 2/5 --containers all --out FOLD2

    \b
    Exit codes:
      0    the demonstrations are there
      2    the command is wrong, or the folder holds something else
      4    the disk is full, or the folder cannot be written
      130  interrupted; what is done is kept
    """
    from specvet.cli.data_simulate import read_range, read_words
    from specvet.data.errors import InputError
    from specvet.data.trajectories import Settings, make_trajectories
    from specvet.records.errors import RunError
    from specvet.views import check_style
    from specvet.views import picture_size as size_of

    try:
        style = check_style(style, size_of(picture_size))
    except ValueError as e:
        raise CommandError(str(e), USAGE) from e
    settings = Settings(
        seed=seed,
        voice=voice,
        wording=wording,
        style=style,
        picture_size=picture_size,
        zoom=zoom,
        kinds=None if kinds is None else tuple(read_words(kinds, "--kinds")),
        snr=read_range(snr),
        surveys=cast("tuple[SurveyName, ...]", tuple(read_words(surveys, "--surveys"))),
        templates=None if templates is None else os.path.abspath(templates),
        fold=fold,
        seeded=seeded,
        containers=read_containers(containers),
        yes=yes,
        cross=cross,
    )
    with (
        failing(USAGE, InputError),
        failing(CANNOT_WRITE, OSError, RunError),
        shown_steps(quiet) as progress,
        stopped_by_signals(_stopping) as stop,
    ):
        made = make_trajectories(out, n, settings, workers=workers, progress=progress, stop=stop)
    if json:
        told = {"simulated": True, "folder": str(made.folder), "made": made.made, "finished": made.finished}
        print_json(told | {"stats": dict(made.stats)})
    if not made.finished:
        if not quiet:
            say(f"stopped; what is done is kept. To go on: {shlex.join(['specvet', *sys.argv[1:]])}")
        return INTERRUPTED
    if not quiet and not json:
        _print_summary(made)
    return DONE


def read_containers(text: str) -> tuple[Container, ...]:
    """`all`, or names."""
    from specvet.cli.data_simulate import read_words
    from specvet.data.drawing import CONTAINERS

    return (
        CONTAINERS if text.strip() == "all" else cast("tuple[Container, ...]", tuple(read_words(text, "--containers")))
    )


def _print_summary(made: Trajectories) -> None:
    stats = made.stats
    refused = {kind: sum(reasons.values()) for kind, reasons in stats["refused"].items()}
    worst = sorted(refused, key=lambda kind: (-refused[kind], kind))[:5]
    calls = ", ".join(f"{name} {mean:g}" for name, mean in stats["mean_calls"].items())
    lines = [
        f"{made.folder}: {stats['demonstrations']:,} SIMULATED demonstrations; "
        f"{'made' if made.made else 'were made already'}",
        f"  trajectories.jsonl  {stats['yes']:,} answer YES; their pictures lie in pictures/",
        f"  calls               {calls}",
        f"  refused             {sum(refused.values()):,} drafts, most of them of "
        f"{', '.join(f'{kind} ({refused[kind]:,})' for kind in worst) or 'no kind'}",
        *([f"  seeded              {n:,} of them by real spectra"] if (n := stats.get("seeded", 0)) else []),
        "  truth.csv           what each spectrum is; stats.json counts",
    ]
    out = console()
    for line in lines:
        out.print(line, soft_wrap=True)


def _stopping() -> None:
    # A handler must not enter a stream that is being written.
    os.write(2, b"specvet: finishing what is under way; Ctrl-C again aborts\n")
