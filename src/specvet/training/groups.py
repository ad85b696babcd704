"""The advantages of a group: how much better each trajectory was than the others about the same question.

    A = (r − mean(r)) / (std(r) + 1e-6),   std over n − 1, over those that have a reward

Where all rewards are equal there is nothing to prefer and the group teaches nothing. The division by the deviation
makes a rare success weigh more than a common one; 1e-6 only keeps it finite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

EPSILON = 1e-6


def advantages(rewards: Sequence[float | None]) -> list[float | None] | None:
    """One advantage a trajectory, None for one without a reward; None for a group whose rewards are all equal.

    A group of which fewer than two have a reward is one of those: there is nothing to hold it against.
    """
    known = np.array([r for r in rewards if r is not None], dtype=np.float64)
    if known.size < 2 or known.min() == known.max():
        return None
    mean, scale = float(known.mean()), float(known.std(ddof=1)) + EPSILON
    return [None if r is None else (r - mean) / scale for r in rewards]
