"""SDSS-I/II: spSpec files (one spectrum) and spPlate files (a whole plate), all versions to Data Release 8.

spSpec, classic.sdss.org/dr7/dm/flatFiles/spSpec.php: primary image of 5 rows (4 in the first releases), named in the
cards ARRAYn: spectrum, continuum-subtracted spectrum, error (σ, not ivar), mask, sky. spPlate, data.sdss.org/datamodel:
images of flux, ivar, and-mask, or-mask (fibres x pixels) and a table of the plugged targets. In both the grid is
10**(COEFF0 + COEFF1 i) Å in vacuum, i from 0, although the WCS of spSpec claims to be linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_bits, as_float, build, clean_ivar, ivar_from_sigma
from specvet.spectra.readers.columns import from_log10
from specvet.spectra.readers.fitsfile import FitsInput, card, is_table, shape_of
from specvet.spectra.readers.sdss import JOIN, plate_name
from specvet.spectra.readers.values import identifiers, number, redshift, text
from specvet.spectra.spectrum import FloatArray, Redshift, Spectrum

FLUX_UNIT = "1E-17 erg/cm^2/s/Ang"
"""BUNIT of spSpec is `1.0E-17 erg/cm/s/Ang`; ARRAY1's comment and the data model have the square that it lacks."""

_CLASSES = {0: "UNKNOWN", 1: "STAR", 2: "GALAXY", 3: "QSO", 4: "QSO", 5: "SKY", 6: "STAR"}
"""SPEC_CLN: unknown, star, galaxy, quasar, high-redshift quasar, sky, late-type star."""

_SUBCLASSES = {4: "HIZ", 6: "LATE"}


def spspec(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `sdss-spspec`."""
    shape, header = fits.primary_shape, fits.primary.header
    if len(shape) != 2 or not 3 <= shape[0] <= 5 or "COEFF0" not in header:
        return None
    named = {number_: text(card(header, f"ARRAY{number_}")).upper() for number_ in range(1, shape[0] + 1)}
    if "SPEC_CLN" not in header and "PRIMTARG" not in header and named[1] != "SPECTRUM":
        return None
    rows = fits.image(fits.primary)
    wavelength = _grid(fits, shape[1])
    stated = {name: row for number_, name in named.items() for row in [number_ - 1] if name}
    error = stated.get("ERROR", 2)
    mask = stated.get("MASK", 3)
    ids = identifiers(**{key: card(header, name) for key, name in _ID_CARDS.items()})
    kind = number(card(header, "SPEC_CLN"))
    return [
        build(
            fits.file,
            wavelength,
            rows[stated.get("SPECTRUM", 0)],
            ivar=ivar_from_sigma(rows[error]),
            mask=as_bits(rows[mask]) if mask < shape[0] else None,
            joins=(JOIN,),
            layout="sdss-spspec",
            ra=number(card(header, "RAOBJ")),
            dec=number(card(header, "DECOBJ")),
            redshift=_redshift(header),
            pipeline_class="" if kind is None else _CLASSES.get(int(kind), ""),
            pipeline_subclass="" if kind is None else _SUBCLASSES.get(int(kind), ""),
            id=plate_name(ids),
            ids=ids,
            **_shared(header),
        )
    ]


_ID_CARDS = {"plate": "PLATEID", "mjd": "MJD", "fiberid": "FIBERID", "objid": "OBJID"}


def _redshift(header: Any) -> Redshift:
    """Z; its warnings are flags (Z_WARNIN), its status 0 or 1 means that it was not or badly measured."""
    flags, status = number(card(header, "Z_WARNIN")), number(card(header, "Z_STATUS"))
    warning = f"Z_WARNIN={int(flags)}" if flags else ""
    if status is not None and status <= 1:
        warning = f"Z_STATUS={int(status)}" + (f", {warning}" if warning else "")
    return redshift(card(header, "Z"), card(header, "Z_ERR"), "header Z", warning)


def spplate(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `sdss-spplate`: one entry a fibre, sky fibres included."""
    shape, header = fits.primary_shape, fits.primary.header
    images = [hdu for hdu in fits.hdus if not is_table(hdu) and shape_of(hdu) == shape]
    plugged = next((hdu for _, hdu in fits.tables() if "fiberid" in fits.table(hdu).names), None)
    if len(shape) != 2 or "COEFF0" not in header or len(images) < 3 or plugged is None:
        return None
    if fits.table(plugged).rows != shape[0]:
        problem = f"the image has {shape[0]} rows, its table of targets {fits.table(plugged).rows}; damaged file?"
        raise SpectrumReadError(fits.file, problem)
    wavelength = _grid(fits, shape[1])
    wavelength.flags.writeable = False  # one grid, shared by all rows
    flux, ivar, mask = (
        as_float(fits.image(images[0])),
        clean_ivar(fits.image(images[1])),
        as_bits(fits.image(images[2])),
    )
    names = fits.table(plugged).names
    columns = {key: fits.column(plugged, key) for key in ("fiberid", "objtype", "ra", "dec") if key in names}
    out = []
    for row in range(shape[0]):
        cells = {key: column[row] for key, column in columns.items()}
        kind = text(cells.get("objtype"))
        ids = identifiers(plate=card(header, "PLATEID"), mjd=card(header, "MJD"), fiberid=cells.get("fiberid"))
        out.append(
            build(
                fits.file,
                wavelength,
                flux[row],
                ivar=ivar[row],
                mask=mask[row],
                joins=(JOIN,),
                warnings=["not a target (OBJTYPE SKY)"] if kind == "SKY" else [],
                keep_dead=True,
                layout="sdss-spplate",
                row=row,
                ra=number(cells.get("ra")),
                dec=number(cells.get("dec")),
                id=plate_name(ids),
                ids=ids,
                **_shared(header),
            )
        )
    return out


def _grid(fits: FitsInput, n: int) -> FloatArray:
    first, step = (number(card(fits.primary.header, key)) for key in ("COEFF0", "COEFF1"))
    if first is None or not step:
        raise SpectrumReadError(fits.file, "COEFF0 or COEFF1 is no number (SDSS spSpec); damaged header?")
    return from_log10(first + step * np.arange(n), fits.file)


def _shared(header: Any) -> dict[str, Any]:
    return {
        "medium": "air" if card(header, "VACUUM") is False else "vacuum",
        "flux_unit": FLUX_UNIT,
        "calibration": "absolute",
        # R 1800 to 2200: York et al. 2000, AJ 120, 1579.
        "resolution": 2000.0,
        "frame": "heliocentric",
        "mjd": number(card(header, "MJD")),
        "survey": "SDSS",
        "reduction": text(card(header, "VERS2D")),
    }
