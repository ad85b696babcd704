"""The losses of `specvet.training.trainer`, token by token: pure functions of tensors of one shape."""

from __future__ import annotations

import torch
from torch import Tensor

from specvet.training.trainer import MAX_MOVE, Loss


def token_losses(
    loss: Loss, logprobs: Tensor, weights: Tensor, old: Tensor | None, advantages: Tensor | None
) -> Tensor:
    """What each active token adds to the loss, before its division by N; float32, the shape of `logprobs`.

    `logprobs` are those now, `old` those when the token was sampled; the policy losses need it and `advantages`.
    """
    if loss.name == "cross_entropy":
        return -weights * logprobs
    assert old is not None
    assert advantages is not None
    ratio = torch.exp((logprobs - old).clamp(-MAX_MOVE, MAX_MOVE))
    if loss.name == "importance_sampling":
        return -ratio * advantages
    clipped = ratio.clamp(*loss.clip)
    if loss.name == "ppo":
        return -torch.minimum(ratio * advantages, clipped * advantages)
    return -clipped.detach() * advantages * logprobs  # cispo
