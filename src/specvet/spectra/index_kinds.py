"""What line indices are: four kinds, as data. `specvet.spectra.indices` measures them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from specvet.spectra.lines import in_medium
from specvet.spectra.spectrum import Medium

Range = tuple[float, float]
"""(low, high) in Å."""


@dataclass(frozen=True, slots=True)
class LineIndex:
    """Equivalent width (Å, positive in absorption) of `band` against the continuum between `sides`."""

    key: str
    name: str
    band: Range
    sides: tuple[Range, Range]
    medium: Medium = "air"
    source: str = ""
    """Where band and sides come from; the same for the other kinds."""
    follows: WidthIndex | None = None
    """A velocity that moves band and sides: where it is measured, the line is looked for at that velocity."""
    unit = "Å"

    @property
    def span(self) -> Range:
        """All that must be seen to measure it, Å in `medium`."""
        return span_of((self.band, *self.sides))


@dataclass(frozen=True, slots=True)
class WidthIndex:
    """Width or velocity (km/s) at half maximum of the feature that `line` measures; emission and absorption alike.

    Double peaks count as one feature: the outermost half-maximum crossings are taken, and their middle is its velocity.
    """

    key: str
    name: str
    line: LineIndex
    centre: float
    """Å, in the medium of `line`: where velocities are zero."""
    of: Literal["width", "velocity", "intrinsic"] = "width"
    source: str = ""
    unit = "km/s"

    @property
    def medium(self) -> Medium:
        return self.line.medium

    @property
    def span(self) -> Range:
        return self.line.span


@dataclass(frozen=True, slots=True)
class RatioIndex:
    """Mean flux in `band` over the mean in `reference`: one stretch, or two, interpolated to the band's middle."""

    key: str
    name: str
    band: Range
    reference: tuple[Range, ...]
    medium: Medium = "air"
    source: str = ""
    unit = ""

    @property
    def span(self) -> Range:
        return span_of((self.band, *self.reference))


@dataclass(frozen=True, slots=True)
class FormulaIndex:
    """Arithmetic on other indices: numbers, names, + - * /, brackets, `min(…)`, `max(…)`, `abs(…)`."""

    key: str
    name: str
    formula: str
    unit: str = ""
    source: str = ""


Index = LineIndex | WidthIndex | RatioIndex | FormulaIndex


@functools.lru_cache(maxsize=4096)
def in_band(band: Range, given: Medium, wanted: Medium) -> Range:
    """Both ends of a band (Å) converted from one medium to another."""
    return in_medium(band[0], given, wanted), in_medium(band[1], given, wanted)


def span_of(ranges: Iterable[Range]) -> Range:
    """The stretch that holds all of `ranges`."""
    ranges = list(ranges)
    return min(a for a, _ in ranges), max(b for _, b in ranges)
