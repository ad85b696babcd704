"""Which features a task's evidence expects of its class, which it takes against it, and which it does not speak of.

A feature is *there* when its line absorbs or emits, or its band or edge lowers the flux. Evidence whose named side is
the feature's being there expects it where `yes` is positive and takes it against the class where `yes` is negative;
evidence whose other side is its being there takes it against the class where `no` is negative ("Na I 8190 strong").
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specvet.data.teacher.plans import NEAR, Plan
from specvet.policies.scoring import Weighed, fulfilled
from specvet.records.schema import Measurement
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, RatioIndex, WidthIndex, in_band
from specvet.tasks import Condition, Evidence

COUNTS = 0.5
"""Log-odds from which on evidence is worth naming."""

LEADS = 0.9
"""Share of the largest `yes` from which on evidence is what matters most. Evidence under a condition of its own only
refines another's and never leads; in a group, conditions belong to the way."""

MET = 0.5
"""How far (0-1) the conditions of a piece of evidence must be known to hold before it is expected."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Keys of quantities by what their being there says of the class. Made by `expected_of`."""

    leading: frozenset[str]
    """Speak most for it."""
    counting: frozenset[str]
    """Speak for it, in one of its forms at least."""
    required: frozenset[str]
    """Speak against it when they are missing."""
    against: frozenset[str]
    """Speak against it, or for a rival, and not for it."""
    of: Mapping[int, frozenset[str]]
    """What each piece of evidence (by its place in the plan) expects."""

    def now(self, plan: Plan, belief: Weighed, seen: Mapping[str, Measurement]) -> frozenset[str]:
        """What a belief in the class expects: of a group the way that has shown itself, none before one has."""
        shown = {id(e) for worth, e, _, shows in belief.counted if e.group and worth > 0 and shows}
        found: set[str] = set()
        for i, e in enumerate(plan.evidence):
            holds = id(e) in shown if e.group else not e.given or fulfilled(e.given, seen) > MET
            if holds:
                found |= self.of[i]
        return frozenset(found)


@functools.lru_cache(maxsize=64)
def expected_of(plan: Plan) -> Expected:
    """What the evidence of a task, or the features that stand in for it, expects."""
    of: dict[int, frozenset[str]] = {}
    required: set[str] = set()
    against: set[str] = set()
    leading: set[str] = set()
    most = max((e.yes for e in plan.evidence if not e.given or e.group), default=0.0)
    for i, e in enumerate(plan.evidence):
        there = _there(plan.indices[e.index], e, plan)
        for_it = frozenset[str]()
        if e.yes >= COUNTS:
            named = {e.index} if there else set()
            conditions = {c.index for c in e.given if e.group and _there(plan.indices[c.index], c, plan)}
            for_it = _with_parts(plan, named | conditions)
        of[i] = for_it
        if e.yes >= LEADS * most and for_it and (not e.given or e.group):
            leading |= for_it
        if there and e.no <= -2.0 * COUNTS and not e.group:
            required |= _with_parts(plan, {e.index})
        elif e.no <= -COUNTS and _there(plan.indices[e.index], e, plan, other=True):
            against |= _with_parts(plan, {e.index})
        if e.yes <= -COUNTS and _there(plan.indices[e.index], e, plan, other=True):
            required |= _with_parts(plan, {e.index})  # "no TiO 5448"
        elif e.yes <= -COUNTS:
            against |= _with_parts(plan, {e.index})
    for rival in plan.rivals:
        named = {e.index for e in rival.evidence if e.yes >= COUNTS and _there(plan.indices[e.index], e, plan)}
        against |= _with_parts(plan, named)
    counting = frozenset().union(*of.values())
    return Expected(frozenset(leading), counting, frozenset(required), frozenset(against) - counting - required, of)


def _there(index: Index, e: Evidence | Condition, plan: Plan, other: bool = False) -> bool:
    """Whether the named side (or the `other`) of a threshold is a feature's being there."""
    above = (e.side == "above") != other
    if isinstance(index, WidthIndex):
        return above
    if isinstance(index, LineIndex) or index.unit == "Å":
        return e.at > 0 if above else e.at < 0
    parts = [index] if isinstance(index, RatioIndex) else [plan.indices[key] for key in plan.parts[index.key]]
    return not above and e.at < 1.0 and all(isinstance(part, RatioIndex) for part in parts)


def _with_parts(plan: Plan, keys: Iterable[str]) -> frozenset[str]:
    """Quantities with what they rest on, and all that measures the same lines: with wings or without, and widths."""
    found = set(keys)
    for key in list(found):
        found |= plan.parts[key]
    places = {at for key in found if (at := _place(plan.indices[key])) is not None}
    same = {
        key for key in plan.asked
        if (at := _place(plan.indices[key])) is not None and any(abs(at - place) <= NEAR for place in places)
    }  # fmt: skip
    return frozenset(found | same)


def _place(index: Index) -> float | None:
    """Middle of a line's band, Å in air; None for what is no line."""
    line = index.line if isinstance(index, WidthIndex) else index
    if isinstance(line, RatioIndex | FormulaIndex):
        return None
    return 0.5 * sum(in_band(line.band, line.medium, "air"))
