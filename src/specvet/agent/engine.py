"""The `Engine`: rollouts for programs that are not asynchronous, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from specvet.agent.budget import DEFAULT_BUDGET, Budget
from specvet.agent.crew import Crew
from specvet.agent.crew_rollouts import rollouts_with
from specvet.agent.guard import undecided
from specvet.agent.rollout import Tally
from specvet.agent.stage import KeepImage
from specvet.agent.talk import ModelPolicy
from specvet.policies.tokens import SamplingParams
from specvet.records.schema import Question, TrajectoryRecord
from specvet.tasks import Task, Wording
from specvet.tools import ZoomTool
from specvet.views import RenderPool

T = TypeVar("T")

CLOSE_S = 30.0
"""Seconds that a policy may take to close before it is left alone."""


class Engine:
    """Rolls out questions with one policy, which it closes at its end; a context manager. Its methods may block.

    Everything that touches the policy runs on the engine's loop: a policy may keep connections that belong to a loop.
    """

    def __init__(
        self,
        policy: ModelPolicy,
        budget: Budget = DEFAULT_BUDGET,
        params: SamplingParams | None = None,
        *,
        pool: RenderPool | None = None,
        keep_image: KeepImage | None = None,
        concurrency: int = 64,
        wording: Wording = "full",
        guard: bool = False,
        crew: Crew | None = None,
    ) -> None:
        """`guard`: the program says UNSURE itself where nobody could decide, see `specvet.agent.guard`. With `crew`,
        whose `policy` this is, its processes roll out; it stays its owner's."""
        self.policy = policy
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="specvet-rollouts", daemon=True)
        self._thread.start()
        self.guarded = guard
        self._rollouts = rollouts_with(
            policy,
            budget,
            params,
            crew=crew,
            pool=pool,
            keep_image=keep_image,
            concurrency=concurrency,
            wording=wording,
            guard=undecided if guard else None,
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def budget(self) -> Budget:
        return self._rollouts.budget

    @property
    def params(self) -> SamplingParams:
        return self._rollouts.params

    @property
    def wording(self) -> Wording:
        return self._rollouts.wording

    @property
    def tally(self) -> Tally:
        """What has happened so far; it changes while one looks."""
        return self._rollouts.tally

    def submit(
        self,
        question: Question,
        task: Task,
        tool: ZoomTool,
        n: int = 1,
        *,
        only: Collection[int] | None = None,
        done: Callable[[TrajectoryRecord], None] | None = None,
    ) -> concurrent.futures.Future[list[TrajectoryRecord]]:
        """Begin a group, see `Rollouts.group`; `done` is called on the engine's thread and must not block."""
        return self.start(self._rollouts.group(question, task, tool, n, only=only, done=done))

    def ask(self, question: Question, task: Task, tool: ZoomTool) -> TrajectoryRecord:
        """One trajectory, waited for. Raises as `Rollouts.group`."""
        (record,) = self.wait(self._rollouts.group(question, task, tool))
        return record

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives that runs on the engine's loop. Ctrl-C cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what is under way, close the policy, end the thread. Twice is once."""
        if self._loop.is_closed():
            return
        try:
            self.start(self._end()).result(CLOSE_S)
        except TimeoutError:
            pass
        finally:
            self._rollouts.close()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_S)
            if not self._thread.is_alive():
                self._loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin a coroutine on the engine's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _end(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.policy.aclose()
        await self._loop.shutdown_asyncgens()
