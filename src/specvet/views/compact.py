"""The compact style: a small black-on-white drawing for models, some hundred times faster than matplotlib's figure.

Style `compact-1`. The picture is grey; RGB is the same picture three times, for processors that ask for it. Sizes are
whole numbers of a model's image units, so that its processor does not resize it. Which family takes which is said at
`SIZES`: `published` suits all of them, `small` only those of 28-pixel units.

A full view of fewer than 300 pixels across shows medians, see `compact_overview`.

From back to front: light bands where wavelengths deserve doubt (arm joins, the Earth's air), darker bands at bad
pixels, a grid at the labelled ticks, a grey band of ±1σ in zooms, the spectrum as a black line one pixel wide, the
frame. Holes in the data stay open. What the flux range cuts off (see `flux_range`) has a triangle outside the frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specvet.views.compact_axes import Axis, axis
from specvet.views.compact_glyphs import HEIGHT as TEXT_HEIGHT
from specvet.views.compact_glyphs import fitted, text_ink
from specvet.views.compact_line import SUB, coverage, envelope, holes, stroke
from specvet.views.compact_overview import BELOW, overview
from specvet.views.compact_range import flux_range
from specvet.views.png import LEVEL, encode_png
from specvet.views.points import MAX_WAVELENGTH, Bools, Floats, check_points, points

Pixels = NDArray[np.uint8]
Size = tuple[int, int]

STYLE = "compact-1"

SIZES: dict[str, tuple[Size, Size]] = {
    "small": ((448, 280), (308, 224)),
    "published": ((896, 448), (672, 448)),
    "tiny": ((224, 168), (252, 196)),
}
"""Name: (width, height) of a full view and of a zoom. `small` is of multiples of 28, for models with 14-pixel patches
merged 2 x 2 (Qwen2-VL, Qwen2.5-VL and small models of that make): 160 and 88 tokens. `published` is of multiples of
224, which 28 and 32 (Qwen3-VL, Qwen3.5: 16-pixel patches, merged) both divide: 512 and 384, or 392 and 294 tokens.
`tiny` is for the smallest models: 48 and 63 tokens, of multiples of 28; a column of its full view spans some 30 Å of a
survey's spectrum, so that a narrow line is a speck there, and must be zoomed into to be read."""

MIN_SIZE, MAX_SIZE = (224, 168), (4096, 4096)
"""Below, an axis may have fewer than two labels."""

LEFT, RIGHT, TOP, BOTTOM = 40, 8, 18, 18
"""Pixels around the plot: five digits, half a label, a line of text with room for a triangle, and again."""
X_TICK_PIXELS, Y_TICK_PIXELS = 43, 30
"""Labelled ticks are at least this far apart."""
TICK, MINOR_TICK = 5, 3
DOUBTFUL, GRID, BAD, BAND, FRAME = 242, 228, 214, 196, 96
"""Greys, 255 is white."""
BAND_POINTS = 2
"""The band of errors is drawn below this many points a column. Beyond, the line's own scatter covers it."""
LEAST_SPAN = 1e-4
"""The wavelength axis spans at least this share of its largest value, so that labels stay short."""


def draw_compact(
    wavelength: ArrayLike,
    flux: ArrayLike,
    *,
    window: tuple[float, float] | None = None,
    sigma: ArrayLike | None = None,
    bad: ArrayLike | None = None,
    doubtful: Sequence[tuple[float, float]] = (),
    size: Size = SIZES["small"][0],
    title: str = "",
    rgb: bool = True,
    level: int = LEVEL,
) -> bytes:
    """The compact drawing as a PNG; arguments and errors are those of `compact_array`, RGB by default.

    Equal inputs give equal bytes on any machine with IEEE arithmetic and the same zlib, from any thread or process.
    `level` is zlib's (0-9).
    """
    array = compact_array(
        wavelength, flux, window=window, sigma=sigma, bad=bad, doubtful=doubtful, size=size, title=title, rgb=rgb
    )
    return encode_png(array, level)


def compact_array(
    wavelength: ArrayLike,
    flux: ArrayLike,
    *,
    window: tuple[float, float] | None = None,
    sigma: ArrayLike | None = None,
    bad: ArrayLike | None = None,
    doubtful: Sequence[tuple[float, float]] = (),
    size: Size = SIZES["small"][0],
    title: str = "",
    rgb: bool = False,
) -> Pixels:
    """A spectrum, or a window of it, as an array of pixels.

    Equal inputs give equal arrays on any machine: see `compact_line`. No state is kept but the letters, which are read
    once, so any number of threads and processes may draw.

    Args:
        wavelength: Å, shape (n,), in the frame to show, any order. The axis spans the points drawn.
        flux: any unit, shape (n,). Points that are not finite in both are left out; a hole wider than five pixel steps
            stays open.
        window: (low, high) in Å, both ends included; None for all.
        sigma: 1σ errors of `flux`, shape (n,), or None; not finite or ≤ 0 where there is none.
        bad: pixels not to be trusted, shape (n,), or None. They are drawn, on a grey band, but do not set the range.
        doubtful: ranges in Å to shade lightly: arm joins, the absorption of the Earth's air.
        size: (width, height) in pixels.
        title: one line above the plot; its middle is left out where it is too long.
        rgb: three equal channels.

    Returns:
        uint8 of shape (height, width), or (height, width, 3) with `rgb`; 255 is white.

    Raises:
        ValueError: fewer than 2 points to draw, wavelengths beyond 1e12 or fluxes beyond 1e150, shapes that differ, a
            window that is none, or a size outside 224 x 168 to 4096 x 4096.
    """
    width, height = _checked(size)
    x, y, sigma, bad = points(wavelength, flux, window, sigma, bad)
    check_points(x, y, window)
    if max(-float(x[0]), float(x[-1])) < 1.0 / MAX_WAVELENGTH:
        raise ValueError(f"wavelength holds no value beyond {1.0 / MAX_WAVELENGTH:g}, which cannot be drawn")
    canvas = np.full((height, width), 255, dtype=np.uint8)
    plot = canvas[TOP : height - BOTTOM, LEFT : width - RIGHT]
    rows, columns = plot.shape

    x_low, x_high = _span(float(x[0]), float(x[-1]))
    if window is None and width < BELOW:
        x, y, sigma, bad = overview(x, y, sigma, bad, columns)
    y_low, y_high = flux_range(y, None if bad is None else ~bad, sigma)
    x_scale, y_scale = columns / (x_high - x_low), rows / (y_high - y_low)
    x_axis = axis(x_low, x_high, max(2, columns // X_TICK_PIXELS), plain_from=0.1, plain_below=1e5)
    y_axis = _flux_axis(y_low, y_high, max(2, rows // Y_TICK_PIXELS))
    u, v = (x - x_low) * x_scale, (y_high - y) * y_scale
    hole = holes(x)

    ground = np.full(columns, 255, dtype=np.uint8)  # one row: all that looks the same at every height
    for low, high in doubtful:
        first, last = (min(max((end - x_low) * x_scale, 0.0), float(columns)) for end in (low, high))
        if first < last:
            ground[int(first) : int(last) + 1] = DOUBTFUL
    if bad is not None and bad.any():
        ground[_bad_columns(u, bad, columns)] = BAD
    x_ticks = _places(x_axis.major, x_low, x_scale, columns)
    y_ticks = rows - 1 - _places(y_axis.major, y_low, y_scale, rows)
    ground[x_ticks] = np.minimum(ground[x_ticks], GRID)
    plot[...] = ground
    plot[y_ticks] = np.minimum(ground, GRID)
    if sigma is not None and x.size < BAND_POINTS * columns:
        widest = HIGHEST_BAND / y_scale  # the product must not overflow
        half = np.minimum(np.where(np.isfinite(sigma) & (sigma > 0), sigma, 0.0), widest) * y_scale
        _draw_band(plot, u, v, half, hole)

    x_minor = _places(x_axis.minor, x_low, x_scale, columns)
    y_minor = rows - 1 - _places(y_axis.minor, y_low, y_scale, rows)
    for across, down, length in ((x_minor, y_minor, MINOR_TICK), (x_ticks, y_ticks, TICK)):
        plot[-length:, across] = FRAME
        plot[down, :length] = FRAME

    low_v, high_v = envelope(u * SUB, v, hole, columns * SUB)
    ink = coverage(*stroke(low_v, high_v), rows)
    np.minimum(plot, np.invert(ink, out=ink), out=plot)

    _draw_frame(canvas)
    _draw_cut(canvas[TOP - 2 :: -1], low_v < 0)
    _draw_cut(canvas[height - BOTTOM + 1 :], high_v > rows)
    _draw_labels(canvas, x_axis, x_ticks, y_axis, y_ticks, title)
    return _three(canvas) if rgb else canvas


def _flux_axis(low: float, high: float, most: int) -> Axis:
    """Ticks whose labels fit beside the plot: a sign that is cut off would turn a number into another one."""
    while True:
        found = axis(low, high, most)
        if most <= 2 or all(_wide(label) <= LEFT - 4 for label in found.labels):
            return found
        most -= 1


def chosen_size(size: str | Size | None, *, zoomed: bool) -> Size:
    """(width, height) of a name of `SIZES` (None: `small`) or of a pair of numbers.

    Raises:
        ValueError: the name or the numbers are none.
    """
    if isinstance(size, str) or size is None:
        name = "small" if size is None else size
        if name not in SIZES:
            raise ValueError(f"size {name!r} is unknown; choose {' or '.join(SIZES)}, or (width, height) in pixels")
        return SIZES[name][zoomed]
    return _checked(size)


def _checked(size: Size) -> Size:
    width, height = size
    if not (MIN_SIZE[0] <= width <= MAX_SIZE[0] and MIN_SIZE[1] <= height <= MAX_SIZE[1]):
        least, most = (f"{w} x {h}" for w, h in (MIN_SIZE, MAX_SIZE))
        raise ValueError(f"size {width} x {height} pixels; {least} to {most} expected")
    return int(width), int(height)


HIGHEST_BAND = 1e9
"""Pixels; half the height that an error band is drawn with, at most."""


def _span(low: float, high: float) -> tuple[float, float]:
    least = LEAST_SPAN * max(abs(low), abs(high)) or 1.0
    if high - low >= least:
        return low, high
    middle = (low + high) / 2
    return middle - least / 2, middle + least / 2


def _places(values: Sequence[float], low: float, scale: float, n: int) -> NDArray[np.intp]:
    """The pixel of each value along an axis of n pixels."""
    with np.errstate(over="ignore", invalid="ignore"):  # fluxes near the largest number there is
        at = (np.array(values, dtype=np.float64) - low) * scale
    at[np.isnan(at)] = 0.0  # infinite times zero
    return np.minimum(np.maximum(at, 0), n - 1).astype(np.intp)


def _bad_columns(u: Floats, bad: Bools, columns: int) -> Bools:
    """Columns that bad points own a part of: from half-way to the point before to half-way to the one after."""
    at = np.flatnonzero(bad)
    first = ((u[np.maximum(at - 1, 0)] + u[at]) / 2).astype(np.intp)
    last = ((u[at] + u[np.minimum(at + 1, u.size - 1)]) / 2).astype(np.intp)
    change = np.zeros(columns + 2, dtype=np.intp)
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    return np.asarray(np.cumsum(change)[:columns] > 0)


def _draw_band(plot: Pixels, u: Floats, v: Floats, half: Floats, hole: Bools) -> None:
    rows, columns = plot.shape
    top, _ = envelope(u, v - half, hole, columns)
    _, bottom = envelope(u, v + half, hole, columns)
    first = np.clip(np.rint(top), 0, rows).astype(np.int16)
    last = np.clip(np.rint(bottom), 0, rows).astype(np.int16)
    row = np.arange(rows, dtype=np.int16)[:, None]
    np.minimum(plot, np.where((row >= first) & (row < last), np.uint8(BAND), np.uint8(255)), out=plot)


def _draw_frame(canvas: Pixels) -> None:
    height, width = canvas.shape
    canvas[TOP - 1, LEFT - 1 : width - RIGHT + 1] = FRAME
    canvas[height - BOTTOM, LEFT - 1 : width - RIGHT + 1] = FRAME
    canvas[TOP - 1 : height - BOTTOM, LEFT - 1] = FRAME
    canvas[TOP - 1 : height - BOTTOM, width - RIGHT] = FRAME


def _draw_cut(outwards: Pixels, cut: Bools) -> None:
    """Triangles, pointing away from the plot, at the columns with a strip where the line leaves it."""
    columns = LEFT + np.flatnonzero(cut) // SUB
    for row, reach in enumerate((2, 1, 0)):
        outwards[row, columns[:, None] + np.arange(-reach, reach + 1)] = 0


def _draw_labels(
    canvas: Pixels, x_axis: Axis, x_ticks: NDArray[np.intp], y_axis: Axis, y_ticks: NDArray[np.intp], title: str
) -> None:
    height, width = canvas.shape
    for label, row in zip(y_axis.labels, y_ticks.tolist(), strict=True):
        top = min(max(TOP + row - TEXT_HEIGHT // 2, 0), height - BOTTOM - TEXT_HEIGHT + 4)
        _write(canvas, label, LEFT - 4 - _wide(label), top)
    unit = f"{x_axis.factor} Å".lstrip()
    free_from, free_to = 0, width - 1 - _wide(unit)
    _write(canvas, unit, free_to, height - BOTTOM + 4)
    for label, column in zip(x_axis.labels, x_ticks.tolist(), strict=True):
        left = LEFT + column - _wide(label) // 2
        if free_from <= left <= free_to - _wide(label) - 2:
            _write(canvas, label, left, height - BOTTOM + 4)
            free_from = left + _wide(label) + 5
    name = f"Flux {y_axis.factor}".rstrip()
    _write(canvas, name, LEFT, 1)
    after = LEFT + _wide(name) + 12
    _write(canvas, fitted(title, width - RIGHT - after), after, 1)


def _wide(text: str) -> int:
    return int(text_ink(text).shape[1])


def _write(canvas: Pixels, text: str, left: int, top: int) -> None:
    ink = text_ink(text)
    cut = max(0, -left)
    where = canvas[top : top + TEXT_HEIGHT, left + cut : left + ink.shape[1]]
    np.minimum(where, 255 - ink[: where.shape[0], cut : cut + where.shape[1]], out=where)


def _three(grey: Pixels) -> Pixels:
    """The picture in three channels; strided writes are faster than `np.repeat`."""
    out = np.empty((*grey.shape, 3), dtype=np.uint8)
    for channel in range(3):
        out[:, :, channel] = grey
    return out
