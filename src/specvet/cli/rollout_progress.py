"""How far rollouts have come: two bars on a terminal, else a line now and then; always on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from specvet.cli.progress import Shown, bars, duration, rate_text, shown

if TYPE_CHECKING:
    from specvet.vetting.watch import RolloutProgress

_STOPPING = "finishing the trajectories under way; Ctrl-C again aborts them"
_EVERY_S = 0.1
"""Between two changes of the bars."""


def shown_rollouts(quiet: bool, at_least: bool = False) -> AbstractContextManager[Shown[RolloutProgress]]:
    """How far rollouts have come: a bar of trajectories and one of turns; `at_least`: their total may grow."""

    @contextmanager
    def barred() -> Iterator[_Bars]:
        with bars() as made:
            yield _Bars(made, at_least)

    return shown(quiet, barred, partial(rollout_line, at_least=at_least), _STOPPING)


class _Bars:
    def __init__(self, bars: Any, at_least: bool) -> None:
        self._bars = bars
        told = "trajectories (at least)" if at_least else "trajectories"
        self._trajectories = bars.add_task(told, total=None, note="")
        self._turns = bars.add_task("turns", total=None, note="")
        self._last = 0.0
        self._stopping = False

    def __call__(self, progress: RolloutProgress) -> None:
        if time.monotonic() - self._last < _EVERY_S:
            return
        self._last = time.monotonic()
        p = progress
        total = None if p.total is None else max(0, p.total - p.skipped)
        note = "Ctrl-C again aborts" if self._stopping else stops_text(p.stops)
        self._bars.update(self._trajectories, completed=p.recorded + p.errors, total=total, note=note)
        self._bars.update(self._turns, completed=p.turns, note=rates_text(p))

    def stopping(self) -> None:
        self._stopping = True
        self._bars.update(self._trajectories, description="stopping", note="Ctrl-C again aborts")


def rollout_line(p: RolloutProgress, at_least: bool = False) -> str:
    """`120 of 512 trajectories done, 64 under way, 840 turns, 1,520 tokens a second, 610 calls, 118 answered, …`."""
    total = None if p.total is None else max(0, p.total - p.skipped)
    of = "" if total is None else f" of at least {total:,}" if at_least else f" of {total:,}"
    parts = [f"{p.recorded:,}{of} trajectories done", f"{p.running:,} under way", f"{p.turns:,} turns", rates_text(p)]
    if p.stops:
        parts.append(stops_text(p.stops))
    if p.errors:
        parts.append(f"{p.errors:,} unreadable")
    if total is not None and p.recorded and p.seconds > 0:
        parts.append(f"about {duration(max(0, total - p.recorded) * p.seconds / p.recorded)} left")
    return ", ".join(parts)


def rates_text(p: RolloutProgress) -> str:
    """`1,520 tokens a second, 610 calls`."""
    rate = p.sampled / p.seconds if p.seconds > 0 else 0.0
    return f"{rate_text(rate)} tokens a second, {p.calls:,} calls"


def stops_text(stops: dict[str, int]) -> str:
    """`118 answered, 2 max turns`, the commonest first."""
    return ", ".join(f"{n:,} {stop.replace('_', ' ')}" for stop, n in sorted(stops.items(), key=lambda s: -s[1]))
