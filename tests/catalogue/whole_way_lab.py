"""Fifty SIMULATED stars with two epochs each, in the files of four surveys, and catalogues made from the truth.

Nothing of it is an observation: kinds, places, motions and parallaxes were chosen, and the catalogues follow from them.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from astropy.table import Table

from specvet.data.simulate import layouts
from specvet.data.simulate.kinds import make
from specvet.data.simulate.observed import SURVEYS, Observed
from specvet.data.simulate.observing import observe

KINDS = (
    *["cv.quiescence"] * 6, *["cv.magnetic"] * 2, *["cv.nova_like"] * 2,
    *["wd.DA"] * 6, *["wd.DC"] * 4, *["wd.DB"] * 2,
    *["gm.giant"] * 8, *["m_dwarf.quiet"] * 3, *["m_dwarf.active"] * 3,
    *["f_star"] * 6, *["g_star"] * 4, *["k_dwarf"] * 2, *["bl_lac"] * 2,
)  # fmt: skip
"""Of star 0, 1, …; the first six are dwarf novae, faint in the first epoch and in outburst in the second."""

SKY = {  # M_G, BP−RP, parallax (mas)
    "cv": (9.5, 0.5, 5.0), "wd": (12.2, 0.1, 20.0), "gm": (-1.5, 2.6, 0.5), "m_dwarf": (10.5, 2.6, 12.0),
    "f_star": (3.5, 0.6, 1.5), "g_star": (4.8, 0.82, 2.0), "k_dwarf": (7.0, 1.4, 4.0), "bl_lac": (0.0, 0.6, 0.02),
}  # fmt: skip


@dataclass(frozen=True)
class Star:
    """What is true of one."""

    number: int
    kind: str
    source_id: str
    ra: float
    """Degrees at 2016.0, as `dec`."""
    dec: float
    pmra: float
    """mas/yr, with cos δ, as Gaia gives it."""
    pmdec: float
    m_g: float
    bp_rp: float
    parallax: float

    @property
    def g(self) -> float:
        return self.m_g - 5.0 * float(np.log10(self.parallax / 100.0)) if self.parallax > 0.1 else 17.5

    def place(self, year: float) -> tuple[float, float]:
        """(RA, Dec) in degrees."""
        t = (year - 2016.0) / 3.6e6
        return self.ra + self.pmra * t / np.cos(np.radians(self.dec)), self.dec + self.pmdec * t


def stars(seed: int = 10) -> list[Star]:
    """The fifty. White dwarfs move fast, the first of them 3″ a year."""
    rng = np.random.default_rng(seed)
    found: list[Star] = []
    for number, kind in enumerate(KINDS):
        m_g, bp_rp, parallax = SKY[kind.partition(".")[0]]
        speed = 3000.0 if number == KINDS.index("wd.DA") else {"wd": 700.0}.get(kind.partition(".")[0], 10.0)
        angle = rng.uniform(0, 2 * np.pi)
        found.append(
            Star(
                number, kind, str(4_000_000_000_000_000_001 + 7 * number), 120.0 + 2.5 * number,
                float(rng.uniform(5.0, 50.0)), speed * float(np.sin(angle)), speed * float(np.cos(angle)),
                m_g, bp_rp, 0.02 if kind == "bl_lac" else parallax,
            )
        )  # fmt: skip
    return found


def observed(star: Star, seed: int = 10) -> list[Observed]:
    """Its two spectra, by the telescope of one of four surveys, where it stood in each night."""
    survey = SURVEYS[(star.number + 1) % len(SURVEYS)]
    dwarf_nova = star.kind == "cv.quiescence"
    spectra = []
    for epoch in (0, 1):
        bursts = int(dwarf_nova and epoch == 1)
        source = make("cv.outburst" if bursts else star.kind, np.random.default_rng([seed, star.number, bursts]))
        snr = (3.0, 40.0)[bursts] if dwarf_nova else 15.0 + (7 * star.number + epoch) % 25
        rng = np.random.default_rng([seed, star.number, epoch])
        one = observe(source, survey, rng, snr=snr, object_number=star.number, epoch=epoch)
        ra, dec = star.place(2000.0 + (one.mjd - 51_544.5) / 365.25)
        spectra.append(replace(one, ra=round(ra, 6), dec=round(dec, 6)))
    return spectra


def write_spectra(folder: Path, known: Sequence[Star]) -> dict[Path, list[Star]]:
    """File → the stars of its rows."""
    seen = [(star, one) for star in known for one in observed(star)]
    rows: dict[Path, list[Star]] = {}
    for (star, _), path in zip(seen, layouts.write([one for _, one in seen], folder), strict=True):
        rows.setdefault(path, []).append(star)
    return rows


MISSING = (9, 15, 27, 40)
"""Stars that the Gaia-like table does not have."""
TWICE = (3, 20, 30)
"""Stars that it has twice, under one id."""
VARIABLES = (0, 1, 2, 3, 4, 5, 6, 10)
"""Stars that the VSX-like table has: seven cataclysmic variables, and the white dwarf that moves 3″ a year."""


def write_gaia(file: Path, known: Sequence[Star], seed: int = 10) -> Path:
    """CSV in no order, with field stars between; at 2016.0, as Gaia DR3 is."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for star in known:
        row = {
            "source_id": star.source_id, "ra": f"{star.ra:.9f}", "dec": f"{star.dec:.9f}", "ref_epoch": 2016.0,
            "pmra": round(star.pmra, 3), "pmdec": round(star.pmdec, 3), "parallax": star.parallax,
            "parallax_error": 0.03, "ruwe": 1.02, "phot_g_mean_mag": round(star.g, 3), "bp_rp": star.bp_rp,
        }  # fmt: skip
        rows += [row] * ((star.number not in MISSING) + (star.number in TWICE))
        rows.append(
            {**row, "source_id": str(int(star.source_id) + 3), "dec": f"{star.dec + 20 / 3600:.9f}", "pmra": 1.0,
             "pmdec": -2.0, "phot_g_mean_mag": 19.5, "parallax": 0.4, "parallax_error": 0.3}
        )  # fmt: skip
    with open(file, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[i] for i in rng.permutation(len(rows)))
    return file


def write_vsx(file: Path, known: Sequence[Star]) -> Path:
    """VOTable with places of J2000.0 and no motions, as VSX is, the last first; and a variable 6′ from each star."""
    rows = [
        (f"SIM V{star.number:04d}", *star.place(2000.0), "ZZ" if star.kind == "wd.DA" else "UG")
        for star in (known[i] for i in reversed(VARIABLES))
    ]
    rows += [(f"SIM F{star.number:04d}", star.ra, star.dec + 0.1, "EW") for star in known]
    Table(rows=rows, names=("Name", "RAJ2000", "DEJ2000", "Type")).write(file, format="votable", overwrite=True)
    return file
