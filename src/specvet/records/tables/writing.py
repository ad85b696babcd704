"""`write_table`: a sheet and its cells into a file of one of the formats."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal, cast

from specvet.records.tables.cells import Cells
from specvet.records.tables.ecsv import write_ecsv
from specvet.records.tables.fits_table import write_fits
from specvet.records.tables.sheet import Sheet
from specvet.records.tables.votable import write_votable

TableFormat = Literal["fits", "votable", "ecsv"]

FORMATS: dict[TableFormat, tuple[str, ...]] = {
    "fits": (".fits", ".fit"),
    "votable": (".vot", ".votable", ".xml"),
    "ecsv": (".ecsv",),
}
"""Suffixes of each format; `.gz` may follow."""

_WRITERS: dict[TableFormat, Callable[[IO[bytes], Sheet, Cells], list[str]]] = {
    "fits": write_fits,
    "votable": write_votable,
    "ecsv": write_ecsv,
}


def table_format(name: str) -> TableFormat | None:
    """The format that a file's suffix asks for, or None."""
    plain = name.lower().removesuffix(".gz")
    return next((kind for kind, suffixes in FORMATS.items() if plain.endswith(suffixes)), None)


def write_table(path: Path, kind: TableFormat, sheet: Sheet, cells: Cells, *, packed: bool = False) -> list[str]:
    """Write a table to a file that must not exist yet; `packed` with gzip. Memory does not grow with the rows.

    Returns notices, for people, of what the format or its usual readers cannot hold of these cells.
    """
    with open(path, "xb") as plain:
        if not packed:
            return _WRITERS[kind](plain, sheet, cells)
        # No name and no time in it: the same table is the same file.
        with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0, compresslevel=6) as f:
            return _WRITERS[kind](cast("IO[bytes]", f), sheet, cells)
