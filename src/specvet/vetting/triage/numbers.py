"""How well probabilities of YES fit and rank, with the definitions of the evaluation room but of p(YES) itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from specvet.vetting.triage.calibration import Floats

Bools = npt.NDArray[np.bool_]

BINS = 15


def fit_and_rank(p: Floats, yes: Bools) -> dict[str, float | int | None]:
    """Brier score, expected calibration error of p(YES) over 15 bins of equal mass, mean log loss (nats) and AUROC.

    Of the cases that have a probability; None where there are none, or (AUROC) only members or only others.
    """
    known = np.isfinite(p)
    p, yes = p[known], yes[known]
    if not p.size:
        return {"n": 0, "brier": None, "ece": None, "log_loss": None, "auroc": None}
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    loss = -np.mean(np.where(yes, np.log(inside), np.log1p(-inside)))
    told = {"brier": float(np.mean((p - yes) ** 2)), "ece": calibration_error(p, yes), "log_loss": float(loss)}
    return {"n": int(p.size)} | {name: round(value, 6) for name, value in told.items()} | {"auroc": auroc(p, yes)}


def calibration_error(p: Floats, yes: Bools) -> float:
    """Mean distance between probability and share of members, over bins of equal mass."""
    return float(sum(part["n"] * abs(part["p"] - part["yes"] / part["n"]) for part in reliability(p, yes)) / p.size)


def reliability(p: Floats, yes: Bools, bins: int = BINS) -> list[dict[str, Any]]:
    """Bins of equal mass: how many cases (`n`), their mean probability (`p`), how many are members (`yes`)."""
    order = np.argsort(p, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(p[order]) > 0))
    ends = np.append(starts[1:], p.size)
    rank = np.repeat((starts + ends) / 2, ends - starts)  # equal probabilities stay together
    number = np.minimum((rank * bins / p.size).astype(np.int64), bins - 1)
    parts = (order[number == b] for b in np.unique(number))
    return [{"n": int(c.size), "p": float(p[c].mean()), "yes": int(yes[c].sum())} for c in parts]


def auroc(p: Floats, yes: Bools) -> float | None:
    """The probability that a member has a higher one than another, ties half."""
    from scipy.stats import rankdata

    members = int(yes.sum())
    if not members or members == yes.size:
        return None
    rank = rankdata(p)[yes].sum()
    return round(float((rank - members * (members + 1) / 2) / (members * (yes.size - members))), 6)


def false_positives_at(evidence: Floats, yes: Bools, recall: float) -> tuple[float, float]:
    """(share of the others not below it, share of members not below it) at the highest threshold with that recall."""
    members = np.sort(evidence[yes])[::-1]
    threshold = members[int(np.ceil(recall * members.size)) - 1]
    return float((evidence[~yes] >= threshold).mean()), float((members >= threshold).mean())


def share_looked_at(prevalence: float, members: float, others: float) -> float:
    """Of a list of some prevalence, where these shares of members and of others are looked at."""
    return prevalence * members + (1 - prevalence) * others
