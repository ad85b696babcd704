"""FITS layouts that are recognised and refused by name, so that nobody sees them misread."""

from __future__ import annotations

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.spectrum import Spectrum


def catalogues(fits: FitsInput) -> list[Spectrum] | None:
    """Redrock catalogues; raises for these, else None."""
    if "REDSHIFTS" in fits.named:
        raise SpectrumReadError(fits.file, "a DESI redrock catalogue, not spectra: give the coadd file beside it")
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
        "name the rows in cards ROW1, ROW2, …, or save one spectrum as a table or text",
    )
