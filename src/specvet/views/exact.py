"""The reference figure again, pixel for pixel, many times faster: matplotlib's rasteriser without its artists.

`draw` gives the pixels of `specvet.views.reference.draw`. The lines, glyphs and boxes are drawn by the same C++ code of
the installed matplotlib, in the same order, at the same floating-point positions; what is left out are the artists, of
which matplotlib makes and lays out some hundred, three times, for every figure. What it does not know (mathematics in a
text, a matplotlib whose pixels differ) the reference draws.
"""

from __future__ import annotations

import logging
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specvet.views import exact_layout as lay
from specvet.views import reference
from specvet.views.exact_text import DPI, Box, TextStyle, draw_text, layout, text_box
from specvet.views.exact_ticks import NotLaidOutError, Ticks, ticks_x, ticks_y, view_limits
from specvet.views.png import encode_png

INFO = {
    (right, top): TextStyle(9.0, "normal", "right" if right else "left", "top" if top else "bottom")
    for right in (False, True)
    for top in (False, True)
}
_GREY = 0.6901960784313725  # matplotlib's grid.color, #b0b0b0
_TICK_MAJOR, _TICK_MINOR = (3.5, 0.8), (2.0, 0.6)
"""Length and width of ticks, points."""

VERIFIED = ("3.11.2",)
"""Versions of matplotlib whose pixels are compared by the tests. Any other is compared with itself once a process."""


def draw(
    wavelength: ArrayLike, flux: ArrayLike, *, window: tuple[float, float] | None = None, title: str = "Spectrum"
) -> bytes:
    """The reference figure of a spectrum, or of a window of it, as an RGB PNG: the bytes of `views.reference.draw`.

    Takes about 10 ms instead of 200 to 300, a first figure somewhat more. From any thread, in any process; what is
    remembered between figures (layouts and glyphs) grows to some 40 MB and no further. Arguments, result and errors are
    those of `views.reference.draw`.
    """
    x, y, title = reference.checked(wavelength, flux, window, title)
    with reference.drawing():
        pixels = picture(x, y, zoomed=window is not None, title=title) if same_pixels() else None
        if pixels is None:
            return reference.draw(x, y, window=window, title=title)
    return encode_png(pixels)


def picture(x: NDArray[np.float64], y: NDArray[np.float64], *, zoomed: bool, title: str) -> NDArray[np.uint8] | None:
    """The picture of checked points, shape (height, width, 3); None where only matplotlib itself knows how to draw it.

    Must run inside `views.reference.drawing`.
    """
    try:
        return _Figure(x, y, zoomed=zoomed, title=title).pixels()
    except (NotLaidOutError, NotImplementedError):
        return None


@cache
def same_pixels() -> bool:
    """Whether this module draws what the installed matplotlib draws; otherwise figures are matplotlib's own, slowly.

    For a matplotlib that the tests do not know, two figures are drawn both ways, once in a process.
    """
    import matplotlib as mpl

    if mpl.__version__ in VERIFIED:
        return True
    x = np.linspace(4000.0, 7000.0, 300)
    y = np.sin(x / 40) * np.exp(-(((x - 5500) / 900) ** 2)) * 1e-17
    try:
        same = all(
            encode_png(_Figure(x, y, zoomed=zoomed, title="Spectrum: fits").pixels())
            == reference.draw(x, y, window=(4000.0, 7000.0) if zoomed else None, title="Spectrum: fits")
            for zoomed in (False, True)
        )
    except Exception:  # private parts of another version: whatever they raise, the answer is no
        same = False
    if not same:
        logging.getLogger("specvet").warning(
            "matplotlib %s draws otherwise than %s: figures take some 20 times longer", mpl.__version__, VERIFIED[-1]
        )
    return same


class _Canvas:
    """matplotlib's C++ renderer, white."""

    def __init__(self, width: int, height: int) -> None:
        from matplotlib.backends import backend_agg

        make: Any = backend_agg.RendererAgg
        self.width, self.height = width, height
        self.agg: Any = make(width, height, DPI)._renderer
        self.rgba: NDArray[np.uint8] = np.asarray(self.agg)
        self.rgba[...] = 255


class _Figure:
    """One figure: limits and ticks, then layout, then drawing."""

    def __init__(self, x: NDArray[np.float64], y: NDArray[np.float64], *, zoomed: bool, title: str) -> None:
        self.points = np.column_stack([x, y])
        span = float(x[-1] - x[0])
        self.size = reference.figure_size(span, x.size, zoomed=zoomed)
        y_low, y_high = float(y.min()), float(y.max())
        low, high = view_limits(float(x[0]), float(x[-1]))
        y_limits = view_limits(y_low, y_high)
        self.limits: Box = (low, y_limits[0], high, y_limits[1])
        self.x = ticks_x(low, high, span)
        self.title = title
        self.corner = reference.emptiest_corner(x, y)
        self.info = reference.info_text(x, y_low, y_high)

    def y(self, height: float) -> Ticks:
        return ticks_y(self.limits[1], self.limits[3], height)

    def pixels(self) -> NDArray[np.uint8]:
        page = lay.page(self.size, lay.tight_margins(self.size, self), self, self._info_box)
        placed, flux_ticks = lay.place(page.figure, page.position, self)
        canvas = _Canvas(page.width, page.height)
        self._draw(canvas, placed, flux_ticks)
        rgb = np.empty((page.height, page.width, 3), dtype=np.uint8)
        for channel in range(3):  # three strided copies are seven times faster than one of `[..., :3]`
            rgb[..., channel] = canvas.rgba[..., channel]
        return rgb

    def _info_position(self, placed: lay.Placement) -> tuple[float, float]:
        right, top = self.corner
        ax0, ay0, ax1, ay1 = placed.axes
        return (ax1 - ax0) * (0.98 if right else 0.02) + ax0, (ay1 - ay0) * (0.98 if top else 0.02) + ay0

    def _info_box(self, placed: lay.Placement) -> Box:
        return text_box(self.info, INFO[self.corner], *self._info_position(placed))

    def _draw(self, canvas: _Canvas, placed: lay.Placement, flux_ticks: Ticks) -> None:
        """Everything in matplotlib's order: wavelength axis, flux axis, data, frame, box of text, title."""
        pens, agg = _pens(), canvas.agg
        clip = _bbox(placed.axes)
        for pen in (pens.grid_major, pens.grid_minor, pens.data):
            pen.set_clip_rectangle(clip)
        across, data = placed.across, placed.data
        up = _affine(np.array([data[0], across[1], [0.0, 0.0, 1.0]]))  # x in data, y in axes
        along = _affine(np.array([across[0], data[1], [0.0, 0.0, 1.0]]))

        self._draw_ticks(canvas, self.x, up, vertical=True)
        self._draw_labels(canvas, self.x, lay.TICK_LABEL_X, placed.labels_x)
        self._draw_text(canvas, lay.X_LABEL, lay.LABEL_X, placed.label_x)
        self._draw_text(canvas, self.x.offset, lay.OFFSET_X, placed.offset_x)
        self._draw_ticks(canvas, flux_ticks, along, vertical=False)
        self._draw_labels(canvas, flux_ticks, lay.TICK_LABEL_Y, placed.labels_y)
        self._draw_text(canvas, lay.Y_LABEL, lay.LABEL_Y, placed.label_y)
        self._draw_text(canvas, flux_ticks.offset, lay.OFFSET_Y, placed.offset_y)

        agg.draw_path(pens.data, _path(self.points), _affine(data), None)
        x_low, y_low, x_high, y_high = self.limits
        for side, transform in (
            (((0.0, y_low), (0.0, y_high)), along),
            (((1.0, y_low), (1.0, y_high)), along),
            (((x_low, 0.0), (x_high, 0.0)), up),
            (((x_low, 1.0), (x_high, 1.0)), up),
        ):
            agg.draw_path(pens.spine, _path(np.array(side)), transform, None)
        self._draw_info(canvas, placed, pens)
        self._draw_text(canvas, self.title, lay.TITLE, placed.title)

    def _draw_ticks(self, canvas: _Canvas, ticks: Ticks, transform: Any, *, vertical: bool) -> None:
        pens = _pens()
        for locations, grid, mark, length in (
            (ticks.major, pens.grid_major, pens.tick_major, _TICK_MAJOR[0]),
            (ticks.minor, pens.grid_minor, pens.tick_minor, _TICK_MINOR[0]),
        ):
            if locations:
                canvas.agg.draw_path(grid, _grid(locations, vertical), transform, None)
                shape, scale = _marker(vertical, length)
                places = np.zeros((len(locations), 2))
                places[:, 0 if vertical else 1] = locations
                canvas.agg.draw_markers(mark, shape, scale, _path(places), transform, (0.0, 0.0, 0.0, 1.0))

    def _draw_labels(
        self, canvas: _Canvas, ticks: Ticks, style: TextStyle, positions: tuple[tuple[float, float], ...]
    ) -> None:
        for text, at in zip(ticks.labels, positions, strict=True):
            self._draw_text(canvas, text, style, at)

    def _draw_info(self, canvas: _Canvas, placed: lay.Placement, pens: Any) -> None:
        from matplotlib.patches import BoxStyle
        from matplotlib.transforms import Affine2D

        style = INFO[self.corner]
        x, y = self._info_position(placed)
        found = layout(self.info, style)
        frame_x, frame_y, width, height = found.frame
        outline = BoxStyle.Round(pad=0.3)(0.0, 0.0, width, height, DPI / 72 * style.size)
        where = Affine2D().translate(x + frame_x, y + frame_y)
        canvas.agg.draw_path(pens.box, outline, where, (1.0, 1.0, 1.0, 0.8))
        draw_text(canvas, pens.text, found, x, y)

    def _draw_text(self, canvas: _Canvas, text: str, style: TextStyle, at: tuple[float, float]) -> None:
        if text:
            draw_text(canvas, _pens().text, layout(text, style), *at)


class _Pens:
    """The graphics contexts of every stroke."""

    def __init__(self) -> None:
        grey, black = (_GREY, _GREY, _GREY), (0.0, 0.0, 0.0)
        self.grid_major = _pen((*grey, 0.3), 0.5, "projecting", "round")
        self.grid_minor = _pen((*grey, 0.1), 0.3, "projecting", "round")
        self.tick_major = _pen((*black, 1.0), _TICK_MAJOR[1], "butt", "round", snap=True)
        self.tick_minor = _pen((*black, 1.0), _TICK_MINOR[1], "butt", "round", snap=True)
        self.data = _pen((0.0, 0.0, 1.0, 0.8), 1.0, "projecting", "round")
        self.spine = _pen((*black, 1.0), 0.8, "projecting", "miter")
        self.text = _pen((*black, 1.0), 1.0, "butt", "round")
        self.box = _pen((*black, 0.8), 1.0, "butt", "miter")
        self.box.set_alpha(0.8)


@cache
def _pens() -> _Pens:
    return _Pens()


def _pen(rgba: tuple[float, ...], width: float, cap: str, join: str, *, snap: bool | None = None) -> Any:
    from matplotlib.backend_bases import GraphicsContextBase

    pen: Any = GraphicsContextBase()
    pen.set_foreground(rgba, isRGBA=True)
    pen.set_linewidth(width)
    pen.set_capstyle(cap)
    pen.set_joinstyle(join)
    pen.set_snap(snap)
    return pen


def _grid(locations: tuple[float, ...], vertical: bool) -> Any:
    """All lines of one grid as one path: they share no pixel, so one stroke gives what many would."""
    from matplotlib.path import Path

    n = len(locations)
    vertices = np.zeros((2 * n, 2))
    along, cross = (0, 1) if vertical else (1, 0)
    vertices[0::2, along] = vertices[1::2, along] = locations
    vertices[1::2, cross] = 1.0
    codes = np.tile(np.array([Path.MOVETO, Path.LINETO], dtype=Path.code_type), n)
    path = Path(vertices, codes)
    path.should_simplify = False
    return path


@lru_cache(maxsize=8)
def _marker(vertical: bool, length: float) -> tuple[Any, Any]:
    from matplotlib.transforms import Affine2D

    path = _path(np.array([[-0.0, 0.0], [-0.0, 1.0]] if vertical else [[0.0, 0.0], [1.0, 0.0]]))
    return path, Affine2D().scale(length * DPI / 72)


def _path(vertices: NDArray[np.float64]) -> Any:
    from matplotlib.path import Path

    return Path(vertices)


def _affine(matrix: NDArray[np.float64]) -> Any:
    from matplotlib.transforms import Affine2D

    return Affine2D(matrix)


def _bbox(box: Box) -> Any:
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(*box)
