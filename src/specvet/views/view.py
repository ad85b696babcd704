"""The `View`: one drawn window of a spectrum, described at once and drawn when somebody looks.

Two styles: `spec-o3-reference-1` is the published figure, for experts and for the published models; `compact-1` is the
small drawing of `specvet.views.compact`, for models trained on it.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.records import array_hash, text_hash
from specvet.spectra.lines import TELLURIC_BANDS_AIR, in_medium
from specvet.spectra.spectrum import Medium, Spectrum
from specvet.views import compact, compact_overview
from specvet.views.exact import draw
from specvet.views.points import points
from specvet.views.reference import STYLE

FloatArray = NDArray[np.float64]

STYLES = (STYLE, compact.STYLE)
SHORT = {"reference": STYLE, "compact": compact.STYLE}

Size = str | tuple[int, int] | None
"""Of a compact drawing: `small` (None), `published` or `tiny`, see `specvet.views.compact.SIZES`, or (width, height) in
pixels. None in the reference style, where the size follows from the data."""


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """One window of a spectrum, as an expert and the model see it. Made by `full_view` and `zoom_view`.

    Nothing is drawn before `png` or `size` is asked for, and then once. A view can be pickled; a picture that is
    already drawn travels with it.
    """

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
    style: str = STYLE
    """Which figure it is, by its full name: part of `content_hash`, so that a new look never passes for an old one."""
    pixels: tuple[int, int] | None = None
    """(width, height) of a compact drawing, `small` where not given; None for the reference figure, whose size follows
    from its data."""
    sigma: FloatArray | None = None
    """1σ errors, shape (n_points,), inf at bad pixels; None without, and always in the reference style; read-only."""
    bad: NDArray[np.bool_] | None = None
    """Pixels not to be trusted, shape (n_points,); None in the reference style; read-only."""
    doubtful: tuple[tuple[float, float], ...] = ()
    """Ranges in Å that a compact drawing shades: arm joins and the Earth's air."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "style", check_style(self.style, self.pixels))
        if self.style == compact.STYLE and self.pixels is None:
            object.__setattr__(self, "pixels", compact.chosen_size(None, zoomed=self.window is not None))
        # A copy of exactly what is drawn, frozen: `png` and `content_hash` are computed once and must stay true.
        errors, bad = (self.sigma, self.bad) if self.style == compact.STYLE else (None, None)
        shown = points(self.wavelength, self.flux, self.window, errors, bad)
        for name, array in zip(_ARRAYS, shown, strict=True):
            object.__setattr__(self, name, None if array is None else array.copy())
        self._freeze()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # numpy forgets this flag when it pickles

    def __repr__(self) -> str:
        window = "full" if self.window is None else f"{self.window[0]:g}-{self.window[1]:g} Å"
        return f"<View {self.title!r} {window}: {self.n_points} points, {self.frame}>"

    @cached_property
    def png(self) -> bytes:
        """The figure as an RGB PNG, drawn once; `ValueError` with fewer than 2 points."""
        if self.pixels is not None:
            return compact.draw_compact(
                self.wavelength,
                self.flux,
                window=self.window,
                sigma=self.sigma,
                bad=self.bad,
                doubtful=self.doubtful,
                size=self.pixels,
                title=self.title,
            )
        return draw(self.wavelength, self.flux, window=self.window, title=self.title)

    @property
    def drawn(self) -> bool:
        """Whether `png` is there already."""
        return "png" in self.__dict__

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of `png` in pixels; a reference figure is drawn for it."""
        if self.pixels is not None:
            return self.pixels
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height

    @property
    def n_points(self) -> int:
        """Finite points inside the window."""
        return int(self.wavelength.size)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all that the figure shows, computed without drawing: data (to 1e-5 relative), style, kind, title;
        of a compact drawing also its size, errors, bad pixels and shaded ranges.

        The window's own ends do not count: two windows around the same points are the same picture.
        """
        kind = "full" if self.window is None else "zoom"  # the sizes differ
        parts = [array_hash(self.wavelength, self.flux), self.style, kind, self.title]
        if self.pixels is not None:
            low, high = (self.wavelength[0], self.wavelength[-1]) if self.n_points else (math.inf, -math.inf)
            seen = [(max(a, low), min(b, high)) for a, b in self.doubtful if b >= low and a <= high]
            parts += [f"{self.pixels[0]}x{self.pixels[1]}", array_hash(np.array(seen, dtype=np.float64))]
            parts += ["none" if array is None else array_hash(array) for array in (self.sigma, self.bad)]
            if self.window is None and self.pixels[0] < compact_overview.BELOW:
                parts.append("medians")
        return text_hash("\n".join(parts))

    def keep(self, png: bytes) -> None:
        """Takes `png` as this view's figure, when it was drawn in another process (see `RenderPool`)."""
        self.__dict__["png"] = png

    def _freeze(self) -> None:
        for name in _ARRAYS:
            array = getattr(self, name)
            if array is not None:
                array.setflags(write=False)


_ARRAYS = ("wavelength", "flux", "sigma", "bad")


def check_style(style: str, size: Size = None) -> str:
    """The full name of a style (`reference` and `compact` are short ones).

    Raises ValueError where `style` is unknown or has no such `size`.
    """
    style = SHORT.get(style, style)
    if style not in STYLES:
        raise ValueError(f"style {style!r} is unknown; choose {' or '.join(SHORT)}")
    if style == compact.STYLE:
        compact.chosen_size(size, zoomed=False)
    elif size is not None:
        raise ValueError(f"size = {size} with style {style!r}; only {compact.STYLE} has a size to choose")
    return style


def picture_size(text: str | None) -> Size:
    """A size as it is written: (width, height) of `448x280`; names stay as they are."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*[x×]\s*(\d{1,6})\s*", text or "")
    return (int(match[1]), int(match[2])) if match else text


def full_view(
    spectrum: Spectrum, z: float = 0.0, title: str | None = None, style: str = STYLE, size: Size = None
) -> View:
    """The whole spectrum, at rest wavelength = wavelength / (1 + z).

    Args:
        spectrum: what to draw; its finite points, good or bad, as the published figure does.
        z: redshift to take out; 0 leaves wavelengths as observed, bit for bit.
        title: None for `Spectrum: <file name>`, as the published data have it, or `Spectrum` without a file name; in
            the compact style for none, since a file's name is no evidence.
        style: `reference` (`spec-o3-reference-1`) or `compact` (`compact-1`).
        size: of a compact drawing: `small` (448 x 280 and 308 x 224 pixels, None says the same), `published` (896 x 448
            and 672 x 448), `tiny` (224 x 168 and 252 x 196), or (width, height).

    Returns:
        A view that is not drawn yet. It may hold too few points to draw: see `n_points`.

    Raises:
        ValueError: z is not finite, or z ≤ −1; the style or size is unknown.
    """
    return _view(spectrum, None, z, title, style, size)


def zoom_view(
    spectrum: Spectrum,
    window: tuple[float, float],
    z: float = 0.0,
    title: str | None = None,
    style: str = STYLE,
    size: Size = None,
) -> View:
    """A window of the spectrum, both ends included, at rest wavelength = wavelength / (1 + z).

    Args:
        spectrum: what to draw; its finite points, good or bad, as the published figure does.
        window: (low, high) in Å at rest wavelengths, in the spectrum's medium.
        z: redshift to take out; 0 leaves wavelengths as observed, bit for bit.
        title: None for `Spectrum: <file name>`, as the published data have it, or `Spectrum` without a file name; in
            the compact style for none, since a file's name is no evidence.
        style: `reference` (`spec-o3-reference-1`) or `compact` (`compact-1`).
        size: of a compact drawing: `small` (448 x 280 and 308 x 224 pixels, None says the same), `published` (896 x 448
            and 672 x 448), `tiny` (224 x 168 and 252 x 196), or (width, height).

    Returns:
        A view that is not drawn yet. It may hold too few points to draw: see `n_points`.

    Raises:
        ValueError: z is not finite or z ≤ −1; an end of the window is NaN; low is above high; the style or size is
            unknown.
    """
    return _view(spectrum, window, z, title, style, size)


def _view(
    spectrum: Spectrum, window: tuple[float, float] | None, z: float, title: str | None, style: str, size: Size
) -> View:
    if not math.isfinite(z) or z <= -1:
        raise ValueError(f"z = {z} is no redshift: a finite number above -1 is needed (use 0 where none is known)")
    style = check_style(style, size)
    near = slice(None)
    if window is not None and window[0] <= window[1]:  # of thousands of pixels a zoom needs some dozens
        low, high = (spectrum.wavelength.searchsorted(end * (1.0 + z)) for end in window)
        near = slice(max(0, int(low) - 2), int(high) + 3)
    wavelength = spectrum.wavelength[near] if z == 0 else spectrum.wavelength[near] / (1.0 + z)
    name = Path(spectrum.file).name
    small = style == compact.STYLE
    sigma_of, good = (spectrum.sigma, spectrum.good) if small else (None, None)
    x, y, sigma, bad = points(
        wavelength,
        spectrum.flux[near],
        window,
        None if sigma_of is None else sigma_of[near],
        None if good is None else ~good[near],
    )
    if title is None:
        title = "" if small else f"Spectrum: {name}" if name else "Spectrum"
    where = "all wavelengths" if window is None else f"{window[0]:g}-{window[1]:g} Å"
    return View(
        wavelength=x,
        flux=y,
        title=title,
        window=window,
        caption=f"{spectrum.id or name or 'spectrum'}, {where}, {x.size} points",
        frame=f"rest frame, z = {z:.6f}" if z != 0 else _observed_frame(spectrum.frame),
        style=style,
        pixels=compact.chosen_size(size, zoomed=window is not None) if small else None,
        sigma=sigma,
        bad=bad,
        doubtful=_doubtful(spectrum, z) if small else (),
    )


def _doubtful(spectrum: Spectrum, z: float) -> tuple[tuple[float, float], ...]:
    """Arm joins, and the bands of the Earth's air where its lines have not been moved to an unknown place."""
    ranges = [(join.low, join.high) for join in spectrum.joins]
    if spectrum.frame != "rest":
        ranges += _telluric(spectrum.medium)
    return tuple((low / (1.0 + z), high / (1.0 + z)) for low, high in ranges)


@cache
def _telluric(medium: Medium) -> tuple[tuple[float, float], ...]:
    return tuple((in_medium(low, "air", medium), in_medium(high, "air", medium)) for _, low, high in TELLURIC_BANDS_AIR)


def _observed_frame(frame: str) -> str:
    if frame == "rest":
        return "rest frame"
    return "as observed" if frame == "unknown" else f"as observed, {frame}"
