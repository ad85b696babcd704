"""Carbon stars of the kinds N, R, J, CH and dwarf, and the carbon-enhanced stars that are none: barium stars, CEMP."""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.atmospheres import Photosphere, spectrum
from specvet.data.simulate.dwarfs import fgk_columns
from specvet.data.simulate.physics import normalised, truncated_normal
from specvet.data.simulate.populations import dust, dwarf_velocity, giant_velocity
from specvet.data.simulate.source import Source

_S_PROCESS = ("Sr", "Y", "Zr", "Ba", "La", "Ce", "Nd")


def _enriched(rng: np.random.Generator, dex: float) -> dict[str, float]:
    return {name: dex + rng.normal(0.0, 0.15) for name in _S_PROCESS}


def _with_13c(columns: dict[str, float], ratio: float) -> dict[str, float]:
    """Columns with 13C: of each molecule a share of one (CN) or two (C2) over the isotopic ratio 12C/13C holds one."""
    return columns | {
        "C2/13": columns["C2"] + np.log10(2.0 / ratio),
        "CN/13": columns["CN"] + np.log10(1.0 / ratio),
    }


def _source(
    rng: np.random.Generator, kind: str, subtype: str, star: Photosphere, ebv: float, velocity: float, **more: float
) -> Source:
    parameters = {"teff_k": star.teff_k, "log_g": star.log_g, "fe_h": star.feh}
    parameters |= {f"log_n_{name.lower().replace('/', '_')}": float(value) for name, value in star.columns.items()}
    return Source(normalised(spectrum(star)), kind, subtype, parameters | more, velocity, ebv=dust(rng, ebv))


def _carbon_star(
    teff: float,
    log_g: float,
    feh: float,
    columns: dict[str, float],
    abundances: dict[str, float],
    colour: float,
    excitation: float = 0.92,
) -> Photosphere:
    """A star whose C2 and CN reach far up: bands saturate at the light of a warm layer, and hot bands show."""
    return Photosphere(
        teff, log_g, feh, abundances, columns, excitation * teff, surface=0.78, balmer=0.4, colour_k=colour * teff
    )


def n_type(rng: np.random.Generator) -> Source:
    """A C-N star: cool, strong C2 and CN, little blue light (C3, SiC2), Na D and s-process lines strong."""
    index = float(rng.uniform(3.0, 8.0))
    teff = 3500.0 - 130.0 * (index - 3.0) + rng.normal(0.0, 60.0)
    feh = truncated_normal(rng, -0.2, 0.25, -1.0, 0.3)
    parts = {
        "C2": 17.35 + rng.normal(0.0, 0.3),
        "CN": 18.2 + 0.04 * index + rng.normal(0.0, 0.2),
        "CH": 16.5,
        "C3": 0.35 + 0.1 * index + rng.normal(0.0, 0.3),
        "SiC2": rng.normal(-0.2, 0.4),
    }
    parts = _with_13c(parts, float(rng.uniform(25.0, 90.0)))
    abundances = _enriched(rng, rng.uniform(0.3, 1.2)) | {"Na": float(rng.uniform(-0.9, -0.5))}
    star = _carbon_star(teff, 0.3, feh, parts, abundances, rng.normal(0.80, 0.04), 1.3)
    return _source(rng, "cc.N", f"C-N{index:.0f}", star, 0.3, giant_velocity(rng, feh))


def r_type(rng: np.random.Generator) -> Source:
    """A C-R star: a warm giant with C2 and CN, without s-process enhancement."""
    index = float(rng.uniform(0.0, 6.0))
    teff = 5000.0 - 190.0 * index + rng.normal(0.0, 80.0)
    feh = truncated_normal(rng, -0.3, 0.3, -1.2, 0.2)
    parts = {
        "C2": 16.95 + 0.12 * index - float(rng.exponential(0.2)),
        "CN": 17.75 + 0.06 * index + rng.normal(0.0, 0.15),
        "CH": 16.6 + rng.normal(0.0, 0.2),
        "C3": -0.7 + 0.2 * index,
    }
    parts = _with_13c(parts, float(rng.uniform(7.0, 30.0)))
    sodium = {"Na": float(rng.uniform(0.5, 1.3))}
    star = _carbon_star(teff, 2.2 - 0.2 * index, feh, parts, sodium, rng.normal(0.9, 0.02))
    return _source(rng, "cc.R", f"C-R{index:.0f}", star, 0.2, giant_velocity(rng, feh))


def j_type(rng: np.random.Generator) -> Source:
    """A C-J star: 12C/13C of 3 to 9, so that 4744 stands beside 4737, and 6168 beside 6191; Li often strong."""
    index = float(rng.uniform(2.0, 7.0))
    teff = 4200.0 - 200.0 * (index - 2.0) + rng.normal(0.0, 80.0)
    feh = truncated_normal(rng, -0.2, 0.25, -1.0, 0.3)
    ratio = float(rng.uniform(3.0, 9.0))
    parts = {
        "C2": 17.3 + rng.normal(0.0, 0.25),
        "CN": 18.1 + rng.normal(0.0, 0.2),
        "CH": 16.5,
        "C3": rng.normal(0.3, 0.3),
        "SiC2": rng.normal(0.0, 0.3),
    }
    parts = _with_13c(parts, ratio)
    lithium = {"Li": float(rng.uniform(0.0, 3.0))}
    star = _carbon_star(teff, 0.8, feh, parts, lithium, rng.normal(0.85, 0.03))
    return _source(rng, "cc.J", f"C-J{index:.0f}", star, 0.25, giant_velocity(rng, feh), c12_c13=ratio)


def ch_type(rng: np.random.Generator) -> Source:
    """A C-H giant: few metals, a CH band that drowns Ca I 4227, C2 plain, Ba and Sr strong, fast motion."""
    teff = float(rng.uniform(4100.0, 5100.0))
    feh = truncated_normal(rng, -1.1, 0.4, -2.2, -0.4)
    carbon = float(rng.uniform(0.9, 1.8))
    parts = {
        "C2": 17.35 + (4600.0 - teff) / 2000.0 - float(rng.exponential(0.35)),
        "CN": 17.45 + 0.3 * (feh + 1.1) + rng.normal(0.0, 0.25),
        "CH": 16.95 + rng.normal(0.0, 0.25),
        "C3": -0.9 + rng.normal(0.0, 0.2),
    }
    parts = _with_13c(parts, float(rng.uniform(6.0, 40.0)))
    abundances = _enriched(rng, rng.uniform(1.0, 2.0)) | {"Na": float(rng.uniform(1.3, 2.1))}
    star = _carbon_star(teff, 1.8, feh, parts, abundances, rng.normal(0.92, 0.02))
    return _source(rng, "cc.CH", f"C-H{(5100.0 - teff) / 250.0:.0f}", star, 0.12, giant_velocity(rng, feh), c_fe=carbon)


def dwarf(rng: np.random.Generator) -> Source:
    """A dwarf carbon star: C2 and CN on a K or M dwarf, with strong Na D, MgH and CaH."""
    teff = float(rng.uniform(3500.0, 4900.0))
    feh = truncated_normal(rng, -0.8, 0.4, -2.0, 0.0)
    parts = {
        "C2": 17.0 + rng.normal(0.0, 0.25),
        "CN": 17.5 + rng.normal(0.0, 0.25),
        "CH": 16.75 + rng.normal(0.0, 0.3),
        "CaH": 14.0 + (4000.0 - teff) / 1200.0,
        "MgH": 14.5,
        "C3": -0.5 + rng.normal(0.0, 0.2),
    }
    parts = _with_13c(parts, float(rng.uniform(20.0, 90.0)))
    star = _carbon_star(teff, 4.8, feh, parts, _enriched(rng, rng.uniform(0.5, 1.5)), rng.normal(0.9, 0.02))
    return _source(rng, "cc.dwarf", "dC", star, 0.03, dwarf_velocity(rng, min(feh, -0.7)))


def barium(rng: np.random.Generator) -> Source:
    """A barium star: a G8 to K4 giant with Ba II 4554 and 6497 and Sr II 4078 strong, CH strong, C2 at most a hint."""
    teff = float(rng.uniform(4300.0, 5200.0))
    feh = truncated_normal(rng, -0.25, 0.25, -1.0, 0.2)
    carbon = float(rng.uniform(0.1, 0.45))
    parts = fgk_columns(teff, 2.2, feh, carbon)
    parts.pop("TiO", None)
    parts["C2"] = 14.9 + rng.normal(0.0, 0.2)
    abundances = _enriched(rng, rng.uniform(0.7, 1.6)) | {"Na": 0.5}
    star = Photosphere(teff, 2.2, feh, abundances, parts)
    return _source(rng, "barium", "Ba", star, 0.12, giant_velocity(rng, feh), c_fe=carbon)


def cemp(rng: np.random.Generator) -> Source:
    """A CH subgiant or carbon-enhanced metal-poor star: the G band stands out, no C2 head shows."""
    poor = bool(rng.random() < 0.5)
    teff = float(rng.uniform(4700.0, 6200.0))
    feh = truncated_normal(rng, -2.3, 0.3, -3.0, -1.8) if poor else truncated_normal(rng, -0.5, 0.25, -1.1, 0.0)
    log_g = float(rng.uniform(1.8, 4.2) if poor else rng.uniform(3.2, 4.2))
    parts = fgk_columns(teff, log_g, feh, 0.0)
    parts.pop("TiO", None)
    parts["CH"] = 16.42 + (5500.0 - teff) / 4000.0 + rng.normal(0.0, 0.15)
    parts["CN"] = 15.9 + rng.normal(0.0, 0.3)
    parts["C2"] = 14.4 + rng.normal(0.0, 0.2)
    star = Photosphere(teff, log_g, feh, _enriched(rng, rng.uniform(0.5, 1.8)), parts)
    velocity = giant_velocity(rng, feh) if poor else dwarf_velocity(rng, feh)
    return _source(rng, "cemp", "CEMP" if poor else "sgCH", star, 0.08, velocity)
