"""The batch runner: items in, one decision on disk for each spectrum and task, whatever happens.

    for each item: decided already? → read the file → for each spectrum, for each task: ask the agent → record

A file is read once for as many list rows as follow each other, so a list of targets in large files is best sorted by
file. A (file, row) that comes twice is vetted once; a file is known by its path, see `specvet.records.run`. What cannot
be read becomes an ERROR row and what breaks while deciding a FAILED one; both name the exception, and the batch goes
on. Only a full disk, no memory and Ctrl-C end it, and then the same call goes on where it stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from specvet.agent import Budget, run_agent, task_hash
from specvet.policies import Policy
from specvet.records import WHOLE_FILE, Decision, DiskFullError, RunFolder, write_atomic
from specvet.records.schema import Answer, Question, SpectrumRef, TrajectoryRecord
from specvet.spectra import FrameMode, Spectrum
from specvet.tasks import Task, task_text
from specvet.tools import ZoomTool
from specvet.vetting.items import Item
from specvet.vetting.rows import asked_row, decided, description, error_id, error_row, failure, printable, selection
from specvet.vetting.source import Source
from specvet.views import RenderPool

_BUDGET = Budget()

_BATCH = 500
"""Unreadable files that are recorded in one transaction."""

_BATCH_SECONDS = 1.0
"""How long one may wait for the others."""


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
    interrupted: bool
    """Stopped before the list was through."""
    seconds: float


def vet_settings(tasks: Iterable[Task], policy: Policy, frame_mode: FrameMode, budget: Budget) -> dict[str, Any]:
    """What can change a verdict, as `RunFolder.open` (in its config) and `RunFolder.settle` take it."""
    return {
        "policy": policy.name,
        "policy_fingerprint": getattr(policy, "fingerprint", ""),
        "frame_mode": frame_mode,
        "budget": asdict(budget),
        "tasks": {task.key: task_hash(task) for task in tasks},
    }


def vet(
    items: Iterable[Item],
    tasks: list[Task],
    policy: Policy,
    run: RunFolder,
    *,
    frame_mode: FrameMode = "careful",
    budget: Budget = _BUDGET,
    images: bool = False,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    total: int | None = None,
) -> VetSummary:
    """Let `policy` decide every task about every spectrum that `items` ask for, into `run`.

    `images` keeps the pictures that were shown. When `stop` is set the decision at hand is finished and recorded, then
    `vet` returns with `interrupted`. `total` is only handed on to `progress`.

    Raises `RunMismatchError` when the run was made with other settings, `DiskFullError`, and what `items` raises.
    """
    keys = [task.key for task in tasks]
    if not keys or len(set(keys)) != len(keys):
        raise ValueError(f"tasks: give at least one, each once, not {keys}")
    run.settle(vet_settings(tasks, policy, frame_mode, budget))
    for task in tasks:  # what was asked, in full: a user's file may change or go, and so may a built-in task
        write_atomic(run.path / "tasks" / f"{task.key}.yaml", task_text(task))
    keep = run.images.put if images else None
    draws = images or "images" in policy.capabilities
    with RenderPool() if draws else nullcontext() as pool:

        def ask(question: Question, task: Task, tool: ZoomTool) -> TrajectoryRecord:
            return run_agent(question, task, tool, policy, budget, pool, keep)

        watch = _Watch(progress, total, time.perf_counter())
        return _Batch(run, tasks, frame_mode, ask, stop or threading.Event(), watch).through(items)


Ask = Callable[[Question, Task, ZoomTool], TrajectoryRecord]


@dataclass(slots=True)
class _Watch:
    """What a batch counts, and whom it tells."""

    progress: Callable[[Progress], None] | None
    total: int | None
    clock: float
    items: int = 0
    decided: int = 0
    errors: int = 0
    skipped: int = 0
    duplicates: int = 0
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def count(self, made: Decision) -> None:
        of_task = self.counts.setdefault(made.task, {})
        answer = str(made.verdict.answer)
        of_task[answer] = of_task.get(answer, 0) + 1
        self.decided += 1
        self.errors += made.verdict.answer is Answer.ERROR

    def tell(self, file: str, waiting: int) -> None:
        if self.progress is not None:
            decided, errors = self.decided + waiting, self.errors + waiting
            self.progress(
                Progress(self.items, self.total, decided, errors, self.skipped, printable(file), self.seconds)
            )

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.clock


@dataclass(slots=True)
class _Batch:
    """The state of one call of `vet`."""

    run: RunFolder
    tasks: list[Task]
    frame_mode: FrameMode
    ask: Ask
    stop: threading.Event
    watch: _Watch
    source: Source = field(default_factory=Source)
    keys: frozenset[str] = frozenset()
    first: int = 0
    """Number of the first decision of this session."""
    waiting: dict[tuple[str, int, str], Decision] = field(default_factory=dict)
    """ERROR rows that are not on disk yet, by (file, row, id)."""
    since: float = 0.0
    """When the oldest of them came."""

    def __post_init__(self) -> None:
        self.keys = frozenset(task.key for task in self.tasks)
        self.first = self.run.last_number() + 1

    def through(self, items: Iterable[Item]) -> VetSummary:
        watch, interrupted = self.watch, False
        try:
            for item in items:
                if self.stop.is_set() or not self._item(item):
                    interrupted = True
                    break
                watch.items += 1
                watch.tell(item.file, len(self.waiting))
        except DiskFullError:
            self.waiting.clear()  # vetted again when there is room
            raise
        finally:
            self._flush()
            self.run.note_session(skipped=watch.skipped, duplicates=watch.duplicates, interrupted=interrupted)
        return VetSummary(
            counts=watch.counts,
            decided=watch.decided,
            errors=watch.errors,
            skipped=watch.skipped,
            duplicates=watch.duplicates,
            interrupted=interrupted,
            seconds=round(watch.seconds, 3),
        )

    def _item(self, item: Item) -> bool:
        """All of one list entry; False when it was stopped on the way."""
        if self._known(item):
            return True
        if item.problem:
            self._error(item, item.problem)
            return True
        try:
            spectra = self.source.select(item)
        except MemoryError:
            raise
        except Exception as e:  # a reader may fail on anything that a file may hold
            self._error(item, failure(e))
            return True
        for spectrum in spectra:
            if not self._spectrum(item, spectrum):
                return False
        if item.row is None:
            self.run.mark_finished(printable(item.file), selection(item), self.keys, len(spectra))
        return True

    def _known(self, item: Item) -> bool:
        """Whether all that an entry asks for has been decided, as far as can be told without opening the file."""
        file, row, id = self._place(item)
        if (file, row, id) in self.waiting:
            self.watch.duplicates += 1
            return True
        found = self.run.found(file, row)
        if (WHOLE_FILE, id) in found:
            self._seen(found[WHOLE_FILE, id], 1)
            return True
        if item.row is None:
            finished = self.run.finished(file, selection(item), self.keys)
            if finished is None:
                return False
            rows, in_this_session = finished
            self.watch.duplicates += in_this_session
            self.watch.skipped += 0 if in_this_session else rows * len(self.keys)
            return True
        made = {task: n for (task, _), n in found.items() if task in self.keys}
        if made.keys() != self.keys or asked_row(item) is None:
            return False
        self._seen(max(made.values()), len(made))
        return True

    def _spectrum(self, item: Item, spectrum: Spectrum) -> bool:
        """All tasks about one spectrum; False when it was stopped on the way."""
        found = self.run.found(printable(item.file), spectrum.row)
        made = {task: n for (task, _), n in found.items() if task in self.keys}
        error = found.get((WHOLE_FILE, error_id(item)), 0)
        if error or made.keys() == self.keys:
            self._seen(max(error, *made.values(), 0), len(made) + (error > 0))
            return True
        self.watch.skipped += len(made)
        try:
            tool = ZoomTool(spectrum, self.frame_mode, item.z)
            described = description(item, spectrum, tool.frame)
        except MemoryError:
            raise
        except Exception as e:  # the user's own z may be nonsense
            self._record(error_row(item, spectrum.row, failure(e)))
            return True
        for task in self.tasks:
            if task.key in made:
                continue
            if self.stop.is_set():
                return False
            self._decide(described, task, tool)
        return True

    def _decide(self, described: dict[str, Any], task: Task, tool: ZoomTool) -> None:
        file, row = described["file"], described["row"]
        place = SpectrumRef(path=file, row=row)
        try:
            question = Question(id=f"{file}#{row}/{task.key}", task=task.key, spectrum=place)
            outcome: TrajectoryRecord | Exception = self.ask(question, task, tool)
        except (DiskFullError, MemoryError):
            raise
        except Exception as e:  # one broken spectrum must not stop a night's batch
            outcome = e
        try:
            self._record(decided(described, task.key, outcome))
        except ValueError as e:  # what a policy said is no text, such as half a surrogate pair
            self._record(decided(described, task.key, e))
        self.watch.tell(file, 0)

    def _record(self, decision: Decision) -> None:
        """Put a decision on disk, after the ERROR rows that came before it, in one transaction."""
        rows = [*self.waiting.values(), decision]
        self.run.record_many(rows)
        self.waiting.clear()
        for made in rows:
            self.watch.count(made)

    def _error(self, item: Item, reason: str) -> None:
        place, now = self._place(item), time.perf_counter()
        self.since = self.since if self.waiting else now
        self.waiting[place] = error_row(item, place[1], reason)
        if len(self.waiting) >= _BATCH or now - self.since > _BATCH_SECONDS:
            self._flush()

    def _flush(self) -> None:
        rows = list(self.waiting.values())
        if rows:
            self.run.record_many(rows)
            self.waiting.clear()
            for made in rows:
                self.watch.count(made)

    def _place(self, item: Item) -> tuple[str, int, str]:
        return printable(item.file), asked_row(item) or 0, error_id(item)

    def _seen(self, newest: int, decisions: int) -> None:
        """Count what was found decided: by this session, or by an earlier one."""
        if newest >= self.first:
            self.watch.duplicates += 1
        else:
            self.watch.skipped += decisions
