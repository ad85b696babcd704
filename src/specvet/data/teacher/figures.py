"""Numbers as people write them from a figure: rounded to what can be known, with an error that is not smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass

FLOOR = 0.03
"""Least relative error that is stated: nobody reads an equivalent width off a figure to a percent."""

LEAST_UNIT = {"Å": 0.1, "km/s": 10.0, "": 0.01}
"""Least step of a written number, by unit."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as it is written."""

    value: float
    """Rounded."""
    error: float | None
    """1σ, rounded up to one digit; None where none is stated."""
    decimals: int
    unit: str

    def limit(self, which: str) -> str:
        """`at most 500 km/s`: no error, since it is none of a value."""
        return f"{which} {self.text(with_error=False)}"

    def text(self, absolute: bool = False, with_error: bool = True) -> str:
        """`−32 ± 1 Å`; `absolute` leaves the sign out."""
        written = number(abs(self.value) if absolute else self.value, self.decimals)
        if with_error and self.error is not None:
            written += f" ± {number(self.error, self.decimals)}"
        return f"{written} {self.unit}" if self.unit else written


def figure(value: float, error: float | None, unit: str) -> Figure:
    """`value` rounded to the first digit of its error, which is at least `FLOOR` of the value."""
    least = LEAST_UNIT.get(unit, 0.01)
    wide = max(error or 0.0, FLOOR * abs(value), least)
    power = math.floor(math.log10(wide) + 1e-9)
    step = 10.0**power
    shown = math.ceil(wide / step - 1e-6) * step
    if shown >= 10.0 * step:
        step *= 10.0
        power += 1
    decimals = max(0, -power)
    rounded = round(value / step) * step
    return Figure(round(rounded, decimals), round(shown, decimals) if error is not None else None, decimals, unit)


def brief(shown: Figure) -> Figure:
    """The same number with two significant digits at most, and no error."""
    size = abs(shown.value)
    power = math.floor(math.log10(size) + 1e-9) - 1 if size > 0 else -shown.decimals
    if power <= -shown.decimals:
        return Figure(shown.value, None, shown.decimals, shown.unit)
    decimals = max(0, -power)
    return Figure(round(round(shown.value / 10.0**power) * 10.0**power, decimals), None, decimals, shown.unit)


def limit_of(note: str) -> str:
    """`at most`, `at least`, or nothing: what a measurement's note says that its value is."""
    return "at most" if "an upper limit" in note else "at least" if "a lower limit" in note else ""


def number(value: float, decimals: int) -> str:
    """With a minus sign and without a negative zero."""
    text = f"{value:.{decimals}f}"
    if float(text) == 0.0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def two_digits(value: float) -> str:
    """`14`, `140`, `1.8`, `0.45`: two significant digits."""
    if value <= 0:
        return number(value, 0)
    power = math.floor(math.log10(value))
    step = 10.0 ** (power - 1)
    rounded = round(value / step) * step
    return number(rounded, max(0, 1 - math.floor(math.log10(rounded) + 1e-9)))


def unit_of(text: str) -> float:
    """Step of the last digit of a rounded number: 0.1 for `1.8`, 10 for `140`, whose zero is rounding."""
    digits = text.lstrip("−-")
    if "." in digits:
        return 10.0 ** -len(digits.partition(".")[2])
    zeros = len(digits) - len(digits.rstrip("0")) if digits.strip("0") else 0
    return 10.0 ** min(zeros, max(len(digits) - 1, 0))


def unit_of_two(text: str) -> float:
    """The same of what `two_digits` writes: 1 for `30`, 10 for `140`."""
    digits = text.lstrip("−-")
    return unit_of(text) if "." in digits else 10.0 ** max(len(digits) - 2, 0)
