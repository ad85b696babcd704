"""Drawing with chances: `Generator.choice` with weights, some twenty times faster for a handful of things."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np


def drawn(rng: np.random.Generator, weights: Sequence[float], n: int) -> list[int]:
    """Up to n different places of `weights` (positive), one after the other, each with its weight's share of what is
    left."""
    left = dict(enumerate(weights))
    found: list[int] = []
    for at in rng.random(min(n, len(left))).tolist():
        places = list(left)
        sums = list(accumulate(left.values()))
        found.append(places[min(bisect_right(sums, at * sums[-1]), len(places) - 1)])
        del left[found[-1]]
    return found
