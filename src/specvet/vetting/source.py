"""The file at hand: read once for as many list entries as follow each other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from specvet.data.files import SelectionError, SpectrumFiles, row_of
from specvet.spectra import Spectrum
from specvet.vetting.items import Item


class Source:
    """Reads files and picks the targets that entries ask for; keeps one file, or what was wrong with it."""

    def __init__(self, change: Callable[[Spectrum], Spectrum] | None = None) -> None:
        """`change` alters each spectrum that is picked."""
        self._change = change
        self._files = SpectrumFiles(kept=1)
        self.state: tuple[int, int] | None = None
        """(bytes, time of change in ns) of the file at hand, as it was before it was read."""
        self.seconds = 0.0
        """That reading has taken."""

    def select(self, item: Item) -> list[Spectrum]:
        """The spectra of an entry, at least one. Raises what the reader raises, and `SelectionError`."""
        began = time.perf_counter()
        try:
            return self._selected(item)
        finally:
            self.seconds += time.perf_counter() - began

    def _selected(self, item: Item) -> list[Spectrum]:
        spectra = self._picked(item)
        return spectra if self._change is None else [self._change(s) for s in spectra]

    def _picked(self, item: Item) -> list[Spectrum]:
        if not self._files.has(item.file):
            self.state = file_state(item.file)
        spectra = self._files.spectra(item.file)
        if item.row is not None:
            return [row_of(spectra, item.file, item.row)]
        if not item.ids:
            return spectra
        found = [s for s in spectra if _matches(s, item.ids, alone=len(spectra) == 1)]
        if not found:
            wanted = " ".join(f"{name}={value}" for name, value in item.ids)
            raise SelectionError(
                f"{item.file}: no target of this file has {wanted}; the file holds {_held(spectra, item)}"
            )
        return found


def file_state(file: str) -> tuple[int, int] | None:
    """(bytes, time of change in ns); None where the file is not there."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns


def _matches(spectrum: Spectrum, ids: tuple[tuple[str, str], ...], alone: bool) -> bool:
    """Whether the identifiers that a target states are the wanted ones; one without any counts when it is alone."""
    stated = {name.lower(): value for name, value in spectrum.ids.items()}
    both = [(value, stated[name.lower()]) for name, value in ids if name.lower() in stated]
    return all(_same(a, b) for a, b in both) if both else alone


def _same(a: str, b: str) -> bool:
    """Equal as text, or as whole numbers: `0266` is plate 266."""
    a, b = a.strip(), b.strip()
    return a == b or (a.isdecimal() and b.isdecimal() and int(a) == int(b))


def _held(spectra: list[Spectrum], item: Item) -> str:
    names = {name.lower() for name, _ in item.ids}
    first = [f"{k}={v}" for s in spectra[:3] for k, v in s.ids.items() if k.lower() in names]
    more = ", …" if len(spectra) > 3 else ""
    return (", ".join(first) + more) if first else f"{len(spectra)} targets without such identifiers"
