"""The learning rate of each step."""

from __future__ import annotations

import math

from specvet.training.config import OptimiserConfig
from specvet.training.trainer import Adam


def learning_rate(optimiser: OptimiserConfig, step: int, steps: int) -> float:
    """Of `step` (from 0) of `steps`: up to the full rate in the warm-up, then as the schedule says.

    The first step of a warm-up of w takes 1/w of the rate, its last all of it. Cosine and linear fall from the full
    rate towards `lr_end` times it, which the step after the last would have.
    """
    warm = warmup_steps(optimiser, steps)
    if step < warm:
        return optimiser.lr * (step + 1) / warm
    done = min(1.0, (step - warm) / max(1, steps - warm))
    fall = {"constant": 0.0, "linear": done, "cosine": (1 - math.cos(math.pi * done)) / 2}[optimiser.schedule]
    return optimiser.lr * (1 - fall * (1 - optimiser.lr_end))


def warmup_steps(optimiser: OptimiserConfig, steps: int) -> int:
    """A warm-up below 1 is a share of all steps, rounded up."""
    if optimiser.warmup >= 1:
        return math.ceil(optimiser.warmup)
    return math.ceil(round(optimiser.warmup * steps, 9))  # 0.07 · 100 is a little over 7 in binary


def adam(optimiser: OptimiserConfig, lr: float) -> Adam:
    """One step's settings."""
    return Adam(
        lr=lr,
        beta1=optimiser.beta1,
        beta2=optimiser.beta2,
        eps=optimiser.eps,
        weight_decay=optimiser.weight_decay,
        grad_clip_norm=optimiser.grad_clip_norm,
    )
