"""The batch runner for rollouts: spectra or questions in, every trajectory on disk as soon as it is over.

    for each spectrum and task: which samples are missing? → begin a group → … → record what has finished

Spectra are read and trajectories recorded here, while groups run on the engine's own thread; so many are under way as
the engine takes. Trajectories stand in the run in the order in which they finish, each under its (file, row, task,
sample); the same call goes on where it stopped, makes only the samples that are missing, and ends with what an
uninterrupted run would have. What cannot be read becomes an ERROR row. A full disk, Ctrl-C and what every other
question would meet as well (a server that is gone) end the batch; what is over by then is kept.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from specvet.agent import Budget, run_agent
from specvet.agent.opening import in_wording
from specvet.agent.rollout import Tally
from specvet.agent.talk import ModelPolicy
from specvet.data.asking import TitleMode, figure_title
from specvet.data.files import failure, printable
from specvet.data.questions import Asked
from specvet.policies import Policy
from specvet.policies.tokens import SamplingParams
from specvet.records import WHOLE_FILE, RunFolder, write_atomic
from specvet.records.schema import Question, SpectrumRef, TrajectoryRecord
from specvet.spectra import FrameMode
from specvet.tasks import Task, Wording, task_text
from specvet.tools import ZoomTool
from specvet.vetting.items import Item
from specvet.vetting.rows import asked_row, decided, description, error_id, error_row
from specvet.vetting.settings import vet_settings
from specvet.vetting.source import Source
from specvet.vetting.watch import RolloutProgress, RolloutSummary, RolloutWatch
from specvet.views import REFERENCE_STYLE, Size

WAIT_S = 0.2
"""How long the batch waits for a trajectory before it looks whether it shall stop."""


class Engine(Protocol):
    """Whoever makes trajectories: `specvet.agent.engine.Engine`, or `Measuring` here."""

    @property
    def tally(self) -> Tally: ...

    def submit(
        self,
        question: Question,
        task: Task,
        tool: ZoomTool,
        n: int = 1,
        *,
        only: Collection[int] | None = None,
        done: Callable[[TrajectoryRecord], None] | None = None,
    ) -> Any:
        """A future of the group, with `add_done_callback` and `cancel`."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """One input: a file or row, and what to ask of it."""

    item: Item
    tasks: tuple[Task, ...]
    question: Question | None = None
    """The question of a file; None makes the tasks' own."""


def wanted_of_items(items: Iterable[Item], tasks: Iterable[Task]) -> Iterator[Wanted]:
    """Every task about every spectrum."""
    asked = tuple(tasks)
    return (Wanted(item, asked) for item in items)


def wanted_of_questions(
    questions: Iterable[Asked], tasks: Mapping[str, Task], wording: Wording = "full"
) -> Iterator[Wanted]:
    """Each question with its task, by key, as it is asked in this wording."""
    for asked in questions:
        question = in_wording(asked.question, wording)
        item = Item(asked.file, row=question.spectrum.row, id=question.id)
        yield Wanted(item, (tasks[question.task],), question)


def rollout_settings(
    tasks: Iterable[Task],
    policy: Policy | ModelPolicy,
    group: int,
    params: SamplingParams,
    frame_mode: FrameMode,
    budget: Budget,
    style: str = REFERENCE_STYLE,
    size: Size = None,
    title: TitleMode | None = None,
    wording: Wording = "full",
    guard: bool = False,
) -> dict[str, Any]:
    """What can change a trajectory, as `RunFolder.open` (in its config) and `RunFolder.settle` take it."""
    sampling = None if hasattr(policy, "act") else params
    told = vet_settings(tasks, policy, frame_mode, budget, style, size, sampling, title, wording, guard)
    return told | {"group": group}


class Measuring:
    """An engine for a policy that measures: it makes each trajectory when it is asked for it."""

    def __init__(self, policy: Policy, budget: Budget, keep: Callable[[bytes], str] | None = None) -> None:
        self.policy, self.budget, self.keep = policy, budget, keep
        self._tally = Tally()

    @property
    def tally(self) -> Tally:
        return self._tally

    def submit(
        self,
        question: Question,
        task: Task,
        tool: ZoomTool,
        n: int = 1,
        *,
        only: Collection[int] | None = None,
        done: Callable[[TrajectoryRecord], None] | None = None,
    ) -> None:
        for sample in sorted(range(n) if only is None else only):
            record = run_agent(question, task, tool, self.policy, self.budget, None, self.keep)
            self._tally.finished += 1
            self._tally.turns += len(record.turns)
            self._tally.calls += record.tool_calls
            if done is not None:
                done(record.model_copy(update={"sample": sample, "group": n}))


def rollout(
    wanted: Iterable[Wanted],
    tasks: Iterable[Task],
    engine: Engine,
    run: RunFolder,
    *,
    group: int = 1,
    concurrency: int = 64,
    frame_mode: FrameMode = "careful",
    style: str = REFERENCE_STYLE,
    size: Size = None,
    title: TitleMode | None = None,
    before: Callable[[], None] | None = None,
    usage: Callable[[], Mapping[str, float]] = dict,
    progress: Callable[[RolloutProgress], None] | None = None,
    stop: threading.Event | None = None,
    total: int | None = None,
) -> RolloutSummary:
    """Make `group` trajectories of every question that `wanted` asks for, into `run`.

    When `stop` is set nothing more is begun, and it returns with `interrupted` when all that is under way is over and
    on disk. `usage` tells what the policy has used by now (see `specvet.policies.tokens.usage_numbers`), for the
    receipt; `total` (trajectories) is handed on to `progress`.

    `before` is called before the first trajectory is begun, and not at all where none is missing. `title` is as for
    `specvet.vetting.settings.vet_settings`.

    Raises PolicyError when it is fatal, `DiskFullError`, and what `before` and `wanted` raise.
    """
    for task in tasks:
        write_atomic(run.path / "tasks" / f"{task.key}.yaml", task_text(task))
    named = figure_title(title or ("file" if isinstance(engine, Measuring) else "plain"), style)
    look = partial(ZoomTool, mode=frame_mode, title=named, style=style, size=size)
    watch = RolloutWatch(progress, total, engine.tally, time.perf_counter())
    stop = stop or threading.Event()
    return _Batch(run, engine, look, group, concurrency, usage, watch, stop, before).through(wanted)


Described = dict[str, Any]


@dataclass(slots=True)
class _Batch:
    """The state of one call of `rollout`."""

    run: RunFolder
    engine: Engine
    look: Callable[..., ZoomTool]
    group: int
    concurrency: int
    usage: Callable[[], Mapping[str, float]]
    watch: RolloutWatch
    stop: threading.Event
    before: Callable[[], None] | None
    source: Source = field(default_factory=Source)
    begun: set[tuple[str, int, str]] = field(default_factory=set)
    """(key, row, task) of what this session has begun."""
    under_way: int = 0
    """Branches."""
    futures: set[Any] = field(default_factory=set)
    over: queue.SimpleQueue[tuple[str, Any, Any]] = field(default_factory=queue.SimpleQueue)
    """What the engine's thread reports: ("record", described, record) or ("end", future, branches)."""

    def through(self, wanted: Iterable[Wanted]) -> RolloutSummary:
        interrupted = False
        try:
            for one in wanted:
                if self.stop.is_set() or not self._one(one):
                    interrupted = True
                    break
            while self.under_way:
                self._take(wait=True)
        except BaseException as e:
            interrupted = isinstance(e, KeyboardInterrupt)
            self._abandon()
            raise
        finally:
            self._note(interrupted)
        self.watch.tell()
        return self.watch.summary(interrupted)

    def _one(self, wanted: Wanted) -> bool:
        """Begin all that one input asks for; False when it was stopped on the way."""
        item = wanted.item
        file = printable(item.file)
        if self._known(wanted, file):
            return True
        try:
            if item.problem:
                raise _Problem(item.problem)
            spectra = self.source.select(item)
        except MemoryError:
            raise
        except Exception as e:  # a reader may fail on anything that a file may hold
            self._error(item, item.problem or failure(e))
            return True
        for spectrum in spectra:
            missing = [(task, self._missing(file, spectrum.row, task)) for task in wanted.tasks]
            if not any(samples for _, samples in missing):
                continue
            try:
                tool = self.look(spectrum, z=item.z)
                described = description(item, spectrum, tool.frame)
            except MemoryError:
                raise
            except Exception as e:  # the user's own z may be nonsense
                self._error(item, failure(e), spectrum.row)
                continue
            for task, samples in missing:
                if samples and not self._begin(wanted, described, task, tool, samples):
                    return False
        return True

    def _known(self, wanted: Wanted, file: str) -> bool:
        """Whether nothing is left of an input, as far as can be told without opening its file."""
        row = asked_row(wanted.item)
        if (WHOLE_FILE, error_id(wanted.item)) in self.run.found(file, row or 0):
            self.watch.skipped += 1
            return True
        if row is None or any(self._left(file, row, task) for task in wanted.tasks):
            return False
        for task in wanted.tasks:
            self._missing(file, row, task)
        return True

    def _left(self, file: str, row: int, task: Task) -> frozenset[int]:
        return frozenset(range(self.group)) - self.run.samples(file, row, task.key)

    def _missing(self, file: str, row: int, task: Task) -> frozenset[int]:
        """Which samples are to be made; what is there from before, or was begun already, is counted."""
        if (self.run.key(file), row, task.key) in self.begun:
            self.watch.duplicates += 1
            return frozenset()
        left = self._left(file, row, task)
        self.watch.skipped += self.group - len(left)
        return left

    def _begin(self, wanted: Wanted, described: Described, task: Task, tool: ZoomTool, samples: frozenset[int]) -> bool:
        # Twice as many as run, so that the engine never waits for a file to be read.
        while self.under_way and self.under_way + len(samples) > 2 * self.concurrency:
            if self.stop.is_set():
                return False
            self._take(wait=True)
        if self.stop.is_set():
            return False
        if self.before is not None:
            before, self.before, tick = self.before, None, time.perf_counter()
            before()
            self.watch.clock += time.perf_counter() - tick  # no part of the rates
        file, row = described["file"], described["row"]
        self.begun.add((self.run.key(file), row, task.key))
        question = wanted.question or Question(
            id=f"{file}#{row}/{task.key}", task=task.key, spectrum=SpectrumRef(path=file, row=row)
        )
        self.under_way += len(samples)
        over = self.over

        def done(record: TrajectoryRecord) -> None:
            over.put(("record", described, record))

        future = self.engine.submit(question, task, tool, self.group, only=samples, done=done)
        if future is None:
            over.put(("end", None, len(samples)))
        else:
            self.futures.add(future)
            future.add_done_callback(lambda f: over.put(("end", f, len(samples))))
        while self._take(wait=False):
            pass
        return True

    def _take(self, *, wait: bool) -> bool:
        """Record one trajectory that is over, or hear of the end of a group; False when there was nothing."""
        try:
            kind, what, more = self.over.get(timeout=WAIT_S) if wait else self.over.get_nowait()
        except queue.Empty:
            self.watch.tell()
            return False
        if kind == "record":
            self._record(what, more)
            return True
        self.under_way -= more
        self.futures.discard(what)
        if what is not None:
            what.result()  # raises what ended the group
        return True

    def _record(self, described: Described, record: TrajectoryRecord) -> None:
        decision = decided(described, record.question.task, record).model_copy(update={"sample": record.sample})
        self._use()
        self.run.record_many([decision])
        self.watch.count(record)
        self.watch.tell()

    def _error(self, item: Item, reason: str, row: int | None = None) -> None:
        made = error_row(item, asked_row(item) or 0 if row is None else row, reason)
        if self.run.record_many([made]):
            self.watch.errors += 1

    def _abandon(self) -> None:
        """Cancel what is under way; what was over before is recorded, where that is still possible."""
        for future in list(self.futures):
            future.cancel()
        while True:
            try:
                kind, what, more = self.over.get_nowait()
            except queue.Empty:
                return
            if kind == "record":
                try:
                    self._record(what, more)
                except Exception:  # whatever ended the batch is the error to tell
                    return

    def _use(self) -> None:
        used = self.usage()
        if used:
            self.run.note_session(usage={**used, "notes.read_s": self.source.seconds})

    def _note(self, interrupted: bool) -> None:
        self._use()
        self.run.note_session(skipped=self.watch.skipped, duplicates=self.watch.duplicates, interrupted=interrupted)


class _Problem(Exception):  # noqa: N818 - never leaves this module
    """What a list entry says of itself."""
