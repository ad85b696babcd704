"""A sampled turn → what it is: a call, an answer, malformed (with its kind) or truncated. Never a guess.

The grammar is that of `specvet.tasks.turns`, which rewards read too. Where ids are known they decide first:

- A turn is complete when its last id is an end token of the format, even if it ends exactly at a limit; else it is
  truncated. A policy whose service keeps end tokens to itself says so with the stop `end`, and is believed.
- An id that stands for a picture is `image_ids`; any other control id (a role, an end) inside the turn `control_ids`.
- Where the vocabulary has an id for a tag (`<tool_call>`, `</think>`, any control token), the tag is that id: the same
  in letters is `spelled_tag`, since a later reader of the text would take it for the tag.
- Bytes that are no UTF-8, or an id that no token has, are `not_text`.

After that the ids' text holds exactly the tags that the ids hold, and reading the text is reading the ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, Protocol

from specvet.chat.format import (
    AnswerTurn,
    CallTurn,
    MalformedKind,
    MalformedTurn,
    ParsedTurn,
    TruncatedTurn,
)
from specvet.chat.vocabulary import ORDINARY_TAGS, Vocabulary
from specvet.tasks.turns import BLANK, THINK, THOUGHT, Answer, Call, Fault, read_act, read_turn


class Grammar(Protocol):
    """What the parser needs to know of a chat format."""

    @property
    def vocabulary(self) -> Vocabulary: ...
    @property
    def prefix(self) -> str: ...
    @property
    def stop_ids(self) -> tuple[int, ...]: ...
    @property
    def calls(self) -> Literal["json", "xml"]: ...


def parse_turn(ids: Sequence[int], stop: str, format: Grammar) -> ParsedTurn:
    """What sampled ids are. `stop` is the policy's word; `end` without an end token: its service left the token out."""
    vocabulary = format.vocabulary
    ended = len(ids) > 0 and ids[-1] in format.stop_ids
    if not ended and (stop != "end" or not len(ids)):
        return _truncated(format.prefix + vocabulary.decode(ids))
    said = ids[:-1] if ended else ids
    text = format.prefix + vocabulary.decode(said)
    trouble = _trouble(said, vocabulary)
    if trouble:
        return MalformedTurn(*trouble, text)
    return read_said(text, format.calls)


def parse_text(text: str, stop: str, format: Grammar) -> ParsedTurn:
    """What a turn is of which only the text is known, without the prefix; an end token may stand at its end.

    With `stop` "length" it is truncated. A tag in letters cannot be told from a tag here.
    """
    for end in (format.vocabulary.decode([i]) for i in format.stop_ids):
        text = text.removesuffix(end)
    text = format.prefix + text
    if stop == "length":
        return _truncated(text)
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        return MalformedTurn("not_text", "half a character", text.encode("utf-8", "replace").decode())
    return read_said(text, format.calls)


def read_said(text: str, calls: Literal["json", "xml"]) -> ParsedTurn:
    """What a complete turn is whose ids are no trouble: its text with the prefix and without the end token."""
    turn = read_turn(text, calls)
    return _turn(turn.act, turn.thought, text)


def parse_answer(body: str, *, reasoning: str = "") -> ParsedTurn:
    """What a turn without a call is, of a server that gives thoughts and calls apart from the text.

    Words before the answer block are thinking aloud; else the rules for an answer are those of `parse_text`.
    """
    act = read_act(body, words_before=True)
    if isinstance(act, Call):
        return MalformedTurn("bad_call", "a call in the text, where calls come apart from it", body)
    aloud = body.partition("<answer>")[0].strip(BLANK)
    return _turn(act, "\n\n".join(filter(None, (reasoning, aloud))), body)


def well_formed(turns: Sequence[ParsedTurn]) -> bool:
    """Whether all turns but the last are calls and the last is an answer: a reward's `format_ok`, decided on ids."""
    return bool(turns) and isinstance(turns[-1], AnswerTurn) and all(isinstance(t, CallTurn) for t in turns[:-1])


def _truncated(text: str) -> TruncatedTurn:
    return TruncatedTurn(text, open_thought=text.rfind(THINK) > text.rfind(THOUGHT))


def _turn(act: Call | Answer | Fault, thought: str, text: str) -> ParsedTurn:
    match act:
        case Call():
            return CallTurn(act.name, act.arguments, thought)
        case Answer():
            return AnswerTurn(act.word, act.explanation, thought)
        case Fault():
            return MalformedTurn(act.kind, act.detail, text)


def _trouble(ids: Sequence[int], vocabulary: Vocabulary) -> tuple[MalformedKind, str] | None:
    """What only ids can tell, if it is a fault."""
    present = set(ids)
    if present & vocabulary.picture_ids:
        return "image_ids", "a token that stands for a picture inside the turn"
    if present & vocabulary.control_ids:
        return "control_ids", "a control token inside the turn"
    unknown = [i for i in present if i not in vocabulary]
    if unknown:
        return "not_text", f"the id {min(unknown)}, for which the vocabulary has no token"
    tags, spelled = _tags(vocabulary)
    for stretch in _between(ids, tags):
        try:
            text = vocabulary.bytes(stretch).decode("utf-8")
        except UnicodeDecodeError:
            return "not_text", "bytes that are no UTF-8"
        if "<" in text and (found := next((tag for tag in spelled if tag in text), None)):
            return "spelled_tag", f"the tag {found.strip('<|>')} in letters, where the vocabulary has one token for it"
    return None


@lru_cache(maxsize=16)
def _tags(vocabulary: Vocabulary) -> tuple[frozenset[int], tuple[str, ...]]:
    """The ids of tags that a turn may hold, and all texts for which the vocabulary has one id."""
    tags = {tag: i for tag in ORDINARY_TAGS if (i := vocabulary.id(tag)) is not None}
    return frozenset(tags.values()), (*tags, *(vocabulary.decode([i]) for i in sorted(vocabulary.control_ids)))


def _between(ids: Sequence[int], tags: frozenset[int]) -> list[list[int]]:
    stretches: list[list[int]] = [[]]
    for i in ids:
        if i in tags:
            stretches.append([])
        else:
            stretches[-1].append(i)
    return stretches
