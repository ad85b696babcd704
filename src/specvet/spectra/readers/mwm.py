"""SDSS-V mwmVisit and mwmStar files: one table an instrument and observatory, one row a visit or a star.

Structure and names: sdss/astra (`products/mwm.py`, `models/mwm.py`) and its data model. HDUs BOSS/APO, BOSS/LCO,
APOGEE/APO and APOGEE/LCO; those without rows are skipped, and it is said which were read. mwmVisit has no wavelength
column: the grid is 10**(CRVAL + CDELT i) of the HDU's header. Wavelengths are vacuum; coadds and the visits that went
into them (`in_stack`) were moved to rest by the radial velocity that stands beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_bits, as_float, build, clean_ivar
from specvet.spectra.readers.columns import from_log10
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.readers.sdss import JOIN
from specvet.spectra.readers.values import identifiers, number, text
from specvet.spectra.spectrum import FloatArray, Spectrum

_ID_COLUMNS = ("sdss_id", "catalogid", "fieldid", "plateid", "obj", "spectrum_pk", "telescope", "healpix")
_PIXELS = ("flux", "ivar", "pixel_flags", "or_mask", "mask", "wavelength", "log_wavelength")
_CELLS = ("mjd", "min_mjd", "max_mjd", "in_stack", "v_rad", "xcsao_v_rad", "run2d", "apred", "release")
_RESOLUTION = {"BOSS": 2000.0, "APOGEE": 22_500.0}
"""Nominal: Smee et al. 2013, AJ 146, 32; Wilson et al. 2019, PASP 131, 055001."""


def mwm(fits: FitsInput) -> list[Spectrum] | None:
    """Layouts `sdss-mwm-visit` and `sdss-mwm-star`: one entry a row, instruments in the order of the file."""
    tables = [(n, hdu) for n, hdu in fits.tables() if _instrument(hdu) and "flux" in fits.table(hdu).names]
    if not tables or any("model_flux" in fits.table(hdu).names for _, hdu in tables):
        return None
    filled = [(n, hdu) for n, hdu in tables if fits.table(hdu).rows > 0]
    empty = [hdu.name for n, hdu in tables if fits.table(hdu).rows == 0]
    if not filled:
        problem = f"an SDSS-V mwm file whose tables hold no rows ({', '.join(empty)}); there is no spectrum in it"
        raise SpectrumReadError(fits.file, problem)
    note = "read from " + ", ".join(f"HDU {n} {hdu.name}" for n, hdu in filled)
    note += f"; empty: {', '.join(empty)}" if empty else ""
    out: list[Spectrum] = []
    many = len(filled) > 1 or fits.table(filled[0][1]).rows > 1
    for _, hdu in filled:
        table = fits.table(hdu)
        columns = {key: fits.column(hdu, key) for key in (*_PIXELS, *_ID_COLUMNS, *_CELLS) if key in table.names}
        for row in range(table.rows):
            cells = {key: column[row] for key, column in columns.items()}
            out.append(_spectrum(fits, hdu, cells, len(out), note, keep_dead=many))
    return out


def _instrument(hdu: Any) -> str:
    name = hdu.name.strip().upper().partition("/")[0]
    return name if name in _RESOLUTION and "/" in hdu.name else ""


def _spectrum(fits: FitsInput, hdu: Any, cells: dict[str, Any], place: int, note: str, *, keep_dead: bool) -> Spectrum:
    """One row, whose `cells` are the values of the columns that are known."""
    header = fits.primary.header
    flux = as_float(np.atleast_1d(cells["flux"]))
    notes = [note]
    frame, note_on_frame = _frame(hdu, cells)
    if note_on_frame:
        notes.append(note_on_frame)
    mjd = number(cells.get("mjd"))
    low, high = number(cells.get("min_mjd")), number(cells.get("max_mjd"))
    if mjd is None and low is not None and high is not None:
        mjd = 0.5 * (low + high)
    ids = identifiers(**{key: cells.get(key) for key in _ID_COLUMNS}, gaia_dr3=card(header, "GAIA_DR3"))
    ids |= identifiers(arm=hdu.name)
    ids = {key: value for key, value in ids.items() if not value.startswith("-")}
    if "sdss_id" not in ids:
        ids |= identifiers(sdss_id=card(header, "SDSS_ID"))
    mask = next((name for name in ("pixel_flags", "or_mask", "mask") if name in cells), None)
    instrument = _instrument(hdu)
    return build(
        fits.file,
        _wavelength(fits, hdu, cells, flux.size),
        flux,
        ivar=clean_ivar(cells["ivar"]) if "ivar" in cells else None,
        mask=as_bits(cells[mask]) if mask else None,
        joins=(JOIN,) if instrument == "BOSS" else (),
        warnings=notes,
        keep_dead=keep_dead,
        row=place,
        medium="vacuum",
        flux_unit="1E-17 erg/cm^2/s/Ang",
        calibration="absolute" if instrument == "BOSS" else "relative",
        resolution=_RESOLUTION[instrument],
        frame=frame,
        mjd=mjd,
        ra=number(card(header, "RA")),
        dec=number(card(header, "DEC")),
        id=ids.get("sdss_id", ""),
        ids=ids,
        survey="SDSS",
        release=text(cells.get("release")),
        reduction=text(cells.get("run2d")) or text(cells.get("apred")) or text(card(header, "V_ASTRA")),
        layout="sdss-mwm-star" if "min_mjd" in cells or "max_mjd" in cells else "sdss-mwm-visit",
    )


def _frame(hdu: Any, cells: dict[str, Any]) -> tuple[str, str]:
    """The velocity frame of a row, and a note on how it came there.

    The redshift itself is not stated again: somebody would divide by it twice.
    """
    velocity = number(cells.get("xcsao_v_rad"))
    velocity = number(cells.get("v_rad")) if velocity is None else velocity
    at_rest = bool(np.all(cells.get("in_stack", True)))
    if not at_rest:
        return ("heliocentric" if _instrument(hdu) == "BOSS" else "barycentric"), "not in the coadd, not moved to rest"
    if velocity is None:
        return "rest", ""
    return "rest", f"moved to rest by the survey's radial velocity, {velocity:.1f} km/s"


def _wavelength(fits: FitsInput, hdu: Any, cells: dict[str, Any], n: int) -> FloatArray:
    if "wavelength" in cells:
        return as_float(cells["wavelength"])
    if "log_wavelength" in cells:
        return from_log10(cells["log_wavelength"], fits.file)
    first, step = (number(card(hdu.header, key, card(hdu.header, f"{key}1"))) for key in ("CRVAL", "CDELT"))
    if first is None or not step:
        problem = f"HDU {hdu.name} has no wavelength column and no CRVAL and CDELT (SDSS-V mwm); damaged header?"
        raise SpectrumReadError(fits.file, problem)
    return from_log10(first + step * np.arange(n), fits.file)
