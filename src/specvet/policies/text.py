"""What a `TextPolicy` is: a chat server that gives words, not ids. In come messages; out come replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from specvet.chat import Message, ParsedTurn
from specvet.policies.tokens import ReplyStop, SamplingParams, Usage

if TYPE_CHECKING:
    from specvet.policies.base import Capability


@dataclass(frozen=True, slots=True)
class Reply:
    """One assistant turn of a server."""

    turn: ParsedTurn
    message: Message
    """The turn as it goes back to the server in later requests."""
    text: str
    """All of its words, thought included."""
    stop: ReplyStop
    sampled_tokens: int | None = None
    """As the server counts them."""


@dataclass(frozen=True, slots=True)
class Replies:
    """What one request gave."""

    replies: tuple[Reply, ...]
    prompt_tokens: int | None = None
    """As the server counts them."""


class TextPolicy(Protocol):
    """A policy on words."""

    name: str
    capabilities: frozenset[Capability]
    usage: Usage
    context: int | None

    @property
    def fingerprint(self) -> str:
        """Hash of what is known of what decides: server, model name, format."""
        ...

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], n: int, params: SamplingParams
    ) -> Replies:
        """n replies to the messages. Raises PolicyError, TimeoutError."""
        ...

    async def aclose(self) -> None:
        """Free everything."""
        ...
