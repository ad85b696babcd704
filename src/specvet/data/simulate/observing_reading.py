"""An `Observed` as `specvet.read` gives it from its native file: what the readers say of it, without the file."""

from __future__ import annotations

from typing import Any

from specvet.data.simulate.layouts import desi, lamost, sdss
from specvet.data.simulate.layouts.common import sexagesimal
from specvet.data.simulate.observed import Arm, Observed
from specvet.spectra.readers.arms import Arm as ReadArm
from specvet.spectra.readers.arms import join_arms
from specvet.spectra.readers.building import as_bits, as_float
from specvet.spectra.readers.lamost import JOIN as LAMOST_JOIN
from specvet.spectra.readers.sdss import JOIN as SDSS_JOIN
from specvet.spectra.readers.sdss import plate_name
from specvet.spectra.reading import SIMULATED
from specvet.spectra.spectrum import Join, Redshift, Spectrum


def as_read(observed: Observed) -> Spectrum:
    """The spectrum; a LAMOST one as of the DR9 table. `file` is empty and `row` 0."""
    fields = {"lamost": _lamost, "sdss": _sdss, "boss": _sdss, "desi": _desi}[observed.survey](observed)
    flux, ivar = fields["flux"], fields["ivar"]
    notes = []
    if not flux.any():
        notes.append("all flux values are 0")
    if not ivar.any():
        notes.append("ivar is 0 everywhere: no good pixel")
    return Spectrum(
        medium="vacuum",
        ra=observed.ra,
        dec=observed.dec,
        mjd=float(observed.mjd),
        pipeline_class=observed.pipeline_class,
        pipeline_subclass=observed.pipeline_subclass,
        warnings=(*fields.pop("notes", ()), *notes, SIMULATED),
        **fields,
    )


def _redshift(observed: Observed, source: str, warning: str) -> Redshift:
    if observed.pipeline_z is None:
        return Redshift(warning=warning)
    return Redshift(observed.pipeline_z, observed.pipeline_z_error, source, warning)


def _pixels(arm: Arm) -> dict[str, Any]:
    return {
        "wavelength": arm.wavelength,
        "flux": as_float(arm.flux),
        "ivar": as_float(arm.ivar),
        "mask": as_bits(arm.and_mask),
    }


def _lamost(observed: Observed) -> dict[str, Any]:
    (arm,) = observed.arms
    number = str(lamost.obsid(observed))
    return _pixels(arm) | {
        "flux_unit": "",
        "calibration": "relative",
        "resolution": 1800.0,
        "joins": (LAMOST_JOIN,),
        "frame": "heliocentric",
        "redshift": _redshift(observed, "header Z", "class Unknown" if observed.pipeline_z is None else ""),
        "id": number,
        "ids": {
            "obsid": number,
            "designation": f"SIMULATED {sexagesimal(observed)}",
            "planid": lamost.plan(observed),
            "lmjd": str(observed.mjd + 1),
            "mjd": str(observed.mjd),
            "spid": str(observed.object_number % lamost.SPECTROGRAPHS + 1),
            "fiberid": str((observed.fibre - 1) % lamost.FIBRES + 1),
            "objname": observed.object_id,
        },
        "survey": "LAMOST",
        "release": "SIMULATED DR9",
        "reduction": "SIMULATED",
        "layout": "lamost-lrs-table",
    }


def _sdss(observed: Observed) -> dict[str, Any]:
    (arm,) = observed.arms
    ids = {
        "plate": str(sdss.plate(observed)),
        "mjd": str(observed.mjd),
        "fiberid": str(observed.fibre),
        "specobjid": observed.name,
        "bestobjid": observed.object_id,
        "fluxobjid": observed.object_id,
    }
    warned = f"ZWARNING={observed.pipeline_z_warning}" if observed.pipeline_z_warning else ""
    return _pixels(arm) | {
        "flux_unit": sdss.UNIT,
        "calibration": "absolute",
        "resolution": 2000.0,
        "joins": (SDSS_JOIN,),
        "frame": "heliocentric",
        "redshift": _redshift(observed, f"{'SPALL' if observed.survey == 'boss' else 'SPECOBJ'} Z", warned),
        "id": plate_name(ids),
        "ids": ids,
        "survey": "SDSS",
        "reduction": "SIMULATED",
        "layout": "sdss-spec",
    }


def _desi(observed: Observed) -> dict[str, Any]:
    arms = []
    for arm in observed.arms:
        flux, ivar, mask = as_float(arm.flux)[None], as_float(arm.ivar)[None], as_bits(arm.and_mask)[None]
        arms.append(ReadArm(arm.name, arm.wavelength, flux, ivar, mask))
    joined = join_arms(arms, "DESI")
    warned = f"ZWARN={observed.pipeline_z_warning}" if observed.pipeline_z_warning else ""
    target = str(desi.target_id(observed))
    return {
        "wavelength": joined.wavelength,
        "flux": joined.flux[0],
        "ivar": joined.ivar[0],
        "mask": joined.mask[0],
        "flux_unit": "10**-17 erg/(s cm2 Angstrom)",
        "calibration": "absolute",
        "resolution": 3500.0,
        "joins": tuple(Join(j.low, j.high, "DESI " + j.label.removeprefix("DESI ").lower()) for j in joined.joins),
        "frame": "barycentric",
        "redshift": _redshift(observed, "redrock Z", warned),
        "id": target,
        "ids": {"targetid": target, "tileid": str(desi.tile(observed)), "fiber": str(observed.fibre), "petal_loc": "0"},
        "survey": "DESI",
        "reduction": "SIMULATED",
        "layout": "desi-coadd",
        "notes": joined.warnings,
    }
