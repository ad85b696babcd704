"""A polyline as ink: what a pen of one pixel leaves, computed for all columns at once.

Each pixel column is split into `SUB` strips. Within a strip, the line covers one interval of heights: from the lowest
to the highest of its points and of where it crosses the strip's edges. The pen widens intervals, also into the strips
beside them, and the ink of a pixel is the area that the intervals of its strips share with it. The same rule draws
4,000 points on 400 columns and 20 points on 400 columns: there is no second way for zooms.

Every operation on floats is a single IEEE one (+, −, ×, ÷, comparison), each in a numpy call of its own, so nothing can
be fused; heights are then rounded, and the rest is whole numbers. Results do not depend on the processor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SUB = 3
"""Strips a pixel column. With `LEVELS`, 3 x 85 = 255: full coverage is exactly the largest byte."""
LEVELS = 85
"""Steps a pixel is divided into vertically."""
RISES = (0.5, 0.15)
"""How far (pixels) the pen's rim lies beyond an interval: in its own strip, and in the strips on both sides, which make
up the pixel that the pen is wide. The second stands for all points of a neighbouring strip, from its near edge (0.47)
to its far edge (0), so that lines of any slope have the area of a pen one pixel wide within 7 %."""

GAP_STEPS = 5.0
"""A hole of more than this many typical pixel steps is left open."""
_NEIGHBOURS = np.array([-4, -3, -2, -1, 1, 2, 3, 4])


def holes(x: Floats) -> NDArray[np.bool_]:
    """Steps between neighbouring points that are holes in the data, shape (n − 1,).

    A hole is wider than `GAP_STEPS` times the median step of all, and than the same times the upper median of the
    eight steps around it: where a finely sampled part ends and a coarse one begins, there is no hole.

    Args:
        x: wavelengths, shape (n,), sorted.
    """
    step = x[1:] - x[:-1]
    if step.size < 4 or step.max() <= GAP_STEPS * step.min():
        return np.zeros(step.size, dtype=bool)
    median = np.partition(step, step.size // 2)[step.size // 2]
    found = np.asarray(step > GAP_STEPS * median)
    wide = np.flatnonzero(found)
    if wide.size:
        around = step[np.clip(wide[:, None] + _NEIGHBOURS, 0, step.size - 1)]
        found[wide] = step[wide] > GAP_STEPS * np.partition(around, 4, axis=1)[:, 4]
    return found


def envelope(u: Floats, v: Floats, hole: NDArray[np.bool_], n_strips: int) -> tuple[Floats, Floats]:
    """Lowest and highest v of the line in each strip [i, i + 1), shape (n_strips,) each; (inf, −inf) where it is not.

    Args:
        u: positions, shape (n,), n ≥ 1, sorted, in [0, n_strips].
        v: heights, shape (n,).
        hole: steps that are not bridged, shape (n − 1,).
        n_strips: how many strips.
    """
    low, high = np.full(n_strips, np.inf), np.full(n_strips, -np.inf)
    count = np.bincount(np.minimum(u.astype(np.intp), n_strips - 1), minlength=n_strips)
    end = np.cumsum(count)
    filled = np.flatnonzero(count)
    first = (end - count)[filled]
    low[filled] = np.minimum.reduceat(v, first)
    high[filled] = np.maximum.reduceat(v, first)
    # Where the line crosses the edges between strips: edge e lies after point `left` and not after the next one.
    left = end[:-1] - 1
    crossed = (left >= 0) & (left < u.size - 1)
    if hole.any():
        crossed &= ~hole[np.where(crossed, left, 0)]
    if crossed.all():
        edge: NDArray[np.intp] = np.arange(1, n_strips)
    else:
        edge = np.flatnonzero(crossed) + 1
        left = left[crossed]
    u0, v0 = u[left], v[left]
    across = v0 + (edge - u0) / (u[left + 1] - u0) * (v[left + 1] - v0)
    for ends, none, wider in ((low, np.inf, np.minimum), (high, -np.inf, np.maximum)):
        at_edge = np.full(n_strips + 1, none)
        at_edge[edge] = across
        wider(ends, at_edge[:-1], out=ends)
        wider(ends, at_edge[1:], out=ends)
    return low, high


def stroke(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The intervals that a pen one pixel wide covers when its centre runs through (low, high) in each strip."""
    own, beside = RISES
    wide_low, wide_high = low - own, high + own
    rim = low - beside
    np.minimum(wide_low[1:], rim[:-1], out=wide_low[1:])
    np.minimum(wide_low[:-1], rim[1:], out=wide_low[:-1])
    rim = high + beside
    np.maximum(wide_high[1:], rim[:-1], out=wide_high[1:])
    np.maximum(wide_high[:-1], rim[1:], out=wide_high[:-1])
    return wide_low, wide_high


def coverage(low: Floats, high: Floats, height: int) -> NDArray[np.uint8]:
    """How much of each pixel the intervals of its strips cover: uint8 of shape (height, columns), 255 for all of it.

    Args:
        low: upper ends of the intervals in pixels from the top, shape (columns · SUB,).
        high: lower ends; intervals with high < low are empty.
        height: rows; what lies outside is cut off.
    """
    columns = low.size // SUB
    drawn = np.flatnonzero(high > low)
    column = drawn // SUB
    # The area above a height t in row r is clip(t − r, 0, 1): its differences from row to row have two entries, at
    # floor(t) and below. Intervals are differences of two such areas; the sum down the rows turns all into areas.
    # Bytes may wrap on the way, as whole numbers modulo 256 do; every sum ends between 0 and 255.
    ink = np.zeros((height + 2) * columns, dtype=np.uint8)
    for ends, sign in ((high, 1), (low, -1)):
        steps = np.rint(np.minimum(np.maximum(ends[drawn], 0.0), height) * LEVELS).astype(np.int32)
        row = steps // LEVELS
        part = steps - row * LEVELS
        at = row * columns + column
        np.add.at(ink, at, (sign * (part - LEVELS)).astype(np.uint8))
        np.add.at(ink, at + columns, (-sign * part).astype(np.uint8))
    return _sum_down(ink.reshape(height + 2, columns))[:height]


def _sum_down(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cumulative sums down the rows, modulo 256: in doubling steps, six times faster than `cumsum` on bytes."""
    other, step = np.empty_like(array), 1
    while step < array.shape[0]:
        other[:step] = array[:step]
        np.add(array[step:], array[:-step], out=other[step:])
        array, other = other, array
        step *= 2
    return array
