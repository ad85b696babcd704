r"""Three readings of a trajectory's assistant turns, as pure texts (each with its prefix, without its end token).

| function | who asks | what it reads |
|---|---|---|
| `strict_format` | reward and evaluation | whether every turn keeps to `specvet.tasks.turns`: calls, then one answer |
| `strict_answer` | evaluation | the last complete answer block after the final `</think>` of the last turn |
| `lenient_answer` | the default training reward | the same, or YES or NO where the last turn's body begins |

None of them ever reads a thought, an earlier turn, or the first YES or NO of some prose. `strict_format` implies an
answer, and both answers are then the one that the chat formats' parser gives. Where ids are known the parser is the
stricter: it also sees what only looks like a tag, and whether the turn reached its end token.

Both answers are None where the last turn never stops thinking, where it has a call beside the answer (an act that was
not carried out is no answer, nor are the words of its label), or where it holds a control token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from specvet.tasks.turns import BLANK, CONTROL, THINK, THOUGHT, Answer, Call, Dialect, Word, read_turn

_BOX = re.compile(r"\\boxed[ \t]*\{([^{}]*)\}")
_BOX_FIRST = re.compile(
    r"[ \t\r\n]*(?:<answer>[ \t\r\n]*)?\\boxed[ \t]*\{[ \t\r\n]*(yes|no)(?:[ \t\r\n]*\}|[ \t]*(?:<|\r?\n|\Z))",
    re.IGNORECASE | re.ASCII,
)
_WORD_FIRST = re.compile(
    r"[ \t\r\n]*(?:<answer>[ \t\r\n]*)?(YES|NO)"
    r"(?=[ \t\r\n]*(?:</answer>|\Z)|[ \t]*\r?\n|[.,;:!](?![A-Za-z0-9])|[ \t]+[-–—][ \t])"
)
_WORDS = re.compile(r"(?<![A-Za-z])(?:YES|NO)(?![A-Za-z])")


def strict_format(turns: Sequence[str], calls: Dialect | None = None) -> bool:
    """Whether all turns but the last are calls and the last is an answer, each written as it must be.

    `calls` is the dialect of the calls; None takes both.
    """
    acts = [read_turn(turn, calls).act for turn in turns]
    return bool(acts) and isinstance(acts[-1], Answer) and all(isinstance(act, Call) for act in acts[:-1])


def strict_answer(turns: Sequence[str]) -> Word | None:
    r"""The answer of the last complete answer block after the final `</think>` of the last turn, or None.

    The block counts when all its boxes say the same: YES or NO, in any case and with blanks around it. Other faults of
    format (a second block before it, words outside, no thought at all) do not matter here.
    """
    body = last_body(turns)
    return None if body is None else _block_answer(body)


def lenient_answer(turns: Sequence[str]) -> Word | None:
    r"""The answer that a training reward credits although tags may be missing, or None.

    It is `strict_answer` where there is one; else YES or NO at the very beginning of the last turn's body, behind an
    `<answer>` tag or none: in a box, closed or not, in any case; or bare, in capitals, followed by the end, a line's
    end, a punctuation mark or a dash ("No emission is seen" is no NO, and neither is "NO lines"). A body whose boxes
    differ, or that begins with a bare word and holds the other one in capitals too, has no answer.
    """
    body = last_body(turns)
    if body is None:
        return None
    boxes = _boxes(body)
    answer = _block_answer(body)
    if answer is None and (first := _BOX_FIRST.match(body)):
        answer = _word(first[1])
    elif answer is None and (first := _WORD_FIRST.match(body)):
        answer = _word(first[1])
        if {found[0] for found in _WORDS.finditer(body)} != {answer}:
            return None
    return answer if all(box == answer for box in boxes) else None


def last_body(turns: Sequence[str]) -> str | None:
    """What the last turn says after its thoughts; None where nothing it says can be an answer."""
    if not turns or CONTROL.search(turns[-1]):
        return None
    _, _, body = turns[-1].rpartition(THOUGHT)  # all of it, where no thought ends
    if THINK in body or "<tool_call>" in body or "</tool_call>" in body:
        return None
    return body


def _block_answer(body: str) -> Word | None:
    end = body.rfind("</answer>")
    start = body.rfind("<answer>", 0, max(end, 0))
    if start < 0:
        return None
    block = body[start + len("<answer>") : end]
    said = set(_boxes(block))
    return said.pop() if len(said) == 1 and block.count(r"\boxed") == len(_BOX.findall(block)) else None


def _boxes(text: str) -> list[Word | None]:
    """What each closed box says; None for anything but YES and NO."""
    return [_word(found.strip(BLANK)) for found in _BOX.findall(text)]


def _word(text: str) -> Word | None:
    # Only ASCII is put into capitals: others have letters whose capital is an S.
    upper = text.upper() if text.isascii() else text
    return "YES" if upper == "YES" else "NO" if upper == "NO" else None
