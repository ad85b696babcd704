r"""Demonstrations to imitate: JSON Lines, one conversation a line, the pictures beside the file.

    {"id": "cv-0", "object_id": "Gaia DR3 1", "name": "spec-57391-…fits.gz",
     "tools": [{"type": "function", "function": {"name": "spectral_visualization_tool", …}}],
     "messages": [
       {"role": "system", "content": [{"text": "You are …"}]},
       {"role": "user", "content": [{"image": "images/cv_0_0.png"}, {"text": "Is this …?"}]},
       {"role": "assistant", "reasoning": "A bump near 6563 …", "calls": [{"name": "…", "arguments": {…}}]},
       {"role": "tool", "content": [{"image": "images/cv_0_1.png"}, {"text": "Generated …"}]},
       {"role": "assistant", "reasoning": "Double-peaked …", "content": [{"text": "<answer>\\boxed{YES} …</answer>"}]}]}

| field | what |
|---|---|
| `id` | a string, each its own |
| `messages` | roles `system` (first or nowhere), `user`, `assistant`, `tool`; the last is an assistant's |
| `content` | words and pictures in their order; pictures stand with a user or a tool, as paths relative to the file |
| `reasoning` | an assistant's thought, without its tags: the chat format knows where they stand |
| `calls` | an assistant's calls of tools; `arguments` is an object |
| `tools` | the schemas of the tools that may be called; the chat format writes them into the system text |
| `object_id` | (optional) what must not be on both sides of a split |
| `name` | (optional) of the spectrum, as the survey names its file |

Every assistant turn is learnt, whole. A conversation whose pictures are not all there and whole is a reject: it is
neither learnt without them nor left out in silence. One that is too long is a reject too, and never cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from specvet.chat import (
    ChatFormat,
    Datum,
    Image,
    ImageError,
    Ledger,
    LedgerError,
    Message,
    ToolCall,
    ledger_of,
    sft_datum,
)
from specvet.data.errors import InputError, Reject
from specvet.data.jsonl import json_lines
from specvet.data.pictures import picture, picture_bytes, picture_size
from specvet.records import bytes_hash

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a demonstration, not yet read."""

    path: str
    """Relative to the file of demonstrations."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a demonstration."""

    role: Role
    content: tuple[str | Picture, ...] = ()
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One conversation to imitate."""

    id: str
    messages: tuple[Said, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    object_id: str | None = None
    name: str | None = None
    where: str = ""
    """File and line, for people."""
    folder: str = ""
    """That picture paths start from."""

    @property
    def pictures(self) -> tuple[str, ...]:
        """The files of its pictures, in their order."""
        return tuple(self._file(part) for m in self.messages for part in m.content if isinstance(part, Picture))

    def spoken(self, shown: Callable[[str], Image]) -> list[Message]:
        """Its messages, each picture as `shown` makes it of its file."""
        return [
            Message(
                m.role,
                tuple(shown(self._file(part)) if isinstance(part, Picture) else part for part in m.content),
                m.reasoning,
                m.calls,
            )
            for m in self.messages
        ]

    def line(self) -> str:
        """As one line of a file."""
        fields: dict[str, Any] = {"id": self.id}
        fields |= {k: v for k, v in (("object_id", self.object_id), ("name", self.name)) if v is not None}
        fields |= {"tools": list(self.tools)} if self.tools else {}
        fields["messages"] = [_fields(m) for m in self.messages]
        return json.dumps(fields, ensure_ascii=False)

    def _file(self, picture: Picture) -> str:
        return os.path.normpath(os.path.join(self.folder, picture.path))


@dataclass(frozen=True, slots=True, eq=False)
class SftRow:
    """One demonstration that can be learnt from."""

    id: str
    n_tokens: int
    """Positions of its datum, pictures included."""
    n_active: int
    """Tokens that are learnt."""
    n_images: int
    demonstration: Demonstration
    format: ChatFormat

    def content(self) -> str:
        """All that is learnt from, as one text: id, tools and messages, each picture by the SHA-256 of its file.

        Raises InputError for a picture that is gone.
        """
        one = self.demonstration
        try:
            pictures = [bytes_hash(picture_bytes(path)) for path in one.pictures]
        except ImageError as e:
            raise InputError(f"{one.where}: {e}") from e
        hashes = iter(pictures)
        messages = [_fields(m, lambda _: next(hashes)) for m in one.messages]
        return json.dumps([one.id, one.tools, messages], sort_keys=True)

    def datum(self) -> Datum:
        """What a trainer takes; its pictures are read now. Raises InputError where they are gone or have changed."""
        try:
            datum = sft_datum(sft_ledger(self.demonstration, self.format))
        except ImageError as e:
            raise InputError(f"{self.demonstration.where}: {e}") from e
        if datum.n_tokens != self.n_tokens:
            raise InputError(
                f"{self.demonstration.where}: has {datum.n_tokens} tokens, and had {self.n_tokens} when it was first "
                "read: a picture has changed since"
            )
        return datum


def read_demonstrations(path: str) -> list[Demonstration]:
    """The demonstrations of a file, in their order; no picture is opened. Raises InputError: line, field and fix."""
    found: list[Demonstration] = []
    places: dict[str, str] = {}
    for where, fields in json_lines(path, "a file of demonstrations"):
        try:
            line = _Line.model_validate({k: v for k, v in fields.items() if v is not None})
        except ValidationError as e:
            raise InputError(f"{where}: {_problem(e)}") from None
        if line.id in places:
            raise InputError(f"{where}: the id {line.id!r} stands at {places[line.id]} already; give each its own")
        places[line.id] = where
        found.append(line.demonstration(where, os.path.dirname(path)))
    if not found:
        raise InputError(f"{path}: holds no demonstration")
    return found


def problem_of(demonstration: Demonstration) -> str:
    """What `read_demonstrations` would say of it: `messages[2]: …`; empty where it would take it."""
    try:
        _Line.model_validate(json.loads(demonstration.line()))
    except ValidationError as e:
        return _problem(e)
    return ""


def write_demonstrations(path: str, demonstrations: Iterable[Demonstration]) -> None:
    """Write a file that `read_demonstrations` reads; pictures are not copied."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{d.line()}\n" for d in demonstrations)


def sft_ledger(demonstration: Demonstration, format: ChatFormat, shown: Callable[[str], Image] = picture) -> Ledger:
    """The whole conversation as a ledger whose assistant turns are learnt.

    Raises ImageError for a picture that is gone or damaged, LedgerError and ValueError for what the format refuses.
    """
    return ledger_of(demonstration.spoken(shown), demonstration.tools, format)


def load_sft(path: str, format: ChatFormat, max_tokens: int) -> tuple[list[SftRow], list[Reject]]:
    """The demonstrations of a file as rows to learn from, and those that cannot be: rejects, with the reason of each.

    Pictures are checked and measured, not decoded. A demonstration of more than `max_tokens` positions is a reject that
    says how many it has. Raises InputError as `read_demonstrations`, and where nothing is left to learn from.
    """
    rows: list[SftRow] = []
    rejects: list[Reject] = []
    for one in read_demonstrations(path):
        try:
            datum = sft_datum(sft_ledger(one, format, _measured))
        except (ImageError, LedgerError, ValueError) as e:
            rejects.append(Reject(one.id, one.where, str(e)))
            continue
        if datum.n_tokens > max_tokens:
            reason = f"{datum.n_tokens:,} tokens, more than max_tokens = {max_tokens:,}"
            rejects.append(Reject(one.id, one.where, reason, datum.n_tokens))
        else:
            rows.append(SftRow(one.id, datum.n_tokens, datum.n_learnt, len(datum.images), one, format))
    if not rows:
        raise InputError(
            f"{path}: none of its {len(rejects)} demonstrations can be learnt; {rejects[0].where}: {rejects[0].reason}"
        )
    return rows, rejects


def _measured(path: str) -> Image:
    """A stand-in of a picture's size: it counts as many tokens, and nobody looks at it."""
    width, height = picture_size(path)
    return Image(b"", width, height, "")


def _fields(message: Said, named: Callable[[Picture], str] = lambda picture: picture.path) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role}
    if message.reasoning:
        fields["reasoning"] = message.reasoning
    if message.content:
        fields["content"] = [{"image": named(p)} if isinstance(p, Picture) else {"text": p} for p in message.content]
    if message.calls:
        fields["calls"] = [{"name": call.name, "arguments": dict(call.arguments)} for call in message.calls]
    return fields


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Part(_Strict):
    text: str | None = None
    image: str | None = None

    @model_validator(mode="after")
    def _one(self) -> _Part:
        if (self.text is None) == (self.image is None):
            raise ValueError('give either {"text": "…"} or {"image": "images/a.png"}')
        if self.image == "":
            raise ValueError("the path of a picture is empty")
        return self


class _Call(_Strict):
    name: str = Field(min_length=1)
    arguments: dict[str, Any]

    @field_validator("arguments")
    @classmethod
    def _are_json(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(arguments, allow_nan=False)
        except ValueError:
            raise ValueError("they hold NaN or an infinite number, which JSON has not") from None
        return arguments


class _Said(_Strict):
    role: Role
    content: tuple[_Part, ...] = ()
    reasoning: str = ""
    calls: tuple[_Call, ...] = ()

    @model_validator(mode="after")
    def _fits_its_role(self) -> _Said:
        if self.role != "assistant" and (self.reasoning or self.calls):
            raise ValueError(f"a {self.role} message has neither reasoning nor calls; an assistant's has")
        if self.role in ("system", "assistant") and any(part.image for part in self.content):
            raise ValueError(f"a picture in the {self.role} message; only a user and a tool show pictures")
        said = self.reasoning + "".join(part.text or "" for part in self.content)
        blank = self.role == "assistant" and not said.strip()
        if (blank or not self.content) and not (self.reasoning.strip() or self.calls):
            raise ValueError("the message is empty")
        return self


class _Line(_Strict):
    id: str = Field(min_length=1)
    messages: tuple[_Said, ...]
    tools: tuple[dict[str, Any], ...] = ()
    object_id: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _is_a_conversation(self) -> _Line:
        roles = [m.role for m in self.messages]
        if not roles or roles[-1] != "assistant":
            raise ValueError("messages: the last must be an assistant's; what follows it nobody learns from")
        if roles[0] == "assistant" or roles[:2] == ["system", "assistant"]:
            raise ValueError(
                "messages: the conversation begins with an assistant's turn; a user's question comes first"
            )
        if "system" in roles[1:]:
            raise ValueError("messages: a system message stands first or nowhere")
        self._calls_are_answered()
        return self

    def _calls_are_answered(self) -> None:
        tools = {name for tool in self.tools if isinstance(name := tool.get("function", tool).get("name"), str)}
        calling = False
        for i, (message, after) in enumerate(zip(self.messages, [*self.messages[1:], None], strict=True)):
            if message.role == "tool" and not calling:
                raise ValueError(f"messages[{i}]: a tool's message that follows no call")
            if message.role == "assistant":
                # One whose call was written wrongly has no call but in its text; the tool may have told it so.
                calling = bool(message.calls) or any("<tool_call>" in (part.text or "") for part in message.content)
                if message.calls and after is not None and after.role != "tool":
                    raise ValueError(f"messages[{i}]: it calls a tool, but messages[{i + 1}] is no tool's message")
                for call in message.calls:
                    if tools and call.name not in tools:
                        raise ValueError(
                            f"messages[{i}]: it calls {call.name!r}, which is not among the tools ({', '.join(tools)})"
                        )
            elif message.role == "user":
                calling = False

    def demonstration(self, where: str, folder: str) -> Demonstration:
        said = tuple(
            Said(
                m.role,
                tuple(Picture(p.image) if p.image is not None else p.text or "" for p in m.content),
                m.reasoning,
                tuple(ToolCall(c.name, c.arguments) for c in m.calls),
            )
            for m in self.messages
        )
        return Demonstration(self.id, said, self.tools, self.object_id, self.name, where, folder)


_FIELDS_OF: dict[str, type[BaseModel]] = {"messages": _Said, "content": _Part, "calls": _Call}


def _problem(error: ValidationError) -> str:
    """The first thing that is wrong with a line: `messages[2].calls[0].arguments is missing`."""
    first = error.errors(include_url=False)[0]
    field = ""
    for part in first["loc"]:
        field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else str(part)
    message = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] == "extra_forbidden":
        names = [part for part in first["loc"][:-1] if isinstance(part, str)]
        known = ", ".join((_FIELDS_OF[names[-1]] if names else _Line).model_fields)
        return f"{field}: there is no such field; known are {known}"
    if first["type"] == "string_type" and isinstance(first["input"], int | float):
        return f'{field}: write it in quotation marks: "{json.dumps(first["input"])}"'
    return f"{field}: {message}" if field else message
