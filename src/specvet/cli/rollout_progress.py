"""How far rollouts have come: two bars on a terminal, else a line now and then; always on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from specvet.cli.console import console, say
from specvet.cli.progress import LINE_EVERY_S, duration, rate_text

if TYPE_CHECKING:
    from specvet.vetting.watch import RolloutProgress

_STOPPING = "finishing the trajectories under way; Ctrl-C again aborts them"
_EVERY_S = 0.1
"""Between two changes of the bars."""


class Shown(Protocol):
    """Somebody who is told how far it has come."""

    def __call__(self, progress: RolloutProgress) -> None: ...

    def stopping(self) -> None:
        """Called from a signal handler: say that the first Ctrl-C was heard."""
        ...


@contextmanager
def shown_rollouts(quiet: bool) -> Iterator[Shown]:
    """Whoever fits: bars on a terminal, a line every 30 s into a log file, nothing when quiet."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        bars = _bars()
        with bars:
            yield _Bars(bars)
    else:
        yield _Lines()


class _Silent:
    def __call__(self, progress: RolloutProgress) -> None:
        pass

    def stopping(self) -> None:
        pass


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, progress: RolloutProgress) -> None:
        if time.monotonic() - self._last >= LINE_EVERY_S:
            self._last = time.monotonic()
            say(rollout_line(progress))

    def stopping(self) -> None:
        os.write(2, f"specvet: {_STOPPING}\n".encode())  # a handler must not enter a stream that is being written


class _Bars:
    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._trajectories = bars.add_task("trajectories", total=None, note="")
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


def rollout_line(p: RolloutProgress) -> str:
    """`120 of 512 trajectories done, 64 under way, 840 turns, 1,520 tokens a second, 610 calls, 118 answered, …`."""
    total = None if p.total is None else max(0, p.total - p.skipped)
    of = "" if total is None else f" of {total:,}"
    parts = [f"{p.recorded:,}{of} trajectories done", f"{p.running:,} under way", f"{p.turns:,} turns", rates_text(p)]
    if p.stops:
        parts.append(stops_text(p.stops))
    if p.errors:
        parts.append(f"{p.errors:,} unreadable")
    if total is not None and p.recorded and p.seconds > 0:
        parts.append(f"about {duration((total - p.recorded) * p.seconds / p.recorded)} left")
    return ", ".join(parts)


def rates_text(p: RolloutProgress) -> str:
    """`1,520 tokens a second, 610 calls`."""
    rate = p.sampled / p.seconds if p.seconds > 0 else 0.0
    return f"{rate_text(rate)} tokens a second, {p.calls:,} calls"


def stops_text(stops: dict[str, int]) -> str:
    """`118 answered, 2 max turns`, the commonest first."""
    return ", ".join(f"{n:,} {stop.replace('_', ' ')}" for stop, n in sorted(stops.items(), key=lambda s: -s[1]))


def _bars() -> Any:
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.completed:,.0f}" + ("" if task.total is None else f"/{task.total:,.0f}"))

    return Progress(
        TextColumn("{task.description:12}"),
        BarColumn(bar_width=24),
        Count(),
        TextColumn("{task.fields[note]}", style="cyan", markup=False),
        console=console(stderr=True),
        transient=True,
    )
