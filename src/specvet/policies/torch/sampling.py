"""Drawing a token: one uniform number a token, from a stream of the sequence's own, through the inverse of the CDF.

So what a sequence says depends on its seed and its logits alone, never on what is sampled beside it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def uniforms(seeds: NDArray[np.uint64], index: NDArray[np.uint64], place: NDArray[np.uint64]) -> NDArray[np.float32]:
    """The number that token `place` of sequence `index` is drawn with under a seed; arrays of one shape, and so is the
    result: in [0, 1), multiples of 2^-24, never 1.

    Philox 4x32 with 10 rounds (Salmon et al., SC 2011): key seed, counter (place, index, 0, 0), first word.
    """
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    key = [seeds & low, seeds >> half]
    words = [place & low, index & low, np.zeros_like(place), np.zeros_like(place)]
    return ((philox(words, key)[0] >> np.uint64(8)).astype(np.float32)) * np.float32(2**-24)


def philox(words: list[NDArray[np.uint64]], key: list[NDArray[np.uint64]]) -> list[NDArray[np.uint64]]:
    """Philox 4x32-10 of counters (four 32-bit words) under keys (two); constants as published."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b, c, d = words
    k, m = key
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (second >> half) ^ b ^ k, second & low, (first >> half) ^ d ^ m, first & low
        k, m = (k + np.uint64(0x9E3779B9)) & low, (m + np.uint64(0xBB67AE85)) & low
    return [a, b, c, d]


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
