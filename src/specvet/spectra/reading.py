"""`read`: one file in, one `Spectrum` a target out. The content decides the layout, never the name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO, Any

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import Opened, label, opened
from specvet.spectra.readers import FITS_READERS
from specvet.spectra.readers.fitsfile import FitsInput, card, described, quiet_astropy
from specvet.spectra.readers.npz import read_npz
from specvet.spectra.readers.text import read_text
from specvet.spectra.spectrum import Spectrum

MAX_TABLE_FIELDS = 999

SIMULATED = "SIMULATED spectrum"
"""The warning on a file that says it is no observation: SIMULATE = T in a primary header, `# SIMULATED` in a text."""

_FITS_BLOCK = 2880
"""Bytes; every FITS file is a whole number of them (FITS standard 4.0, section 3.1)."""

_REFUSED_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file; HDF5 is left to a later version: export the spectrum as FITS or text"),
    (b"PAR1", "a Parquet file; Parquet is left to a later version: export the spectrum as FITS or text"),
    (b"\x93NUMPY", "a bare .npy array without names; save wavelength and flux together with numpy.savez"),
    (b"\x1f\x9d", "packed with Unix compress (.Z); unpack it first"),
    (b"\x89PNG", "a PNG image, not a spectrum"),
    (b"\xff\xd8\xff", "a JPEG image, not a spectrum"),
    (b"%PDF", "a PDF document, not a spectrum"),
)


def read(source: str | os.PathLike[str] | bytes | IO[bytes] | Any, *, name: str | None = None) -> list[Spectrum]:
    """Read every target of one file.

    `source` is a path, the bytes of a file, a file open for binary reading, or an astropy `HDUList`; gzip, bzip2 and
    xz are unpacked on the way. `name` is what `Spectrum.file` and messages call it; without it, the path as written.

    Returns one `Spectrum` a target, in the order of the file, so that `read(path)[row].row == row`: wavelengths in Å,
    strictly increasing, native as released (air, vacuum or unknown). Layouts: `lamost-lrs-image`, `lamost-lrs-table`,
    `lamost-mrs`, `sdss-spec`, `desi-coadd`, `desi-spectra`, `table-vector`, `table`, `image-1d`, `text`, `npz`.

    Raises `SpectrumReadError`, and nothing else, for whatever is not one of these: it names the file, what is wrong
    and what to do.
    """
    file = label(source, name)
    try:
        if _is_hdulist(source):
            return _read_hdulist(source, name)
        with opened(source, name) as plain:
            return _dispatch(plain)
    except SpectrumReadError as error:
        if error.file:
            raise
        raise SpectrumReadError(file, error.problem) from error
    except Exception as error:
        # The promise above: damaged files make astropy, numpy and zlib raise almost anything.
        problem = f"cannot be read ({type(error).__name__}: {error}); the file is probably damaged"
        raise SpectrumReadError(file, problem) from error


def _is_hdulist(source: object) -> bool:
    # astropy is imported only when there is a FITS file to read; a list of HDUs exists only once it has been.
    return isinstance(source, list) and hasattr(source, "fileinfo") and hasattr(source, "writeto")


def _read_hdulist(hdus: Any, name: str | None) -> list[Spectrum]:
    own = hdus.filename()
    own = own if isinstance(own, str) else ""
    path = Path(own) if own and os.path.isfile(own) else None
    with quiet_astropy() as heard:
        fits = FitsInput(hdus, name if name is not None else own, None, path)
        return _fits(fits, heard)


def _dispatch(plain: Opened) -> list[Spectrum]:
    head = plain.head(32)
    for magic, what in _REFUSED_MAGIC:
        if head.startswith(magic):
            raise SpectrumReadError(plain.file, what)
    if head.startswith(b"SIMPLE  ="):
        return _open_fits(plain)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return read_npz(plain)
    return _marked(read_text(plain), plain.head(_FITS_BLOCK))


def _open_fits(plain: Opened) -> list[Spectrum]:
    from astropy.io import fits as astropy_fits

    _refuse_absurd_tables(plain)
    with quiet_astropy() as heard:
        try:
            hdus = astropy_fits.open(plain.stream, memmap=False, ignore_missing_simple=False)
        except Exception as error:
            problem = f"the FITS header cannot be read ({error}); truncated or damaged, download it again"
            raise SpectrumReadError(plain.file, problem) from None
        with hdus:
            return _fits(FitsInput(hdus, plain.file, plain.size, plain.path, plain.stream), heard)


def _refuse_absurd_tables(plain: Opened) -> None:
    """A damaged TFIELDS makes astropy build that many columns; the FITS standard (4.0, 7.3.1) allows 999."""
    start = plain.stream.tell()
    plain.stream.seek(0)
    tail = b""
    while block := plain.stream.read(2**22):
        for found in re.finditer(rb"TFIELDS *= *(\d+)", tail + block):
            if int(found[1]) > MAX_TABLE_FIELDS:
                raise SpectrumReadError(plain.file, f"a table claims {int(found[1])} columns, FITS allows 999; damaged")
        tail = block[-80:]
    plain.stream.seek(start)


def _fits(fits: FitsInput, heard: list[Any]) -> list[Spectrum]:
    for reader in FITS_READERS:
        found = reader(fits)
        if found is not None:
            notes = _completeness(fits, heard)
            if card(fits.primary.header, "SIMULATE") is True:
                notes.insert(0, SIMULATED)
            return [s.replace(warnings=(*s.warnings, *notes)) for s in found] if notes else found
    _completeness(fits, heard)
    raise SpectrumReadError(
        fits.file,
        f"a FITS file of no known layout ({described(fits)}); readable are LAMOST, SDSS spec, DESI coadd and "
        "spectra files, tables with wavelength and flux columns, and 1-D images with a wavelength scale",
    )


def _marked(found: list[Spectrum], head: bytes) -> list[Spectrum]:
    """A text file's spectra, with the warning where a comment line at its head starts with SIMULATED."""
    simulated = re.search(rb"^[#%!;]\s*SIMULATED\b", head, re.MULTILINE)
    return [s.replace(warnings=(*s.warnings, SIMULATED)) for s in found] if simulated else found


def _completeness(fits: FitsInput, heard: list[Any]) -> list[str]:
    """Refuse a file that was cut off: between two arms it would pass for one without that arm.

    Returns what may be wrong behind the data that were read.
    """
    fits.check_complete()
    partial = fits.size is not None and fits.size % _FITS_BLOCK != 0
    unreadable = any("Error validating header" in str(warning.message) for warning in heard)
    if partial and (unreadable or (len(fits.hdus) == 1 and fits.primary.shape in (None, ()))):
        problem = f"truncated inside the header behind HDU {len(fits.hdus) - 1}; download it again"
        raise SpectrumReadError(fits.file, problem)
    notes = []
    if partial:
        notes.append("the file is no whole number of FITS blocks: it may be cut off")
    if unreadable:
        notes.append("the file holds unreadable bytes behind its last HDU: it may be damaged")
    return notes
