"""Derivatives, integrals, limits, series, sums and differential equations."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.core.function import AppliedUndef

from specvet.tasks.physics.grammar.errors import domain, syntax
from specvet.tasks.physics.grammar.sizes import SIZES
from specvet.tasks.physics.grammar.words.arguments import each, equation, expression, flat, integer, symbol, unknown
from specvet.tasks.physics.grammar.words.register import word

CALCULUS = "calculus"
SIX = sympy.Integer(6)


@word("diff(expr, x[, n])", "derivative, n-th derivative; diff(expr, x, y) is mixed", "diff(x**3, x, 2)", CALCULUS,
      "Derivative", "derivative", unknown_functions=True)  # fmt: skip
def diff(value: Any, *variables: Any) -> Any:
    asked: list[list[Any]] = []
    for item in (x for v in variables for x in (v if isinstance(v, list | tuple) else (v,))):
        if isinstance(item, sympy.Integer) and asked:
            asked[-1][1] = integer(item, 0, SIZES.order, "the order of a derivative")
        else:
            asked.append([unknown(item), 1])
    if not asked:
        free = sorted(getattr(value, "free_symbols", ()), key=str)
        if len(free) != 1:
            raise syntax("write diff(expr, x)")
        asked = [[free[0], 1]]
    if sum(n for _, n in asked) > SIZES.order:
        integer(sympy.Integer(sum(n for _, n in asked)), 0, SIZES.order, "the order of a derivative")
    return each(value, lambda e: sympy.diff(e, *((x, n) for x, n in asked)))


@word("integrate(expr, x) or integrate(expr, (x, a, b))", "antiderivative, or integral from a to b; several in turn",
      "integrate(x*exp(-x), (x, 0, oo))", CALCULUS, "Integral")  # fmt: skip
def integrate(value: Any, *ranges: Any) -> Any:
    if len(ranges) == 3 and isinstance(ranges[0], sympy.Symbol) and not isinstance(ranges[1], list | tuple):
        ranges = (ranges,)  # integrate(expr, x, a, b)
    limits = [_range(r) if isinstance(r, list | tuple) else symbol(r) for r in ranges]
    if not limits:
        free = sorted(getattr(value, "free_symbols", ()), key=str)
        if len(free) != 1:
            raise syntax("write integrate(expr, x)")
        limits = [free[0]]
    return each(value, lambda e: sympy.integrate(e, *limits))


def _range(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 3:
        return (symbol(value[0]), expression(value[1]), expression(value[2]))
    raise syntax("write the range as (x, a, b)")


@word("limit(expr, x, a[, side])", "limit as x goes to a, from above; side 1 is from above, -1 from below",
      "limit(sin(x)/x, x, 0)", CALCULUS)  # fmt: skip
def limit(value: Any, name: Any, point: Any, side: Any = sympy.S.One) -> Any:
    below = integer(side, -1, 1, "the side of a limit") < 0
    return sympy.limit(expression(value), symbol(name), expression(point), "-" if below else "+")


@word("series(expr, x[, a[, n]])", "power series about a (0) below order n (6)", "series(cos(x), x, 0, 5)", CALCULUS)
def series(value: Any, name: Any, point: Any = sympy.S.Zero, order: Any = SIX) -> Any:
    n = integer(order, 1, SIZES.order, "the order of a series")
    return sympy.series(expression(value), symbol(name), expression(point), n)


@word("summation(expr, (k, a, b))", "sum over the integers from a to b", "summation(k**2, (k, 1, n))", CALCULUS, "Sum")
def summation(value: Any, *ranges: Any) -> Any:
    if len(ranges) == 3 and isinstance(ranges[0], sympy.Symbol):
        ranges = (ranges,)
    return sympy.summation(expression(value), *(_range(r) for r in ranges))


@word("product(expr, (k, a, b))", "product over the integers from a to b", "product(k, (k, 1, 5))", CALCULUS, "Product")
def product(value: Any, *ranges: Any) -> Any:
    if len(ranges) == 3 and isinstance(ranges[0], sympy.Symbol):
        ranges = (ranges,)
    return sympy.product(expression(value), *(_range(r) for r in ranges))


@word("dsolve(equation, y(t)[, y(0) == y_0, …])",
      "differential equation; derivatives are diff(y(t), t), conditions y(0) == a and subs(diff(y(t), t), t, 0) == b",
      "dsolve(diff(y(t), t) + k*y(t) == 0, y(t), y(0) == A)", CALCULUS, unknown_functions=True)  # fmt: skip
def dsolve(equations: Any, *rest: Any) -> Any:
    given = flat((equations,))
    functions = [x for x in flat(rest) if isinstance(x, AppliedUndef)]
    conditions = [x for x in flat(rest) if not isinstance(x, AppliedUndef)]
    if not all(isinstance(c, sympy.Eq) and not isinstance(c, bool) for c in conditions):
        raise syntax("write conditions as y(0) == a")
    if len(given) != 1 or len(functions) > 1:
        raise domain("one equation with one unknown function is solved")
    start = {c.lhs: c.rhs for c in conditions} or None
    return sympy.dsolve(equation(given[0]), *functions, ics=start)
