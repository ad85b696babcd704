"""DESI coadds, many targets a file, and the redrock catalogue beside each, joined by TARGETID.

Data model: desidatamodel.readthedocs.io, `coadd` and `redrock`. Left out are the resolution matrices and what redrock
says of its fit beside class, redshift and warning: there was no fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specvet.data.simulate.layouts.common import LABEL, day, filled, median_snr
from specvet.data.simulate.layouts.fitsbytes import card, image, primary, table
from specvet.data.simulate.observed import Observed

MOCK = 1 << 58
"""The bit of a TARGETID that says that it is no object on the sky (desitarget, `targetid_mask`)."""
ROWS = 50
"""Objects a file, at most."""
_EXPTIME = 1000.0
_FLUX_UNIT, _IVAR_UNIT = "10**-17 erg/(s cm2 Angstrom)", "10**+34 (s2 cm4 Angstrom2) / erg2"


def target_id(observed: Observed) -> int:
    """The same for all epochs of an object, as of real targets; they lie in different files."""
    return MOCK | observed.object_number


def tile(observed: Observed) -> int:
    """The tile of an observation, one for each epoch of `ROWS` objects; numbers of real tiles have five digits."""
    return 9_000_000 + 10 * (observed.object_number // ROWS) + observed.epoch


def file_name(observed: Observed) -> str:
    """`coadd-SIMULATED-0-9000000.fits`: petal and tile, as DESI names coadds of tiles."""
    return f"coadd-SIMULATED-0-{tile(observed)}.fits"


def redrock_name(observed: Observed) -> str:
    """The catalogue that belongs to a coadd; the reader knows it by its name."""
    return file_name(observed).replace("coadd", "redrock", 1)


def coadd(targets: Sequence[Observed]) -> bytes:
    """The file of these targets, one a row, in their order. Raises ValueError where one stands there twice."""
    ids = [target_id(one) for one in targets]
    if len(set(ids)) != len(ids):
        raise ValueError("two spectra of one DESI target in one coadd; epochs belong into files of their own")
    hdus = [primary(_CARDS), table("FIBERMAP", _fibermap(targets)), table("EXP_FIBERMAP", _exposures(targets))]
    for number, arm in enumerate(targets[0].arms):
        arms = [one.arms[number] for one in targets]
        hdus += [
            image(f"{arm.name}_WAVELENGTH", arm.wavelength, "Angstrom"),
            image(f"{arm.name}_FLUX", np.stack([a.flux for a in arms]), _FLUX_UNIT),
            image(f"{arm.name}_IVAR", np.stack([a.ivar for a in arms]), _IVAR_UNIT),
            image(f"{arm.name}_MASK", np.stack([a.and_mask for a in arms]).view(np.uint32)),
        ]
    return b"".join([*hdus, table("SCORES", _scores(targets))])


def redrock(targets: Sequence[Observed]) -> bytes:
    """The catalogue of these targets."""
    return primary(_CARDS_REDROCK) + table("REDSHIFTS", _redshifts(targets)) + table("FIBERMAP", _fibermap(targets))


_DEPENDENCY = (card("DEPNAM00", "SPECPROD"), card("DEPVER00", "SIMULATED"))
_CARDS = (*LABEL, card("SPGRP", "cumulative"), card("SURVEY", "SIMULATED"), card("PROGRAM", "SIMULATED"), *_DEPENDENCY)
_CARDS_REDROCK = (*LABEL, card("RRVER", "SIMULATED", "Redrock version"), *_DEPENDENCY)

_FIBERMAP = [
    ("TARGETID", ">i8"), ("PETAL_LOC", ">i2"), ("FIBER", ">i4"), ("COADD_FIBERSTATUS", ">i4"), ("TARGET_RA", ">f8"),
    ("TARGET_DEC", ">f8"), ("OBJTYPE", "S3"), ("MORPHTYPE", "S4"), ("FLUX_R", ">f4"), ("TILEID", ">i4"),
    ("COADD_NUMEXP", ">i2"), ("COADD_EXPTIME", ">f4"), ("MEAN_MJD", ">f8"),
]  # fmt: skip


def _fibermap(targets: Sequence[Observed]) -> np.ndarray[Any, Any]:
    rows = np.zeros(len(targets), dtype=_FIBERMAP)
    rows["TARGETID"] = [target_id(one) for one in targets]
    rows["FIBER"] = [one.fibre for one in targets]
    rows["TARGET_RA"], rows["TARGET_DEC"] = [one.ra for one in targets], [one.dec for one in targets]
    rows["OBJTYPE"], rows["MORPHTYPE"] = b"TGT", b"PSF"
    rows["FLUX_R"] = [10.0 ** (0.4 * (22.5 - one.magnitude_r)) for one in targets]  # nanomaggies
    rows["TILEID"], rows["COADD_NUMEXP"] = [tile(one) for one in targets], 1
    rows["COADD_EXPTIME"], rows["MEAN_MJD"] = _EXPTIME, [one.mjd for one in targets]
    return rows


def _exposures(targets: Sequence[Observed]) -> np.ndarray[Any, Any]:
    fields = [("TARGETID", ">i8"), ("NIGHT", ">i4"), ("EXPID", ">i4"), ("MJD", ">f8"), ("TILEID", ">i4"),
              ("EXPTIME", ">f8"), ("PETAL_LOC", ">i2"), ("FIBER", ">i4"), ("FIBERSTATUS", ">i4")]  # fmt: skip
    rows = np.zeros(len(targets), dtype=fields)
    rows["TARGETID"], rows["TILEID"] = [target_id(one) for one in targets], [tile(one) for one in targets]
    rows["NIGHT"] = [int(day(one.mjd).strftime("%Y%m%d")) for one in targets]
    rows["EXPID"], rows["MJD"] = rows["TILEID"], [one.mjd for one in targets]
    rows["EXPTIME"], rows["FIBER"] = _EXPTIME, [one.fibre for one in targets]
    return rows


def _scores(targets: Sequence[Observed]) -> np.ndarray[Any, Any]:
    arms = [arm.name for arm in targets[0].arms]
    fields = [(f"MEDIAN_COADD_{what}_{arm}", ">f4") for arm in arms for what in ("FLUX", "SNR")]
    rows = np.zeros(len(targets), dtype=[("TARGETID", ">i8"), *fields])
    rows["TARGETID"] = [target_id(one) for one in targets]
    for number, arm in enumerate(arms):
        rows[f"MEDIAN_COADD_FLUX_{arm}"] = [float(np.median(one.arms[number].flux)) for one in targets]
        rows[f"MEDIAN_COADD_SNR_{arm}"] = [median_snr(one.arms[number], 0.0, 2e4) for one in targets]
    return rows


def _redshifts(targets: Sequence[Observed]) -> np.ndarray[Any, Any]:
    fields = [("TARGETID", ">i8"), ("Z", ">f8"), ("ZERR", ">f8"), ("ZWARN", ">i8"), ("NPIXELS", ">i8"),
              ("SPECTYPE", "S6"), ("SUBTYPE", "S20")]  # fmt: skip
    rows = np.zeros(len(targets), dtype=fields)
    rows["TARGETID"] = [target_id(one) for one in targets]
    rows["Z"] = [filled(one.pipeline_z) for one in targets]
    rows["ZERR"] = [filled(one.pipeline_z_error) for one in targets]
    rows["ZWARN"] = [one.pipeline_z_warning for one in targets]
    rows["NPIXELS"] = [sum(int((arm.ivar > 0).sum()) for arm in one.arms) for one in targets]
    rows["SPECTYPE"] = [one.pipeline_class for one in targets]
    rows["SUBTYPE"] = [one.pipeline_subclass for one in targets]
    return rows
