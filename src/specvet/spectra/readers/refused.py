"""FITS layouts that are recognised and refused by name, so that nobody sees them misread."""

from __future__ import annotations

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.spectrum import Spectrum


def templates(fits: FitsInput) -> list[Spectrum] | None:
    """Primary images that hold something else than one observed spectrum; raises for these, else None."""
    header, shape = fits.primary.header, fits.primary_shape
    if len(shape) != 2:
        return None
    if fits.primary.name.upper() == "BASIS_VECTORS" or "RRTYPE" in header:
        raise SpectrumReadError(
            fits.file, f"redrock templates ({shape[0]} BASIS_VECTORS), not an observed spectrum; give a coadd file"
        )
    if "SPEC_CLN" in header or "ARRAY1" in header or "PRIMTARG" in header:
        raise SpectrumReadError(
            fits.file,
            "an SDSS-I/II spSpec file; spSpec is left to a later version: get the spec-PLATE-MJD-FIBER file instead",
        )
    if "COEFF0" in header and ("EIGEN0" in header or "NAME0" in header or shape[0] > 5):
        raise SpectrumReadError(
            fits.file,
            f"{shape[0]} rows on one log wavelength scale: SDSS templates (spEigen) or a whole plate (spPlate), "
            "not one observed spectrum; left to a later version",
        )
    return None


def catalogues_and_mwm(fits: FitsInput) -> list[Spectrum] | None:
    """Redrock catalogues and SDSS-V mwm files; raises for these, else None."""
    if "REDSHIFTS" in fits.named:
        raise SpectrumReadError(fits.file, "a DESI redrock catalogue, not spectra: give the coadd file beside it")
    if any(name.startswith(("BOSS/", "APOGEE/")) for name in fits.named):
        raise SpectrumReadError(
            fits.file,
            "an SDSS-V mwmVisit or mwmStar file; left to a later version: get the spec-FIELD-MJD file instead",
        )
    return None


def other_images(fits: FitsInput) -> list[Spectrum] | None:
    """Any other two-dimensional primary image; raises for it, else None."""
    shape = fits.primary_shape
    if len(shape) != 2:
        return None
    header, rows = fits.primary.header, shape[0]
    fits.check_complete()
    if "LAMOST" in str(card(header, "TELESCOP", "")).upper() or "EXTEN0" in header:
        raise SpectrumReadError(
            fits.file,
            f"HDU 0 has {rows} rows, 5 expected (LAMOST LRS image); is this a medium-resolution or damaged file?",
        )
    raise SpectrumReadError(
        fits.file,
        f"an image of {rows} rows of {shape[1]} pixels whose rows are not named (flux, error or several spectra?); "
        "left to a later version: save one spectrum as a table or text",
    )
