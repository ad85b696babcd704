r"""What a model answered: the last `<answer>` of what it wrote itself, else the last balanced `\boxed{}`.

Only sampled pieces are read, each alone: an answer does not reach over a tool's result. Not read either are thoughts
(all before the last `</think>`), calls, and results that the model made up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from specvet.records.problems import Segment


class Route(StrEnum):
    """Where an answer was found."""

    ANSWER = "answer"
    """In a closed `<answer>` block."""
    BOX = "box"
    """In a box outside of any block."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Read:
    """What was answered; `text` is None where nothing was."""

    text: str | None
    """Of the route `box` the box itself with what follows it on its line, for a unit may stand there."""
    route: Route

    @property
    def shown(self) -> str:
        """For people: without box."""
        inside = boxes(self.text or "")
        return inside[-1].strip() if inside else self.text or ""


_OPEN = r"[<＜‹〈]\s{0,8}"
_RESULT = re.compile(_OPEN + r"/?\s{0,8}tool[\s_-]{0,8}result", re.IGNORECASE)
_RESULT_END = re.compile(_OPEN + r"/\s{0,8}tool[\s_-]{0,8}result\s{0,8}[>＞›〉]?", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAIL = 40
_CALL, _CALL_END = re.compile("<tool>"), re.compile("</tool>")
_ANSWER, _ANSWER_END = "<answer>", "</answer>"
_THINK, _THOUGHT = "<think>", "</think>"


def sampled(segments: Sequence[Segment]) -> list[str]:
    """The texts that the model wrote."""
    return [segment.text for segment in segments if segment.kind == "model"]


def read_answer(texts: Sequence[str], *, thinking: bool = False) -> Read:
    """The answer in sampled texts, in their order. `thinking`: the prompt had opened a thought already."""
    texts = [_own(text) for text in _said(texts, thinking)]
    for text in reversed(texts):
        end = text.rfind(_ANSWER_END)
        start = text.rfind(_ANSWER, 0, max(end, 0))
        if start >= 0:
            return Read(text[start + len(_ANSWER) : end].strip(), Route.ANSWER)
    for text in reversed(texts):
        if found := _boxes(text):
            start, end = found[-1]
            behind = text[end + 1 : end + 1 + _TAIL].partition("\n")[0]
            return Read(rf"\boxed{{{text[start:end].strip()}}}{behind}".strip(), Route.BOX)
    return Read(None, Route.NONE)


def well_formed(texts: Sequence[str], *, thinking: bool = False) -> bool:
    """Whether what was said ends with its only answer block, which is one box, and no result was made up."""
    said = _said(texts, thinking)
    if not said or fabricated(texts):
        return False
    whole, last = "".join(said), said[-1].strip()
    if whole.count(_ANSWER) != 1 or whole.count(_ANSWER_END) != 1 or not last.endswith(_ANSWER_END):
        return False
    block = last.rpartition(_ANSWER)[2].removesuffix(_ANSWER_END).strip()
    begins = _BOX.match(block)
    return begins is not None and _boxes(block) == [(begins.end(), len(block) - 1)]


def fabricated(texts: Sequence[str]) -> int:
    """How often the model began a tool's result itself: in any case, with blanks, in full-width brackets."""
    return sum("/" not in found[0] for text in texts for found in _RESULT.finditer(text))


def boxes(text: str) -> list[str]:
    r"""The contents of all balanced boxes that stand in no other box, in their order; linear in the text."""
    return [text[start:end] for start, end in _boxes(text)]


def _boxes(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    opened: list[int | None] = []
    """Of each open brace the place behind it, where a box begins there."""
    begins = {match.end() for match in _BOX.finditer(text)}
    for at, sign in enumerate(text):
        if sign not in "{}" or (at and text[at - 1] == "\\" and text[max(at - 2, 0) : at] != r"\\"):
            continue
        if sign == "{":
            opened.append(at + 1 if at + 1 in begins else None)
        elif opened and (start := opened.pop()) is not None:
            while found and found[-1][0] > start:
                found.pop()  # a box within this one
            found.append((start, at))
    return found


def _said(texts: Sequence[str], thinking: bool) -> list[str]:
    """What follows the last thought; nothing, where it never ends."""
    for at in range(len(texts) - 1, -1, -1):
        _, ended, body = texts[at].rpartition(_THOUGHT)
        if ended:
            return [] if _THINK in body else [body, *texts[at + 1 :]]
    return [] if thinking or any(_THINK in text for text in texts) else list(texts)


def _own(text: str) -> str:
    """A sampled text without calls and without results that were made up."""
    return _without(_without(text, _RESULT, _RESULT_END), _CALL, _CALL_END)


def _without(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    """The text without what stands between; what is never closed reaches to the end."""
    kept, at = [], 0
    while found := opening.search(text, at):
        kept.append(text[at : found.start()])
        end = closing.search(text, found.start())
        if end is None:
            return "".join(kept)
        at = end.end()
    return "".join([*kept, text[at:]])
