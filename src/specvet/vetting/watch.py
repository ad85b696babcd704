"""How far a batch has come and what it did: `Progress` on the way, `VetSummary` at the end; the same of rollouts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specvet.data.files import printable
from specvet.records import Decision
from specvet.records.schema import Answer, TrajectoryRecord

if TYPE_CHECKING:
    from specvet.agent.rollout import Tally

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
    usage: dict[str, float] = field(default_factory=dict)
    """What a model used in this session, by name."""


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


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """How far a batch of rollouts has come."""

    recorded: int
    """Trajectories on disk, of this session."""
    skipped: int
    """Trajectories that an earlier session had made."""
    total: int | None
    """Trajectories in all, where the caller knows."""
    running: int
    turns: int
    """Begun by now, those of trajectories under way included."""
    calls: int
    sampled: int
    """Tokens."""
    stops: dict[str, int]
    """Trajectories of this session by stop reason."""
    errors: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RolloutSummary:
    """What one call of `rollout` did; `RunFolder.count` and the receipt tell the totals of the run."""

    answers: dict[str, dict[str, int]]
    """Trajectories of this session by task and answer."""
    stops: dict[str, int]
    malformed: dict[str, int]
    """Malformed turns by kind."""
    recorded: int
    errors: int
    skipped: int
    duplicates: int
    turns: int
    calls: dict[str, int]
    """`specvet.records.schema.CallCounts`, summed."""
    without_calls: int
    """Trajectories that were asked and never called the tool."""
    asked: int
    """Trajectories whose policy was asked at all."""
    tokens: dict[str, int]
    """`specvet.records.schema.TokenCounts`, summed."""
    rewarded: int
    reward: float | None
    """Mean of the trajectories that have one."""
    interrupted: bool
    seconds: float


@dataclass(slots=True)
class RolloutWatch:
    """What a batch of rollouts counts, and whom it tells."""

    progress: Callable[[RolloutProgress], None] | None
    total: int | None
    tally: Tally
    clock: float
    recorded: int = 0
    errors: int = 0
    skipped: int = 0
    duplicates: int = 0
    turns: int = 0
    without_calls: int = 0
    asked: int = 0
    rewards: list[float] = field(default_factory=list)
    answers: dict[str, dict[str, int]] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)
    malformed: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)

    def count(self, record: TrajectoryRecord) -> None:
        self.recorded += 1
        _add(self.answers.setdefault(record.question.task, {}), {str(record.verdict.answer): 1})
        _add(self.stops, {str(record.stop): 1})
        _add(self.malformed, record.malformed)
        self.turns += len(record.turns)
        if record.turns:
            self.asked += 1
            self.without_calls += record.tool_calls == 0
        if record.calls is not None:
            _add(self.calls, record.calls.model_dump())
        if record.tokens is not None:
            _add(self.tokens, record.tokens.model_dump())
        if record.reward is not None:
            self.rewards.append(record.reward["score"])

    def tell(self) -> None:
        if self.progress is None:
            return
        tally = self.tally
        self.progress(
            RolloutProgress(
                self.recorded,
                self.skipped,
                self.total,
                tally.running,
                tally.turns,
                tally.calls,
                tally.sampled,
                self.stops,
                self.errors,
                time.perf_counter() - self.clock,
            )
        )

    def summary(self, interrupted: bool) -> RolloutSummary:
        return RolloutSummary(
            answers=self.answers,
            stops=self.stops,
            malformed=self.malformed,
            recorded=self.recorded,
            errors=self.errors,
            skipped=self.skipped,
            duplicates=self.duplicates,
            turns=self.turns,
            calls=self.calls,
            without_calls=self.without_calls,
            asked=self.asked,
            tokens=self.tokens,
            rewarded=len(self.rewards),
            reward=sum(self.rewards) / len(self.rewards) if self.rewards else None,
            interrupted=interrupted,
            seconds=round(time.perf_counter() - self.clock, 3),
        )


def _add(to: dict[str, int], more: Mapping[str, int]) -> None:
    for name, n in more.items():
        to[name] = to.get(name, 0) + n
