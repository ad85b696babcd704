"""A FITS file as the readers see it: HDUs by number and name, columns by role, data only after a length check."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.astropy_home import astropy_fits
from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import MAX_IN_MEMORY, Opened
from specvet.spectra.readers.bintable import AstropyTable, DirectTable, Table
from specvet.spectra.readers.quickfits import QuickHDU, quick_hdus
from specvet.spectra.readers.quickheader import NotPlainError

MAX_VALUES = 2**26
"""Most values of one array (512 MiB as float64; 23,000 spectra of a DESI arm), whatever a header claims."""

MAX_TABLE_BYTES = 2**29
"""Most bytes of one table: 9,000 MaStar spectra."""


MAX_COUNT = 999
"""Most columns of a table and axes of an image (FITS 4.0, 7.3.1 and 4.4.1.1)."""

T = TypeVar("T")


@contextmanager
def quiet_astropy() -> Iterator[list[Any]]:
    """Silence warnings on non-standard cards; yields those that were heard."""
    astropy_fits()  # its import replaces the way in which warnings are shown, and would undo this
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


def with_fits(plain: Opened, use: Callable[[FitsInput, list[Any]], T]) -> T:
    """What `use` gives of a FITS file and the warnings that were heard on opening it.

    A file that keeps to the standard is read from its bytes, any other through astropy; `use` may be called for both.
    Raises `SpectrumReadError` where the header cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, on damaged values
            quick = FitsInput(quick_hdus(plain.stream, plain.size), plain.file, plain.size, plain.path, plain.stream)
            return use(quick, [])
    except NotPlainError:
        plain.stream.seek(0)
    _refuse_absurd_counts(plain)
    # Files and bytes fail in other ways where a damaged header sends astropy to a place before the first byte.
    stream = io.BytesIO(plain.stream.read()) if plain.size <= MAX_IN_MEMORY else plain.stream
    with quiet_astropy() as heard:
        try:
            hdus = astropy_fits().open(stream, memmap=False, ignore_missing_simple=False)
        except Exception as error:
            problem = f"the FITS header cannot be read ({error}); truncated or damaged, download it again"
            raise SpectrumReadError(plain.file, problem) from None
        with hdus:
            try:
                fits = FitsInput(hdus, plain.file, plain.size, plain.path, stream)
                fits.check_headers()
                return use(fits, heard)
            except NotPlainError:  # a table whose column cards only astropy can read
                return use(FitsInput(hdus, plain.file, plain.size, plain.path, None), heard)


_LENGTH = re.compile(rb"(TFIELDS|NAXIS\d*|BITPIX|[PG]COUNT) *= *(?:\+?(\d{4,20})|('))")


def _refuse_absurd_counts(plain: Opened) -> None:
    """Refuse what keeps astropy busy for hours: very many columns or axes, which it builds one by one.

    A length in quotes is refused as well: astropy multiplies with it, and Python repeats a text that often.
    """
    plain.stream.seek(0)
    tail, at = b"", 0
    while block := plain.stream.read(2**22):
        for found in _LENGTH.finditer(tail + block):
            key, count = found[1].decode(), int(found[2] or 0)
            if (at - len(tail) + found.start()) % 80:
                continue  # not where a card begins
            if found[3]:
                raise SpectrumReadError(plain.file, f"{key} is no number; the header is damaged, download it again")
            if count > MAX_COUNT and key in ("TFIELDS", "NAXIS"):
                what = f"a table claims {count} columns" if key == "TFIELDS" else f"an HDU claims {count} axes"
                raise SpectrumReadError(plain.file, f"{what}, FITS allows {MAX_COUNT}; damaged")
        tail, at = block[-80:], at + len(block)
    plain.stream.seek(0)


@dataclass(eq=False)
class FitsInput:
    """An open HDUList with the label of its file; its length and stream (None in memory) and path (None without)."""

    hdus: Any
    file: str
    size: int | None
    path: Path | None
    stream: BinaryIO | None = None
    _tables: dict[int, Table] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)

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
        return shape_of(self.primary)

    def number(self, hdu: Any) -> int:
        """Which HDU of the file it is."""
        return next(n for n, other in enumerate(self.hdus) if other is hdu)

    def tables(self) -> Iterator[tuple[int, Any]]:
        """(number, HDU) of the binary and ASCII tables."""
        return iter(self._all_tables)

    @cached_property
    def _all_tables(self) -> list[tuple[int, Any]]:
        return [(number, hdu) for number, hdu in enumerate(self.hdus) if is_table(hdu)]

    def check_headers(self) -> None:
        """Refuse a file with an HDU whose header astropy cannot make sense of."""
        for number, hdu in enumerate(self.hdus):
            # A negative length sends astropy back to HDUs that it has read, round and round.
            if (end := self._end(hdu)) and end < hdu.fileinfo()["datLoc"]:
                raise SpectrumReadError(self.file, f"HDU {number} states a negative length; download the file again")
            if type(hdu).__name__ == "_CorruptedHDU":
                raise SpectrumReadError(self.file, f"the header of HDU {number} is damaged; download the file again")

    def check_complete(self) -> None:
        """Refuse a file that ends before its last HDU does."""
        for hdu in self.hdus:
            self._check(hdu)

    def _check(self, hdu: Any) -> None:
        name = f"HDU {hdu.name or 'without name'}"
        # A compressed image states its unpacked size; where it is cut off, unpacking says so.
        if self.size is not None and not type(hdu).__name__.startswith("CompImage"):
            end = self._end(hdu)
            if end > self.size:
                problem = f"truncated: {name} ends at byte {end}, the file at {self.size}; download it again"
                raise SpectrumReadError(self.file, problem)

    def _end(self, hdu: Any) -> int:
        """Where the data of an HDU end in the file; 0 where there is none.

        Asked for at first sight: with BSCALE, astropy states the size of the scaled image once it has been read.
        """
        if id(hdu) not in self._ends:
            info = hdu.fileinfo() if self.size is not None and hasattr(hdu, "fileinfo") else None
            self._ends[id(hdu)] = info["datLoc"] + hdu.size if info else 0  # unknown extensions have no fileinfo
        return self._ends[id(hdu)]

    def data(self, hdu: Any) -> Any:
        """The data of an HDU, once it is sure that the file holds all of it."""
        self._check(hdu)
        shape = () if is_table(hdu) else shape_of(hdu)
        if shape and int(np.prod(shape, dtype=object)) > MAX_VALUES:
            raise SpectrumReadError(self.file, f"HDU {hdu.name} claims shape {shape}, too large for spectra")
        data = getattr(hdu, "data", None)
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
        if int(getattr(hdu, "size", 0) or 0) > MAX_TABLE_BYTES:
            problem = f"HDU {hdu.name} is a table of {hdu.size} bytes; {MAX_TABLE_BYTES} are read, cut it into parts"
            raise SpectrumReadError(self.file, problem)
        info = hdu.fileinfo() if self.stream is not None else None
        if self.stream is not None and info:
            self.stream.seek(info["hdrLoc"])
            try:
                quick = isinstance(hdu, QuickHDU)
                header = hdu.header.raw if quick else self.stream.read(info["datLoc"] - info["hdrLoc"])
                return DirectTable(header, self.stream, info["datLoc"])
            except (ValueError, KeyError, NotPlainError):
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
    if isinstance(hdu, QuickHDU):
        return hdu.is_table
    fits = astropy_fits()
    return isinstance(hdu, fits.BinTableHDU | fits.TableHDU) and not type(hdu).__name__.startswith("CompImage")


def shape_of(hdu: Any) -> tuple[int, ...]:
    """The shape of an image; () for one without data, and for extensions of a kind that astropy does not know."""
    return tuple(getattr(hdu, "shape", None) or ())


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
            what = "x".join(str(n) for n in shape_of(hdu)) or "no data"
        parts.append(f"HDU {number} {hdu.name}: {what}")
    return "; ".join(parts)


def card(header: Any, key: str, default: Any = None) -> Any:
    """A header card, or `default` where it is missing, undefined or breaks the standard."""
    try:
        value = header.get(key, default)
    except Exception:  # astropy raises VerifyError and others for cards that it cannot parse
        return default
    return default if type(value).__name__ == "Undefined" else value
