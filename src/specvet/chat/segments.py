"""What a ledger is made of: immutable segments of ids, pictures and words."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

TextRole = Literal["system", "user", "tool", "harness", "frame"]
"""Whose words the program rendered; `harness` are its own, put into a turn between a tool's."""
Stop = Literal["end", "length", "stop"]
"""Why a sampled segment ended: with an end token (its last id, unless a service leaves it out), at a limit, or with the
token that completes a stop text (or where the program cut it: the turn goes on after what it puts in)."""
STOPS: tuple[Stop, ...] = get_args(Stop)

MAX_LOGPROB = 1e-3
"""A log-prob may be this far above 0 by rounding."""
MAX_ID = 2**31 - 1
"""Ids travel as int32."""
MAX_PICTURE = 1 << 24
"""Tokens of one picture; the largest that a family's processor lets through has 16,384."""


class LedgerError(ValueError):
    """Something that would make a ledger untrue; the trajectory ends here and says so."""


@dataclass(frozen=True, slots=True)
class TextSegment:
    """Ids that the program rendered; no weight, ever. Raises LedgerError for what is no id."""

    ids: tuple[int, ...]
    role: TextRole

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _as_ids(self.ids))

    @property
    def n_tokens(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class WordsSegment:
    """Words of a text-only ledger, whose tokens only the server knows."""

    text: str
    """Half characters (lone surrogates, which no UTF-8 can hold) become U+FFFD."""
    role: TextRole | Literal["assistant"]

    def __post_init__(self) -> None:
        if not self.text.isascii():
            object.__setattr__(self, "text", self.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    @property
    def n_tokens(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class ImageSegment:
    """One picture: `rows` x `columns` tokens of the id `pad_id`. The vision markers around it are text."""

    sha256: str
    width: int
    """Pixels of the PNG, before any processor resizes it."""
    height: int
    rows: int
    """Visual tokens down (0 in a text-only ledger)."""
    columns: int
    """Visual tokens across."""
    pad_id: int
    role: TextRole
    png: bytes | None = field(default=None, repr=False, compare=False)
    """None in a ledger that was read back; the picture lies in the run's images under its hash."""

    @property
    def n_tokens(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True, slots=True, eq=False)
class SampledSegment:
    """What the model said in one turn: ids, and their log-probs unless it is a demonstration.

    Raises LedgerError for what is no id or stop, for counts that differ, and for log-probs that are not finite or
    above 0.
    """

    ids: tuple[int, ...]
    logprobs: NDArray[np.float32] | None
    """Shape (n_tokens,), natural logarithm at temperature 1, never writable; None for a demonstration."""
    stop: Stop

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _as_ids(self.ids))
        if self.stop not in STOPS:
            raise LedgerError(f"a turn that stopped for {self.stop!r}, where one of {', '.join(STOPS)} is expected")
        if self.logprobs is not None:
            object.__setattr__(self, "logprobs", _as_logprobs(self.logprobs, len(self.ids)))

    @property
    def n_tokens(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """The same ids, stop and log-probs, to the last bit."""
        if not isinstance(other, SampledSegment):
            return NotImplemented
        return (self.ids, self.stop, _bits(self.logprobs)) == (other.ids, other.stop, _bits(other.logprobs))

    def __hash__(self) -> int:
        return hash((self.ids, self.stop))


Segment = TextSegment | ImageSegment | SampledSegment | WordsSegment


def _as_ids(given: Iterable[Any]) -> tuple[int, ...]:
    """Python's own ints, whatever integers were given."""
    try:
        ids = tuple(map(operator.index, given))
    except TypeError as e:
        raise LedgerError(f"a token id that is no whole number: {e}") from e
    if ids and (min(ids) < 0 or max(ids) > MAX_ID):
        raise LedgerError(f"the token id {min(ids) if min(ids) < 0 else max(ids)} lies outside 0-{MAX_ID}")
    return ids


def _as_logprobs(given: Any, n: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # an overflow is infinite, and refused below
            values = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as e:
        raise LedgerError(f"log-probs that are no numbers: {e}") from e
    if values.shape != (n,):
        raise LedgerError(f"log-probs of shape {values.shape} for {n} sampled tokens; each token needs exactly one")
    if not np.isfinite(values).all():
        raise LedgerError("a log-prob of a sampled token is not finite")
    if n and (highest := float(values.max())) > MAX_LOGPROB:
        raise LedgerError(f"a log-prob of {highest:g}, above 0; are these logits?")
    return np.frombuffer(values.tobytes(), dtype=np.float32)  # over bytes, so that no flag makes it writable


def _bits(logprobs: NDArray[np.float32] | None) -> bytes | None:
    return None if logprobs is None else logprobs.tobytes()
