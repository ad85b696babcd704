"""Opens a list of spectra, whatever table it is: CSV with any delimiter, ECSV, plain paths, FITS, VOTable, Parquet.

Text and Parquet are streamed, so a list of a million rows costs no memory. Every value is handed on as the text that
stands in the list: identifiers keep leading zeros and all their digits.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from specvet.data.errors import InputError
from specvet.spectra.readers.votables import parsed_votable
from specvet.vetting.inputs_columns import no_columns_message, where_spectra_are
from specvet.vetting.inputs_fits import fits_list, plainly_spectral
from specvet.vetting.inputs_listed import SPECTRAL, ListTable, Row, Unrecognised, array_rows, as_text

HEAD = 1 << 16
"""Bytes that decide what a file is."""

MAX_COUNTED = 500_000_000
"""Text lists above this many bytes are not counted beforehand."""

TABLE_SUFFIXES = (".csv", ".tsv", ".ecsv", ".psv", ".csv.gz", ".tsv.gz", ".ecsv.gz")


def open_list(path: str, *, path_column: str | None, root: str | None, forced: bool) -> ListTable | Unrecognised | None:
    """The list that `path` is; None for a file that is no list.

    `forced` takes any text for a list (its first column, where no header names one). Raises `InputError` for what can
    only be a list and names no spectra.
    """
    try:
        with _unpacked(path) as f:
            head = f.read(HEAD)
    except (OSError, EOFError, lzma.LZMAError):
        return _not_a_list(path, forced, "it cannot be read")  # the spectrum reader says why
    if head.startswith(b"PAR1"):
        return _parquet(path, path_column)
    if head.startswith(b"SIMPLE  ="):
        found = None if plainly_spectral(head, path_column) else fits_list(path, path_column)
        return found or _not_a_list(path, forced, "a FITS file without a table of spectra")
    if b"<VOTABLE" in head[:2048]:
        return _votable(path, path_column)
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    if encoding != "utf-16" and (b"\0" in head or head.startswith((b"\x89", b"%PDF", b"\xff\xd8"))):
        return _not_a_list(path, forced, "a binary file of another kind")
    text = head.decode(encoding, "surrogateescape" if encoding == "utf-8-sig" else "replace")
    lines = text.splitlines() if len(head) < HEAD else text.splitlines()[:-1]
    return _text(path, encoding, lines, path_column=path_column, root=root, forced=forced)


def _not_a_list(path: str, forced: bool, what: str) -> ListTable | Unrecognised | None:
    if forced:
        raise InputError(f"@{path}: not a list of spectra: {what}")
    return None


# Text ----------------------------------------------------------------------------------------------------------------


def _text(
    path: str, encoding: str, lines: list[str], *, path_column: str | None, root: str | None, forced: bool
) -> ListTable | Unrecognised | None:
    start = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if start is None:
        # Nothing but comments. A header may still be among them; else it is a list without entries, or an empty file.
        return ListTable(path, ("path",), lambda _: iter(()), lambda: 0) if forced else None
    delimiter = _delimiter([line for line in lines[start : start + 20] if line.strip() and not line.startswith("#")])
    first = _fields(lines[start], delimiter)
    header = first
    skip = start + 1
    if where_spectra_are(first, path_column) is None and start and lines[start - 1].startswith("#"):
        commented = _fields(lines[start - 1].lstrip("# "), delimiter)
        if len(commented) == len(first) and where_spectra_are(commented, path_column) is not None:
            header, skip = commented, start  # "# path id", as numpy and TOPCAT write it
    where = where_spectra_are(header, path_column)
    if where is not None and not (isinstance(where, int) and _is_number(_value(lines[skip:], delimiter, where))):
        return _text_table(path, encoding, delimiter, tuple(header), skip)
    if path_column is None:
        body = [line.strip() for line in lines[start : start + 5] if line.strip() and not line.startswith("#")]
        if forced or all(_looks_like_path(line, path, root) for line in body):
            return _text_table(path, encoding, None, ("path",), start)
    message = no_columns_message(path, first, path_column)
    if _is_table(path, lines, start, delimiter, first):
        return Unrecognised(message)
    return _not_a_list(path, forced, "it has no header that names its columns")


def _is_table(path: str, lines: list[str], start: int, delimiter: str, first: list[str]) -> bool:
    """Whether it has a header of names, none of them of a spectrum."""
    if any(_is_number(f) for f in first) or any(SPECTRAL.fullmatch(f.strip()) for f in first):
        return False
    if path.lower().endswith(TABLE_SUFFIXES):
        return True
    second = next((line for line in lines[start + 1 :] if line.strip()), "")
    return delimiter != " " and len(first) > 1 and len(_fields(second, delimiter)) == len(first)


def _text_table(path: str, encoding: str, delimiter: str | None, columns: tuple[str, ...], skip: int) -> ListTable:
    """A table of text whose data start after `skip` lines; without a delimiter each line is one value."""

    def rows(needed: Sequence[int]) -> Iterator[Row]:
        with _unpacked(path) as f:
            yield from _text_rows(
                f, encoding=encoding, delimiter=delimiter, n_columns=len(columns), skip=skip, needed=needed
            )

    def count() -> int | None:
        return sum(1 for _ in rows(())) if os.path.getsize(path) <= MAX_COUNTED else None

    return ListTable(path, columns, rows, count)


def _text_rows(
    f: IO[bytes], *, encoding: str, delimiter: str | None, n_columns: int, skip: int, needed: Sequence[int]
) -> Iterator[Row]:
    # A byte that is not UTF-8 is kept as it is, so that it can be reported with its row instead of ending the list.
    errors = "surrogateescape" if encoding == "utf-8-sig" else "replace"
    line_number = 0

    def lines() -> Iterator[str]:
        nonlocal line_number
        with io.TextIOWrapper(f, encoding=encoding, errors=errors, newline=None) as text:
            for line in text:
                line_number += 1
                if line_number > skip and line.strip() and not line.startswith("#"):
                    yield line.strip().replace("\t", " ") + "\n" if delimiter == " " else line

    if delimiter is None:
        for line in lines():
            yield f"line {line_number}", [line.strip() for _ in needed]
        return
    # strict: a quotation mark that is never closed would swallow the rest of the list without a word.
    reader = csv.reader(lines(), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            yield f"line {line_number}", f"{e} (a quotation mark that is never closed?)"
            continue
        extra = values[n_columns:]
        if any(v.strip() for v in extra):
            yield f"line {line_number}", f"{len(values)} fields, {n_columns} columns in the header"
            continue
        values += [""] * (n_columns - len(values))
        yield f"line {line_number}", [values[i].strip() for i in needed]


def _delimiter(lines: list[str]) -> str:
    """The delimiter that splits the first lines into the most fields, alike; a space stands for any white space."""
    best, fields = "", 1
    for candidate in (",", "\t", ";", "|"):
        widths = [len(_fields(line, candidate)) for line in lines]
        if widths[0] > fields and widths.count(widths[0]) * 2 > len(widths):
            best, fields = candidate, widths[0]
    if best:
        return best
    return " " if len(_fields(lines[0], " ")) > 1 else ","


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        line = line.strip().replace("\t", " ")
    try:
        return [f.strip() for f in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [""])]
    except csv.Error:
        return [line]


def _value(lines: list[str], delimiter: str, index: int) -> str:
    """One value of the first row; a number where paths should be makes it a spectrum's table."""
    row = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return "".join(_fields(row, delimiter)[index : index + 1])


def _looks_like_path(line: str, list_path: str, root: str | None) -> bool:
    if _is_number(line.split(maxsplit=1)[0]) or len(line) > 4096 or "\0" in line:
        return False
    if re.fullmatch(
        r"\S*(/|\\|\.)\S*\.(fits?|fit|gz|txt|dat|csv|npz|spec|ascii|bz2|xz)|[\w.+-]+\.(fits?|npz)(\.gz)?", line
    ):
        return True
    roots = [root] if root is not None else [os.path.dirname(list_path), ""]
    return any(os.path.isfile(os.path.join(r, line)) for r in roots)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unpacked(path: str) -> IO[bytes]:
    """`path` opened for reading bytes, unpacked by its magic bytes."""
    with open(path, "rb") as f:
        magic = f.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    if magic.startswith(b"BZh"):
        return bz2.open(path, "rb")
    if magic.startswith(b"\xfd7zXZ"):
        return lzma.open(path, "rb")
    return open(path, "rb")


# Binary tables -------------------------------------------------------------------------------------------------------


def _parquet(path: str, path_column: str | None) -> ListTable | Unrecognised:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns, n = tuple(file.schema_arrow.names), file.metadata.num_rows
    except (pa.ArrowException, OSError) as e:
        raise InputError(f"{path}: a damaged Parquet file: {str(e).splitlines()[0]}") from None
    if where_spectra_are(columns, path_column) is None:
        return Unrecognised(no_columns_message(path, columns, path_column))  # or spectra, a row each

    def rows(needed: Sequence[int]) -> Iterator[Row]:
        number = 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=10_000, columns=[columns[i] for i in needed]):
                values = [batch.column(columns[i]).to_pylist() for i in needed]
                for row in zip(*values, strict=True):
                    number += 1
                    yield f"row {number}", [as_text(v) for v in row]

    return ListTable(path, columns, rows, lambda: n)


def _votable(path: str, path_column: str | None) -> ListTable | Unrecognised:
    import warnings

    def table() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parsed_votable(path).get_first_table().to_table(use_names_over_ids=True)

    try:
        loaded = table()
    except Exception as e:  # astropy raises almost anything for damaged XML
        raise InputError(f"{path}: a VOTable that cannot be read: {e}") from None
    columns, n = tuple(loaded.colnames), len(loaded)
    if where_spectra_are(columns, path_column) is None:
        return Unrecognised(no_columns_message(path, columns, path_column))

    def rows(needed: Sequence[int]) -> Iterator[Row]:
        again = table()
        return array_rows([again[columns[i]] for i in needed], n)

    return ListTable(path, columns, rows, lambda: n)
