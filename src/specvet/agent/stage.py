"""The `Stage`: draws views for those who look at them, and remembers which picture was kept under which hash."""

from __future__ import annotations

from collections.abc import Callable

from specvet.agent.episode import MAX_PROBLEM
from specvet.records.schema import ObservationRecord
from specvet.tools import Observation, one_line
from specvet.views import RenderError, RenderPool, RenderTimeout

KeepImage = Callable[[bytes], str]
"""Stores a PNG and returns its SHA-256."""


class Stage:
    """Draws where somebody looks (`draws`), in `pool` or here."""

    def __init__(self, draws: bool, pool: RenderPool | None, keep: KeepImage | None, deadline_s: float) -> None:
        self._draws, self._pool, self._keep, self._deadline_s = draws, pool, keep, deadline_s
        self._kept: dict[str, str] = {}

    def shown(self, observation: Observation) -> Observation:
        """The observation with its view drawn and kept, or why it could not be drawn."""
        view = observation.view
        if view is None or not self._draws:
            return observation
        try:
            png = self._pool.png(view, self._deadline_s) if self._pool else view.png
        except (RenderError, RenderTimeout, ValueError) as e:
            return undrawn(e)
        if self._keep:
            self._kept[view.content_hash] = self._keep(png)
        return observation

    def record(self, observation: Observation) -> ObservationRecord:
        """What is kept of an observation."""
        view = observation.view
        return observation.record(self._kept.get(view.content_hash) if view else None)


def undrawn(error: Exception) -> Observation:
    """What a policy is told of a view that could not be drawn."""
    if isinstance(error, TimeoutError):
        return Observation("deadline", "Drawing took too long and was stopped; ask for another range.")
    return Observation("not_drawn", f"Drawing failed: {one_line(error, MAX_PROBLEM)}; ask for another range.")
