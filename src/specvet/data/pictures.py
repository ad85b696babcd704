"""Pictures of a data set: checked and measured without decoding a pixel, read when somebody looks.

A path may name a PNG file, or one of many PNGs that lie one after the other in a file: `00000.pngs#1200+2950` begins at
byte 1200 of it and has 2950 bytes.
"""

from __future__ import annotations

import re
import struct
import zlib

from specvet.chat import Image, ImageError

_PACKED = re.compile(r"(?P<file>.+\.pngs)#(?P<start>\d{1,15})\+(?P<size>\d{1,12})", re.DOTALL)
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def picture_size(path: str) -> tuple[int, int]:
    """(width, height) in pixels of a PNG file whose chunks are all there and whole (by their checksums).

    Raises ImageError for a file that is missing, is no PNG, or is damaged.
    """
    png = picture_bytes(path)
    if png[:8] != _SIGNATURE or png[12:16] != b"IHDR":
        raise ImageError(f"{path}: not a PNG (its signature is missing); models are shown PNG files only")
    at, kind = 8, b""
    try:
        while kind != b"IEND":
            length, kind = struct.unpack_from(">I4s", png, at)
            (stated,) = struct.unpack_from(">I", png, at + 8 + length)
            if zlib.crc32(memoryview(png)[at + 4 : at + 8 + length]) != stated:
                raise ImageError(f"{path}: a damaged PNG (the checksum of its {kind.decode('latin-1')} part is wrong)")
            at += 12 + length
    except struct.error:
        raise ImageError(f"{path}: a PNG that is cut off after {len(png):,} bytes") from None
    width, height = struct.unpack_from(">II", png, 16)
    if not (width and height):
        raise ImageError(f"{path}: a damaged PNG (of {width} x {height} pixels)")
    return width, height


def picture(path: str) -> Image:
    """The picture in a PNG file, as a model is shown it. Raises ImageError."""
    try:
        return Image.of(picture_bytes(path))
    except ImageError as e:
        message = str(e)
    raise ImageError(message if message.startswith(path) else f"{path}: {message}")


def picture_bytes(path: str) -> bytes:
    """What the file holds. Raises ImageError for one that cannot be read."""
    try:
        if packed := _PACKED.fullmatch(path):
            with open(packed["file"], "rb") as file:
                file.seek(int(packed["start"]))
                return file.read(int(packed["size"]))
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise ImageError(f"{path}: there is no such picture") from None
    except (OSError, ValueError) as e:  # a name that holds a zero byte is a ValueError
        raise ImageError(f"{path}: cannot be read: {getattr(e, 'strerror', None) or e}") from None
