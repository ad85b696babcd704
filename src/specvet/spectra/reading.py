"""`read`: one file in, one `Spectrum` a target out. The content decides the layout, never the name."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from specvet.spectra import readers
from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import Opened, label, opened
from specvet.spectra.readers.fitsfile import FitsInput, card, described, quiet_astropy, with_fits
from specvet.spectra.readers.npz import read_npz
from specvet.spectra.readers.own import own_text
from specvet.spectra.readers.parquet import read_parquet
from specvet.spectra.readers.single import EXPOSURE_READERS
from specvet.spectra.readers.text import read_text
from specvet.spectra.spectrum import Spectrum

SIMULATED = "SIMULATED spectrum"
"""The warning on a file that says it is no observation: SIMULATE = T in a primary header, `# SIMULATED` in a text,
an id in an NPZ archive that begins so."""

_FITS_BLOCK = 2880
"""Bytes; every FITS file is a whole number of them (FITS standard 4.0, section 3.1)."""

_HEAD_BLOCKS = 8
"""Of a primary header that are looked through for SIMULATE."""

_MARK = re.compile(rb"^[#%!;]\s*SIMULATED\b", re.MULTILINE)

_REFUSED_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, which is not read: export wavelength and flux as FITS, NPZ, Parquet or text"),
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
    strictly increasing, native as released (air, vacuum or unknown). `Spectrum.layout` says which reader it was:
    `lamost-lrs-image`, `lamost-lrs-table`, `lamost-mrs`; `sdss-spec` (legacy, BOSS, SDSS-V), `sdss-spspec`,
    `sdss-spplate`, `sdss-mwm-visit`, `sdss-mwm-star`, `sdss-templates`; `desi-coadd`, `desi-spectra`,
    `redrock-templates`; `iraf-multispec`, `iraf-equispec`, `image-1d`, `image-rows`; `table-vector`, `table`; `text`
    (ECSV, VOTable, IPAC, CDS and MRT tables too), `npz`, `parquet` (SpecVI-Bench too); `specvet` for what
    `specvet.spectra.write` wrote.

    Raises `SpectrumReadError`, and nothing else, for whatever is not one of these: it names the file, what is wrong
    and what to do.
    """
    return _reading(source, name, None)


def exposures(source: str | os.PathLike[str] | bytes | IO[bytes] | Any, *, name: str | None = None) -> list[Spectrum]:
    """Read the single exposures behind the spectra of a file; an empty list where it holds coadds only.

    SDSS full spec files (one exposure each, and to SDSS-IV one camera), LAMOST medium resolution (one exposure and arm
    each), DESI `spectra-*` (one row an exposure) and SDSS-V mwmVisit (one row a visit). Each is a `Spectrum` with its
    own `mjd` (start of the exposure), `ids["exposure"]` and `ids["arm"]`; `row` is that of the spectrum of `read` to
    which it belongs. `Spectrum.n_exposures` says beforehand how many there are. Raises `SpectrumReadError` as `read`
    does.
    """
    return _reading(source, name, EXPOSURE_READERS)


def says_simulated(path: str | os.PathLike[str]) -> bool:
    """Whether the head of a FITS or text file says that it is no observation, without reading its spectra.

    False also for what cannot be opened, and where only reading tells: NPZ archives, and what `write` wrote.
    """
    try:
        with opened(path, None) as plain:
            head = plain.head(_HEAD_BLOCKS * _FITS_BLOCK)
    except (OSError, EOFError, ValueError, SpectrumReadError):
        return False
    if head.startswith(b"SIMPLE  ="):
        return re.search(rb"SIMULATE= +T\b", head.partition(b"END" + b" " * 77)[0]) is not None
    return _MARK.search(head[:_FITS_BLOCK]) is not None


def _reading(source: Any, name: str | None, exposure_readers: Sequence[readers.FitsReader] | None) -> list[Spectrum]:
    """What `read`, or with `exposure_readers` what `exposures` gives; every other exception becomes their own."""
    file = label(source, name)
    try:
        if _is_hdulist(source):
            found = _read_hdulist(source, name, exposure_readers)
        else:
            with opened(source, name) as plain:
                found = _dispatch(plain, exposure_readers)
        if not found and exposure_readers is None:
            raise SpectrumReadError(file, "holds no spectrum: a layout that is known, with no rows")
        return found
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


def _read_hdulist(hdus: Any, name: str | None, exposure_readers: Sequence[readers.FitsReader] | None) -> list[Spectrum]:
    own = hdus.filename()
    own = own if isinstance(own, str) and not own.startswith("<") else ""  # astropy names a BytesIO by its class
    path = Path(own) if own and os.path.isfile(own) else None
    with quiet_astropy() as heard:
        fits = FitsInput(hdus, name if name is not None else own, None, path)
        return _fits(fits, heard, exposure_readers)


def _dispatch(plain: Opened, exposure_readers: Sequence[readers.FitsReader] | None) -> list[Spectrum]:
    head = plain.head(32)
    for magic, what in _REFUSED_MAGIC:
        if head.startswith(magic):
            raise SpectrumReadError(plain.file, what)
    if head.startswith(b"SIMPLE  ="):
        return with_fits(plain, lambda fits, heard: _fits(fits, heard, exposure_readers))
    if exposure_readers is not None:
        return []
    with np.errstate(all="ignore"):  # what is not finite is dropped, and said to be
        if head.startswith(b"PAR1"):
            return read_parquet(plain)
        if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return [
                s.replace(warnings=(*s.warnings, SIMULATED)) if s.id.startswith("SIMULATED") else s
                for s in read_npz(plain)
            ]
        if (own := own_text(plain)) is not None:
            return own
        return _marked(read_text(plain), plain.head(_FITS_BLOCK))


def _fits(fits: FitsInput, heard: list[Any], exposure_readers: Sequence[readers.FitsReader] | None) -> list[Spectrum]:
    fits.check_headers()
    for reader in exposure_readers if exposure_readers is not None else readers.FITS_READERS:
        found = reader(fits)
        if found is not None:
            notes = _completeness(fits, heard)
            if card(fits.primary.header, "SIMULATE") is True:
                notes.insert(0, SIMULATED)
            return [s.replace(warnings=(*s.warnings, *notes)) for s in found] if notes else found
    if exposure_readers is not None:
        return []
    _completeness(fits, heard)
    raise SpectrumReadError(
        fits.file,
        f"a FITS file of no known layout ({described(fits)}); readable are LAMOST, SDSS, DESI and IRAF files, tables "
        "with wavelength and flux columns, and images with a wavelength scale whose rows are named",
    )


def _marked(found: list[Spectrum], head: bytes) -> list[Spectrum]:
    """A text file's spectra, with the warning where a comment line at its head starts with SIMULATED."""
    simulated = _MARK.search(head)
    return [s.replace(warnings=(*s.warnings, SIMULATED)) for s in found] if simulated else found


def _completeness(fits: FitsInput, heard: list[Any]) -> list[str]:
    """Refuse a file that was cut off: between two arms it would pass for one without that arm.

    Returns what may be wrong behind the data that were read.
    """
    fits.check_complete()
    partial = fits.size is not None and fits.size % _FITS_BLOCK != 0
    unreadable = any("Error validating header" in str(warning.message) for warning in heard)
    if partial and (unreadable or (len(fits.hdus) == 1 and fits.primary_shape == ())):
        problem = f"truncated inside the header behind HDU {len(fits.hdus) - 1}; download it again"
        raise SpectrumReadError(fits.file, problem)
    notes = []
    if partial:
        notes.append("the file is no whole number of FITS blocks: it may be cut off")
    if unreadable:
        notes.append("the file holds unreadable bytes behind its last HDU: it may be damaged")
    return notes
