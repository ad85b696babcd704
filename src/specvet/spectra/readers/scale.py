"""The wavelengths of an image from its header: linear, logarithmic, and what else astropy's WCS can turn into a length.

Linear: FITS Paper I (Greisen & Calabretta 2002, A&A 395, 1061). `CTYPE1 = WAVE-LOG` (natural logarithm), units and
air or vacuum: Paper III (Greisen et al. 2006, A&A 446, 747). `DC-FLAG = 1` (log10): IRAF, `specwcs`. `COEFF0` and
`COEFF1` (log10): SDSS. `WAVE-LOG` of some pipelines is a log10 all the same; its step tells them apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.columns import angstroms_per, from_log10, in_angstrom, medium_in
from specvet.spectra.readers.fitsfile import card
from specvet.spectra.readers.values import number, text
from specvet.spectra.spectrum import FloatArray, Medium

_NOT_WAVES = ("FREQ", "ENER", "VELO", "WAVN", "VRAD", "VOPT", "ZOPT", "BETA")
_ALGORITHM = re.compile(r"[A-Z]{4}-(?!LOG)[A-Z0-9]{3}")
"""`WAVE-F2W`, `AWAV-GRI`: the codes of Paper III, table 2; the logarithm is computed here."""


_POSITION = re.compile(r"(?:RA|DEC|[GE]LON|[GE]LAT)-")
_OTHER_KINDS = {
    *(
        "TIME",
        "UTC",
        "TAI",
        "TDB",
        "TT",
        "MJD",
        "JD",
        "HJD",
        "BJD",
        "PHASE",
        "POSITION",
        "OFFSET",
        "ANGLE",
        "RA",
        "DEC",
    ),
    *("SLIT", "DISTANCE", "FREQUENCY", "VELOCITY", "ENERGY", "WAVENUMBER", "STOKES"),
}
_PIXELS = {"PIXEL", "PIXELS", "PIX", "CHANNEL", "CHANNELS"}


@dataclass(frozen=True)
class Scale:
    """Wavelengths in Å, one a pixel; `notes` say what was taken for granted."""

    wavelength: FloatArray
    medium: Medium
    notes: tuple[str, ...] = ()


def wavelength_scale(header: Any, n: int, file: str, axis: int = 1) -> Scale | None:
    """The scale of image axis `axis` with `n` pixels; None where the header states none.

    Raises `SpectrumReadError` for a scale that is none of wavelength (frequency, velocity) or that is not understood.
    """
    kind = text(card(header, f"CTYPE{axis}")).upper()
    coefficients = number(card(header, "COEFF0")), number(card(header, "COEFF1"))
    if coefficients[0] is not None and coefficients[1]:
        grid = _log10(coefficients[0] + coefficients[1] * np.arange(n, dtype=np.float64), file)
        return Scale(grid, medium_of(header, axis))
    first, step = number(card(header, f"CRVAL{axis}")), _step(header, axis)
    if first is None or not step:
        return None
    if _POSITION.match(kind) or kind in _OTHER_KINDS:
        raise SpectrumReadError(file, f"the scale CTYPE{axis}={kind} is no wavelength; save it over wavelength in Å")
    if kind[:4] in _NOT_WAVES:
        raise SpectrumReadError(file, f"the scale CTYPE{axis}={kind} is no wavelength; save it over wavelength in Å")
    if kind.endswith(("-TAB", "-LOO")):
        raise SpectrumReadError(file, f"the scale CTYPE{axis}={kind} stands in a table: save wavelength and flux")
    if _ALGORITHM.fullmatch(kind):
        return Scale(_by_wcs(header, n, file, axis), medium_of(header, axis))
    reference = number(card(header, f"CRPIX{axis}"))
    offset = np.arange(1, n + 1, dtype=np.float64) - (1.0 if reference is None else reference)
    unit = _unit(header, axis)
    values = first + step * offset
    notes: tuple[str, ...] = ()
    if not unit and (kind in _PIXELS or _label(header, axis) in _PIXELS):
        if float(step).is_integer() or float(np.nanmax(values)) < 1200.0:
            problem = f"the scale of axis {axis} counts pixels ({kind or 'label=' + _label(header, axis)})"
            raise SpectrumReadError(file, f"{problem}; calibrate its wavelengths first")
        notes = (f"the scale of axis {axis} is called {kind or _label(header, axis)}: taken for Å all the same",)
    if not unit and _label(header, axis) in _OTHER_KINDS:
        problem = f"the scale of axis {axis} is one of {_label(header, axis).lower()}, no wavelength"
        raise SpectrumReadError(file, f"{problem}; save it over wavelength in Å")
    if kind.endswith("-LOG") and (0 < first < 1e-3 or first * (angstroms_per(unit) or 1.0) > 500.0):
        # Paper III, eq. 5: λ = λ_r exp(w/λ_r), w the linear coordinate. A λ_r of 3.6 Å would be a log10.
        with np.errstate(over="ignore"):
            values = first * np.exp(step * offset / first)
    elif (
        number(card(header, "DC-FLAG")) == 1
        or kind.startswith("LOG")
        or kind.endswith("-LOG")
        or unit.lower().startswith(("log", "dex"))
    ):
        factor = angstroms_per(unit) or 1.0
        if factor > 1.0 and float(np.nanmedian(values)) > -1.0:  # log10 of nm or µm; that of metres is known by itself
            values = values + np.log10(factor)
        return Scale(_log10(values, file), medium_of(header, axis), notes)
    if not unit and kind[:4] in ("WAVE", "AWAV") and float(np.nanmax(np.abs(values))) < 1e-3:
        unit, notes = (
            "m",
            (
                *notes,
                f"CUNIT{axis} is not stated: metres, as FITS lays down for {kind[:4]}",
            ),
        )
    said = list(notes)
    return Scale(in_angstrom(values, unit, file, said), medium_of(header, axis), tuple(said))


def medium_of(header: Any, axis: int = 1) -> Medium:
    """Air or vacuum as the header states it: VACUUM, CTYPE, AIRORVAC, WAVETYPE, or a word in the label."""
    kind = text(card(header, f"CTYPE{axis}")).upper()
    vacuum = card(header, "VACUUM")
    if vacuum is True or kind.partition("-")[0] == "WAVE":
        return "vacuum"
    if vacuum is False or kind.partition("-")[0] == "AWAV":
        return "air"
    keys = ("VACUUM", "AIRORVAC", "WAVETYPE", f"WAT{axis}_001", f"CNAME{axis}")
    return medium_in(" ".join(text(card(header, key)) for key in keys))


def _step(header: Any, axis: int) -> float | None:
    """CDi_i where it stands (Paper I: CDELT is then not used), else CDELTi times PCi_i."""
    step = number(card(header, f"CD{axis}_{axis}"))
    if step:
        return step
    step, factor = number(card(header, f"CDELT{axis}")), number(card(header, f"PC{axis}_{axis}"))
    return step * factor if step and factor else step


def _label(header: Any, axis: int) -> str:
    """What IRAF calls the axis (`label=Wavelength`), in capitals."""
    found = re.search(r"label\s*=\s*\"?(\w+)", text(card(header, f"WAT{axis}_001")), re.IGNORECASE)
    return found[1].upper() if found else ""


def _unit(header: Any, axis: int) -> str:
    stated = text(card(header, f"CUNIT{axis}")) or text(card(header, "XUNITS"))
    if stated:
        return stated
    found = re.search(r"units?\s*=\s*\"?([A-Za-zÅµ]+)", text(card(header, f"WAT{axis}_001")))
    return found[1] if found and angstroms_per(found[1]) else ""


def _log10(values: FloatArray, file: str) -> FloatArray:
    """10**values; log10 of metres (−6.4) counts as what it is."""
    finite = values[np.isfinite(values)]
    if finite.size and -8.0 < float(np.median(finite)) < -5.0:
        return np.asarray(10.0 ** (values + 10.0))
    try:
        return from_log10(values, file)
    except SpectrumReadError:
        problem = f"a logarithmic scale that starts at {values[0]:g} is no log10 of Å"
        raise SpectrumReadError(file, f"{problem}; save wavelength and flux as a table") from None


def _by_wcs(header: Any, n: int, file: str, axis: int) -> FloatArray:
    """Grisms and resampled frequencies, by WCSLIB."""
    from astropy import units as u
    from astropy.wcs import WCS

    try:
        wcs = WCS(header, naxis=[axis])
        world = wcs.pixel_to_world_values(np.arange(n, dtype=np.float64))
        values = (np.asarray(world, dtype=np.float64) * u.Unit(wcs.world_axis_units[0])).to_value(u.AA)
    except Exception as error:  # WCSLIB raises many kinds
        kind = text(card(header, f"CTYPE{axis}"))
        raise SpectrumReadError(file, f"the scale CTYPE{axis}={kind} cannot be computed ({error})") from None
    return np.asarray(values, dtype=np.float64)
