"""Makers of white dwarfs with hydrogen or helium: DA, DB, DO. The others stand in `white_dwarfs_cool`, `_magnetic`."""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.hot_lines import CA_II_HK, HE_I, HE_II, Lines, broad, dust, narrow, place
from specvet.data.simulate.hydrogen_atmosphere import hydrogen_star
from specvet.data.simulate.physics import (
    add_gaussian,
    add_lorentzian,
    chosen,
    normalised,
    planck,
    truncated_normal,
    vacuum,
    zeros,
)
from specvet.data.simulate.source import FloatArray, Source
from specvet.data.simulate.white_dwarfs_cool import dc, dq, dz
from specvet.data.simulate.white_dwarfs_magnetic import dah

__all__ = ["da", "dah", "db", "dc", "do", "dq", "dz"]

BALMER: Lines = ((6562.8, 1.0), (4861.35, 0.7), (4340.47, 0.45), (4101.74, 0.25))

DENSE_HE_I = (
    (3705.0, 0.25, 6.0), (3819.6, 0.55, 7.0), (3867.5, 0.1, 4.0), (3888.6, 0.75, 1.6), (3964.7, 0.4, 1.8),
    (4026.2, 0.75, 11.0),
    (4120.8, 0.25, 4.0), (4143.8, 0.3, 9.0), (4387.9, 0.5, 13.0), (4471.5, 1.0, 13.0), (4517.4, 0.12, 6.0),
    (4713.1, 0.38, 4.5),
    (4921.9, 0.65, 13.0), (5015.7, 0.32, 4.5), (5047.7, 0.13, 4.5), (5875.6, 0.85, 7.0), (6678.2, 0.45, 9.0),
    (7065.2, 0.38, 5.0),
    (7281.3, 0.15, 6.0),
)  # fmt: skip
"""He I at the density of a white dwarf: air wavelength, optical depth over that of 4471, half-width in Å. 3889 and 3965
stay sharp; 4517 is forbidden where the gas is thin. Set by eye on the DB models among redrock's templates."""


def da(rng: np.random.Generator) -> Source:
    """Hydrogen alone, one in six near the ends in Teff; with Ca II in a few (DAZ), He II in some hot ones (DAO)."""
    teff = float(np.exp(truncated_normal(rng, np.log(14_000.0), 0.45, np.log(5_500.0), np.log(80_000.0))))
    tail = chosen(rng, {"none": 0.84, "cool": 0.08, "hot": 0.08})
    if tail != "none":
        teff = float(np.exp(rng.uniform(*np.log((5_600.0, 7_300.0) if tail == "cool" else (38_000.0, 80_000.0)))))
    log_g = truncated_normal(rng, 8.0, 0.22, 7.3, 8.8)
    flux = hydrogen_star(teff, log_g)
    parameters = {"teff_k": teff, "log_g": log_g}
    letters = "DA"
    depth = zeros()
    if teff < 16_000.0 and rng.random() < 0.04:
        letters, ew = "DAZ", float(rng.uniform(0.2, 2.0))
        parameters["ca_k_ew_a"] = ew
        narrow(depth, CA_II_HK, ew, 90.0)
    elif teff > 40_000.0 and rng.random() < 0.25:
        letters, ew = "DAO", float(rng.uniform(0.5, 3.0))
        parameters["heii4686_ew_a"] = ew
        broad(depth, HE_II[:1], ew, 6.0)
    return _source(rng, "wd.DA", f"{letters}{_digit(teff)}", flux * np.exp(-depth), parameters)


def db(rng: np.random.Generator) -> Source:
    """Helium lines on a continuum without jumps; DBA with some hydrogen, and DAB, hydrogen with some helium."""
    letters = chosen(rng, {"DB": 0.7, "DBA": 0.25, "DAB": 0.05})
    teff = truncated_normal(rng, 16_000.0, 4_500.0, 12_000.0, 35_000.0)
    log_g = truncated_normal(rng, 8.0, 0.15, 7.5, 8.6)
    parameters = {"teff_k": teff, "log_g": log_g}
    depth = zeros()
    strength = helium_depth(teff)
    if letters == "DAB":
        teff = parameters["teff_k"] = float(rng.uniform(16_000.0, 35_000.0))
        flux, strength = hydrogen_star(teff, log_g), float(rng.uniform(0.08, 0.25))
    else:
        flux = planck(teff).copy()
    if letters == "DBA":
        parameters["ha_ew_a"] = float(rng.uniform(1.5, 10.0))
        broad(depth, BALMER, parameters["ha_ew_a"], 9.0)
    parameters["hei4471_depth"] = strength
    width = 10.0 ** (0.3 * (log_g - 8.0)) * float(
        np.interp(teff, (12_000.0, 14_000.0, 17_000.0, 24_000.0), (0.35, 0.5, 0.9, 1.2))
    )
    red = float(np.interp(teff, (12_000.0, 20_000.0), (1.7, 1.0)))
    for air, relative, half in DENSE_HE_I:
        peak = strength * relative * (red if air > 5500.0 else 1.0)
        add_lorentzian(depth, place(air), peak, half * width, 2.2)
    return _source(rng, "wd.DB", f"{letters}{_digit(teff)}", flux * np.exp(-depth), parameters)


def helium_depth(teff: float) -> float:
    """Optical depth of He I 4471 in a DB of log g 8; strongest near 25,000 K (Bergeron et al. 2011, ApJ 737, 28)."""
    return float(
        np.interp(
            teff, (11_000.0, 12_500.0, 14_000.0, 17_000.0, 24_000.0, 35_000.0), (0.02, 0.08, 0.3, 0.42, 0.52, 0.3)
        )
    )


def do(rng: np.random.Generator) -> Source:
    """He II, with He I in the cooler ones; one in five a PG 1159 star with the trough of He II 4686 and C IV 4659."""
    pg1159 = rng.random() < 0.2
    teff = float(
        rng.uniform(75_000.0, 150_000.0) if pg1159 else np.exp(rng.uniform(np.log(45_000.0), np.log(110_000.0)))
    )
    log_g = truncated_normal(rng, 7.8, 0.25, 7.2, 8.4)
    flux, depth = planck(teff).copy(), zeros()
    ew = float(rng.uniform(3.0, 9.0) if pg1159 else rng.uniform(4.0, 14.0))
    width = float(rng.uniform(8.0, 14.0))
    broad(depth, HE_II, ew, width, reach=15.0)
    parameters = {"teff_k": teff, "log_g": log_g, "heii4686_ew_a": ew}
    if pg1159:
        trough = ew * float(rng.uniform(0.5, 1.2))
        broad(
            depth,
            ((4658.6, 1.0), (4647.0, 0.5), (4441.5, 0.25), (5804.9, 0.35), (5470.8, 0.15)),
            trough,
            7.0,
            reach=12.0,
        )
        add_gaussian(depth, vacuum(4659.5), -float(rng.uniform(0.0, 0.12)), 350.0)
        add_gaussian(depth, vacuum(5806.0), -float(rng.uniform(0.0, 0.15)), 400.0)
        parameters["civ4659_ew_a"] = trough
    elif teff < 75_000.0:
        neutral = ew * float(np.interp(teff, (45_000.0, 75_000.0), (0.6, 0.05)))
        broad(depth, HE_I, neutral, 6.0, reach=15.0)
        parameters["hei4471_ew_a"] = neutral
    name = "PG1159" if pg1159 else f"DO{_digit(teff)}"
    return _source(rng, "wd.DO", name, flux * np.exp(-depth), parameters)


def _digit(teff: float) -> str:
    """Sion's temperature index, 50,400 K over Teff, in halves; Sion et al. 1983."""
    return f"{min(round(2.0 * 50_400.0 / teff) / 2.0, 9.5):g}"


def _source(
    rng: np.random.Generator, kind: str, subtype: str, flux: FloatArray, parameters: dict[str, float]
) -> Source:
    """With the motion of the disc, the gravitational redshift of 30 km/s, and the little dust of 300 pc."""
    velocity = float(rng.normal(28.0, 42.0))
    return Source(normalised(flux), kind, subtype, parameters, velocity, ebv=dust(rng, 0.02))
