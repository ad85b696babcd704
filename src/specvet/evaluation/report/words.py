"""Numbers as tables write them. What could not be measured is a dash, never a 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specvet.evaluation.plots.shown import Spread

NONE = "–"


def signed(text: str) -> str:
    """With a minus sign as people write it."""
    return text.replace("-", "−")


def percent(value: float | None, digits: int = 2) -> str:
    """`71.68` of 0.7168."""
    return NONE if value is None else signed(f"{100 * value:.{digits}f}")


def interval(found: Mapping[str, Any] | float | None, digits: int = 1, sign: bool = False) -> str:
    """`71.7 (66.1–76.9)` in percent, of one cell's interval."""
    part = found if isinstance(found, Mapping) else {"value": found}
    value, low, high = part["value"], part.get("low"), part.get("high")
    if value is None:
        return NONE
    form = f"{'+' if sign else ''}.{digits}f"
    told = signed(f"{100 * value:{form}}")
    if low is None or high is None:
        return told
    between = " to " if sign else "–"
    return f"{told} ({signed(f'{100 * low:{form}}')}{between}{signed(f'{100 * high:{form}}')})"


def spread(found: Spread, digits: int = 1) -> str:
    """`71.7 (66.1–76.9)` of one seed, `71.7 ± 0.6` over several; in the spread's own unit."""
    if found.value is None:
        return NONE
    told = signed(f"{found.value:,.{digits}f}")
    if found.low is None or found.high is None:
        return told
    if found.over_seeds:
        return f"{told} ± {(found.high - found.low) / 2:,.{digits}f}"
    return f"{told} ({signed(f'{found.low:,.{digits}f}')}–{signed(f'{found.high:,.{digits}f}')})"


def number(value: float | None, digits: int = 2) -> str:
    """`1.84`, `12,300`; a dash for None."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 10_000 else signed(f"{value:,.{digits}f}")


def seconds(value: float | None) -> str:
    """`0.042`, `3.1`, `312`: three digits that count."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def p_value(p: float | None) -> str:
    """`0.0310`, `< 0.0001`."""
    return NONE if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def seeds(found: tuple[int | None, ...]) -> str:
    """`42, 43, 44`; `any` for a policy that measures."""
    return ", ".join("any" if seed is None else str(seed) for seed in found)


def plural(n: int, one: str, several: str = "") -> str:
    """`1 question`, `2,000 questions`."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"
