"""Reading the pictures that specvet draws, fast. Needs numpy alone: training images lack what `views` imports."""

from __future__ import annotations

import math
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_UP = 2
"""The filter of every row."""


def decode_plain(png: bytes) -> NDArray[np.uint8] | None:
    """The pixels of a PNG as `specvet.views.png` writes it, shape (height, width) or (height, width, 3); else None.

    A third of the time of a general decoder, and nearly all of it without the interpreter's lock. None also for a
    damaged one, so that a general decoder can say what is wrong with it.
    """
    if png[:8] != SIGNATURE or len(png) < 57:
        return None
    width, height, *told = struct.unpack(">IIBBBBB", png[16:29])
    channels = next((n for colour, n in ((0, 1), (2, 3)) if told == [8, colour, 0, 0, 0]), None)
    length = int.from_bytes(png[33:37], "big")
    if channels is None or png[37:41] != b"IDAT" or png[49 + length : 53 + length] != b"IEND":
        return None
    most = height * (width * channels + 1)
    try:
        unpacked = zlib.decompressobj()  # never more than the header promises: a small file may hold gigabytes
        data = unpacked.decompress(memoryview(png)[41 : 41 + length], most + 1)
    except zlib.error:
        return None
    if len(data) != most or not unpacked.eof:
        return None
    rows = np.frombuffer(data, dtype=np.uint8).reshape(height, -1)
    if (rows[:, 0] != _UP).any():
        return None
    pixels = _sum_down(rows[:, 1:].copy())
    return pixels if channels == 1 else pixels.reshape(height, width, channels)


def _sum_down(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cumulative sums down the rows, modulo 256, in place: blocks of rows first, then each block onto the one before.
    A quarter of the time of `np.add.accumulate`, which adds bytes one by one."""
    height = rows.shape[0]
    block = math.isqrt(height) or 1
    for i in range(1, block):
        rows[i::block] += rows[i - 1 :: block][: rows[i::block].shape[0]]
    for start in range(block, height, block):
        rows[start : start + block] += rows[start - 1]
    return rows
