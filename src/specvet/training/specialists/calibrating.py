"""How well probabilities fit, and the temperature that makes them fit validation questions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

LIMITS = 0.5, 4.0
"""Between which a temperature may lie: a few hundred questions must not make a classifier certain, or mute."""


def log_loss(log_odds: _Floats, yes: NDArray[np.bool_]) -> float:
    """Mean −log p of the true answers, in nats."""
    return float(np.mean(np.logaddexp(0.0, np.where(yes, -log_odds, log_odds))))


def fitted_temperature(log_odds: _Floats, yes: NDArray[np.bool_]) -> float:
    """The temperature with the least log loss (Guo et al. 2017, ICML, arXiv:1706.04599), to three digits."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda t: log_loss(log_odds / np.exp(t), yes), bounds=np.log(LIMITS).tolist(), method="bounded"
    )
    return round(float(np.exp(found.x)), 3)


def scores(log_odds: _Floats, yes: NDArray[np.bool_], task: NDArray[np.int64], n_tasks: int) -> dict[str, float]:
    """Accuracy, macro F1 of YES over the tasks that have one, true or said, and log loss."""
    said = log_odds > 0
    f1 = []
    for place in range(n_tasks):
        mine = task == place
        hits, wrong = int((said & yes & mine).sum()), int(((said != yes) & mine).sum())
        if 2 * hits + wrong and (said | yes)[mine].any():
            f1.append(2 * hits / (2 * hits + wrong))
    told = {"accuracy": float((said == yes).mean()), "log_loss": log_loss(log_odds, yes)}
    if f1:
        told["macro_f1"] = float(np.mean(f1))
    return {name: round(value, 6) for name, value in told.items()}
