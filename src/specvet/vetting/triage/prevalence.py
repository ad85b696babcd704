"""The share of members in a list, from the evidence of its cases alone.

**Value.** With likelihood ratios r = exp(evidence) the log-likelihood of a prevalence π is Σ log(π r + 1 − π), which is
concave; its maximum is what the EM of Saerens, Latinne & Decaestecker (2002, Neural Computation 14, 21) converges to.

**Interval.** The value trusts the evidence in its tails, which a small calibration set cannot vouch for: among 300
others none may have the evidence that one in 400 has, and in a list of which 0.2 % are members those others are most of
what looks like a member. So the interval uses counts alone. Above a threshold lie a share s of the members, f of the
others and q = π s + (1 − π) f of the list, thus π = (q − f) / (s − f) (Rogan & Gladen 1978, American Journal of
Epidemiology 107, 71). Each of the three shares is known with the error of its own count, and the exact
(Clopper-Pearson) confidence distributions of the three are melded into limits of π (Fay, Proschan & Brittain 2015,
Biometrics 71, 146; for prevalences Bayer, Fay & Graubard 2023, Statistics in Medicine 42, 1822). This is done at the
thresholds that a few shares of the labelled members lie above, with the error probability divided among them
(Bonferroni), and what all allow is the interval. It assumes that the list's members are like the labelled members, and
its others like the labelled others, and nothing of how evidence was made. Where no π fits all thresholds that is wrong;
then all that any of them allows is the interval, and `fits` is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from specvet.vetting.triage.calibration import Floats, TaskCalibration

LEVEL = 0.95
ABOVE = (0.9, 0.6, 0.3)
"""Shares of the labelled members above the thresholds: low ones bound the share of a list from above, high ones, which
few others pass, from below."""
DRAWS = 10_000
"""Of each confidence distribution."""
_BINS = 1_000
"""Evidence is counted in bins of a width of 0.04, so that a list of any length takes the same time."""
_RANGE = 20.0
_STEPS = 40


@dataclass(frozen=True, slots=True)
class Prevalence:
    """Share of members among the scored cases of a list."""

    value: float
    low: float
    high: float
    source: Literal["estimated", "given", "calibration set"]
    cases: int
    """Scored cases that it rests on."""
    fits: bool = True
    """Whether the list can be a mixture of members and others like those of the calibration set."""


def estimate(
    evidence: Floats, task: TaskCalibration, seed: int = 0, decided: npt.NDArray[np.bool_] | None = None
) -> Prevalence:
    """Of a list's evidence, (cases,), finite; 95 % interval. `seed` of its draws.

    `decided` says which cases the policy answered YES or NO, as those are whose evidence the calibration keeps; None:
    all. Where the list holds no case or the calibration set no member or no other, it is that of the calibration set,
    and anything from 0 to 1 is possible.
    """
    members, others = np.array(task.members), np.array(task.others)
    n = int(evidence.size)
    if not n or not members.size or not others.size:
        return Prevalence(task.prior, 0.0, 1.0, "calibration set", n)
    known = evidence if decided is None else evidence[decided]
    rng = np.random.default_rng(seed)
    limits = []
    for share in ABOVE:
        at = members[min(int((1.0 - share) * members.size), members.size - 1)]
        counts = (
            (int((known >= at).sum()), n),
            (int((members >= at).sum()), members.size + task.undecided.get("YES", 0)),
            (int((others >= at).sum()), others.size + task.undecided.get("NO", 0)),
        )
        limits.append(_limits(*counts, error=(1.0 - LEVEL) / len(ABOVE), rng=rng))
    lows, highs = zip(*limits, strict=True)
    low, high = max(lows), min(highs)
    fits = low <= high and high >= 0.0 and low <= 1.0
    if not fits:
        low, high = min(lows), max(highs)
    low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
    least = 0.5 / n  # half a member: a list cannot say that it holds fewer, and ranks must not vanish
    value = min(max(_value(evidence), low, least), max(high, least), 1.0 - least)
    return Prevalence(value, min(low, value), max(high, value), "estimated", n, fits)


Count = tuple[int, int]
"""So many of so many."""


def _limits(
    listed: Count, members: Count, others: Count, *, error: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Melded limits of the prevalence from the counts above one threshold; below 0 or above 1 where none fits."""
    (q_low, q_high), (s_low, s_high), (f_low, f_high) = (_draws(*count, rng) for count in (listed, members, others))
    # A threshold that tells nothing, as in draws with s ≤ f, bounds nothing.
    low = np.divide(q_low - f_high, s_high - f_high, out=np.zeros(DRAWS), where=s_high > f_high)
    high = np.divide(q_high - f_low, s_low - f_low, out=np.ones(DRAWS), where=s_low > f_low)
    return float(np.quantile(low, 0.5 * error)), float(np.quantile(high, 1.0 - 0.5 * error))


def _draws(k: int, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The lower and the upper Clopper-Pearson confidence distribution of a share."""
    low = rng.beta(k, n - k + 1, DRAWS) if k else np.zeros(DRAWS)
    high = rng.beta(k + 1, n - k, DRAWS) if k < n else np.ones(DRAWS)
    return low, high


def _value(evidence: Floats) -> float:
    counts, edges = np.histogram(np.clip(evidence, -_RANGE, _RANGE), bins=_BINS, range=(-_RANGE, _RANGE))
    middles = 0.5 * (edges[1:] + edges[:-1])
    return most_likely(middles[counts > 0], counts[counts > 0].astype(np.float64))


def most_likely(evidence: Floats, weights: Floats) -> float:
    """The prevalence that makes the evidence likeliest, by bisection of the slope of the log-likelihood."""
    excess = np.expm1(np.clip(evidence, -_RANGE, _RANGE))  # r − 1

    def slope(p: float) -> float:
        return float(np.sum(weights * excess / (1.0 + p * excess)))

    if not weights.sum() or slope(0.0) <= 0:
        return 0.0
    if slope(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return 0.5 * (low + high)
