"""To and from specutils, which is an optional dependency: `pip install specutils`.

What specutils has no place for (medium, ids, redshift with its source, joins, warnings) travels in
`meta["specvet"]`, so that a round trip gives the same `Spectrum` back.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any

import numpy as np

from specvet.spectra.readers.building import as_bits, as_float, build, clean_ivar, ivar_from_sigma
from specvet.spectra.readers.values import identifier, identifiers, number, redshift
from specvet.spectra.spectrum import FloatArray, Join, Medium, Redshift, Spectrum
from specvet.spectra.units import flux_unit

META = "specvet"
"""Key of `meta` below which everything travels that specutils does not know."""

_ARRAYS = ("wavelength", "flux", "ivar", "mask")


def _specutils() -> Any:
    try:
        specutils = import_module("specutils")
    except ImportError:
        raise ImportError("specutils is not installed; install it with: pip install specutils") from None
    # Before specutils 2 the class was called Spectrum1D.
    return getattr(specutils, "Spectrum", None) or specutils.Spectrum1D


def to_specutils(spectrum: Spectrum) -> Any:
    """A `specutils.Spectrum` of the same pixels.

    `spectral_axis` in Å, native medium; `flux` in the file's unit where `flux_unit` understands it, else
    dimensionless (the unit as written is in `meta["specvet"]["flux_unit"]`, and `meta["specvet"]["unit_note"]` says
    so); `uncertainty` an `InverseVariance` (0 where the pixel is bad), None where there are no errors. `mask` is
    True where `spectrum.good` is False: specutils and astropy mean pixels not to be used. The survey's bits stay
    whole numbers in `meta["mask_bits"]`, for the wavelengths of `meta["wavelength"]`, by which a slice is known. `meta`
    also holds `medium`, `ids`, `id`, `file` and `row`.

    Raises ImportError where specutils is missing.
    """
    container = _specutils()
    from astropy import units as u
    from astropy.nddata import InverseVariance

    unit = flux_unit(spectrum.flux_unit)
    fields = {f.name: getattr(spectrum, f.name) for f in dataclasses.fields(Spectrum) if f.name not in _ARRAYS}
    meta: dict[str, Any] = {
        META: fields,
        "id": spectrum.id,
        "ids": dict(spectrum.ids),
        "medium": spectrum.medium,
        "file": spectrum.file,
        "row": spectrum.row,
        "mask_bits": None if spectrum.mask is None else spectrum.mask.copy(),
        "wavelength": spectrum.wavelength.copy(),
    }
    if unit is None and spectrum.flux_unit:
        fields["unit_note"] = f"the flux unit {spectrum.flux_unit!r} is not understood: flux is dimensionless"
    unit = u.dimensionless_unscaled if unit is None else unit
    ivar = spectrum.ivar
    return container(
        flux=spectrum.flux.copy() * unit,
        spectral_axis=spectrum.wavelength.copy() * u.AA,
        uncertainty=None if ivar is None else InverseVariance(ivar.copy(), unit=unit**-2),
        mask=~spectrum.good,
        meta=meta,
    )


def from_specutils(spectrum: Any) -> Spectrum:
    """A `Spectrum` from a one-dimensional `specutils.Spectrum` (or `Spectrum1D`).

    The spectral axis may have any unit that is a wavelength or turns into one (Hz, eV). Every uncertainty that
    astropy turns into an inverse variance is taken. `meta["specvet"]`, written by `to_specutils`, gives all other
    fields; those that a cut, a shift or a division since has made wrong are left out, with a warning. Without it
    `meta["medium"]`, `meta["ids"]` and the header's OBJECT are used where they are there, and an integer mask is kept
    as bits, a boolean one sets ivar to 0 where there are errors and flux to NaN where not.

    Raises TypeError for what is no one-dimensional spectrum.
    """
    from astropy import units as u
    from astropy.nddata import InverseVariance

    flux = getattr(spectrum, "flux", None)
    axis = getattr(spectrum, "spectral_axis", None)
    if flux is None or axis is None:
        raise TypeError(f"a specutils Spectrum is needed, not a {type(spectrum).__name__}")
    if flux.ndim != 1:
        raise TypeError(f"one spectrum is needed, this one has shape {flux.shape}; take its rows one by one")
    wavelength = as_float(u.Quantity(axis).to_value(u.AA, equivalencies=u.spectral()))
    values = as_float(flux.value)
    uncertainty = spectrum.uncertainty
    ivar: FloatArray | None = None
    if uncertainty is not None:
        if isinstance(uncertainty, InverseVariance):
            ivar = clean_ivar(_in(uncertainty, flux.unit**-2))
        else:
            with np.errstate(divide="ignore"):
                ivar = ivar_from_sigma(_in(uncertainty.represent_as(_std()), flux.unit))
    meta = dict(spectrum.meta or {})
    own = meta.get(META)
    mask = spectrum.mask
    if isinstance(own, dict):
        names = {f.name for f in dataclasses.fields(Spectrum)} - set(_ARRAYS)
        fields = _restored({key: value for key, value in own.items() if key in names})
        _follow_unit(fields, flux.unit)
        bits = _follow_axis(fields, wavelength, meta)
        order = slice(None) if wavelength.size < 2 or wavelength[0] < wavelength[-1] else slice(None, None, -1)
        wavelength, values = wavelength[order], values[order]
        ivar, bits = None if ivar is None else ivar[order], None if bits is None else bits[order]
        mask = None if mask is None else np.asarray(mask)[order]
        out = Spectrum(wavelength, values, ivar, bits, **fields)
        rejected = None if mask is None else np.asarray(mask, dtype=bool) & out.good
        return _without(out, rejected) if rejected is not None and rejected.any() else out
    boolean = mask is not None and np.asarray(mask).dtype == bool
    if boolean and ivar is not None:
        ivar = np.where(mask, 0.0, ivar)
    elif boolean:
        values = np.where(mask, np.nan, values)
    bits = None if mask is None or boolean else as_bits(mask)
    return build(str(meta.get("file", "")), wavelength, values, ivar=ivar, mask=bits, **_from_meta(meta, flux.unit))


def _follow_unit(fields: dict[str, Any], unit: Any) -> None:
    """The unit as it is now; a flux that was divided by one is not calibrated as it was."""
    written = flux_unit(fields.get("flux_unit", ""))
    if written is None or written == unit:
        return
    fields["flux_unit"] = unit.to_string()
    if not unit.is_equivalent(written) and str(unit.physical_type) == "dimensionless":
        fields["calibration"] = "unknown"
        fields["warnings"] = (*fields["warnings"], "divided since it was read: calibration unknown")


def _follow_axis(fields: dict[str, Any], wavelength: FloatArray, meta: dict[str, Any]) -> Any:
    """The mask's bits for these wavelengths, None without; drops from `fields` what holds for the old axis only."""
    bits, stored = meta.get("mask_bits"), meta.get("wavelength")
    bits = None if bits is None else as_bits(bits)
    if stored is None:
        if bits is not None and bits.shape != wavelength.shape:
            fields["warnings"] = (*fields["warnings"], "cut since it was read: mask left out")
            return None
        return bits
    old = as_float(stored)
    place = np.clip(np.searchsorted(old, wavelength - 1e-9 * np.abs(wavelength)), 0, old.size - 1)
    if bool(np.allclose(old[place], wavelength, rtol=1e-9, atol=0.0)):
        return None if bits is None or bits.shape != old.shape else bits[place]
    note = "the wavelengths were changed since it was read: frame, redshift, joins and mask left out"
    fields |= {"frame": "unknown", "redshift": Redshift(), "joins": (), "warnings": (*fields["warnings"], note)}
    return None


def _without(spectrum: Spectrum, pixels: Any) -> Spectrum:
    """The spectrum with some pixels made bad."""
    if spectrum.ivar is not None:
        return spectrum.replace(ivar=np.where(pixels, 0.0, spectrum.ivar))
    return spectrum.replace(flux=np.where(pixels, np.nan, spectrum.flux))


def _std() -> Any:
    from astropy.nddata import StdDevUncertainty

    return StdDevUncertainty


def _in(uncertainty: Any, unit: Any) -> FloatArray:
    """The array of an uncertainty in `unit`, which it need not state."""
    stated = uncertainty.unit
    array = np.asarray(uncertainty.array, dtype=np.float64)
    return array if stated is None else array * float(stated.to(unit))


def _restored(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as they were, also after a trip through JSON or ASDF, which know lists and dicts only."""
    out = dict(fields)
    if isinstance(out.get("redshift"), dict):
        out["redshift"] = Redshift(**out["redshift"])
    out["joins"] = tuple(j if isinstance(j, Join) else Join(**j) for j in out.get("joins") or ())
    out["warnings"] = tuple(out.get("warnings") or ())
    out["ids"] = {str(k): str(v) for k, v in (out.get("ids") or {}).items()}
    return out


def _from_meta(meta: dict[str, Any], unit: Any) -> dict[str, Any]:
    header: Any = meta.get("header")
    name = identifier(meta.get("id")) or identifier(header.get("OBJECT") if hasattr(header, "get") else None)
    medium: Medium = meta["medium"] if meta.get("medium") in ("air", "vacuum") else "unknown"
    ids = meta.get("ids")
    z = number(meta.get("redshift"))
    return {
        "medium": medium,
        "flux_unit": unit.to_string() if str(unit) else "",
        "id": name,
        "ids": identifiers(**ids) if isinstance(ids, dict) else identifiers(object=name),
        "layout": "specutils",
        "redshift": redshift(z, None, "specutils redshift" if z is not None else ""),
    }
