"""Evidence to log-odds: how far measurements speak for a class, each piece shown.

A piece of evidence is worth `yes` log-odds on one side of its threshold, `no` on the other, and nothing at it. How far
it leans follows a logistic curve in (value − threshold) / √(soft² + error²): a measurement that drowns in its error is
worth nothing, and one in a gap, an arm join or a telluric band counts by its quality.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from specvet.records.schema import EvidenceItem, Measurement
from specvet.tasks import Condition, Evidence

CLEAR = 2.5
"""Errors beyond its threshold from which on a measurement is no accident of the noise."""

STEEPNESS = 1.7
"""Makes the logistic curve follow the normal distribution function to within 0.01."""


@dataclass(frozen=True, slots=True)
class Score:
    """What evidence says of one class."""

    log_odds: float
    items: tuple[EvidenceItem, ...]
    """What counted, strongest first."""
    measured: float
    """Share (0-1) of the evidence that can speak for the class, by weight, that could be measured."""
    missing: tuple[str, ...] = ()
    """Names of essential indices that could not be measured."""
    clear: bool = True
    """Whether some evidence for the class stands `CLEAR` of its own errors beyond its threshold."""

    @property
    def p(self) -> float:
        """Probability that goes with the log-odds."""
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, self.log_odds))))


@dataclass(frozen=True, slots=True)
class Weighed:
    """Evidence weighed, before it is put into words."""

    log_odds: float
    counted: tuple[tuple[float, Evidence, Measurement, bool], ...]
    """Log-odds, evidence, measurement and whether it lies on the named side, for each piece or group."""
    measured: float
    missing: tuple[str, ...]
    clear: bool


def weighed(evidence: Iterable[Evidence], prior: float, measured: Mapping[str, Measurement]) -> Weighed:
    """How far `evidence` speaks for a class, with what was `measured` (by index name)."""
    chosen: dict[str | int, tuple[float, Evidence, Measurement, bool]] = {}
    total = seen = 0.0
    missing: list[str] = []
    clear = False
    for i, e in enumerate(evidence):
        # Only what could speak for the class makes a look complete; a veto that could not be cast leaves no gap.
        weight = max(abs(e.yes), abs(e.no)) if e.yes > 0 else 0.0
        total += weight
        measurement = measured.get(e.index)
        if measurement is None or measurement.value is None:
            if e.essential:
                missing.append(measurement.name if measurement else e.index)
            continue
        seen += weight
        gate = fulfilled(e.given, measured) if e.given else 1.0
        side = step(measurement, e.side, e.at, e.soft)
        # One of several ways to be of a class fails when its conditions do; evidence of its own then says nothing.
        met = side * gate if e.group else side
        worth = (1.0 if e.group else gate) * measurement.quality * leaning(met, e.yes, e.no)
        beyond = abs(measurement.value - e.at)
        clear = clear or (worth > 0 and beyond >= CLEAR * (measurement.error or 0.0))
        worth = round(worth, 3)
        group = e.group or i
        if group not in chosen or worth > chosen[group][0]:
            chosen[group] = worth, e, measurement, met >= 0.5
    return Weighed(
        log_odds=prior + sum(c[0] for c in chosen.values()),
        counted=tuple(sorted(chosen.values(), key=lambda c: -abs(c[0]))),
        measured=seen / total if total else 0.0,
        missing=tuple(missing),
        clear=clear,
    )


def score(
    evidence: Iterable[Evidence], prior: float, measured: Mapping[str, Measurement], windows: Mapping[str, str]
) -> Score:
    """Weigh `evidence` with what was `measured` (by index name); `windows` tells in which window each index lies."""
    found = weighed(evidence, prior, measured)
    items = (
        EvidenceItem(
            says=(e.when if shows else e.otherwise) or f"{m.name} {'' if shows else 'not '}{e.side} {e.at:g}",
            window=windows.get(e.index, ""),
            measurement=m,
            log_odds=worth,
        )
        for worth, e, m, shows in found.counted
        if abs(worth) >= 0.05
    )
    return Score(found.log_odds, tuple(items), found.measured, found.missing, found.clear)


def step(measurement: Measurement, side: str, at: float, soft: float) -> float:
    """0-1: how clearly the value lies on the named side of `at`; 0.5 at it, and where the error drowns it."""
    assert measurement.value is not None
    distance = measurement.value - at if side == "above" else at - measurement.value
    x = STEEPNESS * distance / math.hypot(soft, measurement.error or 0.0)
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, x))))


def leaning(side: float, yes: float, no: float) -> float:
    """Log-odds of standing at `side` (0-1): 0 at the threshold, and what `yes` or `no` says at the ends."""
    return yes * (2.0 * side - 1.0) if side >= 0.5 else no * (1.0 - 2.0 * side)


def fulfilled(conditions: Sequence[Condition], measured: Mapping[str, Measurement]) -> float:
    """0-1: how far the weakest condition holds; one that could not be measured counts as half.

    The weakest and not the product: ten conditions that each hold well must not add up to a doubt.
    """
    found = (measured.get(c.index) for c in conditions)
    steps = (
        0.5 if m is None or m.value is None else step(m, c.side, c.at, c.soft)
        for c, m in zip(conditions, found, strict=True)
    )
    return min(steps, default=1.0)
