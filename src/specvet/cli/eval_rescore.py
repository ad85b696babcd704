"""`specvet eval rescore`: old trajectories under another rule; the numbers that are there stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.evaluation.rescore import Rescored


def rescore(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Campaign folder: the --out of eval run.")],
    *,
    rule: Annotated[
        str | None,
        typer.Option("--rule", metavar="NAME", help="strict, lenient, chapter or paper; lenient/1 names a version."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> int:
    """Read the answers again from the raw trajectories by another rule, and measure anew.

    No model is asked and no row changes. The new numbers stand beside the old, as metrics.RULE.json of each cell and of
    the campaign, and eval verify checks both.

    \b
    Exit codes:
      0    rescored
      2    there is no such rule, or no campaign
      4    the folder cannot be written
    """
    from specvet.cli.data_progress import shown_steps
    from specvet.data.errors import InputError
    from specvet.evaluation.folder import open_campaign
    from specvet.evaluation.rescore import rescore as score
    from specvet.evaluation.rules import RULES, UnknownRuleError
    from specvet.records.errors import RunLockedError
    from specvet.records.lock import FolderLock

    if rule is None:
        listed = "; ".join(f"{known.name}: {known.about}" for known in RULES.values())
        raise CommandError(f"--rule is missing; there are {listed}", USAGE)
    with failing(USAGE, InputError, UnknownRuleError, ValueError, RunLockedError), failing(CANNOT_WRITE, OSError):
        opened = open_campaign(Path(folder))
        lock = FolderLock(opened.path)  # the manifest has one writer
        try:
            with shown_steps(quiet or json) as progress:
                done = score(opened, rule, progress=progress)
        finally:
            lock.release()
    if json:
        print_json({"campaign": folder, "before": done.before, "after": done.after, "files": list(done.files)})
    elif not quiet:
        print_rescored(done)
    return DONE


def print_rescored(done: Rescored) -> None:
    """Both scores of each cell, side by side."""
    from rich import box
    from rich.table import Table

    out = console()
    before, after = done.before["rule"], done.after["rule"]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("policy", "set", "seed"):
        table.add_column(column, style="bold" if column == "policy" else None)
    for column in ("macro F1", "accuracy", "correct"):
        table.add_column(f"{column}\n{before}", justify="right", no_wrap=True)
        table.add_column(f"\n{after}", justify="right", no_wrap=True)
    rows = {row["cell"]: row for row in done.after["rows"]}
    for row in done.before["rows"]:
        other = rows[row["cell"]]
        cells = (_cells(row), _cells(other))
        seed = "any" if row["seed"] is None else str(row["seed"])
        table.add_row(row["label"], row["set"], seed, *(text for pair in zip(*cells, strict=True) for text in pair))
    out.print()
    out.print(table)
    out.print(f"\nWritten beside the numbers by {before}: {done.files[-1]}, and one of each cell.", soft_wrap=True)


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    def percent(interval: dict[str, Any]) -> str:
        value = interval["value"]
        return "-" if value is None else f"{100 * value:.2f}"

    correct = row["correct"]
    return percent(row["macro_f1"]), percent(row["accuracy"]), f"{correct['k']:,}/{correct['n']:,}"
