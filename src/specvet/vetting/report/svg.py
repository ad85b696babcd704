"""Numbers for small pictures: what range to show, which points survive, where ticks and labels go.

Pictures are SVG whose units are half pixels, so that whole numbers are fine enough and a path stays short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

COLUMN = 2
"""Units in one pixel column: points that fall into one are drawn as their least and greatest."""

SOFT = 0.35
"""A peak that reaches beyond the robust range by less than this share of it is shown whole, not clipped."""

PEAK = 5.0
"""Noise peaks up to so many σ from the middle of the range are shown whole too."""

NAMED_EXPONENTS = (-2, 4)
"""Powers of ten between these are written out on the flux axis; others are taken out as a factor."""


@dataclass(frozen=True, slots=True)
class Plot:
    """The area that data are drawn in, in units, and the ranges it shows."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    """Å at the left and right edge."""
    y: tuple[float, float]
    """Flux at the bottom and top edge."""

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def across(self, wavelength: float) -> float:
        """Units from the left of the picture, kept inside the plot."""
        low, high = self.x
        return self.left + self.width * min(max((wavelength - low) / (high - low), 0.0), 1.0)

    def down(self, flux: float) -> float:
        """Units from the top of the picture, kept inside the plot."""
        low, high = self.y
        return self.bottom - self.height * min(max((flux - low) / (high - low), 0.0), 1.0)

    def columns(self, wavelength: FloatArray) -> IntArray:
        """`across` for many, as whole units."""
        low, high = self.x
        return np.rint(self.left + self.width * np.clip((wavelength - low) / (high - low), 0, 1)).astype(np.int64)

    def rows(self, flux: FloatArray) -> IntArray:
        """`down` for many, as whole units; the flux must be finite."""
        low, high = self.y
        return np.rint(self.bottom - self.height * np.clip((flux - low) / (high - low), 0, 1)).astype(np.int64)


def robust_range(flux: FloatArray, good: BoolArray, sigma: FloatArray | None) -> tuple[float, float]:
    """The flux range to show: 0.5 to 99.5 percent of the good pixels, wider where real features need it.

    A feature of two or more pixels survives a running median of three and is shown whole, unless its error is as large
    as the range itself; an isolated spike is not and gets clipped. Falls back to all finite pixels, then to (0, 1).
    """
    finite = np.isfinite(flux)
    chosen = good & finite if bool(np.any(good & finite)) else finite
    values = flux[chosen]
    if not values.size:
        return 0.0, 1.0
    low, high = (float(v) for v in np.percentile(values, (0.5, 99.5)))
    if values.size >= 3:
        middle = np.median(np.lib.stride_tricks.sliding_window_view(values, 3), axis=1)
        # The percentiles of a short window are its spikes.
        low, high = (float(v) for v in np.percentile(middle, (0.5, 99.5)))
        if sigma is not None:
            trusted = middle[sigma[chosen][1:-1] <= max(high - low, 0.0) / 2]
            middle = trusted if trusted.size else middle
        low, high = min(low, float(middle.min())), max(high, float(middle.max()))
        noise = float(np.median(np.abs(np.diff(values)))) / 0.954  # the median difference of two normal deviates
        soft = max(SOFT * (high - low), PEAK * noise - (high - low) / 2)
        near = values[(values >= low - soft) & (values <= high + soft)]
        low, high = min(low, float(near.min(initial=low))), max(high, float(near.max(initial=high)))
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - pad, high + pad


def segments(wavelength: FloatArray, flux: FloatArray) -> IntArray:
    """A number for each pixel that changes where the line must break: after NaN and at gaps; −1 for NaN itself.

    A gap is a step of more than five times the typical one nearby, so that an arm that is missing is not bridged.
    """
    finite = np.isfinite(flux)
    breaks = np.zeros(flux.size, dtype=bool)
    breaks[1:] |= finite[1:] & ~finite[:-1]
    if flux.size > 2:
        step = np.diff(wavelength)
        breaks[1:] |= step > 5 * np.median(step)
    numbers: IntArray = np.cumsum(breaks).astype(np.int64)
    numbers[~finite] = -1
    return numbers


def decimated(columns: IntArray, values: FloatArray, runs: IntArray) -> IntArray:
    """Indices of the points to draw: the least and the greatest of each pixel column and run, in their order.

    `columns` are whole units, `runs` as `segments` gives them; pixels of run −1 are left out. Sparse data stay whole.
    """
    index = np.flatnonzero(runs >= 0)
    if not index.size:
        return index.astype(np.int64)
    column, value, run = columns[index] // COLUMN, values[index], runs[index]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(column) != 0) | (np.diff(run) != 0)]))
    if index.size <= 2 * starts.size:
        return index.astype(np.int64)
    sizes = np.diff(np.append(starts, index.size))
    place = np.arange(index.size)
    low = np.repeat(np.minimum.reduceat(value, starts), sizes)
    high = np.repeat(np.maximum.reduceat(value, starts), sizes)
    first_low = np.minimum.reduceat(np.where(value == low, place, index.size), starts)
    first_high = np.minimum.reduceat(np.where(value == high, place, index.size), starts)
    kept: IntArray = index[np.unique(np.concatenate([first_low, first_high]))].astype(np.int64)
    return kept


def polyline(x: IntArray, y: IntArray, runs: IntArray) -> str:
    """Path data through points in units; a run starts with a move, a run of one point is a dot (line of no length)."""
    parts: list[str] = []
    last_run, last_x, last_y, drawn = -2, 0, 0, True
    for px, py, run in zip(x.tolist(), y.tolist(), runs.tolist(), strict=True):
        if run != last_run:
            if not drawn:
                parts.append("h0")
            parts.append(f"M{px} {py}")
            last_run, drawn = run, False
        else:
            dx, dy = px - last_x, py - last_y
            if dx and dy:
                parts.append(f"l{dx}{dy}" if dy < 0 else f"l{dx} {dy}")
            elif dx:
                parts.append(f"h{dx}")
            elif dy:
                parts.append(f"v{dy}")
            else:
                continue
            drawn = True
        last_x, last_y = px, py
    if not drawn:
        parts.append("h0")
    return "".join(parts)


def band(x: IntArray, low: IntArray, high: IntArray, runs: IntArray, column: int = 12) -> str:
    """Path data of the area between `low` and `high` (rows in units), outermost values in columns of `column` units."""
    parts: list[str] = []
    for run in np.unique(runs[runs >= 0]):
        here = runs == run
        group = x[here] // column
        starts = np.flatnonzero(np.concatenate([[True], np.diff(group) != 0]))
        if starts.size < 2:
            continue
        middle = x[here][starts]
        middle[-1] = x[here][-1]
        down = np.maximum.reduceat(low[here], starts)
        up = np.minimum.reduceat(high[here], starts)
        ring_x, ring_y = np.concatenate([middle, middle[::-1]]), np.concatenate([up, down[::-1]])
        parts.append(polyline(ring_x, ring_y, np.zeros(ring_x.size, dtype=np.int64)) + "z")
    return "".join(parts)


def stretches(marked: BoolArray, x: IntArray) -> list[tuple[int, int]]:
    """(left, right) in units of runs of marked pixels, half a pixel wider on both sides, merged when near."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    merged: list[tuple[int, int]] = []
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        left = int(x[start] + x[max(start - 1, 0)]) // 2
        right = int(x[stop - 1] + x[min(stop, x.size - 1)] + 1) // 2
        right = max(right, left + 2)
        if merged and left - merged[-1][1] < 4:
            merged[-1] = (merged[-1][0], right)
        else:
            merged.append((left, right))
    return merged


def tick_step(span: float, at_most: int) -> float:
    """The least step of 1, 2 or 5 times a power of ten that gives at most `at_most` steps in `span`."""
    power = 10.0 ** math.floor(math.log10(span / at_most))
    return next(power * m for m in (1, 2, 5, 10, 20) if power * m * at_most >= span * (1 - 1e-9))


def ticks(low: float, high: float, step: float) -> list[float]:
    """Multiples of `step` from `low` to `high`, both included."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def common_exponent(low: float, high: float) -> int:
    """The power of ten to take out of an axis from `low` to `high`; 0 where numbers read well as they are."""
    largest = max(abs(low), abs(high))
    exponent = math.floor(math.log10(largest)) if largest > 0 else 0
    return 0 if NAMED_EXPONENTS[0] <= exponent <= NAMED_EXPONENTS[1] else exponent


def number(value: float, step: float) -> str:
    """`value` with the decimals that multiples of `step` need, and a real minus sign."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    text = f"{value:.{decimals}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


@dataclass(slots=True)
class LabelRows:
    """Places labels above a plot in a few rows so that none touches another, nor the leader of one further up."""

    left: float
    right: float
    rows: int
    taken: list[list[tuple[float, float]]] = field(init=False)

    def __post_init__(self) -> None:
        self.taken = [[] for _ in range(self.rows)]

    def place(self, x: float, width: float) -> tuple[int, float] | None:
        """Row (0 next to the plot) and middle of a label that belongs to `x`; None where no room is left."""
        if width > self.right - self.left:
            return None
        middle = min(max(x, self.left + width / 2), self.right - width / 2)
        reach = (middle - width / 2, middle + width / 2)
        for row, taken in enumerate(self.taken):
            if all(reach[1] <= low or reach[0] >= high for low, high in taken):
                taken.append(reach)
                for lower in self.taken[:row]:
                    lower.append((x - 2, x + 2))
                return row, middle
            if any(low < x < high for low, high in taken):
                return None  # its leader would cross that label
        return None


def text_width(text: str, size: float) -> float:
    """About how wide `text` is at font size `size`, in the same unit; on the wide side."""
    return size * sum(0.34 if c in "il.,:;|![]() " else 0.85 if c in "mwMWÅ" else 0.6 for c in text)


def shortened(text: str, length: int) -> str:
    """`text`, or its beginning and an ellipsis."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def rectangles(spans: Sequence[tuple[float, float]], top: float, height: float) -> str:
    """Path data of upright rectangles of one height."""
    return "".join(f"M{a:.0f} {top:.0f}h{b - a:.0f}v{height:.0f}H{a:.0f}z" for a, b in spans if b > a)
