"""Write the example spectra: simulated stars in the file layouts of LAMOST, SDSS and DESI, and as text.

    python examples/simulate.py [--out FOLDER]

Each star of `simulated_stars.py` is given a velocity, seen through the air, blurred to the resolution of its
spectrograph, put on its pixels and buried in its noise, then written the way its survey writes (`survey_files.py`).
Seeds are fixed: a second run gives the same bytes. Every file says that it is SIMULATED, in its name and in its
header (SIMULATE = T). Needs numpy and astropy.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

import simulated_stars as stars
from survey_files import NOTE, Target, desi, lamost, sdss, two_columns

TASKS = ("cv", "cc", "ss", "gm", "wd")


def written(folder: Path) -> list[Target]:
    """Write all spectra into `folder`; returns what they are."""
    sample: list[Target] = []

    def target(*values: Any, **more: Any) -> Target:
        sample.append(Target(*values, **more))
        return sample[-1]

    t = target("spec-56200-SIMULATED01_sp01-001.fits", 0, "56200-SIMULATED01_sp01-001", 112.3131, 28.1201, "F5 V star")
    lamost(folder, t, stars.f_star(), velocity=21.0, snr=35, seed=1, release=1, CLASS="STAR", SUBCLASS="F5")

    t = target("spec-57300-SIMULATED02_sp05-042.fits.gz", 0, "990000002", 85.1021, 24.6613, "carbon star", "cc")
    lamost(folder, t, stars.carbon_star(), velocity=-48.0, snr=28, seed=2, release=5, CLASS="STAR", SUBCLASS="Carbon")

    t = target("spec-57301-SIMULATED02_sp09-111.fits.gz", 0, "990000003", 86.7702, 25.0187, "M4 III giant", "gm")
    lamost(folder, t, stars.m_giant(), velocity=63.0, snr=30, seed=3, release=5, CLASS="STAR", SUBCLASS="M4")

    t = target("spec-58800-SIMULATED03_sp03-007.fits.gz", 0, "990000004", 301.5508, 35.2440, "S star", "ss")
    lamost(folder, t, stars.s_star(), velocity=-15.0, snr=32, seed=4, release=10, CLASS="STAR", SUBCLASS="gM2")

    t = target("spec-58801-SIMULATED03_sp12-180.fits.gz", 0, "990000005", 17.8033, 31.4009, "DA white dwarf", "wd")
    white_dwarf = stars.da_white_dwarf(15_000.0, strength=1.0)
    unknown = {"CLASS": "Unknown", "SUBCLASS": "Non", "Z": -9999.0}
    lamost(folder, t, white_dwarf, velocity=30.0, snr=14, seed=5, release=10, gap=(5760.0, 5850.0), **unknown)

    # The trap: the pipeline takes Hβ for C IV 1549 and calls a cataclysmic variable a quasar at z = 2.139.
    t = target("spec-9001-58000-0101-SIMULATED.fits", 0, "9900000000000000101", 201.4402, 3.0107,
               "cataclysmic variable that the pipeline calls a QSO", "cv")  # fmt: skip
    variable = stars.cataclysmic_variable(balmer=1.0, helium_ii=9.0)
    sdss(folder, t, variable, velocity=40.0, snr=18, seed=6, CLASS="QSO", SUBCLASS="BROADLINE", Z=2.139, Z_ERR=0.0006)

    t = target("spec-9001-58000-0202-SIMULATED.fits", 0, "9900000000000000202", 201.9120, 2.7780,
               "DC white dwarf or BL Lac", special=(("wd", "UNSURE"),))  # fmt: skip
    featureless = stars.dc_white_dwarf()
    sdss(folder, t, featureless, velocity=0.0, snr=24, seed=7, CLASS="STAR", SUBCLASS="WD", Z=0.0, Z_ERR=0.0001)

    coadd = "coadd-SIMULATED-dark-99999.fits"
    rows = [
        target(coadd, 0, "39990000000000001", 150.1004, 2.2031, "quasar at z = 1.42"),
        target(coadd, 1, "-99999001", 150.1201, 2.2105, "blank sky fibre", otherwise="NO_DATA"),
        target(coadd, 2, "39990000000000003", 150.1377, 2.1980, "active M4 V dwarf"),
        target(coadd, 3, "39990000000000004", 150.1502, 2.2244, "DA white dwarf", "wd"),
    ]
    models = [9.0 * stars.quasar(1.42), np.full_like(stars.W, 1.0), 12.0 * stars.m_dwarf(),
              7.0 * stars.da_white_dwarf(19_000.0, strength=0.85)]  # fmt: skip
    redrock = [("QSO", "LOZ", 1.42), ("GALAXY", "", 0.9), ("STAR", "M", 0.0), ("STAR", "WD", 0.0)]
    desi(folder, rows, models, snr=[12.0, 1.0, 20.0, 14.0], seed=8, fit=redrock)

    t = target("SIMULATED-dwarf-nova.txt", 0, "SIMULATED dwarf nova", 119.0377, 22.0011, "cataclysmic variable", "cv")
    two_columns(folder, t, stars.cataclysmic_variable(balmer=0.8, helium_ii=5.0), velocity=-60.0, snr=22, seed=9)
    return sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write into")
    out: Path = parser.parse_args().out
    (out / "spectra").mkdir(parents=True, exist_ok=True)
    sample = written(out / "spectra")
    with open(out / "list.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("note", "path", "row", "id", "ra", "dec"))
        rows.writerows((NOTE, f"spectra/{t.file}", t.row, t.id, t.ra, t.dec) for t in sample)
    with open(out / "truth.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("note", "file", "row", "class", *TASKS))
        rows.writerows((NOTE, f"spectra/{t.file}", t.row, t.kind, *(t.answer(k) for k in TASKS)) for t in sample)
    size = sum(path.stat().st_size for path in (out / "spectra").iterdir())
    print(f"{len(sample)} simulated spectra in {out / 'spectra'}, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
