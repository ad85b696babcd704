"""A spectrum as pixels with edges: what part of a band is covered, and what its mean, level and noise are."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.index_kinds import Range, in_band
from specvet.spectra.lines import TELLURIC_BANDS_AIR
from specvet.spectra.spectrum import Medium, Spectrum

JOIN_QUALITY = 0.4
"""Quality of a band that lies wholly in an arm join; in proportion where it overlaps."""
TELLURIC_QUALITY = 0.5
"""The same for telluric bands."""

MAX_HALF_PIXEL = 5.0
"""Å; how far a pixel may reach towards a neighbour, unless the whole spectrum is coarser."""

MAX_STEP_GROWTH = 3.0
"""A step that is longer than this times both of its neighbours is a gap (adaptive grids of models grow by less)."""

MEDIAN_SCATTER = 1.2533
"""√(π/2): a median scatters by so much more than a mean."""

MIN_MEDIAN = 5
"""Pixels from which on a median tells more than a mean."""

_Floats = NDArray[np.float64]


def pixel_edges(wavelength: _Floats) -> tuple[_Floats, _Floats]:
    """Left and right edges (Å) of pixels centred on `wavelength`, which increases; a lone pixel is 2 Å wide.

    A pixel reaches half-way to its neighbours, but not into a gap: at most `MAX_STEP_GROWTH` times as far as the steps
    beside that one, and at most `MAX_HALF_PIXEL` where the spectrum as a whole is finer than that.
    """
    half = 0.5 * np.diff(wavelength) if wavelength.size > 1 else np.ones(1)
    if half.size > 1:
        before, after = np.concatenate([half[1:2], half[:-1]]), np.concatenate([half[1:], half[-2:-1]])
        half = np.minimum(half, MAX_STEP_GROWTH * np.maximum(before, after))
    half = np.minimum(half, max(MAX_HALF_PIXEL, 1.5 * float(np.median(half))))
    left = wavelength - np.concatenate([half[:1], half])[: wavelength.size]
    right = wavelength + np.concatenate([half, half[-1:]])[: wavelength.size]
    return left, right


def overlap(a: Range, b: Range) -> float:
    """Length (Å) that two ranges share."""
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0]))


@dataclass(frozen=True, slots=True)
class Level:
    """A continuum level between good pixels of a side band."""

    wavelength: float
    """Å: that of the good pixels, not the middle of the band, so that a slope does no harm where some are missing."""
    value: float
    error: float
    """1σ."""
    start: int
    """Number of the first pixel."""
    run: _Floats
    """How far each pixel's own 1σ moves the value; the sum of squares is `error` squared."""


class Pixels:
    """A spectrum prepared for integration. Bands are given in its own medium; `convert` brings them there.

    What a band holds is worked out once and remembered: the arrays of a spectrum are not to be changed in place.
    """

    def __init__(self, spectrum: Spectrum, z: float = 0.0) -> None:
        """`z` is the redshift that was taken out of the wavelengths: the air's bands have moved with it."""
        self.spectrum = spectrum
        self.wavelength = spectrum.wavelength
        self.flux = spectrum.flux
        self.left, self.right = pixel_edges(spectrum.wavelength)
        self.good = spectrum.good
        self._length = np.where(self.good, self.right - self.left, 0.0)
        sigma = spectrum.sigma
        self.sigma = None if sigma is None else np.where(self.good, sigma, 0.0)
        """1σ of each pixel, 0 where it is bad; None where the file states no error."""
        bands = [(name, self.convert((low, high), "air")) for name, low, high in TELLURIC_BANDS_AIR]
        # A z of −1 and less (−9999 in the published mode) leaves no place where the air's bands could be.
        telluric = [(name, (a / (1.0 + z), b / (1.0 + z))) for name, (a, b) in bands] if z > -1.0 else []
        self._troubles = [(f"in the {j.label} join", (j.low, j.high), JOIN_QUALITY) for j in spectrum.joins]
        self._troubles += [(f"in telluric {name}", where, TELLURIC_QUALITY) for name, where in telluric]
        self._weights: dict[Range, tuple[slice, _Floats, float]] = {}
        self._levels: dict[Range, Level] = {}
        self._means: dict[Range, Level] = {}
        self._errors: dict[tuple[int, int], _Floats] = {}

    def convert(self, band: Range, medium: Medium) -> Range:
        """`band`, stated in `medium`, in the spectrum's medium."""
        return in_band(band, medium, self.spectrum.medium)

    def weights(self, band: Range) -> tuple[slice, _Floats]:
        """Pixels that touch the band, and the length (Å) of each inside it; bad pixels have 0."""
        return self._weighted(band)[:2]

    def coverage(self, band: Range) -> float:
        """Share (0-1) of the band that good pixels cover."""
        return min(1.0, self._weighted(band)[2] / (band[1] - band[0]))

    def good_length(self, band: Range) -> float:
        """Å of the band that good pixels cover."""
        return self._weighted(band)[2]

    def _weighted(self, band: Range) -> tuple[slice, _Floats, float]:
        found = self._weights.get(band)
        if found is None:
            low = int(self.right.searchsorted(band[0], "right"))
            high = max(low, int(self.left.searchsorted(band[1], "left")))
            weight = self._length[low:high].copy()
            for i in {low, high - 1} if high > low else ():  # only the outermost pixels can be cut
                if weight[i - low] > 0:
                    inside = min(float(self.right[i]), band[1]) - max(float(self.left[i]), band[0])
                    weight[i - low] = max(0.0, inside)
            found = self._weights[band] = slice(low, high), weight, float(weight.sum())
        return found

    def errors(self, pixels: slice) -> _Floats:
        """1σ of each pixel; without ivar, one value from the scatter of the stretch around (0 where it shows none)."""
        if self.sigma is not None:
            return self.sigma[pixels]
        key = (pixels.start, pixels.stop)
        found = self._errors.get(key)
        if found is None:
            before, differences = self._scatter
            first = int(before[max(0, pixels.start - 30)])
            last = int(before[min(self.good.size, pixels.stop + 30)])
            noise = 0.0
            if last - first >= 7:
                noise = 0.6052697 * float(np.median(differences[first : last - 4]))
            found = self._errors[key] = np.full(pixels.stop - pixels.start, noise)
        return found

    @functools.cached_property
    def _scatter(self) -> tuple[NDArray[np.int64], _Floats]:
        """Good pixels before each pixel, and the third differences of good pixels.

        They are blind to smooth shapes (DER_SNR, Stoehr et al. 2008, ASP Conf. 394, 505).
        """
        flux = self.flux[self.good]
        differences = np.abs(2 * flux[2:-2] - flux[:-4] - flux[4:]) if flux.size > 4 else np.empty(0)
        return np.concatenate([[0], np.cumsum(self.good)]), differences

    def prepare(self, means: Iterable[Range], levels: Iterable[Range]) -> None:
        """Work out many bands at once, of which `mean` or `level` will be asked; many times faster than one by one."""
        levels = dict.fromkeys(band for band in levels if band not in self._levels)
        bands = list(levels | dict.fromkeys(band for band in means if band not in self._means))
        if not bands or not self.wavelength.size:
            return
        low, high = np.array(bands).T
        first = self.right.searchsorted(low, "right")
        last = np.maximum(first, self.left.searchsorted(high, "left"))
        count = last - first
        at = np.minimum(first[:, None] + np.arange(max(int(count.max()), 1)), self.wavelength.size - 1)
        weight = np.where(np.arange(at.shape[1]) < count[:, None], self._length[at], 0.0)
        rows = np.arange(len(bands))
        for column in (np.zeros_like(count), np.maximum(count - 1, 0)):  # only the outermost pixels can be cut
            pixel = at[rows, column]
            inside = np.minimum(self.right[pixel], high) - np.maximum(self.left[pixel], low)
            seen = weight[rows, column] > 0
            weight[rows, column] = np.where(seen, np.maximum(inside, 0.0), 0.0)
        total = weight.sum(axis=1)
        starts, counts, totals = first.tolist(), count.tolist(), total.tolist()
        for i, band in enumerate(bands):
            self._weights[band] = slice(starts[i], starts[i] + counts[i]), weight[i, : counts[i]], totals[i]
        sigma = self.sigma
        if sigma is None:
            noise = (self.errors(self._weights[band][0]) for band in bands)
            errors = np.array([n[0] if n.size else 0.0 for n in noise])[:, None]
        else:
            errors = sigma[at]
        used = weight > 0
        flux, wavelength = np.where(used, self.flux[at], 0.0), self.wavelength[at]
        parts = weight * errors / total[:, None]
        error = np.sqrt((parts * parts).sum(axis=1)).tolist()
        middle, value = ((weight * x).sum(axis=1) / total for x in (wavelength, flux))
        n = len(levels)
        sides = slice(0, n), slice(0, max(int(count[:n].max(initial=0)), 1))
        enough = (used[sides].sum(axis=1) >= MIN_MEDIAN).tolist()
        medians = [_medians(x[sides], weight[sides], used[sides]).tolist() for x in (wavelength, flux)]
        middle, value = middle.tolist(), value.tolist()
        for i, band in enumerate(bands):
            run = parts[i, : counts[i]]
            if i < n and enough[i]:
                self._levels[band] = Level(
                    medians[0][i], medians[1][i], MEDIAN_SCATTER * error[i], starts[i], MEDIAN_SCATTER * run
                )
            else:
                self._means[band] = Level(middle[i], value[i], error[i], starts[i], run)

    def mean(self, band: Range) -> Level:
        """Mean flux and its 1σ over the good part of a band, at the mean wavelength of its pixels."""
        found = self._means.get(band)
        if found is None:
            pixels, weight, total = self._weighted(band)
            wavelength = float((weight * self.wavelength[pixels]).sum() / total)
            flux = np.where(weight > 0, self.flux[pixels], 0.0)
            parts = weight * self.errors(pixels) / total
            error = math.sqrt(float((parts * parts).sum()))
            found = Level(wavelength, float((weight * flux).sum() / total), error, pixels.start, parts)
            self._means[band] = found
        return found

    def level(self, band: Range) -> Level:
        """Continuum level: the median where there are pixels enough, else the mean."""
        found = self._levels.get(band)
        if found is None:
            pixels, weight, total = self._weighted(band)
            used = weight > 0
            n = int(np.count_nonzero(used))
            if n < MIN_MEDIAN:
                return self.mean(band)
            flux, wavelength = self.flux[pixels], self.wavelength[pixels]
            parts = MEDIAN_SCATTER * weight * self.errors(pixels) / total
            error = math.sqrt(float((parts * parts).sum()))
            if n < used.size:
                flux, wavelength, weight = flux[used], wavelength[used], weight[used]
            middle = _quantile(wavelength, weight, total)
            order = flux.argsort(kind="stable")
            value = _quantile(flux[order], weight[order], total)
            found = self._levels[band] = Level(middle, value, error, pixels.start, parts)
        return found

    def quality(self, bands: Sequence[Range], what: str = "") -> tuple[float, str]:
        """0-1 and a note: good pixels, arm joins and tellurics, by the share of the bands they touch.

        `what` names the bands in the note (`continuum `).
        """
        quality, notes = 1.0, []
        total = sum(b - a for a, b in bands)
        low, high = min(a for a, _ in bands), max(b for _, b in bands)
        for note, where, worth in self._troubles:
            if where[0] >= high or where[1] <= low:
                continue
            share = sum(overlap(band, where) for band in bands) / total
            if share > 0.05:
                quality *= 1.0 - share * (1.0 - worth)
                notes.append(what + note)
        covered = sum(self.coverage(band) * (band[1] - band[0]) for band in bands) / total
        if covered < 0.98:
            quality *= covered
            notes.append(f"{100 * covered:.0f} % of the {what}pixels are good")
        if self.sigma is None:
            notes.append("error from pixel scatter")
        return quality, "; ".join(dict.fromkeys(notes))


@functools.lru_cache(maxsize=2)
def pixels_of(spectrum: Spectrum, z: float = 0.0) -> Pixels:
    """`Pixels` of one of the spectra last asked for, so that several tasks about one spectrum prepare it once."""
    return Pixels(spectrum, z)


def _quantile(values: _Floats, weight: _Floats, total: float) -> float:
    """Weighted median of sorted `values`: uneven sampling must not let the densest stretch speak for all."""
    reached = weight.cumsum() - 0.5 * weight
    return float(np.interp(0.5 * total, reached, values))


def _medians(values: _Floats, weight: _Floats, used: NDArray[np.bool_]) -> _Floats:
    """`_quantile` of the used values of each row, which need not be sorted; shape (n_rows,)."""
    order = np.where(used, values, np.inf).argsort(axis=1, kind="stable")
    values, weight = np.take_along_axis(values, order, 1), np.take_along_axis(weight, order, 1)
    reached = weight.cumsum(axis=1) - 0.5 * weight
    half = 0.5 * weight.sum(axis=1)
    rows = np.arange(len(values))
    last = np.maximum(used.sum(axis=1) - 1, 0)
    j = np.minimum((reached < half[:, None]).sum(axis=1), last)
    i = np.maximum(j - 1, 0)
    step = reached[rows, j] - reached[rows, i]
    share = np.clip(np.where(step > 0, (half - reached[rows, i]) / np.where(step > 0, step, 1.0), 0.0), 0.0, 1.0)
    low, high = values[rows, i], values[rows, j]
    return np.asarray(low + share * (high - low))
