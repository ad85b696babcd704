"""M giants, Miras, and the S family: oxides of titanium, vanadium, zirconium and lanthanum on giants' atmospheres."""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.atmospheres import Photosphere, spectrum
from specvet.data.simulate.physics import chosen, normalised, truncated_normal
from specvet.data.simulate.populations import dust, giant_velocity
from specvet.data.simulate.source import Source

_TYPES = (0.0, 2.0, 3.0, 5.0, 6.0, 7.0, 8.0, 10.0)
TEFF = (3890.0, 3740.0, 3640.0, 3420.0, 3250.0, 3080.0, 2880.0, 2500.0)
"""K for M0, M2, M3, M5, M6, M7, M8, M10 III: Fluks et al. 1994, A&AS 105, 311, and Dyck et al. 1998, AJ 116, 981."""
_COLOUR = (3560.0, 3380.0, 3260.0, 2930.0, 2660.0, 2420.0, 2150.0, 1900.0)
_COLUMNS = {
    "TiO": (15.83, 15.98, 16.18, 16.57, 16.84, 17.14, 17.30, 17.45),
    "VO": (13.5, 14.0, 14.3, 14.8, 15.4, 16.2, 16.5, 17.0),
    "CaH": (13.3, 13.2, 13.2, 13.3, 13.4, 13.5, 13.6, 13.8),
    "MgH": (14.9, 14.6, 14.2, 13.4, 13.0, 13.0, 13.0, 13.0),
    "CH": (16.5, 16.45, 16.4, 16.2, 16.0, 15.7, 15.4, 15.0),
    "CN": (17.2, 17.2, 17.1, 16.8, 16.4, 16.0, 15.5, 15.0),
    "ZrO": (15.05, 15.15, 15.25, 15.35, 15.4, 15.3, 15.2, 15.0),
}
"""Colour temperature (K) and log of columns (cm⁻²) by type, fitted to the Indo-US and Pickles stars of these types."""
_SURFACE = 0.72
_SODIUM = -0.35
"""Floor of TiO 7053 and strength of Na D in late giants of Pickles and MILES."""
_CALCIUM = 0.12
"""Ions of calcium over equilibrium: the infrared triplet of M giants asks for it."""
_LUMINOSITY = {"III": 0.82, "II": 0.12, "Ib": 0.04, "Iab": 0.02}
_GRAVITY = {"III": 0.0, "II": -0.5, "Ib": -0.9, "Iab": -1.1}


def columns(subtype: float, feh: float = 0.0) -> dict[str, float]:
    """log of the columns (cm⁻²) of an M giant's molecules, by M subtype."""
    shift = {"TiO": 0.6, "VO": 0.6, "CN": 1.0, "ZrO": 1.0, "CaH": 0.6, "MgH": 0.6, "CH": 0.8}
    return {name: float(np.interp(subtype, _TYPES, row)) + shift[name] * (feh + 0.15) for name, row in _COLUMNS.items()}


def gravity(teff_k: float) -> float:
    """log g of an M giant on the giant branch."""
    return 1.5 + (teff_k - 3900.0) * 1.5e-3


def _draw(rng: np.random.Generator, low: float, high: float, slope: float) -> float:
    """A subtype between `low` and `high`, the share falling by e every `slope` subtypes."""
    u = rng.random()
    return float(low - slope * np.log1p(-u * (1.0 - np.exp(-(high - low) / slope))))


def _atmosphere(rng: np.random.Generator, subtype: float, luminosity: str, feh: float) -> Photosphere:
    teff = float(np.interp(subtype, _TYPES, TEFF)) + rng.normal(0.0, 40.0)
    parts = columns(subtype, feh)
    for name in parts:
        parts[name] += rng.normal(0.0, 0.12)
    colour = float(np.interp(subtype, _TYPES, _COLOUR)) * rng.normal(1.0, 0.02)
    log_g = gravity(teff) + _GRAVITY[luminosity] + rng.normal(0.0, 0.15)
    return Photosphere(teff, log_g, feh, {"Na": _SODIUM, "Ca II": _CALCIUM}, parts, surface=_SURFACE, colour_k=colour)


def _parameters(star: Photosphere, subtype: float, **more: float) -> dict[str, float]:
    return {
        "teff_k": star.teff_k,
        "log_g": star.log_g,
        "fe_h": star.feh,
        "m_subtype": subtype,
        **{f"log_n_{name.lower().replace('/', '_')}": value for name, value in star.columns.items()},
        **more,
    }


def _metals(rng: np.random.Generator) -> float:
    return truncated_normal(rng, -0.25, 0.3, -1.5, 0.4)


def m_giant(rng: np.random.Generator) -> Source:
    """An M0 to M10 giant, bright giant or supergiant."""
    luminosity = chosen(rng, _LUMINOSITY)
    subtype = _draw(rng, 0.0, 10.0, 5.0)
    star = _atmosphere(rng, subtype, luminosity, _metals(rng))
    return Source(
        normalised(spectrum(star)),
        "gm.giant",
        f"M{subtype:.1f}{luminosity}",
        _parameters(star, subtype),
        velocity_km_s=giant_velocity(rng, star.feh),
        ebv=dust(rng, 0.25),
    )


_DECREMENT = ((6562.80, 0.2), (4861.35, 0.3), (4340.47, 0.7), (4101.73, 1.0), (3970.08, 0.15), (3889.06, 0.4))
"""Balmer lines of a Mira near maximum, relative to Hδ: shocks emit below layers of TiO, which weakens Hα and Hβ, and
Ca II H hides Hε; Castelaz & Luttermoser 1997, AJ 114, 1584."""


def mira(rng: np.random.Generator) -> Source:
    """A Mira of type M with Balmer emission, Hδ the strongest."""
    subtype = float(rng.uniform(4.0, 9.5))
    star = _atmosphere(rng, subtype, "III", _metals(rng))
    width = float(np.exp(rng.normal(np.log(13.0), 0.6)))
    fwhm = float(rng.uniform(50.0, 110.0))
    star = Photosphere(
        star.teff_k,
        star.log_g,
        star.feh,
        star.abundances,
        star.columns,
        surface=_SURFACE,
        colour_k=star.colour_k,
        balmer=0.0,
        emission=tuple((line, share * width, fwhm) for line, share in _DECREMENT),
    )
    return Source(
        normalised(spectrum(star)),
        "gm.mira",
        f"M{subtype:.1f}IIIe",
        _parameters(star, subtype, hd_emission_a=width, fwhm_km_s=fwhm),
        velocity_km_s=giant_velocity(rng, star.feh),
        ebv=dust(rng, 0.25),
    )


_S_PROCESS = ("Sr", "Y", "Zr", "Ba", "La", "Ce", "Nd")


def _s_family(
    rng: np.random.Generator,
    kind: str,
    subtype: float,
    changes: dict[str, float],
    extra: dict[str, float],
    enrichment: float,
) -> Source:
    """An M giant whose columns are changed (dex), with others set, and its s-process elements enriched (dex)."""
    feh = _metals(rng)
    star = _atmosphere(rng, subtype, "III", feh)
    parts = {name: value + changes.get(name, 0.0) for name, value in star.columns.items()}
    parts.update({name: value + rng.normal(0.0, 0.1) for name, value in extra.items()})
    abundances = {name: enrichment + rng.normal(0.0, 0.15) for name in _S_PROCESS}
    # Ca I 4227 is weaker in S stars than in M giants, the infrared triplet is not.
    abundances |= {"Na": _SODIUM + changes.get("Na", 0.0), "Ca": -0.35, "Ca II": 0.35 + _CALCIUM}
    emission: tuple[tuple[float, float, float], ...] = ()
    width = 0.0
    if subtype > 4.0 and rng.random() < 0.25:
        width = float(np.exp(rng.normal(np.log(6.0), 0.6)))
        emission = tuple((line, share * width, 80.0) for line, share in _DECREMENT)
    star = Photosphere(
        star.teff_k,
        star.log_g,
        feh,
        abundances,
        parts,
        surface=_SURFACE,
        colour_k=star.colour_k,
        balmer=0.0 if width else 1.0,
        emission=emission,
    )
    more = {"s_process_dex": enrichment} | ({"hd_emission_a": width} if width else {})
    name = {"ss.S": "S", "ss.MS": "MS", "ss.SC": "SC"}[kind]
    return Source(
        normalised(spectrum(star)),
        kind,
        f"{name}{subtype:.1f}",
        _parameters(star, subtype, **more),
        velocity_km_s=giant_velocity(rng, feh),
        ebv=dust(rng, 0.25),
    )


def s_star(rng: np.random.Generator) -> Source:
    """A pure S star or one with both oxides: ZrO plain, TiO from that of an M star to none, LaO in cool ones."""
    subtype = float(rng.uniform(1.0, 8.0))
    pure = float(rng.beta(1.0, 1.8))
    zro = 15.84 + 0.04 * subtype + 0.35 * pure + rng.normal(0.0, 0.08)
    changes = {"TiO": -0.1 - 1.7 * pure, "VO": -0.5 - 1.5 * pure, "Na": -0.4 + 0.1 * pure}
    extra = {"ZrO": zro, "YO": zro - 0.9, "LaO": zro - 1.9 + 0.1 * subtype}
    return _s_family(rng, "ss.S", subtype, changes, extra, float(rng.uniform(0.7, 1.5)))


def ms_star(rng: np.random.Generator) -> Source:
    """An MS star: TiO of an M giant, and ZrO that shows at 6474."""
    subtype = float(rng.uniform(1.0, 7.0))
    zro = 15.68 + 0.05 * subtype + rng.normal(0.0, 0.1)
    changes = {"TiO": -0.15 * rng.random(), "VO": -0.4, "Na": -0.3}
    extra = {"ZrO": zro, "YO": zro - 1.0, "LaO": zro - 2.4 + 0.1 * subtype}
    return _s_family(rng, "ss.MS", subtype, changes, extra, float(rng.uniform(0.4, 1.0)))


def sc_star(rng: np.random.Generator) -> Source:
    """An SC star: as much carbon as oxygen, so that oxides and C2 are weak, CN and Na D strong, and lines stand out."""
    subtype = float(rng.uniform(3.0, 7.0))
    zro = 16.0 + rng.normal(0.0, 0.15)
    changes = {"TiO": -2.0, "VO": -2.5, "Na": 1.2, "CN": 0.9}
    extra = {"ZrO": zro, "YO": zro - 1.0, "LaO": zro - 1.8, "C2": 15.3 + rng.normal(0.0, 0.2)}
    return _s_family(rng, "ss.SC", subtype, changes, extra, float(rng.uniform(1.0, 1.7)))
