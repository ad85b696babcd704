"""A picture, and what a reader sees in it: heights, the axis, peaks and dips, slope, shape."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Image
from specvet.spectra.index_kinds import Range
from specvet.tools import Observation
from specvet.views.compact import BOTTOM, LEFT, RIGHT, TOP, Y_TICK_PIXELS, compact_array
from specvet.views.compact_axes import Axis, axis
from specvet.views.compact_overview import overview
from specvet.views.compact_range import flux_range
from specvet.views.png import encode_png

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]

PNG_LEVEL = 0
"""zlib's, stored: whoever learns from documents looks at their pixels once."""

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Å that wavelengths are rounded to: the first of at least 0.6 columns."""

EDGE = 3
"""Bins at both ends where no peak is looked for."""

BINS = 2
"""Columns of a zoom in which peaks and dips are looked for together."""

BASE = 21
"""Bins of the running median above which a peak stands."""

CLEAR = 6.0
"""Errors by which a peak or dip stands out."""

CORRELATED = 1.2
"""Noise of bins over that of independent pixels: surveys resample, and neighbours share their noise."""

LEAST_RISE = 0.07
"""Share of the picture's height by which it does."""


class Picture:
    """One view in the compact style, drawn and measured on its drawn points."""

    def __init__(self, observation: Observation) -> None:
        """Raises ValueError for an observation without a view that can be drawn."""
        view = observation.view
        if view is None or view.pixels is None or view.n_points < 2:
            raise ValueError(f"nothing to draw: {observation.text}")
        self.observation = observation
        self.view = view
        self.whole = view.window is None
        self.columns = view.pixels[0] - LEFT - RIGHT
        self.rows = view.pixels[1] - TOP - BOTTOM
        self.low, self.high = float(view.wavelength[0]), float(view.wavelength[-1])
        self.column = (self.high - self.low) / self.columns
        """Å of one pixel column."""
        self.step = next((step for step in STEPS if step >= 0.6 * self.column), STEPS[-1])
        """Å that places in it are rounded to."""
        self._sigma, self._bad = view.sigma, view.bad
        self.x, self.y = view.wavelength, view.flux
        if self.whole:
            self.x, self.y, self._sigma, self._bad = overview(self.x, self.y, view.sigma, view.bad, self.columns)
        if self._bad is not None and self._bad.any():
            self.gx, self.gy = self.x[~self._bad], self.y[~self._bad]
        else:
            self.gx, self.gy = self.x, self.y

    @cached_property
    def pixels(self) -> Pixels:
        """Grey, shape (height, width)."""
        v = self.view
        assert v.pixels is not None
        return compact_array(  # what an overview leaves of a spectrum is drawn as it is
            self.x, self.y, window=v.window, sigma=self._sigma, bad=self._bad, doubtful=v.doubtful, size=v.pixels,
            title=v.title,
        )  # fmt: skip

    @cached_property
    def image(self) -> Image:
        """As a grey PNG."""
        return Image.of(encode_png(self.pixels, PNG_LEVEL))

    @cached_property
    def axis(self) -> Range:
        """Flux at the lower and upper edge of the plot."""
        return flux_range(self.y, None if self._bad is None else ~self._bad, self._sigma)

    @cached_property
    def labels(self) -> Axis:
        """Ticks of the flux axis, as they are written."""
        return axis(*self.axis, max(2, self.rows // Y_TICK_PIXELS))

    def height(self, flux: float) -> float:
        """Where a flux stands between the lower (0) and the upper (100) edge of the plot."""
        low, high = self.axis
        return 100.0 * (flux - low) / (high - low)

    def flux_at(self, place: float) -> float | None:
        """Mean of what is drawn within two columns of a wavelength; None in a hole."""
        return self.mean((place - 2.0 * self.column, place + 2.0 * self.column))

    def mean(self, band: Range) -> float | None:
        """Mean of the good points in a band; None where they cover less than two thirds of it."""
        first, last = self.gx.searchsorted(band)
        if last <= first:
            return None
        step = (self.high - self.low) / self.x.size
        if (last - first) * step < 0.66 * (band[1] - band[0]):
            return None
        return float(self.gy[first:last].mean())

    def parts(self, n: int) -> list[float | None]:
        """Medians of n equal stretches; None where one holds no good point."""
        edges = self.gx.searchsorted(np.linspace(self.low, self.high, n + 1))
        edges[-1] = self.gx.size
        pieces = [self.gy[a:b] for a, b in pairwise(edges.tolist())]
        return [median(piece) if piece.size else None for piece in pieces]

    @cached_property
    def features(self) -> tuple[tuple[float, float], ...]:
        """Peaks (rise above 0) and dips (below) that stand out: (wavelength, rise in shares of the height), the highest
        first, each some way from the others."""
        if self.gx.size < 3 * BASE:
            return ()
        if self.whole:
            x, y = self.gx, self.gy
            bend = np.abs(y[1:-1] - 0.5 * (y[2:] + y[:-2]))
            noise = median(bend) / (0.6745 * 1.225)
        else:
            n = self.columns // BINS
            at = np.minimum(((self.gx - self.low) * (n / (self.high - self.low))).astype(np.intp), n - 1)
            count = np.bincount(at, minlength=n)
            filled = count > 0
            count = count[filled]
            x = np.bincount(at, self.gx, n)[filled] / count
            y = np.bincount(at, self.gy, n)[filled] / count
            scatter = np.abs(2.0 * self.gy[2:-2] - self.gy[:-4] - self.gy[4:])
            noise = 0.6052697 * median(scatter) / math.sqrt(max(1.0, self.gx.size / n))
            noise *= CORRELATED
        if y.size < 2 * BASE:
            return ()
        half = BASE // 2
        # Turned over at both ends, so that a slope goes on and is no peak there.
        before, after = 2.0 * median(y[:3]) - y[half:0:-1], 2.0 * median(y[-3:]) - y[-2 : -half - 2 : -1]
        long = np.concatenate([before, y, after])
        base = np.partition(np.lib.stride_tricks.sliding_window_view(long, BASE), half, axis=1)[:, half]
        low, high = self.axis
        off = y - base
        off[:EDGE] = off[-EDGE:] = 0.0
        share = off / (high - low)
        clear = np.flatnonzero((np.abs(share) > LEAST_RISE) & (np.abs(off) > CLEAR * noise))
        found: list[tuple[float, float]] = []
        for i in clear[np.argsort(-np.abs(share[clear]), kind="stable")].tolist():
            if all(abs(float(x[i]) - place) > 8.0 * BINS * self.column for place, _ in found):
                found.append((_centre(x, share, i), float(share[i])))
            if len(found) == 4:
                break
        return tuple(found)


def _centre(x: Floats, rise: Floats, i: int) -> float:
    """The wavelength of a peak or dip at bin i, from it and the two beside it."""
    near = slice(i - 1, i + 2)
    weight = np.maximum(np.sign(rise[i]) * rise[near], 0.0)
    return float((weight * x[near]).sum() / weight.sum())


def median(values: Floats) -> float:
    """The middle value, the upper of two; three times as fast as numpy's for some hundred values."""
    return float(np.partition(values, values.size // 2)[values.size // 2])
