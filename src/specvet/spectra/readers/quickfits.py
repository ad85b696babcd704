"""FITS files that keep to the standard, read from their bytes: several times faster than astropy, which has the others.

`quick_hdus` gives HDUs that look to a reader like astropy's, as far as readers look. Its rule is to be sure or to give
way: what is not plain raises `NotPlainError`, and the caller opens the file with astropy, which also says what is wrong
with a damaged one. Not plain are mandatory cards other than FITS 4.0 lays down, heaps, scaled images, keywords that are
repeated, HIERARCH cards, CONTINUE cards that are asked for, and a file that is cut off or goes on behind its last HDU.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.readers.quickheader import CARD, NotPlainError, QuickHeader, mandatory, place_of, plain_string

BLOCK = 2880
"""Bytes; headers and data are whole numbers of them (FITS 4.0, 3.1)."""

MAX_HEADER = 200 * BLOCK
MAX_HDUS = 10_000
MAX_FIELDS = 999
"""Most columns of a table (FITS 4.0, 7.3.1)."""

_AT_ONCE = 4 * BLOCK
"""Bytes of a header that are read at once; most have no more."""

_OF_TABLE = re.compile(r"XTENSION|BITPIX|NAXIS|PCOUNT|GCOUNT|TFIELDS|Z|T[A-Z]{3,4}\d+", re.IGNORECASE)
_SIMPLE = b"SIMPLE  = " + b"T ".rjust(21)
_NO_HEAP, _ONE_GROUP = b"PCOUNT  = " + b"0 ".rjust(21), b"GCOUNT  = " + b"1 ".rjust(21)
_NUMBERS = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}


class QuickHDU:
    """An image or a binary table without heap. To ask for what else astropy's HDUs have gives way to them."""

    def __init__(self, header: QuickHeader, stream: BinaryIO, start: int, first: bool) -> None:
        self.header = header
        self._stream, self._start = stream, start
        self.is_table, self._bits, axes, heap = _structure(header.raw, first)
        count = 1 if axes else 0
        for axis in axes:
            count *= axis
        self.size = abs(self._bits) // 8 * count + heap
        """Bytes of data, without their padding."""
        self.shape = () if self.is_table else tuple(reversed(axes))
        self._tiles = Tiles(header, heap) if heap else None
        if self._tiles is not None:
            self.header = TileHeader(header.raw)
            self.is_table, self._bits, self.shape = False, self._tiles.bits, self._tiles.shape
        self._at = start + len(header.raw)
        self.end = self._at + -(-self.size // BLOCK) * BLOCK
        self.name = _name(header.raw, "PRIMARY" if first else "")

    def fileinfo(self) -> dict[str, int]:
        """Where header and data begin, in bytes."""
        return {"hdrLoc": self._start, "datLoc": self._at}

    @property
    def data(self) -> NDArray[Any] | None:
        """The image as it is stored, not to be written to; None without one."""
        scale, zero = self.header.get("BSCALE", 1), self.header.get("BZERO", 0)
        unsigned_zero = 2 ** (self._bits - 1) if self._bits in (16, 32, 64) else 0
        if self.is_table or isinstance(scale, bool) or isinstance(zero, bool) or "BLANK" in self.header:
            raise NotPlainError("data")
        if scale != 1 or zero not in (0, unsigned_zero):
            raise NotPlainError("a scaled image")
        if not self.shape:
            return None
        self._stream.seek(self._at)
        content = self._stream.read(self.size)
        if self._tiles is not None:
            content = self._tiles.unpacked(content)
        stored = np.frombuffer(content, _NUMBERS[self._bits]).reshape(self.shape)
        if not zero:
            return stored
        unsigned = np.dtype(f"u{self._bits // 8}")  # the convention for unsigned integers, FITS 4.0, 5.2.5
        native = stored.astype(stored.dtype.newbyteorder("="))
        shifted: NDArray[Any] = native.view(unsigned) ^ unsigned.type(unsigned_zero)
        return shifted

    def __getattr__(self, name: str) -> NoReturn:
        raise NotPlainError(name)


class TileHeader(QuickHeader):
    """The cards that an image has in common with the table that holds its tiles; the others would be the table's."""

    def get(self, key: str, default: Any = None) -> Any:
        if _OF_TABLE.match(key):
            raise NotPlainError(key)
        return super().get(key, default)


class Tiles:
    """An image of whole numbers whose rows are gzipped one by one, as DESI keeps its masks (FITS 4.0, 10.1)."""

    def __init__(self, header: QuickHeader, heap: int) -> None:
        self._heap = heap
        self.bits = header.whole("ZBITPIX")
        axes = [header.whole(f"ZNAXIS{i + 1}") for i in range(header.whole("ZNAXIS"))]
        if len(axes) not in (1, 2) or min(axes) < 1:
            raise NotPlainError("compressed in another way")
        width, self._rows = axes[0], (*axes, 1)[1]
        self.shape = tuple(reversed(axes))
        tiles = [header.get("ZTILE1", width), header.get("ZTILE2", 1)]
        plain = header.get("ZIMAGE") is True and header.get("ZCMPTYPE") == "GZIP_1" and self.bits in (8, 16, 32, 64)
        plain = plain and tiles == [width, 1] and header.whole("NAXIS1") == 8 and header.whole("NAXIS2") == self._rows
        plain = plain and header.whole("TFIELDS") == 1 and header.get("TTYPE1") == "COMPRESSED_DATA"
        plain = plain and re.fullmatch(r"1?PB(\(\d+\))?", str(header.get("TFORM1"))) is not None
        others = ("THEAP", "ZBLANK", "ZSCALE", "ZZERO", "ZQUANTIZ", "ZMASKCMP", "TZERO1", "TSCAL1")
        if not plain or any(key in header for key in others):
            raise NotPlainError("compressed in another way")

    def unpacked(self, content: bytes) -> bytes:
        """The image's bytes from those of the table and its heap."""
        start, length = len(content) - self._heap, self.shape[-1] * self.bits // 8
        out = []
        for count, offset in np.frombuffer(content[: 8 * self._rows], ">i4").reshape(self._rows, 2).tolist():
            if offset < 0 or count <= 0 or start + offset + count > len(content):
                raise NotPlainError("a tile outside its heap")
            unpacking = zlib.decompressobj(wbits=31)
            try:
                out.append(unpacking.decompress(content[start + offset : start + offset + count], length + 1))
            except zlib.error:
                raise NotPlainError("a damaged tile") from None
            if len(out[-1]) != length or not unpacking.eof or unpacking.unused_data:
                raise NotPlainError("a damaged tile")
        return b"".join(out)


def quick_hdus(stream: BinaryIO, size: int) -> list[QuickHDU]:
    """The HDUs of a FITS file of `size` bytes. Raises `NotPlainError`."""
    out: list[QuickHDU] = []
    at = 0
    if size % BLOCK:
        raise NotPlainError("no whole number of blocks")
    while at < size:
        if len(out) == MAX_HDUS:
            raise NotPlainError("very many HDUs")
        out.append(QuickHDU(QuickHeader(_header(stream, at)), stream, at, not out))
        at = out[-1].end
    if at != size:
        raise NotPlainError("ends inside its last HDU")
    return out


def _header(stream: BinaryIO, start: int) -> bytes:
    """The blocks of a header, to that with END, behind which there are only blanks."""
    stream.seek(start)
    raw, at = b"", -1
    while at < 0 and len(raw) < MAX_HEADER:
        part = stream.read(_AT_ONCE)
        raw += part
        at = place_of(raw, b"END", len(raw) - len(part))
        if len(part) < _AT_ONCE:
            break
    end = -(-(at + 3) // BLOCK) * BLOCK
    if at < 0 or len(raw) < end or raw[at + 3 : end].strip(b" "):
        raise NotPlainError("no END")
    return raw[:end]


def _structure(raw: bytes, first: bool) -> tuple[bool, int, list[int], int]:
    """Whether it is a table, BITPIX, the lengths of the axes and of a heap: the mandatory cards in their order (4.4.1).

    A table with a heap is an image in compressed tiles, or nothing that is read here.
    """
    table = not first and raw.startswith(b"XTENSION= 'BINTABLE' ")
    if not table and not raw.startswith(_SIMPLE if first else b"XTENSION= 'IMAGE   ' "):
        raise NotPlainError("another kind of HDU")
    bits, naxis = mandatory(raw, 1, b"BITPIX"), mandatory(raw, 2, b"NAXIS")
    if bits not in _NUMBERS or not 0 <= naxis <= 9:
        raise NotPlainError("BITPIX or NAXIS")
    axes = [mandatory(raw, 3 + i, b"NAXIS%d" % (i + 1)) for i in range(naxis)]
    if any(axis < (0 if table else 1) for axis in axes):
        raise NotPlainError("an axis without pixels")
    heap = 0
    if first:
        plain = place_of(raw, b"PCOUNT") < 0 and place_of(raw, b"GCOUNT") < 0
    elif raw.startswith(_NO_HEAP, CARD * (3 + naxis)) and raw.startswith(_ONE_GROUP, CARD * (4 + naxis)):
        plain = True  # as nearly always
    else:
        heap = mandatory(raw, 3 + naxis, b"PCOUNT")
        plain = mandatory(raw, 4 + naxis, b"GCOUNT") == 1 and (heap == 0 or (table and heap > 0))
    if table:
        plain = plain and (bits, naxis) == (8, 2) and 0 <= mandatory(raw, 7, b"TFIELDS") <= MAX_FIELDS
        plain = plain and (place_of(raw, b"ZIMAGE") >= 0) == (heap > 0)
    if not plain:
        raise NotPlainError("a heap or groups")
    return table, bits, axes, heap


def _name(raw: bytes, default: str) -> str:
    """EXTNAME of a header."""
    at = place_of(raw, b"EXTNAME")
    name = default if at < 0 else plain_string(raw, at)
    if name is None:
        raise NotPlainError("EXTNAME")
    return name
