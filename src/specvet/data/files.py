"""Spectrum files, each read once for all questions and list entries that follow each other."""

from __future__ import annotations

from collections import OrderedDict

from specvet.spectra import Spectrum, SpectrumReadError, read

_ERROR = 4_096
"""Bytes that an exception counts as, so that a list of missing files is not kept."""


class SelectionError(LookupError):
    """A file that was read but does not hold the target that is asked for."""


class SpectrumFiles:
    """Reads files and picks their rows; keeps the last few (`kept`), or what was wrong with them, and more of them
    while their arrays have no more than `kept_bytes`."""

    def __init__(self, kept: int = 1, kept_bytes: int = 0) -> None:
        self._kept, self._kept_bytes = kept, kept_bytes
        self._files: OrderedDict[str, list[Spectrum] | Exception] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def has(self, file: str) -> bool:
        """Whether this file is at hand."""
        return file in self._files

    def spectra(self, file: str) -> list[Spectrum]:
        """All spectra of a file, at least one. Raises what the reader raises, and `SelectionError`."""
        if file not in self._files:
            self._files[file] = found = _read(file)
            self._sizes[file] = _ERROR if isinstance(found, Exception) else sum(map(_size, found))
            self._bytes += self._sizes[file]
            while len(self._files) > self._kept and self._bytes > self._kept_bytes:
                oldest = next(iter(self._files))
                # Not bound to a name: an error keeps this frame, and with it whatever its names stand for.
                del self._files[oldest]
                self._bytes -= self._sizes.pop(oldest)
        self._files.move_to_end(file)
        found = self._files[file]
        if isinstance(found, Exception):  # kept for the next entries of the same file
            raise found.with_traceback(None)
        return found

    def row(self, file: str, row: int) -> Spectrum:
        """The spectrum of one row. Raises what the reader raises, and `SelectionError`."""
        return row_of(self.spectra(file), file, row)


def row_of(spectra: list[Spectrum], file: str, row: int) -> Spectrum:
    """The first of a file's spectra that has this row. Raises `SelectionError`."""
    found = next((s for s in spectra if s.row == row), None)
    if found is None:
        count = f"{len(spectra)} targets, rows 0 to {len(spectra) - 1}" if len(spectra) > 1 else "one target, row 0"
        raise SelectionError(f"{file}: there is no row {row}; the file holds {count}")
    return found


def _size(spectrum: Spectrum) -> int:
    """Bytes of a spectrum's arrays."""
    arrays = (spectrum.wavelength, spectrum.flux, spectrum.ivar, spectrum.mask)
    return sum(array.nbytes for array in arrays if array is not None)


def _read(file: str) -> list[Spectrum] | Exception:
    try:
        name = printable(file)
        spectra = read(file) if name == file else read(file, name=name)
    except MemoryError:
        raise
    except Exception as e:  # a reader may fail on anything that a file may hold
        return e
    return spectra or SelectionError(f"{file}: holds no spectrum")


def failure(error: Exception) -> str:
    """An exception in words; one whose message is made for people needs no name."""
    if isinstance(error, SpectrumReadError | SelectionError):
        return str(error.args[0]) if error.args else str(error)
    return f"{type(error).__name__}: {error}"


def printable(text: str) -> str:
    """`text` as UTF-8 can hold it: a file name in another encoding keeps its odd bytes as `\\xe9`."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return (
            text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if _escaped(text)
            else ascii(text)
        )
    return text


def _escaped(text: str) -> bool:
    """Whether every lone surrogate stands for a byte of a file name (PEP 383)."""
    return not any(0xD800 <= ord(c) <= 0xDFFF and not 0xDC80 <= ord(c) <= 0xDCFF for c in text)
