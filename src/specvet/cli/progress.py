"""How far a batch has come: a bar on a terminal, else a line now and then; always on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from specvet.cli.console import console, say

if TYPE_CHECKING:
    from specvet.vetting.watch import Progress

LINE_EVERY_S = 30.0

_STOPPING = "finishing what is under way; Ctrl-C again aborts"


P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)


class Shown(Protocol[P_contra]):
    """Somebody who is told how far it has come."""

    def __call__(self, progress: P_contra) -> None: ...

    def stopping(self) -> None:
        """Called from a signal handler: say that the first Ctrl-C was heard."""
        ...


@contextmanager
def shown(
    quiet: bool, barred: Callable[[], AbstractContextManager[Shown[P]]], line: Callable[[P], str], stopping: str
) -> Iterator[Shown[P]]:
    """Whoever fits: `barred` on a terminal, a `line` every 30 s into a log file, nothing when quiet."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with barred() as made:
            yield made
    else:
        yield _Lines(line, stopping)


def shown_progress(total: int | None, quiet: bool) -> AbstractContextManager[Shown[Progress]]:
    """How far vetting has come."""

    @contextmanager
    def barred() -> Iterator[_Bar]:
        with bars() as bar:
            yield _Bar(bar, total)

    return shown(quiet, barred, progress_line, _STOPPING)


class _Silent:
    def __call__(self, progress: object) -> None:
        pass

    def stopping(self) -> None:
        pass


class _Lines(Generic[P]):
    def __init__(self, line: Callable[[P], str], stopping: str) -> None:
        self._line, self._stopping = line, stopping
        self._last = time.monotonic()

    def __call__(self, progress: P) -> None:
        if time.monotonic() - self._last >= LINE_EVERY_S:
            self._last = time.monotonic()
            say(self._line(progress))

    def stopping(self) -> None:
        os.write(2, f"specvet: {self._stopping}\n".encode())  # a handler must not enter a stream that is being written


class _Bar:
    def __init__(self, bar: Any, total: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task("vetting", total=total, note="")
        self._stopping = False

    def __call__(self, progress: Progress) -> None:
        # `vet` tells after each decision and after each item, so the count of items is always that of finished ones.
        if not self._stopping:
            note = f"{progress.errors:,} unreadable" if progress.errors else ""
            self._bar.update(self._task, completed=progress.items, note=note)

    def stopping(self) -> None:
        self._stopping = True
        self._bar.update(self._task, description="stopping", note="Ctrl-C again aborts")


def progress_line(p: Progress) -> str:
    """`1,200 of 170,000 done, 35.2 a second, about 1 h 20 min left, 3 unreadable`."""
    rate = p.items / p.seconds if p.seconds > 0 else 0.0
    parts = [f"{p.items:,} of {p.total:,} done" if p.total is not None else f"{p.items:,} done"]
    if rate:
        parts.append(f"{rate_text(rate)} a second")
    if rate and p.total is not None:
        parts.append(f"about {duration((p.total - p.items) / rate)} left")
    if p.errors:
        parts.append(f"{p.errors:,} unreadable")
    return ", ".join(parts)


def rate_text(rate: float) -> str:
    """`0.123`, `35.2`, `19,300`."""
    return f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `1 h 20 min`, `2 d 3 h`."""
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{round(s / 60)} min"
    minutes = round(s / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def bars() -> Any:
    """Bars of rich: a description, count, rate, time left, and a note."""
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.completed:,.0f}" + ("" if task.total is None else f"/{task.total:,.0f}"), style="green")

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{rate_text(speed)}/s", style="cyan")

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.time_remaining is None:
                return Text("")
            return Text(f"{duration(task.time_remaining)} left", style="cyan")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        Count(),
        Rate(),
        Left(),
        TextColumn("{task.fields[note]}", style="yellow", markup=False),
        console=console(stderr=True),
        transient=True,
        speed_estimate_period=60.0,
    )
