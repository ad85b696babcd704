"""How surprising a token was, in eight steps, and their colours on light and on dark paper.

The steps are ordered by lightness, from the paper away, as in the palette `inferno` (CC0, S. van der Walt and
N. Smith): a reader who sees no red or no green sees the same order, and so does a grey print. The words on a step are
black or white, whichever has more contrast (at least 4.5 to 1, WCAG 2).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

LEAST = (0.99, 0.9, 0.5, 0.2, 0.05, 0.01, 0.001)
"""A token's probability is at least so much on steps 0 to 6; step 7 has the rest."""

_EDGES = [-math.log(p) for p in LEAST]


class Colour(NamedTuple):
    paper: str
    ink: str


LIGHT = (
    Colour("#fdf7d6", "#1b1f24"),
    Colour("#fae58c", "#1b1f24"),
    Colour("#fbb83a", "#1b1f24"),
    Colour("#f2782a", "#1b1f24"),
    Colour("#c9403f", "#ffffff"),
    Colour("#8f2469", "#ffffff"),
    Colour("#4a0c6b", "#ffffff"),
)
"""Steps 1 to 7; step 0 has no colour of its own."""

DARK = (
    Colour("#2b1a52", "#ffffff"),
    Colour("#4f1a6b", "#ffffff"),
    Colour("#86246d", "#ffffff"),
    Colour("#b8365a", "#ffffff"),
    Colour("#e8683a", "#14171b"),
    Colour("#fb9f1e", "#14171b"),
    Colour("#f6f29a", "#14171b"),
)


def step(logprob: float) -> int:
    """0 (all but certain) to 7 (one in a thousand or less) for a natural log-prob."""
    return bisect_left(_EDGES, -logprob)


def step_names() -> tuple[str, ...]:
    """What each step stands for."""
    return (*(f"p ≥ {p:g}" for p in LEAST), f"p < {LEAST[-1]:g}")


def probability(logprob: float) -> str:
    """`29 %`, `>99.9 %` or `0.03 %`: never a round 0 or 100."""
    share = 100 * math.exp(min(logprob, 0.0))
    if share > 99.9:
        return ">99.9 %"
    if share < 0.01:
        return "<0.01 %"
    return f"{share:.{0 if share >= 10 else 1 if share >= 1 else 2}f} %"
