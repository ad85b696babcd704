"""FITS tables as lists of spectra."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from specvet.vetting.inputs_columns import no_columns_message, where_spectra_are
from specvet.vetting.inputs_listed import SPECTRAL, ListTable, Row, Unrecognised, array_rows


def plainly_spectral(head: bytes, path_column: str | None) -> bool:
    """Whether the first headers already say that `fits_list` would find no list: a shell may name 170,000 spectra."""
    primary, end = _cards(head, 0)
    if primary.get("NAXIS", "0") != "0":
        return primary.get("VOTMETA") != "T"
    table, _ = _cards(head, end)
    names = [value.strip("' ") for key, value in table.items() if re.fullmatch(r"TTYPE\d+", key)]
    spectral = any(SPECTRAL.fullmatch(name) for name in names)
    return spectral and where_spectra_are(names, path_column) is None


def _cards(head: bytes, start: int) -> tuple[dict[str, str], int]:
    """Keyword → value as it stands, of the FITS header at `start`, and where its last block ends; empty if cut off."""
    found: dict[str, str] = {}
    for at in range(start, len(head) - 79, 80):
        card = head[at : at + 80].decode("latin-1")
        if card.startswith("END     "):
            return found, at + 80 + -(at + 80) % 2880
        if card[8:10] == "= ":
            value = re.match(r"\s*('[^']*'|[^/]*)", card[10:])
            found[card[:8].strip()] = value[1].strip() if value else ""
    return {}, len(head)


def fits_list(path: str, path_column: str | None) -> ListTable | Unrecognised | None:
    """A FITS table whose columns say where spectra are; None when the file holds images or spectral columns."""
    import warnings

    from astropy.io import fits

    tables: list[tuple[int, tuple[str, ...], int]] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with fits.open(path, memmap=True) as hdus:
                for i, hdu in enumerate(hdus):
                    if not isinstance(hdu, fits.BinTableHDU | fits.TableHDU):
                        # TOPCAT's "fits-plus" keeps a VOTable header as bytes in the primary HDU, before the table.
                        if hdu.header.get("NAXIS", 0) > 0 and not hdu.header.get("VOTMETA", False):
                            return None
                        continue
                    names = tuple(hdu.columns.names)
                    if any(SPECTRAL.fullmatch(name) for name in names) and not (
                        where_spectra_are(names, path_column) is not None and _is_no_spectrum(path)
                    ):
                        return None
                    tables.append((i, names, int(hdu.header["NAXIS2"])))
    except Exception:  # a damaged file: its reader says why
        return None
    for i, names, n in tables:
        if where_spectra_are(names, path_column) is not None:
            return ListTable(path, names, partial(_fits_rows, path, i, names), partial(int, n))
    return Unrecognised(no_columns_message(path, tables[0][1], path_column)) if tables else None


def _is_no_spectrum(path: str) -> bool:
    """Whether a table with columns such as FLUX_G beside survey ids is no spectrum itself."""
    from specvet.spectra import SpectrumReadError, read

    try:
        read(path)
    except SpectrumReadError:
        return True
    return False


def _fits_rows(path: str, hdu: int, names: tuple[str, ...], needed: Sequence[int]) -> Iterator[Row]:
    from astropy.io import fits

    with fits.open(path, memmap=True) as hdus:
        table = hdus[hdu]
        rows = array_rows([_with_nulls(table, names[i]) for i in needed], len(table.data))
        # What `specvet export` wrote has its text escaped, since FITS holds ASCII only.
        own = str(table.header.get("CREATOR", "")).startswith("specvet ")
        yield from ((where, _unescaped(row)) for where, row in rows) if own else rows


def _unescaped(row: list[str] | str) -> list[str] | str:
    from specvet.records.tables import unescaped

    try:
        return row if isinstance(row, str) else [unescaped(value) for value in row]
    except UnicodeError:  # somebody else has changed the table since
        return row


def _with_nulls(table: Any, name: str) -> Any:
    """A column of a FITS table, masked where an integer is its TNULL, the only way that FITS has to leave one out."""
    import numpy as np

    values, column = table.data[name], table.columns[name]
    if not isinstance(column.null, int) or values.dtype.kind not in "iu":
        return values
    null = column.null + int(column.bzero or 0)
    limits = np.iinfo(values.dtype)
    return np.ma.MaskedArray(values, mask=values == null) if limits.min <= null <= limits.max else values
