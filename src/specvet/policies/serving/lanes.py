"""What the host knows of the rows that are being sampled: arrays with one entry a row, so that 512 rows cost little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from specvet.policies.tokens import PolicyError
from specvet.policies.uniforms import uniforms

if TYPE_CHECKING:
    from specvet.policies.serving.jobs import Branch


AHEAD = 64
"""Tokens for which a row's numbers are made at a time; at least the steps of a block."""


class Lanes:
    """Rows of the arena as a step sees them; those that are `moving` are sampled."""

    def __init__(self, stop_ids: Sequence[int]) -> None:
        self._stop_ids = np.array(stop_ids, dtype=np.int64)
        self._allocate(0, 0)

    def _allocate(self, rows: int, tokens: int) -> None:
        self.whole = np.zeros((5, rows), dtype=np.int64)
        self.token, self.column, self.offset, self.left, self.top_k = self.whole
        """The last token, which the model has not seen; where its key and value go, which is how many tokens the row
        holds; rotary position less column; tokens that it may still say; the cut."""
        self.real = np.ones((2, rows), dtype=np.float32)
        self.temperature, self.top_p = self.real
        self.moving = np.zeros(rows, dtype=bool)
        self.watched = np.zeros(rows, dtype=bool)
        """Rows whose turns also end with texts, so that each of their tokens must be looked at."""
        self.said = np.zeros(rows, dtype=np.int64)
        """Tokens sampled so far."""
        self._stream = np.zeros((2, rows), dtype=np.uint64)
        self._ahead = np.zeros((rows, AHEAD), dtype=np.float32)
        self._from = np.full(rows, -AHEAD, dtype=np.int64)
        """The numbers of `AHEAD` tokens, and the first of those tokens."""
        self._ids = np.zeros((rows, tokens), dtype=np.int64)
        self._logprobs = np.zeros((rows, tokens), dtype=np.float32)
        self.branches: list[Branch | None] = [None] * rows

    def reserve(self, rows: int, tokens: int) -> None:
        """Room for so many rows, each of which says up to so many tokens."""
        had, could = self._ids.shape
        if rows <= had and tokens <= could:
            return
        old, branches = self._arrays(), self.branches
        self._allocate(max(rows, had), max(tokens, could))
        for one, other in zip(old, self._arrays(), strict=True):
            other[tuple(slice(n) for n in one.shape)] = one
        self.branches[:had] = branches

    def _arrays(self) -> list[NDArray[Any]]:
        more: list[NDArray[Any]] = [self._stream, self._ahead, self._from, self._ids, self._logprobs]
        return [self.whole, self.real, self.moving, self.watched, self.said, *more]

    @property
    def busy(self) -> NDArray[np.int64]:
        """Slots of the rows that move, ascending."""
        return np.flatnonzero(self.moving)

    @property
    def n_busy(self) -> int:
        return int(self.moving.sum())

    def start(self, slot: int, branch: Branch, column: int) -> None:
        """A row that holds `column` tokens begins to move."""
        p = branch.request.params
        self.whole[:, slot] = 0, column, branch.offset, p.max_tokens, p.top_k
        self.real[:, slot] = p.temperature, p.top_p
        self._stream[:, slot] = p.seed % 2**64, branch.index
        self.said[slot], self._from[slot] = 0, -AHEAD
        self.moving[slot], self.watched[slot] = True, bool(p.stop)
        self.branches[slot] = branch

    def stop(self, slot: int) -> Branch:
        """A row moves no longer; its branch."""
        branch, self.branches[slot] = self.branches[slot], None
        assert branch is not None
        self.moving[slot] = self.watched[slot] = False
        return branch

    def in_hand(self) -> list[Branch]:
        """Branches of the rows that move."""
        return [b for b in self.branches if b is not None]

    def cuts(self, slots: NDArray[np.int64]) -> bool:
        """Whether some of these rows draw from a part of the ids only."""
        return bool((self.top_p[slots] < 1).any() or (self.top_k[slots] > 0).any())

    def numbers(self, slots: NDArray[np.int64], n: int) -> NDArray[np.float32]:
        """What the next n tokens of these rows are drawn with, shape (n, len(slots))."""
        said = self.said[slots]
        short = slots[(said < self._from[slots]) | (said + n > self._from[slots] + AHEAD)]
        if short.size:  # many at a time: a call costs as much as a hundred numbers
            self._from[short] = self.said[short]
            place = (self.said[short][:, None] + np.arange(AHEAD)[None, :]).astype(np.uint64)
            seed, index = (np.broadcast_to(s[:, None], place.shape) for s in self._stream[:, short])
            self._ahead[short] = uniforms(seed, index, place)
        at = said - self._from[slots] + np.arange(n)[:, None]
        numbers: NDArray[np.float32] = self._ahead[slots[None, :], at]
        return numbers

    def append(
        self, slots: NDArray[np.int64], ids: NDArray[np.int64], logprobs: NDArray[np.float32], *, stepped: bool
    ) -> list[tuple[int, bool]]:
        """New tokens of rows, shape (n, len(slots)), each up to its end; rows that ended: (slot, with an end token).

        `stepped`: the model has seen the token before each of them. Raises PolicyError for log-probs that are no
        numbers.
        """
        n = ids.shape[0]
        ends = np.isin(ids, self._stop_ids)
        first = np.where(ends.any(axis=0), ends.argmax(axis=0), n)
        kept = np.minimum(np.minimum(first + 1, n), self.left[slots])
        valid = np.arange(n)[:, None] < kept
        if not np.isfinite(logprobs[valid]).all():
            raise PolicyError("the model's logits are not finite: damaged weights, or a dtype that overflows")
        at = self.said[slots] + np.arange(n)[:, None]
        row = np.broadcast_to(slots, at.shape)
        self._ids[row[valid], at[valid]] = ids[valid]
        self._logprobs[row[valid], at[valid]] = logprobs[valid]
        self.said[slots] += kept
        self.left[slots] -= kept
        self.token[slots] = ids[kept - 1, np.arange(len(slots))]
        if stepped:
            self.column[slots] += kept
        by_token = first < kept
        over = by_token | (self.left[slots] == 0)
        return [(int(s), bool(t)) for s, t in zip(slots[over], by_token[over], strict=True)]

    def words(self, slot: int) -> tuple[tuple[int, ...], NDArray[np.float32]]:
        """All that a row has said: ids and log-probs."""
        n = int(self.said[slot])
        return tuple(self._ids[slot, :n].tolist()), self._logprobs[slot, :n].copy()

    def newest(self, slot: int, n: int) -> list[int]:
        """The last ids that a row has said, at most n."""
        said = int(self.said[slot])
        ids: list[int] = self._ids[slot, max(0, said - n) : said].tolist()
        return ids

    def swap(self, some: Sequence[int], others: Sequence[int]) -> None:
        """Exchange rows pair by pair."""
        a, b = [*some, *others], [*others, *some]
        for values in (self.whole, self.real, self.moving, self.watched, self.said, self._stream):
            values[..., a] = values[..., b]
        for table in (self._ids, self._logprobs, self._ahead, self._from):
            table[a] = table[b]
        for one, other in zip(some, others, strict=True):
            self.branches[one], self.branches[other] = self.branches[other], self.branches[one]
