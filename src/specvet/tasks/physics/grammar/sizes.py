"""How large an expression and its parts may be, checked before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from specvet.tasks.physics.grammar.errors import too_large

LOG10_2 = math.log10(2.0)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits of the grammar. Beyond them an expression is refused as `too_large`."""

    characters: int = 400
    """Of the text as written."""
    nodes: int = 300
    """Of the syntax tree."""
    depth: int = 60
    """Of the syntax tree; SymPy recurses on it."""
    literal_digits: int = 60
    """Of one integer as written."""
    power_digits: int = 400
    """|exponent| · log10|base| of a power of numbers, and digits of a factorial, binomial or exponential."""
    symbolic_power: int = 1_000
    """|exponent| of a power whose base has names."""
    result_digits: int = 4_000
    """Of a number on the way; Python prints at most 4,300."""
    order: int = 20
    """Of a derivative or series."""
    degree: int = 30
    """Of a named polynomial or Bessel function."""
    matrix: int = 10
    """Rows or columns of a matrix."""
    figures: int = 50
    """Significant figures of a numeric value."""


SIZES = Sizes()


def number_digits(number: Any) -> float:
    """Decimal digits of the larger of numerator and denominator of a SymPy Rational; 0 for other numbers."""
    if not number.is_Rational:
        return 0.0
    return float(max(int(number.p).bit_length(), int(number.q).bit_length()) * LOG10_2)


def magnitude(number: Any) -> float:
    """|number| of a SymPy number as a float, infinite when it is larger; NaN when it has no value."""
    value = abs(number.evalf(15))
    if value.is_infinite:
        return math.inf
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return math.nan


def check_power(base: Any, exponent: Any, sizes: Sizes = SIZES) -> None:
    """Refuse `base**exponent` when its digits are beyond `sizes`. Both are SymPy expressions."""
    if not exponent.is_number or exponent.is_infinite:
        return
    size = magnitude(exponent)
    if not base.is_number:
        if size > sizes.symbolic_power:
            raise too_large(f"the exponent of a power of names is larger than {sizes.symbolic_power}")
        return
    if base.is_zero or base.is_infinite:
        return
    if base.is_Rational:
        log_base = number_digits(base) if abs(base) != 1 else 0.0
        if exponent.is_Rational and not exponent.is_Integer and max(abs(exponent.p), exponent.q) > 10**6:
            raise too_large("the exponent is a fraction of large numbers; write it as a decimal number")
    else:
        value = magnitude(base)
        log_base = abs(math.log10(value)) if 0.0 < value < math.inf else math.inf
    if size * max(log_base, 1e-3) > sizes.power_digits or math.isinf(size):
        raise too_large(f"a power here has more than {sizes.power_digits} digits")


def check_exponential(exponent: Any, sizes: Sizes = SIZES) -> None:
    """Refuse `exp(exponent)` beyond the digits of a power."""
    if (
        exponent.is_number
        and not exponent.is_infinite
        and magnitude(exponent) * math.log10(math.e) > sizes.power_digits
    ):
        raise too_large(f"an exponential here has more than {sizes.power_digits} digits")


def check_factorial(n: Any, sizes: Sizes = SIZES) -> None:
    """Refuse n! beyond the digits of a power; lgamma gives them before anything is multiplied."""
    if not n.is_number:
        return
    value = magnitude(n)
    if value > 1e6 or (value > 1 and math.lgamma(value + 1.0) / math.log(10.0) > sizes.power_digits):
        raise too_large(f"a factorial here has more than {sizes.power_digits} digits")


def check_binomial(n: Any, k: Any, sizes: Sizes = SIZES) -> None:
    """Refuse binomial(n, k) whose digits, or whose number of factors, are beyond those of a power."""
    if not (n.is_number and k.is_number):
        return
    value, below = magnitude(n), magnitude(k)
    factors = min(below, abs(value - below)) if n.is_nonnegative else below
    if factors > 1e6 or factors * math.log10(max(value, below, 10.0)) > 5 * sizes.power_digits:
        raise too_large(f"a binomial here has more than {sizes.power_digits} digits")


def check_number(value: Any, sizes: Sizes = SIZES) -> Any:
    """`value`, unless it is a number of too many digits."""
    if getattr(value, "is_Rational", False) and number_digits(value) > sizes.result_digits:
        raise too_large(f"a number here has more than {sizes.result_digits} digits; use N(…)")
    return value
