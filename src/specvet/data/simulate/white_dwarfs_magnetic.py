"""Maker of magnetic white dwarfs (DAH): Balmer lines split by the field of a tilted dipole, spread over the disc."""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.hot_lines import dust
from specvet.data.simulate.hydrogen import line_wavelength
from specvet.data.simulate.hydrogen_atmosphere import hydrogen_star
from specvet.data.simulate.physics import add_gaussian, normalised, truncated_normal, zeros
from specvet.data.simulate.source import GRID, STEP, FloatArray, Source

LINEAR = 20.2
"""Å per MG at 6563 Å: the σ components of the normal Zeeman effect; grows with λ²."""

_BORDERS = (3700.0, 3863.0, 3930.0, 4036.0, 4222.0, 4602.0, 5714.0, 7500.0)
"""Å: between these lie H9, H8, Hε, Hδ, Hγ, Hβ and Hα."""


def dah(rng: np.random.Generator) -> Source:
    """1 to 30 MG, with triplets; one in four stronger (to 400 MG), with shallow features that nobody identifies."""
    strong = rng.random() < 0.25
    field = float(
        np.exp(rng.uniform(np.log(1.0), np.log(30.0)) if not strong else rng.uniform(np.log(60.0), np.log(400.0)))
    )
    teff = truncated_normal(rng, 13_000.0, 5_000.0, 7_000.0, 35_000.0)
    log_g = truncated_normal(rng, 8.2, 0.2, 7.7, 8.8)
    plain = hydrogen_star(teff, log_g, lines=False)
    depth = _unidentified(rng) if strong else split(np.log(plain / hydrogen_star(teff, log_g)), field, rng)
    parameters = {"teff_k": teff, "log_g": log_g, "field_mg": field}
    flux = normalised(plain * np.exp(-depth))
    return Source(flux, "wd.DAH", "DAH", parameters, float(rng.normal(28.0, 42.0)), ebv=dust(rng, 0.02))


def split(depth: FloatArray, pole_mg: float, rng: np.random.Generator) -> FloatArray:
    """The lines' optical depth after the field has split them; `pole_mg` at the pole of a dipole, half at its equator.

    Linear splitting, and the quadratic shift to the blue, Δλ = −4.98e-23 λ² n⁴ (1 + m²) B² (Å, gauss; Preston 1970,
    ApJ 160, L143), which smears the higher lines.
    """
    fields = pole_mg * _dipole(rng)
    out = zeros()
    for upper, low, high in zip((9, 8, 7, 6, 5, 4, 3), _BORDERS[:-1], _BORDERS[1:], strict=True):
        i, k = np.searchsorted(GRID, (low, high))
        line, centre = np.maximum(depth[i:k], 0.0), line_wavelength(2, upper)
        for m in (-1, 0, 1):
            moved = m * LINEAR * fields * (centre / 6564.6) ** 2
            moved -= 4.98e-11 * centre**2 * upper**4 * (1 + m * m) * fields**2
            pixels = np.round(moved / centre / np.log(10.0) / STEP).astype(int)
            first = int(pixels.min())
            moved_line = np.convolve(line, np.bincount(pixels - first) / (3.0 * fields.size))
            a, b = max(i + first, 0), min(i + first + moved_line.size, GRID.size)
            if a < b:
                out[a:b] += moved_line[a - i - first : b - i - first]
    return out


def _dipole(rng: np.random.Generator, points: int = 40) -> FloatArray:
    """Field over the pole's at points of the visible disc, as bright as they are: limb darkening is left to chance."""
    tilt = float(np.arccos(rng.uniform(-1.0, 1.0)))
    r, phi = np.sqrt((np.arange(points) + 0.5) / points), np.arange(points) * 2.399963
    x, z = r * np.cos(phi), np.sqrt(1.0 - r**2)
    latitude = x * np.sin(tilt) + z * np.cos(tilt)
    return np.asarray(0.5 * np.sqrt(1.0 + 3.0 * latitude**2))


def _unidentified(rng: np.random.Generator) -> FloatArray:
    depth = zeros()
    for _ in range(int(rng.integers(4, 10))):
        centre, width = float(rng.uniform(3900.0, 8500.0)), float(rng.uniform(20.0, 120.0))
        add_gaussian(depth, centre, float(rng.uniform(0.04, 0.3)), width / centre * 299_792.0)
    return depth
