"""Counts of right and wrong, by task: accuracy, precision, recall and F1 of YES, and their mean over tasks.

No answer is wrong and stays in every denominator: for a member it is a miss, for another object it costs accuracy and
is no false alarm. F1 = 2 TP / (2 TP + FP + missed), where missed is NO or nothing said of a member. Macro F1 is its
mean over tasks; a task in which YES was neither true nor said has none and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specvet.evaluation.intervals import (
    EXACT,
    Bools,
    Floats,
    Interval,
    Ints,
    Resamples,
    bootstrap,
    clopper_pearson,
    proportion,
    share,
)
from specvet.evaluation.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Sheet:
    """Outcomes as columns; every array has the shape (outcomes,)."""

    tasks: tuple[str, ...]
    """Sorted."""
    task: Ints
    """Place in `tasks`."""
    yes: Bools
    """Whether YES is true."""
    said_yes: Bools
    said_no: Bools
    p_yes: Floats
    """NaN where there is none. Twelve digits: one less a probability is not always its complement to the last bit, and
    must tie with it all the same."""

    @property
    def answered(self) -> Bools:
        return self.said_yes | self.said_no

    @property
    def right(self) -> Bools:
        found: Bools = np.where(self.yes, self.said_yes, self.said_no)
        return found

    def of(self, task: str) -> Bools:
        """Which outcomes are about a task."""
        found: Bools = self.task == self.tasks.index(task)
        return found

    def forced(self) -> Sheet:
        """The likelier word (YES at 0.5) where there was no answer, but a probability."""
        bare = ~self.answered
        return replace(
            self,
            said_yes=self.said_yes | (bare & (self.p_yes >= 0.5)),
            said_no=self.said_no | (bare & (self.p_yes < 0.5)),
        )


def sheet_of(outcomes: Sequence[Outcome]) -> Sheet:
    """The columns of outcomes."""
    tasks = tuple(sorted({o.task for o in outcomes}))
    place = {task: i for i, task in enumerate(tasks)}
    return Sheet(
        tasks=tasks,
        task=np.array([place[o.task] for o in outcomes], dtype=np.int64),
        yes=np.array([o.truth == "YES" for o in outcomes], dtype=bool),
        said_yes=np.array([o.said == "YES" for o in outcomes], dtype=bool),
        said_no=np.array([o.said == "NO" for o in outcomes], dtype=bool),
        p_yes=np.round(np.array([np.nan if o.p_yes is None else o.p_yes for o in outcomes]), 12),
    )


def f1(tp: Floats, fp: Floats, missed: Floats) -> Floats:
    """2 TP / (2 TP + FP + missed); NaN where YES was neither true nor said."""
    of = 2 * tp + fp + missed
    return ratio(2 * tp, of)


def ratio(part: Floats, whole: Floats) -> Floats:
    """NaN of nothing."""
    found: Floats = np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0)
    return found


def f1_of_tasks(sheet: Sheet, draws: Resamples, chosen: Bools | None = None) -> Floats:
    """F1 of every task among the outcomes `chosen`: (1 + replicates, tasks)."""
    parts = (sheet.yes & sheet.said_yes, ~sheet.yes & sheet.said_yes, sheet.yes & ~sheet.said_yes)
    picked = np.eye(len(sheet.tasks), dtype=bool)[sheet.task]
    if chosen is not None:
        picked &= chosen[:, None]
    sums = draws.sums(np.concatenate([picked & part[:, None] for part in parts], axis=1))
    return f1(*np.split(sums, 3, axis=1))


def mean_of_tasks(scores: Floats) -> Floats:
    """Over those tasks that have a score: (1 + replicates, tasks) → (1 + replicates,)."""
    there = np.isfinite(scores)
    return ratio(np.where(there, scores, 0).sum(axis=1), there.sum(axis=1).astype(np.float64))


def macro_f1(sheet: Sheet, draws: Resamples, chosen: Bools | None = None) -> Interval:
    """Macro F1 of the outcomes `chosen`.

    Where it is 0 or 1 the resamples have no spread; the bounds are then the means of those of the tasks.
    """
    scores = f1_of_tasks(sheet, draws, chosen)
    drawn = mean_of_tasks(scores)
    if drawn[0] not in (0.0, 1.0):
        return bootstrap(drawn)
    of_tasks = [
        f1_interval(scores[:, i], sheet, draws, (sheet.task == i) if chosen is None else chosen & (sheet.task == i))
        for i in range(len(sheet.tasks))
        if np.isfinite(scores[0, i])
    ]
    low, high = (float(np.mean([one[end] for one in of_tasks])) for end in ("low", "high"))
    return {"value": float(drawn[0]), "low": low, "high": high, "method": EXACT}


def f1_interval(drawn: Floats, sheet: Sheet, draws: Resamples, chosen: Bools) -> Interval:
    """F1 of the outcomes `chosen`, whose resamples are `drawn`.

    Where it is 0 or 1 they have no spread. F1 = 2 J / (1 + J) with J the share of hits among all for which YES was true
    or said, a share with the bounds of Clopper-Pearson for as many trials as these are of objects.
    """
    if drawn[0] not in (0.0, 1.0):
        return bootstrap(drawn)
    objects = len(np.unique(draws.objects[chosen & (sheet.yes | sheet.said_yes)]))
    low, high = clopper_pearson(int(drawn[0]) * objects, objects)
    return {"value": float(drawn[0]), "low": 2 * low / (1 + low), "high": 2 * high / (1 + high), "method": EXACT}


def accuracy(sheet: Sheet, draws: Resamples, chosen: Bools | None = None) -> Interval:
    """Share of the outcomes `chosen` that are right."""
    return share_of(sheet.right, draws, chosen)


def share_of(those: Bools, draws: Resamples, chosen: Bools | None = None) -> Interval:
    """Share of `those` among the outcomes `chosen`."""
    among = np.ones(those.shape, dtype=bool) if chosen is None else chosen
    sums = draws.sums(np.stack([those & among, among], axis=1))
    return share(ratio(sums[:, 0], sums[:, 1]), len(np.unique(draws.objects[among])))


def by_task(sheet: Sheet, draws: Resamples) -> dict[str, Any]:
    """Counts, rates (Clopper-Pearson over questions) and F1 (bootstrap) of each task.

    Precision is TP / (TP + FP), recall TP / members, the false-positive rate FP / all others, answered or not.
    """
    scores = f1_of_tasks(sheet, draws)
    return {task: _task(sheet, draws, sheet.of(task), scores[:, i]) for i, task in enumerate(sheet.tasks)}


def _task(sheet: Sheet, draws: Resamples, here: Bools, drawn: Floats) -> dict[str, Any]:
    yes, no = here & sheet.yes, here & ~sheet.yes
    tp, fp = int((yes & sheet.said_yes).sum()), int((no & sheet.said_yes).sum())
    fn, tn = int((yes & sheet.said_no).sum()), int((no & sheet.said_no).sum())
    n, members = int(here.sum()), int(yes.sum())
    return {
        "n": n,
        "yes": members,
        "counts": {
            "tp": tp,
            "fp": fp,
            "fn": fn,
            "tn": tn,
            "unanswered_yes": members - tp - fn,
            "unanswered_no": n - members - fp - tn,
        },
        "precision": proportion(tp, tp + fp),
        "recall": proportion(tp, members),
        "f1": f1_interval(drawn, sheet, draws, here),
        "accuracy": proportion(tp + tn, n),
        "false_positive_rate": proportion(fp, n - members),
    }
