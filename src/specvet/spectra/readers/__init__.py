"""The readers, one file a family of layouts.

A FITS reader is one function `(FitsInput) -> list[Spectrum] | None`, None where the file is not its own; it judges by
structure, never by name. Adding a format is writing that function and placing it in `FITS_READERS`, the most specific
first. Text and NPZ files have one reader each.
"""

from __future__ import annotations

from collections.abc import Callable

from specvet.spectra.readers import desi, image, lamost, refused, sdss, table
from specvet.spectra.readers.fitsfile import FitsInput
from specvet.spectra.spectrum import Spectrum

FitsReader = Callable[[FitsInput], list[Spectrum] | None]

FITS_READERS: tuple[FitsReader, ...] = (
    refused.templates,
    lamost.low_resolution_image,
    desi.coadd_or_spectra,
    refused.catalogues_and_mwm,
    lamost.medium_resolution,
    lamost.low_resolution_table,
    sdss.spec,
    table.spectra_in_table,
    image.one_dimensional,
    refused.other_images,
)
"""Tried in this order."""
