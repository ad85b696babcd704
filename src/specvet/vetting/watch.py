"""How far a batch has come and what it did: `Progress` on the way, `VetSummary` at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from specvet.records import Decision
from specvet.records.schema import Answer
from specvet.vetting.rows import printable

_CHANGED_NAMED = 3
"""Entries that have changed since they were vetted, which are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch has come; handed out after each item and each decision."""

    items: int
    """List entries done with."""
    total: int | None
    """List entries in all, where the caller knows."""
    decided: int
    """Decisions made in this session, errors included."""
    errors: int
    """Of those, ERROR rows."""
    skipped: int
    """Decisions that an earlier session had made."""
    file: str
    """At hand."""
    seconds: float


@dataclass(frozen=True, slots=True)
class VetSummary:
    """What one call of `vet` did; `RunFolder.count` tells the totals of the run."""

    counts: dict[str, dict[str, int]]
    """Decisions of this session by task and answer; unreadable files stand under the task `*`."""
    decided: int
    errors: int
    """ERROR rows of this session."""
    skipped: int
    """Decisions that an earlier session had made, which were not made again."""
    duplicates: int
    """Times that a spectrum or file of this session came again; it was vetted once."""
    changed: tuple[str, ...]
    """The first few list entries whose verdict was kept, though their file or their `z` has changed since."""
    n_changed: int
    """How many such entries there were."""
    interrupted: bool
    """Stopped before the list was through."""
    seconds: float


@dataclass(slots=True)
class Watch:
    """What a batch counts, and whom it tells."""

    progress: Callable[[Progress], None] | None
    total: int | None
    clock: float
    items: int = 0
    decided: int = 0
    errors: int = 0
    skipped: int = 0
    duplicates: int = 0
    changed: list[str] = field(default_factory=list)
    n_changed: int = 0
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def count(self, made: Decision) -> None:
        of_task = self.counts.setdefault(made.task, {})
        answer = str(made.verdict.answer)
        of_task[answer] = of_task.get(answer, 0) + 1
        self.decided += 1
        self.errors += made.verdict.answer is Answer.ERROR

    def note_change(self, what: str) -> None:
        self.n_changed += 1
        if len(self.changed) < _CHANGED_NAMED:
            self.changed.append(what)

    def tell(self, file: str, waiting: int) -> None:
        if self.progress is not None:
            decided, errors = self.decided + waiting, self.errors + waiting
            self.progress(
                Progress(self.items, self.total, decided, errors, self.skipped, printable(file), self.seconds)
            )

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.clock
