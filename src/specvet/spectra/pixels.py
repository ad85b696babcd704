"""A spectrum as pixels with edges: what part of a band is covered, and what its mean, level and noise are."""

from __future__ import annotations

from collections.abc import Iterable

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


class Pixels:
    """A spectrum prepared for integration. Bands are given in its own medium; `convert` brings them there."""

    def __init__(self, spectrum: Spectrum, z: float = 0.0) -> None:
        """`z` is the redshift that was taken out of the wavelengths: the air's bands have moved with it."""
        self.spectrum = spectrum
        self.wavelength = spectrum.wavelength
        self.flux = spectrum.flux
        self.left, self.right = pixel_edges(spectrum.wavelength)
        self.good = spectrum.good
        self.sigma = spectrum.sigma
        bands = [(name, self.convert((low, high), "air")) for name, low, high in TELLURIC_BANDS_AIR]
        # A z of −1 and less (−9999 in the published mode) leaves no place where the air's bands could be.
        self._telluric = [(name, (a / (1.0 + z), b / (1.0 + z))) for name, (a, b) in bands] if z > -1.0 else []

    def convert(self, band: Range, medium: Medium) -> Range:
        """`band`, stated in `medium`, in the spectrum's medium."""
        return in_band(band, medium, self.spectrum.medium)

    def weights(self, band: Range) -> tuple[slice, _Floats]:
        """Pixels that touch the band, and the length (Å) of each inside it; bad pixels have 0."""
        low = int(np.searchsorted(self.right, band[0], "right"))
        high = int(np.searchsorted(self.left, band[1], "left"))
        pixels = slice(low, max(low, high))
        inside = np.minimum(self.right[pixels], band[1]) - np.maximum(self.left[pixels], band[0])
        return pixels, np.where(self.good[pixels], np.clip(inside, 0.0, None), 0.0)

    def coverage(self, band: Range) -> float:
        """Share (0-1) of the band that good pixels cover."""
        return min(1.0, float(self.weights(band)[1].sum() / (band[1] - band[0])))

    def errors(self, pixels: slice) -> _Floats:
        """1σ of each pixel; without ivar, one value from the scatter of the stretch around (0 where it shows none)."""
        if self.sigma is not None:
            return np.where(self.good[pixels], self.sigma[pixels], 0.0)
        n = self.good.size
        wide = slice(max(0, pixels.start - 30), min(n, pixels.stop + 30))
        flux = self.flux[wide][self.good[wide]]
        noise = 0.0
        if flux.size >= 7:
            # Third differences, blind to smooth shapes (DER_SNR, Stoehr et al. 2008, ASP Conf. 394, 505).
            noise = 0.6052697 * float(np.median(np.abs(2 * flux[2:-2] - flux[:-4] - flux[4:])))
        return np.full(pixels.stop - pixels.start, noise)

    def mean(self, band: Range) -> tuple[float, float]:
        """Mean flux and its 1σ over the good part of a band."""
        pixels, weight = self.weights(band)
        total = weight.sum()
        flux = np.where(weight > 0, self.flux[pixels], 0.0)
        error = np.sqrt(((weight * self.errors(pixels)) ** 2).sum()) / total
        return float((weight * flux).sum() / total), float(error)

    def level(self, band: Range) -> tuple[float, float, float]:
        """Wavelength, continuum level and its 1σ: medians where there are pixels enough, else means.

        The wavelength is that of the good pixels, not the middle of the band, so that a slope does no harm where
        pixels are coarse or missing.
        """
        pixels, weight = self.weights(band)
        used = weight > 0
        flux, wavelength, weight = self.flux[pixels][used], self.wavelength[pixels][used], weight[used]
        if flux.size < 5:
            return float(np.average(wavelength, weights=weight)), *self.mean(band)
        # 1.2533 = √(π/2): a median scatters by so much more than a mean.
        error = 1.2533 * float(np.sqrt(((weight * self.errors(pixels)[used]) ** 2).sum()) / weight.sum())
        return _median(wavelength, weight), _median(flux, weight), error

    def quality(self, bands: Iterable[Range], what: str = "") -> tuple[float, str]:
        """0-1 and a note: good pixels, arm joins and tellurics, by the share of the bands they touch.

        `what` names the bands in the note (`continuum `).
        """
        quality, notes = 1.0, []
        bands = list(bands)
        total = sum(b - a for a, b in bands)
        troubles = [(f"in the {j.label} join", (j.low, j.high), JOIN_QUALITY) for j in self.spectrum.joins]
        troubles += [(f"in telluric {name}", where, TELLURIC_QUALITY) for name, where in self._telluric]
        for note, where, worth in troubles:
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


def _median(values: _Floats, weight: _Floats) -> float:
    """Weighted median: uneven sampling must not let the densest stretch speak for all."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) - 0.5 * weight[order]
    return float(np.interp(0.5 * weight.sum(), reached, values[order]))
