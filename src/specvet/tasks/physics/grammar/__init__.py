"""Physics expressions as text: in comes a line that a model wrote, out comes a SymPy object or a `GrammarError`.

Text is normalised (`spelling`), parsed with Python's `ast`, held against a whitelist and size limits (`tree`, `sizes`),
and built node by node (`build`). SymPy parses texts with `eval`, so no text is ever handed to a function of SymPy: not
names, not numbers, not operators. `parse` takes plain expressions, which are bounded in time because nothing in them
solves or integrates; `evaluate` takes all words, so whoever calls it does so in a process that can be killed
(`specvet.tools.sympy_tool`). docs/physics.md documents the grammar.

SymPy is imported by the first call, not by importing this package.
"""

from __future__ import annotations

from typing import Any

from specvet.tasks.physics.grammar.errors import ErrorKind, GrammarError
from specvet.tasks.physics.grammar.sizes import SIZES, Sizes

__all__ = ["SIZES", "ErrorKind", "GrammarError", "Sizes", "evaluate", "parse", "shown"]


def parse(text: str, sizes: Sizes = SIZES) -> Any:
    """The SymPy object of a plain expression: numbers, names, arithmetic, comparisons, elementary functions, lists.

    Raises GrammarError (syntax, unsupported, too_large, domain) and nothing else. Runs in the caller's process.
    """
    from specvet.tasks.physics.grammar.build import build

    return build(text, sizes, plain=True)


def evaluate(text: str, sizes: Sizes = SIZES) -> Any:
    """The value of a line with all words of the grammar: `solve`, `integrate`, `convert`, …

    Raises GrammarError, and what SymPy raises. It may take any time and memory: call it where it can be killed.
    """
    from specvet.tasks.physics.grammar.build import build

    return build(text, sizes, plain=False)


def shown(value: Any) -> str:
    """`value` as one line in the words of the grammar, so that it can be read back. Raises GrammarError (too_large)."""
    from specvet.tasks.physics.grammar.printing import text_of

    return text_of(value)
