"""Who decides for the batch runner: a policy that measures, one question after the other, or a model, many at a time.

Whatever a decision gives is told on the thread of the batch, which alone writes into the run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from specvet.records import DiskFullError
from specvet.records.schema import Question, TrajectoryRecord
from specvet.tasks import Task
from specvet.tools import ZoomTool

if TYPE_CHECKING:
    from specvet.agent import Engine

WAIT_S = 0.2
"""How long one waits for a decision before one looks whether to stop."""

Outcome = TrajectoryRecord | Exception
"""A trajectory, or what broke while it was made."""

Tell = Callable[[Outcome], None]

Ask = Callable[[Question, Task, ZoomTool], TrajectoryRecord]


class Decider(Protocol):
    """Makes decisions and tells of each when it is made.

    All may raise what every other spectrum would meet as well: a fatal PolicyError, DiskFullError, MemoryError.
    """

    def begin(self, question: Question, task: Task, tool: ZoomTool, tell: Tell) -> bool:
        """Begin one; False where it was to stop before it could be begun."""
        ...

    def finish(self) -> None:
        """Wait for all that were begun."""
        ...

    def abandon(self) -> None:
        """Give up those under way, and tell of those that were over by now."""
        ...


class OneByOne:
    """Decides when it is asked."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def begin(self, question: Question, task: Task, tool: ZoomTool, tell: Tell) -> bool:
        tell(outcome_of(lambda: self._ask(question, task, tool)))
        return True

    def finish(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class ManyAtOnce:
    """Asks an engine, which keeps `concurrency` questions under way; told in the order in which they are over."""

    def __init__(self, engine: Engine, concurrency: int, stop: threading.Event) -> None:
        self._engine, self._stop = engine, stop
        # A few more than run, so that the engine never waits for a file to be read.
        self._most = concurrency + max(1, concurrency // 4)
        self._under_way: dict[Future[Any], Tell] = {}
        self._over: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def begin(self, question: Question, task: Task, tool: ZoomTool, tell: Tell) -> bool:
        while len(self._under_way) >= self._most:
            if self._stop.is_set():
                return False
            self._take(wait=True)
        future = self._engine.submit(question, task, tool)
        self._under_way[future] = tell
        future.add_done_callback(self._over.put)
        while self._take(wait=False):
            pass
        return True

    def finish(self) -> None:
        while self._under_way:
            self._take(wait=True)

    def abandon(self) -> None:
        for future in self._under_way:
            future.cancel()
        while self._under_way:
            try:
                future = self._over.get_nowait()
            except queue.Empty:
                return
            if not future.cancelled() and future.exception() is None:
                self._told(future)

    def _take(self, *, wait: bool) -> bool:
        """Tell of one that is over; False when there was none."""
        try:
            future = self._over.get(timeout=WAIT_S) if wait else self._over.get_nowait()
        except queue.Empty:
            return False
        self._told(future)
        return True

    def _told(self, future: Future[Any]) -> None:
        tell = self._under_way.pop(future)
        tell(outcome_of(lambda: future.result()[0]))


def outcome_of(made: Callable[[], TrajectoryRecord]) -> Outcome:
    """What `made` gives or raises; raises what is not this spectrum's own."""
    try:
        return made()
    except (DiskFullError, MemoryError):
        raise
    except Exception as e:  # one broken spectrum must not stop a night's batch
        if getattr(e, "fatal", False):  # of a model: every other spectrum would meet the same
            raise
        return e
