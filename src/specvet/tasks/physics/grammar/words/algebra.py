"""Equations and the forms of an expression."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.logic.boolalg import Boolean

from specvet.tasks.physics.grammar.errors import domain, syntax, too_large, unsupported
from specvet.tasks.physics.grammar.rebuilding import replaced
from specvet.tasks.physics.grammar.sizes import SIZES
from specvet.tasks.physics.grammar.words.arguments import each, equation, expression, flat, integer, symbol, unknown
from specvet.tasks.physics.grammar.words.register import word

ALGEBRA = "algebra"
MAX_UNKNOWNS = 10
FIGURES, TOLERANCE, MAX_STEPS = 30, sympy.Rational(1, 10**18), 60
"""Of `nsolve`: figures it calculates with, relative step at which it stops, steps at most."""
MAX_TERMS = 20_000
"""Of an expanded power of a sum."""


@word("solve(equation[, x]) or solve([equations], [x, y])",
      "solutions; an expression means expression = 0. Unknowns may be left out when all names are unknown",
      "solve([x + y == 5, x - y == 1], [x, y])", ALGEBRA)  # fmt: skip
def solve(equations: Any, *unknowns: Any) -> Any:
    system = [equation(e) for e in flat((equations,))]
    names = [unknown(x) for x in flat(unknowns)]
    if not system or len(system) > MAX_UNKNOWNS or len(names) > MAX_UNKNOWNS:
        raise too_large(f"between 1 and {MAX_UNKNOWNS} equations and unknowns are solved")
    if len(system) == 1 and len(names) == 1:
        return sympy.solve(system[0], names[0])
    if len(system) == 1 and not names:
        free = sorted(system[0].free_symbols, key=str)
        return sympy.solve(system[0], *free) if free else sympy.solve(system[0])
    return sympy.solve(system, names) if names else sympy.solve(system)


@word("nsolve(equation, x, guess)", "numeric solution near a guess", "nsolve(cos(x) == x, x, 1)", ALGEBRA)
def nsolve(given: Any, name: Any, guess: Any) -> Any:
    """By secants on values of the expression: SymPy's own `nsolve` makes a program text and runs it."""
    found = equation(given)
    zero = found.lhs - found.rhs if isinstance(found, sympy.Eq) else expression(found)
    x, old = symbol(name), expression(guess).evalf(FIGURES)
    if zero.free_symbols - {x} or not old.is_number:
        raise domain("nsolve needs an equation without other names, and a number as guess")

    def at(place: Any) -> Any:
        y = zero.xreplace({x: place}).evalf(FIGURES)
        if not y.is_number or y.has(sympy.zoo, sympy.nan, sympy.oo):
            raise domain("the equation has no value near the guess")
        return y

    new = old + (abs(old) or 1) / sympy.Integer(10) ** 4
    y_old, y_new = at(old), at(new)
    for _ in range(MAX_STEPS):
        if y_new == 0 or abs(new - old) <= TOLERANCE * abs(new):
            return new.evalf(15)
        if y_new == y_old:
            break
        old, new = new, (new - y_new * (new - old) / (y_new - y_old)).evalf(FIGURES)
        y_old, y_new = y_new, at(new)
    raise domain("no solution was found near the guess; try another one")


def _form(name: str, meaning: str, example: str, function: Any, *aliases: str) -> None:
    """Register a form of an expression that also applies to lists and equations."""
    word(f"{name}(expr)", meaning, example, ALGEBRA, *aliases)(lambda value: each(value, function))


def _expand(value: Any) -> Any:
    for power in value.atoms(sympy.Pow):
        if power.base.is_Add and power.exp.is_Integer:
            terms, n = len(power.base.args), abs(int(power.exp))
            if sympy.binomial(n + terms - 1, terms - 1) > MAX_TERMS:
                raise too_large(f"the expanded power has more than {MAX_TERMS} terms")
    return sympy.expand(value)


_form("simplify", "a simpler form", "simplify(sin(x)**2 + cos(x)**2)", sympy.simplify)
_form("expand", "products and powers of sums multiplied out", "expand((x + 1)**3)", _expand)
_form("factor", "as a product", "factor(x**2 - 5*x + 6)", sympy.factor)
_form("cancel", "common factors of a fraction cancelled", "cancel((x**2 - 1)/(x - 1))", sympy.cancel)
_form("together", "one fraction", "together(1/R_1 + 1/R_2)", sympy.together)
_form("trigsimp", "trigonometric identities used", "trigsimp(2*sin(x)*cos(x))", sympy.trigsimp)
_form("expand_trig", "sums of angles taken apart", "expand_trig(sin(a + b))", sympy.expand_trig)
_form(
    "expand_log",
    "logarithms of products taken apart",
    "expand_log(log(exp(2)*3))",
    lambda e: sympy.expand_log(e, force=True),
)
_form("logcombine", "logarithms put together", "logcombine(log(a) - log(b))", lambda e: sympy.logcombine(e, force=True))
_form("radsimp", "no roots in denominators", "radsimp(1/(1 + sqrt(2)))", sympy.radsimp)
_form("numer", "numerator", "numer(x/(y + 1))", sympy.numer)
_form("denom", "denominator", "denom(x/(y + 1))", sympy.denom)


@word("apart(expr[, x])", "partial fractions", "apart(1/(x**2 - 1), x)", ALGEBRA)
def apart(value: Any, *name: Any) -> Any:
    names = [symbol(x) for x in name]
    if len(names) > 1:
        raise syntax("write apart(expr, x)")
    return each(value, lambda e: sympy.apart(e, *names))


@word("collect(expr, x)", "powers of x collected", "collect(a*x + b*x + c, x)", ALGEBRA)
def collect(value: Any, *names: Any) -> Any:
    return sympy.collect(sympy.expand(expression(value)), [unknown(x) for x in flat(names)])


@word("coeff(expr, x[, n])", "coefficient of x**n", "coeff(3*x**2 + 5*x, x, 2)", ALGEBRA)
def coeff(value: Any, name: Any, n: Any = sympy.S.One) -> Any:
    power = integer(n, -SIZES.symbolic_power, SIZES.symbolic_power, "the power")
    return sympy.expand(expression(value)).coeff(unknown(name), power)


@word("subs(expr, x, value[, y, value…])", "names replaced at once by values; also (x, value) pairs",
      "subs(m*g*h, m, 2, g, 9.8, h, 5)", ALGEBRA)  # fmt: skip
def subs(value: Any, *given: Any) -> Any:
    items = [x for pair in given for x in (pair if isinstance(pair, tuple) else flat((pair,)))]
    items = [x for item in items for x in (item if isinstance(item, tuple) else (item,))]
    if not items or len(items) % 2:
        raise syntax("write subs(expr, x, value)")
    table = {unknown(x): expression(v) for x, v in zip(items[::2], items[1::2], strict=True)}
    return _substituted(value, table)


def _substituted(value: Any, table: dict[Any, Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_substituted(item, table) for item in value)
    if isinstance(value, dict):
        return {key: _substituted(item, table) for key, item in value.items()}
    return (
        value.applyfunc(lambda x: replaced(x, table)) if isinstance(value, sympy.MatrixBase) else replaced(value, table)
    )


@word("lhs(equation)", "left side", "lhs(Eq(F, m*a))", ALGEBRA, symbol_too=True)
def lhs(value: Any) -> Any:
    return _side(value).lhs


@word("rhs(equation)", "right side", "rhs(Eq(F, m*a))", ALGEBRA, symbol_too=True)
def rhs(value: Any) -> Any:
    return _side(value).rhs


def _side(value: Any) -> Any:
    if isinstance(value, sympy.core.relational.Relational):
        return value
    raise (
        unsupported("only an equation has two sides")
        if isinstance(value, Boolean)
        else domain("only an equation has two sides; write Eq(left, right)")
    )


@word("symbols(x)", "the name itself; every name is a symbol already", "symbols(x)", ALGEBRA, "Symbol")
def symbols(*names: Any) -> Any:
    found = tuple(symbol(x) for x in flat(names))
    return found[0] if len(found) == 1 else found
