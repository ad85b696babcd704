"""The batch runner: items in, one decision on disk for each spectrum and task, whatever happens.

    for each item: decided already? → read the file → for each spectrum, for each task: ask the agent → … → record

A file is read once for as many list rows as follow each other, so a list of targets in large files is best sorted by
file. A (file, row) that comes twice is vetted once; a file is known by its path, see `specvet.records.run`. What cannot
be read becomes an ERROR row and what breaks while deciding a FAILED one; both name the exception, and the batch goes
on. Only a full disk, no memory and Ctrl-C end it, and then the same call goes on where it stopped.

A policy that measures decides in the order of the list. A model is asked about many spectra at a time, and its
decisions stand in the run in the order in which they were made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from specvet.agent import Budget, run_agent
from specvet.data.asking import TitleMode, figure_title
from specvet.data.files import failure, printable
from specvet.policies import Policy
from specvet.records import WHOLE_FILE, Decision, DiskFullError, RunFolder, write_atomic
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import FrameMode, Spectrum
from specvet.tasks import Task, task_text
from specvet.tools import ZoomTool
from specvet.vetting.deciding import Decider, ManyAtOnce, OneByOne, Outcome
from specvet.vetting.items import Item
from specvet.vetting.prefilter import Prefilter, Prefiltered
from specvet.vetting.rows import (
    asked_row,
    decided,
    description,
    error_id,
    error_row,
    is_users_z,
    rated,
    selection,
)
from specvet.vetting.settings import vet_settings
from specvet.vetting.sharing import Sharing
from specvet.vetting.source import Source, file_state
from specvet.vetting.watch import Progress, VetSummary, Watch
from specvet.views import COMPACT_STYLE, REFERENCE_STYLE, RenderPool, Size, check_style

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from specvet.agent import Engine

_BUDGET = Budget()

_BATCH = 500
"""Unreadable files that are recorded in one transaction."""

_BATCH_SECONDS = 1.0
"""How long one may wait for the others."""


def vet(
    items: Iterable[Item],
    tasks: list[Task],
    policy: Policy | Engine,
    run: RunFolder,
    *,
    frame_mode: FrameMode = "careful",
    budget: Budget = _BUDGET,
    images: bool = False,
    style: str = REFERENCE_STYLE,
    size: Size = None,
    title: TitleMode | None = None,
    usage: Callable[[], Mapping[str, float]] = dict,
    concurrency: int = 16,
    prefilter: Prefilter | None = None,
    change: Callable[[Spectrum], Spectrum] | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    total: int | None = None,
) -> VetSummary:
    """Let `policy` decide every task about every spectrum that `items` ask for, into `run`.

    Pictures are drawn for a policy that looks at them and where `images` keeps them, in `style` and `size` (see
    `specvet.views.full_view`): the compact style here, since it takes a millisecond, others in a process with a
    deadline. When `stop` is set nothing more is begun; what is under way is finished and recorded, then `vet` returns
    with `interrupted`. `total` is only handed on to `progress`. A model comes in an `Engine`, which has budget,
    sampling and drawing of its own, and is asked about `concurrency` spectra at a time; `usage` tells what it has used
    by now (see `specvet.policies.tokens.usage_numbers`), for the receipt. What `prefilter` finds hopeless is no
    question to it. `change` alters each spectrum before it is asked about; `settings` says so, and whatever else can
    change a verdict. A run that is shared (`RunFolder.open(shared=True)`) may be worked on by several processes, each
    of which begins what the others have not.

    Raises `RunMismatchError` when the run was made with other settings, `DiskFullError`, a fatal PolicyError, and what
    `items` raises.
    """
    keys = [task.key for task in tasks]
    if not keys or len(set(keys)) != len(keys):
        raise ValueError(f"tasks: give at least one, each once, not {keys}")
    style = check_style(style, size)
    more = dict(settings or {})
    if _is_engine(policy):
        more |= {"prefilter": "none"} if prefilter is None else prefilter.settings
        decisive = (frame_mode, policy.budget, style, size, policy.params, title, policy.wording, policy.guarded)
        run.settle(vet_settings(tasks, policy.policy, *decisive) | more)
    else:
        run.settle(vet_settings(tasks, policy, frame_mode, budget, style, size, title=title) | more)
    for task in tasks:  # what was asked, in full: a user's file may change or go, and so may a built-in task
        write_atomic(run.path / "tasks" / f"{task.key}.yaml", task_text(task))
    keep = run.images.put if images else None
    draws = not _is_engine(policy) and (images or "images" in policy.capabilities)
    stop = stop or threading.Event()
    with RenderPool() if draws and style != COMPACT_STYLE else nullcontext() as pool:
        decider: Decider
        if _is_engine(policy):
            decider = ManyAtOnce(policy, concurrency, stop)
        else:
            decider = OneByOne(lambda question, task, tool: run_agent(question, task, tool, policy, budget, pool, keep))
        if prefilter is not None:
            decider = Prefiltered(decider, prefilter)
        watch = Watch(progress, total, time.perf_counter())
        named = figure_title(title or ("plain" if _is_engine(policy) else "file"), style)
        look = partial(ZoomTool, mode=frame_mode, title=named, style=style, size=size)
        source = Source(change)
        return _Batch(run, tasks, look, decider, usage, stop, watch, source).through(items)


def _is_engine(policy: Policy | Engine) -> TypeIs[Engine]:
    # By what it has and not by its class, whose import loads tokenizers that measuring does not need.
    return hasattr(policy, "ask")


Look = Callable[..., ZoomTool]
"""A tool for one spectrum, seen at a redshift `z` of the user's own."""


@dataclass(slots=True)
class _Entry:
    """A list entry on its way."""

    item: Item
    open: int = 1
    """Decisions under way, and one for the entry itself until all of it was begun."""
    rows: int | None = None
    """Spectra of a whole file, once all were begun."""
    shared: bool = False
    """Some of it is under way for another entry, which will say when it is over."""


@dataclass(slots=True)
class _Batch:
    """The state of one call of `vet`."""

    run: RunFolder
    tasks: list[Task]
    look: Look
    decider: Decider
    usage: Callable[[], Mapping[str, float]]
    stop: threading.Event
    watch: Watch
    source: Source
    sharing: Sharing | None = None
    keys: frozenset[str] = frozenset()
    first: int = 0
    """Number of the first decision of this session."""
    under_way: set[tuple[str, int, str]] = field(default_factory=set)
    """(key, row, task) of decisions that were begun and are not made yet."""
    waiting: dict[tuple[str, int, str], Decision] = field(default_factory=dict)
    """ERROR rows that are not on disk yet, by (file, row, id)."""
    since: float = 0.0
    """When the oldest of them came."""

    def __post_init__(self) -> None:
        self.keys = frozenset(task.key for task in self.tasks)
        self.first = self.run.last_number() + 1
        if self.run.leases is not None:
            self.sharing = Sharing(self.run.leases, self.run.key, self.stop)

    def through(self, items: Iterable[Item]) -> VetSummary:
        watch, interrupted = self.watch, False
        try:
            for item in items if self.sharing is None else self.sharing.of(items, self._settle):
                entry = _Entry(item)
                if self.stop.is_set() or not self._item(entry):
                    interrupted = True
                    break
                self._close(entry)
            self.decider.finish()
            interrupted |= self.sharing is not None and self.stop.is_set()
        except DiskFullError:
            self.waiting.clear()  # vetted again when there is room
            raise
        except BaseException as e:
            interrupted = isinstance(e, KeyboardInterrupt)
            self.decider.abandon()
            raise
        finally:
            self._flush()
            self._use()
            self.run.note_session(skipped=watch.skipped, duplicates=watch.duplicates, interrupted=interrupted)
        return VetSummary(
            counts=watch.counts,
            decided=watch.decided,
            errors=watch.errors,
            skipped=watch.skipped,
            duplicates=watch.duplicates,
            changed=tuple(watch.changed),
            n_changed=watch.n_changed,
            interrupted=interrupted,
            seconds=round(watch.seconds, 3),
            usage=self._used(),
        )

    def _settle(self) -> None:
        self.decider.finish()
        self._flush()

    def _close(self, entry: _Entry) -> None:
        """One decision of an entry is made, or all of it was begun; when nothing is open it is over."""
        entry.open -= 1
        if entry.open:
            return
        file = printable(entry.item.file)
        if entry.rows is not None and not entry.shared:
            self.run.mark_finished(file, selection(entry.item), self.keys, entry.rows)
        if self.sharing is not None:
            self._flush()  # before anybody else may begin it
            self.sharing.over(entry.item)
        self.watch.items += 1
        self.watch.tell(file, len(self.waiting))

    def _item(self, entry: _Entry) -> bool:
        """Begin all of one list entry; False when it was stopped on the way."""
        item = entry.item
        skipped = self.watch.skipped
        if self._known(item):
            if self.watch.skipped > skipped:
                self._compare(item)
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
        if self.source.state is not None:
            self.run.note_state(printable(item.file), self.source.state)
        for spectrum in spectra:
            if not self._spectrum(entry, spectrum):
                return False
        if self.watch.skipped > skipped:
            self._compare(item)
        if item.row is None:
            entry.rows = len(spectra)
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

    def _compare(self, item: Item) -> None:
        """Note an entry that is not what it was when an earlier session decided it; the decision stands."""
        file = printable(item.file)
        then, now = self.run.noted_state(file), file_state(item.file)
        if then is not None and now is not None and now != then:
            self.watch.note_change(f"{file} has another size or date than when it was vetted")
            return
        seen = self.run.frame_of(file, asked_row(item))
        if seen is None:
            return
        frame, z = seen
        given = z if is_users_z(frame) else None
        if given != item.z:
            was, is_now = ("none" if v is None else f"{v:g}" for v in (given, item.z))
            self.watch.note_change(f"{file}: vetted with the list's z = {was}, now z = {is_now}")

    def _spectrum(self, entry: _Entry, spectrum: Spectrum) -> bool:
        """Begin all tasks about one spectrum; False when it was stopped on the way."""
        item, key = entry.item, self.run.key(printable(entry.item.file))
        found = self.run.found(printable(item.file), spectrum.row)
        made = {task: n for (task, _), n in found.items() if task in self.keys}
        begun = {task for task in self.keys if (key, spectrum.row, task) in self.under_way}
        if begun and made.keys() | begun == self.keys:
            self.watch.duplicates += 1
            entry.shared = True
            return True
        error = found.get((WHOLE_FILE, error_id(item)), 0)
        if error or made.keys() == self.keys:
            self._seen(max(error, *made.values(), 0), len(made) + (error > 0))
            return True
        self.watch.skipped += len(made)
        try:
            tool = self.look(spectrum, z=item.z)
            described = description(item, spectrum, tool.frame)
        except MemoryError:
            raise
        except Exception as e:  # the user's own z may be nonsense
            self._record(error_row(item, spectrum.row, failure(e)))
            return True
        for task in self.tasks:
            if task.key in made:
                continue
            if self.stop.is_set() or not self._begin(entry, described, task, tool):
                return False
        return True

    def _begin(self, entry: _Entry, described: dict[str, Any], task: Task, tool: ZoomTool) -> bool:
        file, row = described["file"], described["row"]
        question = Question(id=f"{file}#{row}/{task.key}", task=task.key, spectrum=SpectrumRef(path=file, row=row))
        place = (self.run.key(file), row, task.key)

        def tell(outcome: Outcome) -> None:
            self.under_way.discard(place)
            try:
                self._record(rated(decided(described, task.key, outcome)))
            except ValueError as e:  # what a policy said is no text, such as half a surrogate pair
                self._record(decided(described, task.key, e))
            self.watch.tell(file, 0)
            self._close(entry)

        self.under_way.add(place)
        entry.open += 1
        if self.decider.begin(question, task, tool, tell):
            return True
        self.under_way.discard(place)
        return False

    def _record(self, decision: Decision) -> None:
        """Put a decision on disk, after the ERROR rows that came before it, in one transaction."""
        rows = [*self.waiting.values(), decision]
        self._use()
        self.run.record_many(rows)
        self.waiting.clear()
        for made in rows:
            self.watch.count(made)

    def _use(self) -> None:
        if used := self._used():
            self.run.note_session(usage=used)

    def _used(self) -> dict[str, float]:
        used = self.usage()
        return {**used, "notes.read_s": self.source.seconds} if used else {}

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
        """Count what was found decided: by this session, or by an earlier one, or by another that shares the run."""
        if newest >= self.first and self.sharing is None:
            self.watch.duplicates += 1
        else:
            self.watch.skipped += decisions
