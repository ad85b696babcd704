"""Finds a `Calibration` from labelled cases, with scikit-learn.

    scale the features → one logistic model for all tasks, from which each may depart → a monotone curve where there
    are cases enough → evidence of every case by models that had not seen its object

**One model for all.** The design holds every column twice: once for all tasks, once for the case's own, the second
scaled down. With one ridge penalty on everything a task then departs from the others as far as its own cases carry it;
with few members it stays near the pooled weights (Daumé 2007, arXiv:0907.1815).

**Monotone.** Where a task (or else all together) has cases enough, the out-of-fold log-odds are mapped by an isotonic
fit, interpolated between the centres of its steps (Oron & Flournoy 2017, Statistics in Biopharmaceutical Research 9,
258), so that what differs stays different. With fewer cases than `CURVE`, or where cross-fitted curves do not lower the
log loss, the logistic model stands: isotonic fits of few cases are worse than none (Niculescu-Mizil & Caruana 2005,
ICML).

**Cross-fitting.** Objects, with all their spectra and tasks, are dealt into folds. What is kept of the calibration set
(evidence, numbers) comes from models and curves of the other folds; what is applied is fitted to all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from specvet.records.receipt import versions
from specvet.vetting.triage.calibration import (
    DIGITS,
    Calibration,
    Feature,
    Floats,
    Spread,
    TaskCalibration,
    TriageError,
    Weights,
    features_of,
    log_odds_of,
    mapped,
    scaled,
)
from specvet.vetting.triage.cases import DECIDED, FEATURES, Case
from specvet.vetting.triage.folds import fold_of
from specvet.vetting.triage.numbers import fit_and_rank, reliability

Bools = npt.NDArray[np.bool_]

STRENGTH = 1.0
"""scikit-learn's C: the inverse variance of a weight before any case is seen."""
OWN = 0.5
"""Scale of a task's own columns: half the spread that the pooled weights have."""
OWN_LEVEL = 3.0
"""Scale of a task's own intercept, which says how common its members are and may be anything."""
CURVE = 1_000, 100
"""Cases, and members and others each, from which on a monotone curve is fitted."""
FEWEST = 3
"""Members and others that a task needs to be calibrated at all."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A case and its truth."""

    case: Case
    yes: bool
    object_id: str
    """What must not be on both sides of a split."""


def calibrate(
    labelled: Sequence[Labelled],
    *,
    policy: str,
    fingerprint: str = "",
    settings: dict[str, Any] | None = None,
    labels: dict[str, Any] | None = None,
    seed: int = 0,
) -> Calibration:
    """The calibration of labelled cases; those that are not scored only count. `seed` deals objects into folds.

    Raises `TriageError` where no task has members and others enough or nothing differs between cases, ImportError
    without scikit-learn.
    """
    used = [one for one in labelled if one.case.scored]
    counts = Counter((one.case.task, one.yes) for one in used)
    tasks = sorted({task for task, _ in counts if min(counts[task, True], counts[task, False]) >= FEWEST})
    if not tasks:
        raise TriageError(
            f"no task has {FEWEST} labelled members and {FEWEST} others that the policy gave anything to weigh of: "
            + (
                ", ".join(f"{t} {counts[t, True]} and {counts[t, False]}" for t in sorted({t for t, _ in counts}))
                or "none"
            )
        )
    used = [one for one in used if one.case.task in tasks]
    yes = np.array([one.yes for one in used])
    task = np.array([tasks.index(one.case.task) for one in used])
    fold = np.array([fold_of(one.object_id, seed) for one in used])
    values = features_of([one.case for one in used])
    features = _features(values)
    if not features:
        raise TriageError("the policy says the same of every labelled case, which tells no member from another")
    crossed = _crossed(values, yes, task, fold, len(tasks))
    columns = scaled(features, values)
    models, pooled = _models(columns, yes, task, len(tasks))
    curves: list[Curve] = [((), ())] * len(tasks)
    p_crossed = _chances(crossed)
    with_curves = _chances(_curved(crossed, yes, task, fold, len(tasks)))
    if _loss(with_curves, yes) < _loss(p_crossed, yes):
        curves, p_crossed = _curves(crossed, yes, task, len(tasks)), with_curves
    outside = np.array([mapped(crossed[i : i + 1], *curves[task[i]])[0] for i in range(len(used))])
    decided = np.array([one.case.answer in DECIDED for one in used])
    return Calibration(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        policy=policy,
        fingerprint=fingerprint,
        settings=settings or {},
        simulated=sum(one.case.simulated for one in used),
        cases=len(used),
        surveys=dict(Counter(one.case.survey or "unknown" for one in used).most_common()),
        features=features,
        tasks={
            key: _task(models[i], curves[i], outside[task == i], yes[task == i], decided[task == i]).model_copy(
                update=_likeness([one.case for one in used if one.case.task == key], yes[task == i], features)
            )
            for i, key in enumerate(tasks)
        },
        pooled=pooled,
        measured=_measured(used, p_crossed, yes, task, tasks),
        labels=labels or {},
        versions=versions() | {"scikit-learn": _sklearn_version()},
    )


def _features(values: Floats) -> tuple[Feature, ...]:
    """Those that are known of some case and differ between cases."""
    found = []
    for i, name in enumerate(FEATURES):
        x = values[:, i]
        known = np.isfinite(x)
        if known.sum() < 2 or np.ptp(x[known]) < 1e-9:
            continue
        found.append(
            Feature(
                name=name,
                mean=float(x[known].mean()),
                scale=float(x[known].std()),
                missing=not known.all(),
            )
        )
    return tuple(found)


def _crossed(values: Floats, yes: Bools, task: Any, fold: Any, n_tasks: int) -> Floats:
    """Log-odds of each case by a model of the other folds, (cases,)."""
    found = np.zeros(len(yes))
    for held in np.unique(fold):
        here, rest = fold == held, fold != held
        if len(np.unique(yes[rest])) < 2:
            raise TriageError("all members (or all others) are of one object or two; label more objects")
        features = _features(values[rest])
        models, pooled = _models(scaled(features, values[rest]), yes[rest], task[rest], n_tasks)
        columns = scaled(features, values[here])
        for number in np.unique(task[here]):
            mine = task[here] == number
            seen = bool((task[rest] == number).any())
            found[np.flatnonzero(here)[mine]] = log_odds_of(models[number] if seen else pooled, columns[mine])
    return found


def _models(columns: Floats, yes: Bools, task: Any, n_tasks: int) -> tuple[list[Weights], Weights]:
    """The model of each task, and the one of all."""
    from sklearn.linear_model import LogisticRegression

    n, k = columns.shape
    own = np.zeros((n, n_tasks, k + 1))
    own[np.arange(n), task, :k] = OWN * columns
    own[np.arange(n), task, k] = OWN_LEVEL
    fitted = LogisticRegression(C=STRENGTH, max_iter=2_000).fit(np.hstack([columns, own.reshape(n, -1)]), yes)
    weights, level = fitted.coef_[0], float(fitted.intercept_[0])
    shared, apart = weights[:k], weights[k:].reshape(n_tasks, k + 1)
    models = [
        Weights(intercept=level + OWN_LEVEL * a[k], weights=tuple((shared + OWN * a[:k]).tolist())) for a in apart
    ]
    return models, Weights(intercept=level, weights=tuple(shared.tolist()))


Curve = tuple[tuple[float, ...], tuple[float, ...]]


def _curves(log_odds: Floats, yes: Bools, task: Any, n_tasks: int) -> list[Curve]:
    """The monotone curve of each task: of its own cases where they are enough, else of all, else none."""
    everyone = _curve(log_odds, yes)
    return [_curve(log_odds[task == i], yes[task == i]) or everyone or ((), ()) for i in range(n_tasks)]


def _curve(log_odds: Floats, yes: Bools) -> Curve | None:
    most, each = CURVE
    if len(yes) < most or min(int(yes.sum()), int((~yes).sum())) < each:
        return None
    from sklearn.isotonic import IsotonicRegression

    level = IsotonicRegression().fit_transform(log_odds, yes.astype(np.float64))
    knots, values = [], []
    for step in np.unique(level):
        here = level == step
        n, k = int(here.sum()), int(yes[here].sum())
        # Half a case for each side: no step of n cases makes a certainty.
        knots.append(float(log_odds[here].mean()))
        values.append(math.log((k + 0.5) / (n - k + 0.5)))
    return tuple(_rounded(knots)), tuple(_rounded(np.maximum.accumulate(values)))


def _task(model: Weights, curve: Curve, log_odds: Floats, yes: Bools, decided: Bools) -> TaskCalibration:
    prior = float(yes.mean())
    evidence = log_odds - math.log(prior / (1 - prior))
    return TaskCalibration(
        model=model,
        log_odds=curve[0],
        mapped=curve[1],
        prior=prior,
        members=tuple(_rounded(np.sort(evidence[yes & decided]))),
        others=tuple(_rounded(np.sort(evidence[~yes & decided]))),
        undecided={"YES": int((yes & ~decided).sum()), "NO": int((~yes & ~decided).sum())},
    )


def _likeness(cases: Sequence[Case], yes: Bools, features: Sequence[Feature]) -> dict[str, Any]:
    """What a list is compared with."""
    values = features_of(cases)
    spread: dict[str, Spread] = {}
    for feature in features:
        x = values[:, FEATURES.index(feature.name)]
        parts = {"YES": x[np.isfinite(x) & yes], "NO": x[np.isfinite(x) & ~yes]}
        spread[feature.name] = {"YES": _points(parts["YES"]), "NO": _points(parts["NO"])}
    return {"spread": spread, "surveys": dict(Counter(case.survey or "unknown" for case in cases).most_common())}


def _points(x: Floats) -> tuple[float, ...]:
    return tuple(_rounded(np.quantile(x, np.linspace(0, 1, 21)))) if x.size > 1 else ()


def _curved(crossed: Floats, yes: Bools, task: Any, fold: Any, n_tasks: int) -> Floats:
    """Out-of-fold log-odds, each along the curve of the other folds."""
    outside = np.zeros(len(yes))
    for held in np.unique(fold):
        here, rest = fold == held, fold != held
        curves = _curves(crossed[rest], yes[rest], task[rest], n_tasks)
        for number in np.unique(task[here]):
            chosen = np.flatnonzero(here)[task[here] == number]
            outside[chosen] = mapped(crossed[chosen], *curves[number])
    return outside


def _measured(used: Sequence[Labelled], p: Floats, yes: Bools, task: Any, tasks: Sequence[str]) -> dict[str, Any]:
    """Numbers of raw and calibrated probabilities, for all and by task."""
    raw = np.array([math.nan if one.case.p_raw is None else one.case.p_raw for one in used])
    told: dict[str, Any] = {}
    for name, here in [("all", np.ones(len(yes), dtype=bool))] + [(t, task == i) for i, t in enumerate(tasks)]:
        told[name] = {
            "members": int(yes[here].sum()),
            "others": int((~yes[here]).sum()),
            "calibrated": fit_and_rank(p[here], yes[here]),
            "raw": fit_and_rank(raw[here], yes[here]),
            "reliability": reliability(p[here], yes[here]),
        }
    return told


def _chances(log_odds: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -700, 700))))


def _loss(p: Floats, yes: Bools) -> float:
    inside = np.clip(p, 1e-9, 1 - 1e-9)
    return -float(np.mean(np.where(yes, np.log(inside), np.log1p(-inside))))


def _rounded(values: Any) -> list[float]:
    return [round(float(v), DIGITS) for v in values]


def _sklearn_version() -> str:
    from importlib.metadata import version

    return version("scikit-learn")
