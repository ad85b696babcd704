"""Images whose rows are told apart: flux and error of one spectrum, or many template spectra on one scale.

Rows are taken for what cards name them (ARRAYn, ROWn, EXTENn, BANDIDn), for what their layout is known to be, or for
wavelengths where they can be nothing else. Images whose rows nothing tells apart are left to `refused`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_float, build
from specvet.spectra.readers.columns import angstroms_per, column_role, from_log10, in_angstrom, medium_in
from specvet.spectra.readers.companions import Companions, add
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.readers.image import about
from specvet.spectra.readers.scale import Scale, medium_of, wavelength_scale
from specvet.spectra.readers.values import number, stem, text
from specvet.spectra.spectrum import FloatArray, Spectrum

MAX_ROWS = 20_000
_ROW_CARDS = ("ARRAY", "ROW", "EXTEN", "BANDID", "PLANE")


def templates(fits: FitsInput) -> list[Spectrum] | None:
    """Layouts `sdss-templates` (spEigen) and `redrock-templates`: one entry a row, with a warning on what they are.

    data.sdss.org/datamodel, `spEigen`; github.com/desihub/redrock-templates. Both are vacuum, at rest.
    """
    shape, header = fits.primary_shape, fits.primary.header
    if len(shape) != 2 or shape[0] > MAX_ROWS:
        return None
    redrock = fits.primary.name.upper() == "BASIS_VECTORS" or "RRTYPE" in header
    sdss = "COEFF0" in header and ("EIGEN0" in header or "NAME0" in header)
    if not redrock and not sdss:
        return None
    if redrock and card(header, "LOGLAM") in (True, 1, 1.0):
        start, step = number(card(header, "CRVAL1")), number(card(header, "CDELT1"))
        scale: Scale | None = None
        if start is not None and step is not None:
            scale = Scale(from_log10(start + step * np.arange(shape[1]), fits.file), "vacuum")
    else:
        scale = wavelength_scale(header, shape[1], fits.file)
    if scale is None:
        raise SpectrumReadError(fits.file, "templates without a wavelength scale (CRVAL1 or COEFF0); damaged header?")
    grid, rows = scale.wavelength, as_float(fits.image(fits.primary))
    grid.flags.writeable = False  # one grid, shared by all rows
    kind = " ".join(filter(None, (text(card(header, "RRTYPE")), text(card(header, "RRSUBTYP")))))
    kind = kind or text(card(header, "OBJECT"))
    out = []
    for row in range(shape[0]):
        name = text(card(header, f"NAME{row}"))
        what = "a template, no observed spectrum"
        if not name:
            what = f"principal component {row + 1} of {shape[0]}, which is no spectrum of a star by itself"
        out.append(
            build(
                fits.file,
                grid,
                rows[row],
                warnings=[what],
                keep_dead=True,
                layout="redrock-templates" if redrock else "sdss-templates",
                row=row,
                medium="vacuum",
                calibration="relative",
                frame="rest",
                survey="DESI" if redrock else "SDSS",
                id=name or f"{kind or stem(fits.file)} {row}",
                ids={"template": name or f"{kind} {row}".strip()},
            )
        )
    return out


def bochanski(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `image-rows`: the M dwarf templates of Bochanski et al. 2007, AJ 133, 531.

    Four rows that the header does not name: mean flux, median flux, and two measures of the scatter between stars.
    """
    shape, header = fits.primary_shape, fits.primary.header
    if len(shape) != 2 or shape[0] != 4 or "NUMOFFIL" not in header or "COEFF0" in header:
        return None
    scale = wavelength_scale(header, shape[1], fits.file)
    if scale is None:
        return None
    return [
        build(
            fits.file,
            scale.wavelength,
            as_float(fits.image(fits.primary)[0]),
            warnings=["a template, no observed spectrum", "rows 2 to 4 (median and scatter of many stars) ignored"],
            layout="image-rows",
            medium="vacuum",
            calibration="relative",
            frame="rest",
            survey="SDSS",
            id=stem(fits.file),
        )
    ]


def named_rows(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `image-rows`: one spectrum whose rows are named in the header, or begin with the wavelengths.

    Rows of wavelength, flux and error with the unit in XUNITS: Spextool (Cushing et al. 2004, PASP 116, 362).
    """
    shape, header = fits.primary_shape, fits.primary.header
    if len(shape) != 2 or not 2 <= shape[0] <= 8 or shape[1] < 2:
        return None
    data = fits.image(fits.primary)
    names = _names(header, shape[0])
    scale, used = _wavelength_row(fits, data, names)
    if scale is None and any(column_role(name) == "flux" for name in names):
        scale = wavelength_scale(header, shape[1], fits.file)
    if scale is None:
        return None
    flux_row = next((row for row, name in enumerate(names) if column_role(name) == "flux"), 0 if used is None else 1)
    flux = as_float(data[flux_row])
    found = Companions(notes=list(scale.notes))
    for row in range(shape[0]):
        if row not in (used, flux_row):
            add(found, f"row {row + 1}", names[row], data[row], flux, scale.wavelength)
    return [
        build(
            fits.file,
            scale.wavelength,
            flux,
            **found.fields,
            layout="image-rows",
            flux_unit=text(card(header, "BUNIT")) or text(card(header, "YUNITS")),
            **about(fits, header, scale),
        )
    ]


def _names(header: Any, rows: int) -> list[str]:
    """What the header calls the rows, in the first words of each name; empty where it does not."""
    for key in _ROW_CARDS:
        for first in (1, 0):
            names = [text(card(header, f"{key}{first + row}")) for row in range(rows)]
            if sum(bool(name) for name in names) >= 2:
                return [_plain(name) for name in names]
    if rows >= 3 and "XUNITS" in header and "YUNITS" in header:
        return ["wavelength", "flux", "error", *["mask"] * (rows - 3)][:rows]
    return [""] * rows


def _plain(name: str) -> str:
    """`Flux (erg/s)`, `ERROR - sigma` and `spectrum: fit` without what follows the name."""
    for mark in ("(", "[", ":", ",", " - "):
        name = name.split(mark, maxsplit=1)[0]
    return name.strip()


def _wavelength_row(fits: FitsInput, data: NDArray[Any], names: list[str]) -> tuple[Scale | None, int | None]:
    """The row that holds wavelengths: named so, or the first where it rises all the way and its unit is stated."""
    header = fits.primary.header
    row = next((row for row, name in enumerate(names) if column_role(name) == "wavelength"), None)
    unit = text(card(header, "XUNITS")) or text(card(header, "CUNIT1"))
    if row is None:
        first: FloatArray = as_float(data[0])
        rises = bool(np.isfinite(first).all()) and bool(np.all(np.diff(first) > 0))
        if not rises or any(names) or angstroms_per(unit) is None or float(first[0]) <= 0:
            return None, None
        row = 0
    medium = medium_in(text(card(header, "WAVETYPE")))
    medium = medium if medium != "unknown" else medium_of(header)
    notes: list[str] = []
    return Scale(in_angstrom(as_float(data[row]), unit, fits.file, notes), medium, tuple(notes)), row
