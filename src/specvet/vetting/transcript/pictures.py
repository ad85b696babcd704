"""Where the pictures of a trajectory come from: kept by the run, or drawn again from the spectrum.

A picture that is drawn again is known to be the one that was seen: the hash of its data, window and style is held
against the recorded one, and where the ledger states the SHA-256 of the PNG, so are its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from specvet.records import Decision, ImageStore, bytes_hash
from specvet.records.schema import ObservationRecord
from specvet.spectra import Spectrum
from specvet.vetting.report.run import Spectra
from specvet.vetting.transcript.blocks import Picture
from specvet.views import COMPACT_STYLE, REFERENCE_STYLE, Size, View, full_view, zoom_view


@dataclass(frozen=True, slots=True)
class Found:
    """A picture, or why there is none."""

    png: bytes | None
    how: str
    """In words: `kept by the run`, `drawn again …`, or what is missing."""
    view: View | None = None
    """The numbers behind it, where the spectrum is there and is the one that was judged."""


class Kept(Protocol):
    """What a `RunFolder` has, and whatever else keeps pictures."""

    @property
    def path(self) -> Path:
        """Near it spectra are looked for."""
        ...

    @property
    def images(self) -> ImageStore: ...

    @property
    def config(self) -> Mapping[str, Any]:
        """`style` and `size` of the pictures, where they are known."""
        ...


class Gallery:
    """The pictures of one decision. The spectrum is read once, when a picture needs it.

    `load` reads (file, row) again, None where it is not there; by default near the run.
    """

    def __init__(
        self, run: Kept, decision: Decision, load: Callable[[str, int], Spectrum | None] | None = None
    ) -> None:
        self._run, self._decision, self._load = run, decision, load or Spectra(run.path)
        self._read = False
        self._spectrum: Spectrum | None = None
        self._problem = ""
        self._found: dict[tuple[str | None, str | None, tuple[float, float] | None], Found] = {}

    @property
    def spectrum(self) -> Spectrum | None:
        """The spectrum as its file holds it now; None where it cannot be read."""
        return self._opened()

    def find(self, picture: Picture, draw: bool = True) -> Found:
        """The picture's PNG from the run, else drawn again if `draw`."""
        view = picture.view
        key = (picture.sha256, view.view_hash if view else None, view.window if view else None)
        if key not in self._found or (draw and self._found[key].png is None):
            self._found[key] = self._search(picture, draw)
        return self._found[key]

    def _search(self, picture: Picture, draw: bool) -> Found:
        sha = picture.sha256 or (picture.view.image if picture.view else None)
        kept = self._kept(sha)
        view, problem = self._view(picture.view)
        if kept is not None:
            return Found(kept, "kept by the run", view)
        if view is None:
            return Found(None, problem)
        if not draw:
            return Found(None, "not kept by the run; --html draws it again", view)
        try:
            png = view.png
        except ValueError as e:
            return Found(None, f"cannot be drawn again ({e})", view)
        if sha is not None and bytes_hash(png) != sha:
            return Found(png, "drawn again from the same data; its bytes differ from those that were seen", view)
        same = "the same bytes" if sha is not None else "the same data, window and style"
        return Found(png, f"drawn again: {same}", view)

    def _kept(self, sha: str | None) -> bytes | None:
        if sha is None:
            return None
        try:
            png = self._run.images.path(sha).read_bytes()
        except OSError:
            return None
        return png if bytes_hash(png) == sha else None  # cut short by a power cut

    def _view(self, seen: ObservationRecord | None) -> tuple[View | None, str]:
        if seen is None:
            return None, "not kept by the run, and no observation says what it showed"
        spectrum = self._opened()
        if spectrum is None:
            return None, self._problem
        for (style, size), title in product(self._styles(), (None, "Spectrum")):
            try:
                view = self._drawn(spectrum, seen, title, style, size)
            except ValueError:
                continue
            if view.content_hash == seen.view_hash:
                return view, ""
        return None, "not kept by the run, and the spectrum's file does not give the picture that was seen any more"

    def _drawn(self, spectrum: Spectrum, seen: ObservationRecord, title: str | None, style: str, size: Size) -> View:
        z = self._decision.z or 0.0
        if seen.window is None:
            return full_view(spectrum, z, title, style, size)
        return zoom_view(spectrum, seen.window, z, title, style, size)

    def _styles(self) -> Iterable[tuple[str, Size]]:
        """(style, size) as the run states them, then what it may have meant: the hash of the view decides."""
        config = self._run.config
        stated, size = config.get("style"), _size(config.get("size"))
        if stated:
            yield str(stated), size
        yield REFERENCE_STYLE, None
        yield COMPACT_STYLE, None

    def _opened(self) -> Spectrum | None:
        if not self._read:
            self._read = True
            file, row = self._decision.file, self._decision.row
            try:
                self._spectrum = self._load(file, row)
                self._problem = "not kept by the run, and the spectrum's file is not there"
            except (OSError, ValueError) as e:
                self._problem = f"not kept by the run, and the spectrum cannot be read again ({e})"
        return self._spectrum


def _size(value: object) -> Size:
    """(width, height) of `448x280`, as `vet_settings` writes it; a name stays one."""
    if not isinstance(value, str):
        return None
    width, _, height = value.partition("x")
    return (int(width), int(height)) if width.isdigit() and height.isdigit() else value
