"""Numbers, elementary and special functions, comparisons and cases. All are plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from specvet.tasks.physics.grammar.errors import domain
from specvet.tasks.physics.grammar.sizes import (
    SIZES,
    check_binomial,
    check_exponential,
    check_factorial,
    check_power,
    magnitude,
)
from specvet.tasks.physics.grammar.words.arguments import each, equation, expression, integer
from specvet.tasks.physics.grammar.words.register import word

FIFTEEN = sympy.Integer(15)
NUMBERS, CASES = "numbers and functions", "comparisons and cases"


def _one(name: str, meaning: str, example: str, function: Any, *aliases: str, symbol_too: bool = False) -> None:
    """Register a function of one expression."""
    apply: Callable[[Any], Any] = lambda x: function(expression(x))  # noqa: E731
    word(f"{name}(x)", meaning, example, NUMBERS, *aliases, plain=True, symbol_too=symbol_too)(apply)


for _name, _function, _inverse in (
    ("sin", sympy.sin, sympy.asin), ("cos", sympy.cos, sympy.acos), ("tan", sympy.tan, sympy.atan),
    ("cot", sympy.cot, sympy.acot), ("sec", sympy.sec, sympy.asec), ("csc", sympy.csc, sympy.acsc),
):  # fmt: skip
    _one(_name, f"{_name} of an angle in radians; write 30*pi/180 or 30° for degrees", f"{_name}(pi/6)", _function)
    _one(f"a{_name}", f"inverse of {_name}, in radians", f"a{_name}(1)", _inverse, f"arc{_name}")
for _name, _function, _inverse in (
    ("sinh", sympy.sinh, sympy.asinh), ("cosh", sympy.cosh, sympy.acosh), ("tanh", sympy.tanh, sympy.atanh),
    ("coth", sympy.coth, sympy.acoth),
):  # fmt: skip
    _one(_name, f"hyperbolic {_name[:-1]}", f"{_name}(log(2))", _function)
    _one(
        f"a{_name}",
        f"inverse of {_name}",
        f"N(a{_name}({2 if _name in ('cosh', 'coth') else '1/2'}))",
        _inverse,
        f"arc{_name}",
        f"ar{_name}",
    )
_one("sqrt", "square root", "sqrt(12)", sympy.sqrt)
_one("cbrt", "cube root", "cbrt(27)", sympy.cbrt)
_one("abs", "absolute value or modulus", "abs(-3)", sympy.Abs, "Abs")
_one("sign", "-1, 0 or 1", "sign(-3)", sympy.sign, symbol_too=True)
_one("floor", "largest integer not above", "floor(7/2)", sympy.floor)
_one("ceiling", "smallest integer not below", "ceiling(7/2)", sympy.ceiling, "ceil")
_one("re", "real part", "re(3 + 4j)", sympy.re, symbol_too=True)
_one("im", "imaginary part", "im(3 + 4j)", sympy.im, symbol_too=True)
_one("arg", "phase", "arg(1 + 1j)", sympy.arg, symbol_too=True)
_one("conjugate", "complex conjugate", "conjugate(3 + 4j)", sympy.conjugate, "conj")
_one("erf", "error function", "N(erf(1))", sympy.erf)
_one("erfc", "1 - erf(x)", "N(erfc(1))", sympy.erfc)
_one("Heaviside", "unit step", "Heaviside(-2)", sympy.Heaviside)
_one("DiracDelta", "delta distribution", "integrate(x**2*DiracDelta(x - 3), (x, -oo, oo))", sympy.DiracDelta)


@word("exp(x)", "exponential; exp(1) is Euler's number", "exp(log(5))", NUMBERS, plain=True)
def exp(x: Any) -> Any:
    check_exponential(expression(x))
    return sympy.exp(x)


@word("log(x[, base])", "natural logarithm, or to a base", "log(8, 2)", NUMBERS, "ln", plain=True)
def log(x: Any, base: Any = None) -> Any:
    if base is None:
        return sympy.log(expression(x))
    if base in (0, 1):
        raise domain("0 and 1 are no bases of a logarithm")
    return sympy.log(expression(x), expression(base))


@word("log10(x)", "logarithm to base 10", "log10(1000)", NUMBERS, plain=True)
def log10(x: Any) -> Any:
    return log(x, sympy.Integer(10))


@word("log2(x)", "logarithm to base 2", "log2(8)", NUMBERS, plain=True)
def log2(x: Any) -> Any:
    return log(x, sympy.Integer(2))


@word("root(x, n)", "n-th root", "root(32, 5)", NUMBERS, plain=True, symbol_too=True)
def root(x: Any, n: Any) -> Any:
    if n == 0:
        raise domain("there is no 0th root")
    check_power(expression(x), 1 / expression(n))
    return sympy.root(x, n)


@word("atan2(y, x)", "angle of the point (x, y), in radians", "atan2(1, -1)", NUMBERS, "arctan2", plain=True)
def atan2(y: Any, x: Any) -> Any:
    return sympy.atan2(expression(y), expression(x))


@word("factorial(n)", "n!", "factorial(6)", NUMBERS, plain=True)
def factorial(n: Any) -> Any:
    check_factorial(expression(n))
    return sympy.factorial(n)


@word("binomial(n, k)", "n choose k", "binomial(10, 3)", NUMBERS, plain=True)
def binomial(n: Any, k: Any) -> Any:
    check_binomial(expression(n), expression(k))
    return sympy.binomial(n, k)


@word("gamma(x)", "gamma function", "gamma(1/2)", NUMBERS, plain=True, symbol_too=True)
def gamma(x: Any) -> Any:
    check_factorial(expression(x))
    return sympy.gamma(x)


@word("besselj(n, x)", "Bessel function of the first kind", "N(besselj(0, 2.4))", NUMBERS, plain=True)
def besselj(n: Any, x: Any) -> Any:
    return sympy.besselj(integer(n, -SIZES.degree, SIZES.degree, "the order"), expression(x))


@word("legendre(n, x)", "Legendre polynomial", "legendre(2, x)", NUMBERS, plain=True)
def legendre(n: Any, x: Any) -> Any:
    return sympy.legendre(integer(n, 0, SIZES.degree, "the degree"), expression(x))


@word("hermite(n, x)", "Hermite polynomial, of physicists", "hermite(3, x)", NUMBERS, plain=True)
def hermite(n: Any, x: Any) -> Any:
    return sympy.hermite(integer(n, 0, SIZES.degree, "the degree"), expression(x))


@word("laguerre(n, x)", "Laguerre polynomial", "laguerre(2, x)", NUMBERS, plain=True)
def laguerre(n: Any, x: Any) -> Any:
    return sympy.laguerre(integer(n, 0, SIZES.degree, "the degree"), expression(x))


@word("Rational(p, q)", "exact fraction; p/q of integers is one too", "Rational(1, 3) + 1/6", NUMBERS, plain=True)
def rational(p: Any, q: Any = sympy.S.One) -> Any:
    if q == 0:
        raise domain("division by zero")
    return expression(p) / expression(q)


@word("Mod(a, b)", "remainder of a/b", "Mod(17, 5)", NUMBERS, plain=True)
def mod(a: Any, b: Any) -> Any:
    if b == 0:
        raise domain("division by zero")
    return sympy.Mod(expression(a), expression(b))


@word("Max(a, b, …)", "largest", "Max(2, 7, 5)", NUMBERS, "max", plain=True)
def largest(*values: Any) -> Any:
    return sympy.Max(*(expression(x) for x in values))


@word("Min(a, b, …)", "smallest", "Min(2, 7, 5)", NUMBERS, "min", plain=True)
def smallest(*values: Any) -> Any:
    return sympy.Min(*(expression(x) for x in values))


@word("N(expr[, figures])", "numeric value, 15 figures or as many as asked", "N(sqrt(2), 20)", NUMBERS, "evalf",
      plain=True, symbol_too=True)  # fmt: skip
def numeric(value: Any, figures: Any = FIFTEEN) -> Any:
    n = integer(figures, 1, SIZES.figures, "the number of figures")
    return each(value, lambda x: _value(x, n))


def _value(x: Any, figures: int) -> Any:
    """`x.evalf`, without a real or imaginary part that is only rounding, as real roots of a cubic have.

    SymPy's own `chop` drops whatever is below 2^-49, and with it masses and charges in SI units.
    """
    value = x.evalf(figures)
    if not value.is_number or not value.has(sympy.I):
        return value
    real, imaginary = value.as_real_imag()
    small = sympy.Float(10) ** (2 - figures)
    if abs(imaginary) < small * abs(real):
        return real
    return imaginary * sympy.I if abs(real) < small * abs(imaginary) else value


@word("round(x[, places])", "rounded to decimal places", "round(3.14159, 2)", NUMBERS, plain=True)
def rounded(x: Any, places: Any = sympy.S.Zero) -> Any:
    n = integer(places, -SIZES.figures, SIZES.figures, "the number of places")
    value = expression(x).evalf(SIZES.figures)
    if not (value.is_number and value.is_real and magnitude(value) < 10.0**SIZES.figures):
        raise domain(f"only a real number of at most {SIZES.figures} digits can be rounded")
    step = sympy.Integer(10) ** n
    nearest = sympy.Integer((value * step).round()) / step
    return nearest.evalf(15) if n > 0 else nearest


for _name, _relation, _sign in (
    ("Eq", sympy.Eq, "=="), ("Ne", sympy.Ne, "!="), ("Lt", sympy.Lt, "<"), ("Le", sympy.Le, "<="),
    ("Gt", sympy.Gt, ">"), ("Ge", sympy.Ge, ">="),
):  # fmt: skip

    def _compare(a: Any, b: Any, relation: Any = _relation) -> Any:
        return relation(expression(a), expression(b))

    word(f"{_name}(a, b)", f"a {_sign} b", f"{_name}(x, 2)", CASES, plain=True)(_compare)


@word("And(a, b, …)", "all hold", "And(x > 0, x < 2)", CASES, plain=True)
def both(*values: Any) -> Any:
    return sympy.And(*(condition(x) for x in values))


@word("Or(a, b, …)", "one holds", "Or(x < 0, x > 2)", CASES, plain=True)
def either(*values: Any) -> Any:
    return sympy.Or(*(condition(x) for x in values))


@word("Not(a)", "does not hold", "Not(x > 0)", CASES, plain=True)
def negation(value: Any) -> Any:
    return sympy.Not(condition(value))


def condition(value: Any) -> Any:
    found = equation(value)
    if isinstance(found, sympy.logic.boolalg.Boolean) and not isinstance(found, sympy.Symbol):
        return found
    raise domain("a condition is needed here, such as x > 0")


@word("Piecewise((expr, condition), …)", "the first expr whose condition holds",
      "Piecewise((0, t < 0), (v*t, True))", CASES, plain=True)  # fmt: skip
def piecewise(*cases: Any) -> Any:
    if not cases or not all(isinstance(case, list | tuple) and len(case) == 2 for case in cases):
        raise domain("write Piecewise((expr, condition), (expr, True))")
    return sympy.Piecewise(*((expression(value), condition(when)) for value, when in cases))
