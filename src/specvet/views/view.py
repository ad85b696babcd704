"""The `View`: one drawn window of a spectrum, described at once and drawn when somebody looks."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from specvet.records import array_hash, text_hash
from specvet.spectra.spectrum import Spectrum
from specvet.views.reference import STYLE, draw, drawable

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """One window of a spectrum, as an expert and the model see it. Made by `full_view` and `zoom_view`.

    Nothing is drawn before `png` or `size` is asked for, and then once. A view can be pickled; a picture that is
    already drawn travels with it.
    """

    style: ClassVar[str] = STYLE
    """Which figure it is: part of `content_hash`, so that a new look never passes for an old one."""

    wavelength: FloatArray
    """Å, shape (n_points,), sorted, in the frame `frame`; read-only."""
    flux: FloatArray
    """In the spectrum's unit, shape (n_points,), finite; read-only."""
    title: str = "Spectrum"
    window: tuple[float, float] | None = None
    """(low, high) in Å as it was asked for, in the frame `frame`; None for a full view."""
    caption: str = ""
    """One line for people: which spectrum, which window, how many points."""
    frame: str = ""
    """Frame of the wavelengths, for people: `rest frame, z = 0.001230` or `as observed, heliocentric`."""

    def __post_init__(self) -> None:
        # A copy of exactly what is drawn, frozen: `png` and `content_hash` are computed once and must stay true.
        wavelength, flux = drawable(self.wavelength, self.flux, self.window)
        object.__setattr__(self, "wavelength", wavelength)
        object.__setattr__(self, "flux", flux)
        self._freeze()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # numpy forgets this flag when it pickles

    def __repr__(self) -> str:
        window = "full" if self.window is None else f"{self.window[0]:g}-{self.window[1]:g} Å"
        return f"<View {self.title!r} {window}: {self.n_points} points, {self.frame}>"

    @cached_property
    def png(self) -> bytes:
        """The figure as an RGB PNG; `ValueError` with fewer than 2 points. Takes a few tenths of a second, once."""
        return draw(self.wavelength, self.flux, window=self.window, title=self.title)

    @property
    def drawn(self) -> bool:
        """Whether `png` is there already."""
        return "png" in self.__dict__

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of `png` in pixels, read from its header."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height

    @property
    def n_points(self) -> int:
        """Finite points inside the window."""
        return int(self.wavelength.size)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all that the figure shows, computed without drawing: data (to 1e-5 relative), style, kind, title.

        The window's own ends do not count: two windows around the same points are the same picture.
        """
        kind = "full" if self.window is None else "zoom"  # the sizes differ
        return text_hash("\n".join((array_hash(self.wavelength, self.flux), self.style, kind, self.title)))

    def keep(self, png: bytes) -> None:
        """Takes `png` as this view's figure, when it was drawn in another process (see `RenderPool`)."""
        self.__dict__["png"] = png

    def _freeze(self) -> None:
        self.wavelength.setflags(write=False)
        self.flux.setflags(write=False)


def full_view(spectrum: Spectrum, z: float = 0.0, title: str | None = None) -> View:
    """The whole spectrum, at rest wavelength = wavelength / (1 + z).

    Args:
        spectrum: what to draw; its finite points, good or bad, as the published figure does.
        z: redshift to take out; 0 leaves wavelengths as observed, bit for bit.
        title: None for `Spectrum: <file name>`, as the published data have it, or `Spectrum` without a file name.

    Returns:
        A view that is not drawn yet. It may hold too few points to draw: see `n_points`.

    Raises:
        ValueError: z is not finite, or z ≤ −1.
    """
    return _view(spectrum, None, z, title)


def zoom_view(spectrum: Spectrum, window: tuple[float, float], z: float = 0.0, title: str | None = None) -> View:
    """A window of the spectrum, both ends included, at rest wavelength = wavelength / (1 + z).

    Args:
        spectrum: what to draw; its finite points, good or bad, as the published figure does.
        window: (low, high) in Å at rest wavelengths, in the spectrum's medium.
        z: redshift to take out; 0 leaves wavelengths as observed, bit for bit.
        title: None for `Spectrum: <file name>`, as the published data have it, or `Spectrum` without a file name.

    Returns:
        A view that is not drawn yet. It may hold too few points to draw: see `n_points`.

    Raises:
        ValueError: z is not finite or z ≤ −1; an end of the window is NaN; low is above high.
    """
    return _view(spectrum, window, z, title)


def _view(spectrum: Spectrum, window: tuple[float, float] | None, z: float, title: str | None) -> View:
    if not math.isfinite(z) or z <= -1:
        raise ValueError(f"z = {z} is no redshift: a finite number above -1 is needed (use 0 where none is known)")
    wavelength = spectrum.wavelength if z == 0 else spectrum.wavelength / (1.0 + z)
    name = Path(spectrum.file).name
    x, y = drawable(wavelength, spectrum.flux, window)
    where = "all wavelengths" if window is None else f"{window[0]:g}-{window[1]:g} Å"
    return View(
        wavelength=x,
        flux=y,
        title=title if title is not None else (f"Spectrum: {name}" if name else "Spectrum"),
        window=window,
        caption=f"{spectrum.id or name or 'spectrum'}, {where}, {x.size} points",
        frame=f"rest frame, z = {z:.6f}" if z != 0 else _observed_frame(spectrum.frame),
    )


def _observed_frame(frame: str) -> str:
    if frame == "rest":
        return "rest frame"
    return "as observed" if frame == "unknown" else f"as observed, {frame}"
