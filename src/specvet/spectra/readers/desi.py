"""DESI coadd and spectra files: three arms in their own HDUs, one row a target, joined here by inverse variance.

Data model: desidatamodel.readthedocs.io, `coadd` and `spectra`. Vacuum wavelengths in the solar-system barycentre's
frame; masks where 0 is good. Rows are identified by (file, row): TARGETIDs may repeat.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.arms import Arm, join_arms
from specvet.spectra.readers.building import as_bits, as_float, build, clean_ivar
from specvet.spectra.readers.fitsfile import FitsInput, card, is_table
from specvet.spectra.readers.redrock import match
from specvet.spectra.readers.values import identifiers, number, text
from specvet.spectra.spectrum import Join, Redshift, Spectrum

_RELEASES = {"fuji": "EDR", "iron": "DR1"}
"""DESI names its reductions; these two are public releases (data.desi.lbl.gov)."""

_ID_COLUMNS = ("targetid", "tileid", "fiber", "petal_loc", "expid", "night", "brickname")


def coadd_or_spectra(fits: FitsInput) -> list[Spectrum] | None:
    """Layouts `desi-coadd` and `desi-spectra`: every row of FIBERMAP is an entry, sky fibres included."""
    if fits.primary_shape:
        return None
    arms_named = [name[: -len("_WAVELENGTH")] for name in fits.named if name.endswith("_WAVELENGTH")]
    with_flux = [name[: -len("_FLUX")] for name in fits.named if name.endswith("_FLUX")]
    if not arms_named and not with_flux:
        return None
    notes: list[str] = []
    arms = [arm for name in sorted({*arms_named, *with_flux}) if (arm := _arm(fits, name, notes)) is not None]
    if not arms:
        raise SpectrumReadError(fits.file, f"no arm has both WAVELENGTH and FLUX (DESI layout): {'; '.join(notes)}")
    present = {arm.name for arm in arms}
    if present <= {"B", "R", "Z"}:
        notes += [f"arm {name} missing" for name in "BRZ" if name not in {*present, *arms_named, *with_flux}]
    rows = arms[0].flux.shape[0]
    if any(arm.flux.shape[0] != rows for arm in arms):
        counts = ", ".join(f"{arm.name} {arm.flux.shape[0]}" for arm in arms)
        raise SpectrumReadError(fits.file, f"the arms have different numbers of rows ({counts}); damaged file?")
    joined = join_arms(arms, "DESI")
    joined.wavelength.flags.writeable = False  # one grid, shared by all rows
    joins = tuple(Join(j.low, j.high, "DESI " + j.label.removeprefix("DESI ").lower()) for j in joined.joins)
    targets = _Targets(fits, rows)
    unit = text(card(fits.named[f"{arms[0].name}_FLUX"].header, "BUNIT"))
    shared: dict[str, Any] = {
        "medium": "vacuum",
        "flux_unit": unit,
        "calibration": "absolute",
        "frame": "barycentric",
        "survey": "DESI",
    }
    # R 2000 at 3600 Å to 5500 at 9800 Å: DESI Collaboration 2022, AJ 164, 207; 3500 is its middle.
    return [
        build(
            fits.file,
            joined.wavelength,
            joined.flux[row],
            ivar=joined.ivar[row],
            mask=joined.mask[row],
            joins=joins,
            warnings=[*notes, *joined.warnings, *targets.warnings(row)],
            keep_dead=rows > 1,
            row=row,
            resolution=3500.0,
            **shared,
            **targets.fields(row),
        )
        for row in range(rows)
    ]


def _arm(fits: FitsInput, name: str, notes: list[str]) -> Arm | None:
    """One arm, or None with a note where it lacks what it needs; a bad arm must not take the good ones with it."""
    missing = [part for part in ("WAVELENGTH", "FLUX") if f"{name}_{part}" not in fits.named]
    if missing:
        notes.append(f"arm {name} missing (no {name}_{missing[0]})")
        return None
    wavelength = as_float(fits.image(fits.named[f"{name}_WAVELENGTH"])).reshape(-1)
    flux = np.atleast_2d(as_float(fits.image(fits.named[f"{name}_FLUX"])))
    if flux.shape[1] != wavelength.size or wavelength.size < 2:
        problem = f"{name}_FLUX has shape {flux.shape}, {name}_WAVELENGTH {wavelength.shape}; damaged file?"
        raise SpectrumReadError(fits.file, problem)
    ivar, mask = np.zeros_like(flux), np.zeros(flux.shape, dtype=np.int64)
    if f"{name}_IVAR" in fits.named:
        ivar = clean_ivar(np.atleast_2d(fits.image(fits.named[f"{name}_IVAR"])))
    else:
        notes.append(f"arm {name} has no IVAR: its pixels count as bad")
    if f"{name}_MASK" in fits.named:
        mask = as_bits(np.atleast_2d(fits.image(fits.named[f"{name}_MASK"])))
    if ivar.shape != flux.shape or mask.shape != flux.shape:
        raise SpectrumReadError(fits.file, f"{name}_FLUX, {name}_IVAR and {name}_MASK differ in shape; damaged file?")
    keep: NDArray[np.intp] = np.flatnonzero(np.isfinite(wavelength) & (wavelength > 0))
    keep = keep[np.unique(wavelength[keep], return_index=True)[1]]
    if keep.size < 2:
        raise SpectrumReadError(fits.file, f"{name}_WAVELENGTH has {keep.size} usable pixels, 2 needed")
    if keep.size == wavelength.size and bool(np.all(np.diff(keep) > 0)):
        return Arm(name, wavelength, flux, ivar, mask)
    return Arm(name, wavelength[keep], flux[:, keep], ivar[:, keep], mask[:, keep])


class _Targets:
    """FIBERMAP and redrock, by row."""

    def __init__(self, fits: FitsInput, rows: int) -> None:
        self.columns: dict[str, Any] = {}
        self.header = fits.primary.header
        hdu = fits.named.get("FIBERMAP")
        if hdu is not None and is_table(hdu):
            table = fits.table(hdu)
            if table.rows != rows:
                raise SpectrumReadError(fits.file, f"FIBERMAP has {table.rows} rows, the arms {rows}; damaged file?")
            angles = ("target_ra", "target_dec", "mean_mjd", "mjd", "objtype", "coadd_fiberstatus", "fiberstatus")
            self.columns = {key: fits.column(hdu, key) for key in (*_ID_COLUMNS, *angles) if key in table.names}
        self.coadd = "EXP_FIBERMAP" in fits.named or "coadd_fiberstatus" in self.columns
        self.exposures = _exposure_mjd(fits) if not {"mean_mjd", "mjd"} & self.columns.keys() else {}
        ids = self.columns.get("targetid")
        self.ids = [int(i) for i in ids] if ids is not None else [None] * rows
        wanted = {i for row, i in enumerate(self.ids) if i is not None and not self._not_a_target(row)}
        self.fits, self.unmatched = match(np.asarray(ids), fits, wanted) if ids is not None else ({}, "")

    def _not_a_target(self, row: int) -> str:
        """Why a row is no target; empty where it is one."""
        kind = text(self.columns["objtype"][row]) if "objtype" in self.columns else "TGT"
        if kind != "TGT":
            return f"not a target (OBJTYPE {kind or 'empty'})"
        target = self.ids[row]
        return "not a target (negative TARGETID)" if target is not None and target < 0 else ""

    def warnings(self, row: int) -> list[str]:
        if self.ids[row] is None:
            return ["no FIBERMAP with TARGETID: identity, redshift and class unknown"]
        notes = [self._not_a_target(row)]
        if not notes[0] and self.ids[row] not in self.fits:
            notes.append(self.unmatched)
        status = self.columns.get("coadd_fiberstatus", self.columns.get("fiberstatus"))
        if status is not None and status[row]:
            notes.append(f"fibre status {int(status[row])}")
        return [note for note in notes if note]

    def fields(self, row: int) -> dict[str, Any]:
        values = {key: column[row] for key, column in self.columns.items()}
        ids = identifiers(**{key: values.get(key) for key in _ID_COLUMNS})
        ids |= identifiers(healpix=card(self.header, "HPXPIXEL"))
        target = self.ids[row]
        fit = self.fits.get(target) if target is not None else None
        reduction = _dependency(self.header, "SPECPROD")
        return {
            "mjd": number(values.get("mean_mjd")) or number(values.get("mjd")) or self.exposures.get(target or 0),
            "ra": number(values.get("target_ra")),
            "dec": number(values.get("target_dec")),
            "redshift": fit.redshift if fit else Redshift(),
            "pipeline_class": fit.spectype if fit else "",
            "pipeline_subclass": fit.subtype if fit else "",
            "id": str(target) if target is not None else "",
            "ids": ids,
            "release": _RELEASES.get(reduction, ""),
            "reduction": reduction,
            "layout": "desi-coadd" if self.coadd else "desi-spectra",
        }


def _exposure_mjd(fits: FitsInput) -> dict[int, float]:
    """TARGETID → mean MJD of its exposures, for coadds that do not state it."""
    hdu = fits.named.get("EXP_FIBERMAP")
    if hdu is None or not is_table(hdu) or not {"targetid", "mjd"} <= fits.table(hdu).names.keys():
        return {}
    targets, mjd = _as_ids(fits.column(hdu, "TARGETID")), as_float(fits.column(hdu, "MJD"))
    usable = np.isfinite(mjd) & (mjd > 0)
    unique, index = np.unique(targets[usable], return_inverse=True)
    if not unique.size:
        return {}
    means = np.bincount(index, weights=mjd[usable]) / np.bincount(index)
    return {int(t): float(m) for t, m in zip(unique, means, strict=True)}


def _as_ids(values: Any) -> NDArray[np.int64]:
    """TARGETIDs in native byte order."""
    return np.asarray(values).astype(np.int64)


def _dependency(header: Any, name: str) -> str:
    """DEPVERnn of the DEPNAMnn that is `name` (DESI writes its software versions so)."""
    for number_ in range(100):
        key = f"DEPNAM{number_:02d}"
        if key not in header:
            return ""
        if text(card(header, key)) == name:
            return text(card(header, f"DEPVER{number_:02d}"))
    return ""
