"""What a list of spectra is, whatever table it stands in, and the values of tables as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SPECTRAL = re.compile(
    r"(log)?-?(lam|wav|wl|lambda|angstrom|nm|flux|ivar|counts|intensity|freq|energy).*", re.IGNORECASE
)
"""Column names by which a table is a spectrum."""

Row = tuple[str, "list[str] | str"]
"""Where it stands (`line 17`), and its values, or what is wrong with it."""


@dataclass(frozen=True)
class ListTable:
    """A list of spectra: its columns, and a way to go through its rows."""

    path: str
    columns: tuple[str, ...]
    rows: Callable[[Sequence[int]], Iterator[Row]]
    """Rows, from the first, with the values of the asked columns."""
    count: Callable[[], int | None]


@dataclass(frozen=True)
class Unrecognised:
    """A table that says nowhere where spectra are; it may be a spectrum that only its reader knows."""

    message: str


def array_rows(columns: list[Any], n: int, step: int = 10_000) -> Iterator[Row]:
    for start in range(0, n, step):
        chunk = [c[start : start + step].tolist() for c in columns]
        for number, row in enumerate(zip(*chunk, strict=True), start + 1):
            yield f"row {number}", [as_text(v) for v in row]


def as_text(value: object) -> str:
    """A table's value as it would be written; empty for null and masked."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape").strip().strip("\0")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # a whole number that the column's type made a float
    return str(value).strip()
