"""`specvet export`: a run's verdicts as a table."""

from __future__ import annotations

from typing import Annotated

import typer

from specvet.cli.console import say
from specvet.cli.failure import CANNOT_WRITE, USAGE, CommandError, failing


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet made.")],
    out: Annotated[str, typer.Option("--out", help="File to write; - writes CSV to standard output.")],
    format: Annotated[
        str | None, typer.Option("--format", metavar="csv|parquet", help="By default, as the suffix of --out says.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd.")] = None,
    answer: Annotated[
        str | None,
        typer.Option("--answer", help="Only these answers, as in YES,UNSURE."),
    ] = None,
) -> None:
    """Write a run's verdicts to CSV or Parquet.

    One row for each spectrum and task: file, row, id, task, answer, confidence, reason, then the probability of YES, a
    likelier class, the evidence with measured values, the windows looked at, and what the file says of itself. Answers
    are YES, NO, UNSURE, NO_DATA, FAILED or ERROR. Identifiers are text. An unreadable file is one row, of the task *.
    """
    from specvet.records import RunError
    from specvet.vetting.export import ExportError
    from specvet.vetting.export import export as write

    answers = answer_words(answer)
    if format not in (None, "csv", "parquet"):
        raise CommandError(f"--format {format}: choose csv or parquet", USAGE)
    with failing(CANNOT_WRITE, OSError), failing(USAGE, ExportError, RunError):
        n = write(run, out, format, tasks=task_keys(task), answers=answers)  # type: ignore[arg-type]
    if out != "-":
        say(f"wrote {n:,} rows to {out}")


def task_keys(names: str | None) -> list[str] | None:
    """Keys of tasks as people write them; what is no built-in task may be a key of the user's own."""
    if names is None:
        return None
    from specvet.tasks import TaskError, load_task

    keys = []
    for name in filter(None, (n.strip() for n in names.split(","))):
        try:
            keys.append(load_task(name).key)
        except TaskError:
            keys.append(name)
    return keys


def answer_words(answers: str | None) -> list[str] | None:
    """The answers in `yes,UNSURE`."""
    from specvet.records.schema import Answer

    if answers is None:
        return None
    words = [a.strip().upper() for a in answers.split(",") if a.strip()]
    for word in words:
        if word not in list(Answer):
            raise CommandError(f"--answer {word}: choose from {', '.join(Answer)}", USAGE)
    return words
