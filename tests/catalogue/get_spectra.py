"""SIMULATED spectra as files of the surveys, under the addresses at which the archives have them."""

from __future__ import annotations

import gzip
import io
import uuid
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from astropy.io import fits

from specvet.data.simulate import layouts
from specvet.data.simulate.kinds import make
from specvet.data.simulate.layouts.sdss import FIRST_PLATE
from specvet.data.simulate.observed import SurveyName
from specvet.data.simulate.observing import observe, spectrum

REDUX = "sas/dr17/sdss/spectro/redux"
HEALPIX = "public/dr1/spectro/redux/iron/healpix"
MOCK = 1 << 58
"""Simulated TARGETIDs have this bit."""


def seen(survey: SurveyName, number: int, kind: str = "wd.DA") -> Any:
    """What a telescope makes of a simulated star; `number` names it."""
    rng = np.random.default_rng([8, abs(number)])
    return observe(make(kind, rng), survey, rng, snr=15.0, object_number=number)


def content(observed: Any, release: str = "dr9") -> bytes:
    """Its file."""
    with TemporaryDirectory() as folder:
        (path,) = layouts.write(observed, folder, release=release)
        return Path(path).read_bytes()


@cache
def sdss_files() -> dict[str, bytes]:
    """Three plates of SDSS, path → content."""
    found = {}
    for plate in (266, 2108, 1200):
        one = seen("sdss", plate - FIRST_PLATE)
        name = f"spec-{plate:04d}-{one.mjd:05d}-{one.fibre:04d}.fits"
        found[f"{REDUX}/26/spectra/lite/{plate:04d}/{name}"] = content(one)
    return found


def sdss_ids() -> list[str]:
    """Their ids."""
    return [Path(path).stem.removeprefix("spec-") for path in sdss_files()]


@cache
def field_file() -> tuple[str, bytes]:
    """A spectrum of SDSS-V, as DR19 lays it out: path, content."""
    one = seen("boss", 7)
    with fits.open(io.BytesIO(content(one)), memmap=False) as hdus:
        table = hdus["SPALL"]
        kept = [c for c in table.columns if c.name not in ("PLATE", "FIBERID", "MJD")]
        ids = [
            fits.Column("FIELD", "J", array=[15000]),
            fits.Column("MJD", "J", array=[59146]),
            fits.Column("CATALOGID", "K", array=[4375924756]),
        ]
        new = fits.BinTableHDU.from_columns([*ids, *kept], name="SPALL")
        head = hdus[0].header
        for key in ("PLATEID", "FIBERID"):
            del head[key]
        out = io.BytesIO()
        fits.HDUList([hdus[0], hdus["COADD"], new]).writeto(out)
    below = "spectra/lite/015000/59146/spec-015000-59146-4375924756.fits"
    return f"sas/dr19/spectro/boss/redux/v6_1_3/{below}", out.getvalue()


@cache
def lamost_files(release: str = "dr8/v2.0") -> dict[str, bytes]:
    """Three obsids of LAMOST, path → content, packed as the archive packs them."""
    found = {}
    for number in (1, 2, 3):
        one = seen("lamost", number)
        obsid = 9_000_000_000 + 10 * number
        found[f"{release}/spectrum/fits/{obsid}"] = gzip.compress(content(one, "dr8"), mtime=0)
    return found


@cache
def desi_files() -> dict[str, bytes]:
    """A coadd of six targets and its redrock catalogue, as healpix 10378 of main/dark."""
    observed = [seen("desi", number) for number in range(6)]
    with TemporaryDirectory() as folder:
        layouts.write(observed, folder)
        (coadd,) = Path(folder).glob("coadd-*")
        (redrock,) = Path(folder).glob("redrock-*")
        base = f"{HEALPIX}/main/dark/103/10378"
        return {
            f"{base}/coadd-main-dark-10378.fits": coadd.read_bytes(),
            f"{base}/redrock-main-dark-10378.fits": redrock.read_bytes(),
        }


def target(number: int) -> int:
    """TARGETID of a simulated target."""
    return MOCK | number


@cache
def records(n: int = 5) -> list[dict[str, Any]]:
    """Records of SPARCL: `n` targets of DESI (SIMULATED), the first of them with two spectra."""
    made = []
    for number in [0, *range(n)]:
        s = spectrum(seen("desi", number))
        made.append(
            {
                "sparcl_id": str(uuid.UUID(int=1000 + len(made))),
                "specid": 7,  # need not be unique
                "targetid": target(number),
                "data_release": "DESI-DR1",
                "ra": s.ra,
                "dec": s.dec,
                "redshift": 0.0,
                "spectype": "STAR",
                "wavelength": s.wavelength,
                "flux": s.flux,
                "ivar": s.ivar,
                "mask": np.zeros(s.n_pix, dtype=np.int32),
            }
        )
    return made
