"""What tokens are drawn with: one uniform number a token, from a stream of the sequence's own.

So what a sequence says depends on its seed and its logits alone, never on what is sampled beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
