"""`specvet data questions`: simulated questions in bulk, of all surveys and containers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli import data_bulk as bulk
from specvet.cli.console import console

if TYPE_CHECKING:
    from specvet.data.sliced import Made


def questions(
    *,
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Questions, each about an object of its own.")],
    out: bulk.Out,
    yes: bulk.Yes = 0.5,
    cross: bulk.Cross = 0.25,
    kinds: bulk.Kinds = None,
    snr: bulk.Snr = None,
    surveys: bulk.Surveys = "lamost,sdss,boss,desi",
    containers: bulk.Containers = "all",
    templates: bulk.Templates = None,
    fold: bulk.Fold = None,
    seeded: bulk.Seeded = 0.5,
    seed: bulk.Seed = 0,
    workers: bulk.Workers = None,
    quiet: bulk.Quiet = False,
    json: bulk.Json = False,
) -> int:
    """Make questions in bulk, all SIMULATED: to learn from by rewards, or to choose a model by.

    Tasks and surveys take turns, and most of the NO are what experts confuse with the class. Spectra are stored small,
    some 12 kB each. Equal commands write equal files, whatever the number of workers; Ctrl-C finishes what is under
    way, and the same command goes on.

    \b
      specvet data questions --n 10000 --out ASKED
      specvet data questions --n 10000 --templates seeds.npz --fold 2/5 --out FOLD2
      specvet train grpo --data FOLD2/questions.jsonl …

    \b
    Exit codes:
      0    the questions are there
      2    the command is wrong, or the folder holds something else
      4    the disk is full, or the folder cannot be written
      130  interrupted; what is done is kept
    """
    from specvet.data.question_sets import Draws, make_question_set

    draws = Draws(
        seed=seed,
        yes=yes,
        cross=cross,
        **bulk.drawn(kinds, snr, surveys, containers, templates),
        fold=fold,
        seeded=seeded,
    )
    make = partial(make_question_set, out, n, draws, workers=workers)
    return bulk.made_in_bulk(make, quiet, json, _print_summary)


def _print_summary(made: Made) -> None:
    from rich.table import Table

    stats = made.stats
    table = Table(box=None, pad_edge=False)
    table.add_column("task")
    for answer in ("YES", "NO"):
        table.add_column(answer, justify="right")
    for task in dict.fromkeys(name.partition(" ")[0] for name in stats["tasks"]):
        table.add_row(task, *(f"{stats['tasks'].get(f'{task} {answer}', 0):,}" for answer in ("YES", "NO")))
    out = console()
    out.print(table)
    out.print(
        f"{made.folder}: {stats['questions']:,} SIMULATED questions, {stats['seeded']:,} seeded by real spectra, "
        f"{stats['megabytes']:g} MB; {'made' if made.made else 'were made already'}",
        soft_wrap=True,
    )
    out.print("  questions.jsonl; facts.csv says what each spectrum is, stats.json counts", soft_wrap=True)
