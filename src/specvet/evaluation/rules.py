"""How an answer is read from a trajectory, as named rules with versions: results say which one made them.

A rule reads the raw turns again, so old trajectories can be scored by new rules (`specvet eval rescore`). A rule that
is changed gets a new version, and the old version stays, since results must verify by what they were made with.

| rule | what it reads |
|---|---|
| `strict` | the last complete answer block after the final `</think>` of the last turn: what evaluations report |
| `lenient` | the same, or a YES or NO where the last turn's body begins: what the default training reward credits |
| `chapter` | what the public reproduction's training reward reads |
| `paper` | what the public Spec-o3 reward reads, all turns as one text |

A policy that measures writes no turns; its verdict is its answer under every rule. The strict format of a model is what
the parser found on its ids (every turn a call, the last an answer), whatever the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from specvet.tasks import lenient_answer, strict_answer
from specvet.tasks.rewards import chapter_reading, paper_reading

Word = Literal["YES", "NO"]
STRICT = "strict/1"
"""The rule of every reported number unless it says otherwise."""


class UnknownRuleError(ValueError):
    """A rule that this version of specvet does not have."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of reading."""

    name: str
    """With its version: `strict/1`."""
    about: str
    read: Callable[[Sequence[str]], Word | None]
    """The turns' texts (each with its prefix, without its end token) → the answer."""


def _paper(turns: Sequence[str]) -> Word | None:
    return _word(paper_reading("".join(turns))[0])


def _chapter(turns: Sequence[str]) -> Word | None:
    return _word(chapter_reading(turns)[0])


def _word(said: str) -> Word | None:
    plain = " ".join(said.split())
    return cast(Word, plain) if plain in ("YES", "NO") else None


RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(STRICT, "the last complete answer block of the last turn", strict_answer),
        Rule("lenient/1", "also YES or NO where the last turn's body begins", lenient_answer),
        Rule("chapter/1", "the public reproduction's training reward", _chapter),
        Rule("paper/1", "the public Spec-o3 reward, quirks included", _paper),
    )
}


def rule(name: str) -> Rule:
    """The rule of that name; without a version, its newest. Raises UnknownRuleError, which lists them."""
    if name in RULES:
        return RULES[name]
    versions = [key for key in RULES if key.partition("/")[0] == name]
    if not versions:
        known = ", ".join(RULES)
        raise UnknownRuleError(f"there is no rule {name!r}; this version of specvet has {known}")
    return RULES[max(versions, key=lambda key: int(key.partition("/")[2]))]
