"""Drawing a token: one uniform number a token (`specvet.policies.uniforms`) through the inverse of the CDF."""

from __future__ import annotations

import torch
from torch import Tensor


def draw(
    logits: Tensor,
    uniforms: Tensor,
    temperature: Tensor,
    top_p: Tensor | None = None,
    top_k: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One token a row and its log-prob: ids (rows,) and float32 (rows,).

    `logits` (rows, ids); the others (rows,). Temperature 0 takes the likeliest. `top_k` (0 keeps all) is applied before
    `top_p`, which keeps the fewest likeliest tokens that together reach it. The log-prob is the model's own: at
    temperature 1, over all ids.
    """
    logits = logits.float()
    logprobs = torch.log_softmax(logits, dim=-1)
    likeliest = logits.argmax(dim=-1)
    sampled = temperature > 0
    scale = torch.where(sampled, temperature, 1.0)[:, None]
    shares = torch.softmax(logits / scale, dim=-1)
    if top_p is not None and top_k is not None:
        ranked, order = shares.sort(dim=-1, descending=True, stable=True)
        rank = torch.arange(shares.shape[-1], device=shares.device)[None, :]
        ranked = torch.where((rank < top_k[:, None]) | (top_k[:, None] <= 0), ranked, 0.0)
        before = ranked.cumsum(dim=-1) - ranked
        ranked = torch.where(before < top_p[:, None] * ranked.sum(dim=-1, keepdim=True), ranked, 0.0)
        # Back in the order of ids: a row that is not cut must draw what it draws when no row beside it is.
        shares = torch.where((top_p < 1)[:, None] | (top_k > 0)[:, None], shares.scatter(-1, order, ranked), shares)
    reached = shares.cumsum(dim=-1)
    place = torch.searchsorted(reached, uniforms[:, None] * reached[:, -1:], right=True)
    place = place.clamp_(max=shares.shape[-1] - 1)
    # Rounding in a parallel sum can point just beyond what may be drawn.
    possible = shares.gather(-1, place).squeeze(-1) > 0
    ids = torch.where(sampled & possible, place.squeeze(-1), likeliest)
    return ids, logprobs.gather(-1, ids[:, None]).squeeze(-1)
