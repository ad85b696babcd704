"""The value of an expression in floats: bounded, whatever was written. `9^9^9` is too large, not a hang."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping

from specvet.tasks.physics.reasons import Reason, UnreadError
from specvet.tasks.physics.trees import Expression, Number, Symbol

_NO_VALUES: Mapping[str, float] = {}


def value(tree: Expression, at: Mapping[str, float] = _NO_VALUES) -> complex:
    """The value with the symbols of `at`. Raises ArithmeticError where there is none in the range of a float."""
    if isinstance(tree, Number):
        number = float(tree.value)
        if number == 0 != tree.value:
            raise OverflowError("underflow")
        return complex(number)
    if isinstance(tree, Symbol):
        return complex({"e": math.e, "pi": math.pi}.get(tree.name) or at[tree.name])
    args = [value(arg, at) for arg in tree.args]
    try:
        result = complex(_OPERATIONS[tree.op](*args))
    except ValueError as e:  # a logarithm of 0
        raise ArithmeticError(str(e)) from None
    if not cmath.isfinite(result):
        raise OverflowError("beyond the range of a float")
    return result


def real_value(tree: Expression) -> float:
    """The value of a number. Raises UnreadError: `too_large` (also for what underflows), `not_real`."""
    try:
        found = value(tree)
    except OverflowError:
        raise UnreadError(Reason.TOO_LARGE) from None
    except (ArithmeticError, ValueError, KeyError):
        raise UnreadError(Reason.NOT_REAL) from None
    if abs(found.imag) > 1e-12 * abs(found):
        raise UnreadError(Reason.NOT_REAL)
    return found.real


def _power(base: complex, exponent: complex) -> complex:
    if base.imag == exponent.imag == 0 and (base.real > 0 or exponent.real == round(exponent.real)):
        power: complex = math.pow(base.real, exponent.real)
    else:
        power = base**exponent
    if power == 0 != base:
        raise OverflowError("underflow")
    return power


def _times(a: complex, b: complex) -> complex:
    product = a * b
    if product == 0 and a != 0 and b != 0:
        raise OverflowError("underflow")
    return product


_OPERATIONS: dict[str, Callable[..., complex]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": _times,
    "/": lambda a, b: a / b,
    "^": _power,
    "neg": lambda a: -a,
    "abs": abs,
    "cot": lambda a: 1 / cmath.tan(a),
    "sec": lambda a: 1 / cmath.cos(a),
    "csc": lambda a: 1 / cmath.sin(a),
    **{name: getattr(cmath, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    "log": cmath.log,
    "exp": cmath.exp,
}
