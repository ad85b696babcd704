"""Lists of ids as people have them: CSV, ECSV, FITS, VOTable and Parquet tables, and plain text with an id a line.

Every value is handed on as text. Integers keep all their digits, signed or not; a floating-point number that cannot
hold its id any more is left as it is written, so that whoever reads it can say so.
"""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from specvet.catalogue.getting.asks import AskError
from specvet.spectra.readers.votables import parsed_votable

Entry = tuple[str, dict[str, str]]
"""Where it stands (`list.csv line 3`), and its columns in lower case; a list without a header has one column, `id`."""


def is_list(argument: str) -> bool:
    """Whether an argument of the command line is a list: a file that exists, or one named with @."""
    return argument.startswith("@") or os.path.isfile(argument)


def given(arguments: Iterable[str]) -> Iterator[tuple[str, str | dict[str, str]]]:
    """All that the command line asks for, lists opened: (as written or where it stands, id or row).

    Raises `AskError` for a list that cannot be read.
    """
    for argument in arguments:
        if is_list(argument):
            yield from entries(argument)
        else:
            yield argument, argument


def entries(path: str) -> Iterator[Entry]:
    """The rows of a list, in its order. Raises `AskError` for a file that is none."""
    file = Path(path.removeprefix("@"))
    try:
        with open(file, "rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise AskError(f"{file}: {error.strerror}") from None
    if head.startswith(b"PAR1"):
        return _parquet(file)
    if head.startswith(b"SIMPLE  ="):
        return _table(file, "fits")
    if b"<VOTABLE" in head[:2048]:
        return _table(file, "votable")
    if b"\0" in head or head.startswith(b"\x1f\x8b"):
        raise AskError(f"{file}: is no list; give CSV, FITS, VOTable, Parquet or text (unpack it where it is packed)")
    return _text(file)


def _table(file: Path, kind: str) -> Iterator[Entry]:
    from astropy.table import Table

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _votable(file) if kind == "votable" else Table.read(file, format=kind)
    except Exception as error:  # astropy raises almost anything for damaged files
        raise AskError(f"{file}: cannot be read as a table: {error}") from None
    names = [str(name) for name in found.colnames if found[name].ndim == 1]
    columns = {name.lower(): found[name].tolist() for name in names}
    yield from _rows(file.name, "row", columns)


def _votable(file: Path) -> Any:
    return parsed_votable(file).get_first_table().to_table(use_names_over_ids=True)


def _parquet(file: Path) -> Iterator[Entry]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parts:
            start = 1
            for batch in parts.iter_batches(10_000):
                columns = {str(name).lower(): batch.column(name).to_pylist() for name in batch.schema.names}
                yield from _rows(file.name, "row", columns, start)
                start += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise AskError(f"{file}: a damaged Parquet file: {str(error).splitlines()[0]}") from None


def _rows(name: str, what: str, columns: dict[str, list[Any]], start: int = 1) -> Iterator[Entry]:
    for number, values in enumerate(zip(*columns.values(), strict=True), start):
        yield f"{name} {what} {number}", dict(zip(columns, map(_as_text, values), strict=True))


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, float) and abs(value) >= 2**53:
        return f"{value:e}"  # its digits would look like an id
    return str(value).strip()


def _text(file: Path) -> Iterator[Entry]:
    """A header is a first line without digits; a delimiter is what splits it into the most fields."""
    with open(file, encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = [
            (number, line.strip())
            for number, line in enumerate(stream, 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
    if not lines:
        return
    header = lines[0][1]
    delimiter = max((",", "\t", ";", "|"), key=header.count)
    if delimiter not in header:
        delimiter = " "
    names = [name.strip().lower() for name in _fields(header, delimiter)]
    if not all(re.fullmatch(r"[a-z_][a-z_]*\d?[a-z_]*", name) for name in names):
        for number, line in lines:
            yield f"{file.name} line {number}", {"id": _fields(line, delimiter)[0]}
        return
    for number, line in lines[1:]:
        values = [value.strip() for value in _fields(line, delimiter)]
        yield f"{file.name} line {number}", dict(zip(names, values, strict=False))


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [""])
