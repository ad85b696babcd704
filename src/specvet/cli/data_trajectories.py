"""`specvet data trajectories`: a teacher's demonstrations in bulk, about simulated spectra that are not kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from specvet.cli import data_bulk as bulk
from specvet.cli.console import console
from specvet.cli.failure import USAGE, CommandError

if TYPE_CHECKING:
    from specvet.data.sliced import Made


def trajectories(
    *,
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Demonstrations.")],
    out: bulk.Out,
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
    kinds: bulk.Kinds = None,
    snr: bulk.Snr = None,
    surveys: bulk.Surveys = "lamost,sdss,boss,desi",
    templates: bulk.Templates = None,
    fold: bulk.Fold = None,
    seeded: bulk.Seeded = 0.5,
    containers: bulk.Containers = "published,native",
    yes: bulk.Yes = 0.4,
    cross: bulk.Cross = 0.0,
    seed: bulk.Seed = 0,
    workers: bulk.Workers = None,
    quiet: bulk.Quiet = False,
    json: bulk.Json = False,
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
    from specvet.data.trajectories import Settings, make_trajectories
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
        fold=fold,
        seeded=seeded,
        yes=yes,
        cross=cross,
        **bulk.drawn(kinds, snr, surveys, containers, templates),
    )
    make = partial(make_trajectories, out, n, settings, workers=workers)
    return bulk.made_in_bulk(make, quiet, json, _print_summary)


def _print_summary(made: Made) -> None:
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
