"""What is wrong with data that somebody gave."""

from __future__ import annotations

from dataclasses import dataclass


class InputError(ValueError):
    """Inputs that no run can start from; the message says what is wrong and what is needed."""


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that nothing is learnt from; never left out in silence, but listed in the run's `rejects.jsonl`."""

    id: str
    where: str
    """File and line."""
    reason: str
    n_tokens: int | None = None
    """Of a demonstration that is too long."""
