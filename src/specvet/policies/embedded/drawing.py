"""Drawing a token as the torch policy does: one uniform number a row through the inverse of the CDF."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def draw(
    logits: Array, uniforms: Array, temperature: Array, top_p: Array, top_k: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Array]:
    """One token a row and its log-prob: ids (rows,) and float32 (rows,).

    `logits` (rows, ids), float32; the others (rows,). Temperature 0 takes the likeliest. `top_k` (0 keeps all) is
    applied before `top_p`, which keeps the fewest likeliest tokens that together reach it. The log-prob is the model's
    own: at temperature 1, over all ids. The same tokens as `specvet.policies.torch.sampling.draw`.
    """
    rows = np.arange(len(logits))
    ids = logits.argmax(axis=1)
    highest = logits[rows, ids]
    sums = np.exp(logits - highest[:, None]).sum(axis=1)
    sampled = np.flatnonzero(temperature > 0)
    if sampled.size:
        scaled = (logits[sampled] - highest[sampled, None]) / temperature[sampled, None]
        shares = np.exp(scaled)
        shares /= shares.sum(axis=1, keepdims=True)
        cut = (top_p[sampled] < 1) | (top_k[sampled] > 0)
        if cut.any():
            at = sampled[cut]
            shares[cut] = _cut(shares[cut], top_p[at], top_k[at])
        reached = shares.cumsum(axis=1, dtype=np.float64).astype(np.float32)
        wanted = uniforms[sampled] * reached[:, -1]
        place = (reached <= wanted[:, None]).sum(axis=1).clip(max=shares.shape[1] - 1)
        # Rounding can point just beyond what may be drawn.
        possible = shares[np.arange(len(place)), place] > 0
        ids[sampled] = np.where(possible, place, ids[sampled])
    return ids, (logits[rows, ids] - highest - np.log(sums)).astype(np.float32)


def _cut(shares: Array, top_p: Array, top_k: NDArray[np.int64]) -> Array:
    """Shares (rows, ids) with those set to 0 that are cut off."""
    order = np.argsort(-shares, axis=1, kind="stable")
    ranked = np.take_along_axis(shares, order, axis=1)
    rank = np.arange(shares.shape[1])[None, :]
    ranked = np.where((rank < top_k[:, None]) | (top_k[:, None] <= 0), ranked, np.float32(0.0))
    before = ranked.cumsum(axis=1, dtype=np.float64).astype(np.float32) - ranked
    ranked = np.where(before < top_p[:, None] * ranked.sum(axis=1, keepdims=True), ranked, np.float32(0.0))
    kept = np.empty_like(shares)
    np.put_along_axis(kept, order, ranked, axis=1)
    return kept
