"""From producers to batches on their way to a GPU: a thread that the loop never waits for, if it can be helped.

A batch is made of pieces of about one length that different producers made. Where the loop is faster than they are,
batches are made once more of pieces that were used before, up to `repeats` times in all; the counts say how many.
"""

from __future__ import annotations

import bisect
import multiprocessing
import os
import queue
import random
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from specvet.data.processes import signals_held
from specvet.training.base.batch import Batch, batch_of
from specvet.training.base.config import BaseConfig
from specvet.training.base.encoding import Piece, joined
from specvet.training.base.memory import SLOT_BYTES, SLOTS, Letter, Slots, folder_for
from specvet.training.base.producing import Order, Trouble, produce
from specvet.training.base.source import Source

PIECE = 32
"""Documents of a piece."""
WINDOW = 4
"""Pieces' worth of documents that a producer sorts together."""
WAITING_AT_LEAST, WAITING_AT_MOST = 2, 8
"""Batches' worth of new pieces: from as many on one is made, so that there is a choice of lengths; and as many wait."""
AGAIN_AT_LEAST = 8
"""Batches' worth of used pieces, before any is used again."""
AGAIN_BYTES = 2 << 30
READY = 3
"""Batches that wait for the loop."""
LENGTH_UNIT = 64
"""Lengths of batches are multiples of it, so that a GPU sees few shapes."""
PATIENCE_S = 300.0
"""For the first batch, and for any other."""


class FeedError(RuntimeError):
    """Documents cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What did not come of the producers' work."""

    too_long: int = 0
    failed: int = 0
    """Left out since making or encoding them raised an error; the rest of their stretch is lost with them."""
    first_failure: str = ""
    """Where and why."""
    lost_producers: int = 0


@dataclass(slots=True, eq=False)
class _Used:
    piece: Piece
    times: int


class Feed:
    """A context manager: producers run while it is open."""

    def __init__(self, config: BaseConfig, source: Source, vocabulary: Path, workers: int, *, pinned: bool) -> None:
        self.config, self.source, self.workers, self.pinned = config, source, workers, pinned
        self.vocabulary = vocabulary
        self.counts = Counts()
        self.held_out: list[Piece] = []
        """Whole once `start` has returned."""
        self._piece = min(PIECE, config.batch)
        self._waiting: list[Piece] = []
        self._used: list[_Used] = []
        self._used_bytes = 0
        self._out: queue.Queue[Batch] = queue.Queue(READY)
        self._stop = threading.Event()
        self._all_ready = threading.Event()
        self._error: BaseException | None = None
        self._random = random.Random(config.seed)
        self._pipes: dict[Connection, Slots] = {}
        self._processes: list[Any] = []
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._folder: Path | None = None
        self._starting: set[Connection] = set()
        """Of producers that have not handed on all that is measured by."""

    def __enter__(self) -> Feed:
        self._folder = folder_for(self.workers * SLOTS * SLOT_BYTES)
        share = -(-self.config.held_out // self.workers)
        spawn = multiprocessing.get_context("spawn")
        try:
            with signals_held(), _one_thread_each():
                for number in range(self.workers):
                    mine, theirs = spawn.Pipe()
                    path = self._folder / f"{number}"
                    self._pipes[mine] = Slots(path, create=True)
                    self._starting.add(mine)
                    order = Order(
                        self.source, self.vocabulary, number, self.workers, self._piece, WINDOW * self._piece, share,
                        self.config.max_tokens, path,
                    )  # fmt: skip
                    process = spawn.Process(target=produce, args=(order, theirs), daemon=True)
                    process.start()
                    theirs.close()
                    self._processes.append(process)
        except BaseException:
            self._close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with suppress(queue.Empty):
            while True:
                self._out.get_nowait()
        self._thread.join(30)
        self._close()

    def wait_for_held_out(self, stopping: threading.Event) -> None:
        """Until every producer has handed on what is measured by. Raises FeedError."""
        while not self._all_ready.wait(0.1):
            if stopping.is_set():
                return
            self._raise()
        self._raise()

    def get(self, stopping: threading.Event) -> Batch | None:
        """The next batch; None where somebody wants the loop to stop. Raises FeedError."""
        until = time.monotonic() + PATIENCE_S
        while not stopping.is_set():
            try:
                return self._out.get(timeout=0.1)
            except queue.Empty:
                self._raise()
                if time.monotonic() > until:
                    raise FeedError(f"no batch in {PATIENCE_S:g} s; are the processes starved of memory?") from None
        return None

    # --- the thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._take()
                self._make()
        except BaseException as e:
            self._error = e
            self._all_ready.set()

    def _take(self) -> None:
        """What producers have sent, unless enough waits already."""
        enough = self._n(self._waiting) >= WAITING_AT_MOST * self.config.batch
        if enough and not self._starting:
            time.sleep(0.005)
            return
        if not self._pipes:
            why = self.counts.first_failure or "they ended without a word; is memory short?"
            raise FeedError(f"no process is left that makes documents:\n{why}")
        # Nobody takes a batch before the slowest has started, so the fastest may fill what waits until then.
        for pipe in wait(list(self._starting if enough else self._pipes), timeout=0.02):
            assert isinstance(pipe, Connection)
            try:
                self._took(pipe, pipe.recv())
            except (EOFError, ConnectionError):
                self._lost(pipe)

    def _took(self, pipe: Connection, told: Letter | Trouble | str) -> None:
        if isinstance(told, Letter):
            piece = self._pipes[pipe].read(told)
            pipe.send(told.slot)
            if told.held_out:
                self.held_out.append(piece)
            else:
                bisect.insort(self._waiting, piece, key=lambda p: p.longest)
        elif isinstance(told, Trouble):
            c = self.counts
            first = c.first_failure or ("" if told.too_long else told.first)
            self.counts = replace(
                c, too_long=c.too_long + told.too_long, failed=c.failed + told.failed, first_failure=first
            )
            if told.fatal:
                self._lost(pipe)
        else:
            self._started(pipe)

    def _lost(self, pipe: Connection) -> None:
        self.counts = replace(self.counts, lost_producers=self.counts.lost_producers + 1)
        del self._pipes[pipe]
        pipe.close()
        self._started(pipe)

    def _started(self, pipe: Connection) -> None:
        self._starting.discard(pipe)
        if not self._starting:
            self._all_ready.set()

    def _make(self) -> None:
        """A batch, where the loop has room for one: of new pieces, or of used ones where it would wait."""
        if self._out.full():
            if self._n(self._waiting) >= WAITING_AT_MOST * self.config.batch:
                time.sleep(0.005)
            return
        batch = self.config.batch
        if self._n(self._waiting) >= WAITING_AT_LEAST * batch:
            pieces = self._chosen(self._waiting)
            again = False
            if self.config.repeats > 1:
                self._keep(_Used(p, 1) for p in pieces)
        elif self._out.empty() and sum(u.piece.n for u in self._used) >= AGAIN_AT_LEAST * batch:
            used = self._chosen_again()
            pieces = [u.piece for u in used]
            again = True
            self._keep(_Used(u.piece, u.times + 1) for u in used if u.times + 1 < self.config.repeats)
        else:
            return
        self._out.put(batch_of(joined(pieces, LENGTH_UNIT), pinned=self.pinned, again=again))

    def _chosen(self, waiting: list[Piece]) -> list[Piece]:
        """A batch's worth of neighbours in length, around one that chance chooses; they no longer wait."""
        first, last = self._around([p.n for p in waiting])
        chosen = waiting[first:last]
        del waiting[first:last]
        return chosen

    def _chosen_again(self) -> list[_Used]:
        self._used.sort(key=lambda u: u.piece.longest)
        first, last = self._around([u.piece.n for u in self._used])
        chosen = self._used[first:last]
        del self._used[first:last]
        self._used_bytes -= sum(_n_bytes(u.piece) for u in chosen)
        return chosen

    def _around(self, sizes: Sequence[int]) -> tuple[int, int]:
        """From and to which of them a batch is, around a random one."""
        first = last = self._random.randrange(len(sizes))
        n = 0
        while n < self.config.batch and (first > 0 or last < len(sizes)):
            if last < len(sizes) and (first == 0 or self._random.random() < 0.5):
                n += sizes[last]
                last += 1
            else:
                first -= 1
                n += sizes[first]
        return first, last

    def _keep(self, used: Iterator[_Used]) -> None:
        for one in used:
            self._used.append(one)
            self._used_bytes += _n_bytes(one.piece)
        while self._used_bytes > AGAIN_BYTES:
            gone = self._used.pop(self._random.randrange(len(self._used)))
            self._used_bytes -= _n_bytes(gone.piece)

    def _n(self, pieces: Sequence[Piece]) -> int:
        return sum(p.n for p in pieces)

    # --- ends

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error if isinstance(self._error, FeedError) else FeedError(str(self._error)) from self._error

    def _close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        until = time.monotonic() + 2.0
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
        for process in self._processes:
            if process.is_alive():  # in the middle of a stretch, or still starting
                process.kill()
                process.join()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _n_bytes(piece: Piece) -> int:
    return sum(shown.pixels.nbytes for shown in piece.shown) + 7 * piece.ids.nbytes // 2


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """What starts in this block computes on one thread; there is a process for every core."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ |= dict.fromkeys(names, "1")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
