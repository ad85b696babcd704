"""What of a batch goes to a training service, what comes back, and the loss that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Datum, ImageSegment
from specvet.policies.remote import opaque
from specvet.training.trainer import MAX_MOVE, Adam, Loss, TrainerError


@dataclass(frozen=True, slots=True)
class Passed:
    """What a service answered to a batch, in our words."""

    logprobs: Sequence[NDArray[np.float32]]
    """One array a datum, shape (n_tokens,), of the targets that were sent."""
    loss: float | None
    """Mean over active tokens, as the service has it; None where it says none."""
    notes: dict[str, float] = field(default_factory=dict)


def sent_chunks(datum: Datum) -> list[tuple[int, ...] | ImageSegment]:
    """A datum's input as it is sent: opaque pictures.

    Raises LedgerError for a picture without its bytes, ImageError for damaged ones.
    """
    return [opaque(c) if isinstance(c, ImageSegment) else c for c in datum.chunks]


def adam_config(adam: Adam) -> dict[str, float]:
    """The settings of a step, under the names that both services use."""
    settings = asdict(adam)
    return {"learning_rate": settings.pop("lr"), **settings}


def target_logprobs(output: Mapping[str, Any], service: str) -> NDArray[np.float32]:
    """The log-probs in what a service gave for one datum. Raises TrainerError."""
    if "logprobs" not in output:
        raise TrainerError(f"{service}: the service gave no log-probs for a datum")
    values: NDArray[np.float32] = output["logprobs"].to_numpy()
    return values


def clip_config(loss: Loss) -> dict[str, float] | None:
    """The settings of a loss, under the names that both services use."""
    if loss.name not in ("ppo", "cispo"):
        return None
    return {"clip_low_threshold": loss.clip[0], "clip_high_threshold": loss.clip[1]}


def token_losses(datums: Sequence[Datum], logprobs: Sequence[NDArray[np.float32]], loss: Loss) -> NDArray[np.float64]:
    """What each active token adds to the loss of `specvet.training.trainer`'s table for these log-probs, before its
    division by N; shape (N,)."""
    found = []
    for datum, values in zip(datums, logprobs, strict=True):
        at = datum.weights > 0
        p = values[at].astype(np.float64)
        if loss.name == "cross_entropy":
            found.append(-datum.weights[at] * p)
            continue
        assert datum.logprobs is not None
        assert datum.advantages is not None
        advantage = datum.advantages[at].astype(np.float64)
        ratio = np.exp(np.clip(p - datum.logprobs[at], -MAX_MOVE, MAX_MOVE))
        clipped = np.clip(ratio, *loss.clip)
        if loss.name == "importance_sampling":
            found.append(-ratio * advantage)
        elif loss.name == "ppo":
            found.append(-np.minimum(ratio * advantage, clipped * advantage))
        else:
            found.append(-clipped * advantage * p)
    return np.concatenate(found)


def grad_norm(notes: Mapping[str, float]) -> float | None:
    """The gradient's norm before clipping, by the names that services give it (Tinker: `unclipped_grad_l2:mean`)."""
    for name in ("unclipped_grad_l2", "grad_norm"):
        for key, value in notes.items():
            if key.partition(":")[0] == name:
                return value
    return None
