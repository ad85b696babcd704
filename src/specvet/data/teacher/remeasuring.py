"""A second measurement of what a text claims, from the pixels alone.

Equivalent widths, ratios, S/N, slopes and peaks are worked out here with a dozen plain lines of NumPy, apart from the
code that the teacher measures with. Widths at half maximum and lines that follow a velocity are measured afresh by
`specvet.spectra.indices`, since half a maximum in noise has no second definition.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from specvet.records.schema import Measurement
from specvet.spectra import Spectrum
from specvet.spectra.formulas import formula_function, formula_names
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, Range, RatioIndex, in_band
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import pixels_of

_Floats = NDArray[np.float64]

RISE = 1.1
"""Height of a peak over what stands beside it."""

SMOOTHED = 5
"""Pixels of the running mean in which a peak is looked for."""


class Remeasured:
    """One spectrum, in the frame that it was shown in."""

    def __init__(self, spectrum: Spectrum, z: float, indices: Mapping[str, Index]) -> None:
        """`z` was taken out of the wavelengths; `indices` holds what can be asked for, by key."""
        self.spectrum = spectrum
        self.indices = indices
        self.good = spectrum.good
        self.wavelength = spectrum.wavelength
        self.flux = np.where(self.good, spectrum.flux, 0.0)
        middle = 0.5 * (self.wavelength[1:] + self.wavelength[:-1])
        self.left = np.concatenate([[1.5 * self.wavelength[0] - 0.5 * self.wavelength[1]], middle])
        self.right = np.concatenate([middle, [1.5 * self.wavelength[-1] - 0.5 * self.wavelength[-2]]])
        self._meter = Meter(pixels_of(spectrum, z))
        self._found: dict[str, float | None] = {}
        self._metered: dict[str, Measurement] = {}

    def value(self, key: str) -> float | None:
        """The index again, in its own unit; None where it cannot be measured."""
        if key not in self._found:
            self._found[key] = self._measured(self.indices[key])
        return self._found[key]

    def error(self, key: str) -> float | None:
        """1σ; None where none is known."""
        return self._measurement(key).error

    def note(self, key: str) -> str:
        """What is said of a measurement: whether it is a limit, and what is in it."""
        return self._measurement(key).note

    def _measurement(self, key: str) -> Measurement:
        """As `specvet.spectra.indices` has it."""
        if key not in self._metered:
            self._metered[key] = self._meter.measure((key,), self.indices)[key]
        return self._metered[key]

    def _measured(self, index: Index) -> float | None:
        if isinstance(index, FormulaIndex):
            values = {name: self.value(name) for name in formula_names(index.formula)}
            if any(v is None for v in values.values()):
                return None
            return float(formula_function(index.formula)({k: v for k, v in values.items() if v is not None}))
        if isinstance(index, RatioIndex):
            return self._ratio(index)
        if isinstance(index, LineIndex) and index.follows is None:
            return self._width(index)
        return self._measurement(index.key).value

    def _inside(self, band: Range) -> tuple[slice, _Floats]:
        """Pixels that touch a band, and how many Å of it each good one holds."""
        first = int(np.searchsorted(self.right, band[0]))
        last = int(np.searchsorted(self.left, band[1]))
        at = slice(first, max(first, last))
        length = np.minimum(self.right[at], band[1]) - np.maximum(self.left[at], band[0])
        return at, np.where(self.good[at], np.maximum(length, 0.0), 0.0)

    def _mean(self, band: Range) -> float | None:
        at, length = self._inside(band)
        total = float(length.sum())
        return float((length * self.flux[at]).sum()) / total if total > 0 else None

    def _width(self, index: LineIndex) -> float | None:
        """∫ (1 − flux / continuum) dλ, the continuum a line between the medians of the two sides."""
        band, *sides = (in_band(r, index.medium, self.spectrum.medium) for r in (index.band, *index.sides))
        ends = []
        for side in sides:
            at, length = self._inside(side)
            if not (length > 0).any():
                return None
            ends.append((_median(self.wavelength[at], length), _median(self.flux[at], length)))
        (x0, y0), (x1, y1) = ends
        at, length = self._inside(band)
        total = float(length.sum())
        continuum = y0 + (y1 - y0) / (x1 - x0) * (self.wavelength[at] - x0)
        if total <= 0 or x0 == x1 or float(continuum.min(initial=1.0)) <= 0:
            return None
        return float((length * (1.0 - self.flux[at] / continuum)).sum()) * (band[1] - band[0]) / total

    def _ratio(self, index: RatioIndex) -> float | None:
        band, *references = (in_band(r, index.medium, self.spectrum.medium) for r in (index.band, *index.reference))
        top, below = self._mean(band), [self._mean(r) for r in references]
        levels = [x for x in below if x is not None]
        if top is None or len(levels) < len(below):
            return None
        middles = [0.5 * sum(r) for r in references]
        at = 0.5 * sum(band)
        if len(middles) == 2 and min(middles) < at < max(middles):
            share = (at - middles[0]) / (middles[1] - middles[0])
            level = (1.0 - share) * levels[0] + share * levels[1]
        else:
            level = sum(levels) / len(levels)
        return top / level if level > 0 else None

    def snr(self, window: Range | None) -> float | None:
        """Median S/N a pixel of the good pixels in a window, or of all."""
        at = self.good.copy()
        if window:
            at &= (self.wavelength >= window[0]) & (self.wavelength <= window[1])
        flux = self.spectrum.flux[at]
        if flux.size < 5:
            return None
        if self.spectrum.ivar is not None:
            return float(np.median(flux * np.sqrt(self.spectrum.ivar[at])))
        third = np.abs(2.0 * flux[2:-2] - flux[:-4] - flux[4:])
        noise = 0.6052697 * float(np.median(third))
        return float(np.median(flux)) / noise if noise > 0 else None

    def flux_near(self, place: float, half: float) -> float | None:
        return self._mean((place - half, place + half))

    def peak_near(self, place: float, half: float) -> float | None:
        """Å of the highest point within `half` of a place, in a running mean of `SMOOTHED` good pixels.

        None where it does not stand `RISE` above the upper tenth of what lies 40 to 200 Å off on either side.
        """
        flux, wavelength = self.flux[self.good], self.wavelength[self.good]
        smooth = np.convolve(flux, np.full(SMOOTHED, 1.0 / SMOOTHED), "same")
        near = np.flatnonzero(np.abs(wavelength - place) <= half)
        if not near.size:
            return None
        top = near[int(np.argmax(smooth[near]))]
        off = wavelength - wavelength[top]
        beside = [smooth[(sign * off > 40.0) & (sign * off < 200.0)] for sign in (-1.0, 1.0)]
        tops = [float(np.quantile(ring, 0.9)) for ring in beside if ring.size]
        return float(wavelength[top]) if tops and smooth[top] > RISE * max(tops) else None

    def change(self, window: Range) -> float | None:
        """Change of the flux from the first to the last sixth of what a window shows, over the first."""
        at = self.good & (self.wavelength >= window[0]) & (self.wavelength <= window[1])
        inside = (self.wavelength >= window[0]) & (self.wavelength <= window[1])
        low, high = self.wavelength[inside][[0, -1]]
        sixth = (high - low) / 6.0
        first = self.flux[at & (self.wavelength < low + sixth)]
        last = self.flux[at & (self.wavelength > high - sixth)]
        if not (first.size and last.size):
            return None
        a, b = float(np.median(first)), float(np.median(last))
        return (b - a) / a if a > 0 else None

    def covered(self, window: Range) -> float:
        """Share (0-1) of a window that good pixels hold."""
        return float(self._inside(window)[1].sum()) / (window[1] - window[0])


def _median(values: _Floats, weight: _Floats) -> float:
    """The value at half of the summed weight."""
    used = np.flatnonzero(weight > 0)
    order = used[np.argsort(values[used], kind="stable")]
    reached = np.cumsum(weight[order]) - 0.5 * weight[order]
    return float(np.interp(0.5 * weight.sum(), reached, values[order]))
