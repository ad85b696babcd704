"""`specvet report`: a run as one HTML page."""

from __future__ import annotations

from typing import Annotated

import typer

from specvet.cli.console import say
from specvet.cli.export import answer_words, task_keys
from specvet.cli.failure import CANNOT_WRITE, USAGE, failing

DEFAULT_LIMIT = 300
"""Spectra: a page of 15 to 30 MB, which browsers still open in a moment."""


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet made.")],
    *,
    out: Annotated[
        str | None, typer.Option("--out", help="Page to write; by default report.html in the run folder.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd.")] = None,
    answer: Annotated[str | None, typer.Option("--answer", help="Only spectra with these answers: YES,UNSURE.")] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", min=0, metavar="N", help="At most N spectra: YES first, then UNSURE, then the rest; 0 for all."
        ),
    ] = DEFAULT_LIMIT,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Show it in the browser.")] = False,
) -> None:
    """Write a run as one self-contained HTML page.

    It shows each spectrum with every zoom, measurement and reason, and needs no network. Spectra are read again for
    their pictures. Of a long run it shows the most urgent, and says how many it leaves out; the counts are always of
    all. A spectrum takes some 50 to 100 kB of the page: choose, as in --answer YES,UNSURE --limit 1000.
    """
    from pathlib import Path

    from specvet.records import RunError
    from specvet.vetting.report import write_report

    target = Path(out) if out is not None else Path(run) / "report.html"
    tasks, answers = task_keys(task, run), answer_words(answer)
    with failing(CANNOT_WRITE, OSError), failing(USAGE, RunError):
        page = write_report(Path(run), target, answers=answers, tasks=tasks, limit=limit or None, tell=say)
    print(page)
    if open_page:
        typer.launch(str(page))
