"""`specvet report`: a run as one HTML page."""

from __future__ import annotations

from typing import Annotated

import typer

from specvet.cli.export import answer_words, task_keys
from specvet.cli.failure import CANNOT_WRITE, USAGE, failing


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet made.")],
    *,
    out: Annotated[
        str | None, typer.Option("--out", help="Page to write; by default report.html in the run folder.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd.")] = None,
    answer: Annotated[str | None, typer.Option("--answer", help="Only spectra with these answers: YES,UNSURE.")] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="Only N spectra: YES first, then UNSURE, then the rest."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Show it in the browser.")] = False,
) -> None:
    """Write a run as one self-contained HTML page.

    It shows every spectrum, zoom, measurement and reason, and needs no network. Spectra are read again for their
    pictures; for a long run choose what to show, as in --answer YES,UNSURE --limit 500.
    """
    from pathlib import Path

    from specvet.records import RunError
    from specvet.vetting.report import write_report

    target = Path(out) if out is not None else Path(run) / "report.html"
    tasks, answers = task_keys(task), answer_words(answer)
    with failing(CANNOT_WRITE, OSError), failing(USAGE, RunError):
        page = write_report(Path(run), target, answers=answers, tasks=tasks, limit=limit)
    print(page)
    if open_page:
        typer.launch(str(page))
