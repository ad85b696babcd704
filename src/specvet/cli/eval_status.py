"""`specvet eval status`: how far a campaign is, also while another process works on it."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json
from specvet.cli.failure import DONE, INTERRUPTED, NOTHING_VETTED, USAGE, failing

if TYPE_CHECKING:
    from specvet.evaluation.status import CampaignStatus, CellStatus


def status(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Campaign folder: the --out of eval run.")],
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Show it until every cell is complete.")] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.1, metavar="S", help="Seconds between two looks of --watch.")
    ] = 5.0,
    fail_if_incomplete: Annotated[
        bool, typer.Option("--fail-if-incomplete", help="Exit with 1 unless every cell is complete.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout; with --watch one a look, on a line each.")
    ] = False,
) -> int:
    """Show how far a campaign is: rows on disk, those that a server or a file ended, rate and time left.

    Nothing is written and nothing is waited for: it may be asked while eval run works.

    \b
    Exit codes:
      0    shown
      1    some cell is not complete (with --fail-if-incomplete)
      2    the folder holds no campaign
    """
    from specvet.data.errors import InputError
    from specvet.records import RunError

    with failing(USAGE, InputError, RunError, OSError, ValueError):
        try:
            found = _watched(folder, every, json) if watch else _shown(folder, json)
        except KeyboardInterrupt:
            return INTERRUPTED
    complete = found is not None and found.complete
    return NOTHING_VETTED if fail_if_incomplete and not complete else DONE


def _look(folder: str) -> CampaignStatus | None:
    """None for a campaign of which nothing but its lock is there yet."""
    from specvet.evaluation.folder import CAMPAIGN, open_campaign
    from specvet.evaluation.status import status as look

    path = Path(folder)
    if not (path / CAMPAIGN).is_file() and (path / "run.lock").exists():
        return None
    return look(open_campaign(path))


def _shown(folder: str, json: bool) -> CampaignStatus | None:
    found = _look(folder)
    if json:
        print_json(as_json(folder, found))
    else:
        console().print(_table(folder, found), soft_wrap=found is None)
    return found


def _watched(folder: str, every: float, json: bool) -> CampaignStatus:
    from rich.live import Live

    if json or not console().is_terminal:
        while True:
            found = _shown(folder, json)
            if found is not None and found.complete:
                return found
            time.sleep(every)
    with Live(console=console(), auto_refresh=False) as live:
        while True:
            found = _look(folder)
            live.update(_table(folder, found), refresh=True)
            if found is not None and found.complete:
                return found
            time.sleep(every)


def as_json(folder: str, found: CampaignStatus | None) -> dict[str, Any]:
    """The one object of `--json`."""
    if found is None:
        return {"campaign": folder, "complete": False, "cells": []}
    return {
        "campaign": folder,
        "name": found.name,
        "at": found.at,
        "complete": found.complete,
        "sealed": found.sealed,
        "rows": found.rows,
        "questions": found.questions,
        "machinery": found.machinery,
        "rows_per_second": found.rate,
        "seconds_left": found.seconds_left,
        "cells": [asdict(cell) for cell in found.cells],
    }


def _table(folder: str, found: CampaignStatus | None) -> Any:
    from rich import box
    from rich.console import Group
    from rich.table import Table

    if found is None:
        return f"{folder}: no cell has begun; eval run is still reading or making the question sets"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("policy", "set", "seed"):
        table.add_column(column, style="bold" if column == "policy" else None)
    for column in ("rows", "of", "by machinery", "rows/s", "left"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state")
    for cell in found.cells:
        table.add_row(*_row(cell, found.at))
    return Group("", table, "", totals(found))


def _row(cell: CellStatus, at: str) -> tuple[str, ...]:
    from specvet.cli.progress import duration, rate_text

    moving = cell.rate > 0 and not cell.sealed
    return (
        cell.policy,
        cell.set,
        "any" if cell.seed is None else str(cell.seed),
        f"{cell.rows:,}",
        "?" if cell.questions is None else f"{cell.questions:,}",
        f"{cell.machinery:,}" if cell.machinery else "-",
        rate_text(cell.rate) if moving else "-",
        duration(cell.left / cell.rate) if moving and cell.left is not None else "-",
        _state(cell, at),
    )


def _state(cell: CellStatus, at: str) -> str:
    from datetime import datetime

    from specvet.cli.progress import duration

    if cell.problem:
        return f"cannot be read: {cell.problem}"
    if cell.sealed:
        return "complete"
    if not cell.folder:
        return "not begun"
    if cell.rows == cell.questions:
        return "all rows there, to be sealed by eval run"
    if not cell.newest:
        return "begun, no row yet"
    ago = (datetime.fromisoformat(at) - datetime.fromisoformat(cell.newest)).total_seconds()
    return f"newest row {duration(max(0.0, ago))} ago"


def totals(found: CampaignStatus) -> str:
    """`3 of 6 cells complete; 812 of 1,200 rows, 2 of them ended by machinery; 4.2 rows a second, about 2 min left.`"""
    from specvet.cli.progress import duration, rate_text

    of = "" if found.questions is None else f" of {found.questions:,}"
    told = f"{found.sealed} of {len(found.cells)} cells complete; {found.rows:,}{of} rows"
    if found.machinery:
        told += f", {found.machinery:,} of them ended by a server or a file (they count as wrong)"
    if found.rate and not found.complete:
        told += f"; {rate_text(found.rate)} rows a second"
        if found.seconds_left is not None:
            told += f", about {duration(found.seconds_left)} left at this rate"
    return f"{told}."
