"""Worker processes: they leave signals to their parent, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import TypeVar

T = TypeVar("T")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of new interpreters ("spawn": safe where this process has threads, and the same on macOS).

    A script that uses it needs the usual `if __name__ == "__main__":`. Ctrl-C and SIGTERM reach the parent alone, from
    the first moment; work that waits when the block is left by an exception is not begun.
    """
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), begin_worker)
    try:
        with signals_held():  # a process inherits what is held, also while it imports
            for _ in range(workers):
                pool.submit(_nothing)
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def in_any_order(work: Callable[[int], T], items: Iterable[int], workers: int, stop: threading.Event) -> Iterator[T]:
    """What `work` gives for each item, as they get done; with one worker here, in order. After `stop` nothing more is
    begun. Raises OSError where a worker dies."""
    left = iter(items)
    if workers <= 1:
        for item in left:
            if stop.is_set():
                return
            yield work(item)
        return
    running: set[Future[T]] = set()
    with worker_pool(workers) as pool:
        while True:
            while len(running) < 2 * workers and not stop.is_set() and (begun := next(left, None)) is not None:
                running.add(pool.submit(work, begun))
            if not running:
                return
            try:
                ready, running = wait_for(running, return_when=FIRST_COMPLETED, timeout=1.0)
                yield from (future.result() for future in ready)
            except BrokenProcessPool as e:
                message = "a worker process died (out of memory?); the same call goes on, fewer workers need less"
                raise OSError(message) from e


@contextmanager
def signals_held() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the block is left."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing() -> None:
    pass


def begin_worker() -> None:
    """The first thing that a worker does: signals are its parent's, and so is its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
