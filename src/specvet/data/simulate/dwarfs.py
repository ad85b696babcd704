"""Ordinary cool stars: M dwarfs quiet and active, subdwarfs, and the F, G and K stars that surveys are full of."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import uniform_filter1d

from specvet.data.simulate.atmospheres import Photosphere, add_emission, spectrum
from specvet.data.simulate.physics import normalised, rotated, truncated_normal, zeros
from specvet.data.simulate.populations import dust, dwarf_velocity, giant_velocity
from specvet.data.simulate.source import FloatArray, Source

_TYPES = (-2.0, 0.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
_TEFF = (4100.0, 3850.0, 3550.0, 3200.0, 3050.0, 2850.0, 2700.0, 2550.0, 2400.0)
"""K for K5 to M9 V: Pecaut & Mamajek 2013, ApJS 208, 9."""
_COLOUR = (3900.0, 3560.0, 3260.0, 2850.0, 2700.0, 2500.0, 2350.0, 2200.0, 2050.0)
_COLUMNS = {
    "TiO": (15.0, 15.5, 15.83, 16.15, 16.35, 16.5, 16.62, 16.7, 16.7),
    "VO": (12.5, 13.0, 13.5, 14.3, 14.8, 15.3, 15.8, 16.2, 16.4),
    "CaH": (14.5, 15.0, 15.35, 15.65, 15.78, 15.88, 15.95, 16.0, 16.0),
    "MgH": (15.45, 15.45, 15.4, 15.2, 15.1, 15.0, 15.0, 15.0, 15.0),
    "CaOH": (-2.5, -1.8, -1.4, -0.8, -0.5, -0.2, 0.0, 0.1, 0.1),
}
"""Colour temperature (K) and log of columns (cm⁻²) by type, fitted to the mean M dwarfs of SDSS (Bochanski et al. 2007,
AJ 133, 531) and Pickles; CaOH is the log of the optical depth at 6237 Å."""


def _m_dwarf(rng: np.random.Generator, subtype: float, feh: float) -> Photosphere:
    teff = float(np.interp(subtype, _TYPES, _TEFF)) + rng.normal(0.0, 40.0)
    parts = {name: float(np.interp(subtype, _TYPES, row)) + rng.normal(0.0, 0.07) for name, row in _COLUMNS.items()}
    # TiO needs two metals, CaH one: with fewer metals TiO sinks and CaH stays, which is what makes a subdwarf.
    parts["TiO"] += 1.3 * feh
    parts["VO"] += 1.3 * feh
    parts["CaH"] += 0.15 * feh
    parts["MgH"] += 0.15 * feh
    parts["CaOH"] += 0.5 * feh
    colour = float(np.interp(subtype, _TYPES, _COLOUR)) * rng.normal(1.0, 0.015) * (1.0 - 0.06 * feh)
    log_g = float(np.interp(subtype, [-2.0, 3.0, 6.0], [4.65, 4.9, 5.15])) + rng.normal(0.0, 0.06)
    return Photosphere(teff, log_g, feh, {"Na": -0.22, "Ca": -0.1, "Ca II": 0.6}, parts, balmer=0.25, colour_k=colour)


def _parameters(star: Photosphere, **more: float) -> dict[str, float]:
    return {"teff_k": star.teff_k, "log_g": star.log_g, "fe_h": star.feh, **more}


def _subtype(rng: np.random.Generator, low: float, mean: float, sigma: float) -> float:
    return truncated_normal(rng, mean, sigma, low, 9.0)


def m_quiet(rng: np.random.Generator) -> Source:
    """An M0 to M9 dwarf without emission; one in twelve is a subdwarf (sdM) or extreme subdwarf (esdM)."""
    u = rng.random()
    if u < 0.025:
        feh, prefix, subtype = truncated_normal(rng, -1.7, 0.2, -2.2, -1.35), "esd", _subtype(rng, 0.0, 2.0, 1.5)
    elif u < 0.085:
        feh, prefix, subtype = truncated_normal(rng, -1.0, 0.2, -1.35, -0.7), "sd", _subtype(rng, 0.0, 2.0, 1.5)
    else:
        feh, prefix, subtype = truncated_normal(rng, -0.05, 0.18, -0.6, 0.35), "d", _subtype(rng, 0.0, 2.3, 1.7)
    star = _m_dwarf(rng, subtype, feh)
    flux = spectrum(star)
    lines = zeros()
    chromosphere = float(np.exp(rng.normal(np.log(5.0), 0.5)))
    for air in (3933.66, 3968.47):  # quiet M dwarfs have these cores, too
        add_emission(lines, air, chromosphere, 55.0)
    return Source(
        normalised(flux + _local(flux) * lines),
        "m_dwarf.quiet",
        f"{prefix}M{subtype:.1f}",
        _parameters(star, m_subtype=subtype),
        velocity_km_s=dwarf_velocity(rng, feh),
        ebv=dust(rng, 0.02),
    )


_ACTIVITY = (
    (6562.80, 1.0),
    (4861.35, 1.0),
    (4340.47, 1.0),
    (4101.73, 0.9),
    (3970.08, 0.9),
    (3889.06, 0.7),
    (3835.40, 0.5),
)
"""Equivalent widths (Å) of Balmer lines over Hα's, against the photosphere; Stelzer et al. 2013, A&A 558, A141."""


def m_active(rng: np.random.Generator) -> Source:
    """An M dwarf with narrow emission of the Balmer lines and Ca II H and K; He I too in a flare."""
    subtype = _subtype(rng, 0.0, 4.2, 1.7)
    star = _m_dwarf(rng, subtype, truncated_normal(rng, 0.0, 0.15, -0.4, 0.35))
    flux = spectrum(star)
    width = float(np.exp(rng.normal(np.log(np.interp(subtype, [0.0, 4.0, 7.0], [1.5, 4.0, 7.0])), 0.45)))
    lines = zeros()
    slope = rng.uniform(0.8, 1.5)
    for air, share in _ACTIVITY:
        add_emission(lines, air, width * share * slope ** (0.0 if air > 6000.0 else 1.0), 70.0)
    for air in (3933.66, 3968.47):
        add_emission(lines, air, width * rng.uniform(1.5, 3.0), 60.0)
    if width > 6.0:
        for air, share in ((5875.62, 0.12), (6678.15, 0.05), (4471.50, 0.1), (7065.20, 0.04)):
            add_emission(lines, air, width * share, 70.0)
    flux = rotated(flux + _local(flux) * lines, float(np.exp(rng.normal(np.log(10.0), 0.7))))
    return Source(
        normalised(flux),
        "m_dwarf.active",
        f"dM{subtype:.1f}e",
        _parameters(star, m_subtype=subtype, ha_ew_a=-width),
        velocity_km_s=dwarf_velocity(rng, star.feh),
        ebv=dust(rng, 0.02),
    )


def _local(flux: FloatArray) -> FloatArray:
    """The flux around, over some 2,000 km/s: what equivalent widths of emission are measured against."""
    return np.asarray(uniform_filter1d(flux, 61))


_FGK_TEFF = (3900.0, 4150.0, 4450.0, 4800.0, 5230.0, 5600.0, 6000.0, 6400.0, 7000.0)
_FGK_DWARF = {
    "CH": (15.9, 16.05, 16.2, 16.25, 16.25, 16.28, 16.25, 16.15, 15.7),
    "CN": (16.6, 16.8, 16.85, 16.8, 16.55, 16.3, 16.0, 15.4, 14.5),
    "MgH": (15.35, 15.4, 15.3, 15.0, 14.2, 13.6, 13.1, 12.9, 12.5),
    "TiO": (15.5, 15.1, 14.6, 14.1, 13.8, 13.5, 13.0, 12.5, 12.0),
    "ZrO": (12.0,) * 9,
}
_FGK_GIANT = {
    "CH": (16.15, 16.2, 16.2, 16.2, 16.15, 16.15, 16.15, 16.1, 15.7),
    "CN": (17.2, 17.25, 17.25, 17.2, 16.95, 16.8, 16.2, 15.4, 14.5),
    "MgH": (14.6, 14.2, 13.7, 13.0, 12.8, 12.6, 12.5, 12.4, 12.3),
    "TiO": (15.7, 15.05, 14.8, 14.5, 14.0, 13.5, 13.0, 12.5, 12.0),
    "ZrO": (15.0, 14.9, 14.75, 14.5, 14.0, 13.5, 13.0, 12.5, 12.0),
}
"""log of columns (cm⁻²) by effective temperature (K), fitted to Indo-US stars of solar metals."""


def fgk_columns(teff_k: float, log_g: float, feh: float, carbon: float = 0.0) -> dict[str, float]:
    """log of the columns (cm⁻²) of CH, CN, MgH and TiO in an F, G or K star; `carbon` is log of C over the Sun's."""
    giant = float(np.clip((4.2 - log_g) / 1.7, 0.0, 1.0))
    row = {name: float(np.interp(teff_k, _FGK_TEFF, dwarf)) for name, dwarf in _FGK_DWARF.items()}
    for name, values in _FGK_GIANT.items():
        row[name] += giant * (float(np.interp(teff_k, _FGK_TEFF, values)) - row[name])
    row["CH"] += 0.8 * (feh + carbon)
    row["CN"] += 1.5 * feh + 0.9 * carbon
    row["MgH"] += 0.8 * feh
    row["TiO"] += 1.2 * feh
    row["ZrO"] += 1.2 * feh
    return row


def _fgk(rng: np.random.Generator, teff: float, log_g: float, feh: float) -> Photosphere:
    parts = {name: value + rng.normal(0.0, 0.08) for name, value in fgk_columns(teff, log_g, feh).items()}
    alpha = 0.35 * float(np.clip(-feh, 0.0, 1.0))
    abundances = dict.fromkeys(("Mg", "Ca", "Si", "Ti"), alpha)
    # Na D is stronger in giants than in equilibrium.
    abundances["Na"] = float(np.interp(log_g, [2.5, 4.2], [0.32, 0.2]))
    return Photosphere(teff, log_g, feh, abundances, parts, balmer=rng.normal(1.0, 0.07))


_CLASSES = (
    *((7300.0, "F0"), (6980.0, "F2"), (6550.0, "F5"), (6200.0, "F8"), (5950.0, "G0"), (5780.0, "G2"), (5600.0, "G5")),
    *((5450.0, "G8"), (5230.0, "K0"), (4900.0, "K2"), (4700.0, "K3"), (4450.0, "K5"), (4100.0, "K7"), (3950.0, "M0")),
)
_GIANTS = (
    *((5100.0, "G5"), (4900.0, "G8"), (4750.0, "K0"), (4600.0, "K1"), (4450.0, "K2"), (4300.0, "K3")),
    *((4150.0, "K4"), (3980.0, "K5"), (3900.0, "M0")),
)
"""Effective temperature (K) and type: Pecaut & Mamajek 2013, ApJS 208, 9 (dwarfs); Gray & Corbally 2009 (giants)."""


def _type(teff: float, classes: tuple[tuple[float, str], ...]) -> str:
    return min(classes, key=lambda row: abs(row[0] - teff))[1]


def k_giant(rng: np.random.Generator) -> Source:
    """A G8 to K5 giant, the red clump its bulk, the cool end where TiO begins."""
    teff = float(rng.choice([rng.normal(4750.0, 120.0), rng.uniform(3930.0, 4700.0)]))
    feh = truncated_normal(rng, -0.3, 0.4, -2.2, 0.4)
    star = _fgk(rng, teff, 2.4 + (teff - 4750.0) * 1.6e-3 + rng.normal(0.0, 0.2), feh)
    return Source(
        normalised(spectrum(star)),
        "k_giant",
        f"{_type(teff, _GIANTS)}III",
        _parameters(star),
        velocity_km_s=giant_velocity(rng, feh),
        ebv=dust(rng, 0.15),
    )


def _dwarf(rng: np.random.Generator, kind: str, teff: float, log_g: float, feh: float, v_sin_i: float) -> Source:
    star = _fgk(rng, teff, log_g, feh)
    return Source(
        normalised(rotated(spectrum(star), v_sin_i)),
        kind,
        f"{_type(teff, _CLASSES)}{'V' if log_g > 4.1 else 'IV'}",
        _parameters(star, v_sin_i_km_s=v_sin_i),
        velocity_km_s=dwarf_velocity(rng, feh),
        ebv=dust(rng, 0.08),
    )


def k_dwarf(rng: np.random.Generator) -> Source:
    """A K0 to K7 dwarf: MgH and Mg b strong, Na D broad, TiO at the cool end."""
    teff = float(rng.uniform(3980.0, 5250.0))
    return _dwarf(rng, "k_dwarf", teff, rng.normal(4.6, 0.06), truncated_normal(rng, -0.15, 0.25, -1.5, 0.4), 2.0)


def g_star(rng: np.random.Generator) -> Source:
    """A G0 to G9 dwarf or subgiant."""
    teff = float(rng.uniform(5250.0, 6000.0))
    log_g = float(rng.choice([rng.normal(4.4, 0.08), rng.uniform(3.4, 4.2)], p=[0.7, 0.3]))
    return _dwarf(rng, "g_star", teff, log_g, truncated_normal(rng, -0.15, 0.3, -2.2, 0.4), 4.0)


def f_star(rng: np.random.Generator) -> Source:
    """An F0 to F9 dwarf or subgiant, early ones rotating."""
    teff = truncated_normal(rng, 6400.0, 350.0, 6000.0, 7350.0)
    v_sin_i = float(rng.exponential(np.interp(teff, [6000.0, 6600.0, 7350.0], [8.0, 30.0, 80.0])))
    feh = truncated_normal(rng, -0.25, 0.35, -2.2, 0.4)
    return _dwarf(rng, "f_star", teff, float(np.clip(rng.normal(4.1, 0.2), 3.4, 4.6)), feh, v_sin_i)
