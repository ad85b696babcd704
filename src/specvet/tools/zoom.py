"""The zoom tool: redraw one window of the spectrum, with the schema and texts the published models were trained on.

In the published mode the text is exactly the published one. Otherwise a second sentence says which frame was drawn and,
where the window reaches beyond the data, what there is; a policy that ignores it loses nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from specvet.spectra import Frame, FrameMode, Join, Spectrum, choose_frame
from specvet.tools.arguments import one_line, plain
from specvet.tools.observation import Observation, WindowData
from specvet.views import REFERENCE_STYLE, Size, View, check_style, full_view, zoom_view

TOOL_NAME = "spectral_visualization_tool"

MIN_POINTS = 5
"""Fewer finite points than this are answered with a text: a line through them would show nothing."""

MAX_LABEL, MAX_SHOWN = 120, 80
"""Characters of an asked label and range that are said back."""


class ZoomTool:
    """Zoom into one spectrum. In comes `{"wavelength_range": [low, high], "label": "…"}` in Å, out comes a view.

    `mode` and `z` choose the frame, see `specvet.spectra.choose_frame`. Rendering is lazy: the observation's view draws
    itself when somebody looks at its pixels, and its `data` hold the numbers for those who measure. `style` and `size`
    choose the figure, see `specvet.views.full_view`; the texts are the same in every style. A frame, a style or a size
    that is none is a ValueError.
    """

    name = TOOL_NAME

    def __init__(
        self,
        spectrum: Spectrum,
        mode: FrameMode = "careful",
        z: float | None = None,
        title: str | None = None,
        deadline_s: float = 30.0,
        style: str = REFERENCE_STYLE,
        size: Size = None,
    ) -> None:
        self.spectrum = spectrum
        self.mode = mode
        self.frame = choose_frame(spectrum, mode, z)
        self.title = title
        self.deadline_s = deadline_s
        self.style = check_style(style, size)
        self.size = size
        self._shifted = shift(spectrum, self.frame)

    def schema(self) -> dict[str, Any]:
        """The published function schema."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": "A tool for visualizing spectral data with wavelength range zooming capabilities.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "wavelength_range": {
                            "type": "array",
                            "items": {"type": "number"},
                            "description": "Wavelength range to focus on [min_wavelength, max_wavelength] in Angstroms",
                        },
                        "label": {
                            "type": "string",
                            "description": "Optional label for the spectral feature being analyzed",
                        },
                    },
                    "required": ["wavelength_range"],
                },
            },
        }

    @cached_property
    def available(self) -> tuple[float, float]:
        """(low, high) in Å of the finite pixels, in the tool's frame; (NaN, NaN) without any."""
        wavelength = self._shifted.wavelength[np.isfinite(self._shifted.flux)]
        return (float(wavelength[0]), float(wavelength[-1])) if wavelength.size else (math.nan, math.nan)

    def opening(self) -> Observation:
        """The whole spectrum, as a question first shows it."""
        if int(np.isfinite(self._shifted.flux).sum()) < MIN_POINTS:
            return Observation(
                "too_few_points", "The spectrum holds fewer than 5 finite points; there is nothing to show."
            )
        low, high = self.available
        text = f"Full spectrum, {low:.1f}-{high:.1f} Å, {self.frame.text}."
        return Observation("view", text, self._view(None), WindowData(self._shifted, self.frame))

    def __call__(self, arguments: Mapping[str, Any]) -> Observation:
        """Draw the asked window, or say why not and what is available. Never raises."""
        given = arguments if isinstance(arguments, Mapping) else {}
        window, label = plain(given.get("wavelength_range")), plain(given.get("label"))
        low, high = self.available
        if math.isnan(low):
            return Observation("too_few_points", "The spectrum holds no finite points; there is nothing to show.")
        asked, problem = _window(window)
        if asked and (asked[1] < low or asked[0] > high):
            asked, problem = None, "it lies outside the data"
        if asked is None:
            return Observation(
                "bad_range" if isinstance(window, list | tuple) else "bad_arguments",
                f"Error: The specified wavelength range {_shown(window)} is invalid or outside the available data "
                f"range [{low:.1f}, {high:.1f}]." + ("" if self.mode == "published" else f" Reason: {problem}."),
            )
        data = self._window(*asked)
        n = int(np.isfinite(data.flux).sum())
        if n < MIN_POINTS:
            return Observation(
                "too_few_points",
                f"The wavelength range {_as_tuple(window)} Å holds {n} data points, too few to draw (at least "
                f"{MIN_POINTS} are needed). Data are available in [{low:.1f}, {high:.1f}] Å; ask for a wider or "
                "another range.",
                data=WindowData(data, self.frame),
            )
        text = f"Generated spectral visualization focused on wavelength range {_as_tuple(window)} Å"
        name = one_line(label, MAX_LABEL) if label else ""
        text += f" for {name}." if name else "."
        if self.mode != "published":
            text += self._remarks(asked, data)
        return Observation("view", text, self._view(asked), WindowData(data, self.frame))

    def _view(self, window: tuple[float, float] | None) -> View:
        spectrum, z = self.spectrum, self.frame.z
        if z <= -1.0:  # published behaviour only; wavelengths are negative then, which a view does not compute
            spectrum, z = self._shifted, 0.0
        if window is None:
            return full_view(spectrum, z, self.title, self.style, self.size)
        return zoom_view(spectrum, window, z, self.title, self.style, self.size)

    def _window(self, low: float, high: float) -> Spectrum:
        s = self._shifted
        inside = slice(int(np.searchsorted(s.wavelength, low)), int(np.searchsorted(s.wavelength, high, "right")))
        return s.replace(
            wavelength=s.wavelength[inside],
            flux=s.flux[inside],
            ivar=None if s.ivar is None else s.ivar[inside],
            mask=None if s.mask is None else s.mask[inside],
            joins=tuple(j for j in s.joins if j.high >= low and j.low <= high),
        )

    def _remarks(self, asked: tuple[float, float], data: Spectrum) -> str:
        """What the published text does not say: what there is, what not to trust, and the frame."""
        text, (low, high) = "", self.available
        if asked[0] < low or asked[1] > high:
            text += f" Data are available only in [{low:.1f}, {high:.1f}] Å."
        if not data.good.any():
            text += " Every pixel here is marked bad (ivar 0): trust nothing in it."
        for join in data.joins:
            text += f" The {join.label} join lies at {join.low:.0f}-{join.high:.0f} Å."
        return f"{text} Wavelengths are in the {self.frame.text}."


def shift(spectrum: Spectrum, frame: Frame) -> Spectrum:
    """`spectrum` with wavelengths and joins divided by 1 + z, and said to be at rest; fluxes as they are."""
    if frame.z == 0.0:
        return spectrum
    factor = 1.0 + frame.z
    ends = [sorted((j.low / factor, j.high / factor)) for j in spectrum.joins]
    # A z below −1 (−9999 in the published mode) turns the order round; the published tool does the same.
    order = slice(None) if factor > 0 else slice(None, None, -1)
    return spectrum.replace(
        wavelength=(spectrum.wavelength / factor)[order],
        flux=spectrum.flux[order],
        ivar=None if spectrum.ivar is None else spectrum.ivar[order],
        mask=None if spectrum.mask is None else spectrum.mask[order],
        joins=tuple(Join(low, high, j.label) for (low, high), j in zip(ends, spectrum.joins, strict=True)),
        frame="rest",
    )


def _window(window: object) -> tuple[tuple[float, float] | None, str]:
    """The asked window in Å, or None and what is wrong with it."""
    if window is None:
        return None, "wavelength_range is missing; give [low, high] in Å"
    if not isinstance(window, list | tuple):
        return None, "wavelength_range must be a list [low, high] in Å"
    if len(window) != 2:
        return None, f"wavelength_range must have exactly two numbers, it has {len(window)}"
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in window):
        return None, "both ends must be numbers, not text"
    try:
        low, high = float(window[0]), float(window[1])
    except OverflowError:
        return None, "both ends must be numbers of a sensible size"
    if not (math.isfinite(low) and math.isfinite(high)):
        return None, "both ends must be finite"
    if low >= high:
        return None, "the first number must be smaller than the second"
    return (low, high), ""


def _as_tuple(window: Any) -> str:
    """The published text prints the range as Python prints a tuple: `(6400, 6700)`."""
    return one_line(repr(tuple(window)), MAX_SHOWN)


def _shown(window: object) -> str:
    """What was asked, cut to a sensible length and on one line."""
    try:
        text = json.dumps(window, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return one_line(window, MAX_SHOWN)
    return one_line(text, MAX_SHOWN)
