"""What a `Crew` rolls out: groups as `Rollouts` takes them, each in one of its processes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from specvet.agent.budget import DEFAULT_BUDGET, Budget
from specvet.agent.crew_worker import Begin, End, Roll
from specvet.agent.rollout import Guard, Rollouts, Tally
from specvet.agent.slots import branches_of
from specvet.agent.stage import KeepImage
from specvet.agent.talk import ModelPolicy
from specvet.chat import Ledger
from specvet.policies.tokens import PolicyError, SamplingParams
from specvet.records.schema import Question, TrajectoryRecord
from specvet.tasks import Task, Wording
from specvet.tools import ZoomTool
from specvet.views import RenderPool

if TYPE_CHECKING:
    from specvet.agent.crew import Crew

Ended = Callable[[TrajectoryRecord, Ledger | None], None]
"""Hears of a trajectory that is over, on the loop that asked."""


class CrewRollouts:
    """What `Rollouts` is, in the processes of a crew. Made by `Crew.rollouts`; `close` leaves the processes alone."""

    def __init__(
        self,
        crew: Crew,
        budget: Budget,
        params: SamplingParams | None,
        keep_image: KeepImage | None,
        concurrency: int,
        wording: Wording,
        guard: Guard | None,
    ) -> None:
        self.policy, self.budget, self.wording, self.guard = crew.policy, budget, wording, guard
        self.params = params or SamplingParams(budget.turn_tokens)
        self.tally = Tally()
        self.share = math.ceil(concurrency / crew.processes)
        """Branches of one process at a time."""
        self.number = next(crew._numbers)
        self._crew, self._keep = crew, keep_image
        self._unstored: BaseException | None = None
        can_be_sent = keep_image is None or _can_be_sent(keep_image)
        crew._rollouts[self.number] = self
        crew.tell(
            Begin(
                self.number,
                self.budget,
                self.params,
                self.share,
                wording,
                guard,
                keep_image if can_be_sent else None,
                hands_over=not can_be_sent,
            )
        )

    def close(self) -> None:
        """Nothing more is asked so. Twice is once."""
        if self._crew._rollouts.pop(self.number, None) is not None:
            with suppress(PolicyError):  # the processes are gone
                self._crew.tell(End(self.number))

    async def group(
        self,
        question: Question,
        task: Task,
        tool: ZoomTool,
        n: int = 1,
        *,
        only: Collection[int] | None = None,
        done: Callable[[TrajectoryRecord], None] | None = None,
        ended: Ended | None = None,
    ) -> list[TrajectoryRecord]:
        """As `Rollouts.group`, which see. Raises also TypeError and others for what cannot be sent to a process."""
        branches = branches_of(n, only)

        def over(record: TrajectoryRecord, ledger: Ledger | None) -> None:
            if self._unstored is not None:
                raise self._unstored
            if done is not None:
                done(record)
            if ended is not None:
                ended(record, ledger)

        number = next(self._crew._numbers)
        asked = Roll(number, self.number, question, task, tool, n, branches, ledgers=ended is not None)
        loop = asyncio.get_running_loop()
        job = Job(number, self, branches, packed(asked), over, loop, loop.create_future())
        self._crew.submit(job)
        self.tally.running += len(branches)
        try:
            await job.future
        finally:
            self.tally.running -= len(branches) - len(job.records)
            self._crew.call_off(job)
        return [job.records[branch] for branch in branches]

    def kept(self, job: Job, sample: int) -> None:
        self._crew.kept(job, sample)

    def store(self, png: bytes) -> None:
        """A picture that a process hands over. What the store raises ends the groups."""
        try:
            if self._keep is not None:
                self._keep(png)
        except BaseException as e:
            self._unstored = e

    def count(self, record: TrajectoryRecord) -> None:
        tally = self.tally
        tally.running -= 1
        tally.finished += 1
        tally.turns += len(record.turns)
        tally.calls += record.tool_calls
        if record.tokens is not None:
            tally.sampled += record.tokens.sampled or 0
            tally.prompt += record.tokens.prompt or 0
        tally.stops[record.stop] = tally.stops.get(record.stop, 0) + 1


AnyRollouts = Rollouts | CrewRollouts


def rollouts_with(
    policy: ModelPolicy,
    budget: Budget = DEFAULT_BUDGET,
    params: SamplingParams | None = None,
    *,
    crew: Crew | None = None,
    pool: RenderPool | None = None,
    keep_image: KeepImage | None = None,
    concurrency: int = 64,
    wording: Wording = "full",
    guard: Guard | None = None,
) -> AnyRollouts:
    """Rollouts with a policy: in the processes of its crew (given, or its own `crew`), else in this one. Processes of a
    crew draw themselves, and need no `pool`."""
    crew = crew or getattr(policy, "crew", None)
    if crew is None:
        return Rollouts(
            policy,
            budget,
            params,
            pool=pool,
            keep_image=keep_image,
            concurrency=concurrency,
            wording=wording,
            guard=guard,
        )
    return crew.rollouts(budget, params, keep_image=keep_image, concurrency=concurrency, wording=wording, guard=guard)


@dataclass(slots=True, eq=False)
class Job:
    """One group on its way."""

    number: int
    rollouts: CrewRollouts
    branches: list[int]
    packed: Any
    ended: Ended
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    records: dict[int, TrajectoryRecord] = field(default_factory=dict)

    def tell(self, kind: str, *more: Any) -> None:
        """From the listening thread, to the loop that waits."""
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            self.loop.call_soon_threadsafe(self._record if kind == "record" else self._over, *more)

    def _record(self, record: TrajectoryRecord, ledger: Ledger | None) -> None:
        if self.future.done():
            return
        try:
            self.rollouts.count(record)
            self.records[record.sample] = record
            self.ended(record, ledger)
            self.rollouts.kept(self, record.sample)
        except Exception as e:  # whoever waits is told, and calls off the rest
            self.future.set_exception(e)

    def _over(self, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None and len(self.records) < len(self.branches):
            error = PolicyError("a group was called off in its process", fatal=True)
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


def packed(message: Any) -> Any:
    """A message as `Connection.recv` reads it; made before it is sent, so that one that cannot be sent ends nothing."""
    return ForkingPickler.dumps(message)


def _can_be_sent(value: Any) -> bool:
    try:
        packed(value)
    except Exception:
        return False
    return True
