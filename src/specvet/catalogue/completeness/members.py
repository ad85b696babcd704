"""Which simulated kinds are members of a task's class, and how common each is among them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class NoMembersError(ValueError):
    """A task of whose class nothing can be simulated."""


def members_of(task: str) -> dict[str, float]:
    """Kind of `specvet.data.simulate.kinds` → its share among the members of the task's class, which add up to 1.

    The shares are those of the simulated surveys' benchmarks. Raises `NoMembersError` for a class of the user's own.
    """
    from specvet.data.simulate.kinds import KINDS
    from specvet.data.suites.classes import CLASSES

    weights: Mapping[str, float]
    if task in CLASSES:
        weights = CLASSES[task].members
    else:
        weights = {key: kind.positive for key, kind in KINDS.items() if task in kind.yes and kind.positive > 0}
    if not weights:
        known = sorted({name for kind in KINDS.values() for name in kind.yes} | set(CLASSES))
        raise NoMembersError(
            f"task {task}: no member of its class can be simulated, so that its completeness cannot be measured; "
            f"choose from {', '.join(known)} with --task"
        )
    total = sum(weights.values())
    return {kind: weight / total for kind, weight in weights.items()}


def kinds_drawn(shares: Mapping[str, float], n: int, rng: np.random.Generator) -> list[str]:
    """`n` kinds, each as often as its share says to within one (systematic sampling), in random order."""
    sums = np.cumsum(list(shares.values()))
    places = (np.arange(n) + rng.random()) / n * sums[-1]
    keys = list(shares)
    found = [keys[min(int(i), len(keys) - 1)] for i in np.searchsorted(sums, places, side="right")]
    return [found[int(i)] for i in rng.permutation(n)]
