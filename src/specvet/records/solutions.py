"""What is kept of one attempt at a problem: who wrote what, how it ended, what was answered, and the ledger."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from specvet.records.problems import Segment
from specvet.records.schema import StopReason, TokenCounts


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class ToolCounts(_Record):
    """The calls of one attempt."""

    made: int = 0
    """Well-formed ones: those of `executed` and `repeated`, and one that came too late."""
    executed: int = 0
    succeeded: int = 0
    """Answered with the status `ok`, the repeated ones included."""
    repeated: int = 0
    """The same as an earlier one, and answered with what that gave."""
    malformed: int = 0
    fabricated: int = 0
    """Results that the model began to write itself; each was cut."""
    errors: dict[str, int] = Field(default_factory=dict)
    """Calls that gave an error, by kind: `timeout`, `syntax`, …"""
    seconds: float = 0.0
    """Of the tool."""


class Solution(_Record):
    """One attempt at a problem, or one branch of a group of attempts."""

    schema_version: int = 1
    problem: str
    """Its id."""
    policy: str
    segments: tuple[Segment, ...]
    """What followed the question, in order; the first one's thought may be opened by the chat format."""
    stop: StopReason
    stop_detail: str = ""
    answer: str | None = None
    """As the model wrote it, of its own words alone; None unless `stop` is `answered`."""
    route: Literal["answer", "box", "none"] | None = None
    """Where it stood, see `specvet.tasks.physics.reading.Route`."""
    calls: ToolCounts = ToolCounts()
    tokens: TokenCounts | None = None
    reward: dict[str, float] | None = None
    seconds: float
    started: str
    """UTC, ISO 8601."""
    sample: int = 0
    """Which branch of its group it is, from 0."""
    group: int = 1
    ledger: dict[str, Any] | None = None
    """As `specvet.chat.Ledger.to_dict` gives and `from_dict` takes it."""
