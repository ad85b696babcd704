"""How a task file says which measurements speak for or against a class.

Each piece of evidence adds to the log-odds of the class: `yes` when the index lies clearly on the stated side of `at`,
`no` when it lies clearly on the other, and nothing at the threshold. How clearly follows a logistic step whose width is
`soft` and the error of the measurement in quadrature: what cannot be measured, or drowns in its error, adds nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator


def _ordered(window: tuple[float, float]) -> tuple[float, float]:
    low, high = window
    if not 0 < low < high:
        raise ValueError(f"[{low:g}, {high:g}] must be [low, high] in Å with 0 < low < high")
    return window


Range = Annotated[tuple[float, float], AfterValidator(_ordered)]
"""(low, high) in Å."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Words for people; never empty."""


class Strict(BaseModel):
    """A misspelt field is an error, not a silent default; infinities and NaN are no thresholds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class IndexDefinition(Strict):
    """A measurement that a task file defines for itself (the built-in ones are listed by `specvet tasks --indices`)."""

    kind: Literal["line", "width", "ratio", "formula"]
    """`line`: equivalent width in Å, positive in absorption; `width`: full width at half maximum of that line in km/s;
    `ratio`: mean flux in `band` over mean flux in `reference`; `formula`: arithmetic on other indices."""
    medium: Literal["air", "vacuum"] = "air"
    """Medium of the wavelengths below."""
    band: Range | None = None
    """Å."""
    reference: tuple[Range, ...] = ()
    """Å. For `line`: the continuum on each side; for `ratio`: one or more stretches that are averaged, or interpolated
    linearly to the middle of `band` when they lie on both sides of it."""
    formula: str = ""
    """For `formula`: numbers, names of indices, + − * / and brackets, `min(…)`, `max(…)`."""
    unit: str = ""
    """Of a `formula`, for people: `Å`, `km/s`; the other kinds have their own."""
    name: str = ""
    """How people write it: `Li I 6708 EW`."""

    @model_validator(mode="after")
    def _complete(self) -> IndexDefinition:
        if self.kind == "formula":
            if not self.formula:
                raise ValueError("formula: a `formula` index needs one, such as `cah2 + cah3`")
        elif self.band is None or not self.reference:
            raise ValueError(f"band, reference: a `{self.kind}` index needs both")
        if self.kind in ("line", "width") and len(self.reference) != 2:
            raise ValueError(f"reference: a `{self.kind}` index needs two continuum ranges, one on each side")
        return self


class Evidence(Strict):
    """One piece of evidence: an index, a threshold, and what each side is worth."""

    index: Text
    """Name of a built-in index or of one in `indices`."""
    side: Literal["above", "below"]
    """Which side of `at` speaks for `yes`."""
    at: float
    """Threshold, in the unit of the index."""
    soft: Annotated[float, Field(gt=0)]
    """Width of the step, in the unit of the index: astrophysical scatter around the threshold."""
    yes: float
    """Log-odds added when the index is clearly on that side."""
    no: float = 0.0
    """Log-odds added when it is clearly on the other side."""
    when: str = ""
    """Says in words what `yes` shows: `Hα in emission`."""
    otherwise: str = ""
    """Says in words what `no` shows."""
    given: tuple[Condition, ...] = ()
    """Counts only as far as all of these hold (each a logistic step too)."""
    group: str = ""
    """Of all evidence with one group name only the strongest for YES counts: ways to be of this class, not sums. In a
    group, `given` belongs to the way: where it fails, the way is worth `no`."""
    essential: bool = False
    """No YES without it: where it cannot be measured, a YES becomes UNSURE."""


class Condition(Strict):
    """Something that must hold before a piece of evidence counts."""

    index: Text
    side: Literal["above", "below"]
    at: float
    soft: Annotated[float, Field(gt=0)]


class Rival(Strict):
    """A class that a NO may name as likelier, with its own evidence."""

    name: Text
    """`M dwarf`."""
    prior: float = 0.0
    evidence: Annotated[tuple[Evidence, ...], Field(min_length=1)]


class Undecidable(Strict):
    """A look that no spectrum can decide: UNSURE, whatever the log-odds (a featureless continuum: DC or BL Lac)."""

    given: Annotated[tuple[Condition, ...], Field(min_length=1)]
    """Holds when all of these do."""
    says: Text
    """Why a person, or other data, must decide."""


Evidence.model_rebuild()
