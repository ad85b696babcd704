"""`specvet data suite`: simulated question sets by other surveys and about other classes than SimVI's."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, failing

if TYPE_CHECKING:
    from specvet.data.suites.building import SuiteFolder


def suite(
    *,
    name: Annotated[
        Literal["cross-survey", "cross-task"],
        typer.Argument(metavar="SUITE", help="cross-survey or cross-task.", show_default=False),
    ],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A new folder.")],
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Objects, shared among the tasks.")] = 1_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed is another suite.")] = 0,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores if not given.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Make a suite to measure transfer with, SIMULATED throughout.

    cross-survey: the same objects as LAMOST, SDSS and DESI see them, three questions an object, about the five built-in
    tasks. cross-task: LAMOST spectra and questions about M dwarfs, Be stars, hot subdwarfs, quasars and T Tauri stars,
    with task files of their own. 17 % are members of the class; of the others most are what experts confuse with it.

    \b
      specvet data suite cross-survey --n 1000 --out CROSS
      specvet eval run CROSS/questions.jsonl --facts CROSS/facts.csv --policy line-indices --out RUN
    """
    from specvet.data.errors import InputError
    from specvet.data.suites.building import make_suite

    try:
        with failing(USAGE, InputError), failing(CANNOT_WRITE, OSError), shown_steps(quiet) as progress:
            made = make_suite(out, name, n, seed=seed, workers=workers, progress=progress)
    except KeyboardInterrupt:
        say("stopped; a suite is kept whole or not at all, so the same command begins again")
        return INTERRUPTED
    if json:
        print_json(
            {
                "simulated": True,
                "folder": str(made.folder),
                "suite": made.suite,
                "objects": made.objects,
                "questions": made.questions,
                "yes": made.yes,
                "made": made.made,
            }
        )
    elif not quiet:
        for line in _summary(made):
            console().print(line, soft_wrap=True)
    return DONE


def _summary(made: SuiteFolder) -> list[str]:
    yes = ", ".join(f"{task} {count:,}" for task, count in made.yes.items())
    facts = str(made.folder / "facts.csv")
    said = "made" if made.made else "was made already"
    return [
        f"{made.folder}: {made.suite}, {made.questions:,} questions about {made.objects:,} SIMULATED objects; {said}",
        f"  questions.jsonl  answers YES: {yes}",
        "  facts.csv        what each spectrum is",
        f"Next: specvet eval run {shlex.quote(str(made.path))} --facts {shlex.quote(facts)} --policy line-indices "
        "--out RUN",
    ]
