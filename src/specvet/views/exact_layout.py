"""Where everything of the exact figure lies: matplotlib's arithmetic without its artists.

A figure is laid out three times, as matplotlib does it: with default margins (for `tight_layout`), with tight margins
(for the tight bounding box), and shifted into that box (to draw). Each step repeats matplotlib's floating-point
operations in their order, because sizes and glyph positions are rounded from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specvet.views.exact_text import DPI, Box, TextStyle, text_box
from specvet.views.exact_ticks import NotLaidOutError, Ticks

Matrix = NDArray[np.float64]

TICK_LABEL_X = TextStyle(10.0, "normal", "center", "top")
TICK_LABEL_Y = TextStyle(10.0, "normal", "right", "center_baseline")
OFFSET_X = TextStyle(10.0, "normal", "right", "top")
OFFSET_Y = TextStyle(10.0, "normal", "left", "baseline")
LABEL_X = TextStyle(12.0, "bold", "center", "top")
LABEL_Y = TextStyle(12.0, "bold", "center", "bottom", 90.0)
TITLE = TextStyle(14.0, "bold", "center", "baseline")

X_LABEL, Y_LABEL = "Wavelength (Å)", "Flux"

_DEFAULT_MARGINS = (0.125, 0.11, 0.9, 0.88)
"""left, bottom, right, top: matplotlib's `figure.subplot.*`."""
_PAD_MAJOR, _PAD_MINOR, _PAD_LABEL, _PAD_OFFSET, _PAD_TITLE = 3.5, 3.4, 4.0, 3.0, 20.0
"""Points. matplotlib's `xtick.major.pad`, `xtick.minor.pad`, `axes.labelpad`, OFFSETTEXTPAD; the figure's title pad."""
_TIGHT_PAD = 1.08
"""Font sizes (of 10 pt) around a tight layout."""
_SAVE_PAD = 0.1
"""Inches around a tight bounding box."""


@dataclass(frozen=True, slots=True)
class Placement:
    """All positions for one place of the axes in the figure, pixels, y upwards."""

    axes: Box
    across: Matrix
    """transAxes, 3 x 3."""
    data: Matrix
    """transData, 3 x 3."""
    labels_x: tuple[tuple[float, float], ...]
    labels_y: tuple[tuple[float, float], ...]
    offset_x: tuple[float, float]
    offset_y: tuple[float, float]
    label_x: tuple[float, float]
    label_y: tuple[float, float]
    title: tuple[float, float]


class Content(Protocol):
    """What is to be laid out."""

    limits: Box
    """x low, y low, x high, y high of the view."""
    x: Ticks
    title: str

    def y(self, height: float) -> Ticks:
        """The ticks of the flux axis for axes `height` pixels high."""


def tight_margins(size: tuple[float, float], content: Content) -> tuple[float, float, float, float]:
    """left, bottom, right, top after `tight_layout`, fractions of the figure; `size` in inches."""
    figure = _figure(size)
    position = _position(*_DEFAULT_MARGINS)
    placed, ticks = place(figure, position, content)
    x0, y0, x1, y1 = _union(
        [
            _axis_x(placed, content.x, for_layout=True),
            _axis_y(placed, ticks, for_layout=True),
            placed.axes,
            _narrow_x(text_box(content.title, TITLE, *placed.title)),
            *_outline(placed, content.limits),
        ]
    )
    inverse = np.linalg.inv(figure)
    (fx0, fy0), (fx1, fy1) = _apply(inverse, x0, y0), _apply(inverse, x1, y1)
    font_inches = 10.0 / 72
    pad = _TIGHT_PAD * font_inches
    px0, py0, px1, py1 = position
    left = max(0.0 + (px0 - fx0), 0) + pad / size[0]
    right = max(0.0 + (fx1 - px1), 0) + pad / size[0]
    top = max(0.0 + (fy1 - py1), 0) + pad / size[1]
    bottom = max(0.0 + (py0 - fy0), 0) + pad / size[1]
    if left + right >= 1 or bottom + top >= 1:
        raise NotLaidOutError("margins fill the figure")
    return left, bottom, 1 - right, 1 - top


@dataclass(frozen=True, slots=True)
class Page:
    """The saved picture: pixels, and where its figure and axes lie in it."""

    width: int
    height: int
    figure: Matrix
    """transFigure, 3 x 3, shifted into the tight box."""
    position: Box
    """Of the axes, fractions of the figure."""


def page(size: tuple[float, float], margins: tuple[float, ...], content: Content, info: Any) -> Page:
    """The tight bounding box of the figure and what it becomes; `info(placement)` is the box of the text box."""
    figure = _figure(size)
    position = _position(*margins)
    placed, ticks = place(figure, position, content)
    x0, y0, x1, y1 = _union(
        [
            _axis_x(placed, content.x, for_layout=False),
            _axis_y(placed, ticks, for_layout=False),
            placed.axes,
            text_box(content.title, TITLE, *placed.title),
            *_outline(placed, content.limits),
            info(placed),
        ]
    )
    inverse = np.linalg.inv(np.diag([float(DPI), float(DPI), 1.0]))
    (ix0, iy0), (ix1, iy1) = _apply(inverse, x0, y0), _apply(inverse, x1, y1)
    ix0, iy0, ix1, iy1 = ix0 - _SAVE_PAD, iy0 - _SAVE_PAD, ix1 + _SAVE_PAD, iy1 + _SAVE_PAD
    left, bottom = -(DPI * ix0), -(DPI * iy0)
    # A box from bounds, asked for its bounds: the width comes back with its last bits changed.
    width, height = float(figure[0, 0]), float(figure[1, 1])
    across, up = (left + width) - left, (bottom + height) - bottom
    shifted = np.array([[across, 0.0, left], [0.0, up, bottom], [0.0, 0.0, 1.0]])
    # Truncated, but for 1e-8 px: FigureCanvasBase.get_width_height.
    return Page(int(DPI * (ix1 - ix0) + 1e-8), int(DPI * (iy1 - iy0) + 1e-8), shifted, position)


def place(figure: Matrix, position: Box, content: Content) -> tuple[Placement, Ticks]:
    """Positions of all texts with the axes at `position` of a figure whose transform is `figure`."""
    ax0, ay0 = _apply(figure, position[0], position[1])
    ax1, ay1 = _apply(figure, position[2], position[3])
    across = np.array([[ax1 - ax0, 0.0, ax0], [0.0, ay1 - ay0, ay0], [0.0, 0.0, 1.0]])
    x_low, y_low, x_high, y_high = content.limits
    x_scale, y_scale = 1.0 / (x_high - x_low), 1.0 / (y_high - y_low)
    if x_scale == 0 or y_scale == 0 or not (math.isfinite(x_scale) and math.isfinite(y_scale)):
        raise NotLaidOutError("limits that cannot be scaled")
    limits = np.array([[x_scale, 0.0, -x_low * x_scale], [0.0, y_scale, -y_low * y_scale], [0.0, 0.0, 1.0]])
    data = np.dot(across, limits)
    a, e = float(data[0, 0]), float(data[0, 2])
    b, f = float(data[1, 1]), float(data[1, 2])
    ticks = content.y(ay1 - ay0)

    below = ay0 + DPI * (-1 * _PAD_MAJOR / 72)
    beside = ax0 + DPI * (-1 * _PAD_MAJOR / 72)
    labels_x = tuple((a * loc + e, below) for loc in content.x.major)
    labels_y = tuple((beside, b * loc + f) for loc in ticks.major)
    boxes_x = _label_boxes_x(content.x, labels_x, a, e, ay0)
    boxes_y = _label_boxes_y(ticks, labels_y, b, f, ax0)

    bottom = min([box[1] for box in boxes_x] + [ay0])
    left = min([box[0] for box in boxes_y] + [ax0])
    offset_bottom = min([box[1] for box in boxes_x], default=ay0)
    middle_x, middle_y = (ax1 - ax0) * 0.5 + ax0, (ay1 - ay0) * 0.5 + ay0
    label_x = (middle_x, bottom - _PAD_LABEL * DPI / 72)
    label_y = (left - _PAD_LABEL * DPI / 72, middle_y)
    offset_x = ((ax1 - ax0) * 1.0 + ax0, offset_bottom - _PAD_OFFSET * DPI / 72)
    offset_y = (ax0, ay1 + _PAD_OFFSET * DPI / 72)
    title = _title(content.title, ticks.offset, offset_y, (middle_x, ax0, ay0, ax1, ay1))
    placed = Placement(
        (ax0, ay0, ax1, ay1), across, data, labels_x, labels_y, offset_x, offset_y, label_x, label_y, title
    )
    return placed, ticks


def _title(text: str, offset: str, offset_at: tuple[float, float], at: tuple[float, ...]) -> tuple[float, float]:
    """Above the axes, and above the offset text where they would overlap."""
    middle, _, ay0, _, ay1 = at
    lift = DPI * (_PAD_TITLE / 72)
    y = (ay1 - ay0) * 1.0 + (ay0 + lift)
    top = ay1
    box = text_box(text, TITLE, middle, y)
    if text and offset:
        other = text_box(offset, OFFSET_Y, *offset_at)
        if max(box[0], other[0]) <= min(box[2], other[2]) and max(box[1], other[1]) <= min(box[3], other[3]):
            top = other[3]
    if text and box[1] < top:
        raise NotLaidOutError("a title that has to move")
    return middle, y


def _label_boxes_x(ticks: Ticks, at: tuple[tuple[float, float], ...], a: float, e: float, bottom: float) -> list[Box]:
    boxes = [text_box(text, TICK_LABEL_X, x, y) for text, (x, y) in zip(ticks.labels, at, strict=True)]
    if ticks.minor:  # empty texts: points
        y = bottom + DPI * (-1 * _PAD_MINOR / 72)
        boxes += [(x, y, x + 0, y + 0) for x in (a * ticks.minor[0] + e, a * ticks.minor[-1] + e)]
    return boxes


def _label_boxes_y(ticks: Ticks, at: tuple[tuple[float, float], ...], b: float, f: float, left: float) -> list[Box]:
    boxes = [text_box(text, TICK_LABEL_Y, x, y) for text, (x, y) in zip(ticks.labels, at, strict=True)]
    if ticks.minor:
        x = left + DPI * (-1 * _PAD_MINOR / 72)
        boxes += [(x, y, x + 0, y + 0) for y in (b * ticks.minor[0] + f, b * ticks.minor[-1] + f)]
    return boxes


def _axis_x(placed: Placement, ticks: Ticks, *, for_layout: bool) -> Box:
    label = text_box(X_LABEL, LABEL_X, *placed.label_x)
    a, e = float(placed.data[0, 0]), float(placed.data[0, 2])
    return _union(
        [
            text_box(ticks.offset, OFFSET_X, *placed.offset_x),
            *_label_boxes_x(ticks, placed.labels_x, a, e, placed.axes[1]),
            _narrow_x(label) if for_layout else label,
        ]
    )


def _axis_y(placed: Placement, ticks: Ticks, *, for_layout: bool) -> Box:
    label = text_box(Y_LABEL, LABEL_Y, *placed.label_y)
    b, f = float(placed.data[1, 1]), float(placed.data[1, 2])
    if for_layout:
        y0 = (label[1] + label[3]) / 2 - 0.5
        label = (label[0], y0, label[2], y0 + 1.0)
    return _union(
        [
            text_box(ticks.offset, OFFSET_Y, *placed.offset_y),
            *_label_boxes_y(ticks, placed.labels_y, b, f, placed.axes[0]),
            label,
        ]
    )


def _narrow_x(box: Box) -> Box:
    """A box one pixel wide, so that a long text does not count in a layout."""
    if box[2] <= box[0]:
        return box
    x0 = (box[0] + box[2]) / 2 - 0.5
    return x0, box[1], x0 + 1.0, box[3]


def _outline(placed: Placement, limits: Box) -> list[Box]:
    """The spines and the patch: the axes again, but for the last bits."""
    ax0, ay0, ax1, ay1 = placed.axes
    x0, x1 = ax0, (ax1 - ax0) * 1.0 + ax0
    y0, y1 = ay0, (ay1 - ay0) * 1.0 + ay0
    a, e = float(placed.data[0, 0]), float(placed.data[0, 2])
    b, f = float(placed.data[1, 1]), float(placed.data[1, 2])
    sx0, sx1 = a * limits[0] + e, a * limits[2] + e
    sy0, sy1 = b * limits[1] + f, b * limits[3] + f
    return [(x0, y0, x1, y1), (min(x0, sx0), min(y0, sy0), max(x1, sx1), max(y1, sy1))]


def _union(boxes: list[Box]) -> Box:
    """What holds all boxes; empty texts, which are points, do not count."""
    boxes = [box for box in boxes if box[0] != box[2] or box[1] != box[3]]
    return (
        min(box[0] for box in boxes),
        min(box[1] for box in boxes),
        max(box[2] for box in boxes),
        max(box[3] for box in boxes),
    )


def _figure(size: tuple[float, float]) -> Matrix:
    """transFigure of a figure of `size` inches, 3 x 3."""
    return np.array([[DPI * size[0], 0.0, 0.0], [0.0, DPI * size[1], 0.0], [0.0, 0.0, 1.0]])


def _position(left: float, bottom: float, right: float, top: float) -> Box:
    """The one cell of a 1 x 1 grid, as `GridSpec.get_grid_positions` computes it."""
    return left, top - (top - bottom), left + (right - left), top


def _apply(matrix: NDArray[np.floating[Any]], x: float, y: float) -> tuple[float, float]:
    return (
        float(matrix[0, 0]) * x + float(matrix[0, 1]) * y + float(matrix[0, 2]),
        float(matrix[1, 0]) * x + float(matrix[1, 1]) * y + float(matrix[1, 2]),
    )
