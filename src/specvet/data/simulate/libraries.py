"""Spectra as libraries and single observers hand them round: other spectrographs than the surveys', few words.

Resolution, sampling and coverage are drawn from what atlases of stars have: MILES (3,540-7,410 Å, R 2,200, 0.9 Å a
pixel), STELIB, Indo-US, Pickles (5 Å) and collections of standard stars (R 500 to 1,500). Most state no errors and no
redshift; half are at rest and say so.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d

from specvet.data.simulate.observing_exposure import doppler, interstellar
from specvet.data.simulate.physics import FWHM, extinction_curve, truncated_normal
from specvet.data.simulate.source import GRID, KM_S_PER_PIXEL, FloatArray, Source
from specvet.spectra.lines import vacuum_to_air
from specvet.spectra.reading import SIMULATED
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, Medium, Spectrum

SNR = (8.0, 1_000.0)
"""A pixel, log-uniform; means of many stars and standards have the highest."""

_FINEST = 1_800.0
"""Resolving power up to which a spectrograph is called coarse; such ones sample 2 to 5 Å a pixel."""


def observe_by_library(source: Source, rng: np.random.Generator, snr: float | None = None) -> Spectrum:
    """One spectrum of `source` as a library would give it: wavelength, flux, and what little is told of them.

    `snr` is the median S/N a pixel; None draws it from `SNR`.
    """
    at_rest = rng.random() < 0.5
    flux = source.flux if at_rest else doppler(source.flux, source.velocity_km_s)
    if source.ebv > 0.0:
        depth = 0.4 * np.log(10.0) * source.ebv * extinction_curve()
        flux = flux * np.exp(-depth - (0.0 if source.template else interstellar(source.ebv, rng)))
    fine = rng.random() < 0.6
    resolution = float(np.exp(rng.uniform(*np.log((_FINEST, 3_500.0) if fine else (450.0, _FINEST)))))
    step = float(rng.uniform(0.6, 1.4) if fine else rng.uniform(2.0, 5.0))
    low, high = _coverage(rng)
    wavelength = np.arange(low, high, step)
    seen = _recorded(flux, wavelength, step, resolution)
    level = np.median(seen)
    wanted = snr if snr is not None else float(np.exp(rng.uniform(*np.log(SNR))))
    # Photons and a detector that sees less towards its ends.
    place = (wavelength - low) / (high - low)
    sigma = np.sqrt(np.maximum(seen, 0.02 * level) * level) * np.exp(2.0 * (place - 0.6) ** 2)
    sigma *= 1.0 / (wanted * float(np.median(sigma / np.maximum(seen, 1e-9 * level))))
    warp = np.exp(
        float(rng.normal(0.0, 0.04)) * np.cos(np.pi * place) + float(rng.normal(0.0, 0.02)) * np.cos(9 * place)
    )
    observed = (seen + sigma * rng.standard_normal(seen.size)) * warp
    # Over its median, in erg/s/cm²/Å of a star of magnitude 8 to 18, or in whatever counts.
    unit = (0.0, float(rng.uniform(-16.0, -12.0)), float(rng.uniform(0.0, 4.0)))[int(rng.choice(3, p=(0.5, 0.3, 0.2)))]
    scale = 10.0**unit / level
    medium = ("air", "vacuum", "unknown")[int(rng.choice(3, p=(0.5, 0.2, 0.3)))]
    return Spectrum(
        wavelength=wavelength if medium == "vacuum" else vacuum_to_air(wavelength),
        flux=observed * scale,
        ivar=(sigma * warp * scale) ** -2.0 if rng.random() < 0.2 else None,
        medium=_as_medium(medium),
        calibration="relative" if at_rest else "unknown",
        resolution=round(resolution, 2) if rng.random() < 0.5 else None,
        frame="rest" if at_rest else "unknown",
        layout="image-1d",
        warnings=(SIMULATED,),
    )


def _as_medium(text: str) -> Medium:
    return "air" if text == "air" else "vacuum" if text == "vacuum" else "unknown"


def _coverage(rng: np.random.Generator) -> tuple[float, float]:
    """First and last wavelength, Å in vacuum."""
    low = truncated_normal(rng, 3_620.0, 150.0, 3_420.0, 4_000.0)
    high = 7_410.0 if rng.random() < 0.35 else float(rng.uniform(6_900.0, 10_500.0))
    return low, high


def _recorded(flux: FloatArray, wavelength: FloatArray, step: float, resolution: float) -> FloatArray:
    """Means over pixels of `step` Å of a flux on `GRID`, blurred to a resolving power."""
    blurred = gaussian_filter1d(flux, SPEED_OF_LIGHT_KM_S / resolution / FWHM / KM_S_PER_PIXEL, mode="nearest")
    sums = np.concatenate([[0.0], np.cumsum(0.5 * (blurred[1:] + blurred[:-1]) * np.diff(GRID))])
    edges = np.append(wavelength - 0.5 * step, wavelength[-1] + 0.5 * step)
    return np.asarray(np.diff(np.interp(edges, GRID, sums)) / step)
