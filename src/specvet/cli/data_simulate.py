"""`specvet data simulate`: a simulated survey in native files, with the truth and questions."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, CommandError, failing
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from specvet.data.simulate.survey_files import Survey


def simulate(
    *,
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Objects; a few have several spectra.")],
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="A new folder, or one that an earlier call began.")
    ],
    survey: Annotated[
        Literal["lamost", "sdss", "boss", "desi", "all"],
        typer.Option("--survey", help="Whose files; all takes the four in turn."),
    ] = "lamost",
    kinds: Annotated[
        str | None,
        typer.Option("--kinds", metavar="KIND,…", help="As in cv,wd.DA,m_dwarf; all if not given, most being common."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed is another survey.")] = 0,
    snr: Annotated[
        str | None,
        typer.Option("--snr", metavar="LOW-HIGH", help="As in 5-50; as the survey has it if not given."),
    ] = None,
    tasks: Annotated[
        str, typer.Option("--tasks", metavar="TASK,…", help="What questions.jsonl asks of every spectrum.")
    ] = "cc,cv,gm,ss,wd",
    templates: Annotated[
        str | None,
        typer.Option("--templates", metavar="FOLDER", help="Real spectra with a manifest.csv that seed some sources."),
    ] = None,
    release: Annotated[
        str,
        typer.Option("--release", metavar="DR", help="Of LAMOST's layout: dr2 to dr8 an image, dr9 to dr11 a table."),
    ] = "dr9",
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores if not given.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Simulate a survey: native files, truth.csv and questions.jsonl, all labelled SIMULATED.

    The five classes with their sub-types, and what is taken for them. Equal commands write equal files, whatever the
    number of workers. What is finished is not done again: Ctrl-C finishes what is under way, and the same command goes
    on. The folder may be moved.

    \b
      specvet data simulate --n 1000 --out SIM
      specvet data simulate --survey desi --n 200 --kinds cv,wd.DA --snr 5-30 --out SIM-DESI

    \b
    Exit codes:
      0    the survey is there
      2    the command is wrong, or the folder holds something else
      4    the disk is full, or the folder cannot be written
      130  interrupted; what is done is kept
    """
    from specvet.data.errors import InputError
    from specvet.data.processes import cores
    from specvet.data.simulate.survey_files import write_survey

    processes = workers or cores()
    with (
        failing(USAGE, InputError),
        failing(CANNOT_WRITE, OSError),
        shown_steps(quiet) as progress,
        stopped_by_signals(_stopping) as stop,
    ):
        made = write_survey(
            out,
            n,
            survey,
            seed,
            kinds=read_words(kinds, "--kinds") if kinds is not None else None,
            snr=read_range(snr),
            templates=templates,
            release=release.lower(),
            tasks=read_words(tasks, "--tasks"),
            workers=processes,
            progress=progress,
            stop=stop,
        )
    if json:
        print_json(
            {
                "simulated": True,
                "folder": str(made.folder),
                "objects": made.objects,
                "spectra": made.spectra,
                "yes": made.yes,
                "made": made.made,
                "finished": made.finished,
            }
        )
    if not made.finished:
        if not quiet:
            told = shlex.join(["specvet", *sys.argv[1:]])
            say(f"stopped; {made.objects:,} of {n:,} objects are in {out}. To go on: {told}")
        return INTERRUPTED
    if not quiet and not json:
        _print_summary(made)
    return DONE


def _print_summary(made: Survey) -> None:
    done = "made" if made.made else "was made already"
    yes = ", ".join(f"{task} {count:,}" for task, count in made.yes.items())
    lines = [
        f"{made.folder}: {made.spectra:,} SIMULATED spectra of {made.objects:,} objects; {done}",
        f"  spectra/         native files; spectra that answer YES: {yes}",
        "  truth.csv        what each is, one row a spectrum",
        "  questions.jsonl  one question a spectrum and task, with answers",
        f"Next: specvet vet {shlex.quote(str(made.folder / 'truth.csv'))} --task all --out RUN",
    ]
    out = console()
    for line in lines:
        out.print(line, soft_wrap=True)


def read_words(text: str, option: str) -> list[str]:
    """Names with commas between."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise CommandError(f"{option} {text!r} names nothing; give names with commas between", USAGE)
    return words


def read_range(text: str | None) -> tuple[float, float] | None:
    """`5-50` or `5` of `--snr`."""
    if text is None:
        return None
    low, _, high = text.partition("-")
    try:
        return float(low), float(high or low)
    except ValueError:
        raise CommandError(f"--snr {text}: give two numbers, as in --snr 5-50", USAGE) from None


def _stopping() -> None:
    # A handler must not enter a stream that is being written.
    os.write(2, b"specvet: finishing what is under way; Ctrl-C again aborts\n")
