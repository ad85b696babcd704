"""Bands of a list: accept, look, reject, and what is promised of them.

**Reject.** "With 95 % confidence at most 2 % of the true objects are lost" is a promise about members alone, so it
holds at any prevalence. The evidence of n labelled members, each from a model that had not seen its object, is sorted;
rejecting what lies below the j-th of them loses more than a share α of all members with probability
P(Binomial(n, α) ≤ j − 1). The largest j with at most 1 − confidence is taken: the one-sided tolerance limit of Wilks
(1941, Annals of Mathematical Statistics 12, 91), which is what Learn-then-Test (Angelopoulos et al. 2021,
arXiv:2110.01052) gives for this risk when thresholds are tried from the safest on. Where even j = 1 is too many, the
promise cannot be made, and `members_needed` says how many labelled members could make it.

**Accept.** "At most 5 % of the accepted are wrong" depends on the prevalence π: the share is
(1 − π) FPR / (π TPR + (1 − π) FPR). A fixed number of thresholds is tried, each with the Clopper-Pearson bounds of its
two rates and the error probability divided among all (Bonferroni); the lowest that holds is taken.

Cases that the policy did not decide are looked at in either event, and no member among them is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specvet.vetting.triage.calibration import Calibration, TaskCalibration

Band = Literal["accept", "look", "reject"]

BANDS: tuple[Band, ...] = ("accept", "look", "reject")

TRIED = 20
"""Thresholds for accepting that are tried."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised of a task, and by which thresholds on its evidence."""

    reject_below: float | None
    """None: nothing is rejected."""
    accept_from: float | None
    """None: nothing is accepted."""
    scope: Literal["task", "all tasks", "none"]
    """Whose members `reject_below` rests on: the task's own, or, where they are too few, those of all tasks together,
    of which the promise then is."""
    members: int
    """How many these are."""
    needed: int
    """How many members a task needs for a promise of its own."""
    text: str
    """In words."""


def members_needed(max_lost: float, confidence: float) -> int:
    """How many labelled members make it possible to promise that at most `max_lost` (0-1) of all are lost."""
    return math.ceil(math.log(1.0 - confidence) / math.log(1.0 - max_lost))


def least_promise(members: int, confidence: float) -> float:
    """The smallest share of lost objects that so many labelled members can promise, rounded up to two digits."""
    share = 1.0 - (1.0 - confidence) ** (1.0 / members)
    step = 10.0 ** (math.floor(math.log10(share)) - 1)
    return float(math.ceil(share / step) * step)


def reject_rank(members: int, max_lost: float, confidence: float) -> int:
    """Which member, in rising order of evidence and from 1, rejecting may begin below; 0 where none may."""
    from scipy.stats import binom

    chance = binom.cdf(np.arange(members), members, max_lost)  # of losing more than promised below member j + 1
    return int(np.searchsorted(chance, 1.0 - confidence, side="right"))


def accept_from(task: TaskCalibration, prevalence: float, max_false: float, confidence: float) -> float | None:
    """The lowest of the thresholds tried at which at most `max_false` (0-1) of the accepted are wrong; None if none."""
    members, others = np.array(task.members), np.array(task.others)
    if not members.size or not others.size or not 0 < prevalence < 1:
        return None
    each = (1.0 - confidence) / (2 * TRIED)
    found = None
    for threshold in np.quantile(members, np.linspace(0.0, 0.95, TRIED))[::-1]:
        hits, alarms = int((members >= threshold).sum()), int((others >= threshold).sum())
        least, most = lower_bound(hits, members.size, each), upper_bound(alarms, others.size, each)
        wrong, right = (1 - prevalence) * most, prevalence * least
        if right and wrong / (wrong + right) <= max_false:
            found = float(threshold)
    return found


def promises(
    calibration: Calibration, prevalences: dict[str, float], max_lost: float, max_false: float, confidence: float
) -> dict[str, Promise]:
    """The promise of each task of `prevalences` (0-1, of the list)."""
    every = np.sort(np.concatenate([np.array(t.members) for t in calibration.tasks.values()] or [np.zeros(0)]))
    needed = members_needed(max_lost, confidence)
    found = {}
    for task, prevalence in prevalences.items():
        known = calibration.tasks.get(task)
        if known is None:
            text = "the calibration does not know this task: nothing is promised, everything is looked at"
            found[task] = Promise(None, None, "none", 0, needed, text)
            continue
        accept = accept_from(known, prevalence, max_false, confidence)
        scope: Literal["task", "all tasks", "none"] = "none"
        below, n = _below(known.members, max_lost, confidence), len(known.members)
        if below is not None:
            scope = "task"
        elif (below := _below(every, max_lost, confidence)) is not None:
            scope, n = "all tasks", every.size
        if below is not None and accept is not None:
            accept = max(accept, below)
        found[task] = Promise(below, accept, scope, n, needed, _text(scope, n, needed, max_lost, confidence))
    return found


def _below(
    members: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]], lost: float, sure: float
) -> float | None:
    rank = reject_rank(len(members), lost, sure)
    return float(members[rank - 1]) if rank else None


def _text(scope: str, n: int, needed: int, max_lost: float, confidence: float) -> str:
    if scope == "none":
        return (
            f"{n:,} labelled members are too few to promise that at most {max_lost:.2%} of the true objects are lost "
            f"({confidence:.0%} confidence): {needed:,} would do; nothing is rejected"
            + (f" (they carry --max-lost {least_promise(n, confidence):.2g})" if n else "")
        )
    whose = "of the task" if scope == "task" else "of all tasks together (its own are too few)"
    return (
        f"at most {max_lost:.2%} of the true objects {whose} are lost, with {confidence:.0%} confidence, "
        f"from {n:,} labelled members"
    )


def lower_bound(k: int, n: int, tail: float) -> float:
    """One-sided Clopper-Pearson bound of a share, of error probability `tail`."""
    from scipy.special import betaincinv

    return float(betaincinv(k, n - k + 1, tail)) if k else 0.0


def upper_bound(k: int, n: int, tail: float) -> float:
    """The same from above."""
    from scipy.special import betaincinv

    return float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
