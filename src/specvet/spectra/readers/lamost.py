"""LAMOST: low-resolution images (to DR8) and tables (from DR9), medium-resolution coadds.

Layouts: LAMOST release documents (dr1 … dr10 at lamost.org, "FITS file"); wavelengths are vacuum, heliocentric,
log-linear. No release is named here: a DR9 table may call itself dr8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.arms import Arm, join_arms
from specvet.spectra.readers.building import as_bits, as_float, build, clean_ivar
from specvet.spectra.readers.columns import from_log10
from specvet.spectra.readers.fitsfile import FitsInput, card, is_table
from specvet.spectra.readers.values import identifier, identifiers, number, redshift, text
from specvet.spectra.spectrum import FloatArray, Join, Medium, Spectrum

JOIN = Join(5700.0, 5900.0, "LAMOST blue/red")
MRS_RESOLUTION = 7500.0
"""LAMOST medium-resolution survey, Liu et al. 2020, arXiv:2005.07210."""

_ID_CARDS = {
    "obsid": "OBSID",
    "designation": "DESIG",
    "planid": "PLANID",
    "lmjd": "LMJD",
    "mjd": "MJD",
    "spid": "SPID",
    "fiberid": "FIBERID",
    "objname": "OBJNAME",
    "gp_id": "GP_ID",
    "uid": "UID",
}


def low_resolution_image(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `lamost-lrs-image`: primary image 5 x N of flux, ivar, wavelength (or subcontinuum), and- and ormask."""
    shape = fits.primary_shape
    if len(shape) != 2 or shape[0] != 5 or shape[1] < 2:
        return None
    rows = fits.image(fits.primary)
    if not _rows_are_lamost(rows):
        return None
    header = fits.primary.header
    wavelength, notes = as_float(rows[2]), []
    if not _is_wavelength(wavelength):
        first, step = number(card(header, "COEFF0")), number(card(header, "COEFF1"))
        if first is None or step is None or step <= 0:
            problem = "row 3 is no wavelength and the header has no COEFF0/COEFF1 (LAMOST LRS image); damaged header?"
            raise SpectrumReadError(fits.file, problem)
        # DR1 and the pilot survey: row 3 is the subcontinuum, the grid stands in the header.
        wavelength = as_float(10.0 ** (first + step * np.arange(shape[1])))
        notes.append("no wavelength row: grid computed from COEFF0 and COEFF1")
    return [
        _low_resolution(
            fits, wavelength, flux=rows[0], ivar=rows[1], mask=rows[3], layout="lamost-lrs-image", notes=notes
        )
    ]


def low_resolution_table(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `lamost-lrs-table`: a table of ONE row of vector columns FLUX, IVAR, WAVELENGTH, ANDMASK, ORMASK."""
    for _, hdu in fits.tables():
        table = fits.table(hdu)
        names = table.names
        masks = [name for name in ("andmask", "ormask") if name in names]
        if table.rows != 1 or not masks or "flux" not in names:
            continue
        if "wavelength" not in names:
            if "LAMOST" not in text(card(fits.primary.header, "TELESCOP")).upper():
                continue
            raise SpectrumReadError(fits.file, f"HDU {hdu.name} has no column WAVELENGTH (LAMOST table); damaged file?")
        flux, ivar, wavelength, mask = (fits.pixels(hdu, n) for n in ("FLUX", "IVAR", "WAVELENGTH", masks[0]))
        return [_low_resolution(fits, wavelength, flux=flux, ivar=ivar, mask=mask, layout="lamost-lrs-table", notes=[])]
    return None


def single_exposures(fits: FitsInput) -> list[Any]:
    """HDUs of single exposures of a medium-resolution file: `B-84420148`, `R-84420148`."""
    return [hdu for _, hdu in fits.tables() if hdu.name.strip()[:2].upper() in ("B-", "R-") and hdu.name[2:].isdigit()]


def medium_resolution(fits: FitsInput, *, alone: bool = False) -> list[Spectrum] | None:
    """Layout `lamost-mrs`: COADD_B and COADD_R, pixels as rows with LOGLAM (old) or one-row vectors (new).

    A file with single exposures only raises, or gives None with `alone`.
    """
    coadds = [fits.named[n] for n in ("COADD_B", "COADD_R") if n in fits.named and is_table(fits.named[n])]
    singles = single_exposures(fits)
    if not coadds:
        if singles and not alone:
            problem = f"LAMOST MRS with {len(singles)} single exposures and no COADD_B or COADD_R"
            raise SpectrumReadError(fits.file, f"{problem}; read them with specvet.exposures")
        return None
    arms = [arm_of(fits, hdu) for hdu in coadds]
    joined = join_arms(arms, "LAMOST MRS")
    joins = [Join(join.low, join.high, "LAMOST MRS blue/red") for join in joined.joins]
    notes = [f"arm {name} missing" for name in ("B", "R") if f"COADD_{name}" not in fits.named]
    return [
        build(
            fits.file,
            joined.wavelength,
            joined.flux[0],
            ivar=joined.ivar[0],
            mask=joined.mask[0],
            joins=joins,
            warnings=[*notes, *joined.warnings],
            layout="lamost-mrs",
            resolution=MRS_RESOLUTION,
            n_exposures=len(singles),
            **header_fields(fits.primary.header),
        )
    ]


def arm_of(fits: FitsInput, hdu: Any) -> Arm:
    """One arm of a medium-resolution file, sorted by wavelength."""
    names = fits.table(hdu).names
    flux, ivar = as_float(fits.pixels(hdu, "FLUX")), clean_ivar(fits.pixels(hdu, "IVAR"))
    if "wavelength" in names:
        wavelength = as_float(fits.pixels(hdu, "WAVELENGTH"))
    else:
        wavelength = from_log10(fits.pixels(hdu, "LOGLAM"), fits.file)
    mask_name = next((n for n in ("andmask", "ormask", "pixmask") if n in names), None)
    mask = as_bits(fits.pixels(hdu, mask_name)) if mask_name else np.zeros(flux.shape, dtype=np.int64)
    if wavelength.ndim != 1 or any(array.shape != wavelength.shape for array in (flux, ivar, mask)):
        shapes = ", ".join(str(array.shape) for array in (wavelength, flux, ivar, mask))
        problem = f"wavelength, flux, ivar and mask of HDU {hdu.name} have the shapes {shapes}; damaged file?"
        raise SpectrumReadError(fits.file, problem)
    # Old files are not sorted, and pixels can repeat.
    _, order = np.unique(np.where(np.isfinite(wavelength), wavelength, -1.0), return_index=True)
    order = order[wavelength[order] > 0]
    if order.size < 2:
        raise SpectrumReadError(fits.file, f"HDU {hdu.name} has {order.size} pixels with a wavelength, 2 needed")
    name = hdu.name.strip().upper()
    return Arm(
        name[-1] if name.startswith("COADD") else name[0],
        wavelength[order],
        flux[None, order],
        ivar[None, order],
        mask[None, order],
    )


def _rows_are_lamost(rows: NDArray[Any]) -> bool:
    """Row 2 is never negative and rows 4 and 5 hold whole numbers: templates and other images do not."""
    ivar, masks = np.nan_to_num(rows[1]), np.nan_to_num(rows[3:5])
    return bool(np.mean(ivar < 0) < 0.01 and np.all(masks == np.rint(masks)) and np.all(masks >= 0))


def _is_wavelength(row: FloatArray) -> bool:
    """Values of thousands of Å that rise nearly everywhere; the subcontinuum of DR1 lies near 1."""
    finite = row[np.isfinite(row)]
    if finite.size < 2 or not 3000.0 < float(np.median(finite)) < 11000.0:
        return False
    inside = (finite > 3000.0) & (finite < 11000.0)
    return bool(inside.mean() > 0.9 and np.mean(np.diff(finite) > 0) > 0.9)


def _low_resolution(
    fits: FitsInput, wavelength: Any, *, flux: Any, ivar: Any, mask: Any, layout: str, notes: list[str]
) -> Spectrum:
    # R 1800 at 5500 Å: Luo et al. 2015, RAA 15, 1095.
    return build(
        fits.file,
        wavelength,
        flux,
        ivar=ivar,
        mask=mask,
        joins=(JOIN,),
        warnings=notes,
        layout=layout,
        resolution=1800.0,
        **header_fields(fits.primary.header),
    )


def header_fields(header: Any) -> dict[str, Any]:
    """What the primary header says of the target, the same cards in every release and resolution."""
    ids = identifiers(**{key: card(header, name) for key, name in _ID_CARDS.items()})
    pipeline_class, subclass = text(card(header, "CLASS")), text(card(header, "SUBCLASS"))
    z_card = next((key for key in ("Z", "REDSHIFT") if number(card(header, key)) is not None), None)
    unknown = pipeline_class.lower() == "unknown"
    if z_card is None or unknown:
        stated = redshift(None, None, "", "class Unknown" if unknown else "")
    else:
        z_error = card(header, "Z_ERR", card(header, "REDSHIFT_ERR"))
        stated = redshift(card(header, z_card), z_error, f"header {z_card}")
    heliocentric = card(header, "HELIO")
    vacuum: Medium = "air" if card(header, "VACUUM") is False else "vacuum"
    release = identifier(card(header, "DATA_V"))
    return {
        "medium": vacuum,
        "flux_unit": text(card(header, "BUNIT")),
        "calibration": "relative",
        "frame": "topocentric" if heliocentric is False else "heliocentric",
        "mjd": number(card(header, "MJD")) or number(card(header, "LMJD")),
        "ra": number(card(header, "RA")),
        "dec": number(card(header, "DEC")),
        "redshift": stated,
        "pipeline_class": pipeline_class,
        "pipeline_subclass": "" if subclass.lower() == "non" else subclass,
        "id": ids.get("obsid") or _spectrum_name(ids),
        "ids": ids,
        "survey": "LAMOST",
        "release": release.removeprefix("LAMOST").strip(),
        "reduction": text(card(header, "VERSPIPE")),
    }


def _spectrum_name(ids: dict[str, str]) -> str:
    """`55862-B6212_sp06-003`: what LAMOST names its files after, where a release has no OBSID."""
    try:
        return f"{ids['lmjd']}-{ids['planid']}_sp{int(ids['spid']):02d}-{int(ids['fiberid']):03d}"
    except (KeyError, ValueError):
        return ids.get("designation", "")
