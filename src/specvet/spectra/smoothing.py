"""Smoothing that keeps its errors right: bad pixels weigh nothing, variances add with the square of the kernel."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.spectrum import FloatArray, Spectrum

MAX_SIGMA = 1000.0
"""Pixels."""


def smoothed(spectrum: Spectrum, sigma: float) -> Spectrum:
    """The spectrum convolved with a Gaussian of `sigma` pixels (0 to `MAX_SIGMA`; 0 changes nothing).

    Flux is the mean of the good pixels under the kernel k: Σ k f / Σ k. Its variance is Σ k² σ² / (Σ k)², not the
    kernel's mean of σ² (astropy/specutils#1305). A pixel without any good one within 3σ is NaN with ivar 0. Neighbours
    are correlated afterwards; a warning says so. Raises ValueError for another `sigma`.
    """
    if not 0.0 <= sigma <= MAX_SIGMA:
        raise ValueError(f"sigma = {sigma}: a smoothing is 0 to {MAX_SIGMA:g} pixels")
    if sigma == 0.0 or spectrum.n_pix < 2:
        return spectrum
    reach = max(1, math.ceil(3.0 * sigma))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    good = spectrum.good
    flux = np.where(good, spectrum.flux, 0.0)
    weight = _convolved(good.astype(np.float64), kernel)
    seen = _convolved(good.astype(np.float64), np.ones_like(kernel)) > 0.5
    total = np.where(seen, weight, 1.0)
    out = np.where(seen, _convolved(flux, kernel) / total, np.nan)
    ivar = None
    if spectrum.ivar is not None:
        variance = np.where(good, 1.0 / np.where(good, spectrum.ivar, 1.0), 0.0)
        summed = _convolved(variance, kernel**2)
        ivar = np.where(seen & (summed > 0), total**2 / np.where(summed > 0, summed, 1.0), 0.0)
    note = f"smoothed by a Gaussian of {sigma:g} pixels: errors of neighbours are correlated"
    return spectrum.replace(flux=out, ivar=ivar, warnings=(*spectrum.warnings, note))


def _convolved(values: FloatArray, kernel: NDArray[np.float64]) -> FloatArray:
    """The sum over neighbours, shape of `values`; beyond the ends there is nothing."""
    full = np.convolve(values, kernel)
    start = kernel.size // 2
    return np.asarray(full[start : start + values.size])
