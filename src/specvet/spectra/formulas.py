"""Arithmetic that a task file may write: parsed with `ast`, checked against a short list, never evaluated by Python."""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping

MAX_LENGTH = 500
"""Characters of a formula."""
MAX_DEPTH = 60
"""Operations inside one another; a sum of n terms is n deep."""

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs}


def formula_names(formula: str) -> list[str]:
    """Names of the indices that a formula uses, in order; ValueError where it is not a formula."""
    return list(_checked(formula)[1])


@functools.lru_cache(maxsize=1024)
def formula_function(formula: str) -> Callable[[Mapping[str, float]], float]:
    """A formula as a function of the values of its names, which raises ZeroDivisionError where it divides by zero.

    ValueError where it is not a formula.
    """

    def built(node: ast.expr) -> Callable[[Mapping[str, float]], float]:
        match node:
            case ast.Constant(value=int() | float() as value):
                number = float(value)
                return lambda _: number
            case ast.Name(id=name):
                return operator.itemgetter(name)
            case ast.UnaryOp(operand=operand):
                inner = built(operand)
                return lambda values: -inner(values)
            case ast.BinOp(left=left, op=op, right=right):
                first, second, apply = built(left), built(right), _OPERATORS[type(op)]
                return lambda values: apply(first(values), second(values))
            case ast.Call(func=ast.Name(id=name), args=args):
                function, inners = _FUNCTIONS[name], [built(a) for a in args]
                return lambda values: function(*[i(values) for i in inners])
        raise AssertionError("_checked lets nothing else through")

    return built(_checked(formula)[0])


@functools.lru_cache(maxsize=1024)
def _checked(formula: str) -> tuple[ast.expr, tuple[str, ...]]:
    """The syntax tree of a formula and the names in it."""
    names: dict[str, None] = {}

    def walk(node: ast.expr, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"formula {_shown(formula)}: more than {MAX_DEPTH} operations inside one another")
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                if not _finite(value):
                    raise ValueError(f"formula {_shown(formula)}: a number in it is too large")
            case ast.Name(id=name):
                names.setdefault(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                walk(operand, depth + 1)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                walk(left, depth + 1)
                walk(right, depth + 1)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                if (len(args) != 1) if name == "abs" else (len(args) < 2):
                    wants = "one value" if name == "abs" else "two values or more"
                    raise ValueError(f"formula {_shown(formula)}: {name}() takes {wants}, here are {len(args)}")
                for arg in args:
                    walk(arg, depth + 1)
            case _:
                raise ValueError(
                    f"formula {_shown(formula)}: {_source(node)} is not allowed; use numbers, index names, "
                    "+ - * /, brackets, min(), max(), abs()"
                )

    tree = _parsed(formula)
    walk(tree, 0)
    return tree, tuple(names)


def _parsed(formula: str) -> ast.expr:
    if len(formula) > MAX_LENGTH:
        raise ValueError(f"formula of {len(formula)} characters: at most {MAX_LENGTH} are read")
    try:
        return ast.parse(formula.strip().replace("−", "-"), mode="eval").body  # a typeset minus is a minus
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"formula {_shown(formula)} is not arithmetic, such as `cah2 + cah3 - 0.5 * tio5`") from None


def _finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _shown(formula: str) -> str:
    return repr(formula if len(formula) <= 80 else formula[:77] + "...")


def _source(node: ast.expr) -> str:
    try:
        return _shown(ast.unparse(node))
    except (RecursionError, ValueError):
        return "something in it"
