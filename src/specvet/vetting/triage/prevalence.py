"""The share of members in a list, from the evidence of its cases alone.

With likelihood ratios r = exp(evidence) the log-likelihood of a prevalence π is Σ log(π r + 1 − π), which is concave;
its maximum is what the EM of Saerens, Latinne & Decaestecker (2002, Neural Computation 14, 21) converges to. Its
interval is a bootstrap of both sides: the list's cases are drawn anew, and so are those of the calibration set, from
which the scale and the offset of the evidence are fitted again, since a calibration of a few hundred cases is not exact
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from specvet.vetting.triage.calibration import Floats, TaskCalibration

REPLICATES = 200
LEVEL = 0.95
_BINS = 1_000
"""Evidence is counted in bins of a width of 0.04, so that a list of any length takes the same time."""
_RANGE = 20.0
_STEPS = 40
_RIDGE = 1.0
"""Weight that holds the refitted scale near 1, in units of an observation's information."""


@dataclass(frozen=True, slots=True)
class Prevalence:
    """Share of members among the scored cases of a list."""

    value: float
    low: float
    high: float
    source: Literal["estimated", "given", "calibration set"]
    cases: int
    """Scored cases that it rests on."""


def estimate(evidence: Floats, task: TaskCalibration, seed: int = 0, replicates: int = REPLICATES) -> Prevalence:
    """Of a list's evidence, (cases,), finite; 95 % interval. `seed` of the bootstrap.

    Where the list holds no case or the calibration set no member or no other, it is that of the calibration set, and
    anything from 0 to 1 is possible.
    """
    members, others = np.array(task.members), np.array(task.others)
    if not evidence.size or not members.size or not others.size:
        return Prevalence(task.prior, 0.0, 1.0, "calibration set", int(evidence.size))
    counts, edges = np.histogram(np.clip(evidence, -_RANGE, _RANGE), bins=_BINS, range=(-_RANGE, _RANGE))
    middles = 0.5 * (edges[1:] + edges[:-1])[counts > 0]
    counts = counts[counts > 0]
    least = 0.5 / evidence.size  # half a member: a list cannot say that it holds fewer, and ranks must not vanish
    value = min(max(most_likely(middles, counts.astype(np.float64)), least), 1.0 - least)
    rng = np.random.default_rng(seed)
    drawn = []
    n = int(counts.sum())
    for _ in range(replicates):
        weights = rng.multinomial(n, counts / n).astype(np.float64)
        again_yes = rng.choice(members, members.size)
        again_no = rng.choice(others, others.size)
        scale, offset = _refitted(again_yes, again_no)
        drawn.append(most_likely(scale * middles + offset, weights))
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(drawn, (tail, 100 - tail)) if drawn else (0.0, 1.0)
    return Prevalence(value, min(float(low), value), max(float(high), value), "estimated", n)


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


def _refitted(members: Floats, others: Floats) -> tuple[float, float]:
    """Scale and offset by which the evidence of these would be evidence: a logistic fit with equal class weights.

    A few steps of Newton from (1, 0), held near it where the classes are apart.
    """
    x = np.concatenate([members, others])
    y = np.concatenate([np.ones(members.size), np.zeros(others.size)])
    w = np.concatenate([np.full(members.size, 0.5 / members.size), np.full(others.size, 0.5 / others.size)]) * x.size
    beta = np.array([1.0, 0.0])
    design = np.stack([x, np.ones_like(x)], axis=1)
    for _ in range(6):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (w * (y - p)) - _RIDGE * (beta - (1.0, 0.0))
        curvature = (design * (w * p * (1 - p))[:, None]).T @ design + _RIDGE * np.eye(2)
        beta = beta + np.linalg.solve(curvature, gradient)
    return float(np.clip(beta[0], 0.2, 5.0)), float(beta[1])
