"""Whether a picture's bytes are all there: PNG by its chunks and their checksums, JPEG by its segments and its end."""

from __future__ import annotations

import struct
import zlib

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_END = b"\xff\xd9"


def picture_problem(data: bytes) -> str:
    """What is wrong with a PNG or JPEG; empty where all of it is there. No pixel is decoded."""
    if data.startswith(_PNG):
        return _png_problem(data)
    if data.startswith(_JPEG):
        return _jpeg_problem(data)
    return "neither PNG nor JPEG"


def suffix_of(data: bytes) -> str:
    """`png` or `jpg`."""
    return "png" if data.startswith(_PNG) else "jpg"


def _png_problem(data: bytes) -> str:
    if data[12:16] != b"IHDR" or not all(struct.unpack_from(">II", data.ljust(24, b"\0"), 16)):
        return "a damaged PNG (it does not say how large it is)"
    at, kind, seen = 8, b"", memoryview(data)
    try:
        while kind != b"IEND":
            length, kind = struct.unpack_from(">I4s", data, at)
            (stated,) = struct.unpack_from(">I", data, at + 8 + length)
            if zlib.crc32(seen[at + 4 : at + 8 + length]) != stated:
                return f"a damaged PNG (the checksum of its {kind.decode('latin-1')} part is wrong)"
            at += 12 + length
    except struct.error:
        return f"a PNG that is cut off after {len(data):,} bytes"
    return ""


def _jpeg_problem(data: bytes) -> str:
    at = 2
    try:
        while True:
            mark, kind, length = struct.unpack_from(">BBH", data, at)
            if mark != 0xFF or length < 2:
                return "a damaged JPEG"
            at += 2 + length
            if kind == 0xDA:  # what follows are pixels, up to the mark of the end
                break
    except struct.error:
        return f"a JPEG that is cut off after {len(data):,} bytes"
    return "" if data.find(_END, at) >= 0 else f"a JPEG that is cut off after {len(data):,} bytes"
