"""SDSS and BOSS `spec` files, lite: COADD, and one row about the target, SPECOBJ (SDSS) or SPALL (BOSS).

Data model: data.sdss.org/datamodel, `spec`. The row has those of its columns that a simulation can fill.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from specvet.data.simulate.layouts.common import LABEL, filled, fitted, median_snr
from specvet.data.simulate.layouts.fitsbytes import card, comment, primary, table
from specvet.data.simulate.observed import Arm, Observed

FIRST_PLATE = 9_000_000
"""Numbers of plates start here, one for each object; those of real plates and fields have at most six digits."""
UNIT = "1E-17 erg/cm^2/s/Ang"

_COADD = np.dtype(
    [
        ("flux", ">f4"), ("loglam", ">f4"), ("ivar", ">f4"), ("and_mask", ">i4"), ("or_mask", ">i4"), ("wdisp", ">f4"),
        ("sky", ">f4"), ("model", ">f4"),
    ]
)  # fmt: skip
_FILTERS = ((3000.0, 4000.0), (4000.0, 5500.0), (5600.0, 6900.0), (6900.0, 8200.0), (8200.0, 10_400.0))
"""u, g, r, i, z: where SN_MEDIAN is measured, Å."""
_MODEL_NOTE = comment("model: running mean of the flux, as there was no fit")


def plate(observed: Observed) -> int:
    """One for each object, so that no two files have one name."""
    return FIRST_PLATE + observed.object_number


def file_name(observed: Observed) -> str:
    """`spec-SIMULATED-9000123-52000-0042.fits`: plate, MJD and fibre, as SDSS names files."""
    return f"spec-SIMULATED-{plate(observed)}-{observed.mjd:05d}-{observed.fibre:04d}.fits"


def content(observed: Observed) -> bytes:
    """The file: survey `sdss` with SPECOBJ, `boss` with SPALL."""
    (arm,) = observed.arms
    boss = observed.survey == "boss"
    target = table("SPALL" if boss else "SPECOBJ", _target(observed, arm, boss))
    return primary(_cards(observed, arm)) + table("COADD", _pixels(arm), (_MODEL_NOTE,)) + target


@lru_cache(maxsize=8)
def _loglam(wavelength: bytes) -> np.ndarray[Any, np.dtype[np.float32]]:
    # All spectra of a survey share their grid or differ by a few pixels; a logarithm costs more than a look-up.
    return np.log10(np.frombuffer(wavelength)).astype(np.float32)


def _pixels(arm: Arm) -> np.ndarray[Any, Any]:
    rows = np.empty(arm.wavelength.size, dtype=_COADD)
    rows["flux"], rows["ivar"] = arm.flux, arm.ivar
    rows["loglam"] = _loglam(np.ascontiguousarray(arm.wavelength, dtype=np.float64).tobytes())
    rows["and_mask"], rows["or_mask"] = arm.and_mask, arm.or_mask
    rows["wdisp"] = 1.0 if arm.dispersion is None else arm.dispersion
    rows["sky"] = 0.0 if arm.sky is None else arm.sky
    rows["model"] = fitted(arm.flux, arm.ivar)
    return rows


def _cards(observed: Observed, arm: Arm) -> list[bytes]:
    start, step = np.log10(arm.wavelength[0]), np.log10(arm.wavelength[-1] / arm.wavelength[0])
    return [
        *LABEL,
        card("RA", round(observed.ra, 1), "Right ascension of telescope boresight"),
        card("DEC", round(observed.dec, 1), "Declination of telescope boresight"),
        card("EQUINOX", 2000.0, decimals=2),
        card("RADECSYS", "FK5"),
        card("MJD", observed.mjd, "MJD of observation"),
        card("TELESCOP", "SDSS 2.5-M", "Sloan Digital Sky Survey (here: simulated)"),
        card("PLATEID", plate(observed), "Plate Id"),
        card("VERS2D", "SIMULATED", "Version of idlspec2d for 2D reduction"),
        card("HELIO_RV", 0.0, "Heliocentric correction (added to velocities)"),
        card("VACUUM", True, "Wavelengths are in vacuum"),
        card("NWORDER", 2, "Linear-log10 coefficients"),
        card("WFITTYPE", "LOG-LINEAR", "Linear-log10 dispersion"),
        card("COEFF0", round(float(start), 6), "Central wavelength (log10) of first pixel"),
        card("COEFF1", round(float(step) / (arm.wavelength.size - 1), 8), "Log10 dispersion per pixel"),
        card("DC-FLAG", 1, "Log-linear flag"),
        card("BUNIT", UNIT),
        card("PLUG_RA", observed.ra, "RA of object [deg]"),
        card("PLUG_DEC", observed.dec, "dec of object [deg]"),
        card("SPEC_ID", observed.name, "Unique object identifier"),
        card("FIBERID", observed.fibre, "Fiber number"),
    ]


_START: tuple[tuple[str, str], ...] = (("SURVEY", "S9"), ("INSTRUMENT", "S4"), ("PROGRAMNAME", "S9"))
_TARGET: tuple[Any, ...] = (
    ("SPECOBJID", "S32"), ("FLUXOBJID", "S24"), ("BESTOBJID", "S24"), ("RUN2D", "S9"), ("RUN1D", "S9"),
    ("TARGETTYPE", "S8"), ("SPECTROGRAPHID", ">i2"), ("PLATE", ">i4"), ("MJD", ">i4"), ("FIBERID", ">i4"),
    ("PLUG_RA", ">f8"), ("PLUG_DEC", ">f8"), ("CLASS", "S7"), ("SUBCLASS", "S21"), ("Z", ">f4"), ("Z_ERR", ">f4"),
    ("WAVEMIN", ">f4"), ("WAVEMAX", ">f4"), ("ZWARNING", ">i4"), ("SN_MEDIAN_ALL", ">f4"), ("SN_MEDIAN", ">f4", (5,)),
    ("ANYANDMASK", ">i4"), ("ANYORMASK", ">i4"),
)  # fmt: skip
_SPECOBJ, _SPALL = np.dtype([*_START, *_TARGET]), np.dtype([*_START, *_TARGET, ("OBJTYPE", "S16")])


def _target(observed: Observed, arm: Arm, boss: bool) -> np.ndarray[Any, Any]:
    row = np.zeros(1, dtype=_SPALL if boss else _SPECOBJ)
    values: dict[str, Any] = {
        "SURVEY": "SIMULATED",
        "INSTRUMENT": "BOSS" if boss else "SDSS",
        "PROGRAMNAME": "SIMULATED",
        "SPECOBJID": observed.name,
        "FLUXOBJID": observed.object_id,
        "BESTOBJID": observed.object_id,
        "RUN2D": "SIMULATED",
        "RUN1D": "SIMULATED",
        "TARGETTYPE": "SCIENCE",
        "SPECTROGRAPHID": 1,
        "PLATE": plate(observed),
        "MJD": observed.mjd,
        "FIBERID": observed.fibre,
        "PLUG_RA": observed.ra,
        "PLUG_DEC": observed.dec,
        "CLASS": observed.pipeline_class,
        "SUBCLASS": observed.pipeline_subclass,
        "Z": filled(observed.pipeline_z),
        "Z_ERR": filled(observed.pipeline_z_error),
        "WAVEMIN": arm.wavelength[0],
        "WAVEMAX": arm.wavelength[-1],
        "ZWARNING": observed.pipeline_z_warning,
        "SN_MEDIAN_ALL": observed.snr,
        "SN_MEDIAN": [median_snr(arm, low, high) for low, high in _FILTERS],
        "ANYANDMASK": np.bitwise_or.reduce(arm.and_mask),
        "ANYORMASK": np.bitwise_or.reduce(arm.or_mask),
    }
    if boss:
        values["OBJTYPE"] = "SIMULATED"
    for name, value in values.items():
        row[name] = value
    return row
