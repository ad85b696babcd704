"""A FITS binary table, row by row: text of fixed width in ASCII, NaN and TNULL for what is not known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from specvet.records.tables.cells import Cells
from specvet.records.tables.sheet import Column, Fact, Sheet, escaped

NULL = -(2**63)
"""TNULL of every integer column: no count, row or bit mask comes near it. A sentinel such as astropy's 999999 would
turn that value, where it is real, into a missing one."""

_BLOCK = 2880

_EXPLAINED = (
    "Text is ASCII, escaped as Python's codec unicode_escape does it: a",
    "backslash is written twice, other characters as \\xNN, \\uNNNN or \\n. To",
    "read: text.encode('ascii').decode('unicode_escape'), or unescaped of",
    "specvet.records.tables.",
    "A number that is not known is NaN (a real NaN cannot be told from it) or,",
    "for integers, TNULL. A text that is not known begins with NUL; an empty",
    "text is blanks. Most programs show both as empty.",
)


def write_fits(f: IO[bytes], sheet: Sheet, cells: Cells) -> list[str]:
    """Write the table to `f`; returns what FITS cannot hold of these very cells."""
    from astropy.io import fits

    primary = fits.PrimaryHDU()
    for fact in sheet.facts:
        primary.header.append(_card(fact))
    f.write(primary.header.tostring().encode("ascii"))

    dtype = np.dtype([(f"c{i}", _type(cells, c.name, c.kind)) for i, c in enumerate(sheet.columns)])
    f.write(_header(sheet, cells, dtype).tostring().encode("ascii"))
    written = 0
    for block in _blocks(sheet, cells, dtype):
        data = block.tobytes()
        f.write(data)
        written += len(data)
    f.write(b"\0" * (-written % _BLOCK))
    return _notices(sheet, cells)


def _type(cells: Cells, name: str, kind: type) -> str:
    return {float: ">f8", int: ">i8"}.get(kind) or f"S{max(cells.seen[name].width, 1)}"


def _header(sheet: Sheet, cells: Cells, dtype: np.dtype[Any]) -> Any:
    from astropy.io import fits

    header = fits.Header()
    for key, value, comment in (
        ("XTENSION", "BINTABLE", "binary table extension"),
        ("BITPIX", 8, ""),
        ("NAXIS", 2, ""),
        ("NAXIS1", dtype.itemsize, "bytes in a row"),
        ("NAXIS2", cells.n, "rows"),
        ("PCOUNT", 0, ""),
        ("GCOUNT", 1, ""),
        ("TFIELDS", len(sheet.columns), "columns"),
    ):
        header.append((key, value, comment))
    for n, column in enumerate(sheet.columns, 1):
        code = {float: "D", int: "K"}.get(column.kind) or f"{dtype[n - 1].itemsize}A"
        header.append(_named(f"TTYPE{n}", column))
        header.append((f"TFORM{n}", code))
        if column.unit:
            header.append((f"TUNIT{n}", column.unit))
        if column.kind is int:
            header.append((f"TNULL{n}", NULL))
        # A card cuts long words, so TCOMM has them whole. TCOMM and TUCD are conventions of TOPCAT and the ESO archive,
        # not of the standard.
        if column.says:
            header.append((f"TCOMM{n}", escaped(column.says)))
        if column.ucd:
            header.append((f"TUCD{n}", column.ucd))
    header.append(("EXTNAME", sheet.name))
    systems = {column.system for column in sheet.columns}
    for name, key, value, comment in (
        ("icrs", "RADESYS", "ICRS", "of the columns of positions"),
        ("mjd", "TIMESYS", "UTC", "of the columns of modified Julian dates"),
    ):
        if name in systems:
            header.append((key, value, comment))
    for fact in sheet.facts:
        header.append(_card(fact))
    for line in (escaped(sheet.says), *_EXPLAINED):
        header.add_comment(line)
    return header


def _named(key: str, column: Column) -> Any:
    """The card of a column's name, with what it holds as the comment, cut at a word to what the card has room for."""
    from astropy.io import fits

    says, room = escaped(column.says), 80 - len("TTYPE123= ") - max(20, len(column.name) + 2) - len(" / ")
    if len(says) > room:
        says = says[: room - 3].rpartition(" ")[0].rstrip(" ,;:") + " .." if room > 8 else ""
    return fits.Card(key, column.name, says or None)


def _card(fact: Fact) -> Any:
    """A card; floats keep all their digits, which astropy's fixed format of 20 characters would cut."""
    from astropy.io import fits

    says = escaped(fact.says)
    if isinstance(fact.value, float):
        number = repr(fact.value).upper()
        number += "" if "." in number or "E" in number else ".0"
        return fits.Card.fromstring(f"{fact.card:<8}= {number:>20} / {says}"[:80].ljust(80))
    value = escaped(fact.value) if isinstance(fact.value, str) else fact.value
    # A comment that no longer fits behind a long text would be cut with a warning.
    room = isinstance(value, str) and len(value.replace("'", "''")) + len(says) > 64
    return fits.Card(fact.card, value, None if room else says)


def _blocks(sheet: Sheet, cells: Cells, dtype: np.dtype[Any]) -> Iterator[np.ndarray[Any, Any]]:
    for batch in cells.batches():
        columns = [batch[c.name] for c in sheet.columns]
        block = np.zeros(len(columns[0]), dtype)
        for i, (column, values) in enumerate(zip(sheet.columns, columns, strict=True)):
            if column.kind is float:
                block[f"c{i}"] = [np.nan if v is None else v for v in values]
            elif column.kind is int:
                block[f"c{i}"] = [NULL if v is None else v for v in values]
            else:
                width = dtype[i].itemsize
                blanks = b" " * width
                block[f"c{i}"] = [b"" if v is None else escaped(v).encode("ascii") if v else blanks for v in values]
        yield block


def _notices(sheet: Sheet, cells: Cells) -> list[str]:
    seen = [(c.name, cells.seen[c.name]) for c in sheet.columns]
    notices = []
    if names := [name for name, s in seen if s.changed]:
        notices.append(
            f"FITS tables hold ASCII only, so {', '.join(names)} are escaped (Hα is H\\u03b1); the header says how"
        )
    if names := [name for name, s in seen if s.empty and s.null]:
        notices.append(f"FITS readers show an empty text and a missing one alike: {', '.join(names)}")
    if names := [name for name, s in seen if s.nan and s.null]:
        notices.append(f"FITS cannot tell NaN from missing: {', '.join(names)}")
    return notices
