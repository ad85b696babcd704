"""Drift: how a list differs from the set that its calibration was found on. Promises hold for lists like that set.

Members and others are spread differently, and a list holds another share of members than the calibration set; so the
list is compared with the mixture of both at the list's own prevalence. The distance is that of Kolmogorov and Smirnov,
at the 5 % points that a calibration keeps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from specvet.vetting.triage.calibration import DIGITS, Calibration, Floats, Spread, TaskCalibration, features_of
from specvet.vetting.triage.cases import FEATURES, Case

LARGE = 0.15
"""Distance that matters, whatever the numbers of cases."""
COARSE = 0.05
"""What the 5 % points cannot tell apart."""
RARE = 0.02
"""Share of a list from which on a survey that the calibration set lacks is told."""
NO_MIXTURE = (
    "no share of members makes this list out of members and others like the labelled ones: its prevalence is not known"
)
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
WORDS = {
    "policy": "the log-odds of the policy",
    "votes": "the agreements of the samples",
    "unsure": "the shares of UNSURE",
    "calls": "the numbers of looks",
    "index": "the sums of index evidence",
    "index_sn": "the signal to noise ratios of the indices",
    "snr": "the signal to noise ratios of the spectra",
    "supported": "the numbers of supported claims",
    "contradicted": "the numbers of contradicted claims",
}


def warnings_of(calibration: Calibration, cases: Sequence[Case], prevalence: float) -> list[str]:
    """Of the cases of one calibrated task, in words; empty where they look like the calibration set."""
    scored = [c for c in cases if c.scored]
    if not scored:
        return []
    known = calibration.tasks[scored[0].task]
    told = _surveys(known, scored)
    simulated = sum(c.simulated for c in scored)
    if calibration.simulated and simulated < len(scored):
        whose = "SIMULATED spectra" if calibration.simulated == calibration.cases else "partly SIMULATED spectra"
        told.append(f"the calibration set is of {whose}, this list is not: nothing promised of one holds for the other")
    values = features_of(scored)
    members = sum(known.undecided.values()) + len(known.members) + len(known.others)
    far = []
    for feature in calibration.features:
        x = values[:, FEATURES.index(feature.name)]
        x = x[np.isfinite(x)]
        spread = known.spread.get(feature.name, {})
        if not x.size:
            far.append((1.0, f"{WORDS[feature.name]} are not known here, and the calibration rests on them"))
            continue
        distance = _distance(spread, x, prevalence)
        # 95 % point of the distance between two samples of one distribution.
        noise = 1.36 * math.sqrt(1.0 / x.size + 1.0 / max(members, 1))
        if distance is not None and distance > max(LARGE, COARSE + noise):
            here, there = float(np.median(x)), _middle(spread, prevalence)
            if feature.name == "snr":  # kept as decimal logarithm
                here, there = 10.0**here, 10.0**there
            medians = f"median {here:.3g}, in the calibration set {there:.3g}"
            text = f"{WORDS[feature.name]} are spread differently (distance {distance:.2f}; {medians})"
            far.append((distance, text))
    return told + [text for _, text in sorted(far, reverse=True)]


def _surveys(known: TaskCalibration, cases: Sequence[Case]) -> list[str]:
    counts = Counter(c.survey or "unknown" for c in cases)
    return [
        f"{n:,} of {len(cases):,} cases are of {survey}, of which the calibration set has none"
        for survey, n in counts.most_common()
        if survey not in known.surveys and n > RARE * len(cases)
    ]


def _distance(spread: Spread, x: Floats, prevalence: float) -> float | None:
    """Largest difference of the two distribution functions, at the points of the mixture; ties count half."""
    points = _points(spread)
    if not points.size:
        return None
    expected = np.stack([_mixture(spread, points, prevalence, side) for side in SIDES])
    x = np.sort(np.round(x, DIGITS))  # as the points are, so that what was equal still is
    found = np.stack([np.searchsorted(x, points, side=side) / x.size for side in SIDES])
    return float(np.abs(expected.mean(axis=0) - found.mean(axis=0)).max())


def _points(spread: Spread) -> Floats:
    return np.unique(np.concatenate([np.zeros(0), *(np.array(points) for points in spread.values())]))


def _mixture(spread: Spread, at: Floats, prevalence: float, side: Side) -> Floats:
    parts = [(prevalence, spread.get("YES", ())), (1 - prevalence, spread.get("NO", ()))]
    known = [(weight, np.array(points)) for weight, points in parts if points]
    total = sum(weight for weight, _ in known) or 1.0
    return np.asarray(sum(weight / total * _below(points, at, side) for weight, points in known))


def _below(points: Floats, at: Floats, side: Side) -> Floats:
    """Share below (left) or not above (right) each value, linear between the points that a calibration keeps."""
    # Points may be equal, as of a feature that is mostly 0: the gap that a value lies in has a width all the same.
    upper = np.clip(np.searchsorted(points, at, side=side), 1, points.size - 1)
    low, high = points[upper - 1], points[upper]
    inside = np.divide(at - low, high - low, out=np.ones_like(at), where=high > low)
    shares = (upper - 1 + np.clip(inside, 0.0, 1.0)) / (points.size - 1)
    if side == "left":
        return np.where(at <= points[0], 0.0, np.where(at > points[-1], 1.0, shares))
    return np.where(at < points[0], 0.0, np.where(at >= points[-1], 1.0, shares))


def _middle(spread: Spread, prevalence: float) -> float:
    points = _points(spread)
    return float(points[np.searchsorted(_mixture(spread, points, prevalence, "right"), 0.5)])
