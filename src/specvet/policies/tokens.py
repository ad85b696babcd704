"""What a `TokenPolicy` is: it works on ids. In comes a ledger; out come sampled sequences.

Imports neither torch nor pydantic: it is what a training loop on a bare image needs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from specvet.chat import ChatFormat, Ledger, Stop
    from specvet.policies.base import Capability


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one turn is sampled."""

    max_tokens: int
    """Of this turn."""
    temperature: float = 1.0
    """0 takes the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps all."""
    seed: int = 0
    """Sequence i of n is drawn from the stream (seed, i), whatever else is sampled beside it."""
    stop: tuple[str, ...] = ()
    """Texts that end a turn as well: its last token is the one whose bytes complete the first of them, and is kept
    whole. Engines of this machine keep to it to the token; of a service whoever asks must expect more, or less the
    text itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """One sampled turn."""

    ids: tuple[int, ...]
    """With the end token, where it ended with one; with all of a token that completes a stop text."""
    logprobs: NDArray[np.float32] | None
    """Shape (n_tokens,): natural logarithm of the model's own probability (temperature 1, nothing cut off) of each id,
    whatever temperature it was drawn at; None where the backend gives none."""
    stop: Stop


@dataclass(frozen=True, slots=True)
class Samples:
    """What one call of `sample` gave."""

    sequences: tuple[Sequence, ...]
    prompt_tokens: int | None = None
    """The prompt's length as the backend counts it; held against the ledger's."""
    cached_tokens: int | None = None
    """Of them, those that were not computed again."""


@dataclass(slots=True)
class Usage:
    """What a policy has used so far; all of it goes into the receipt."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    """Tokens of all prompts, cached or not."""
    prefilled_tokens: int = 0
    """Of them, those that were computed."""
    unique_tokens: int = 0
    """What had to be computed at the least: each prefix once, whoever shares it."""
    sampled_tokens: int = 0
    images: int = 0
    """Pictures that went through the vision tower, or were sent."""
    seconds: float = 0.0
    """In sampling, summed over requests that overlap."""
    cost: float = 0.0
    """US dollars, as the service states them."""
    notes: dict[str, float] = field(default_factory=dict)
    """Anything else a backend counts, by name."""


def usage_numbers(usage: Any) -> dict[str, float]:
    """A policy's usage (or a trainer's) as numbers by name; what it counts besides stands under `notes.`."""
    # Field by field, since a run asks with every trajectory: `asdict` would copy all of it first.
    numbers = {f.name: float(getattr(usage, f.name)) for f in fields(usage) if f.name != "notes"}
    return numbers | {f"notes.{name}": float(value) for name, value in usage.notes.copy().items()}


class PolicyError(RuntimeError):
    """A policy that cannot go on: no login, no server, no such model. The message says what to do.

    `fatal`: every other question would meet the same, so the run stops instead of failing row by row.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class ContextLengthError(PolicyError):
    """The prompt and its answer do not fit into the model's context: this trajectory ends here, at a limit."""


class TokenPolicy(Protocol):
    """A policy on ids."""

    name: str
    capabilities: frozenset[Capability]
    format: ChatFormat
    usage: Usage
    context: int | None
    """Tokens that a prompt and its answer may have together; None where unknown."""

    @property
    def fingerprint(self) -> str:
        """Hash of what makes it decide as it does: weights, adapter, format."""
        ...

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        """n sequences that continue the ledger. Raises PolicyError, TimeoutError, LedgerError."""
        ...

    def release(self, ledger: Ledger) -> None:
        """This trajectory is over; what is cached for it may go."""
        ...

    async def aclose(self) -> None:
        """Free everything."""
        ...


def turn_seed(seed: int, question: str, branch: int, turn: int) -> int:
    """A seed of 63 bits for one turn of one branch of one question; the same on every machine."""
    digest = hashlib.sha256(f"{seed}/{question}/{branch}/{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


ReplyStop = Literal["end", "length", "tool"]
