"""A small canvas for the figures of problems: lines, arrows, circles and text in grey, as PNG bytes.

A line's ink falls off over one pixel by its distance. Each operation on floats is one IEEE operation of numpy, and
letters are the stored ones of the compact style, so equal drawings give equal bytes under one version of zlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from specvet.views.compact_glyphs import HEIGHT, text_ink, text_width
from specvet.views.png import encode_png

Point = tuple[float, float]


class Canvas:
    """Pixels of a figure; (0, 0) is its upper left corner, y grows downwards."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._ink = np.zeros((height, width))

    def line(self, start: Point, end: Point, thick: float = 1.0, ink: float = 1.0) -> None:
        """A straight line of this width in pixels; `ink` from 0 (nothing) to 1 (black)."""
        pad = thick + 1
        left, right = _span(start[0], end[0], pad, self.width)
        top, bottom = _span(start[1], end[1], pad, self.height)
        if left >= right or top >= bottom:
            return
        x = np.arange(left, right)[None, :] + 0.5
        y = np.arange(top, bottom)[:, None] + 0.5
        dx, dy = end[0] - start[0], end[1] - start[1]
        length2 = dx * dx + dy * dy
        along = ((x - start[0]) * dx + (y - start[1]) * dy) / length2 if length2 else np.zeros((len(y), x.shape[1]))
        along = np.clip(along, 0.0, 1.0)
        off_x, off_y = x - start[0] - along * dx, y - start[1] - along * dy
        self._add(slice(top, bottom), slice(left, right), np.sqrt(off_x * off_x + off_y * off_y), thick, ink)

    def path(self, points: Sequence[Point], thick: float = 1.0, ink: float = 1.0) -> None:
        for start, end in pairwise(points):
            self.line(start, end, thick, ink)

    def dashed(self, start: Point, end: Point, dash: float = 5.0, ink: float = 1.0) -> None:
        dx, dy = end[0] - start[0], end[1] - start[1]
        pieces = max(1, int(float(np.sqrt(dx * dx + dy * dy)) / dash))
        for i in range(0, pieces, 2):
            a, b = i / pieces, min(i + 1, pieces) / pieces
            self.line((start[0] + a * dx, start[1] + a * dy), (start[0] + b * dx, start[1] + b * dy), 1.0, ink)

    def arrow(self, start: Point, end: Point, thick: float = 1.0, head: float = 7.0) -> None:
        """A line with a head at its end."""
        self.line(start, end, thick)
        dx, dy = end[0] - start[0], end[1] - start[1]
        length = float(np.sqrt(dx * dx + dy * dy)) or 1.0
        ux, uy = dx / length, dy / length
        for side in (0.5, -0.5):
            self.line(end, (end[0] - head * (ux + side * uy), end[1] - head * (uy - side * ux)), thick)

    def circle(self, centre: Point, radius: float, thick: float = 1.0, ink: float = 1.0) -> None:
        """A ring; a disc where `thick` is at least twice the radius."""
        pad = radius + thick + 1
        left, right = _span(centre[0], centre[0], pad, self.width)
        top, bottom = _span(centre[1], centre[1], pad, self.height)
        if left >= right or top >= bottom:
            return
        x = np.arange(left, right)[None, :] + 0.5 - centre[0]
        y = np.arange(top, bottom)[:, None] + 0.5 - centre[1]
        self._add(slice(top, bottom), slice(left, right), np.abs(np.sqrt(x * x + y * y) - radius), thick, ink)

    def box(self, left: float, top: float, right: float, bottom: float, thick: float = 1.0) -> None:
        self.path([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], thick)

    def text(self, x: float, y: float, text: str, anchor: str = "m") -> None:
        """One line of text whose middle (`m`), left (`l`) or right (`r`) end is at x and whose middle height is at y;
        it stands on white. It is moved so that all of it is inside."""
        width = text_width(text)
        left = round(x - {"l": 0, "m": width / 2, "r": width}[anchor])
        left = max(0, min(left, self.width - width))
        top = max(0, min(round(y - HEIGHT / 2), self.height - HEIGHT))
        self._ink[top : top + HEIGHT, left : left + width] = text_ink(text)[:, : self.width] / 255.0

    def png(self) -> bytes:
        return encode_png((255 - np.rint(np.clip(self._ink, 0.0, 1.0) * 255)).astype(np.uint8))

    def _add(self, rows: slice, columns: slice, distance: NDArray[np.float64], thick: float, ink: float) -> None:
        new = np.clip(thick / 2 + 0.5 - distance, 0.0, 1.0) * ink
        np.maximum(self._ink[rows, columns], new, out=self._ink[rows, columns])


def _span(a: float, b: float, pad: float, limit: int) -> tuple[int, int]:
    """Pixels between two positions and `pad` around, within the canvas."""
    return max(0, int(min(a, b) - pad)), min(limit, int(max(a, b) + pad) + 1)
