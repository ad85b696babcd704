"""A `Claim`: one thing that a trajectory says of a feature, and what the spectrum says to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from specvet.records.schema import Measurement

State = Literal["supported", "contradicted", "not measurable"]

Says = Literal[
    "emission", "absorption", "no emission", "no absorption", "present", "absent", "strong", "broad", "narrow", "value",
    "reading",
]  # fmt: skip
"""What is claimed of the feature; `value` only gives a number, `reading` repeats a phrase of the task's evidence."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, checked."""

    turn: int
    """Which turn of the trajectory, from 1; the verdict's reason belongs to the last."""
    in_answer: bool
    """It stands in the verdict's reason, not in a thought."""
    text: str
    """The words."""
    feature: str
    """As people call it: `Hα`, `C2 5165`."""
    says: Says
    stated: float | None
    """The number that is given with it, in `unit`; widths of emission are negative."""
    unit: str
    state: State
    measured: Measurement | None
    """What decided; None where no index measures the feature."""
    window: tuple[float, float] | None
    """Å: the last window that had been shown and holds it; None for the whole view."""
    why: str
    """The comparison in words: `EW −12.3 ± 0.4 Å`, `stated 30 Å, measured 12.3 ± 0.4 Å`."""

    def as_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "turn": self.turn,
            "in_answer": self.in_answer,
            "text": self.text,
            "feature": self.feature,
            "says": self.says,
            "stated": self.stated,
            "unit": self.unit,
            "state": self.state,
            "measured": None if self.measured is None else self.measured.model_dump(mode="json"),
            "window": self.window,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class ClaimCounts:
    """How many claims of a trajectory came out how."""

    supported: int = 0
    contradicted: int = 0
    not_measurable: int = 0

    @property
    def all(self) -> int:
        return self.supported + self.contradicted + self.not_measurable


def counted(claims: Iterable[Claim]) -> ClaimCounts:
    """The claims by state; one that is said twice of a feature counts once."""
    states: dict[tuple[str, str, float | None], State] = {}
    for claim in claims:
        states.setdefault((claim.feature, claim.says, claim.stated), claim.state)
    of = list(states.values())
    return ClaimCounts(of.count("supported"), of.count("contradicted"), of.count("not measurable"))
