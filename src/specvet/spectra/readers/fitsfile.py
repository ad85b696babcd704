"""A FITS file as the readers see it: HDUs by number and name, columns by role, data only after a length check."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.bintable import AstropyTable, DirectTable, Table

MAX_VALUES = 2**28
"""Most values of one array (2 GiB as float64): a damaged header must not allocate more."""


@contextmanager
def quiet_astropy() -> Iterator[list[Any]]:
    """Silence warnings on non-standard cards; yields those that were heard."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


@dataclass(eq=False)
class FitsInput:
    """An open HDUList with the label of its file; its length and stream (None in memory) and path (None without)."""

    hdus: Any
    file: str
    size: int | None
    path: Path | None
    stream: BinaryIO | None = None
    _tables: dict[int, Table] = field(default_factory=dict)

    @cached_property
    def named(self) -> dict[str, Any]:
        """HDUs by upper-case name; the first where a name repeats."""
        out: dict[str, Any] = {}
        for hdu in self.hdus:
            out.setdefault(hdu.name.strip().upper(), hdu)
        return out

    @property
    def primary(self) -> Any:
        return self.hdus[0]

    @property
    def primary_shape(self) -> tuple[int, ...]:
        return tuple(getattr(self.primary, "shape", ()) or ())

    def tables(self) -> Iterator[tuple[int, Any]]:
        """(number, HDU) of the binary and ASCII tables."""
        for number, hdu in enumerate(self.hdus):
            if is_table(hdu):
                yield number, hdu

    def check_complete(self) -> None:
        """Refuse a file that ends before its last HDU does."""
        for hdu in self.hdus:
            self._check(hdu)

    def _check(self, hdu: Any) -> None:
        name = f"HDU {hdu.name or 'without name'}"
        # A compressed image states its unpacked size; where it is cut off, unpacking says so.
        if self.size is not None and not type(hdu).__name__.startswith("CompImage"):
            info = hdu.fileinfo()
            end = info["datLoc"] + hdu.size if info else 0
            if end > self.size:
                problem = f"truncated: {name} ends at byte {end}, the file at {self.size}; download it again"
                raise SpectrumReadError(self.file, problem)

    def data(self, hdu: Any) -> Any:
        """The data of an HDU, once it is sure that the file holds all of it."""
        self._check(hdu)
        shape = () if is_table(hdu) else tuple(hdu.shape or ())
        if shape and int(np.prod(shape, dtype=object)) > MAX_VALUES:
            raise SpectrumReadError(self.file, f"HDU {hdu.name} claims shape {shape}, too large for spectra")
        data = hdu.data
        if data is None:
            raise SpectrumReadError(self.file, f"HDU {hdu.name or 'without name'} holds no data")
        return data

    def image(self, hdu: Any) -> NDArray[Any]:
        """The image of an HDU in native byte order; a copy, so that a caller's HDUList stays as it is."""
        data = np.asarray(self.data(hdu))
        return data.astype(data.dtype.newbyteorder("="))

    def table(self, hdu: Any) -> Table:
        """The table of an HDU; its columns are decoded when they are asked for."""
        if id(hdu) not in self._tables:
            self._tables[id(hdu)] = self._open_table(hdu)
        return self._tables[id(hdu)]

    def _open_table(self, hdu: Any) -> Table:
        self._check(hdu)
        info = hdu.fileinfo() if self.stream is not None else None
        if self.stream is not None and info:
            self.stream.seek(info["hdrLoc"])
            header = self.stream.read(info["datLoc"] - info["hdrLoc"])
            try:
                return DirectTable(header, self.stream, info["datLoc"])
            except (ValueError, KeyError):
                pass  # an ASCII table or a form that only astropy knows
        return AstropyTable(hdu, self.data(hdu))

    def column(self, hdu: Any, name: str) -> NDArray[Any]:
        """A column by its name in any letter case; the error names the columns there are."""
        table = self.table(hdu)
        if name.lower() not in table.names:
            have = ", ".join(table.names.values()) or "none"
            raise SpectrumReadError(self.file, f"HDU {hdu.name} has no column {name} (it has: {have[:300]})")
        try:
            return table.column(name)
        except ValueError:
            self._tables[id(hdu)] = AstropyTable(hdu, self.data(hdu))
            return self._tables[id(hdu)].column(name)

    def pixels(self, hdu: Any, name: str) -> NDArray[Any]:
        """A column of pixels, shape (n_pix,), whether pixels are rows or one row holds a vector."""
        values = self.column(hdu, name)
        return values[0] if values.ndim == 2 and values.shape[0] == 1 else values


def is_table(hdu: Any) -> bool:
    """A table proper (older astropy derives compressed images from tables)."""
    from astropy.io import fits

    return isinstance(hdu, fits.BinTableHDU | fits.TableHDU) and not type(hdu).__name__.startswith("CompImage")


def described(fits: FitsInput) -> str:
    """The HDUs in a line, for messages."""
    parts = []
    for number, hdu in enumerate(fits.hdus):
        if number == 8:
            parts.append("…")
            break
        if is_table(hdu):
            what = f"table of {card(hdu.header, 'NAXIS2', 0)} rows"
        else:
            what = "x".join(str(n) for n in hdu.shape or ()) or "no data"
        parts.append(f"HDU {number} {hdu.name}: {what}")
    return "; ".join(parts)


def card(header: Any, key: str, default: Any = None) -> Any:
    """A header card, or `default` where it is missing, undefined or breaks the standard."""
    try:
        value = header.get(key, default)
    except Exception:  # astropy raises VerifyError and others for cards that it cannot parse
        return default
    return default if type(value).__name__ == "Undefined" else value
