"""Expressions built again with other leaves, every power checked before it is computed.

SymPy's own `subs` computes what arises: `x**y` with x = 10 and y = 10**10 would fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from specvet.tasks.physics.grammar.sizes import (
    check_binomial,
    check_exponential,
    check_factorial,
    check_number,
    check_power,
)

CHECKS: dict[Any, Callable[..., None]] = {
    sympy.Pow: check_power,
    sympy.exp: check_exponential,
    sympy.factorial: check_factorial,
    sympy.gamma: check_factorial,
    sympy.binomial: check_binomial,
}
BOUND = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Derivative, sympy.Subs, sympy.Limit)
"""These have variables of their own, which SymPy's `subs` keeps apart."""


def replaced(value: Any, table: dict[Any, Any]) -> Any:
    """`value` with the keys of `table` replaced by its values, all at once. Raises GrammarError (too_large)."""
    if value in table:
        return table[value]
    if not value.args:
        return value
    if isinstance(value, BOUND):
        return value.subs(table, simultaneous=True)
    arguments = [replaced(argument, table) for argument in value.args]
    if all(new is old for new, old in zip(arguments, value.args, strict=True)):
        return value
    if check := CHECKS.get(value.func):
        check(*arguments)
    return check_number(value.func(*arguments))
