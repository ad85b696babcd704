"""Makers of hot stars with emission: Be stars with a decretion disc, Herbig Ae/Be stars with an accretion disc."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specvet.data.simulate.hot_lines import CA_II_TRIPLET, FE_II_EMISSION, Lines, add_profile, dust, place, velocities
from specvet.data.simulate.hot_photospheres import a_photosphere, b_photosphere
from specvet.data.simulate.physics import FWHM, add_gaussian, chosen, normalised, power_law, truncated_normal, zeros
from specvet.data.simulate.source import GRID, FloatArray, Source
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

_BALMER: Lines = ((6562.8, 1.0), (4861.35, 0.16), (4340.47, 0.05), (4101.74, 0.02))
"""Equivalent widths over that of Hα in a Be star: a decrement steeper than a nebula's, over photospheric absorption."""
_PASCHEN: Lines = ((8502.5, 0.08), (8545.4, 0.09), (8598.4, 0.1), (8665.0, 0.11), (8750.5, 0.12), (8862.8, 0.13),
                   (9014.9, 0.14),
                   (9229.0, 0.16), (9546.0, 0.2), (10049.4, 0.25))  # fmt: skip


def be_star(rng: np.random.Generator) -> Source:
    """A fast B star whose Hα, and less Hβ, is in emission, often double-peaked; one in six seen through the disc."""
    teff = float(np.exp(truncated_normal(rng, np.log(17_500.0), 0.28, np.log(10_500.0), np.log(30_000.0))))
    log_g, ebv = truncated_normal(rng, 3.8, 0.2, 3.2, 4.2), dust(rng, 0.35)
    tilt = float(np.arccos(rng.uniform(0.0, 1.0)))
    v_sin_i = float(rng.uniform(280.0, 430.0)) * float(np.sin(tilt)) + 10.0
    shell = tilt > np.radians(80.0)
    flux, spectral_type = b_photosphere(teff, log_g, v_sin_i, rng)
    ew = float(np.exp(truncated_normal(rng, np.log(17.0), 0.8, np.log(1.5), np.log(70.0))))
    # The peaks of Hα lie at the speed of the disc's edge, closer in stronger lines; Hβ comes from nearer in.
    half = v_sin_i * float(np.clip(0.6 * (15.0 / ew) ** 0.3, 0.3, 0.95))
    core = float(np.clip(1.0 * v_sin_i, 150.0, 380.0))
    ratio = float(np.exp(rng.normal(0.0, 0.12)))
    emission = zeros()
    _add(emission, _BALMER[:1], ew, half, core, ratio)
    _add(emission, _BALMER[1:], ew, 1.5 * half, 1.2 * core, ratio)
    _add(emission, (*_PASCHEN, (8446.4, 0.22)), 0.55 * ew, 1.3 * half, 1.1 * core, ratio)
    _add(emission, ((5875.6, 1.0), (6678.2, 0.8)), min(0.025 * ew, 0.6), 1.5 * half, core, ratio)
    if ew > 12.0:
        _add(emission, FE_II_EMISSION, 0.03 * ew * float(rng.uniform(0.5, 1.3)), 1.2 * half, core, ratio)
    if shell:
        for air, relative in _BALMER:
            add_gaussian(emission, place(air), -0.5 * relative**0.15 * float(rng.uniform(0.7, 1.1)), 110.0)
        iron = float(rng.uniform(0.0, 0.3))
        for air, relative in FE_II_EMISSION:
            add_gaussian(emission, place(air), -iron * relative, 110.0)
    flux = _with_emission(flux, emission)
    flux = flux * (GRID / 6000.0) ** (0.006 * ew)  # free-free light of the disc
    parameters = {
        "teff_k": teff,
        "log_g": log_g,
        "v_sin_i_km_s": v_sin_i,
        "ha_ew_a": -ew,
        "inclination_deg": float(np.degrees(tilt)),
    }
    return Source(normalised(flux), "be_star", f"{spectral_type}e", parameters, float(rng.normal(0.0, 20.0)), ebv=ebv)


def herbig(rng: np.random.Generator) -> Source:
    """A or B star with strong Hα (single, double or P Cygni), [O I], Ca II and O I emission, dust and its glow."""
    hot = rng.random() < 0.4
    log_g, ebv = truncated_normal(rng, 4.0, 0.2, 3.5, 4.3), min(0.1 + dust(rng, 0.3), 1.5)
    v_sin_i = truncated_normal(rng, 130.0, 60.0, 20.0, 250.0)
    if hot:
        teff = truncated_normal(rng, 15_000.0, 4_000.0, 10_300.0, 26_000.0)
        flux, spectral_type = b_photosphere(teff, log_g, v_sin_i, rng)
    else:
        teff = truncated_normal(rng, 8_700.0, 700.0, 7_300.0, 10_200.0)
        flux = a_photosphere(teff, log_g, truncated_normal(rng, -0.1, 0.2, -0.6, 0.4), v_sin_i)
        spectral_type = f"A{round(float(np.interp(teff, (7_300.0, 8_150.0, 10_000.0), (9.0, 5.0, 0.0))))}"
    ew = float(np.exp(truncated_normal(rng, np.log(30.0), 0.7, np.log(8.0), np.log(130.0))))
    shape = chosen(rng, {"double": 0.5, "single": 0.25, "P Cygni": 0.25})
    width, ratio = float(rng.uniform(180.0, 400.0)), float(np.exp(rng.normal(0.0, 0.3)))
    emission = zeros()
    apart = 0.55 * width if shape == "double" else 0.0
    _add(emission, _BALMER, ew, apart, 0.9 * width, ratio)
    if shape == "double":
        _add(emission, _BALMER, -0.15 * ew, 0.0, 120.0)
    if shape == "P Cygni":
        for air, relative in _BALMER:
            blueward = place(air) * (1.0 - 280.0 / SPEED_OF_LIGHT_KM_S)
            add_gaussian(emission, blueward, -0.7 * relative**0.3, 220.0)
    _add(emission, ((6300.3, 1.0), (6363.8, 0.33)), ew * float(rng.uniform(0.005, 0.05)), 0.0, 80.0)
    calcium = ew * float(rng.uniform(0.02, 0.2))
    _add(emission, CA_II_TRIPLET, calcium, 0.0, width)
    _add(emission, (*_PASCHEN, (8446.4, 0.33)), 0.3 * ew, 0.0, width)
    _add(emission, FE_II_EMISSION, ew * float(rng.uniform(0.0, 0.03)), 0.0, width)
    _add(emission, ((5875.6, 1.0),), float(rng.uniform(-0.6, 1.0)), 0.0, width)
    flux = _with_emission(flux, emission)
    flux = flux + float(rng.uniform(0.0, 0.25)) * float(np.interp(6000.0, GRID, flux)) * power_law(
        float(rng.uniform(1.0, 3.0))
    )
    parameters = {"teff_k": teff, "log_g": log_g, "v_sin_i_km_s": v_sin_i, "ha_ew_a": -ew, "fwhm_km_s": width}
    return Source(
        normalised(flux), "herbig", f"{spectral_type[:2]}e", parameters, float(rng.normal(0.0, 15.0)), ebv=ebv
    )


def _add(
    into: FloatArray, lines: Iterable[tuple[float, float]], ew: float, half: float, fwhm: float, ratio: float = 1.0
) -> None:
    """Add emission over the continuum, in its units: two Gaussians `half` km/s to each side, `ratio` of blue to red.

    `ew` (Å) is the emission of a line of strength 1.
    """
    velocity, sigma = velocities(half + 1.5 * fwhm), fwhm / FWHM
    blue = np.exp(-0.5 * ((velocity + half) / sigma) ** 2)
    red = np.exp(-0.5 * ((velocity - half) / sigma) ** 2)
    add_profile(into, lines, ew, (ratio * blue + red) / ((1.0 + ratio) * sigma * np.sqrt(2.0 * np.pi)))


def _with_emission(flux: FloatArray, emission: FloatArray) -> FloatArray:
    """`emission` is in units of the local continuum; absorption by a shell leaves a tenth of the light."""
    smooth = np.interp(GRID, _ANCHORS, np.interp(_ANCHORS, GRID, flux))
    return np.asarray(np.maximum(flux + smooth * emission, 0.1 * flux))


_ANCHORS = np.array([3400.0, 3630.0, 3760.0, 4025.0, 4220.0, 4460.0, 4650.0, 5200.0, 5700.0, 6150.0, 6800.0, 7500.0,
                     8300.0,
                     8810.0, 9150.0, 9400.0, 9800.0, 10_300.0, 10_690.0])  # fmt: skip
"""Å: between the lines."""
