"""From a finished ledger to what a trainer takes: one datum a trajectory, shifted by one token.

Position i of a datum sees tokens 0 … i and predicts token i + 1. Only sampled tokens carry weight: headers, separators,
questions, pictures and observations are context, with the target −100, weight 0, log-prob 0 and advantage 0. What
follows the last sampled token is left out, since nothing learns from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from specvet.chat.ledger import ImageSegment, Ledger, LedgerError, SampledSegment, TextSegment

_Array = TypeVar("_Array", NDArray[np.int32], NDArray[np.float32])

IGNORED = -100
"""The target of a position that is not learnt."""


@dataclass(frozen=True, slots=True, eq=False)
class Datum:
    """One trajectory for a trainer; arrays are read-only, of shape (n_tokens,), pictures' positions included."""

    chunks: tuple[tuple[int, ...] | ImageSegment, ...]
    """The model's input: ids and pictures in their order."""
    targets: NDArray[np.int32]
    """The next token, or `IGNORED`."""
    weights: NDArray[np.float32]
    """1 where the next token was sampled (or demonstrated), else 0."""
    logprobs: NDArray[np.float32] | None
    """Of the sampled next token, when it was sampled; None for a demonstration."""
    advantages: NDArray[np.float32] | None
    """The trajectory's one advantage where the weight is 1, else 0; None for a demonstration."""

    @property
    def n_tokens(self) -> int:
        return int(self.targets.size)

    @property
    def n_learnt(self) -> int:
        """Tokens that carry weight: those above 0, however large. A batch's N is the sum of these."""
        return int((self.weights > 0).sum())

    @property
    def images(self) -> tuple[ImageSegment, ...]:
        return tuple(c for c in self.chunks if isinstance(c, ImageSegment))


def sft_datum(ledger: Ledger) -> Datum:
    """Supervise every assistant token, end tokens included; log-probs, where there are any, are left out.

    Raises LedgerError without an assistant turn, for words, and for a turn that holds a picture's id.
    """
    chunks, targets, weights, _ = _shifted(ledger)
    return Datum(chunks, targets, weights, None, None)


def rl_datum(ledger: Ledger, advantage: float) -> Datum:
    """Sampled tokens with their log-probs and the trajectory's advantage.

    Raises LedgerError where a sampled token has no log-prob, and as `sft_datum`.
    """
    if not abs(advantage) <= float(np.finfo(np.float32).max):  # nor NaN
        raise LedgerError(f"an advantage of {advantage}; it must be finite")
    if ledger.kind == "tokens" and ledger.sampled and not ledger.trainable:
        raise LedgerError("a turn of this ledger has no log-probs (a demonstration?); a policy gradient needs them")
    chunks, targets, weights, logprobs = _shifted(ledger)
    advantages = np.zeros_like(weights)
    advantages[weights > 0] = advantage
    return Datum(chunks, targets, weights, logprobs, _fixed(advantages))


def check_weights(datum: Datum, ledger: Ledger) -> None:
    """Raises LedgerError where a weight and a segment disagree: a token that was not sampled is learnt, or one that was
    is not. For whoever alters a datum or makes one elsewhere: a tool's words in the loss teach to make them up."""
    spans = list(zip(pairwise(ledger.ends), ledger, strict=True))
    for (start, end), segment in spans:
        weights = datum.weights[max(start - 1, 0) : max(end - 1, 0)]
        own = isinstance(segment, SampledSegment)
        told = "sampled" if own else getattr(segment, "role", "picture")
        if own and (len(weights) < end - max(start, 1) or not (weights > 0).all()):
            raise LedgerError(f"a sampled token of {start}-{end - 1} carries no weight")
        if not own and (weights != 0).any():
            at = start + int(np.flatnonzero(weights)[0]) + (start == 0)
            raise LedgerError(f"token {at}, whose role is {told}, carries the weight {float(weights.max()):g}")
    wrong = (datum.weights > 0) != (datum.targets != IGNORED)
    if wrong.any():
        raise LedgerError(f"position {int(np.flatnonzero(wrong)[0])} has a weight without a target, or the reverse")


_Shifted = tuple[
    tuple[tuple[int, ...] | ImageSegment, ...], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]
]


def _shifted(ledger: Ledger) -> _Shifted:
    """(chunks, targets, weights, log-probs) of the positions that predict something."""
    ids = ledger.ids()
    spans = [(start, end, s) for (start, end), s in zip(pairwise(ledger.ends), ledger, strict=True)]
    n = max((end for _, end, s in spans if isinstance(s, SampledSegment)), default=0)
    if n == 0:
        raise LedgerError("nothing in this ledger was sampled, so there is nothing to learn")
    _check_pictures(ledger)
    weights = np.zeros(n, dtype=np.float32)
    logprobs = np.zeros(n, dtype=np.float32)
    chunks: list[tuple[int, ...] | ImageSegment] = []
    waiting: list[int] = []
    for start, end, segment in spans:
        if start >= n:
            break
        if isinstance(segment, ImageSegment):
            if waiting:
                chunks.append(tuple(waiting))
                waiting = []
            chunks.append(segment)
        elif isinstance(segment, SampledSegment):
            waiting.extend(segment.ids)
            weights[start:end] = 1
            if segment.logprobs is not None:
                logprobs[start:end] = segment.logprobs
        elif isinstance(segment, TextSegment):
            waiting.extend(segment.ids)
    last = waiting[:-1]  # the last token is only ever a target
    if last:
        chunks.append(tuple(last))
    if weights[0]:
        raise LedgerError("the first token of a ledger was sampled; there is no position that predicts it")
    targets = np.where(weights[1:] > 0, ids[1:n], IGNORED).astype(np.int32)
    made = sum(c.n_tokens if isinstance(c, ImageSegment) else len(c) for c in chunks)
    learnt, wanted = int(weights.sum()), ledger.n_sampled
    if made != n - 1 or learnt != wanted:  # the totals that every backend relies on
        raise LedgerError(f"a datum of {made} positions and {learnt} targets; {n - 1} and {wanted} expected")
    return tuple(chunks), _fixed(targets), _fixed(weights[1:].copy()), _fixed(logprobs[1:].copy())


def _check_pictures(ledger: Ledger) -> None:
    """A trainer puts one picture's features at each run of its id, so one elsewhere would shift them all."""
    pads = {s.pad_id for s in ledger.images}
    if any(not pads.isdisjoint(s.ids) for s in ledger if isinstance(s, TextSegment | SampledSegment)):
        raise LedgerError(
            "a turn or a text holds the id that stands for pictures; a trainer would look for a picture there"
        )


def _fixed(values: _Array) -> _Array:
    values.setflags(write=False)
    return values
