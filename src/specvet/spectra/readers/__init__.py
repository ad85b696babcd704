"""The readers, one file a family of layouts.

A FITS reader is one function `(FitsInput) -> list[Spectrum] | None`, None where the file is not its own; it judges by
structure, never by name. Adding a format is writing that function and placing it in `FITS_READERS`, the most specific
first. Text and NPZ files have one reader each.
"""

from __future__ import annotations

from collections.abc import Callable

from specvet.spectra.readers import desi, image, iraf, lamost, mwm, own, refused, rows, sdss, spspec, table
from specvet.spectra.readers.fitsfile import FitsInput
from specvet.spectra.spectrum import Spectrum

FitsReader = Callable[[FitsInput], list[Spectrum] | None]

FITS_READERS: list[FitsReader] = [
    own.spectrum,
    rows.templates,
    spspec.spspec,
    spspec.spplate,
    lamost.low_resolution_image,
    desi.coadd_or_spectra,
    refused.catalogues,
    mwm.mwm,
    lamost.medium_resolution,
    lamost.low_resolution_table,
    sdss.spec,
    iraf.multispec,
    rows.bochanski,
    rows.named_rows,
    table.spectra_in_table,
    image.one_dimensional,
    refused.other_images,
]
"""Tried in this order."""


def register(reader: FitsReader) -> FitsReader:
    """Have `reader` tried before all others, for a format of your own; returns it, so that it can be a decorator."""
    FITS_READERS.insert(0, reader)
    return reader
