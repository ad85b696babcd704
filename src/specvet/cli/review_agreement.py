"""What `specvet review agreement` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specvet.cli.console import console, print_json

if TYPE_CHECKING:
    from specvet.review.desk import Desk

MOST_SHOWN = 20


def print_agreement(desk: Desk, *, as_json: bool) -> None:
    """Tables for people, or one JSON object a task."""
    from specvet.review.agreement import agreement, waiting

    for task in desk.listing.tasks:
        found, conflicts = agreement(desk, task.key), waiting(desk, task.key)
        if as_json:
            listed = [
                {"item": item, "id": votes[0].id, "file": votes[0].file, "row": votes[0].row, "why": why}
                | {"votes": {v.reviewer: v.verdict for v in votes}}
                for item, why, votes in conflicts
            ]
            print_json(found | {"waiting": listed})
        elif found["n_voted"]:
            _print_task(found, conflicts)
        else:
            console().print(f"{task.key}: nobody has decided anything yet")


def _print_task(found: dict[str, Any], conflicts: list[tuple[str, str, list[Any]]]) -> None:
    from rich.table import Table

    screen = console()
    people = Table(title=f"{found['task']}: votes", title_justify="left")
    for name in ("reviewer", "votes", "YES", "NO", "UNSURE", "flagged"):
        people.add_column(name, justify="left" if name == "reviewer" else "right")
    for one in found["reviewers"]:
        people.add_row(one["name"], *(f"{one[k]:,}" for k in ("votes", "YES", "NO", "UNSURE", "flagged")))
    screen.print(people)
    if found["pairs"]:
        pairs = Table(title="pairs", title_justify="left")
        for name in ("reviewers", "both", "agree", "Cohen's kappa", "95 %"):
            pairs.add_column(name, justify="left" if name == "reviewers" else "right")
        for pair in found["pairs"]:
            interval = "" if pair["low"] is None else f"{pair['low']:.2f} to {pair['high']:.2f}"
            row = (
                f"{pair['a']}, {pair['b']}",
                f"{pair['n']:,}",
                f"{pair['agree']:.1%}",
                _number(pair["kappa"]),
                interval,
            )
            pairs.add_row(*row)
        screen.print(pairs)
    alpha = _number(found["alpha"])
    if found["alpha_low"] is not None:
        alpha += f" ({found['alpha_low']:.2f} to {found['alpha_high']:.2f})"
    screen.print(f"Krippendorff's alpha {alpha}, Fleiss' kappa {_number(found['fleiss'])}")
    screen.print(
        f"{found['n_two']:,} of {found['n_voted']:,} spectra with two votes or more: {found['agreed']:,} agreed, "
        f"{found['conflicts']:,} in conflict, {found['settled']:,} settled by a third look"
    )
    if conflicts:
        table = Table(title="waiting for a third look", title_justify="left")
        for name in ("id", "about", "votes"):
            table.add_column(name, overflow="fold")
        for _, why, votes in conflicts[:MOST_SHOWN]:
            table.add_row(votes[0].id, why, ", ".join(f"{v.reviewer} {v.verdict}" for v in votes))
        screen.print(table)
        if len(conflicts) > MOST_SHOWN:
            screen.print(f"and {len(conflicts) - MOST_SHOWN:,} more; --json lists all")


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"
