"""Starlight of galaxies: mixtures of the stars of `kinds`, blurred by their motions, and shifted.

Stars are made on `GRID`; what a redshift brings in from below 3400 Å continues them with the ultraviolet slope that
such a mixture has, with the breaks at 2640 and 2900 Å and the Mg II dip of old stars.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from specvet.data.simulate.companions import pooled, scaled, teff_between
from specvet.data.simulate.physics import FWHM, broadened
from specvet.data.simulate.source import GRID, FloatArray

OLD: Mapping[str, float] = {"k_giant": 0.55, "g_star": 0.25, "k_dwarf": 0.12, "gm.giant": 0.05, "f_star": 0.03}
MIDDLE: Mapping[str, float] = {"k_giant": 0.32, "g_star": 0.3, "f_star": 0.25, "a_star": 0.1, "gm.giant": 0.03}
YOUNG: Mapping[str, float] = {"b_star": 0.5, "a_star": 0.12, "f_star": 0.15, "k_giant": 0.2, "gm.giant": 0.03}
"""Shares of the light at 5500 Å by kind of star."""

ULTRAVIOLET: Mapping[str, float] = {"old": 4.0, "middle": 1.5, "young": -1.2}
"""Slope d ln F_λ / d ln λ below 3400 Å."""

BLANKETING: Mapping[str, float] = {"old": 0.45, "middle": 0.25, "young": 0.1}
"""Light that the crowded lines of metals take below 3720 Å, where the blanketing of the stars' makers ends; set by eye
on the mean galaxy of SDSS (spEigenGal).
"""

MIXTURES: Mapping[str, Mapping[str, float]] = {"old": OLD, "middle": MIDDLE, "young": YOUNG}


def starlight(rng: np.random.Generator, population: str, sigma_km_s: float) -> FloatArray:
    """Starlight at rest on `GRID`, 1 at 5500 Å, with velocity dispersion `sigma_km_s`; `population` names a mixture."""
    flux = np.zeros(GRID.size)
    for kind, share in MIXTURES[population].items():
        number = 2 if share > 0.2 else 1
        for _ in range(number):
            hottest = kind == "b_star"  # those that outshine all others
            star = pooled(kind, rng, teff_between(14_000.0 if hottest else 3450.0, 60_000.0, -0.8))
            flux += scaled(star.flux, 5500.0, share / number * float(rng.uniform(0.6, 1.4)))
    flux *= 1.0 - BLANKETING[population] / (1.0 + np.exp((GRID - 3735.0) / 12.0))
    return broadened(scaled(flux, 5500.0), FWHM * sigma_km_s)


def redshifted(flux: FloatArray, z: float, population: str) -> FloatArray:
    """Starlight at a redshift, on `GRID`."""
    rest = GRID / (1.0 + z)
    seen = np.interp(rest, GRID, flux)
    blue = rest < GRID[0] * 1.002
    if blue.any():
        edge = float(flux[5:120].mean())
        slope = ULTRAVIOLET[population]
        x = rest[blue]
        continued = edge * (x / 3420.0) ** slope
        if population != "young":
            depth = 0.25 if population == "middle" else 0.45
            for centre, width in ((2852.0, 14.0), (2800.0, 22.0), (3070.0, 25.0), (3240.0, 25.0), (3340.0, 30.0)):
                continued *= 1.0 - depth * 0.6 * np.exp(-0.5 * ((x - centre) / width) ** 2)
            for edge_at, drop in ((2640.0, depth), (2900.0, 0.5 * depth)):
                continued *= 1.0 - drop / (1.0 + np.exp((x - edge_at) / 8.0))
        else:
            continued *= 1.0 - 0.25 * np.exp(-0.5 * ((x - 2799.0) / 7.0) ** 2)
        seen[blue] = continued
    return seen
