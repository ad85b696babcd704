"""The Qwen families' chat formats: one frame of `<|im_start|>role … <|im_end|>`, three ways to think and to call.

Text is cut at control tokens only and encoded run by run, so that its ids are those of the whole text encoded at once.
Control ids and picture ids in a prompt come from the template and from pictures, never from anybody's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specvet.chat.images import ImageGeometry
from specvet.chat.ledger import ImageSegment, Ledger, LedgerError, SampledSegment, Segment, TextRole, TextSegment
from specvet.chat.messages import Image, Message
from specvet.chat.templating import render
from specvet.chat.vocabulary import Vocabulary

if TYPE_CHECKING:
    from specvet.chat.format import ParsedTurn

START, END, STOP = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
PAD = "<|image_pad|>"
_PIECES = re.compile(r"(<\|(?:im_start|im_end|vision_start|image_pad|vision_end)\|>)")
"""All that a template of ours writes. JSON's escapes can make other text of that look, which is text."""


@dataclass(frozen=True, slots=True)
class Family:
    """What tells one family's format from another's."""

    name: str
    template: str
    """File in `templates/`."""
    calls: Literal["json", "xml"]
    thinking: bool
    """The program opens each turn's thought, and the model closes it."""
    geometry: ImageGeometry
    """Of the published `preprocessor_config.json`."""
    model_types: tuple[str, ...]
    """`model_type` in a `config.json`."""


class QwenFormat:
    """Messages ↔ tokens for one Qwen family; implements `ChatFormat`. Stateless, safe to share between threads.

    `geometry` overrides the family's own picture sizes (a model folder's `preprocessor_config.json` may). Raises
    VocabularyError where the vocabulary lacks the family's frame.
    """

    def __init__(self, family: Family, vocabulary: Vocabulary, geometry: ImageGeometry | None = None) -> None:
        self.family = family
        self.name = family.name
        self.vocabulary = vocabulary
        self.geometry = geometry or family.geometry
        self.calls = family.calls
        self.thinking = family.thinking
        self.prefix = "<think>\n" if family.thinking else ""
        self.stop_ids: tuple[int, ...] = (vocabulary.need(END), vocabulary.need(STOP))
        vocabulary.need(START)

    def __repr__(self) -> str:
        return f"<{self.name} with {self.vocabulary!r}>"

    # --- messages to text

    def text(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), *, generation: bool) -> str:
        """The template's rendering; a picture is `<|vision_start|><|image_pad|><|vision_end|>`."""
        return self._rendered(messages, tools, generation=generation)[0]

    def learnt(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[str, list[tuple[int, int]]]:
        """The whole conversation's text, and where in it (start, end, in characters) each assistant turn is learnt."""
        return self._rendered(messages, tools, generation=False)

    # --- messages to tokens

    def new_ledger(self) -> Ledger:
        """An empty ledger of this format and vocabulary."""
        return Ledger(self.name, self.vocabulary.fingerprint)

    def opening(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> list[Segment]:
        """The first prompt (system, user, pictures), up to and with the prefix of the first assistant turn.

        An assistant's turns in it are examples: they are text, and carry no weight.
        """
        return self._segments(self.text(messages, tools, generation=True), messages)

    def observation(self, ledger: Ledger, message: Message) -> list[Segment]:
        """What follows a sampled turn: its missing separators, the tool's (or user's) message, the next prefix.

        Raises LedgerError where no sampled turn comes before it.
        """
        return self.between(ledger, [message])

    def between(self, ledger: Ledger, messages: Sequence[Message]) -> list[Segment]:
        """As `observation`, for any number of messages between two assistant turns."""
        if ledger.format != self.name or ledger.vocabulary != self.vocabulary.fingerprint:
            raise LedgerError(f"{ledger!r} is not of the format {self.name} with {self.vocabulary!r}")
        last = ledger.segments[-1] if len(ledger) else None
        if not isinstance(last, SampledSegment):
            raise LedgerError("an observation follows a sampled turn; this ledger does not end with one")
        if any(m.role not in ("user", "tool") for m in messages):
            raise ValueError("between two assistant turns stand messages of a user or a tool only")
        closing = "\n" if last.ids[-1] == self.stop_ids[0] else f"{END}\n"
        text, _ = self._rendered(messages, (), generation=True, continued=True)
        return self._segments(closing + text, messages)

    def demonstration(self, message: Message) -> list[int]:
        """An assistant message as the ids a model would have sampled after the prefix, end token included."""
        if message.role != "assistant":
            raise ValueError(f"a {message.role} message is no demonstration; an assistant's is")
        text, spans = self._rendered([message], (), generation=False, continued=True)
        ((start, end),) = spans
        return self.vocabulary.encode(text[start:end])

    def image_segment(self, image: Image, role: TextRole = "user") -> ImageSegment:
        """The picture with its exact token count. Raises ImageError for a shape that the family refuses."""
        rows, columns = self.geometry.grid(image.width, image.height)
        pad_id = self.vocabulary.need(PAD)
        return ImageSegment(image.sha256, image.width, image.height, rows, columns, pad_id, role, image.png)

    # --- tokens to turns

    def parse(self, ids: Sequence[int], stop: str) -> ParsedTurn:
        """What a sampled turn is, decided on its ids. `stop` as in `SampledSegment`."""
        from specvet.chat.parsing import parse_turn

        return parse_turn(ids, stop, self)

    def parse_text(self, text: str, stop: str = "end") -> ParsedTurn:
        """The same for a turn of which only the text is known (the prefix not included)."""
        from specvet.chat.parsing import parse_text

        return parse_text(text, stop, self)

    def turn_text(self, ids: Sequence[int]) -> str:
        """A sampled turn as text, its prefix put back in front and its end token left out: what rewards read."""
        said = ids[:-1] if len(ids) and ids[-1] in self.stop_ids else ids
        return self.prefix + self.vocabulary.decode(said)

    # --- inside

    def _rendered(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        generation: bool,
        continued: bool = False,
    ) -> tuple[str, list[tuple[int, int]]]:
        if not messages and not continued:
            raise ValueError("a conversation without messages")
        if any(m.role == "system" for m in messages[1:]):
            raise ValueError("a system message stands first or nowhere")
        return render(
            self.family.template,
            [self._plain(m) for m in messages],
            [self._value(t) for t in tools],
            add_generation_prompt=generation,
            continued=continued,
            thinking=self.thinking,
        )

    def _plain(self, message: Message) -> dict[str, Any]:
        """A message as templates take it, its words disarmed. Adjacent words are joined first: halves make a whole."""
        if message.images and message.role in ("system", "assistant"):
            raise ValueError(f"a picture in the {message.role} message; only a user and a tool show pictures")
        tags = message.role in ("user", "tool")
        parts: list[dict[str, str]] = []
        words: list[str] = []
        for part in (*message.content, None):
            if isinstance(part, str):
                words.append(part)
                continue
            if words:
                parts.append({"type": "text", "text": self.vocabulary.harmless("".join(words), tags=tags)})
                words = []
            if part is not None:
                parts.append({"type": "image"})
        if message.images:
            return {"role": message.role, "content": parts}
        plain: dict[str, Any] = {"role": message.role, "content": parts[0]["text"] if parts else ""}
        if message.reasoning:
            thought = self.vocabulary.harmless(message.reasoning, tags=False)
            if self.thinking:
                plain["reasoning_content"] = thought
            else:
                plain["content"] = f"<think>{thought}</think>{plain['content']}"
        if message.calls:
            called = [
                {
                    "name": self._name(c.name),
                    "arguments": {self._name(k): self._value(v) for k, v in c.arguments.items()},
                }
                for c in message.calls
            ]
            plain["tool_calls"] = [{"type": "function", "function": c} for c in called]
        return plain

    def _name(self, name: str) -> str:
        """A tool's or argument's name, disarmed. XML puts a `>` behind it, which would complete `<|im_end|`."""
        name = self.vocabulary.harmless(name, tags=False)
        return name.replace("<", "‹") if self.calls == "xml" else name

    def _value(self, value: Any) -> Any:
        """JSON whose texts cannot act."""
        if isinstance(value, str):
            return self.vocabulary.harmless(value, tags=False)
        if isinstance(value, Mapping):
            return {self._value(k): self._value(v) for k, v in value.items()}
        return [self._value(v) for v in value] if isinstance(value, list | tuple) else value

    def _segments(self, text: str, messages: Sequence[Message]) -> list[Segment]:
        images = [image for m in messages for image in m.images]
        need = self.vocabulary.need
        if text.count(PAD) != len(images):
            raise LedgerError(f"{len(images)} pictures and {text.count(PAD)} places for them in the rendered text")
        segments: list[Segment] = []
        ids: list[int] = []
        ids_role: TextRole = "frame"
        role: TextRole = "frame"
        shown = iter(images)
        opened = False

        def flush() -> None:
            if ids:
                segments.append(TextSegment(tuple(ids), ids_role))
                ids.clear()

        for i, piece in enumerate(_PIECES.split(text)):
            if not piece:
                continue
            if piece == PAD:
                flush()
                segments.append(self.image_segment(next(shown), role))
                continue
            if i % 2:
                opened = piece == START
                if piece in (START, END):
                    role = "frame"
                added = [need(piece)]
            else:
                if opened:
                    role, opened = _role_of(piece), False
                added = self.vocabulary.encode(piece)
            if role != ids_role:
                flush()
                ids_role = role
            ids.extend(added)
        flush()
        return segments


def _role_of(run: str) -> TextRole:
    """Whose words follow `<|im_start|>`. Nobody's words hold a `<tool_response>`, so it tells a tool from a user."""
    if run.startswith("system\n"):
        return "system"
    if run.startswith("user\n<tool_response>"):
        return "tool"
    return "user" if run.startswith("user\n") else "frame"
