"""A problem of physics: what is asked, what is right, and, where somebody solved it, the transcript of the solution.

A row of a file of problems, or of tool trajectories, is a `Problem` as JSON (or as columns of a Parquet file, in which
`gold` and `segments` may be JSON strings). `specvet.data.physics` reads and writes such files.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Kind = Literal["numeric", "symbolic", "mcq", "multipart", "text"]
SegmentKind = Literal["model", "tool", "harness"]
Difficulty = Literal["", "easy", "medium", "hard"]

LETTERS = "ABCDEFGHIJ"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64")


class Gold(_Record):
    """The right answer, typed. Which fields count hangs on `kind`; the validator says what is missing."""

    kind: Kind
    value: float | str | None = None
    """numeric: a finite number in `unit`; symbolic: an expression in the grammar of the sympy tool; mcq: the letter;
    text: the words. multipart has none."""
    unit: str = ""
    """Of a number, as pint writes and reads it (`m/s**2`, `degC`, `ohm`); empty for a pure number."""
    tolerance: float = Field(default=0.01, ge=0)
    """Of a number, relative to `value`."""
    scale: float | None = Field(default=None, gt=0)
    """What the tolerance of a number is relative to where `value` is 0, in `unit`."""
    parts: dict[str, Gold] = Field(default_factory=dict)
    """multipart: label (`a`, `b`, …) → gold, in the order of the question. Parts have no parts."""
    choices: tuple[str, ...] = ()
    """mcq: the texts of A, B, C, … in this order."""
    asked: str = ""
    """symbolic (and numeric): the symbol that is asked for; `v = …` then reduces to its right side."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """symbolic: another name of a symbol → the symbol in `value`: `{"v_i": "v_0"}`. `v0` and `v_{0}` are one anyway."""
    integers: tuple[str, ...] = ()
    """symbolic: symbols that are whole numbers; all others are positive reals."""
    also: tuple[str, ...] = ()
    """symbolic and text: other right answers."""

    @field_validator("value", mode="before")
    @classmethod
    def _no_bool(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("true and false are no numbers")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if wrong := _lacking(self):
            raise ValueError(f"gold of kind {self.kind}: {wrong}")
        return self


def _lacking(gold: Gold) -> str:
    """What a gold lacks of its kind, or has of another; empty if nothing."""
    value = gold.value
    if gold.kind != "mcq" and gold.choices:
        return "`choices` belong to mcq"
    if gold.kind != "multipart" and gold.parts:
        return "`parts` belong to multipart"
    match gold.kind:
        case "numeric":
            if not isinstance(value, float) or not math.isfinite(value):
                return f"`value` must be a finite number, not {value!r}"
            if value == 0 and gold.scale is None:
                return "a `value` of 0 needs a `scale`, the size to which the tolerance is relative"
        case "symbolic" | "text":
            if not isinstance(value, str) or not value.strip():
                return f"`value` must be a text, not {value!r}"
        case "mcq":
            letters = LETTERS[: len(gold.choices)]
            if not 2 <= len(gold.choices) <= len(LETTERS):
                return f"`choices` must be 2 to {len(LETTERS)} texts"
            if not isinstance(value, str) or len(value) != 1 or value not in letters:
                return f"`value` must be one letter of {letters}, not {value!r}"
        case "multipart":
            if value is not None:
                return "has no `value` of its own, only `parts`"
            if not gold.parts:
                return "`parts` are missing"
            if any(part.kind == "multipart" for part in gold.parts.values()):
                return "a part cannot be multipart"
    return ""


class Call(_Record):
    """What was asked of a tool."""

    name: str = "sympy"
    argument: str


class ToolResult(_Record):
    """What the tool said: its text, without the tags around it."""

    status: Literal["ok", "error"]
    text: str


class Segment(_Record):
    """A piece of a transcript. Who wrote it is told by `kind` alone, never by tags in the text."""

    kind: SegmentKind
    text: str
    """As it stands in the transcript; of a tool segment with the tags around the result."""
    call: Call | None = None
    """Of a tool segment: the call that it answers."""
    result: ToolResult | None = None

    @model_validator(mode="after")
    def _tool(self) -> Self:
        if (self.kind == "tool") != (self.call is not None) or (self.call is None) != (self.result is None):
            raise ValueError("a segment of kind tool, and no other, has both `call` and `result`")
        return self


class Figure(_Record):
    """A picture of a problem: bytes, or a path relative to the folder of its file."""

    path: str = ""
    data: bytes | None = Field(default=None, repr=False)
    """PNG, JPEG or WebP; base64 in JSON (either alphabet is read)."""

    @field_validator("data", mode="before")
    @classmethod
    def _base64(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
        except binascii.Error as e:
            raise ValueError(f"is no base64 ({e})") from None

    @model_validator(mode="before")
    @classmethod
    def _loose(cls, value: Any) -> Any:
        """A bare path, or `{bytes, path}` as published Parquet files have it."""
        if isinstance(value, str):
            return {"path": value}
        if isinstance(value, dict) and "bytes" in value:
            return {"path": value.get("path") or "", "data": value["bytes"]}
        return value

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.path and self.data is None:
            raise ValueError("a picture needs `path` or `data`")
        return self


class Audit(_Record):
    """What was checked of a row; None where it was not."""

    result_reexecuted: bool | None = None
    answer_matches: bool | None = None
    contamination: bool | None = None


class Problem(_Record):
    """One problem; with `segments`, also one solution of it."""

    id: str = Field(min_length=1)
    problem: str = Field(min_length=1)
    """The question as asked; of an mcq with its choices."""
    images: tuple[Figure, ...] = ()
    gold: Gold
    source: str = ""
    """Where it comes from; `generated:FAMILY` of the generator."""
    subject: str = ""
    difficulty: Difficulty = ""
    split: str = ""
    segments: tuple[Segment, ...] = ()
    audit: Audit | None = None
