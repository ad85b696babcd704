"""Gas that shines by recombination: case B hydrogen and helium, forbidden lines, and the continuum below them.

Line fluxes are relative to Hβ. Ratios: Osterbrock & Ferland 2006, Astrophysics of Gaseous Nebulae and Active Galactic
Nuclei (case B at 10,000 K; [O III], [N II] and [S III] doublets by their transition probabilities). Wavelengths: NIST,
in air, converted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from specvet.data.simulate.physics import FWHM, HC_OVER_K, add_gaussian, chosen, log_normal, vacuum
from specvet.data.simulate.source import GRID, FloatArray
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

BALMER: tuple[tuple[str, float, float], ...] = (
    ("Ha", 6562.80, 2.86),
    ("Hb", 4861.35, 1.00),
    ("Hg", 4340.47, 0.468),
    ("Hd", 4101.74, 0.259),
    ("He", 3970.07, 0.159),
    ("H8", 3889.05, 0.105),
    ("H9", 3835.38, 0.0731),
    ("H10", 3797.90, 0.0530),
    ("H11", 3770.63, 0.0397),
    ("H12", 3750.15, 0.0305),
    ("H13", 3734.37, 0.0240),
    ("H14", 3721.94, 0.0192),
    ("H15", 3711.97, 0.0157),
)
"""Name, air wavelength (Å), flux over Hβ."""

PASCHEN: tuple[tuple[str, float, float], ...] = (
    ("P8", 9545.97, 0.0366),
    ("P9", 9014.91, 0.0254),
    ("P10", 9229.01, 0.0254),
    ("P11", 8862.78, 0.0138),
    ("P12", 8750.47, 0.0107),
    ("P13", 8665.02, 0.00847),
    ("P14", 8598.39, 0.00680),
    ("P15", 8545.38, 0.00555),
    ("P16", 8502.48, 0.00460),
    ("P17", 8467.25, 0.00385),
)

OTHERS: Mapping[str, tuple[float, ...]] = {
    "OII": (3726.03, 3728.82),
    "NeIII": (3868.76, 3967.47),
    "OIII4363": (4363.21,),
    "HeI4471": (4471.50,),
    "HeII": (4685.70,),
    "OIII": (5006.84, 4958.91),
    "NI": (5199.00,),
    "HeI5876": (5875.62,),
    "OI": (6300.30, 6363.78),
    "NII": (6583.45, 6548.05),
    "HeI6678": (6678.15,),
    "SII": (6716.44, 6730.82),
    "HeI7065": (7065.22,),
    "ArIII": (7135.80, 7751.10),
    "OII7325": (7319.99, 7330.20),
    "SIII": (9530.60, 9068.60),
}
"""Air wavelengths (Å), the stronger first where the ratio is fixed."""

_PARTS: Mapping[str, tuple[float, ...]] = {
    "OII": (0.43, 0.57),
    "NeIII": (0.77, 0.23),
    "OIII": (0.749, 0.251),
    "OI": (0.76, 0.24),
    "NII": (0.746, 0.254),
    "SII": (0.57, 0.43),
    "ArIII": (0.81, 0.19),
    "OII7325": (0.55, 0.45),
    "SIII": (0.713, 0.287),
}

_CENTRE: Mapping[float, float] = {
    air: vacuum(air)
    for air in (*(row[1] for row in (*BALMER, *PASCHEN)), *(w for lines in OTHERS.values() for w in lines))
}


def add_line(into: FloatArray, centre: float, flux: float, fwhm_km_s: float) -> None:
    """Add a Gaussian line of this flux (flux density times Å; below 0 takes away) at `centre` (Å, vacuum)."""
    sigma = centre * fwhm_km_s / FWHM / SPEED_OF_LIGHT_KM_S
    add_gaussian(into, centre, flux / (sigma * np.sqrt(2.0 * np.pi)), fwhm_km_s)


def lines(ratios: Mapping[str, float], fwhm_km_s: float, shift: float = 0.0, density: float = 0.0) -> FloatArray:
    """A line spectrum, Hβ = 1 (flux density times Å): hydrogen in case B and `OTHERS` by their ratios to Hβ.

    `shift` is 1 + z of the gas; `density` from 0 to 1 takes [S II] and [O II] from their low- to their high-density
    ratio.
    """
    factor = shift or 1.0
    into = np.zeros(GRID.size)
    for _, air, ratio in (*BALMER, *PASCHEN):
        add_line(into, _CENTRE[air] * factor, ratio, fwhm_km_s)
    for name, ratio in ratios.items():
        parts = _PARTS.get(name, (1.0,))
        if name in ("SII", "OII"):
            first = parts[0] - (0.25 if name == "SII" else -0.25) * density
            parts = (first, 1.0 - first)
        for air, part in zip(OTHERS[name], parts, strict=True):
            add_line(into, _CENTRE[air] * factor, ratio * part, fwhm_km_s)
    return into


@lru_cache(maxsize=64)
def _continuum(kelvin: float, merged: bool) -> FloatArray:
    """Free-bound and two-photon continuum, per Å, over the flux of Hβ."""
    nu = 1.0 / GRID
    flux = np.zeros(GRID.size)
    for n, limit in ((2, 3646.0), (3, 8204.0), (4, 14_584.0), (5, 22_790.0)):
        edge, soft = (limit * 1.014, limit * 0.006) if merged else (limit, 1.0)
        above = np.maximum(nu - 1.0 / limit, 0.0) * HC_OVER_K / kelvin
        shines = 1.0 / (1.0 + np.exp(np.clip((GRID - edge) / soft, -60.0, 60.0)))
        flux += shines * n**-3.0 * np.exp(-above) / GRID**2
    balmer_side = flux[np.searchsorted(GRID, 3600.0)]
    flux *= 5.3e-3 * (kelvin / 1e4) ** -0.6 / balmer_side
    two_photon = 6.5e-4 * (GRID / 4000.0) ** -3.0 * (1.0 - (1215.7 / GRID))
    flux += two_photon
    flux.flags.writeable = False
    return flux


def continuum(kelvin: float, merged: bool = False) -> FloatArray:
    """The nebular continuum (per Å) that goes with Hβ = 1, with its Balmer and Paschen jumps; the temperature (K) is
    rounded to 5 %. Its level, some 1/1000 of Hβ per Å, and the two-photon part are ours, after Osterbrock & Ferland
    2006, chapter 4.

    `merged` softens the jumps and moves them 1.4 % to the red, where in dense and fast gas the last lines run together.
    """
    return _continuum(round(float(np.exp(round(np.log(kelvin) * 20.0) / 20.0)), 1), merged)


def h_ii_ratios(rng: np.random.Generator, excitation: float) -> dict[str, float]:
    """Line ratios to Hβ on the sequence of star-forming gas, `excitation` from 0 (metal-rich, cool) to 1 (metal-poor).

    The sequence is ours, mostly below that of Kauffmann et al. 2003, MNRAS 346, 1055: [O III] rises as [N II] falls.
    """
    oiii = 10.0 ** (-0.7 + 1.45 * excitation) * log_normal(rng, 1.0, 0.15)
    return {
        "OIII": oiii * 1.335,
        "NII": 2.86 * 10.0 ** (-0.38 - 1.05 * excitation**1.5) * 1.34 * log_normal(rng, 1.0, 0.2),
        "SII": 2.86 * 10.0 ** (-0.45 - 0.55 * excitation) * log_normal(rng, 1.0, 0.2),
        "OII": 10.0 ** (0.25 + 0.35 * np.sin(np.pi * min(excitation, 0.8))) * log_normal(rng, 1.0, 0.2),
        "OI": 0.06 * log_normal(rng, 1.0, 0.5),
        "NeIII": 0.09 * oiii * log_normal(rng, 1.0, 0.3),
        "HeI4471": 0.04 * log_normal(rng, 1.0, 0.1),
        "HeI5876": 0.115 * log_normal(rng, 1.0, 0.1),
        "HeI6678": 0.032 * log_normal(rng, 1.0, 0.1),
        "HeI7065": 0.022 * log_normal(rng, 1.0, 0.2),
        "ArIII": 0.10 * (0.4 + 0.8 * excitation) * log_normal(rng, 1.0, 0.2),
        "SIII": 1.1 * log_normal(rng, 1.0, 0.3),
        "OIII4363": 0.012 * oiii * excitation**2,
    }


def planetary_ratios(rng: np.random.Generator) -> tuple[dict[str, float], str]:
    """Line ratios to Hβ of a planetary nebula, and its excitation in a word (low, medium, high, type I)."""
    kind = chosen(rng, {"low": 0.25, "medium": 0.4, "high": 0.25, "type I": 0.1})
    oiii = {"low": 1.2, "medium": 9.0, "high": 13.0, "type I": 14.0}[kind] * log_normal(rng, 1.0, 0.35)
    nii = {"low": 2.2, "medium": 1.0, "high": 0.5, "type I": 7.0}[kind] * log_normal(rng, 1.0, 0.5)
    heii = {"low": 0.0, "medium": 0.04, "high": 0.5, "type I": 0.4}[kind] * log_normal(rng, 1.0, 0.4)
    return {
        "OIII": oiii * 1.335,
        "NII": nii * 1.34,
        "SII": 0.12 * nii * log_normal(rng, 1.0, 0.4) + 0.03,
        "OII": 0.6 * log_normal(rng, 1.0, 0.6),
        "OI": 0.05 * nii * log_normal(rng, 1.0, 0.5),
        "NeIII": 0.09 * oiii * log_normal(rng, 1.0, 0.2) * 1.3,
        "OIII4363": 0.009 * oiii * log_normal(rng, 1.0, 0.3),
        "HeII": heii,
        "HeI4471": 0.055 * (1.0 - 0.6 * min(heii, 1.0)),
        "HeI5876": 0.16 * (1.0 - 0.6 * min(heii, 1.0)),
        "HeI6678": 0.042 * (1.0 - 0.6 * min(heii, 1.0)),
        "HeI7065": 0.05 * log_normal(rng, 1.0, 0.3),
        "ArIII": 0.20 * log_normal(rng, 1.0, 0.3),
        "OII7325": 0.06 * log_normal(rng, 1.0, 0.5),
        "SIII": 1.0 * log_normal(rng, 1.0, 0.5),
    }, kind
