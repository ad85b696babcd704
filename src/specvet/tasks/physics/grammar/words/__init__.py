"""The words of the grammar: functions that an expression may call, and names with a value.

Each word is registered with its signature, one line of meaning and an example; docs/physics.md lists them from here.
Words get SymPy objects, lists, tuples and dicts of them, never texts.
"""

from __future__ import annotations

from specvet.tasks.physics.grammar.words import algebra, calculus, elementary, matrices, measures
from specvet.tasks.physics.grammar.words.register import WORDS, Word

__all__ = ["WORDS", "Word", "algebra", "calculus", "elementary", "matrices", "measures"]
