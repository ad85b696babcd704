"""How stars of the Galaxy's populations move and what dust lies before them."""

from __future__ import annotations

import numpy as np


def giant_velocity(rng: np.random.Generator, feh: float) -> float:
    """Radial velocity (km/s) of a giant of the thin disc, thick disc or halo, by its metals.

    Dispersions: Bland-Hawthorn & Gerhard 2016, ARA&A 54, 529, rounded.
    """
    halo = 1.0 / (1.0 + np.exp((feh + 1.2) / 0.15))
    thick = 1.0 / (1.0 + np.exp((feh + 0.5) / 0.12))
    u = rng.random()
    sigma = 130.0 if u < halo else 65.0 if u < max(halo, thick) else 38.0
    return float(rng.normal(-10.0 if sigma < 100.0 else -60.0, sigma))


def dwarf_velocity(rng: np.random.Generator, feh: float) -> float:
    """Radial velocity (km/s) of a dwarf of the solar neighbourhood, by its metals."""
    sigma = 130.0 if feh < -1.2 else 60.0 if feh < -0.6 else 32.0
    return float(rng.normal(-5.0, sigma))


def dust(rng: np.random.Generator, mean: float) -> float:
    """Foreground E(B−V) in mag: exponential, at most 2."""
    return float(min(rng.exponential(mean), 2.0))
