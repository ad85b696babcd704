"""Text of the exact figure: where its lines lie, and its glyphs, both remembered.

matplotlib shapes a text and rasterises its glyphs anew in each figure, though the same few come again and again. Here
both are kept; the arithmetic between them is that of matplotlib 3.11. Metrics, shapes and bitmaps come from the fonts
of the installed version. Everything runs inside `views.reference.drawing`, whose lock keeps threads apart.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

DPI = 80

_LAYOUTS, _SHAPES = 1024, 20_000
_GLYPHS = 30_000
"""Bitmaps at 1/64 px: tick labels, titles and boxes fill some ten thousand, at about 0.4 kB each."""

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels, y upwards."""
Item = tuple[int, int, float, float]
"""A glyph of a line: number of its font, glyph, dx and dy in pixels."""
Metrics = tuple[float, float, float]
"""Width, height and descent of a line in pixels."""


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How a text is set: points, weight, alignment, degrees."""

    size: float
    weight: str
    horizontal: str
    vertical: str
    rotation: float = 0.0


@dataclass(frozen=True, slots=True)
class TextLayout:
    """A text around its own position (0, 0)."""

    box: Box
    lines: tuple[tuple[str, float, float], ...]
    """(line, x, y) of each baseline's start."""
    frame: tuple[float, float, float, float]
    """x, y, width, height of the box that would be drawn around it."""
    style: TextStyle


@lru_cache(maxsize=_LAYOUTS)
def layout(text: str, style: TextStyle) -> TextLayout:
    """`text` laid out about (0, 0), as `matplotlib.text.Text._get_layout` does it, without mathematics."""
    lines = text.split("\n")
    min_ascent, min_descent, gap = _font_heights(style.size, style.weight)
    if len(lines) == 1:
        gap = 0
    widths, ys, y, descent, baseline = [], [], 0.0, 0.0, 0.0
    for line in lines:
        width, height, below = _measured(line, style.size, style.weight)[1] if line else (0.0, 0.0, 0.0)
        ascent = max(height - below, min_ascent) + gap / 2
        descent = max(below, min_descent) + gap / 2
        baseline = ascent - y
        y -= ascent
        widths.append(width)
        ys.append(y)
        y -= descent
    full = max(widths)
    low = ys[-1] - descent
    centred, pushed = style.horizontal == "center", style.horizontal == "right"
    starts = [full / 2 - w / 2 if centred else full - w if pushed else 0.0 for w in widths]
    corners = [_rotated(style.rotation, *corner) for corner in ((0.0, low), (0.0, 0.0), (full, 0.0), (full, low))]
    xs, heights = [corner[0] for corner in corners], [corner[1] for corner in corners]
    x0, y0 = min(xs), min(heights)
    width, height = max(xs) - x0, max(heights) - y0
    if style.rotation:  # anchored: aligned first, turned then
        left, right, bottom, top = 0.0, full, low, 0.0
    else:
        left, right, bottom, top = x0, max(xs), y0, max(heights)
    dx = left if style.horizontal == "left" else right if style.horizontal == "right" else (left + right) / 2
    if style.vertical == "bottom":
        dy = bottom
    elif style.vertical == "top":
        dy = top
    elif style.vertical == "baseline":
        dy = top - baseline if style.rotation else bottom + descent
    else:  # center_baseline
        dy = bottom + height - baseline / 2
    if style.rotation:
        dx, dy = _rotated(style.rotation, dx, dy)
    placed = [_rotated(style.rotation, start, line_y) for start, line_y in zip(starts, ys, strict=True)]
    box_x, box_y = x0 - dx, y0 - dy
    return TextLayout(
        (box_x, box_y, box_x + width, box_y + height),
        tuple((line, x - dx, y - dy) for line, (x, y) in zip(lines, placed, strict=True)),
        (corners[0][0] - dx, corners[0][1] - dy, full, -low),
        style,
    )


def text_box(text: str, style: TextStyle, x: float, y: float) -> Box:
    """What `text` covers at (x, y), pixels; a point where it is empty."""
    if not text:
        return x, y, x + 0, y + 0
    x0, y0, x1, y1 = layout(text, style).box
    return x0 + x, y0 + y, x1 + x, y1 + y


def draw_text(canvas: Any, pen: Any, placed: TextLayout, x: float, y: float) -> None:
    """`placed` with its position at (x, y), onto `canvas`, the C++ renderer of matplotlib."""
    # The arithmetic of RendererAgg._draw_text_glyphs_and_boxes.
    height, style, stamp = canvas.height, placed.style, canvas.agg.draw_text_image
    angle = math.radians(style.rotation)
    cos, sin = math.cos(angle), math.sin(angle)
    for line, line_x, line_y in placed.lines:
        if not line:
            continue
        left, top = line_x + x, height - (line_y + y)
        for font, glyph, dx, dy in _measured(line, style.size, style.weight)[0]:
            column = round(0x40 * (left + dx * cos - dy * sin))
            row = round(0x40 * (height - top + dx * sin + dy * cos))
            bitmap, above, beside = _glyph(font, glyph, style.size, style.rotation, column & 63, row & 63)
            if bitmap is not None:
                stamp(bitmap, beside + (column >> 6), height - (above + (row >> 6)), 0, pen)


_PLAIN = re.compile("[ -~Å−…]*")
"""What is put together from pairs: Latin letters, digits and signs. Another script would end a run of kerning."""
_UNITS = re.compile("ffi|ffl|ff|fi|fl|.")
"""Characters, and those that become one glyph (ligatures of DejaVu Sans)."""
_HEADS = ("λ range: ",)
_NEW_PAIRS = 5
"""With more pairs than these that were never met, shaping the whole line costs less than shaping each."""


@lru_cache(maxsize=_LAYOUTS)
def _measured(line: str, size: float, weight: str) -> tuple[tuple[Item, ...], Metrics]:
    """Glyphs and metrics of a line, put together from pairs of neighbours where that is the same.

    Shaping a line takes a millisecond, and titles and flux ranges are new in every figure. Within Latin text the place
    of a glyph depends on its left neighbour alone, so that pairs, which come again, tell all.
    """
    head = next((known for known in _HEADS if line.startswith(known)), "")
    units = _UNITS.findall(line[len(head) :])
    if not units or not _PLAIN.fullmatch(line, len(head)):
        return _shaped(line, size, weight), _engine_metrics(line, size, weight)
    pairs = list(itertools.pairwise(units))
    unknown = {pair for pair in pairs if (*pair, size, weight) not in _steps}
    if len(unknown) > _NEW_PAIRS and not head:
        found = _shaped(line, size, weight)
        if len(found) == len(units):
            _learn(found, pairs, size, weight)
            return found, _metrics([*units], found[-1][2], units[-1], size, weight)
    items = list(_shaped(head + units[0], size, weight))
    x = items[-1][2]
    for pair in pairs:
        known = _steps.get((*pair, size, weight))
        if known is None:
            shaped = _shaped("".join(pair), size, weight)
            if len(shaped) != 2:
                return _shaped(line, size, weight), _engine_metrics(line, size, weight)
            _learn(shaped, [pair], size, weight)
            known = _steps[(*pair, size, weight)]
        font, glyph, step, dy = known
        x += step
        items.append((font, glyph, x, dy))
    return tuple(items), _metrics([*units, head] if head else units, x, units[-1], size, weight)


_steps: dict[tuple[str, str, float, str], Item] = {}
"""(unit before, unit, size, weight) to the unit's glyph, with dx counted from the unit before."""


def _learn(items: tuple[Item, ...], pairs: list[tuple[str, str]], size: float, weight: str) -> None:
    if len(_steps) > _SHAPES:
        _steps.clear()
    for before, item, pair in zip(items, items[1:], pairs, strict=False):
        _steps[(*pair, size, weight)] = (item[0], item[1], item[2] - before[2], item[3])


def _metrics(units: list[str], start_of_last: float, last: str, size: float, weight: str) -> Metrics:
    parts = [_engine_metrics(unit, size, weight) for unit in set(units)]
    descent = max(part[2] for part in parts)
    ascent = max(part[1] - part[2] for part in parts)
    return start_of_last + _engine_metrics(last, size, weight)[0], ascent + descent, descent


@lru_cache(maxsize=_LAYOUTS)
def _shaped(line: str, size: float, weight: str) -> tuple[Item, ...]:
    """The glyphs of a line by the font engine itself; fonts are numbered as they come."""
    renderer = _renderer()
    found = []
    font = renderer._prepare_font(_font_properties(size, weight))
    for item in font._layout(line, flags=_hinting(), features=None, language=None):
        number = _fonts.setdefault(item.ft_object.fname, len(_fonts))
        found.append((number, item.glyph_index, item.x, item.y))
    return tuple(found)


@lru_cache(maxsize=_SHAPES)
def _engine_metrics(line: str, size: float, weight: str) -> Metrics:
    width, height, descent = _renderer().get_text_width_height_descent(line, _font_properties(size, weight), False)
    return width, height, descent


@cache
def _font_heights(size: float, weight: str) -> Metrics:
    """Ascent, descent and line gap that a line has at least, pixels: `Text._get_layout` of matplotlib 3.11."""
    font = _renderer()._prepare_font(_font_properties(size, weight))
    table = font.get_sfnt_table("OS/2")
    if table is None:
        raise NotImplementedError("a font without OS/2 metrics")
    scale = 1 / font.get_sfnt_table("head")["unitsPerEm"] * size * DPI / 72
    return table["sTypoAscender"] * scale, -table["sTypoDescender"] * scale, table["sTypoLineGap"] * scale


_fonts: dict[str, int] = {}
"""Font files and their numbers."""


@lru_cache(maxsize=_GLYPHS)
def _glyph(number: int, index: int, size: float, degrees: float, column: int, row: int) -> tuple[Any, int, int]:
    """Bitmap (None when blank), how far its bottom lies above the origin's pixel, and its left edge beside it; the
    origin lies `column`/64 and `row`/64 px into that pixel."""
    from matplotlib.ft2font import RenderMode

    font = _font_at(number, size)
    font._set_transform(_turn(degrees), [column, row])
    drawn = font._render_glyph(index, _hinting(), RenderMode.NORMAL)
    bitmap = np.array(drawn.buffer)
    return (bitmap if bitmap.size else None), drawn.top - bitmap.shape[0], drawn.left


@cache
def _font_at(number: int, size: float) -> Any:
    """A font of its own for each size: after a change of size, a font runs its hinting program anew."""
    from matplotlib.ft2font import FT2Font

    path = next(path for path, n in _fonts.items() if n == number)
    make: Any = FT2Font
    font = make(path)
    font.set_size(size, DPI)
    return font


@cache
def _turn(degrees: float) -> list[list[int]]:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    matrix = 0x10000 * np.array([[cos, -sin], [sin, cos]]) @ np.array([[1.0, 0.0], [0.0, 1.0]])
    turned: list[list[int]] = matrix.round().astype(int).tolist()
    return turned


@cache
def _renderer() -> Any:
    from matplotlib.backends import backend_agg

    make: Any = backend_agg.RendererAgg
    return make(1, 1, DPI)


@cache
def _font_properties(size: float, weight: str) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size, weight=weight)


@cache
def _hinting() -> Any:
    from matplotlib.backends import backend_agg

    flag: Any = backend_agg.get_hinting_flag
    return flag()


def _rotated(degrees: float, x: float, y: float) -> tuple[float, float]:
    if degrees == 0:
        return x, y
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return cos * x - sin * y, sin * x + cos * y


if hasattr(os, "register_at_fork"):  # fonts of FreeType may not be used on both sides of a fork
    os.register_at_fork(after_in_child=_font_at.cache_clear)
