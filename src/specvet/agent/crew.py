"""The `Crew`: rollouts in several processes, for a model that answers faster than one interpreter can act on.

    crew = Crew(policy, make, arguments, processes=4)       # each process opens its policy: make(*arguments)
    rollouts = crew.rollouts(budget, params, concurrency=512)
    records = await rollouts.group(question, task, tool, 8)  # as `Rollouts.group`

A group stays whole in one process, since its branches share their first prompt, and goes to the one that is least busy.
Trajectories come back one by one as they end, to the loop that asked, and none begins in the place of one that was not
heard of yet. Where a turn is drawn from the stream (seed, i), a trajectory is the same whatever process makes it.
Pictures are stored by the processes, where the store can be sent.

`policy` is this process's own: it says what format and abilities all of them have, answers probes, and its `usage` is
that of all. A process that ends unasked ends the crew: what is under way fails with a PolicyError that says how.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

from specvet.agent.budget import DEFAULT_BUDGET, Budget
from specvet.agent.crew_rollouts import CrewRollouts, Job, packed
from specvet.agent.crew_worker import Begin, CallOff, Do, End, Kept, serve
from specvet.agent.rollout import Guard
from specvet.agent.stage import KeepImage
from specvet.agent.talk import ModelPolicy
from specvet.policies.tokens import PolicyError, SamplingParams
from specvet.tasks import Wording

# "spawn" starts new interpreters: CUDA does not survive a fork, nor do locks that other threads hold.
_CONTEXT = multiprocessing.get_context("spawn")
OPEN_S = 600.0
"""Within it a process opens its policy."""
AHEAD = 4
"""One more for so many that a process rolls out waits there already, so that it need not wait for the parent."""
GRACE_S = 5.0
"""Within it a process that is told to end does."""


class Crew:
    """`processes` processes with a policy each; a context manager. Safe to use from several threads and loops."""

    def __init__(
        self, policy: ModelPolicy, make: Callable[..., ModelPolicy], arguments: Sequence[Any] = (), processes: int = 2
    ) -> None:
        """Starts the processes and waits until each has its policy. `make` is a function or class of a module,
        `arguments` can be sent to a process. Raises what `make` raises there, and PolicyError."""
        if processes < 1:
            raise ValueError(f"{processes} processes; at least 1 is needed")
        self.policy = policy
        self.failure: str | None = None
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._waiting: deque[Job] = deque()
        self._rollouts: dict[int, CrewRollouts] = {}
        self._closing = False
        self._bell, self._rung = _CONTEXT.Pipe(duplex=False)
        self._hands: list[_Hand] = []
        threads = max(1, (os.cpu_count() or 1) // processes)
        for i in range(processes):
            mine, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=serve, args=(theirs, threads), name=f"specvet-crew-{i + 1}", daemon=True)
            process.start()
            theirs.close()
            self._hands.append(_Hand(i + 1, process, mine))
        self._listener = threading.Thread(target=self._listen, name="specvet-crew", daemon=True)
        self._listener.start()
        try:
            for hand in self._hands:
                hand.send(packed((make, tuple(arguments))))
            for hand in self._hands:
                hand.open.result(OPEN_S)
        except TimeoutError:
            self.close()
            raise PolicyError(f"a rollout process has not opened its model within {OPEN_S:g} s", fatal=True) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def processes(self) -> int:
        return len(self._hands)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(hand.process.pid for hand in self._hands)

    @property
    def under_way(self) -> int:
        """Branches that wait or are rolled out."""
        with self._lock:
            return sum(hand.load for hand in self._hands) + sum(len(job.branches) for job in self._waiting)

    def rollouts(
        self,
        budget: Budget = DEFAULT_BUDGET,
        params: SamplingParams | None = None,
        *,
        keep_image: KeepImage | None = None,
        concurrency: int = 64,
        wording: Wording = "full",
        guard: Guard | None = None,
    ) -> CrewRollouts:
        """Rollouts with these settings, as `Rollouts` takes them. Raises PolicyError."""
        return CrewRollouts(self, budget, params, keep_image, concurrency, wording, guard)

    def everywhere(self, name: str, **arguments: Any) -> None:
        """Call a method of each process's policy, and wait for all. Groups that are begun afterwards come after it.

        Raises what it raises in one of them, and PolicyError."""
        with self._lock:
            self._check()
            answers = []
            for hand in self._hands:
                number = next(self._numbers)
                answers.append(hand.calls.setdefault(number, Future()))
                hand.send(packed(Do(number, name, arguments)))
        for answer in answers:
            answer.result()

    def close(self) -> None:
        """End all processes; what is under way fails. Twice is once."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        for hand in self._hands:
            if not hand.load:
                hand.send(packed(None))
        self._rung.send(None)
        self._listener.join()
        self._drop("the rollout processes were closed")
        ends = {hand.process.sentinel for hand in self._hands if not hand.load}
        until = time.monotonic() + GRACE_S
        while ends and (left := until - time.monotonic()) > 0:
            ends -= set(wait(list(ends), left))
        self._kill()
        for hand in self._hands:
            hand.process.join(GRACE_S)
            hand.pipe.close()
        for pipe in (self._bell, self._rung):
            pipe.close()

    # --- groups

    def submit(self, job: Job) -> None:
        """Let the job run as soon as some process has room for it."""
        with self._lock:
            self._check()
            self._waiting.append(job)
            self._share_out()

    def kept(self, job: Job, sample: int) -> None:
        """A trajectory of it was kept: another may begin in its place."""
        self._to(job, Kept(job.number, sample))

    def call_off(self, job: Job) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
        self._to(job, CallOff(job.number))

    def _to(self, job: Job, message: Kept | CallOff) -> None:
        """Tell the process that has the job, if one has."""
        with self._lock:
            for hand in self._hands:
                if job.number in hand.jobs:
                    hand.send(packed(message))

    def tell(self, message: Begin | End) -> None:
        """Tell all processes. Raises PolicyError."""
        with self._lock:
            self._check()
            for hand in self._hands:
                hand.send(packed(message))

    def _share_out(self) -> None:
        while self._waiting:
            job, hand = self._waiting[0], min(self._hands, key=lambda h: h.load)
            share = job.rollouts.share
            if hand.load and hand.load >= share + share // AHEAD:
                return
            self._waiting.popleft()
            hand.load += len(job.branches)
            hand.jobs[job.number] = job
            hand.send(job.packed)

    def _check(self) -> None:
        if self.failure is not None or self._closing:
            raise PolicyError(self.failure or "the rollout processes were closed", fatal=True)

    # --- what the processes say

    def _listen(self) -> None:
        while not self._closing and self.failure is None:
            sources: dict[Any, _Hand] = {hand.pipe: hand for hand in self._hands}
            sources |= {hand.process.sentinel: hand for hand in self._hands}
            ready = wait([*sources, self._bell])
            for hand in {sources[r].number: sources[r] for r in ready if r in sources}.values():
                try:
                    message = hand.pipe.recv() if hand.pipe.poll() else None
                except (EOFError, OSError):
                    message = None
                except Exception as e:  # an object that this process cannot make
                    self._fail(f"what rollout process {hand.number} sent cannot be read: {e!r}")
                    continue
                if message is None:
                    self._gone(hand)
                else:
                    self._heard(hand, *message)

    def _heard(self, hand: _Hand, kind: str, *more: Any) -> None:
        match kind, *more:
            case ("open",):
                hand.open.set_result(None)
            case "failed", error:
                if hand.open.done():
                    self._fail(f"rollout process {hand.number} failed: {error}")
                else:
                    hand.open.set_exception(error)
            case "did", number, error:
                answer = hand.calls.pop(number)
                if error is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(error)
            case "picture", number, png:
                if (rollouts := self._rollouts.get(number)) is not None:
                    rollouts.store(png)
            case "record", number, record, ledger, used:
                self._use(hand, used)
                if (job := hand.jobs.get(number)) is not None:
                    job.tell("record", record, ledger)
            case "over", number, error, used:
                self._use(hand, used)
                with self._lock:
                    job = hand.jobs.pop(number, None)
                    if job is None:  # the crew is ending
                        return
                    hand.load -= len(job.branches)
                    if not self._closing:
                        self._share_out()
                job.tell("over", error)

    def _use(self, hand: _Hand, used: dict[str, float]) -> None:
        """Add to the policy's usage what a process has used since it last told."""
        usage = self.policy.usage
        for name, value in used.items():
            more = value - hand.used.get(name, 0.0)
            note = name.removeprefix("notes.")
            if note != name:
                usage.notes[note] = usage.notes.get(note, 0.0) + more
            elif more:
                had = getattr(usage, name)
                setattr(usage, name, had + (int(more) if isinstance(had, int) else more))
        hand.used = used

    def _gone(self, hand: _Hand) -> None:
        hand.process.join(GRACE_S)
        code = hand.process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        hint = "; where memory ran out, take fewer processes" if how == "signal SIGKILL" else ""
        self._fail(f"rollout process {hand.number} of {self.processes} ended ({how}){hint}")

    def _fail(self, reason: str) -> None:
        with self._lock:
            if self._closing or self.failure is not None:
                return
            self.failure = reason
        self._kill()
        self._drop(reason)

    def _drop(self, reason: str) -> None:
        """All that is under way fails."""
        with self._lock:
            jobs = [*self._waiting, *(job for hand in self._hands for job in hand.jobs.values())]
            self._waiting.clear()
            calls = [hand.open for hand in self._hands] + [f for hand in self._hands for f in hand.calls.values()]
            for hand in self._hands:
                hand.jobs, hand.calls = {}, {}
        for call in calls:
            if not call.done():
                call.set_exception(PolicyError(reason, fatal=True))
        for job in jobs:
            job.tell("over", PolicyError(reason, fatal=True))

    def _kill(self) -> None:
        for hand in self._hands:
            if hand.process.is_alive():
                hand.process.kill()


@dataclass(slots=True, eq=False)
class _Hand:
    """One process as the parent knows it."""

    number: int
    process: Any
    pipe: Connection
    open: Future[None] = field(default_factory=Future)
    load: int = 0
    """Branches of its groups."""
    jobs: dict[int, Job] = field(default_factory=dict)
    calls: dict[int, Future[None]] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    _sending: threading.Lock = field(default_factory=threading.Lock)

    def send(self, packed: Any) -> None:
        with self._sending, suppress(OSError):  # it is gone, which the listener hears
            self.pipe.send_bytes(packed)
