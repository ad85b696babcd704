"""A small drawing of a spectrum in braille dots, for terminals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specvet.views import View

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each of a character's 4 x 2 dots (Unicode 17, block 2800-28FF)."""


def sketch(view: View, width: int = 60, height: int = 4) -> list[str]:
    """`height` lines of `width` braille characters: the least and the greatest flux of each column of dots, joined.

    Empty with fewer than 2 points or a single wavelength. Fluxes beyond 0.2-99.8 % are cut off at the edge.
    """
    x, y = view.wavelength, view.flux
    if x.size < 2 or x[-1] <= x[0]:
        return []
    n = 2 * width
    low, high = (float(v) for v in np.percentile(y, (0.2, 99.8)))
    span = high - low
    level = np.full(y.shape, 0.5) if span <= 0 else np.clip((y - low) / span, 0, 1)
    column = np.minimum(((x - x[0]) / (x[-1] - x[0]) * n).astype(int), n - 1)
    bottom, top = _envelope(column, level, n)
    rows = 4 * height
    dots = np.zeros((rows, n), dtype=bool)
    first, last = (np.round((1 - v) * (rows - 1)).astype(int) for v in (top, bottom))
    for c in range(n):
        dots[first[c] : last[c] + 1, c] = True
    bits = dots.reshape(height, 4, width, 2) * _DOTS[None, :, None, :]
    return ["".join(chr(0x2800 + int(b)) for b in line) for line in bits.sum(axis=(1, 3))]


def _envelope(
    column: NDArray[np.int_], level: NDArray[np.float64], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(least, greatest) level of each column; a column joins its neighbour's, and one without points is filled in."""
    bottom, top = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(bottom, column, level)
    np.maximum.at(top, column, level)
    there = np.flatnonzero(np.isfinite(bottom))
    every = np.arange(n)
    bottom, top = np.interp(every, there, bottom[there]), np.interp(every, there, top[there])
    joined_bottom, joined_top = bottom.copy(), top.copy()
    joined_bottom[1:] = np.minimum(bottom[1:], top[:-1])
    joined_top[1:] = np.maximum(top[1:], bottom[:-1])
    return joined_bottom, joined_top
