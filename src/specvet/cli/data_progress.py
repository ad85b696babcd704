"""How far a set has come: work in named steps, a bar for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from specvet.cli.progress import Shown, bars, duration, rate_text, shown


@dataclass(frozen=True, slots=True)
class StepProgress:
    """How far one step is."""

    doing: str
    """`spectra`, `downloading`."""
    done: int
    total: int
    seconds: float
    """Since the step began."""


@contextmanager
def shown_steps(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Gives `progress(doing, done, total)`; a bar on a terminal, a line every 30 s in a log, nothing when quiet."""
    with shown(quiet, _barred, _line, "finishing what is in hand; Ctrl-C again aborts") as tell:
        started: dict[str, float] = {}

        def progress(doing: str, done: int, total: int) -> None:
            begun = started.setdefault(doing, time.monotonic())
            tell(StepProgress(doing, done, total, time.monotonic() - begun))

        yield progress


def _barred() -> AbstractContextManager[Shown[StepProgress]]:
    @contextmanager
    def made() -> Iterator[_Bars]:
        with bars() as bar:
            yield _Bars(bar)

    return made()


class _Bars:
    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._tasks: dict[str, Any] = {}

    def __call__(self, progress: StepProgress) -> None:
        if progress.doing not in self._tasks:
            self._tasks[progress.doing] = self._bar.add_task(progress.doing, total=progress.total, note="")
        self._bar.update(self._tasks[progress.doing], completed=progress.done, total=progress.total)

    def stopping(self) -> None:
        pass


def _line(p: StepProgress) -> str:
    rate = p.done / p.seconds if p.seconds > 0 else 0.0
    parts = [f"{p.doing}: {p.done:,} of {p.total:,} done"]
    if rate:
        parts += [f"{rate_text(rate)} a second", f"about {duration((p.total - p.done) / rate)} left"]
    return ", ".join(parts)
