"""How well reviewers agree beyond chance: Cohen's and Fleiss' kappa, Krippendorff's alpha, and who differs from whom.

Ratings are places in a list of categories, −1 where somebody has no vote; shape (items, reviewers).

| coefficient | for | source |
|---|---|---|
| Cohen's kappa | two reviewers, the items that both rated | Cohen 1960, Educ. Psychol. Meas. 20, 37 |
| its standard error | | Fleiss, Cohen & Everitt 1969, Psychol. Bull. 72, 323, eq. 13 |
| Fleiss' kappa | items that one number of reviewers rated, whoever they are | Fleiss 1971, Psychol. Bull. 76, 378 |
| Krippendorff's alpha | any number of votes an item, nominal scale | Krippendorff 2011, Computing alpha-reliability |

None where a coefficient is not defined: too few common items, or everybody always says the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.review.board import NO_VOTE, STANDINGS, Ballots
from specvet.review.desk import Desk
from specvet.review.events import VERDICTS, Event
from specvet.review.listing import ANSWERS
from specvet.review.merging import merged

MISSING = -1

_RESAMPLED = 1_000

Ratings = NDArray[np.integer]


def cohen_kappa(a: Ratings, b: Ratings, categories: int) -> tuple[float | None, float | None]:
    """Kappa and its standard error, over the items that both rated."""
    both = (a != MISSING) & (b != MISSING)
    n = int(both.sum())
    if n == 0:
        return None, None
    p = np.zeros((categories, categories))
    np.add.at(p, (a[both], b[both]), 1.0 / n)
    rows, columns = p.sum(1), p.sum(0)
    observed, expected = float(np.trace(p)), float(rows @ columns)
    if math.isclose(expected, 1.0):
        return None, None
    kappa = (observed - expected) / (1.0 - expected)
    # Fleiss, Cohen & Everitt 1969, eq. 13.
    diagonal = np.diag(p) * (1.0 - (rows + columns) * (1.0 - kappa)) ** 2
    off = p * (columns[:, None] + rows[None, :]) ** 2
    spread = diagonal.sum() + (1.0 - kappa) ** 2 * (off.sum() - np.trace(off))
    variance = (spread - (kappa - expected * (1.0 - kappa)) ** 2) / (n * (1.0 - expected) ** 2)
    return kappa, math.sqrt(max(0.0, variance))


def fleiss_kappa(counts: NDArray[np.integer]) -> float | None:
    """Kappa of a table (items, categories) of how many reviewers said what; every item has as many votes, ≥ 2."""
    if not counts.size:
        return None
    n = int(counts[0].sum())
    if n < 2 or not (counts.sum(1) == n).all():
        return None
    shares = counts.sum(0) / counts.sum()
    observed = float(((counts**2).sum(1) - n).mean() / (n * (n - 1)))
    expected = float((shares**2).sum())
    return None if math.isclose(expected, 1.0) else (observed - expected) / (1.0 - expected)


def krippendorff_alpha(counts: NDArray[np.integer]) -> float | None:
    """Alpha of a table (items, categories), nominal; items with fewer than two votes say nothing."""
    alpha = float(_alphas(counts, np.ones((1, len(counts))))[0])
    return None if math.isnan(alpha) else alpha


def _alphas(counts: NDArray[np.integer], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Alpha for each row of `weights`, shape (tables, items), by which items count; NaN where it is not defined."""
    votes = counts.sum(1)
    kept = votes >= 2
    counts, votes, weights = counts[kept], votes[kept], weights[:, kept]
    pairs_alike = (counts * (counts - 1)).sum(1) / np.maximum(votes - 1, 1)
    total, shares = weights @ votes, weights @ counts
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = 1.0 - (weights @ pairs_alike) / total
        expected = 1.0 - (shares * (shares - 1)).sum(1) / (total * (total - 1))
        return np.where((total > 1) & (expected > 0), 1.0 - observed / expected, np.nan)


def alpha_interval(counts: NDArray[np.integer], level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """Percentile interval of alpha, items resampled 1,000 times; None below 10 items of two votes."""
    paired = counts[counts.sum(1) >= 2]
    if len(paired) < 10 or krippendorff_alpha(paired) is None:
        return None
    # Items with the same votes are alike, so few kinds are drawn however long the list is.
    code = paired @ (1 + paired.max()) ** np.arange(paired.shape[1])
    _, first, number = np.unique(code, return_index=True, return_counts=True)
    kinds = paired[first]
    draws = np.random.default_rng(seed).multinomial(len(paired), number / len(paired), _RESAMPLED)
    found = _alphas(kinds, draws.astype(float))
    found = found[~np.isnan(found)]
    if not found.size:
        return None
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def agreement(desk: Desk, task: str) -> dict[str, Any]:
    """What docs/review.md says of `/api/agreement`: kappas, alpha, conflicts, and each reviewer's counts.

    Third looks were made in the knowledge of a conflict, so they settle it and count in no coefficient.
    """
    ballots = desk.ballots(task)
    ratings = np.where(ballots.third, MISSING, ballots.votes).astype(np.int8)
    counts = np.stack([(ratings == c).sum(1) for c in range(len(VERDICTS))], axis=1)
    interval = alpha_interval(counts)
    standings = dict(zip(STANDINGS, np.bincount(ballots.standing, minlength=len(STANDINGS)).tolist(), strict=True))
    verdicts = desk.listing.verdicts.get(task)
    return {
        "task": task,
        "reviewers": _people(ballots),
        "pairs": _pairs(ratings, ballots.reviewers),
        "fleiss": _rounded(_fleiss(counts)),
        "alpha": _rounded(krippendorff_alpha(counts)),
        "alpha_low": _rounded(interval[0] if interval else None),
        "alpha_high": _rounded(interval[1] if interval else None),
        "n_voted": len(ballots.places),
        "n_two": int((counts.sum(1) >= 2).sum()),
        "agreed": standings["agreed"],
        "conflicts": standings["conflict"],
        "settled": standings["settled"],
        "agent": None if desk.blind or verdicts is None else _agent_table(verdicts.answer[ballots.places], ballots),
    }


def _people(ballots: Ballots) -> list[dict[str, Any]]:
    """What each reviewer decided, third looks among it."""
    found = []
    for k, name in enumerate(ballots.reviewers):
        said = {word: int((ballots.votes[:, k] == c).sum()) for c, word in enumerate(VERDICTS)}
        found.append({"name": name, "votes": sum(said.values()), **said, "flagged": int(ballots.flagged[:, k].sum())})
    return found


def waiting(desk: Desk, task: str) -> list[tuple[str, str, list[Event]]]:
    """Items in conflict: (item, what about, the votes)."""
    found = []
    for item, votes in desk.voted(task).items():
        result = merged(list(votes.values()))
        if result.standing == "conflict":
            found.append((item, result.why, list(votes.values())))
    return found


def _pairs(ratings: NDArray[np.int8], names: Sequence[str]) -> list[dict[str, Any]]:
    pairs = []
    for i, j in combinations(range(len(names)), 2):
        a, b = ratings[:, i], ratings[:, j]
        both = (a != MISSING) & (b != MISSING)
        if not both.any():
            continue
        kappa, error = cohen_kappa(a, b, len(VERDICTS))
        margin = None if error is None else 1.959964 * error
        low, high = (None, None) if kappa is None or margin is None else (kappa - margin, min(1.0, kappa + margin))
        pairs.append(
            {"a": names[i], "b": names[j], "n": int(both.sum()), "agree": round(float((a == b)[both].mean()), 4)}
            | {"kappa": _rounded(kappa), "low": _rounded(low), "high": _rounded(high)}
        )
    return pairs


def _fleiss(counts: NDArray[np.integer]) -> float | None:
    """Over the items with the commonest number of votes from two on."""
    votes = counts.sum(1) if len(counts) else np.zeros(0, int)
    several = votes[votes >= 2]
    if not several.size:
        return None
    return fleiss_kappa(counts[votes == np.bincount(several).argmax()])


def _agent_table(answers: NDArray[np.int8], ballots: Ballots) -> dict[str, Any]:
    """What the agent had answered, against what people's votes amount to."""
    against = np.zeros((len(ANSWERS), len(VERDICTS)), int)
    both = (answers >= 0) & (ballots.verdict != NO_VOTE)
    np.add.at(against, (answers[both], ballots.verdict[both]), 1)
    table = {word: dict(zip(VERDICTS, map(int, row), strict=True)) for word, row in zip(ANSWERS, against, strict=True)}
    return {"n": int(against.sum()), "table": {word: row for word, row in table.items() if any(row.values())}}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
