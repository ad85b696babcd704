r"""One published conversation → one demonstration.

- The system text loses its `# Tools` block: schemas become `tools`, and the chat format writes them again.
- A `gpt` turn's thought and calls are taken out of their tags. What cannot be read (a thought that never ends, a call
  that is no JSON) stays as text, as it stands; of a turn with a call, blanks around the words beside it go.
- A turn behind a call is the tool's, whoever is said to have spoken; its `<tool_response>` tags go.
- Pictures take the places of the `<image>` marks in user's and tool's turns, in their order.
- Texts are repaired, see `specvet.data.mojibake`; names, schemas and numbers are not.

Written again by the format `qwen2_5_vl`, a demonstration is the published text, but for those blanks, for repairs, and
for calls whose JSON was spaced differently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from specvet.chat import ToolCall
from specvet.data.demonstrations import Demonstration, Picture, Role, Said
from specvet.data.mojibake import Change, repaired
from specvet.data.published.layout import IMAGE_MARK, IMAGES, TASK_OF
from specvet.data.published.toolblock import WithoutBlock, without_tool_block
from specvet.tasks.turns import BLANK, THINK, THOUGHT, Answer, Call, read_act, read_call

_CALL, _CALLED = "<tool_call>", "</tool_call>"
_RESPONSE = re.compile(r"\s*<tool_response>\n?(?P<text>.*?)\n?</tool_response>\s*", re.DOTALL)
_BLOCK = re.compile(f"{_CALL}(?P<call>.*?){_CALLED}", re.DOTALL)
_ESCAPED = re.compile(
    r"\\u(?P<code>[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[0-9a-fA-F]{4})|\\.", re.DOTALL
)
"""An escape of JSON; with `code` where it spells a letter by its number."""
_USERS = ("human", "user")
_TOOLS = ("tool", "observation", "function_response", "function")
_MODELS = ("gpt", "assistant", "function_call")
_PICTURE_NAME = re.compile(r"(?:^|/)lf_(?P<task>[a-z]+)_", re.IGNORECASE)
_CLASSES = (
    ("cv", re.compile(r"\bcataclysmic|\bCVs?\b", re.IGNORECASE)),
    ("cc", re.compile(r"\bcarbon star", re.IGNORECASE)),
    ("ss", re.compile(r"\bS[- ]?(?:type )?stars?\b")),
    ("gm", re.compile(r"\bM[- ]?(?:type )?giants?\b")),
    ("wd", re.compile(r"\bwhite dwarf", re.IGNORECASE)),
)


class RowError(ValueError):
    """A row that nobody can learn from; the message is the reason, the same for all rows of that trouble."""

    name = ""
    """Of the row's spectrum, where it has one."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A change, and the message that it is in (from 0)."""

    message: int
    change: Change


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A published conversation as a demonstration, and what is told of it."""

    demonstration: Demonstration
    task: str
    """Key, or `unknown`."""
    ground_truth: str
    """YES, NO, or what else stands there."""
    answer: str
    """That it ends with: YES, NO, or empty where none can be read."""
    changes: tuple[Cleaned, ...]
    unresolved: int
    """Places that nobody can read."""
    kept_as_text: int
    """Turns whose thought or call could not be read."""


@dataclass(slots=True)
class _Repairs:
    changes: list[Cleaned] = field(default_factory=list)
    unresolved: int = 0

    def __call__(self, text: str, message: int) -> str:
        return self.placed(text, message, lambda change: change)

    def placed(self, text: str, message: int, place: Callable[[Change], Change]) -> str:
        """The text, repaired; `place` says where in the published text a change is."""
        done = repaired(text)
        self.changes += [Cleaned(message, place(change)) for change in done.changes]
        self.unresolved += done.unresolved
        return done.text


def trajectory(row: Mapping[str, Any], id: str, object_id: str | None) -> Trajectory:
    """The row as a demonstration. Raises RowError."""
    turns = _turns(row)
    pictures = _pictures(row)
    name = name_of(row)
    repairs = _Repairs()
    said: list[Said] = []
    tools: tuple[Mapping[str, Any], ...] = ()
    kept_as_text = 0
    calling = False
    for i, (who, published) in enumerate(turns):
        if who == "system":
            own = without_tool_block(published)
            tools = own.tools
            said.append(Said("system", (repairs.placed(own.text, i, lambda c, own=own: moved(c, own)),)))  # type: ignore[misc]
        elif who in _MODELS:
            spelt = _Spelt(published)
            message, unread = _assistant(repairs.placed(spelt.text, i, spelt.published))
            said.append(message)
            kept_as_text += unread
            calling = _CALL in _after_thought(published)
        else:
            text = repairs(published, i)
            role: Role = "tool" if calling or who in _TOOLS else "user"
            if wrapped := _RESPONSE.fullmatch(text):
                role, text = "tool", wrapped["text"]
            said.append(Said(role, tuple(_content(text, pictures))))
            calling = False
    if next(pictures, None) is not None:
        raise RowError("more pictures than <image> marks")
    demonstration = Demonstration(id, tuple(said), tools, object_id, name)
    return Trajectory(
        demonstration,
        _task(row, turns),
        str(row.get("ground_truth", "")).strip().upper(),
        _answer(said[-1]),
        tuple(repairs.changes),
        repairs.unresolved,
        kept_as_text,
    )


def name_of(row: Any) -> str:
    """The spectrum that a row is about, without blanks around it; empty where it has none."""
    name = row.get("source_name") if isinstance(row, Mapping) else None
    return name.strip() if isinstance(name, str) else ""


def moved(change: Change, own: WithoutBlock) -> Change:
    """A change to a system text, at its place in the text with the tool block."""
    return replace(change, offset=own.published(change.offset))


def _turns(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = row.get("conversations")
    if not isinstance(found, list) or not found:
        raise RowError("no conversations")
    turns: list[tuple[str, str]] = []
    for item in found:
        who, value = (item.get("from"), item.get("value")) if isinstance(item, Mapping) else (None, None)
        if who not in ("system", *_USERS, *_TOOLS, *_MODELS) or not isinstance(value, str):
            raise RowError("a turn without a known speaker or without text")
        turns.append((str(who), value))
    if not name_of(row):
        raise RowError("no source_name")
    return turns


def _pictures(row: Mapping[str, Any]) -> Iterator[Picture]:
    images = row.get("images") or []
    if not isinstance(images, list) or not all(isinstance(path, str) and path for path in images):
        raise RowError("images is no list of paths")
    for path in images:
        parts = _parts(path)
        if path.startswith(("/", "\\")) or ":" in path or "\0" in path or ".." in parts:
            raise RowError("a picture outside the data set's folder")
        if len(parts) < 2 or parts[0] != IMAGES:
            raise RowError(f"a picture outside {IMAGES}/: {path}")
    return iter([Picture("/".join(_parts(path))) for path in images])


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]


def _content(text: str, pictures: Iterator[Picture]) -> Iterator[str | Picture]:
    for i, part in enumerate(text.split(IMAGE_MARK)):
        if i:
            picture = next(pictures, None)
            if picture is None:
                raise RowError("more <image> marks than pictures")
            yield picture
        if part:
            yield part


def _assistant(text: str) -> tuple[Said, bool]:
    """A turn, and whether something in it could not be read."""
    thought, body, unread = "", text, False
    begun = text.lstrip(BLANK)
    if begun.startswith(THINK):
        inside, closed, after = begun.removeprefix(THINK).partition(THOUGHT)
        if closed and THINK not in inside and THOUGHT not in after and inside.strip():
            thought, body = inside, after
        else:
            unread = not (closed and not inside.strip())
    before, call, rest = body.partition(_CALL)
    if not call:
        return _said(thought, body), unread
    calls: list[ToolCall] = []
    words = [before]
    for block in rest.split(_CALL):
        content, closed, after = block.partition(_CALLED)
        made = read_call(content) if closed else None
        if not isinstance(made, Call):
            return _said(thought, body), True
        calls.append(ToolCall(made.name, made.arguments))
        words.append(after)
    return _said(thought, "".join(words).strip(BLANK), tuple(calls)), unread


def _said(thought: str, content: str, calls: tuple[ToolCall, ...] = ()) -> Said:
    return Said("assistant", (content,) if content else (), thought, calls)


class _Spelt:
    r"""A model's turn with the letters that JSON spells in `\u` escapes in its calls, as those letters."""

    def __init__(self, published: str) -> None:
        self._given, self.text = published, published
        self._origin: Sequence[int] = range(len(published) + 1)
        begin = published.rfind(THOUGHT) + 1
        if "\\u" not in published[begin:]:
            return
        pieces, origin, last = list[str](), list[int](), 0
        for block in _BLOCK.finditer(published, begin):
            if not isinstance(read_call(block["call"]), Call):
                continue  # stays as text, as it stands
            for escaped in _ESCAPED.finditer(published, *block.span("call")):
                letter = "" if escaped["code"] is None else json.loads(f'"{escaped[0]}"')
                if not letter or letter.isascii() or "\ud800" <= letter <= "\udfff":
                    continue
                pieces += [published[last : escaped.start()], letter]
                origin += [*range(last, escaped.start()), escaped.start()]
                last = escaped.end()
        self.text = "".join([*pieces, published[last:]])
        self._origin = [*origin, *range(last, len(published) + 1)]

    def published(self, change: Change) -> Change:
        """A change to `text`, at its place in the turn as published and with what stood there."""
        begin, end = (self._origin[at] for at in (change.offset, change.offset + len(change.before)))
        return replace(change, offset=begin, before=self._given[begin:end])


def _after_thought(text: str) -> str:
    return text.rpartition(THOUGHT)[2]


def _task(row: Mapping[str, Any], turns: Sequence[tuple[str, str]]) -> str:
    """By the names of the pictures (`lf_cv_0_0.png`), else by the class that the question names first."""
    for path in row.get("images") or []:
        if (found := _PICTURE_NAME.search(path)) and found["task"].lower() in TASK_OF:
            return TASK_OF[found["task"].lower()]
    question = next((text for who, text in turns if who in _USERS), "")
    named = [(found.start(), key) for key, pattern in _CLASSES if (found := pattern.search(question))]
    return min(named)[1] if named else "unknown"


def _answer(last: Said) -> str:
    text = "".join(part for part in last.content if isinstance(part, str))
    act = read_act(text, words_before=True)
    return act.word if isinstance(act, Answer) else ""


def line_of(id: str, cleaned: Cleaned) -> str:
    """A change as a line of a cleaning file."""
    change = cleaned.change
    fields = {"id": id, "message": cleaned.message, "offset": change.offset}
    fields |= {"before": change.before, "after": change.after, "rule": change.rule}
    return json.dumps(fields, ensure_ascii=False)
