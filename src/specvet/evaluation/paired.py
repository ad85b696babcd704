"""Two policies on the same questions: who is right where the other is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specvet.evaluation.counts import Sheet, f1_of_tasks, mean_of_tasks, ratio, sheet_of
from specvet.evaluation.intervals import Bools, Floats, Interval, Resamples, bootstrap, tidy
from specvet.evaluation.outcomes import Outcome


def compare(a: Sequence[Outcome], b: Sequence[Outcome], *, replicates: int = 2_000, seed: int = 0) -> dict[str, Any]:
    """What `a` gains over `b` on the questions that both were asked.

    Differences are a − b, with a bootstrap in which both are drawn together, by object. `mcnemar_p` is two-sided and
    exact (McNemar 1947, by the binomial distribution): how likely so uneven a split of the questions that only one of
    them has right would be, were both as good. It takes questions for independent. `flipped` lists those questions
    by id, in the order of `a`. Raises ValueError where the same id stands for different questions.
    """
    ours, theirs = _by_id(a), _by_id(b)
    shared = [id for id in ours if id in theirs]
    for id in shared:
        x, y = ours[id], theirs[id]
        if (x.task, x.truth, x.object_id) != (y.task, y.truth, y.object_id):
            raise ValueError(f"question {id}: is not the same on both sides (task, answer or object differs)")
    found: dict[str, Any] = {"n": len(shared), "only_in_a": len(ours) - len(shared)}
    found["only_in_b"] = len(theirs) - len(shared)
    if not shared:
        return found | {"note": "no question was asked of both"}
    return found | _compared([ours[id] for id in shared], [theirs[id] for id in shared], replicates, seed)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p of the discordant pairs; 1 where there are none."""
    from scipy.special import bdtr

    n = only_a + only_b
    return float(min(1.0, 2 * bdtr(min(only_a, only_b), n, 0.5))) if n else 1.0


def _compared(ours: Sequence[Outcome], theirs: Sequence[Outcome], replicates: int, seed: int) -> dict[str, Any]:
    draws = Resamples([o.object_id for o in ours], replicates, seed)
    a, b = sheet_of(ours), sheet_of(theirs)
    better, worse = a.right & ~b.right, b.right & ~a.right
    told: dict[str, Any] = {
        "objects": draws.n_objects,
        "both_right": int((a.right & b.right).sum()),
        "only_a": int(better.sum()),
        "only_b": int(worse.sum()),
        "neither": int((~a.right & ~b.right).sum()),
        "accuracy": _difference(_shares(a.right, draws), _shares(b.right, draws)),
        "macro_f1": _difference(_macro(a, draws), _macro(b, draws)),
        "format": _difference(*(_shares(np.array([o.format_ok for o in of]), draws) for of in (ours, theirs))),
        "tasks": _tasks(a, b, draws),
        "flipped": {
            "only_a": [o.id for o, flipped in zip(ours, better, strict=True) if flipped],
            "only_b": [o.id for o, flipped in zip(ours, worse, strict=True) if flipped],
        },
    }
    # Six digits behind the point would make a small p nothing: six of its own instead.
    p = float(f"{mcnemar(told['only_a'], told['only_b']):.6g}")
    rounded: dict[str, Any] = tidy(told)
    return rounded | {"mcnemar_p": p}


def _tasks(a: Sheet, b: Sheet, draws: Resamples) -> dict[str, dict[str, Any]]:
    """F1 of each task, side by side."""
    ours, theirs = f1_of_tasks(a, draws), f1_of_tasks(b, draws)
    return {task: _difference(ours[:, i], theirs[:, i]) for i, task in enumerate(a.tasks)}


def _difference(a: Floats, b: Floats) -> dict[str, Any]:
    """Both values and the interval of a − b, resample by resample."""
    difference: Interval = bootstrap(a - b)
    return {"a": float(a[0]), "b": float(b[0]), "difference": difference}


def _shares(those: Bools, draws: Resamples) -> Floats:
    sums = draws.sums(np.stack([those, np.ones(those.shape, dtype=bool)], axis=1))
    return ratio(sums[:, 0], sums[:, 1])


def _macro(sheet: Sheet, draws: Resamples) -> Floats:
    return mean_of_tasks(f1_of_tasks(sheet, draws))


def _by_id(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.id in found:
            raise ValueError(f"question {outcome.id}: stands there twice")
        found[outcome.id] = outcome
    return found
