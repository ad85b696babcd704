"""From a flux to counts and back: the brightness that gives a wanted S/N, errors as stated and as they are.

All arrays have shape (n_pix,) and are in electrons, unless said otherwise.
"""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.instruments import N_WAVES, Camera, Habits, Instrument
from specvet.data.simulate.source import FloatArray
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S


def shifted_lines(camera: Camera, velocity_km_s: float) -> FloatArray:
    """The sky's lines where the frame of the Sun puts them, shape (n_families, n_pix)."""
    at = camera.wavelength * (1.0 - velocity_km_s / SPEED_OF_LIGHT_KM_S)
    return np.stack([np.interp(at, camera.wavelength, family) for family in camera.lines])


def background_variance(camera: Camera, sky: float, lines: FloatArray, habits: Habits) -> FloatArray:
    """What a pixel's stated variance has without any object; `sky` scales the sky, `lines` are its lines so scaled."""
    total = lines.sum(axis=0)
    return np.asarray(sky * camera.sky + total + camera.read_variance + (habits.line_error * total) ** 2)


def brightness(
    instrument: Instrument, fluxes: list[FloatArray], variances: list[FloatArray], exposure: float, snr: float
) -> float:
    """The factor on relative fluxes that makes `snr` the median stated S/N a pixel of the window g-r.

    N/√(N + B) = S gives the counts N that each pixel needs; it rises with the brightness in all of them, so that the
    median of the brightnesses needed is that of the median S/N. Raises ValueError where the window holds no light.
    """
    needed = []
    low, high = instrument.snr_window
    for camera, flux, variance in zip(instrument.cameras, fluxes, variances, strict=True):
        first, last = np.searchsorted(camera.wavelength, (low, high))
        if last - first < 2:
            continue
        counts = 0.5 * snr**2 * (1.0 + np.sqrt(1.0 + 4.0 * variance[first:last] / snr**2))
        needed.append(counts / np.maximum(exposure * camera.throughput[first:last] * flux[first:last], 1e-12))
    factor = float(np.median(np.concatenate(needed)))
    if factor > 1e11:
        raise ValueError(f"the source has no light between {low:g} and {high:g} Å, where the S/N is wanted")
    return factor


def correlated(rng: np.random.Generator, n_pix: int, correlation: float) -> FloatArray:
    """Normal deviates of variance 1 whose neighbours correlate, as resampling leaves them."""
    white = rng.standard_normal(n_pix + 1)
    if correlation <= 0.0:
        return white[1:]
    share = (1.0 - np.sqrt(max(1.0 - 4.0 * correlation**2, 0.0))) / (2.0 * correlation)
    return np.asarray((white[1:] + share * white[:-1]) / np.sqrt(1.0 + share**2))


TAIL = 3.5


def heavy_tailed(rng: np.random.Generator, n_pix: int, habits: Habits) -> FloatArray:
    """Normal deviates of variance 1, correlated, of which a few are far too large: remains of hits, poor flats."""
    deviates = correlated(rng, n_pix, habits.correlation)
    n = int(rng.poisson(habits.tails * n_pix))
    deviates[rng.integers(0, n_pix, n)] *= TAIL
    return np.asarray(deviates / np.sqrt(1.0 + habits.tails * (TAIL**2 - 1.0)))


def rejected(n_pix: int, habits: Habits, rng: np.random.Generator) -> FloatArray:
    """The factor on the errors where a hit took one exposure away from the two, three or four that were summed.

    Real LAMOST files have 10 to 100 such places of one to three pixels, the more so the longer they were exposed.
    """
    factor = np.ones(n_pix)
    if habits.rejections > 0.0:
        n = min(int(habits.rejections * np.exp(rng.normal(0.0, 0.8))), n_pix // 8)
        at, width = rng.integers(0, n_pix - 3, n), rng.integers(1, 4, n)
        exposures = int(rng.integers(2, 5))
        lost = 1 + (rng.random(n) < 0.15 * (exposures - 2))
        raised = np.sqrt(exposures / (exposures - lost))
        for k in range(3):
            long = width > k
            factor[at[long] + k] = raised[long]
    return factor


def sky_residual(camera: Camera, lines: FloatArray, sky: float, habits: Habits, rng: np.random.Generator) -> FloatArray:
    """What is left of the sky: a share of each family of lines, that varies from line to line and within them (other
    fibres are sharper), lines that are displaced or too wide, and a share of the continuum."""
    n_families, n_pix = lines.shape
    at = np.linspace(0.0, n_pix - 1.0, 48)
    families = np.array(habits.families)
    common = rng.normal(0.0, 0.5, n_families) * families
    slow = np.interp(np.arange(n_pix), at, rng.normal(0.0, 0.4, at.size))
    # All families share `slow` and the noise within lines: they overlap hardly anywhere.
    shares = slow + rng.standard_normal(n_pix)
    out = common @ lines + shares * (families @ lines)
    out += rng.normal(0.0, 0.8) * np.gradient(lines.sum(axis=0))
    return np.asarray(habits.line_residual * out + rng.normal(0.0, 0.006) * sky * camera.sky)


def warp(camera: Camera, errors: FloatArray, step: float) -> FloatArray:
    """The factor by which the flux calibration is wrong: slow waves, and a step across the join."""
    return np.asarray(np.exp(errors @ camera.waves + np.log(step) * (camera.far_side - 0.5)))


def warp_errors(habits: Habits, rng: np.random.Generator) -> FloatArray:
    """Amplitudes of the waves of `warp`, shape (N_WAVES,): the k-th has k^-1.3 of the first, none is beyond 2 σ."""
    return np.clip(rng.standard_normal(N_WAVES), -2.0, 2.0) * habits.warp / np.arange(1, N_WAVES + 1) ** 1.3


def fringes(camera: Camera, amplitude: float, phase: float, period: float) -> FloatArray:
    """The factor of interference in the detector: rises beyond 7,200 Å, some 40 Å from wave to wave there."""
    rise = np.clip((camera.wavelength - 7200.0) / 1500.0, 0.0, 1.0)
    return np.asarray(1.0 + amplitude * rise * np.sin(2.0 * np.pi * 8000.0**2 / (period * camera.wavelength) + phase))
