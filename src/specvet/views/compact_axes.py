"""Ticks and labels of the compact style: few, round, exact in decimal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """Ticks of one axis, in its own unit, and how they are written."""

    major: tuple[float, ...]
    labels: tuple[str, ...]
    """One for each of `major`, without the factor."""
    minor: tuple[float, ...]
    factor: str
    """`×1e-17`, to be written once; empty for 1."""


def axis(low: float, high: float, most: int, *, plain_from: float = 1.0, plain_below: float = 1e4) -> Axis:
    """Round ticks (1, 2 or 5 times a power of ten apart) between two ends.

    Numbers whose largest lies outside [plain_from, plain_below) are written times a power of ten.

    Args:
        low, high: ends, finite, low < high; high − low is at least 1e-4 of the larger of both.
        most: ticks at most, ≥ 2.
    """
    largest = max(abs(low), abs(high))
    exponent = 0 if plain_from <= largest < plain_below else _exponent(largest)
    scale = float(f"1e{exponent}")
    first, last = low / scale, high / scale
    digit, power, parts = _step((last - first) / most)
    unit = float(f"{digit}e{power}")
    numbers = range(_ceil(first / unit), _floor(last / unit) + 1)
    decimals = max(0, -power)
    minor_unit = unit / parts
    return Axis(
        major=tuple(float(f"{n * digit}e{power + exponent}") for n in numbers),
        labels=tuple(f"{float(f'{n * digit}e{power}'):.{decimals}f}" for n in numbers),
        minor=tuple(
            n * minor_unit * scale for n in range(_ceil(first / minor_unit), _floor(last / minor_unit) + 1) if n % parts
        ),
        factor=f"×1e{exponent}" if exponent else "",
    )


def _step(at_least: float) -> tuple[int, int, int]:
    """(1, 2 or 5; power of ten; parts between minor ticks) of the smallest round step that is at least that."""
    power = _exponent(at_least)
    for digit, parts in ((1, 5), (2, 4), (5, 5)):
        if float(f"{digit}e{power}") >= at_least:
            return digit, power, parts
    return 1, power + 1, 5


def _exponent(value: float) -> int:
    """floor(log10(value)), taken from decimal digits: no logarithm rounds differently on another machine."""
    return int(f"{value:.17e}".split("e")[1])


def _ceil(value: float) -> int:
    return -_floor(-value)


def _floor(value: float) -> int:
    # Ends that miss a round number by a rounding error count as there.
    return int((value + 1e-9) // 1)
