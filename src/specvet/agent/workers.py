"""Threads for what must not hold up an event loop, each job with a deadline of its own."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Workers:
    """`n` threads that work off jobs in order. A job that misses its deadline keeps its thread, which is replaced.

    They are daemons: one that never returns does not keep the program from ending, as those of `asyncio.to_thread`
    would.
    """

    def __init__(self, n: int, name: str = "specvet-worker") -> None:
        if n < 1:
            raise ValueError(f"{n} threads; at least 1 is needed")
        self._name = name
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._n = 0
        for _ in range(n):
            self._start()

    async def run(self, function: Callable[[], T], seconds: float | None = None) -> T:
        """What `function` returns or raises. TimeoutError when it takes longer, counted from when it begins."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(function, loop, future, seconds, self._start))
        return await future

    def close(self) -> None:
        """Let the threads end when they have nothing left to do."""
        for _ in range(self._n):
            self._jobs.put(None)

    def _start(self) -> None:
        self._n += 1
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.work()
            if job.late:
                return


class _Job(Generic[T]):
    def __init__(
        self,
        function: Callable[[], T],
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[T],
        seconds: float | None,
        replace: Callable[[], None],
    ) -> None:
        self.function, self.loop, self.future, self.seconds, self._replace = function, loop, future, seconds, replace
        self.late = False
        self._timer: asyncio.TimerHandle | None = None

    def work(self) -> None:
        if self.future.cancelled():
            return
        if self.seconds is not None:
            self._tell(self._began)
        try:
            value = self.function()
        except BaseException as e:  # handed to whoever waits
            error = e
            self._tell(lambda: self._end(lambda: self.future.set_exception(error)))
        else:
            self._tell(lambda: self._end(lambda: self.future.set_result(value)))

    def _tell(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            self.loop.call_soon_threadsafe(what)

    def _began(self) -> None:
        if self.seconds is not None and not self.future.done():
            self._timer = self.loop.call_later(self.seconds, self._miss)

    def _miss(self) -> None:
        if not self.future.done():
            self.late = True
            self._replace()
            self.future.set_exception(TimeoutError(f"not done within {self.seconds:g} s"))

    def _end(self, finish: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.future.done():
            finish()
