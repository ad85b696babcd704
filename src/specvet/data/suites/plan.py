"""Which objects a suite asks about: shared evenly among its tasks, 17 % members, the others mostly hard, as in SimVI.

Every row follows from the suite, the seed, the task and the number of objects alone, before anything is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from specvet.data.simulate.kinds import KINDS, TASKS
from specvet.data.simulate.observed import SurveyName
from specvet.data.simvi.plan import HARD, POSITIVE, YesNo
from specvet.data.suites.classes import CLASSES

Suite = Literal["cross-survey", "cross-task"]

SUITES: Mapping[Suite, tuple[str, ...]] = MappingProxyType({"cross-survey": TASKS, "cross-task": tuple(CLASSES)})
"""Suite → keys of its tasks, in the order in which they are asked."""

SURVEYS: Mapping[Suite, tuple[SurveyName, ...]] = MappingProxyType(
    {"cross-survey": ("lamost", "sdss", "desi"), "cross-task": ("lamost",)}
)
"""Who sees each object."""

MOST = 50_000
"""Objects of a suite: numbers set apart for each task are twice as many."""

_FIRST: Mapping[Suite, int] = MappingProxyType({"cross-survey": 5_000_000, "cross-task": 6_000_000})
"""Numbers of objects start here, beyond those of SimVI, so that no object is in two sets."""


@dataclass(frozen=True, slots=True)
class Row:
    """One object to be: what it is, and what is asked about it."""

    suite: Suite
    task: str
    number: int
    kind: str
    answer: YesNo


def plan(suite: Suite, n: int, seed: int) -> list[Row]:
    """The `n` objects of a suite, task by task; where `n` does not divide, the first tasks get one more."""
    tasks = SUITES[suite]
    shares = {task: n // len(tasks) + (place < n % len(tasks)) for place, task in enumerate(tasks)}
    return [row for task, share in shares.items() for row in _of_task(suite, task, share, seed)]


def _of_task(suite: Suite, task: str, n: int, seed: int) -> list[Row]:
    place = SUITES[suite].index(task)
    rng = np.random.default_rng([seed, tuple(SUITES).index(suite), place, n])
    is_yes = rng.permutation(np.arange(n) < round(POSITIVE * n))
    members, hard, others = _weights(suite, task)
    first = _FIRST[suite] + 2 * MOST * place
    rows = []
    for i, yes in enumerate(is_yes):
        weights = members if yes else hard if rng.random() < HARD else others
        rows.append(Row(suite, task, first + i, _drawn(weights, rng), "YES" if yes else "NO"))
    return rows


def _weights(suite: Suite, task: str) -> tuple[Mapping[str, float], Mapping[str, float], Mapping[str, float]]:
    """Weights of kinds: members of the task's class, what experts confuse with it, what a list holds anyhow."""
    if suite == "cross-survey":
        strangers = {key: kind for key, kind in KINDS.items() if task not in kind.yes}
        members = {key: kind.positive for key, kind in KINDS.items() if task in kind.yes}
        hard = {key: kind.confuses.get(task, 0.0) for key, kind in strangers.items()}
        return members, hard, {key: kind.weight for key, kind in strangers.items()}
    asked = CLASSES[task]
    left = {key: kind.weight for key, kind in KINDS.items() if key not in (*asked.members, *asked.unclear)}
    return asked.members, asked.confusers, left


def _drawn(weights: Mapping[str, float], rng: np.random.Generator) -> str:
    keys = [key for key, weight in weights.items() if weight > 0.0]
    shares = np.array([weights[key] for key in keys])
    return keys[int(rng.choice(len(keys), p=shares / shares.sum()))]
