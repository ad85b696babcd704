r"""How an assistant turn is written, as pure text: one thought, then one call or one answer, and nothing else.

    turn    blank <think> thought </think> blank act blank
    act     <tool_call> call </tool_call>   or   <answer> words, with \boxed{YES} or \boxed{NO} once </answer>
    call    {"name": "…", "arguments": {…}}                                  (the dialect `json`)
            <function=name> <parameter=key> value </parameter> … </function>     (the dialect `xml`)

- A turn begins with its thought, which is closed once; a turn has no other `<think>` or `</think>`. The thought is free
  text and may be empty: tags of calls and answers in it are words and count for nothing.
- Words beside thought and act are a fault, also before a call, where the template of Qwen3.5 would allow them: a strict
  protocol has one place for words, so that nobody downstream finds a second verdict or a half-made call in them.
- An answer's box holds `YES` or `NO` and nothing else; the words around it are the explanation, which holds no tags.
- A call names its tool and gives an object. Tools that do not exist and arguments that no tool has are calls all the
  same: the tool answers them. Its texts may hold any words, tags of an answer too; they never are an answer.
- A value in XML is JSON where it is JSON, else its words. The template writes texts bare, so a text that spells a
  number comes back as the number, and its `True` and `None` are words: a tool takes what it can use.
- A control token spelled in a turn (`<|im_start|>`, `<|image_pad|>`) is a fault wherever it stands.

Everything here takes time in proportion to the text, whatever it holds. Blank is space, tab, CR and LF. This module
needs nothing beyond Python, since training reads it too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Dialect = Literal["json", "xml"]
Word = Literal["YES", "NO"]
FaultKind = Literal[
    "bad_call",
    "many_calls",
    "call_and_answer",
    "bad_answer",
    "many_answers",
    "unclosed_thinking",
    "bad_thinking",
    "text_outside",
    "nothing",
    "image_ids",
    "control_ids",
]
"""As `specvet.chat.format.MalformedKind`, without what only ids can tell."""

BLANK = " \t\r\n"
THINK, THOUGHT = "<think>", "</think>"
MAX_DEPTH = 32
"""Brackets within brackets in a call's arguments."""

PICTURE = re.compile(r"<\|(?:vision_start|vision_end|vision_pad|image_pad|video_pad)\|>")
CONTROL = re.compile(
    r"<\|(?:endoftext|im_start|im_end|object_ref_start|object_ref_end|box_start|box_end|quad_start|quad_end|"
    r"vision_start|vision_end|vision_pad|image_pad|video_pad|fim_prefix|fim_middle|fim_suffix|fim_pad|repo_name|"
    r"file_sep|audio_start|audio_end|audio_pad)\|>"
)
"""Control tokens of the Qwen families, by name: `<|B|>` in a thought about a magnetic field is none."""

_TAG = re.compile(r"</?(?:tool_call|answer)>")
_FUNCTION = re.compile(r"<function=([^<>\s]{1,256})>")
_PARAMETER = re.compile(r"[ \t\r\n]*<parameter=([^<>\s]{1,256})>")
_IN_VALUE = ("<parameter=", "<function=", "</function>")


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it was written."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it was written."""

    word: Word
    explanation: str
    """The words around the box."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What makes a turn neither."""

    kind: FaultKind
    detail: str


@dataclass(frozen=True, slots=True)
class TurnText:
    """A turn, taken apart."""

    thought: str
    act: Call | Answer | Fault


def read_turn(text: str, calls: Dialect | None = None) -> TurnText:
    """What a turn's text (its prefix included, its end token not) says; `calls` None takes both dialects."""
    if found := CONTROL.search(text):
        picture = PICTURE.fullmatch(found[0]) is not None
        what = "a token that stands for a picture" if picture else "a control token"
        return TurnText("", Fault("image_ids" if picture else "control_ids", f"{what} inside the turn"))
    start = len(text) - len(text.lstrip(BLANK))
    close = text.find(THOUGHT)
    if close < 0:
        if THINK in text:
            return TurnText("", Fault("unclosed_thinking", "the thought never ends"))
        if start == len(text):
            return TurnText("", Fault("nothing", "an empty turn"))
        return TurnText("", Fault("bad_thinking", "no thought before the call or answer"))
    if not text.startswith(THINK, start):
        return TurnText("", Fault("bad_thinking", "the turn does not begin with its thought"))
    thought = text[start + len(THINK) : close].strip(BLANK)
    if text.count(THINK) > 1 or text.count(THOUGHT) > 1:
        return TurnText(thought, Fault("bad_thinking", "more than one thought"))
    return TurnText(thought, read_act(text[close + len(THOUGHT) :], calls))


def read_act(body: str, calls: Dialect | None = None, *, words_before: bool = False) -> Call | Answer | Fault:
    """What follows the thought; `words_before` lets words stand before an answer or a call, as if thought aloud."""
    blocks = _Blocks(body)
    if blocks.n_calls and blocks.n_answers:
        return Fault("call_and_answer", "a call and an answer in one turn")
    if blocks.n_calls > 1:
        return Fault("many_calls", f"{blocks.n_calls} calls in one turn; one is allowed")
    if blocks.n_answers > 1:
        return Fault("many_answers", f"{blocks.n_answers} answers in one turn; one is allowed")
    if blocks.fault:
        return blocks.fault
    if not blocks.n_calls and not blocks.n_answers:
        return Fault("nothing", "neither a call nor an answer")
    before, after = (part.strip(BLANK) for part in blocks.outside)
    if after or (before and not words_before):
        return Fault("text_outside", f"words {'after' if after else 'before'} the {blocks.kind}")
    return read_call(blocks.content, calls) if blocks.n_calls else read_answer(blocks.content)


class _Blocks:
    """The call and answer blocks of a body, counted; the last one's content, and what stands around it."""

    def __init__(self, body: str) -> None:
        self.n_calls = self.n_answers = 0
        self.fault: Fault | None = None
        self.content = ""
        self.outside: list[str] = []
        tags = [(m[0], m.start(), m.end()) for m in _TAG.finditer(body)]
        i = position = 0
        while i < len(tags):
            tag, start, end = tags[i]
            self.outside.append(body[position:start])
            i, position = i + 1, end
            kind = "call" if "tool_call" in tag else "answer"
            if tag.startswith("</"):
                self._wrong(kind, f"the end of {_an(kind)} that never began")
                continue
            self.n_calls += kind == "call"
            self.n_answers += kind == "answer"
            # A call's texts may hold the tags of answers; an answer holds no tag at all.
            while kind == "call" and i < len(tags) and "answer" in tags[i][0]:
                i += 1
            if i == len(tags) or tags[i][0] != f"</{tag[1:]}":
                what = "never ends" if i == len(tags) else "holds another tag"
                self._wrong(kind, f"the {kind} {what}")
                position = len(body) if i == len(tags) else tags[i][1]
                continue
            self.content = body[end : tags[i][1]]
            position = tags[i][2]
            i += 1
        self.outside.append(body[position:])

    @property
    def kind(self) -> str:
        return "call" if self.n_calls else "answer"

    def _wrong(self, kind: str, detail: str) -> None:
        self.fault = self.fault or Fault("bad_call" if kind == "call" else "bad_answer", detail)


def _an(kind: str) -> str:
    return "an answer" if kind == "answer" else "a call"


def read_answer(content: str) -> Answer | Fault:
    r"""An answer block's content: one box, of YES or NO exactly."""
    if content.count(r"\boxed") == 1:
        words: tuple[Word, Word] = ("YES", "NO")
        for word in words:
            before, box, after = content.partition(rf"\boxed{{{word}}}")
            if box:
                explanation = " ".join(filter(None, (before.strip(BLANK), after.strip(BLANK))))
                return Answer(word, explanation)
    return Fault("bad_answer", r"an answer must hold \boxed{YES} or \boxed{NO}, exactly once")


def read_call(content: str, calls: Dialect | None = None) -> Call | Fault:
    """A call block's content."""
    content = content.strip(BLANK)
    dialect = calls or ("json" if content.startswith("{") else "xml")
    try:
        return _json_call(content) if dialect == "json" else _xml_call(content)
    except ValueError as e:
        return Fault("bad_call", str(e))


class _HarmfulError(ValueError):
    """Well-formed JSON that nobody downstream should meet."""


def _json_call(content: str) -> Call:
    try:
        call = _read_json(content)
    except json.JSONDecodeError as e:
        raise ValueError(f"the call is no JSON: {e.msg} (at character {e.pos})") from e
    if not isinstance(call, dict):
        raise ValueError("the call is no JSON object with name and arguments")
    if call.keys() != {"name", "arguments"}:
        raise ValueError("the call must have a name and arguments, and nothing else")
    name, arguments = call["name"], call["arguments"]
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the call names no tool")
    if not isinstance(arguments, dict):
        raise ValueError("the arguments of the call are no object")
    return Call(name, arguments)


def _xml_call(content: str) -> Call:
    function = _FUNCTION.match(content)
    if function is None:
        raise ValueError("the call does not begin with the name of its function")
    if not content.endswith("</function>"):
        raise ValueError("the function of the call never ends")
    inner = content[function.end() : -len("</function>")]
    arguments: dict[str, Any] = {}
    position = 0
    while parameter := _PARAMETER.match(inner, position):
        name = parameter[1]
        end = inner.find("</parameter>", parameter.end())
        if end < 0:
            raise ValueError(f"the parameter {name[:80]} never ends")
        if name in arguments:
            raise ValueError(f"the parameter {name[:80]} is given twice")
        value = inner[parameter.end() : end]
        if any(tag in value for tag in _IN_VALUE):
            raise ValueError(f"the parameter {name[:80]} holds a tag of another parameter or function")
        arguments[name] = _value(value.removeprefix("\n").removesuffix("\n"))
        position = end + len("</parameter>")
    if inner[position:].strip(BLANK):
        raise ValueError("the function holds something besides parameters")
    return Call(function[1], arguments)


def _value(text: str) -> Any:
    """A parameter's value: JSON where it is JSON, else the words; the template writes texts bare, all else as JSON."""
    try:
        return _read_json(text)
    except json.JSONDecodeError:
        return text


def _read_json(text: str) -> Any:
    """JSON without repeated names, NaN, infinities, half characters and abysses.

    Raises JSONDecodeError for what is no JSON, and another ValueError for what is and must not be.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=lambda word: _no_json(text, word))
    except RecursionError:
        raise _HarmfulError("the arguments are nested too deep") from None
    except json.JSONDecodeError:
        raise
    except ValueError as e:
        raise _HarmfulError(str(e) if isinstance(e, _HarmfulError) else "a number in the arguments is too long") from e
    _check(value)
    return value


def _check(value: Any) -> None:
    """Depth, numbers and texts, without recursion."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _HarmfulError("the arguments are nested too deep")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float) and not math.isfinite(item):
                raise _HarmfulError("a number in the arguments is too large")
            elif isinstance(item, str) and not item.isascii() and any("\ud800" <= c <= "\udfff" for c in item):
                raise _HarmfulError("a text in the arguments holds half a character")
        level = below


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _HarmfulError("an argument is given twice")
    return found


def _no_json(text: str, word: str) -> Any:
    raise json.JSONDecodeError(f"{word} is no JSON", text, max(text.find(word), 0))
