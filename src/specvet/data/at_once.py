"""Demonstrations that answer at once: the same questions, pictures and answers, without the looks between.

Who was taught so has the whole view only, and shows what the windows are worth.
"""

from __future__ import annotations

import re
from dataclasses import replace

from specvet.data.demonstrations import Demonstration, Picture, Said
from specvet.data.errors import InputError

_TURNS = re.compile(r"You have \d+ turns?[.;]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def at_once(demonstration: Demonstration) -> Demonstration:
    """The demonstration with its first question, which gives one turn, and its answer; of the last thought its last
    sentence is left, since the others tell of windows. Raises InputError for one that does not end with an answer."""
    first = [m for m in demonstration.messages[:2] if m.role in ("system", "user")]
    last = demonstration.messages[-1]
    if last.calls or not any(m.role == "user" for m in first):
        raise InputError(f"{demonstration.where}: does not begin with a question and end with an answer")
    told = tuple(replace(m, content=tuple(_with_one_turn(part) for part in m.content)) for m in first)
    thought = _SENTENCE.split(last.reasoning.strip())[-1]
    return replace(demonstration, messages=(*told, Said("assistant", last.content, thought)))


def _with_one_turn(part: str | Picture) -> str | Picture:
    return _TURNS.sub(lambda m: "You have 1 turn" + m[0][-1], part) if isinstance(part, str) else part
