"""Log-probs and entropies of single tokens, without ever holding the logits of many positions.

16,384 positions with 152,000 ids would be 10 GB in float32, several times over. Here logits exist for `ROWS` positions
at a time, and the backward pass computes them again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

ROWS = 1024
"""Positions whose logits are held at a time: 0.6 GB in float32 for 152,000 ids."""
SMALL = 1 << 26
"""Logits that are held at a time where the vocabulary is small, in pieces of more than `ROWS` positions: 0.3 GB."""


def rows_at_a_time(ids: int) -> int:
    """Positions whose logits are held at a time for a vocabulary of so many ids."""
    return max(ROWS, SMALL // ids)


def token_logprobs(states: Tensor, weight: Tensor, targets: Tensor, *, entropy: bool = False) -> tuple[Tensor, Tensor]:
    """(log-prob of each target, entropy of each distribution in nats), float32 of shape (n,).

    `states` (n, hidden) are final hidden states, `weight` (ids, hidden) the output layer's. Gradients flow from both to
    both. Entropies are 0 unless asked for.
    """
    given: tuple[Tensor, Tensor] = _TokenLogprobs.apply(states, weight, targets, entropy)
    return given


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, targets: Tensor, entropy: bool) -> tuple[Tensor, Tensor]:
        norms = torch.empty(states.shape[0], dtype=torch.float32, device=states.device)
        logprobs, entropies = torch.empty_like(norms), torch.zeros_like(norms)
        rows = rows_at_a_time(weight.shape[0])
        for at in range(0, states.shape[0], rows):
            some = slice(at, at + rows)
            logits = nn.functional.linear(states[some], weight).float()
            norms[some] = torch.logsumexp(logits, dim=-1)
            logprobs[some] = logits.gather(-1, targets[some, None]).squeeze(-1) - norms[some]
            if entropy:
                probs = (logits - norms[some, None]).exp_()
                entropies[some] = norms[some] - probs.mul_(logits).sum(dim=-1)
        ctx.save_for_backward(states, weight, targets, norms, entropies)
        ctx.set_materialize_grads(False)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        by_logprob, by_entropy = (None if g is None else g[:, None] for g in grads)
        states, weight, targets, norms, entropies = ctx.saved_tensors
        to_states = torch.empty_like(states) if ctx.needs_input_grad[0] else None
        # In float32: what a piece adds to a sum in bfloat16 is lost as soon as the sum is 256 times as large.
        to_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        rows = rows_at_a_time(weight.shape[0])
        for at in range(0, states.shape[0], rows):
            some = slice(at, at + rows)
            logs = nn.functional.linear(states[some], weight).float().sub_(norms[some, None])
            slope = logs.exp()  # becomes the gradient of the logits
            if by_entropy is not None:  # H falls by p (log p + H)
                logs.add_(entropies[some, None]).mul_(by_entropy[some])
                slope.mul_(logs if by_logprob is None else logs.add_(by_logprob[some])).neg_()
            elif by_logprob is not None:
                slope.mul_(-by_logprob[some])
            if by_logprob is not None:  # log p[target] rises by 1 at the target and falls by p
                slope.scatter_add_(-1, targets[some, None], by_logprob[some])
            slope = slope.to(states.dtype)
            if to_states is not None:
                torch.mm(slope, weight, out=to_states[some])
            if to_weight is not None:
                if states.dtype == torch.float32:
                    to_weight.addmm_(slope.T, states[some])
                else:
                    to_weight.add_(slope.T @ states[some])
        return to_states, None if to_weight is None else to_weight.to(weight.dtype), None, None
