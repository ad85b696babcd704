"""What a pipeline would say of an object: class, subclass and redshift, with the errors that pipelines make.

Classes of kinds follow what LAMOST's `CLASS`/`SUBCLASS`, SDSS's `idlspec2d` and DESI's redrock call such objects. No
verdict may rest on them: they are here because files have them, and because wrong redshifts move lines out of windows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from specvet.data.simulate.observed import SurveyName
from specvet.data.simulate.source import Source
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S


@dataclass(frozen=True, slots=True)
class Fit:
    """What the pipeline states."""

    spectral_class: str
    subclass: str
    z: float | None
    z_error: float | None
    z_warning: int
    defects: tuple[str, ...]


_STAR = "STAR"
_USUAL = {
    "cv": "CV .55 WD .1 A0 .1 M2 .05 QSO .12 GALAXY .08",
    "cv.outburst": "CV .2 A0 .3 B6 .2 WD .3",
    "cc": "Carbon .85 K5 .08 G5 .07",
    "cc.CH": "Carbon .5 G5 .25 K3 .25",
    "cc.dwarf": "Carbon .8 K7 .2",
    "ss": "M3 .5 M6 .3 K7 .2",
    "gm": "M3 .35 M5 .3 M1 .3 K7 .05",
    "wd": "WD .75 A0 .1 B6 .05 O .02 QSO .05 GALAXY .03",
    "wd.DC": "WD .45 QSO .3 F5 .15 GALAXY .1",
    "wd.DZ": "WD .4 F9 .4 G2 .2",
    "wd.DQ": "WD .3 CarbonWD .4 QSO .3",
    "m_dwarf": "M3 .35 M1 .35 M5 .3",
    "k_giant": "K1 .4 K3 .35 K5 .25",
    "k_dwarf": "K3 .4 K5 .3 K7 .3",
    "g_star": "G3 .4 G5 .3 G8 .3",
    "f_star": "F5 .4 F2 .3 F9 .3",
    "barium": "G8 .5 K1 .5",
    "cemp": "G2 .6 F9 .4",
    "a_star": "A5 .5 A2 .5",
    "bhb": "A0 .6 A2 .4",
    "b_star": "B6 .7 B9 .3",
    "o_star": "O .6 OB .4",
    "sdb": "B6 .5 A0 .2 WD .3",
    "sdo": "O .5 OB .3 WD .2",
    "be_star": "B6 .6 A0 .4",
    "herbig": "A2 .7 A5 .3",
    "t_tauri": "K7 .4 M1 .4 GALAXY .2",
    "symbiotic": "M5 .6 CV .2 GALAXY .2",
    "wd_ms": "M3 .35 WD .35 CV .2 QSO .1",
    "planetary_nebula": "GALAXY/STARBURST .8 O .2",
    "h_ii": "GALAXY/STARBURST .7 B6 .15 A0 .15",
    "nebular_sky": "G5 .4 F5 .3 K3 .3",
    "blend": "K5 .4 G5 .3 M1 .3",
    "cross_talk": "G5 .5 K3 .5",
    "qso": "QSO/BROADLINE .8 GALAXY/AGN .05 WD .05 A0 .05 CV .05",
    "bl_lac": "QSO .45 GALAXY .3 WD .15 F5 .1",
    "galaxy": "GALAXY .93 K3 .04 QSO .03",
    "galaxy.emission": "GALAXY/STARFORMING .8 GALAXY/STARBURST .12 QSO .05 CV .03",
}
"""Kind, or the beginning of its key → what it is called, each with its share: subclasses of stars, `CLASS/SUBCLASS`."""

_MK = re.compile(r"[OBAFGKM]\d")


def _choice(kind: str, rng: np.random.Generator) -> tuple[str, str]:
    words = (_USUAL.get(kind) or _USUAL.get(kind.split(".", maxsplit=1)[0]) or "G5 1").split()
    shares = np.array(words[1::2], dtype=np.float64)
    name, _, subclass = words[2 * int(rng.choice(shares.size, p=shares / shares.sum()))].partition("/")
    return (name, subclass) if name in ("QSO", "GALAXY") else (_STAR, name)


def _called(source: Source, rng: np.random.Generator) -> tuple[str, str]:
    name, subclass = _choice(source.kind, rng)
    known = _MK.match(source.subtype)
    if name == _STAR and known and _MK.fullmatch(subclass) and rng.random() < 0.8:
        digit = int(np.clip(int(known[0][1]) + int(rng.integers(-1, 2)), 0, 9))
        subclass = f"{known[0][0]}{digit}"
    return name, subclass


def true_z(source: Source) -> float:
    """Redshift and velocity together."""
    return (1.0 + source.redshift) * (1.0 + source.velocity_km_s / SPEED_OF_LIGHT_KM_S) - 1.0


def fit(source: Source, survey: SurveyName, snr: float, rng: np.random.Generator) -> Fit:
    """What the pipeline of `survey` says of an object seen at this median S/N a pixel."""
    draws = rng.random(4)
    velocity_error = float(np.hypot(_FLOOR[survey], _SLOPE[survey] / max(snr, 0.5)))
    broad = 4.0 if source.kind.startswith(("wd", "cv", "qso", "sd", "bl_lac")) else 1.0
    error = velocity_error * broad * float(rng.standard_normal())
    stated = max(velocity_error * broad * float(rng.lognormal(-0.35, 0.35)), 0.3) / SPEED_OF_LIGHT_KM_S
    name, subclass = _called(source, rng)
    extragalactic = source.redshift > 0.005

    if survey == "lamost" and draws[0] < _unknown(snr):
        return Fit("Unknown", "", None, None, 0, ("class Unknown",))
    said: tuple[str, ...] = ()
    z = (1.0 + true_z(source)) * (1.0 + error / SPEED_OF_LIGHT_KM_S) - 1.0
    if (name == _STAR) == extragalactic:
        # Another class's template fits best, at whatever redshift its lines meet something.
        z = _wrong_z(name, rng)
        said = (f"wrong class {name}", "wrong redshift")
    elif draws[1] < 0.015 + 0.25 * np.exp(-snr / 2.5):
        name = ("GALAXY", "QSO", _STAR)[int(rng.integers(3))]
        subclass = "" if name != _STAR else subclass
        z, said = _wrong_z(name, rng), ("wrong redshift",)
    warning = 0
    if survey != "lamost":
        # Bit 2 (SMALL_DELTA_CHI2): often with what is wrong, sometimes with what is right and faint.
        doubtful = 0.7 if "wrong redshift" in said else 0.02 + 0.5 * float(np.exp(-snr / 2.0))
        warning = 4 if draws[2] < doubtful else 0
    subclass = _spelt(survey, source, name, subclass, draws[3])
    return Fit(name, subclass, z, stated * (1.0 + z), warning, said)


_FLOOR: dict[SurveyName, float] = {"lamost": 4.0, "sdss": 4.0, "boss": 4.0, "desi": 1.0}
_SLOPE: dict[SurveyName, float] = {"lamost": 150.0, "sdss": 120.0, "boss": 110.0, "desi": 40.0}
"""km/s: velocity errors are the floor and the slope over S/N, added in quadrature (LAMOST: near Luo et al. 2015)."""


def _unknown(snr: float) -> float:
    """How often LAMOST gives up: most spectra at S/N 3, hardly any above 20."""
    return float(0.005 + 0.9 / (1.0 + np.exp((snr - 4.5) / 1.3)))


def _wrong_z(name: str, rng: np.random.Generator) -> float:
    if name == _STAR:
        return float(rng.normal(0.0, 250.0)) / SPEED_OF_LIGHT_KM_S
    return float(rng.uniform(0.02, 0.9)) if name == "GALAXY" else float(rng.uniform(0.2, 3.5))


def _spelt(survey: SurveyName, source: Source, name: str, subclass: str, draw: float) -> str:
    """A subclass as the survey writes it."""
    if name != _STAR:
        return subclass if survey in ("sdss", "boss") else ""
    if survey == "desi":
        return {"CV": "CV", "WD": "WD"}.get(subclass, subclass[:1] if _MK.match(subclass) else "G")
    if survey == "lamost" and subclass.startswith("M"):
        giant = source.kind.startswith(("gm", "ss", "symbiotic"))
        return ("gM" if giant == (draw < 0.9) else "dM") + subclass[1:]
    if survey == "lamost" and subclass.startswith("A"):
        return subclass + ("V", "IV", "III", "I")[min(int(draw * 4), 3)]
    return subclass
