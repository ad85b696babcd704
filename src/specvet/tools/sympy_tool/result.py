"""What a call gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one call."""

    status: Literal["ok", "error"]
    kind: str
    """Empty when ok, else an `ErrorKind` of the grammar, or `max_calls`, `tool_budget` of an episode that is spent."""
    text: str
    """One line of at most `Limits.output` characters; of an error `error: KIND: what to write`."""
    seconds: float = 0.0
    """Tool time; 0 of a result that was remembered or refused."""
    repeated: bool = False
    """Whether the same line was asked before in this episode."""

    @property
    def ok(self) -> bool:
        return self.status == "ok"
