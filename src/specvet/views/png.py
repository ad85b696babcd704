"""PNG bytes of a drawn picture, several times faster than a general encoder and about as small."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"

LEVEL = 2
"""zlib's level. Against Pillow's default, reference figures of 447 x 312 to 792 x 472 take a fifth of the time and 5 to
15 % more bytes. Level 1 saves little more time, level 4 and above cost twice as much."""

_UP = 2
_COLOUR_TYPES = {2: (0, 1), 3: (2, 3)}
"""Dimensions of the array: (PNG colour type, bytes a pixel)."""


def encode_png(array: NDArray[Any], level: int = LEVEL) -> bytes:
    """An 8-bit grey or RGB PNG without metadata; equal arrays give equal bytes under one version of zlib.

    Every row has the filter Up (difference to the row above): ticks, grid, frame and white repeat downwards, so what is
    left is mostly zeros. Choosing a filter for each row, as general encoders do, costs more than all the rest.

    Args:
        array: uint8, shape (height, width) for grey or (height, width, 3) for RGB; any memory order.
        level: 0 (stored) to 9 (smallest).

    Returns:
        A whole PNG file.

    Raises:
        ValueError: another dtype or shape, an empty picture, or a level outside 0-9.

    Source:
        W3C PNG specification, third edition, sections 9 (filters), 10 (compression) and 11 (chunks).
    """
    if array.dtype != np.uint8 or array.ndim not in _COLOUR_TYPES or array.shape[2:] not in ((), (3,)):
        raise ValueError(
            f"array is {array.dtype} of shape {array.shape}; uint8 of (height, width) or (height, width, 3) expected"
        )
    if not array.size:
        raise ValueError(f"array has shape {array.shape}: a picture needs at least one pixel")
    if not 0 <= level <= 9:
        raise ValueError(f"level = {level}; 0 to 9 expected")
    height, width = array.shape[:2]
    colour_type, n_bytes = _COLOUR_TYPES[array.ndim]
    rows = array.reshape(height, width * n_bytes)
    filtered = np.empty((height, 1 + width * n_bytes), dtype=np.uint8)
    filtered[:, 0] = _UP
    filtered[0, 1:] = rows[0]  # the row above the first one counts as zeros
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])  # modulo 256, as the filter wants it
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    pixels = zlib.compress(filtered.data, level)
    return b"".join((SIGNATURE, _chunk(b"IHDR", header), _chunk(b"IDAT", pixels), _chunk(b"IEND", b"")))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return b"".join(
        (struct.pack(">I", len(content)), kind, content, struct.pack(">I", zlib.crc32(content, zlib.crc32(kind))))
    )
