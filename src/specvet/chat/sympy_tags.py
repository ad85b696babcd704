"""The format `sympy_tags`: calls of a tool in the middle of a turn, also inside a thought.

    … so v = <tool>sympy: sqrt(2*9.81*5)</tool><tool_result>9.90</tool_result> and hence <answer>\\boxed{9.9}</answer>

The model writes everything but results. Sampling stops at `STOPS`; the result is put in as a text segment, and sampling
goes on from the very same ids. Who wrote what is told by the ledger's segments, never by tags.

Cuts lie between tokens. A token that completes `</tool>` or `</answer>` stays whole, with what it holds beyond the tag:
it was sampled, and the model goes on after it. Where the model begins a `<tool_result`, in any spelling that a reader
could take for it, the turn is cut before the first token that holds a part of it; that token and what follows never
enter the ledger. What a backend sampled beyond a stop is cut likewise.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from specvet.chat.format import ChatFormat
from specvet.chat.ledger import Ledger, LedgerError, Segment, TextSegment
from specvet.tools.sympy_tool.text import LEFT, one_line

NAME = "sympy_tags"
TOOL = "sympy"
OPEN, CLOSE, RESULT, ANSWER_OPEN, ANSWER_CLOSE = "<tool>", "</tool>", "<tool_result", "<answer>", "</answer>"
STOPS = (CLOSE, RESULT, ANSWER_CLOSE)
WORD_STOPS = (CLOSE, ANSWER_CLOSE)
"""For servers that give words: what they leave out must be known from what is left."""
MAX_ARGUMENT = 400
"""Characters of a call's argument."""
MAX_RESULT = 512
"""Characters of a result."""

_GAP = r"[\s_\-\u00ad\u200b-\u200f\u2060\ufeff]*"
_FABRICATED = re.compile(rf"<{_GAP}tool{_GAP}result", re.IGNORECASE)
_BRACKETS = {ord(c): "<" for c in LEFT}


@dataclass(frozen=True, slots=True)
class Called:
    """A call. `missing` is what its closing tag lacks, where a backend keeps stop texts to itself."""

    argument: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class BadCall:
    """A closed call that is none; `problem` tells the model."""

    problem: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Fabricated:
    """The model began a result of its own, and no whole call stands before it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An `</answer>`. Whether there is an answer before it, `specvet.tasks.physics.reading` says."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The turn is over."""

    unclosed: bool = False
    """With an `<answer>` that is open: the backend may have kept its closing tag to itself."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Ids that no turn may hold: a control token, or one that stands for a picture."""

    kind: Literal["control_ids", "image_ids"]


@dataclass(frozen=True, slots=True)
class Full:
    """The stretch met its limit of tokens."""


Event = Called | BadCall | Fabricated | Answered | Finished | Broken | Full


@dataclass(frozen=True, slots=True)
class Heard:
    """What a sampled stretch is."""

    n: int
    """Ids that enter the ledger, from its beginning."""
    text: str
    """Of these, without an end token; bytes that are no UTF-8 show as U+FFFD."""
    event: Event
    fabricated: bool = False
    """It held a result of the model's own, which was cut."""


def hear(ids: Sequence[int], stop: str, format: ChatFormat) -> Heard:
    """What a sampled stretch is, decided on its ids; `stop` is the policy's word (`Sequence.stop`)."""
    vocabulary = format.vocabulary
    n_words = next((k for k, i in enumerate(ids) if i in format.stop_ids), len(ids))
    words = [vocabulary.token_bytes(i) for i in ids[:n_words]]
    n, event, own = _read(words, "ended" if n_words < len(ids) else stop)
    for k, i in enumerate(ids[: min(n, n_words)]):
        if i in vocabulary.control_ids:
            n, event = k, Broken("image_ids" if i in vocabulary.picture_ids else "control_ids")
            break
    return Heard(n, vocabulary.decode(ids[: min(n, n_words)]), event, own)


def hear_text(text: str, stop: str) -> Heard:
    """The same for a policy that gives words: `n` counts characters. A closing tag that the server left out, as most
    do with stop texts, is part of the words again."""
    n, event, own = _read([letter.encode("utf-8", "replace") for letter in text], stop)
    match event:
        case Called(argument, missing):
            return Heard(n, text[:n] + missing, Called(argument), own)
        case BadCall(problem, missing):
            return Heard(n, text[:n] + missing, BadCall(problem), own)
        case Finished(True):
            return Heard(n, text[:n] + ANSWER_CLOSE, Answered(), own)
    return Heard(n, text[:n], event, own)


def _read(pieces: Sequence[bytes], stop: str) -> tuple[int, Event, bool]:
    """(pieces that are kept, what they are, whether a result of the model's own was cut); an end token that follows
    (stop "ended") counts as one more."""
    ends, data = list(accumulate(map(len, pieces))), b"".join(pieces)
    own, close, answered = _fabrication(data), data.find(CLOSE.encode()), data.find(ANSWER_CLOSE.encode())
    first = min((at for at in (own, close, answered) if at >= 0), default=-1)
    event: Event
    if first < 0:
        n, event = _unclosed(data, stop, len(pieces))
    else:
        n = bisect_left(ends, first + len(CLOSE if first == close else ANSWER_CLOSE)) + 1
        event = _call(data[:close]) if first == close else Answered()
        if first == own or 0 <= own < ends[n - 1]:  # first of all, or in the very token that completes the tag
            n, event = bisect_right(ends, own), Fabricated()
    return n, event, own >= 0


def put_in(text: str, role: Literal["tool", "harness"], format: ChatFormat) -> TextSegment:
    """Words of the tool (see `result_text`) or of the program in the middle of a turn; control tokens cannot act."""
    return TextSegment(tuple(format.vocabulary.encode(format.vocabulary.harmless(text))), role)


def result_text(text: str) -> str:
    """`<tool_result>TEXT</tool_result>`, as it stands in the turn; the text is one line whose tags cannot act."""
    return f"{RESULT}>{one_line(text, MAX_RESULT)}</tool_result>"


def demonstration(format: ChatFormat, opening: Sequence[Segment], stretches: Sequence[tuple[str, str]]) -> Ledger:
    """A solved problem as a ledger: the first prompt, then (kind, text) of each stretch, of kind model, tool, harness.

    Only what the model wrote is sampled (without log-probs); the last of it ends with the end token. A thought that the
    format opens itself may be opened by the first stretch too. Raises LedgerError for a stretch of the model that
    writes a result, for another kind, and for one without words of the model.
    """
    ledger = format.new_ledger()
    ledger.append(opening)
    last = max((k for k, (kind, text) in enumerate(stretches) if kind == "model" and text), default=-1)
    if last < 0:
        raise LedgerError("a solution without words of the model")
    for k, (kind, text) in enumerate(stretches):
        if kind == "model":
            if fabricates(text):
                raise LedgerError(f"stretch {k} of a solution: the model writes a tool's result; only a tool may")
            said = text.removeprefix(format.prefix) if k == 0 else text
            ids = format.vocabulary.encode(format.vocabulary.harmless(said, tags=False))
            ended = [format.stop_ids[0]] if k == last else []
            if ids or ended:
                ledger.append_sampled([*ids, *ended], None, "end" if ended else "stop")
        elif kind in ("tool", "harness"):
            ledger.append([put_in(text, "tool" if kind == "tool" else "harness", format)])
        else:
            raise LedgerError(f"stretch {k} of a solution is of kind {kind!r}; there are model, tool and harness")
    return ledger


def fabricates(text: str) -> bool:
    """Whether words of a model hold the beginning of a tool's result, in any spelling."""
    return _fabrication(text.encode("utf-8", "surrogatepass")) >= 0


def _unclosed(data: bytes, stop: str, n: int) -> tuple[int, Event]:
    """n tokens without a closing tag: over, full, or with a call whose stop text a backend kept to itself."""
    if stop == "ended":
        return n + 1, Finished()
    if stop == "length":
        return n, Full()
    if OPEN.encode() in data:
        half = next((k for k in range(len(CLOSE) - 1, 0, -1) if data.endswith(CLOSE[:k].encode())), 0)
        return n, _call(data[: len(data) - half], CLOSE[half:])
    return n, Finished(unclosed=ANSWER_OPEN.encode() in data)


def _call(before: bytes, missing: str = "") -> Called | BadCall:
    """The call that ends here: what follows the last `<tool>` of its stretch."""
    _, opened, body = before.decode("utf-8", "replace").rpartition(OPEN)
    name, colon, argument = body.partition(":")
    argument = argument.strip()
    if not opened:
        return BadCall("there is no <tool> before this </tool>", missing)
    if not colon or name.strip() != TOOL:
        return BadCall(f"a call is <tool>{TOOL}: EXPRESSION</tool>; there is no other tool", missing)
    if not argument:
        return BadCall("the expression is missing", missing)
    if len(argument) > MAX_ARGUMENT:
        return BadCall(f"an expression of {len(argument)} characters; at most {MAX_ARGUMENT} are allowed", missing)
    if len(argument.splitlines()) > 1:
        return BadCall("an expression of several lines; give one expression on one line", missing)
    return Called(argument, missing)


def _fabrication(data: bytes) -> int:
    """The byte where a result of the model's own begins, or -1. Case, blanks and full-width letters do not hide it."""
    text = data.decode("utf-8", "surrogateescape")
    found = _FABRICATED.search(text if text.isascii() else "".join(map(_plain, text)))
    return -1 if found is None else len(text[: found.start()].encode("utf-8", "surrogateescape"))


def _plain(letter: str) -> str:
    """One letter for one letter: full-width ones as ASCII."""
    if letter.isascii():
        return letter
    plain = unicodedata.normalize("NFKC", letter.translate(_BRACKETS))
    return plain if len(plain) == 1 else letter
