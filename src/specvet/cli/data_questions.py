"""`specvet data questions`: simulated questions in bulk, of all surveys and containers."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.data_trajectories import read_containers
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, failing
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from specvet.data.question_sets import QuestionSet
    from specvet.data.simulate.observed import SurveyName


def questions(
    *,
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Questions, each about an object of its own.")],
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="A new folder, or one that an earlier call began.")
    ],
    yes: Annotated[float, typer.Option("--yes", min=0.0, max=1.0, help="Share of the answers that are YES.")] = 0.5,
    cross: Annotated[
        float,
        typer.Option("--cross", min=0.0, max=1.0, help="Share of the NO that are members of the other classes."),
    ] = 0.25,
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
    containers: Annotated[
        str,
        typer.Option(
            "--containers",
            metavar="NAME,…",
            help="How spectra are told: all, or some of published, native, bare, harmonised, library.",
        ),
    ] = "all",
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
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed makes others.")] = 0,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores if not given.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
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
    from specvet.cli.data_simulate import read_range, read_words
    from specvet.data.errors import InputError
    from specvet.data.question_sets import Draws, make_question_set
    from specvet.records.errors import RunError

    draws = Draws(
        seed=seed,
        yes=yes,
        cross=cross,
        kinds=None if kinds is None else tuple(read_words(kinds, "--kinds")),
        snr=read_range(snr),
        surveys=cast("tuple[SurveyName, ...]", tuple(read_words(surveys, "--surveys"))),
        containers=read_containers(containers),
        templates=None if templates is None else os.path.abspath(templates),
        fold=fold,
        seeded=seeded,
    )
    with (
        failing(USAGE, InputError),
        failing(CANNOT_WRITE, OSError, RunError),
        shown_steps(quiet) as progress,
        stopped_by_signals(_stopping) as stop,
    ):
        made = make_question_set(out, n, draws, workers=workers, progress=progress, stop=stop)
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


def _print_summary(made: QuestionSet) -> None:
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


def _stopping() -> None:
    # A handler must not enter a stream that is being written.
    os.write(2, b"specvet: finishing what is under way; Ctrl-C again aborts\n")
