"""The gated delta rule of Qwen3.5's linear attention, with a state that is handed in and out.

State S (key_dim x value_dim) of one head, for each token: S ← e^g S; S ← S + k (β (v − kᵀS)); output qᵀS
(Gated Delta Networks, arXiv 2412.06464, equation 10). Keys and queries have unit length.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 64
"""Tokens that are solved together; any number gives the same result."""


def unit(x: Tensor) -> Tensor:
    """Vectors of length 1, float32, as the models were trained with (epsilon under the root)."""
    x = x.float()
    length: Tensor = torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + 1e-6)
    return x * length


def delta_rule_step(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, state: Tensor) -> Tensor:
    """One token: (rows, 1, heads, dim) each, `decay` and `beta` (rows, 1, heads). The state changes in place.

    With decay 0 and beta 0 the state stays as it is.
    """
    q, k, v = unit(query[:, 0]) * query.shape[-1] ** -0.5, unit(key[:, 0]), value[:, 0].float()
    state.mul_(decay[:, 0].float().exp()[..., None, None])
    old = (state * k[..., None]).sum(dim=-2)
    new = (v - old) * beta[:, 0].float()[..., None]
    state.addcmul_(k[..., None], new[..., None, :])
    out: Tensor = (state * q[..., None]).sum(dim=-2)[:, None]
    return out.to(query.dtype)


def chunked_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Any number of tokens: (rows, tokens, heads, dim) each, `decay` and `beta` (rows, tokens, heads).

    Within a chunk the rule is a triangular system, between chunks a scan (arXiv 2412.06464, section 3.3). Returns the
    outputs in the query's type and the new state, float32.
    """
    n = query.shape[1]
    padded = -(-n // CHUNK) * CHUNK

    def chunks(x: Tensor) -> Tensor:  # rows, heads, chunks, CHUNK, …
        x = x.float().transpose(1, 2)
        filled = x.new_zeros((*x.shape[:2], padded, *x.shape[3:]))
        filled[:, :, :n] = x
        return filled.view(*x.shape[:2], padded // CHUNK, CHUNK, *x.shape[3:])

    q, k, v = chunks(unit(query) * query.shape[-1] ** -0.5), chunks(unit(key)), chunks(value)
    total = chunks(decay).cumsum(dim=-1)  # log of the decay since the chunk's start
    b = chunks(beta)[..., None]
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
    between = (total[..., :, None] - total[..., None, :]).masked_fill(later, float("-inf")).exp()
    system = (k * b) @ k.transpose(-1, -2) * between
    written = torch.linalg.solve_triangular(system, v * b, upper=False, unitriangular=True)
    read = torch.linalg.solve_triangular(system, k * b * total.exp()[..., None], upper=False, unitriangular=True)
    inside = q @ k.transpose(-1, -2) * between
    q = q * total.exp()[..., None]
    k = k * (total[..., -1:] - total).exp()[..., None]
    whole = total[..., -1].exp()[..., None, None]
    outputs = []
    state = state.float()
    for c in range(padded // CHUNK):
        new = written[:, :, c] - read[:, :, c] @ state
        outputs.append(q[:, :, c] @ state + inside[:, :, c] @ new)
        state = state * whole[:, :, c] + k[:, :, c].transpose(-1, -2) @ new
    out = torch.stack(outputs, dim=2).flatten(2, 3)[:, :, :n]
    return out.transpose(1, 2).to(query.dtype), state
