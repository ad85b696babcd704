"""What the solution of a physics problem is worth in training: 1 for the right answer, 0 for a wrong one.

| part | default | when |
|---|---|---|
| `answer` | 1 | the answer is right (with `partial`, times the share of right parts) |
| `bad_format` | 0 | the text does not end with its only `<answer>` block, which holds one box and nothing else |
| `fabricated` | −0.5 | the model wrote a tool's result itself, once an episode |

`bad_format` is −0.2 in `specvet.tasks.rewards`; here it costs only what is asked for.
Nothing is added for style: a wrong answer never earns more than 0, and a right one always more than 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specvet.records.problems import Gold
from specvet.tasks.physics.matching import Mode, match
from specvet.tasks.physics.reading import Route, fabricated, read_answer, well_formed
from specvet.tasks.physics.reasons import Matched


@dataclass(frozen=True, slots=True)
class Weights:
    """What the parts count. Raises ValueError where style could pay, or cost a right answer all it is worth."""

    answer: float = 1.0
    bad_format: float = 0.0
    fabricated: float = -0.5
    partial: bool = False
    """Whether a multipart answer earns the share of its right parts; without it all or nothing."""

    def __post_init__(self) -> None:
        if max(self.bad_format, self.fabricated) > 0:
            raise ValueError("weights: bad_format and fabricated are deductions, 0 or less")
        if self.answer + self.bad_format + self.fabricated <= 0:
            raise ValueError("weights: answer must be more than what can be deducted")


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward and what it was made of."""

    score: float
    matched: Matched
    predicted: str
    route: Route
    format_ok: bool
    fabricated: int
    """Results that the model made up."""

    def parts(self) -> dict[str, float]:
        """As `specvet.records.schema.TrajectoryRecord.reward` keeps it."""
        return {
            "score": self.score,
            "correct": float(self.matched.right),
            "credit": self.matched.credit,
            "format_ok": float(self.format_ok),
            "fabricated": float(self.fabricated),
        }


def reward(
    texts: Sequence[str],
    gold: Gold,
    weights: Weights = Weights(),
    *,
    mode: Mode = "lenient",
    thinking: bool = False,
    fabrications: int | None = None,
    format_ok: bool | None = None,
) -> Reward:
    """The reward of what a model wrote, piece by piece (tools' results are no part of it).

    `thinking`: the prompt had opened a thought. `fabrications` and `format_ok` are what the harness counted and parsed
    on the ids, where there are any: what it cut off cannot be counted in the text.
    """
    read = read_answer(texts, thinking=thinking)
    matched = match(read.text, gold, mode)
    made_up = fabricated(texts) if fabrications is None else fabrications
    well = (well_formed(texts, thinking=thinking) if format_ok is None else format_ok) and not made_up
    earned = matched.credit if weights.partial else float(matched.right)
    score = weights.answer * earned + weights.bad_format * (not well) + weights.fabricated * bool(made_up)
    return Reward(score, matched, read.text or "", read.route, well, made_up)
