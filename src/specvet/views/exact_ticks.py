"""Limits and ticks of the exact figure: matplotlib's own locators and formatters, on axes that are only numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.views import reference
from specvet.views.exact_text import DPI


class NotLaidOutError(Exception):
    """This figure has something that the fast drawing does not know; matplotlib draws it."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """One axis: what its locators and formatter gave for a view interval."""

    major: tuple[float, ...]
    """Locations in view."""
    labels: tuple[str, ...]
    minor: tuple[float, ...]
    """Locations in view, without those at major ones."""
    offset: str
    """`1e−17`, or nothing."""


def view_limits(low: float, high: float) -> tuple[float, float]:
    """View limits of data from `low` to `high`, as matplotlib's autoscaling sets them with its 5 % margin."""
    locator = _locators().auto
    low, high = locator.nonsingular(low, high)
    margin = (high - low) * 0.05
    if not np.isfinite(margin):
        margin = 0
    low, high = locator.view_limits(low - margin, high + margin)
    low, high = locator.nonsingular(low, high)
    return float(low), float(high)


def ticks_x(low: float, high: float, span: float) -> Ticks:
    """The wavelength axis from `low` to `high` Å, for data that span `span` Å."""
    major_step, minor_step = reference.tick_steps(span)
    if (high - low) / minor_step > reference.MAX_MINOR_TICKS:
        raise NotLaidOutError("an axis with automatic ticks")
    tools = _locators()
    major, minor = (np.asarray(tools.multiple(step).tick_values(low, high)) for step in (major_step, minor_step))
    tools.axis_x.interval = (low, high)
    return _ticks(tools.format_x, major, minor, low, high)


@lru_cache(maxsize=256)
def ticks_y(low: float, high: float, height: float) -> Ticks:
    """The flux axis from `low` to `high`, `height` pixels long."""
    tools = _locators()
    axis = tools.axis_y
    axis.interval = (low, high)
    length = height / DPI * 72
    axis.space = int(np.floor(length / (10.0 * 2)))
    axis.major = tools.auto_y()
    return _ticks(tools.format_y, axis.major, np.asarray(tools.minor_y(), dtype=float), low, high)


def _ticks(formatter: Any, major: NDArray[np.float64], minor: NDArray[np.float64], low: float, high: float) -> Ticks:
    labels = formatter.format_ticks(major)
    if minor.size:
        near = (np.abs(minor[:, None] - major) <= (high - low) * 1e-5).any(axis=1)
        minor = minor[~near]
    slack = (high - low) * 1e-10
    shown = [(float(loc), text) for loc, text in zip(major, labels, strict=True) if low - slack <= loc <= high + slack]
    return Ticks(
        tuple(loc for loc, _ in shown),
        tuple(text for _, text in shown),
        tuple(minor[(minor >= low - slack) & (minor <= high + slack)].tolist()),
        formatter.get_offset(),
    )


class _Axis:
    """The little of an axis that locators and formatters ask for."""

    def __init__(self, name: str) -> None:
        self.axis_name = name
        self.interval = (0.0, 1.0)
        self.space = 9
        self.major: Any = ()

    def get_view_interval(self) -> tuple[float, float]:
        return self.interval

    def get_tick_space(self) -> int:
        return self.space

    def get_scale(self) -> str:
        return "linear"

    def get_majorticklocs(self) -> Any:
        return self.major


class _Locators:
    """matplotlib's own locators and formatters, on axes that are only numbers."""

    def __init__(self) -> None:
        from matplotlib.ticker import AutoLocator, AutoMinorLocator, MultipleLocator, ScalarFormatter

        self.multiple = lru_cache(maxsize=32)(MultipleLocator)
        self.auto = AutoLocator()
        self.axis_x, self.axis_y = _Axis("x"), _Axis("y")
        self.auto_y, self.minor_y = AutoLocator(), AutoMinorLocator()
        self.format_x, self.format_y = ScalarFormatter(), ScalarFormatter()
        tool: Any
        for tool, axis in (
            (self.auto_y, self.axis_y),
            (self.minor_y, self.axis_y),
            (self.format_x, self.axis_x),
            (self.format_y, self.axis_y),
        ):
            tool.axis = axis


@cache
def _locators() -> _Locators:
    return _Locators()
