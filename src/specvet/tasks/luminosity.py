"""How a task file says what a parallax adds: regions of Gaia's colour-magnitude diagram, and what follows from them.

Colours are BP−RP, magnitudes the absolute M_G, both as observed: interstellar extinction, which makes a star fainter
and redder, is not taken out, so regions leave room for it. A star is in a region, or out of it, only where its whole
error bar is; what straddles an edge decides nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from specvet.tasks.evidence import Strict, Text

MIN_PARALLAX_OVER_ERROR = 5.0
"""Below it 1/ϖ is no distance any more, nor what follows from it (Bailer-Jones 2015, PASP 127, 994)."""

MAX_RUWE = 1.4
"""Above it the model of a single star does not fit the astrometry (Lindegren et al. 2021, A&A 649, A2)."""

Point = tuple[float, float]
"""(BP−RP, M_G), magnitudes."""

Edge = tuple[float, float]
"""(a, b) of the line M_G = a + b · (BP−RP)."""

Decided = Literal["YES", "NO", "UNSURE"]


class Region(Strict):
    """A part of the diagram: a polygon, or what lies within some limits."""

    name: Text
    """`white-dwarf sequence`; rules refer to it."""
    polygon: tuple[Point, ...] = ()
    """Corners, in order; used alone."""
    bp_rp: tuple[float, float] | None = None
    """(bluest, reddest)."""
    fainter_than: Edge | None = None
    """M_G above this line, which fainter stars are."""
    brighter_than: Edge | None = None
    """M_G below this line."""
    source: Text
    """Who says so."""

    @model_validator(mode="after")
    def _bounded(self) -> Region:
        limits = (self.bp_rp, self.fainter_than, self.brighter_than)
        if bool(self.polygon) == any(limit is not None for limit in limits):
            raise ValueError("give either a polygon, or some of bp_rp, fainter_than and brighter_than")
        if self.polygon and len(self.polygon) < 3:
            raise ValueError(f"polygon: {len(self.polygon)} corners; 3 or more are needed")
        if self.bp_rp is not None and not self.bp_rp[0] < self.bp_rp[1]:
            raise ValueError(f"bp_rp: [{self.bp_rp[0]:g}, {self.bp_rp[1]:g}] must be [bluest, reddest]")
        return self

    def holds(self, bp_rp: float, m_g: float) -> bool:
        """Whether a star of this colour and absolute magnitude lies in the region."""
        if self.polygon:
            return _inside(self.polygon, bp_rp, m_g)
        if self.bp_rp is not None and not self.bp_rp[0] <= bp_rp <= self.bp_rp[1]:
            return False
        if self.fainter_than is not None and m_g <= self.fainter_than[0] + self.fainter_than[1] * bp_rp:
            return False
        return self.brighter_than is None or m_g < self.brighter_than[0] + self.brighter_than[1] * bp_rp


class LuminosityRule(Strict):
    """What becomes of an answer from the spectrum where the star's place in the diagram is known."""

    answers: Annotated[tuple[Decided, ...], Field(min_length=1)]
    """Of the spectrum, to which the rule applies."""
    likelier_class: tuple[Text, ...] = ()
    """Only for a NO that names one of these as likelier; empty: for any."""
    region: Text
    where: Literal["inside", "outside"] = "inside"
    becomes: Decided
    why: Text
    """For people, a part of a sentence: `as luminous as a giant`."""


class Luminosity(Strict):
    """What Gaia can add to a verdict: the section `gaia` of a task file."""

    min_parallax_over_error: Annotated[float, Field(gt=0)] = MIN_PARALLAX_OVER_ERROR
    """A parallax below so many of its errors changes nothing."""
    max_ruwe: Annotated[float, Field(gt=0)] = MAX_RUWE
    """A source whose astrometric fit is worse changes nothing."""
    sigmas: Annotated[float, Field(ge=0)] = 2.0
    """Half length, in errors of M_G, of the bar that must lie in a region, or out of it."""
    expected: tuple[Text, ...] = ()
    """Names of the regions where the class is found: drawn as its own."""
    regions: Annotated[tuple[Region, ...], Field(min_length=1)]
    rules: tuple[LuminosityRule, ...] = ()
    """The first that applies counts; where none does, the answer of the spectrum stands."""

    @model_validator(mode="after")
    def _names(self) -> Luminosity:
        names = [region.name for region in self.regions]
        if len(set(names)) != len(names):
            raise ValueError("regions: two have one name; give each its own")
        known = ", ".join(names)
        for name in self.expected:
            if name not in names:
                raise ValueError(f"expected: there is no region `{name}`; there are {known}")
        for i, rule in enumerate(self.rules):
            if rule.region not in names:
                raise ValueError(f"rules[{i}]: there is no region `{rule.region}`; there are {known}")
        return self

    def region(self, name: str) -> Region:
        """The region of that name."""
        return next(region for region in self.regions if region.name == name)


def region_text(region: Region) -> str:
    """`BP−RP −0.8 to 1.7, M_G > 8.333 + 3.333 (BP−RP)`."""
    if region.polygon:
        return "within (BP−RP, M_G) " + " ".join(f"({x:g}, {y:g})" for x, y in region.polygon).replace("-", "−")
    parts = [] if region.bp_rp is None else [f"BP−RP {region.bp_rp[0]:g} to {region.bp_rp[1]:g}"]
    for sign, edge in ((">", region.fainter_than), ("<", region.brighter_than)):
        if edge is not None:
            parts.append(f"M_G {sign} {edge[0]:g}" + (f" {edge[1]:+g} (BP−RP)" if edge[1] else ""))
    return ", ".join(parts).replace("-", "−").replace(" +", " + ")


def _inside(polygon: tuple[Point, ...], x: float, y: float) -> bool:
    """Whether a point lies in a polygon: an odd number of its sides are crossed on the way out."""
    odd = False
    for (x0, y0), (x1, y1) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            odd = not odd
    return odd
