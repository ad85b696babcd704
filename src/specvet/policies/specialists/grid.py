"""A spectrum on a fixed grid, as the convolutional network takes it.

rebin to equal steps in log λ → divide by a smooth continuum → (lines, coverage, shape)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra import Spectrum
from specvet.spectra.pixels import pixel_edges

LOW, HIGH = 3_700.0, 9_100.0
"""Å: what LAMOST shows; SDSS and DESI show all but 100 Å of it."""

N_PIX = 2_048
"""Steps of 132 km/s, about the resolution of these surveys (R = 1,800 or more)."""

CHANNELS = ("lines", "coverage", "shape")

CONTINUUM = 181
"""Pixels (23,800 km/s, 520 Å at Hα) of the running median: wider than a white dwarf's wings, narrow enough that the
flux scale, which LAMOST knows only relatively, is gone."""

MIN_COVERED = 0.5
"""Share of a pixel that must have been observed."""

MIN_PIXELS = 200
"""Observed pixels of the grid, a tenth of it, below which there is nothing to judge."""

_Floats = NDArray[np.float32]


def grid_settings() -> dict[str, Any]:
    """What a network must have been trained with to be run here."""
    return {"low": LOW, "high": HIGH, "n_pix": N_PIX, "continuum": CONTINUUM, "channels": list(CHANNELS), "form": 1}


def on_grid(spectrum: Spectrum) -> _Floats | None:
    """Channels of shape (3, `N_PIX`), or None with fewer than `MIN_PIXELS` observed pixels of the grid.

    `lines` is asinh(flux / continuum − 1), so that an emission line of ten times the continuum does not outweigh
    everything; `coverage` is 1 where the spectrum was observed, else 0; `shape` is asinh(continuum / its median) less
    asinh(1). The first and last are 0 where nothing was observed.
    """
    flux, covered = _rebinned(spectrum)
    seen = covered >= MIN_COVERED
    if int(seen.sum()) < MIN_PIXELS:
        return None
    level = _continuum(flux, seen)
    scale = float(np.median(level[seen]))
    if not scale > 0:
        return None
    # A continuum lost in the noise (the blue of a red star) must not blow the noise up: a floor of 2 % of the median.
    floor = np.maximum(level, 0.02 * scale)
    out = np.zeros((len(CHANNELS), N_PIX), dtype=np.float32)
    out[0, seen] = np.arcsinh(flux[seen] / floor[seen] - 1.0)
    out[1, seen] = 1.0
    out[2, seen] = np.arcsinh(level[seen] / scale) - np.arcsinh(1.0)
    return out


def _rebinned(spectrum: Spectrum) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean flux in each pixel of the grid, and the share of it that good pixels cover; flux is kept."""
    edges = np.geomspace(LOW, HIGH, N_PIX + 1)
    good = spectrum.good
    if not good.any():
        return np.zeros(N_PIX), np.zeros(N_PIX)
    left, right = pixel_edges(spectrum.wavelength)
    flux, left, right = spectrum.flux[good], left[good], right[good]
    length = right - left
    ends = np.column_stack([left, right]).ravel()
    # Up to any wavelength, how much was observed (Å) and how much flux in it; linear between the ends of pixels.
    observed = np.concatenate([[0.0], np.cumsum(np.column_stack([length, np.zeros_like(length)]).ravel()[:-1])])
    summed = np.concatenate([[0.0], np.cumsum(np.column_stack([flux * length, np.zeros_like(length)]).ravel()[:-1])])
    inside = np.diff(np.interp(edges, ends, observed))
    total = np.diff(np.interp(edges, ends, summed))
    return np.where(inside > 0, total / np.where(inside > 0, inside, 1.0), 0.0), inside / np.diff(edges)


def _continuum(flux: NDArray[np.float64], seen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Running median over `CONTINUUM` observed pixels, then the running mean of a third of it."""
    from scipy.ndimage import median_filter, uniform_filter1d

    level = np.zeros(flux.size)
    values = median_filter(flux[seen], size=CONTINUUM, mode="nearest")
    level[seen] = uniform_filter1d(values, size=CONTINUUM // 3, mode="nearest")
    return level
