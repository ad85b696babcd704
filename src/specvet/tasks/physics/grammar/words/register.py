"""What a word is, and the register of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specvet.tasks.physics.grammar.errors import syntax

GROUPS = ("numbers and functions", "comparisons and cases", "algebra", "calculus", "matrices and vectors", "units")


@dataclass(frozen=True, slots=True)
class Word:
    """A function of the grammar."""

    name: str
    usage: str
    """How it is written, `solve(equation, x)`."""
    meaning: str
    """One line."""
    example: str
    group: str
    """One of `GROUPS`."""
    function: Callable[..., Any]
    plain: bool = False
    """Whether `parse` takes it: it neither solves nor integrates, so its time is bounded."""
    symbol_too: bool = False
    """Whether the bare name is a symbol: N may be a normal force, gamma a Lorentz factor."""
    units: bool = False
    """Whether names in its arguments are units, not symbols."""
    unknown_functions: bool = False
    """Whether y(t) in its arguments may be an unknown function."""

    def __call__(self, *arguments: Any) -> Any:
        try:
            inspect.signature(self.function).bind(*arguments)
        except TypeError:
            raise syntax(f"{self.name} was given {len(arguments)} arguments; write {self.usage}") from None
        return self.function(*arguments)


WORDS: dict[str, Word] = {}
"""Name or alias → word."""


def word(
    usage: str, meaning: str, example: str, group: str, *aliases: str, **flags: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function under the name that `usage` begins with, and under `aliases`."""
    name = usage.partition("(")[0]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = Word(name, usage, meaning, example, group, function, **flags)
        for each in (name, *aliases):
            if each in WORDS:
                raise ValueError(f"the word {each} is registered twice")
            WORDS[each] = entry
        return function

    return register


def aliases_of(entry: Word) -> list[str]:
    return [name for name, other in WORDS.items() if other is entry and name != entry.name]
