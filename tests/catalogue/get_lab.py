"""What tests of `specvet get` do alike: get into a folder, and look into it."""

from __future__ import annotations

import csv
from contextlib import closing
from pathlib import Path

from specvet.catalogue.getting import Ask, Folder, Outcome, get

waits: list[float] = []
"""Seconds that the last call would have waited, one after another."""


def fetch(asks: list[Ask], out: Path, url: str, **options: object) -> Outcome:
    """Get them, with waits that are only noted."""
    waits.clear()
    with closing(Folder(out)) as folder:
        return get(asks, folder, url, wait=waits.append, **{"timeout": 5.0, "connections": 1} | options)  # type: ignore[arg-type]


def kinds(outcome: Outcome) -> list[str]:
    return [str(got.kind) for got in outcome.found]


def listed(out: Path) -> list[dict[str, str]]:
    with open(out / "get.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def files_in(out: Path) -> set[str]:
    """Files with a name that a reader would find."""
    return {p.relative_to(out).as_posix() for p in out.rglob("*.fits*") if ".get" not in p.parts}
