"""What words ask of their arguments. Each function returns the argument in the asked form or raises GrammarError."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.core.function import AppliedUndef

from specvet.tasks.physics.grammar.errors import domain, syntax, too_large
from specvet.tasks.physics.grammar.sizes import SIZES


def expression(value: Any) -> Any:
    """A SymPy expression: no list, no truth value, no equation, no matrix."""
    if isinstance(value, sympy.Expr) and not isinstance(value, sympy.MatrixBase):
        return value
    raise domain(f"an expression is needed here, not {kind_of(value)}")


def matrix(value: Any) -> Any:
    """A matrix; a flat list is a column."""
    if isinstance(value, sympy.MatrixBase):
        return value
    if isinstance(value, list | tuple) and value:
        rows = value if all(isinstance(row, list | tuple) for row in value) else [[entry] for entry in value]
        if len({len(row) for row in rows}) != 1:
            raise domain("the rows of a matrix have unequal lengths")
        if max(len(rows), len(rows[0])) > SIZES.matrix:
            raise too_large(f"a matrix has at most {SIZES.matrix} rows and columns")
        return sympy.Matrix([[expression(entry) for entry in row] for row in rows])
    raise domain(f"a matrix is needed here, not {kind_of(value)}; write Matrix([[a, b], [c, d]])")


def symbol(value: Any) -> Any:
    if isinstance(value, sympy.Symbol):
        return value
    raise syntax(f"the name of a variable is needed here, not {kind_of(value)}")


def unknown(value: Any) -> Any:
    """A name, or an unknown function or its derivative."""
    if isinstance(value, sympy.Symbol | AppliedUndef | sympy.Derivative):
        return value
    raise syntax(f"the name of an unknown is needed here, not {kind_of(value)}")


def integer(value: Any, low: int, high: int, what: str) -> int:
    if not isinstance(value, sympy.Integer):
        raise syntax(f"{what} must be an integer, not {kind_of(value)}")
    if abs(value) > 10**9 or int(value) > high:
        raise too_large(f"{what} is at most {high}")
    if int(value) < low:
        raise domain(f"{what} is at least {low}")
    return int(value)


def equation(value: Any) -> Any:
    """An expression that is zero, an equation, or an inequality."""
    if isinstance(value, sympy.logic.boolalg.Boolean) and not isinstance(value, sympy.Symbol):
        return value
    return expression(value)


def flat(values: tuple[Any, ...]) -> list[Any]:
    """The values, with those of lists and tuples in their place."""
    return [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]


def each(value: Any, function: Any) -> Any:
    """`function` of every expression in a list, tuple, dict, matrix or equation, in the same form."""
    if isinstance(value, list | tuple):
        return type(value)(each(item, function) for item in value)
    if isinstance(value, dict):
        return {key: each(item, function) for key, item in value.items()}
    if isinstance(value, sympy.MatrixBase):
        return value.applyfunc(function)
    if isinstance(value, sympy.core.relational.Relational):
        return value.func(each(value.lhs, function), each(value.rhs, function))
    if isinstance(value, sympy.logic.boolalg.BooleanFunction):
        return value.func(*(each(item, function) for item in value.args))
    if isinstance(value, sympy.logic.boolalg.BooleanAtom):
        return value
    return function(expression(value))


def kind_of(value: Any) -> str:
    if isinstance(value, sympy.MatrixBase):
        return "a matrix"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "a table of solutions"
    if isinstance(value, sympy.Symbol):
        return "a name"
    if isinstance(value, sympy.logic.boolalg.Boolean):
        return "an equation or truth value"
    return "a number" if getattr(value, "is_number", False) else "an expression"
