"""Makers of the hot stars that are taken for white dwarfs: A, horizontal-branch, B and O stars, hot subdwarfs.

Those with emission, Be and Herbig stars, stand in `hot_emission`.
"""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.hot_emission import be_star, herbig
from specvet.data.simulate.hot_lines import HE_I, HE_II, N_III, broad, dust, narrow
from specvet.data.simulate.hot_photospheres import a_photosphere, b_photosphere, o_photosphere
from specvet.data.simulate.hydrogen_atmosphere import hydrogen_star
from specvet.data.simulate.physics import chosen, normalised, planck, rotated, truncated_normal, zeros
from specvet.data.simulate.source import FloatArray, Source

__all__ = ["a_star", "b_star", "be_star", "bhb", "herbig", "o_star", "sdb", "sdo"]


def a_star(rng: np.random.Generator) -> Source:
    """A0 to A9: dwarfs, one in seven of them an Am star, giants, and stars that are typed A for want of metals.

    The last, one in five, are turn-off stars of the halo of 6,000 to 7,200 K, which pipelines that type by the strength
    of metals call A, as they do in LAMOST and Indo-US.
    """
    style = chosen(rng, {"dwarf": 0.64, "giant": 0.15, "metal-poor": 0.21})
    am = style == "dwarf" and rng.random() < 0.15
    if style == "metal-poor":
        teff, log_g = truncated_normal(rng, 6_350.0, 300.0, 6_000.0, 7_200.0), truncated_normal(rng, 4.0, 0.2, 3.4, 4.4)
        metals = truncated_normal(rng, -1.6, 0.4, -2.5, -0.8)
        v_sin_i = float(rng.uniform(3.0, 30.0))
    else:
        teff = truncated_normal(rng, 7_950.0, 800.0, 7_100.0, 10_200.0)
        giant = style == "giant"
        log_g = truncated_normal(rng, 3.0, 0.35, 2.5, 3.6) if giant else truncated_normal(rng, 4.0, 0.2, 3.5, 4.3)
        metals = truncated_normal(rng, -0.1, 0.25, -1.0, 0.5) + (0.4 if am else 0.0)
        v_sin_i = float(rng.uniform(5.0, 70.0) if am else truncated_normal(rng, 120.0, 70.0, 5.0, 250.0))
    ebv = dust(rng, 0.15)
    flux = a_photosphere(teff, log_g, metals, v_sin_i, calcium=0.4 if am else 1.0)
    number = float(rng.uniform(2.6, 7.4) if style == "metal-poor" else np.interp(teff, _A_TEFFS, _A_TYPES))
    subtype = f"A{round(number)}{'m' if am else 'V' if log_g > 3.7 else 'III'}"
    parameters = {"teff_k": teff, "log_g": log_g, "fe_h": metals, "v_sin_i_km_s": v_sin_i}
    velocity = float(rng.normal(0.0, 120.0) if style == "metal-poor" else rng.normal(-5.0, 25.0))
    return Source(normalised(flux), "a_star", subtype, parameters, velocity, ebv=ebv)


_A_TEFFS = (7_300.0, 7_550.0, 7_900.0, 8_150.0, 8_550.0, 8_900.0, 9_300.0, 10_000.0)
_A_TYPES = (9.0, 8.0, 7.0, 5.0, 4.0, 2.0, 1.0, 0.0)


def bhb(rng: np.random.Generator) -> Source:
    """Low gravity and few metals: narrow Balmer lines that can be followed to H16, a big jump, speeds of the halo."""
    teff = truncated_normal(rng, 9_000.0, 1_000.0, 7_500.0, 12_000.0)
    log_g = float(np.clip(rng.normal(np.interp(teff, (7_500.0, 12_000.0), (2.9, 3.4)), 0.1), 2.8, 3.5))
    metals = truncated_normal(rng, -1.7, 0.4, -2.6, -0.8)
    v_sin_i, ebv = float(rng.uniform(3.0, 35.0)), dust(rng, 0.05)
    flux = a_photosphere(teff, log_g, metals, v_sin_i)
    parameters = {"teff_k": teff, "log_g": log_g, "fe_h": metals, "v_sin_i_km_s": v_sin_i}
    return Source(normalised(flux), "bhb", "BHB", parameters, float(rng.normal(-20.0, 115.0)), ebv=ebv)


def b_star(rng: np.random.Generator) -> Source:
    """B0 to B9: He I, strongest at B2, beside hydrogen; Mg II and Si II in the late ones."""
    teff = float(np.exp(truncated_normal(rng, np.log(13_500.0), 0.27, np.log(10_300.0), np.log(29_000.0))))
    log_g = truncated_normal(rng, 3.95, 0.25, 3.0, 4.35)
    v_sin_i, ebv = truncated_normal(rng, 130.0, 90.0, 5.0, 350.0), dust(rng, 0.25)
    flux, subtype = b_photosphere(teff, log_g, v_sin_i, rng)
    parameters = {"teff_k": teff, "log_g": log_g, "v_sin_i_km_s": v_sin_i}
    return Source(normalised(flux), "b_star", subtype, parameters, float(rng.normal(0.0, 20.0)), ebv=ebv)


def o_star(rng: np.random.Generator) -> Source:
    """O4 to O9.5: He II grows and He I fades with temperature; one in four has N III and He II emission (Of)."""
    teff = float(rng.uniform(30_500.0, 44_000.0))
    log_g = truncated_normal(rng, 3.8, 0.2, 3.2, 4.2)
    v_sin_i, ebv = truncated_normal(rng, 130.0, 80.0, 40.0, 350.0), dust(rng, 0.5)
    flux, subtype = o_photosphere(teff, log_g, v_sin_i, rng)
    parameters = {"teff_k": teff, "log_g": log_g, "v_sin_i_km_s": v_sin_i}
    return Source(normalised(flux), "o_star", subtype, parameters, float(rng.normal(-10.0, 25.0)), ebv=ebv)


def sdb(rng: np.random.Generator) -> Source:
    """Hydrogen to about H12 at log g 5 to 6, He I weak or absent; in the hot ones a trace of He II 4686 (sdOB)."""
    teff = truncated_normal(rng, 29_000.0, 4_500.0, 21_000.0, 39_000.0)
    log_g = truncated_normal(rng, 5.55, 0.22, 4.9, 6.1)
    helium = truncated_normal(rng, -2.3, 0.6, -3.8, -0.9)
    ew = (
        1.3
        * float(10.0 ** (0.45 * (helium + 1.0)))
        * float(np.interp(teff, (21_000.0, 28_000.0, 39_000.0), (0.9, 1.0, 0.4)))
    )
    depth = zeros()
    broad(depth, HE_I, ew, 1.6, reach=20.0)
    hot = float(np.clip((teff - 31_000.0) / 6_000.0, 0.0, 1.0)) * float(10.0 ** (0.4 * (helium + 1.5)))
    broad(depth, HE_II[:1], 0.9 * hot, 1.8, reach=20.0)
    flux = hydrogen_star(teff, log_g) * np.exp(-depth)
    subtype = "sdOB" if hot > 0.3 else "sdB"
    parameters = {"teff_k": teff, "log_g": log_g, "log_he_h": helium, "hei4471_ew_a": ew}
    return _subdwarf(rng, "sdb", subtype, flux, parameters)


def sdo(rng: np.random.Generator) -> Source:
    """He II 4686 and the Pickering series; sdO with hydrogen, He-sdO with He I and nitrogen in its place."""
    sort = chosen(rng, {"sdO": 0.6, "He-sdO": 0.4})
    teff = truncated_normal(rng, 47_000.0, 8_000.0, 37_000.0, 75_000.0)
    log_g = truncated_normal(rng, 5.65, 0.3, 5.0, 6.3)
    depth, parameters = zeros(), {"teff_k": teff, "log_g": log_g}
    if sort == "sdO":
        flux, ew = hydrogen_star(teff, log_g), float(rng.uniform(0.6, 2.4))
        neutral = ew * 0.6 * float(np.interp(teff, (38_000.0, 52_000.0), (1.0, 0.0)))
        broad(depth, HE_II[:4], ew, 2.2, reach=20.0)
    else:
        flux, ew = planck(teff).copy(), float(rng.uniform(1.8, 4.2))
        neutral = ew * float(np.interp(teff, (38_000.0, 60_000.0), (1.1, 0.1)))
        broad(depth, HE_II, ew, 3.0, reach=20.0)
        narrow(depth, N_III, float(rng.uniform(0.0, 0.4)))
    broad(depth, HE_I, neutral, 2.0, reach=20.0)
    parameters |= {"heii4686_ew_a": ew, "hei4471_ew_a": neutral}
    return _subdwarf(rng, "sdo", sort, rotated(flux * np.exp(-depth), 30.0), parameters)


def _subdwarf(
    rng: np.random.Generator, kind: str, subtype: str, flux: FloatArray, parameters: dict[str, float]
) -> Source:
    """With the speed of the thick disc, and more where a companion pulls."""
    velocity = float(rng.normal(-5.0, 60.0) + (rng.normal(0.0, 70.0) if rng.random() < 0.4 else 0.0))
    return Source(normalised(flux), kind, subtype, parameters, velocity, ebv=dust(rng, 0.05))
