"""Which reviewers look at which item: by a hash, so that it needs no table, is even, and is the same everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_U64 = np.uint64


def assigned(items: Sequence[str], reviewers: Sequence[str], each: int, seed: int = 0) -> NDArray[np.bool_]:
    """Which of `reviewers` get which of `items` (names of 16 hexadecimal digits): shape (items, reviewers).

    By rendezvous hashing: every item goes to `each` reviewers, and a reviewer who joins or leaves moves only the items
    that they get or had. Raises ValueError when `each` is not between 1 and the number of reviewers.
    """
    if not 1 <= each <= len(reviewers):
        raise ValueError(f"an item cannot go to {each} of {len(reviewers)} reviewers; name more, or let fewer get each")
    numbers = item_numbers(items)
    scores = np.stack([_mixed(numbers ^ _number(f"{seed}\0{name}")) for name in reviewers], axis=1)
    chosen = np.zeros(scores.shape, bool)
    np.put_along_axis(chosen, np.argsort(scores, axis=1)[:, -each:], True, axis=1)
    return chosen


def shuffled(items: Sequence[str], seed: str) -> NDArray[np.uint64]:
    """A number for each item, evenly spread over 64 bits and the same everywhere: for random orders and samples."""
    return _mixed(item_numbers(items) ^ _number(seed))


def item_numbers(items: Sequence[str]) -> NDArray[np.uint64]:
    return np.array([int(item, 16) for item in items], _U64)


def _number(text: str) -> np.uint64:
    return _U64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea & Flood 2014, OOPSLA)."""
    x = (x ^ (x >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
    return x ^ (x >> _U64(31))
