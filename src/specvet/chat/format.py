"""What a chat format is: messages in, token segments out; a sampled turn in, an action out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from specvet.chat.images import ImageGeometry
from specvet.chat.ledger import ImageSegment, Ledger, Segment, TextRole
from specvet.chat.messages import Image, Message
from specvet.chat.vocabulary import Vocabulary

MalformedKind = Literal[
    "bad_call",  # a call block that is no call: broken JSON or XML, no name, arguments that are no object
    "many_calls",  # more than one call
    "call_and_answer",  # both in one turn
    "bad_answer",  # an answer block without exactly one boxed YES or NO
    "many_answers",  # more than one answer block
    "unclosed_thinking",  # the thought never ends
    "bad_thinking",  # a thought where none may be, or none where one must be
    "text_outside",  # words outside of thought, call and answer
    "nothing",  # neither a call nor an answer
    "image_ids",  # the model produced ids that stand for pictures
    "control_ids",  # the model produced control ids (role headers, …) inside its turn
    "spelled_tag",  # a tag spelled out in letters where the vocabulary has an id for it
    "not_text",  # bytes that are no UTF-8
    "filtered",  # the server's content filter took something away
]


@dataclass(frozen=True, slots=True)
class CallTurn:
    """The model calls a tool."""

    name: str
    arguments: Mapping[str, Any]
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class AnswerTurn:
    """The model answers; only this is a verdict."""

    answer: str
    """`YES` or `NO`."""
    explanation: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class MalformedTurn:
    """Neither; never guessed at."""

    kind: MalformedKind
    detail: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class TruncatedTurn:
    """The turn met its limit before its end token."""

    text: str = ""
    open_thought: bool = False
    """It was still thinking."""


ParsedTurn = CallTurn | AnswerTurn | MalformedTurn | TruncatedTurn


class ChatFormat(Protocol):
    """Messages ↔ tokens for one model family."""

    name: str
    vocabulary: Vocabulary
    geometry: ImageGeometry
    stop_ids: tuple[int, ...]
    """Sampling ends with any of these; the first is the format's own end of a turn."""
    prefix: str
    """What the program writes at the start of each assistant turn after its header: `<think>\\n`, or nothing."""
    calls: Literal["json", "xml"]
    """How a tool call is written."""
    thinking: bool
    """The program opens each turn's thought (`prefix`), and the model closes it."""

    def text(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), *, generation: bool) -> str:
        """The template's rendering; a picture is `<|vision_start|><|image_pad|><|vision_end|>`."""
        ...

    def new_ledger(self) -> Ledger:
        """An empty ledger of this format and vocabulary."""
        ...

    def opening(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> list[Segment]:
        """The first prompt (system, user, pictures), up to and with the prefix of the first assistant turn."""
        ...

    def observation(self, ledger: Ledger, message: Message) -> list[Segment]:
        """What follows a sampled turn: its missing separators, the tool's (or user's) message, the next prefix."""
        ...

    def between(self, ledger: Ledger, messages: Sequence[Message]) -> list[Segment]:
        """As `observation`, for any number of messages (none, several) between two assistant turns."""
        ...

    def demonstration(self, message: Message) -> list[int]:
        """An assistant message as the ids a model would have sampled after the prefix, end token included."""
        ...

    def image_segment(self, image: Image, role: TextRole = "user") -> ImageSegment:
        """The picture with its exact token count."""
        ...

    def parse(self, ids: Sequence[int], stop: str) -> ParsedTurn:
        """What a sampled turn is, decided on its ids. `stop` as in `SampledSegment`."""
        ...

    def parse_text(self, text: str, stop: str = "end") -> ParsedTurn:
        """The same for a turn of which only the text is known (the prefix not included)."""
        ...

    def turn_text(self, ids: Sequence[int]) -> str:
        """A sampled turn as text, its prefix put back in front and its end token left out: what rewards read."""
        ...


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a question starts with."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = field(default=())
