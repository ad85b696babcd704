"""How well the probability of YES ranks, and how far it can be believed.

- `auroc`: probability that a member has a higher p_yes than another object, ties half (Hanley & McNeil 1982);
- `auprc`: average precision, the precision at each threshold weighted by the recall that it adds;
- `brier`: mean of (p_yes − truth)² (Brier 1950);
- `ece`: expected calibration error of the likelier word (YES at 0.5): how far its confidence max(p, 1 − p) is from how
  often it is right, on average over 15 bins of equal mass (Naeini et al. 2015; Nixon et al. 2019);
- `aurc`: mean risk over all coverages 1/n … 1 (Geifman et al. 2019), questions in the order of max(p, 1 − p), errors
  of what was said.

The first four are of the outcomes with a p_yes. AURC is of all: those answered without a probability come behind, those
without an answer last, as errors. Equal values are never put in an order: thresholds and bins fall between them, and
inside a tie the risk is the mean over all orders.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specvet.evaluation.counts import Sheet, ratio
from specvet.evaluation.intervals import Bools, Floats, Interval, Ints, Resamples, bootstrap

BINS = 15
NOTE = "no answer came with a probability of YES"
_POINTS = 200


def ranking(sheet: Sheet, draws: Resamples) -> dict[str, Any]:
    """The numbers of the table for all outcomes and for each task."""
    known = np.isfinite(sheet.p_yes)
    told: dict[str, Any] = {"all": None, "tasks": {}, "without_p_yes": int((~known).sum()), "note": NOTE}
    if not known.any():
        return told
    tasks = {task: _numbers(sheet, draws, sheet.of(task)) for task in sheet.tasks}
    return told | {"all": _numbers(sheet, draws, np.ones(known.shape, dtype=bool)), "tasks": tasks, "note": ""}


def reliability(sheet: Sheet) -> list[dict[str, Any]]:
    """The bins that `ece` is made of: confidences from `low` to `high`, how many, their mean, the share right."""
    chosen = np.flatnonzero(np.isfinite(sheet.p_yes))
    confidence, right = _likelier(sheet, chosen)
    bins = equal_mass(confidence)
    found = []
    for number in np.unique(bins):
        here = bins == number
        found.append(
            {
                "low": float(confidence[here].min()),
                "high": float(confidence[here].max()),
                "n": int(here.sum()),
                "confidence": float(confidence[here].mean()),
                "accuracy": float(right[here].mean()),
            }
        )
    return found


def risk_coverage(sheet: Sheet) -> dict[str, list[float]] | None:
    """The curve below which `aurc` is the area, at up to 200 coverages; None without any p_yes."""
    if not np.isfinite(sheet.p_yes).any():
        return None
    order, starts = ranked(-_certainty(sheet))
    wrong = (~sheet.right[order]).astype(np.float64)
    ends = np.append(starts[1:], len(order))
    errors = np.concatenate([[0.0], np.cumsum(wrong)])
    places = np.unique(np.linspace(1, len(order), min(_POINTS, len(order))).round().astype(int))
    risk = np.interp(places, np.append(0, ends), errors[np.append(0, ends)]) / places
    return {"coverage": [float(x) for x in places / len(order)], "risk": [float(x) for x in risk]}


def ranked(values: Floats) -> tuple[Ints, Ints]:
    """Rising order of values, and where each run of equal ones starts in it."""
    order = np.argsort(values, kind="stable")
    rises = np.diff(values[order]) > 0
    return order.astype(np.int64), np.flatnonzero(np.append(True, rises)).astype(np.int64)


def equal_mass(values: Floats, bins: int = BINS) -> Ints:
    """Which of `bins` bins of equal mass each value is in: by the middle of its rank among all, so ties stay together.

    Where many are equal, some bins are empty.
    """
    order, starts = ranked(values)
    ends = np.append(starts[1:], len(values))
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.repeat(((starts + ends) / 2 * bins / max(1, len(values))).astype(np.int64), ends - starts)
    return np.minimum(found, bins - 1)


def areas(weights: Floats, yes: Bools, starts: Ints) -> Floats:
    """AUROC and AUPRC: (resamples, 2), NaN where a class is missing (AUPRC: where there is no member).

    `weights` (resamples, outcomes) and `yes` (outcomes,) in rising order of p_yes; ties start at `starts`.
    """
    members = np.add.reduceat(weights * yes, starts, axis=1)
    each = np.add.reduceat(weights, starts, axis=1)
    others = each - members
    hits, shown = members.cumsum(axis=1), each.cumsum(axis=1)
    n, total = hits[:, -1:], shown[:, -1:]
    below = (shown - hits) - others / 2
    # At the threshold of each run all from it upwards say YES.
    tp, said = n - hits + members, total - shown + each
    precision = np.divide(tp, said, out=np.zeros_like(tp), where=said > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        auroc = (members * below).sum(axis=1) / (n * (total - n))[:, 0]
        auprc = (members * precision).sum(axis=1) / n[:, 0]
    return np.stack([auroc, auprc], axis=1)


def risk_area(weights: Floats, wrong: Bools, starts: Ints) -> Floats:
    """AURC: (resamples, 1). As `areas`, but in falling order of confidence; weights are whole numbers.

    Inside a run of m equal confidences with e errors, from coverage W on, the k-th risk is (E + k e/m) / (W + k), and
    their sum is e + (E − W e/m) (H(W + m) − H(W)), H being the harmonic numbers.
    """
    mass = np.add.reduceat(weights, starts, axis=1)
    errors = np.add.reduceat(weights * wrong, starts, axis=1)
    ends = mass.cumsum(axis=1)
    before, failed = ends - mass, errors.cumsum(axis=1) - errors
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(ends[:, -1].max()) + 1))])
    rate = np.divide(errors, mass, out=np.zeros_like(errors), where=mass > 0)
    rises = harmonic[ends.astype(np.int64)] - harmonic[before.astype(np.int64)]
    total = (errors + (failed - rate * before) * rises).sum(axis=1)
    n = ends[:, -1]
    return ratio(total, n)[:, None]


def _numbers(sheet: Sheet, draws: Resamples, here: Bools) -> dict[str, Any] | None:
    known = np.flatnonzero(here & np.isfinite(sheet.p_yes))
    if not known.size:
        return None
    order, starts = ranked(sheet.p_yes[known])
    rising = known[order]
    drawn = draws.each(rising, lambda weights: areas(weights, sheet.yes[rising], starts))
    every = np.flatnonzero(here)
    order, falls = ranked(-_certainty(sheet)[every])
    falling = every[order]
    risks = draws.each(falling, lambda weights: risk_area(weights, ~sheet.right[falling], falls))
    found: dict[str, Any] = {"n": len(known), "auroc": bootstrap(drawn[:, 0]), "auprc": bootstrap(drawn[:, 1])}
    return found | _calibration(sheet, draws, known) | {"aurc": bootstrap(risks[:, 0])}


def _calibration(sheet: Sheet, draws: Resamples, known: Ints) -> dict[str, Interval]:
    """Brier score and ECE, with the bins of the sample.

    Noise makes a sample's ECE too high, and a resample's higher still, by about as much; so the resamples are moved
    to have the sample's ECE as their mean, and the interval says how far chance moves it.
    """
    confidence, right = _likelier(sheet, known)
    bins = equal_mass(confidence)
    columns = np.zeros((len(sheet.yes), BINS + 2))
    columns[known, bins] = confidence - right
    columns[known, BINS] = (sheet.p_yes[known] - sheet.yes[known]) ** 2
    columns[known, BINS + 1] = 1
    sums = draws.sums(columns)
    n = sums[:, -1]
    ece = ratio(np.abs(sums[:, :BINS]).sum(axis=1), n)
    drawn = ece[1:][n[1:] > 0]
    if drawn.size:
        ece[1:] = np.maximum(0, ece[1:] - (drawn.mean() - ece[0]))
    return {"brier": bootstrap(ratio(sums[:, BINS], n)), "ece": bootstrap(ece)}


def _likelier(sheet: Sheet, chosen: Ints) -> tuple[Floats, Floats]:
    """Confidence of the likelier word, and whether it is right."""
    p = sheet.p_yes[chosen]
    right = (p >= 0.5) == sheet.yes[chosen]
    return np.maximum(p, 1 - p), right.astype(np.float64)


def _certainty(sheet: Sheet) -> Floats:
    """What answers are accepted by: max(p, 1 − p), then 0 without a probability, then −1 without an answer.

    Twelve digits, so that p and its complement tie.
    """
    p = np.where(np.isfinite(sheet.p_yes), np.round(np.maximum(sheet.p_yes, 1 - sheet.p_yes), 12), 0.0)
    return np.where(sheet.answered, p, -1.0)
