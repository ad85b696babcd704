"""Whether what came is a spectrum, whole, and the one that was asked for: opened with specvet's own readers.

Spectra are joined to asks by the identifiers that stand in the file, never by its name or by the order of an answer.
"""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from specvet.catalogue.getting.asks import Ask
from specvet.catalogue.getting.line import Kind, NotGotError
from specvet.spectra import Spectrum, SpectrumReadError, read

_READING = threading.Lock()
"""Readers set process-wide filters of warnings, and a DESI coadd is large: one file at a time."""

_FITS, _GZIP = b"SIMPLE  =", b"\x1f\x8b"


def spectra_of(part: Path, name: str) -> list[Spectrum]:
    """The spectra of a file that came. Raises `NotGotError`, of kind PAGE for what is no FITS file, else DAMAGED."""
    head = _head(part)
    if not head.startswith((_FITS, _GZIP)):
        raise NotGotError(Kind.PAGE, f"{what_came(head)} instead of a spectrum")
    with _READING:
        try:
            return read(part, name=name)
        except SpectrumReadError as error:
            raise NotGotError(Kind.DAMAGED, error.problem) from None


def check_table(part: Path, name: str, targets: set[int]) -> None:
    """See that a file is a whole FITS file, of a table that has one of these TARGETIDs. Raises `NotGotError`."""
    from astropy.io import fits

    head = _head(part)
    if not head.startswith((_FITS, _GZIP)):
        raise NotGotError(Kind.PAGE, f"{what_came(head)} instead of {name}")
    with _READING:
        try:
            with fits.open(part, memmap=False) as hdus:
                tables = [hdu.data["TARGETID"].tolist() for hdu in hdus[1:] if "TARGETID" in hdu.columns.names]
        except Exception as error:  # astropy raises almost anything for damaged files
            raise NotGotError(Kind.DAMAGED, f"{name}: damaged ({error})") from None
    if not any(targets & set(ids) for ids in tables):
        raise NotGotError(Kind.WRONG, f"{name}: has none of the targets asked for")


def rows_of(spectra: Sequence[Spectrum], asks: Sequence[Ask]) -> dict[str, Spectrum]:
    """By key of the ask, the first spectrum that has all its identifiers."""
    found: dict[str, Spectrum] = {}
    names = {name for ask in asks for name, _ in ask.ids}
    wanted: dict[tuple[tuple[str, str], ...], list[Ask]] = {}
    for ask in asks:
        wanted.setdefault(tuple(sorted(ask.ids)), []).append(ask)
    for spectrum in spectra:
        own = tuple(sorted((name, plain(spectrum.ids[name])) for name in names if name in spectrum.ids))
        for ask in wanted.get(own, ()):
            found.setdefault(ask.key, spectrum)
    return found


def called(spectra: Sequence[Spectrum]) -> str:
    """What is in a file, for people: `0266-51602-0014`, or some of many."""
    names = [s.id or "without an identifier" for s in spectra]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def is_packed(part: Path) -> bool:
    """Whether a file is gzip, by its content."""
    return _head(part).startswith(_GZIP)


def what_came(head: bytes) -> str:
    """The beginning of what is no FITS file, in words: `an HTML page (“Login”)`."""
    text = head.decode("utf-8", "replace").strip()
    if not text:
        return "nothing (0 bytes)"
    if text.startswith("<"):
        title = re.search(r"<(?:title|h1)[^>]*>\s*(.*?)\s*</", text, re.IGNORECASE | re.DOTALL)
        words = " ".join(html.unescape(title[1]).split())[:80] if title else ""
        return f"an HTML page (“{words}”)" if words else "an HTML page"
    return f"{text.splitlines()[0][:60]!r}"


def _head(part: Path) -> bytes:
    with open(part, "rb") as file:
        return file.read(2048)


def plain(value: str) -> str:
    """An identifier without what tables and files write differently: zeros in front of a number."""
    return value.strip().lstrip("0") if value.strip().isdigit() else value.strip()
