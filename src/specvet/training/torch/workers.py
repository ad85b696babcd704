"""Processes that run the same calls as this one, in step with it. If one of them fails, all of them end, and nobody
waits for what will never come.

A call goes to every process at a time; inside it they wait for each other in collective operations. So a process that
raises or dies leaves the others waiting. A thread here listens to all of them: the first that fails is what this
process is told, the others are killed, and its own waiting is broken off. A process whose parent is gone ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

T = TypeVar("T")

# "spawn" starts new interpreters: CUDA does not survive a fork, nor do locks that other threads hold.
_CONTEXT = multiprocessing.get_context("spawn")
TIMEOUT_S = 1_200.0
"""No process takes longer between two signs of life: a micro-batch, or loading a model."""
GRACE_S = 10.0
"""Within it a failure here shows as one of another process, and a process that is told to end does."""
SETTLED_S = 1.0
"""Between the failures of two processes, the one following from the other."""


class WorkersError(RuntimeError):
    """A process failed; the message says which, and how. All others have been ended."""


class Workers:
    """`n` processes of rank 1 to n; each makes `make(rank, *arguments)` and runs its methods as they are called here.

    `make` is a function or class of a module, `arguments` can be pickled. `broken` is called when a process fails, from
    another thread: it must release this process from whatever it waits for.
    """

    def __init__(
        self,
        n: int,
        make: Callable[..., Any],
        arguments: Sequence[Any],
        *,
        expected: Callable[[BaseException], str | None],
        broken: Callable[[], None],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`expected` gives the message of an error that needs no traceback, None for others."""
        self.failure: str | None = None
        self._expected, self._broken = expected, broken
        self.timeout_s = timeout_s
        self._lock, self._failed, self._closing = threading.Lock(), threading.Event(), False
        self._odd: dict[int, str] = {}
        """Errors whose cause is not known, in the order in which they were heard."""
        self._heard = self._since = time.monotonic()
        self._waiting = True
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._answers: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(n)]
        for rank in range(1, n + 1):
            mine, theirs = _CONTEXT.Pipe()
            target = (theirs, make, rank, tuple(arguments), expected)
            process = _CONTEXT.Process(target=_serve, args=target, name=f"specvet-rank-{rank}", daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(mine)
            self._processes.append(process)
        self._bell, self._rung = _CONTEXT.Pipe(duplex=False)
        self._listener = threading.Thread(target=self._listen, name="workers", daemon=True)
        self._listener.start()

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the processes, by rank."""
        return tuple(process.pid for process in self._processes)

    def together(self, mine: Any, name: str, shares: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call `name` with one share of arguments each, on `mine` here and on all others; the results by rank.

        An error here ends the others, since they would wait. Raises it, or WorkersError.
        """
        self.send(name, shares[1:])
        try:
            result = getattr(mine, name)(*shares[0])
        except BaseException as e:
            if self._expected(e) is None:  # it may have failed since another did, which is then about to be heard
                self._failed.wait(GRACE_S)
            if self.failure is not None:
                raise WorkersError(self.failure) from e
            self._fail(f"process 0: {self._expected(e) or repr(e)}")
            raise
        return [result, *self.answers()]

    def send(self, name: str, shares: Sequence[tuple[Any, ...]]) -> None:
        """Let each begin. Raises WorkersError."""
        self.alive()
        self._waiting = True
        for pipe, share in zip(self._pipes, shares, strict=True):
            try:
                pipe.send((name, share))
            except OSError:  # it is gone, which the listener is about to hear
                self._failed.wait(GRACE_S)
        self._check()

    def answers(self) -> list[Any]:
        """What each gave. Raises WorkersError."""
        given = [answer.get() for answer in self._answers]
        self._waiting = False
        self._check()
        return given

    def alive(self) -> None:
        """A sign of life of this process."""
        self._heard = time.monotonic()

    def close(self) -> None:
        """End all. May be called twice."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._rung.send(None)
        self._listener.join()
        for pipe in self._pipes:
            pipe.close()
        ends = [process.sentinel for process in self._processes]
        until = time.monotonic() + GRACE_S
        while ends and (left := until - time.monotonic()) > 0:
            gone = wait(ends, left)
            ends = [end for end in ends if end not in gone]
        self._kill()
        for process in self._processes:
            process.join(GRACE_S)
        for pipe in (self._bell, self._rung):
            pipe.close()

    def _check(self) -> None:
        if self.failure is not None:
            raise WorkersError(self.failure)

    def _listen(self) -> None:
        while not self._closing and self.failure is None:
            sources: dict[Any, int] = {pipe: i for i, pipe in enumerate(self._pipes) if i not in self._odd}
            sources |= {p.sentinel: i for i, p in enumerate(self._processes) if i not in self._odd}
            ready = wait([*sources, self._bell], timeout=1.0)
            for i in sorted({sources[source] for source in ready if source in sources}):
                self._hear(i)
            now = time.monotonic()
            if self._odd and now - self._since > SETTLED_S:  # nobody else had a better reason
                self._fail(next(iter(self._odd.values())))
            elif self._waiting and now - self._heard > self.timeout_s:
                self._fail(f"nothing was heard of one of the processes for {self.timeout_s:.0f} s; they were ended")

    def _hear(self, i: int) -> None:
        """What a process has to say, or that it is gone. An error of no known cause may follow from the end of another
        process, which shows soon."""
        process = self._processes[i]
        try:
            kind, value = self._pipes[i].recv() if self._pipes[i].poll() else ("gone", None)
        except (EOFError, OSError):
            kind = "gone"
        if kind == "done":
            self.alive()
            self._answers[i].put(value)
        elif kind == "expected":
            self._fail(f"process {i + 1}: {value}")
        elif kind == "odd":
            self._since = time.monotonic() if not self._odd else self._since
            self._odd[i] = f"process {i + 1}: {value}"
        else:
            process.join(GRACE_S)
            code = process.exitcode
            how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
            self._fail(f"process {i + 1} ended ({how})")

    def _fail(self, reason: str) -> None:
        with self._lock:
            if self.failure is not None or self._closing:
                return
            self.failure = reason
        self._kill()
        self._failed.set()
        for answer in self._answers:
            answer.put(None)
        self._broken()

    def _kill(self) -> None:
        for process in self._processes:
            if process.is_alive():
                process.kill()


def _serve(
    pipe: Connection,
    make: Callable[..., Any],
    rank: int,
    arguments: tuple[Any, ...],
    expected: Callable[[BaseException], str | None],
) -> None:
    """What a worker process runs. Ends at once and hard, so that nothing of it waits for the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        mine = make(rank, *arguments)
        pipe.send(("done", None))
        while True:
            name, share = pipe.recv()
            pipe.send(("done", getattr(mine, name)(*share)))
    except EOFError:
        pass
    except BaseException as e:
        code = 1
        told = expected(e)
        with contextlib.suppress(OSError):
            pipe.send(("odd", traceback.format_exc()) if told is None else ("expected", told))
    os._exit(code)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
