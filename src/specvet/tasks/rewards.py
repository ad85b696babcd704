r"""What a trajectory is worth in training: 1 for the right answer, less 0.2 for bad format.

`Task.reward` names the variant:

- `default`: the answer is `lenient_answer`, the format is `strict_format` (or what the parser said of the ids).
- `paper`: what the public Spec-o3 code computes (arXiv:2601.06498, Maxwell-Jia/spec-o3, `recipe/spec_o3`), to repeat
  published training. It reads all turns as one text, and so has its quirks: a box inside a thought counts; of two boxes
  in one block the first counts; without a box any "yes" of the text counts before any "no"; a call beside the answer,
  words after it and picture tokens are no fault of format.
- `chapter`: what the public reproduction with Qwen3.5 computes (KMnO4-zx/agentic-rl-lab, `09-spec-o3/train_rl.py`). It
  reads only what follows the first `</think>` of the last turn: YES or NO at its very beginning counts, whatever comes
  after the word, behind an `<answer>`, an open box, both or neither. The format is good where that body is one answer
  block that opens with its box, and all turns before it are calls.

All give correct·1 − 0.2·[bad format]; nothing is added for calls. The text never includes observations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specvet.tasks.answers import lenient_answer, strict_format
from specvet.tasks.turns import THINK, THOUGHT, Call, Dialect, Word, read_turn

Variant = Literal["default", "paper", "chapter"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What the two parts of a reward count."""

    correct: float = 1.0
    bad_format: float = -0.2


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward and its parts."""

    score: float
    correct: bool
    format_ok: bool
    predicted: str
    """`YES`, `NO` or nothing; the `paper` variant may have read any words."""


def reward(
    turns: Sequence[str],
    truth: Word,
    variant: Variant = "default",
    weights: Weights = Weights(),
    *,
    calls: Dialect | None = None,
    format_ok: bool | None = None,
) -> Reward:
    """The reward of a trajectory's assistant turns, each as a text with its prefix and without its end token.

    `calls` is the dialect of the format's calls (None takes both). `format_ok` is what the parser decided on the ids,
    where there are any; without it `default` decides on the text. `paper` and `chapter` decide on the text always.
    Raises ValueError for a truth or variant that is none.
    """
    if truth not in ("YES", "NO"):
        raise ValueError(f"the truth is {truth!r}; rewards know YES and NO")
    if variant == "paper":
        predicted, well = paper_reading("".join(turns))
    elif variant == "chapter":
        predicted, well = chapter_reading(turns, calls)
    elif variant == "default":
        predicted = lenient_answer(turns) or ""
        well = strict_format(turns, calls) if format_ok is None else format_ok
    else:
        raise ValueError(f"there is no reward {variant!r}; there are default, paper and chapter")
    correct = " ".join(predicted.split()) == truth
    score = weights.correct * correct + weights.bad_format * (not well)
    return Reward(score, correct, well, predicted)


_BLOCK = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOX = re.compile(r"\\boxed\{([^}]*)\}")


def paper_reading(text: str) -> tuple[str, bool]:
    """(prediction, whether the format is good) as the public reward has them, quirks included."""
    balanced = text.count(THINK) == text.count(THOUGHT) > 0
    one_answer = text.count("<answer>") == 1 == text.count("</answer>")
    blocks = _blocks(text)
    predicted, box = "", None
    if blocks:
        last = blocks[-1].strip()
        box = _first_box(last)
        predicted = _any_word(last) if box is None else box
    well = balanced and one_answer and len(blocks) == 1 and box in ("YES", "NO")
    if not predicted and not well:
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        predicted = _first_box(text) or _any_word(text) or (lines[-1] if lines else "")
    return predicted.strip(), well


def _blocks(text: str) -> list[str]:
    # The pattern looks for an end again from every beginning; without this, text after the last end costs a square.
    return _BLOCK.findall(text[: text.rfind("</answer>") + len("</answer>")]) if "</answer>" in text else []


def _first_box(text: str) -> str | None:
    """The first box's content, in capitals where that makes it an answer."""
    found = _BOX.search(text, 0, text.rfind("}") + 1)
    if found is None:
        return None
    said = found[1].strip()
    return said.upper() if said.upper() in ("YES", "NO") else said


def _any_word(text: str) -> str:
    """YES where a "yes" stands anywhere, else NO where a "no" does, in any case."""
    for word in ("YES", "NO"):
        if re.search(rf"\b{word}\b", text, re.IGNORECASE):
            return word
    return ""


_SAID_FIRST = re.compile(r"(?:<answer>\s*)?(?:\\boxed\{)?(YES|NO)\b")
_ANSWERED = re.compile(r"<answer>\s*\\boxed\{(?:YES|NO)\}.*</answer>", re.DOTALL)


def chapter_reading(turns: Sequence[str], calls: Dialect | None = None) -> tuple[str, bool]:
    """(prediction, whether the format is good) as the public reproduction has them."""
    if not turns:
        return "", False
    body = turns[-1].partition(THOUGHT)[2].strip()
    said = _SAID_FIRST.match(body)
    well = _ANSWERED.fullmatch(body) is not None
    well = well and all(isinstance(read_turn(turn, calls).act, Call) for turn in turns[:-1])
    return said[1] if said else "", well
