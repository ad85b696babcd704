"""`from_record`: one spectrum from a record, a mapping of names to values, as SPARCL and data sets hand them out.

SPARCL (astrosparcl.datalab.noirlab.edu): flux, ivar, wavelength, mask, redshift, spectype, specid, targetid,
sparcl_id, data_release, ra, dec. `sparcl_id` identifies a record; `specid` may not be unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_bits, as_float, build, ivar_of
from specvet.spectra.readers.columns import from_log10, in_angstrom, medium_in, roles, unit_in_name
from specvet.spectra.readers.values import identifier, identifiers, is_magnitude, number, redshift, text
from specvet.spectra.spectrum import Medium, Spectrum

_ID_KEYS = ("sparcl_id", "specid", "specobjid", "targetid", "obsid", "object_id", "source_id", "sdss_id", "id", "name")
_MORE_IDS = ("plate", "fiberid", "healpix", "object", "designation")
_DESI = ("DESI",)
_SDSS = ("SDSS", "BOSS")


def from_record(record: Mapping[str, Any], *, file: str = "", row: int = 0) -> Spectrum:
    """A `Spectrum` from a mapping with a wavelength (Å, or `loglam`), a flux and what else is known.

    Names are understood in any letter case: `wavelength`, `flux`, `ivar` or `error`, `mask`, `redshift` or `z` (a
    `redshift_warning` or `zwarn` is kept), `spectype` and `subtype`, `ra`, `dec`, `mjd`, identifiers of 64 bits as they
    are. A Quantity is taken in its own unit; what is masked is a bad pixel. `data_release` starting with SDSS, BOSS or
    DESI means vacuum wavelengths and 1e-17 erg/s/cm²/Å.

    Raises `SpectrumReadError` where wavelength or flux are missing, or differ in length.
    """
    plain = {str(key).lower(): value for key, value in record.items()}
    vectors = [name for name, value in plain.items() if value is not None and np.ndim(value) > 0]
    by_role = {role: vectors[index] for role, index in roles(vectors).items()}
    if "flux" not in by_role or not ("wavelength" in by_role or "loglam" in by_role):
        have = ", ".join(str(key) for key in record)
        raise SpectrumReadError(file, f"a record needs wavelength and flux; it has: {have[:200] or 'nothing'}")
    arrays = {role: _array(plain[name]) for role, name in by_role.items()}
    notes: list[str] = []
    medium: Medium = "unknown"
    if "wavelength" in by_role:
        name = by_role["wavelength"]
        unit = _unit(plain[name]) or unit_in_name(name)
        wavelength = in_angstrom(as_float(arrays["wavelength"]), unit, file, notes)
        medium = medium_in(name.replace("_", " "))
    else:
        wavelength = from_log10(arrays["loglam"], file)
    ivar = ivar_of(arrays)
    fields = facts(plain)
    fields["flux_unit"] = fields["flux_unit"] or _unit(plain[by_role["flux"]])
    if medium != "unknown" and fields["medium"] == "unknown":
        fields["medium"] = medium
    mask = as_bits(arrays["mask"]) if "mask" in arrays else None
    return build(
        file, wavelength, arrays["flux"], ivar=ivar, mask=mask, warnings=notes, row=row, layout="record", **fields
    )


def _array(value: Any) -> NDArray[Any]:
    """The values of an array, a Quantity or a column, with its mask where it has one."""
    mask = getattr(value, "mask", None)
    plain = np.asarray(getattr(value, "unmasked", value))
    if isinstance(mask, np.ndarray) and mask.dtype == bool and mask.shape == plain.shape and mask.any():
        return np.ma.array(plain, mask=np.asarray(mask))
    return plain


def _unit(value: Any) -> str:
    """The unit of a Quantity or a column of a table; empty without one."""
    unit = getattr(value, "unit", None)
    return "" if unit is None else str(unit)


def facts(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Spectrum` that stand in a record besides its arrays; keys in lower case."""

    def first(*keys: str) -> Any:
        return next((plain[key] for key in keys if plain.get(key) is not None and np.ndim(plain[key]) == 0), None)

    release = text(first("data_release", "_dr", "release"))
    desi, sdss = release.upper().startswith(_DESI), release.upper().startswith(_SDSS)
    said = text(first("medium", "airorvac"))
    ids = identifiers(
        **{key: first(key) for key in (*_ID_KEYS, "plate", "fiberid", "healpix", "object", "designation")}
    )
    z_keys = [key for key in ("redshift", "z", "zhelio") if not is_magnitude(key, plain)]
    z_key = next((key for key in z_keys if number(first(key)) is not None), "")
    warning = number(first("redshift_warning", "zwarn", "zwarning"))
    error = first(f"{z_key}_err", f"{z_key}_error", "zerr", "z_err") if z_key else None
    return {
        "medium": "vacuum" if desi or sdss else medium_in(said),
        "flux_unit": text(first("flux_unit")) or ("1e-17 erg/s/cm2/A" if desi or sdss else ""),
        "calibration": "absolute" if desi or sdss else "unknown",
        "frame": "barycentric" if desi else "heliocentric" if sdss else "unknown",
        "mjd": number(first("mjd", "mean_mjd")),
        "ra": number(first("ra", "target_ra")),
        "dec": number(first("dec", "target_dec")),
        "redshift": redshift(
            first(z_key) if z_key else None, error, z_key, f"{z_key}_warning={int(warning)}" if warning else ""
        ),
        "pipeline_class": text(first("spectype", "class")),
        "pipeline_subclass": text(first("subtype", "subclass")),
        "id": next((ids[key] for key in _ID_KEYS if key in ids), identifier(first("object"))),
        "ids": ids,
        "survey": "DESI" if desi else "SDSS" if sdss else text(first("survey")) or "unknown",
        "release": release,
    }
