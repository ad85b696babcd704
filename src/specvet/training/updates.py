"""From datums to better weights: the KL penalty, the mini-batches, and how far the policy had moved.

**KL.** Each sampled token's advantage loses kl · (q − p_ref): its log-prob when it was sampled, less that under the
weights that the run began from. Over tokens drawn from q this difference is, on average, the KL divergence of the
policy from its reference at that position (the estimator k1 of http://joschu.net/blog/kl-approx.html, without bias),
and the policy gradient of it is the gradient of that divergence. A single difference may have either sign. All of this
holds at temperature 1 with nothing cut off (top_p 1), where tokens are drawn from q; other settings are refused.

**Mini-batches.** The batch is split by trajectories, in an order of (seed, step), into parts of nearly equal size;
groups are not kept together, since an advantage already says all that its group has to say. Each part is an update of
its own, so that from the second on the ratio p/q is no longer near 1 and clipping begins to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Datum
from specvet.policies.remote import resolve
from specvet.training.order import epoch_order
from specvet.training.trainer import Adam, Loss, Step, Trainer

Logprobs = Sequence[NDArray[np.float32]]
"""One array a datum, shape (n_tokens,)."""


async def learn(
    trainer: Trainer, datums: Sequence[Datum], loss: Loss, adam: Adam, parts: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """One update for each part of the datums; returns the numbers of all of them. Raises TrainerError."""
    steps: list[Step] = []
    norms: list[float] = []
    for part in parts:
        steps.append(await resolve(trainer.forward_backward([datums[i] for i in part], loss)))
        update = await resolve(trainer.optim_step(adam))
        if update.grad_norm is not None:
            norms.append(update.grad_norm)
    if not steps:
        return dict.fromkeys(("loss", "grad_norm", "entropy", "ratio_mean", "clip_share", "drift_mean", "drift_max"))
    weights = [step.n_active for step in steps]
    entropies = [step.entropy for step in steps if step.entropy is not None]
    moved = [moves([datums[i] for i in part], step.logprobs) for part, step in zip(parts, steps, strict=True)]
    ratios, drift = np.exp(np.concatenate(moved)), np.abs(moved[0])
    return {
        "loss": float(np.average([step.loss for step in steps], weights=weights)),
        "grad_norm": float(np.mean(norms)) if norms else None,
        "entropy": float(np.average(entropies, weights=weights)) if len(entropies) == len(steps) else None,
        "ratio_mean": float(ratios.mean()),
        "clip_share": float(((ratios < loss.clip[0]) | (ratios > loss.clip[1])).mean()),
        "drift_mean": float(drift.mean()),
        "drift_max": float(drift.max()),
    }


def moves(datums: Sequence[Datum], now: Logprobs) -> NDArray[np.float64]:
    """p − q of all active tokens: what the trainer says of them now, less what the sampler said; shape (n_active,)."""
    return np.concatenate(
        [(p.astype(np.float64) - _sampled(d))[d.weights > 0] for d, p in zip(datums, now, strict=True)]
    )


def mini_batches(n: int, parts: int, seed: int, step: int) -> list[list[int]]:
    """The trajectories 0 … n − 1 in so many parts; fewer where there are not as many trajectories."""
    order = epoch_order(n, seed, step) if parts > 1 else list(range(n))
    return [order[i::parts] for i in range(min(parts, n))]


def penalised(datums: Sequence[Datum], reference: Logprobs, kl: float) -> tuple[list[Datum], float]:
    """The datums with the KL penalty taken from their advantages, and the mean of q − p_ref over active tokens."""
    made = []
    for datum, ref in zip(datums, reference, strict=True):
        assert datum.advantages is not None
        advantages = datum.advantages - kl * (_sampled(datum) - ref) * (datum.weights > 0)
        advantages = advantages.astype(np.float32)
        advantages.setflags(write=False)
        made.append(replace(datum, advantages=advantages))
    return made, -float(moves(datums, reference).mean())


def _sampled(datum: Datum) -> NDArray[np.float32]:
    assert datum.logprobs is not None
    return datum.logprobs
