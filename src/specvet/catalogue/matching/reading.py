"""Columns of a table file, whatever its format: CSV and other text, ECSV, FITS, VOTable, Parquet.

Text is read as text, so that an id of 19 digits keeps them; numbers are made of it later, column by column.
"""

from __future__ import annotations

import csv
import gzip
import io
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO, cast

import numpy as np

from specvet.data.errors import InputError
from specvet.spectra.readers.votables import parsed_votable

NULLS = ("", "nan", "NaN", "null", "NULL", "None", "--", "N/A", "n/a", "NA", "<NA>", "masked", "-")


Wanted = Callable[[Sequence[str]], Sequence[str]]
"""Chooses columns among the names of a table; may raise for what is missing."""

_HEAD_LINES = 4_000
"""Lines among which the header of a text table must be."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A table as its file holds it."""

    names: list[str]
    """Of its one-dimensional columns."""
    n: int
    """Rows."""
    get: Callable[[str], np.ma.MaskedArray[Any, Any]]
    """A column by name: numbers, or text as objects; what is missing is masked."""
    units: dict[str, str] = field(default_factory=dict)


def read_columns(path: str, wanted: Wanted) -> Columns:
    """The columns of `path` that `wanted` chooses among its names; it may raise for what is missing.

    Raises `InputError` for a file that is no table or is damaged, `OSError`.
    """
    with open(path, "rb") as f:
        head = f.read(4096)
    if not head:
        raise InputError(f"{path}: is an empty file")
    try:
        return _read(path, head, wanted)
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise InputError(f"{path}: a damaged gzip file: {e}") from None


def _read(path: str, head: bytes, wanted: Wanted) -> Columns:
    if head.startswith(b"\x1f\x8b"):
        with gzip.open(path, "rb") as f:
            head = f.read(4096)
    if head.startswith(b"PAR1"):
        return _parquet(path, wanted)
    if head.startswith(b"SIMPLE  ="):
        return _astropy(path, _loaded(path, _fits_table), wanted)
    if b"<VOTABLE" in head:
        return _astropy(path, _loaded(path, _votable), wanted)
    if b"\0" in head:
        raise InputError(f"{path}: is no table; give CSV, ECSV, FITS, VOTable or Parquet")
    return _text(path, wanted)


def numbers(path: str, name: str, values: np.ma.MaskedArray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A column as float64, nan where it is missing. Raises `InputError` at the first that is no number."""
    if values.dtype.kind in "fiub":
        return np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan)
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.array(values.data, type=pa.string(), mask=np.ma.getmaskarray(values))
    try:
        return np.asarray(pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    except pa.ArrowInvalid:
        pass
    out = np.full(len(values), np.nan)
    for i, value in enumerate(text.to_pylist()):
        if value is not None:
            try:
                out[i] = float(value)
            except ValueError:
                raise InputError(f"{path}: row {i + 1}: {name} is {value!r}, which is no number") from None
    return out


def texts(values: np.ma.MaskedArray[Any, Any]) -> list[str]:
    """A column as text, whole numbers with all their digits, empty where it is missing."""
    mask = np.ma.getmaskarray(values)
    return ["" if missing else str(value) for value, missing in zip(values.data.tolist(), mask.tolist(), strict=True)]


# Text ----------------------------------------------------------------------------------------------------------------


def _text(path: str, wanted: Wanted) -> Columns:
    with _opened(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", "replace") as text:
        lines = list(islice(text, _HEAD_LINES))
    start = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if start is None:
        raise InputError(f"{path}: holds no table: every line is empty or a comment")
    body = [line.rstrip("\r\n") for line in lines[start : start + 20]]
    delimiter = max((",", "\t", ";", "|"), key=body[0].count)
    delimiter = delimiter if delimiter in body[0] else " "
    names, skip = _fields(body[0], delimiter), start + 1
    commented = _fields(lines[start - 1].lstrip("# "), delimiter) if start and lines[start - 1].startswith("#") else []
    if len(commented) == len(names) and any(map(_is_number, names)) and not any(map(_is_number, commented)):
        names, skip = commented, start  # "# ra dec", as numpy and TOPCAT write it
    elif len(body) > 2 and body[2].startswith("--") and set(body[2]) <= set("-\t |;,"):
        skip += 2  # VizieR writes units and a ruler under the names
    repeated = sorted({name for name in names if names.count(name) > 1})
    chosen = list(wanted(names))
    if again := [name for name in chosen if name in repeated]:
        raise InputError(f"{path}: column names repeat: {', '.join(again)}; rename one of each")
    table = (_spaced if delimiter == " " else _delimited)(path, names, chosen, delimiter, skip)
    n = len(next(iter(table.values()))) if table else 0

    def get(name: str) -> np.ma.MaskedArray[Any, Any]:
        values = table[name]
        return np.ma.MaskedArray(values, mask=[value is None for value in values.tolist()])

    return Columns(names, n, get)


def _delimited(path: str, names: list[str], chosen: list[str], delimiter: str, skip: int) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow

    unique = [name if names.index(name) == i else f"{name} {i}" for i, name in enumerate(names)]
    try:
        with _opened(path) as stream:
            table = arrow.read_csv(
                stream,
                arrow.ReadOptions(column_names=unique, skip_rows=skip, block_size=1 << 24),
                arrow.ParseOptions(delimiter=delimiter, invalid_row_handler=_comment),
                arrow.ConvertOptions(
                    column_types=dict.fromkeys(chosen, pa.string()),
                    include_columns=chosen,
                    null_values=list(NULLS),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
    except pa.ArrowException as e:
        raise InputError(f"{path}: cannot be read as a table: {str(e).splitlines()[0][:300]}") from None
    out = {}
    for name in chosen:
        trimmed = pc.utf8_trim_whitespace(table.column(name))
        missing = pc.is_in(trimmed, pa.array(NULLS))
        out[name] = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed).to_numpy(zero_copy_only=False)
    return out


def _comment(row: Any) -> str:
    """What to do with a line of another number of fields: comments may stand between rows."""
    return "skip" if row.text is not None and row.text.startswith("#") else "error"


def _spaced(path: str, names: list[str], chosen: list[str], delimiter: str, skip: int) -> dict[str, Any]:
    places = [names.index(name) for name in chosen]
    found: list[list[str | None]] = [[] for _ in chosen]
    with _opened(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", "replace") as text:
        for number, line in enumerate(text, 1):
            if number <= skip or not line.strip() or line.startswith("#"):
                continue
            values = _fields(line, delimiter)
            if len(values) != len(names):
                raise InputError(f"{path}: line {number}: {len(values)} values, {len(names)} columns in the header")
            for column, place in zip(found, places, strict=True):
                column.append(None if values[place] in NULLS else values[place])
    return {name: np.array(column, dtype=object) for name, column in zip(chosen, found, strict=True)}


def _fields(line: str, delimiter: str) -> list[str]:
    text = " ".join(line.split()) if delimiter == " " else line.strip("\r\n")
    return [field.strip() for field in next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [""])]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _opened(path: str) -> BinaryIO:
    with open(path, "rb") as f:
        packed = f.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb") if packed else open(path, "rb"))


# Binary --------------------------------------------------------------------------------------------------------------


def _parquet(path: str, wanted: Wanted) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            units = {
                f.name: f.metadata[b"unit"].decode() for f in file.schema_arrow if f.metadata and b"unit" in f.metadata
            }
            chosen = list(dict.fromkeys(wanted(names)))
            table = file.read(columns=chosen)
    except (pa.ArrowException, OSError) as e:
        raise InputError(f"{path}: a damaged Parquet file: {str(e).splitlines()[0]}") from None

    def get(name: str) -> np.ma.MaskedArray[Any, Any]:
        column = table.column(name).combine_chunks()
        mask = column.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_integer(column.type):  # with nulls, numpy would get floats and lose digits
            values = column.fill_null(0).to_numpy(zero_copy_only=False)
        elif pa.types.is_floating(column.type):
            values = column.to_numpy(zero_copy_only=False)
        else:
            values = np.array([None if v is None else str(v) for v in column.to_pylist()], dtype=object)
        return np.ma.MaskedArray(values, mask=mask)

    return Columns(names, table.num_rows, get, units)


def _loaded(path: str, load: Callable[[str], Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load(path)
    except (InputError, MemoryError):
        raise
    except Exception as e:  # astropy raises almost anything for damaged files
        raise InputError(f"{path}: cannot be read as a table: {str(e)[:300]}") from None


def _fits_table(path: str) -> Any:
    from astropy.io import fits
    from astropy.table import Table

    with fits.open(path, memmap=True) as hdus:
        place = next((i for i, hdu in enumerate(hdus) if isinstance(hdu, fits.BinTableHDU | fits.TableHDU)), None)
    if place is None:
        raise InputError(f"{path}: a FITS file without a table")
    return Table.read(path, format="fits", hdu=place)


def _votable(path: str) -> Any:
    found = next(iter(parsed_votable(path).iter_tables()), None)
    if found is None:
        raise InputError(f"{path}: a VOTable without a table; an error that a service sent?")
    return found.to_table(use_names_over_ids=True)


def _astropy(path: str, table: Any, wanted: Wanted) -> Columns:
    names = [str(name) for name in table.colnames if table[name].ndim == 1]
    wanted(names)

    def get(name: str) -> np.ma.MaskedArray[Any, Any]:
        values = np.ma.asarray(table[name])
        if values.dtype.kind in "fiub":
            return values
        text = [("" if v is None else v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v)).strip()
                for v in values.data.tolist()]  # fmt: skip
        missing = np.ma.getmaskarray(values) | np.array([t in NULLS for t in text], dtype=bool)
        return np.ma.MaskedArray(np.array(text, dtype=object), mask=missing)

    return Columns(names, len(table), get, {n: str(table[n].unit) for n in names if table[n].unit is not None})
