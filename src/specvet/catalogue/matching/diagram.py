"""The colour-magnitude inset: one star in Gaia's diagram, with the regions of a task, as an SVG that any page may hold.

No script, no style sheet and no ids: text and lines take the colour of the page around them, the rest has colours that
show on light and dark. Lengths are half pixels, as in the other pictures of reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from specvet.catalogue.matching.quantities import luminous
from specvet.catalogue.sighting import Match
from specvet.tasks import Luminosity, Region, Task
from specvet.tasks.luminosity import Point

MAIN_SEQUENCE: tuple[Point, ...] = (
    (-0.12, 0.5), (0.07, 1.3), (0.26, 2.2), (0.49, 2.9), (0.69, 3.9), (0.82, 4.6), (0.98, 5.6), (1.19, 6.2),
    (1.43, 6.9), (1.70, 7.6), (1.84, 8.1), (2.09, 8.8), (2.50, 10.1), (2.94, 11.2), (3.35, 12.5), (4.16, 14.3),
)  # fmt: skip
"""(BP−RP, M_G) of mean dwarfs B9 to M6: Pecaut & Mamajek 2013, ApJS 208, 9, table of 2024."""

GIANT_BRANCH: tuple[Point, ...] = (
    (0.82, 4.0),
    (0.95, 3.3),
    (1.05, 2.3),
    (1.2, 0.6),
    (1.5, -0.7),
    (2.0, -1.6),
    (3.0, -2.0),
)
"""Drawn by hand after Gaia Collaboration, Babusiaux et al. 2018, A&A 616, A10."""

WHITE_DWARFS: tuple[Point, ...] = (
    (-0.5, 9.6),
    (-0.3, 10.5),
    (0.0, 11.6),
    (0.3, 12.6),
    (0.6, 13.5),
    (1.0, 14.6),
    (1.4, 15.5),
)
"""Likewise: mean white dwarfs of 0.6 solar masses."""

WIDTH, HEIGHT = 600, 636
LEFT, RIGHT, TOP, BOTTOM = 84, 590, 16, 556
FONT = 22

OWN, OTHER, STAR = "#1f8a70", "#9a7d2e", "#d1495b"
"""Of the class's own regions, of others, and of the star; each has a contrast of 3 and more on white and on black."""


def cmd_svg(match: Match, task: Task | None = None) -> Markup:
    """A star's place in the colour-magnitude diagram; empty where Gaia gives no colour, or nothing about luminosity.

    `task` shades the regions of its file. A star whose parallax gives only a limit is drawn as an arrow to brighter
    magnitudes.
    """
    gaia = match.gaia
    if gaia is None or gaia.bp_rp is None:
        return Markup("")
    section = task.gaia if task else None
    known = luminous(gaia, section.min_parallax_over_error) if section else luminous(gaia)
    m = known.m_g if known.m_g is not None else known.limit
    if m is None:
        return Markup("")
    above = 1.0 if known.m_g is not None else 4.0  # room for the arrow
    view = _View((min(-1.0, gaia.bp_rp - 0.4), max(4.5, gaia.bp_rp + 0.4)), (max(17.0, m + 1.0), min(-5.0, m - above)))
    shapes, names = _regions(view, section)
    star = _star(view, gaia.bp_rp, known.m_g, known.error, known.limit)
    place = f"M_G = {m:.2f} ± {known.error:.2f}" if known.error is not None else f"M_G brighter than {m:.1f}"
    title = "Gaia colour-magnitude diagram: " + f"{place}, BP−RP = {gaia.bp_rp:.2f}".replace("-", "−")
    height = HEIGHT + 30 * len(names)
    return Markup(
        f'<svg class="cmd" viewBox="0 0 {WIDTH} {height}" width="{WIDTH // 2}" height="{height // 2}" role="img" '
        f'font-family="system-ui, sans-serif"><title>{escape(title)}</title>'
        f"{view.frame()}{shapes}{_sequences(view)}{star}{_legend(names)}</svg>"
    )


class _View:
    """The part of the diagram that is drawn; faint stars are at the bottom."""

    def __init__(self, colour: tuple[float, float], magnitude: tuple[float, float]) -> None:
        self.colour, self.magnitude = colour, magnitude

    def at(self, point: Point) -> Point:
        """Units from the left and the top."""
        (blue, red), (faint, bright) = self.colour, self.magnitude
        x = LEFT + (RIGHT - LEFT) * (point[0] - blue) / (red - blue)
        return x, TOP + (BOTTOM - TOP) * (point[1] - bright) / (faint - bright)

    def points(self, line: Iterable[Point]) -> str:
        """The `points` of a polygon or polyline."""
        return " ".join(f"{x:.0f},{y:.0f}" for x, y in map(self.at, line))

    def clipped(self, region: Region) -> list[Point]:
        """Corners of what can be seen of a region."""
        (blue, red), (faint, bright) = self.colour, self.magnitude
        frame: list[Point] = [(blue, bright), (red, bright), (red, faint), (blue, faint)]
        corners: Sequence[Point] = region.polygon or frame
        sides = [(1.0, 0.0, blue), (-1.0, 0.0, -red), (0.0, 1.0, bright), (0.0, -1.0, -faint)]
        if region.bp_rp is not None:
            sides += [(1.0, 0.0, region.bp_rp[0]), (-1.0, 0.0, -region.bp_rp[1])]
        if region.fainter_than is not None:
            sides.append((-region.fainter_than[1], 1.0, region.fainter_than[0]))
        if region.brighter_than is not None:
            sides.append((region.brighter_than[1], -1.0, -region.brighter_than[0]))
        for side in sides:
            corners = _cut(corners, *side)
        return list(corners)

    def frame(self) -> str:
        """Axes, ticks and their words."""
        out = (
            f'<rect x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}" fill="none" '
            'stroke="currentColor" stroke-width="2"/>'
        )
        for colour in range(math.ceil(self.colour[0]), math.floor(self.colour[1]) + 1):
            x, _ = self.at((colour, 0.0))
            out += _line(x, BOTTOM, x, BOTTOM - 10) + _text(x, BOTTOM + 28, str(colour).replace("-", "−"), "middle")
        step = 5 if self.magnitude[0] - self.magnitude[1] > 12 else 2
        for magnitude in range(math.ceil(self.magnitude[1]), math.floor(self.magnitude[0]) + 1):
            _, y = self.at((0.0, magnitude))
            if magnitude % step == 0:
                out += _line(LEFT, y, LEFT + 10, y) + _text(LEFT - 8, y + 8, str(magnitude).replace("-", "−"), "end")
        out += _text((LEFT + RIGHT) / 2, BOTTOM + 62, "BP − RP (mag)", "middle")
        middle = (TOP + BOTTOM) / 2
        return out + _text(26, middle, "M_G (mag)", "middle", FONT, f'transform="rotate(-90 26 {middle:.0f})"')


def _regions(view: _View, section: Luminosity | None) -> tuple[str, list[tuple[str, str]]]:
    """What is seen of the regions, and the (name, colour) of each."""
    out = ""
    names = []
    for region in section.regions if section else ():
        own = section is not None and region.name in section.expected
        colour = OWN if own else OTHER
        corners = view.clipped(region)
        if len(corners) > 2:
            look = f'fill="{colour}" fill-opacity="{0.28 if own else 0.13}" stroke="{colour}" stroke-width="2"'
            out += f'<polygon points="{view.points(corners)}" {look}/>'
            names.append((region.name, colour))
    return out, names


def _sequences(view: _View) -> str:
    out = ""
    look = 'fill="none" stroke="currentColor" stroke-opacity="0.55" stroke-width="3"'
    for line, label, place, anchor in (
        (MAIN_SEQUENCE, "main sequence", (view.colour[1] - 0.1, 7.2), "end"),
        (GIANT_BRANCH, "giants", (0.35, -2.2), "start"),
        (WHITE_DWARFS, "white dwarfs", (-0.7, 16.4), "start"),
    ):
        out += f'<polyline points="{view.points(line)}" {look}/>'
        out += _text(*view.at(place), label, anchor, 20, 'fill-opacity="0.75"')
    return out


def _star(view: _View, bp_rp: float, m_g: float | None, error: float | None, limit: float | None) -> str:
    if m_g is None:
        assert limit is not None
        x, y = view.at((bp_rp, limit))
        points = f"{x - 9:.0f},{y - 40:.0f} {x + 9:.0f},{y - 40:.0f} {x:.0f},{y - 58:.0f}"
        return (
            _line(x - 14, y, x + 14, y, STAR, 5) + _line(x, y, x, y - 42, STAR, 4)
            + f'<polygon points="{points}" fill="{STAR}"/>'
        )  # fmt: skip
    x, y = view.at((bp_rp, m_g))
    bar = ""
    if error is not None:
        up, down = (min(max(view.at((bp_rp, m_g + s * error))[1], TOP), BOTTOM) for s in (-1, 1))
        bar = _line(x, up, x, down, STAR, 4)
    return bar + f'<circle cx="{x:.1f}" cy="{y:.1f}" r="11" fill="{STAR}" stroke="currentColor" stroke-width="2"/>'


def _legend(names: Iterable[tuple[str, str]]) -> str:
    out = ""
    for i, (name, colour) in enumerate(names):
        y = HEIGHT + 16 + 30 * i
        look = f'fill="{colour}" fill-opacity="0.4" stroke="{colour}"'
        out += f'<rect x="{LEFT}" y="{y - 16}" width="26" height="16" {look}/>'
        out += _text(LEFT + 38, y, name, "start")
    return out


def _line(x0: float, y0: float, x1: float, y1: float, colour: str = "currentColor", width: int = 2) -> str:
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{colour}" stroke-width="{width}" '
        'stroke-linecap="round"/>'
    )


def _text(x: float, y: float, words: str, anchor: str, size: int = FONT, more: str = "") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" fill="currentColor" '
        f"{more}>{escape(words)}</text>"
    )


def _cut(corners: Sequence[Point], a: float, b: float, at_least: float) -> list[Point]:
    """The part of a polygon where a·x + b·y ≥ `at_least` (Sutherland & Hodgman 1974)."""
    kept: list[Point] = []
    for (x0, y0), (x1, y1) in zip((corners[-1], *corners[:-1]) if corners else (), corners, strict=True):
        before, after = a * x0 + b * y0 - at_least, a * x1 + b * y1 - at_least
        if (before >= 0) != (after >= 0):
            share = before / (before - after)
            kept.append((x0 + share * (x1 - x0), y0 + share * (y1 - y0)))
        if after >= 0:
            kept.append((x1, y1))
    return kept
