"""What makers draw with: continua, lines, bands, broadening, reddening. All arrays have shape (n_grid,) on `GRID`.

Wavelengths are Å in vacuum; `vacuum` converts the air values of the literature. Lines and bands are given as optical
depths that add up, so that saturated features stay below the continuum: `flux *= np.exp(-depth)`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.ndimage import convolve1d, gaussian_filter1d

from specvet.data.simulate.source import GRID, KM_S_PER_PIXEL, FloatArray
from specvet.spectra.lines import air_to_vacuum
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

FWHM = 2.0 * np.sqrt(2.0 * np.log(2.0))
"""Of a Gaussian, in units of its standard deviation."""

HC_OVER_K = 1.438_776_877e8
"""Å K; CODATA 2018."""


def zeros() -> FloatArray:
    """An optical depth, or a flux, to add to."""
    return np.zeros(GRID.size)


@lru_cache(maxsize=4096)
def vacuum(air: float) -> float:
    """Vacuum wavelength (Å) of a line given in air (Å); Morton 2000, ApJS 130, 403."""
    return float(air_to_vacuum(np.array([air]))[0])


def normalised(flux: FloatArray) -> FloatArray:
    """`flux` over its median, and nowhere negative. Raises ValueError where there is no light or no number."""
    if not np.isfinite(flux).all():
        raise ValueError("a simulated flux is not finite")
    flux = np.maximum(flux, 0.0)
    middle = float(np.median(flux))
    if middle <= 0.0:
        middle = float(flux.mean())
    if middle <= 0.0:
        raise ValueError("a simulated source has no light")
    return flux / middle


@lru_cache(maxsize=64)
def _planck(kelvin: float) -> FloatArray:
    flux = GRID**-5.0 / np.expm1(HC_OVER_K / (GRID * kelvin))
    flux /= np.median(flux)
    flux.flags.writeable = False
    return flux


def planck(kelvin: float) -> FloatArray:
    """A black body per Å, median 1, read-only; the temperature (K) is rounded to 1 %, so that bodies are reused."""
    return _planck(round(float(np.exp(round(np.log(kelvin) * 100.0) / 100.0)), 1))


def power_law(index: float) -> FloatArray:
    """λ^index, 1 at 6000 Å; −7/3 is a thick disc, −1.5 a typical quasar."""
    return (GRID / 6000.0) ** index


def add_gaussian(into: FloatArray, centre: float, peak: float, fwhm_km_s: float) -> None:
    """Add a Gaussian of this peak at `centre` (Å, vacuum), out to 4σ."""
    sigma = centre * fwhm_km_s / FWHM / SPEED_OF_LIGHT_KM_S
    low, high = np.searchsorted(GRID, (centre - 4.0 * sigma, centre + 4.0 * sigma))
    into[low:high] += peak * np.exp(-0.5 * ((GRID[low:high] - centre) / sigma) ** 2)


def add_lorentzian(into: FloatArray, centre: float, peak: float, half_width: float, power: float = 2.0) -> None:
    """Add `peak / (1 + |Δλ/half_width|^power)`, half-width in Å; a power of 2.5 has the wings of linear Stark."""
    reach = half_width * 1e3 ** (1.0 / power)
    low, high = np.searchsorted(GRID, (centre - reach, centre + reach))
    into[low:high] += peak / (1.0 + (np.abs(GRID[low:high] - centre) / half_width) ** power)


def add_band(
    into: FloatArray,
    head: float,
    peak: float,
    length: float,
    sharp: Literal["blue", "red"],
    edge: float = 2.0,
) -> None:
    """Add a molecular band: zero to `peak` within `edge` (Å) at `head` (Å, vacuum), fading over `length` (Å, e-fold).

    `sharp` names the side of the sharp edge: `blue` fades to the red (TiO, ZrO), `red` fades to the blue (C2).
    """
    direction = 1.0 if sharp == "blue" else -1.0
    ends = sorted((head - direction * 6.0 * edge, head + direction * 7.0 * length))
    low, high = np.searchsorted(GRID, ends)
    inside = direction * (GRID[low:high] - head)
    rise = 1.0 / (1.0 + np.exp(np.clip(-inside / (0.35 * edge), -60.0, 60.0)))
    into[low:high] += peak * rise * np.exp(-np.maximum(inside, 0.0) / length)


def broadened(flux: FloatArray, fwhm_km_s: float) -> FloatArray:
    """Convolved with a Gaussian of this width."""
    sigma = fwhm_km_s / FWHM / KM_S_PER_PIXEL
    return flux if sigma < 0.2 else np.asarray(gaussian_filter1d(flux, sigma, mode="nearest", truncate=3.5))


def rotated(flux: FloatArray, v_sin_i: float, limb: float = 0.6) -> FloatArray:
    """Broadened by rotation (km/s) with linear limb darkening; Gray 2005, eq. 18.14."""
    half = int(v_sin_i / KM_S_PER_PIXEL)
    if half < 1:
        return flux
    x = np.arange(-half, half + 1) * KM_S_PER_PIXEL / v_sin_i
    inside = np.maximum(1.0 - x**2, 0.0)
    kernel = 2.0 * (1.0 - limb) * np.sqrt(inside) + 0.5 * np.pi * limb * inside
    return np.asarray(convolve1d(flux, kernel / kernel.sum(), mode="nearest"))


def shifted(flux: FloatArray, velocity_km_s: float) -> FloatArray:
    """Doppler-shifted to the red by a velocity; ends are held."""
    return np.asarray(np.interp(np.log(GRID) - np.log1p(velocity_km_s / SPEED_OF_LIGHT_KM_S), np.log(GRID), flux))


@lru_cache(maxsize=1)
def extinction_curve() -> FloatArray:
    """A(λ)/E(B−V) for R_V = 3.1; O'Donnell 1994, ApJ 422, 158 (optical), Cardelli et al. 1989 beyond its ends."""
    x = 1e4 / GRID
    y = x - 1.82
    a = np.polyval([-0.505, 1.647, -0.827, -1.718, 1.137, 0.701, -0.609, 0.104, 1.0], y)
    b = np.polyval([3.347, -10.805, 5.491, 11.102, -7.985, -3.989, 2.908, 1.952, 0.0], y)
    red = x < 1.1
    a[red], b[red] = 0.574 * x[red] ** 1.61, -0.527 * x[red] ** 1.61
    curve = 3.1 * (a + b / 3.1)
    curve.flags.writeable = False
    return curve


def reddened(flux: FloatArray, ebv: float) -> FloatArray:
    """Seen through foreground dust of this E(B−V) (mag)."""
    return flux * 10.0 ** (-0.4 * ebv * extinction_curve())


def chosen(rng: np.random.Generator, options: dict[str, float]) -> str:
    """One of the options, by weight."""
    weights = np.array(list(options.values()))
    return list(options)[int(rng.choice(len(options), p=weights / weights.sum()))]


def truncated_normal(rng: np.random.Generator, mean: float, sigma: float, low: float, high: float) -> float:
    """A normal draw that is drawn again, at most 50 times, until it lies in the range; then it is clipped."""
    for _ in range(50):
        value = float(rng.normal(mean, sigma))
        if low <= value <= high:
            return value
    return float(np.clip(value, low, high))


def log_normal(rng: np.random.Generator, median: float, sigma: float) -> float:
    """A log-normal draw; `sigma` in natural logarithms."""
    return float(median * np.exp(rng.normal(0.0, sigma)))
