"""Drawing with a deadline: processes that draw views, so that a stuck figure costs one of them and nothing else."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from specvet.views.view import View

# "spawn" starts a new interpreter: safe where this process has threads (a fork may copy a held lock) and on macOS.
_CONTEXT = multiprocessing.get_context("spawn")
# An import of matplotlib takes about a second; on a machine without a font cache yet, the better part of a minute.
START_DEADLINE_S = 120.0

Drawing = Callable[[View], bytes]


class RenderError(RuntimeError):
    """A figure that could not be drawn; the message says why. The pool goes on."""


class RenderTimeout(TimeoutError):  # noqa: N818  named after its base
    """A figure that was not done by its deadline. Its process was killed and replaced; the pool goes on."""


def draw_view(view: View) -> bytes:
    """`view.png`: what a pool draws by default."""
    return view.png


class RenderPool:
    """Worker processes that turn views into PNG bytes; a context manager. Any number of threads may call `png`.

    Workers start when the context is entered, in the background. They are new interpreters ("spawn"), so a script
    that opens a pool needs the usual `if __name__ == "__main__":`. Their rcParams are their own.
    """

    def __init__(self, processes: int = 1, deadline_s: float = 20.0, draw: Drawing = draw_view) -> None:
        """
        Args:
            processes: how many figures at a time, ≥ 1.
            deadline_s: seconds that one figure may take, without the wait for a free worker or for its first start.
            draw: what draws, a module-level function (it is pickled by name).
        """
        if processes < 1 or not deadline_s > 0:
            raise ValueError(f"processes = {processes} and deadline_s = {deadline_s}; both must be positive")
        self.processes = processes
        """How many figures it draws at a time."""
        self._deadline_s = deadline_s
        self._draw = draw
        self._idle: queue.Queue[_Worker | None] = queue.Queue()
        self._lock = threading.Lock()
        self._workers: set[_Worker] = set()
        self._open = False

    def __enter__(self) -> RenderPool:
        with self._lock:
            if self._open:
                raise RuntimeError("this RenderPool is open already")
            self._open, self._idle = True, queue.Queue()
        for _ in range(self.processes):
            self._start_worker()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers, those that draw too: their callers get a `RenderError`. Twice is once."""
        with self._lock:
            self._open = False
            workers, self._workers = self._workers, set()
        for worker in workers:
            worker.kill()  # pipes stay: a thread may be waiting at one, and is woken by its end
        self._idle.put(None)

    def png(self, view: View, deadline_s: float | None = None) -> bytes:
        """The figure of `view`, drawn by a worker and kept in the view; at once where it is drawn already.

        `deadline_s` replaces the pool's own, in seconds.

        Raises:
            ValueError: the view cannot be drawn (fewer than 2 points); the message is that of `draw`.
            RenderTimeout: the deadline passed.
            RenderError: the worker died, drawing failed, or the pool is closed.
        """
        if view.drawn:
            return view.png
        worker = self._take()
        try:
            answer = worker.ask(view, self._deadline_s if deadline_s is None else deadline_s)
        except BaseException as error:
            # Stuck, dead, or interrupted half-way through an answer: it cannot be trusted with the next question.
            self._discard(worker)
            if isinstance(error, RenderError) and not self._open:
                raise RenderError(f"this RenderPool was closed while it drew {view!r}") from None
            raise
        self._idle.put(worker)
        if isinstance(answer, bytes):
            view.keep(answer)
            return answer
        raise answer

    def _take(self) -> _Worker:
        if not self._open:
            raise RenderError("this RenderPool is not open; use it as `with RenderPool() as pool:`")
        worker = self._idle.get()
        if worker is None:
            self._idle.put(None)  # for the next one who waits
            raise RenderError("this RenderPool was closed while a figure waited for a worker")
        return worker

    def _discard(self, worker: _Worker) -> None:
        with self._lock:
            self._workers.discard(worker)
            still_open = self._open
        worker.kill()
        worker.hang_up()
        if still_open:
            self._start_worker()

    def _start_worker(self) -> None:
        with self._lock:
            if not self._open:
                return
            worker = _Worker(self._draw)
            self._workers.add(worker)
        self._idle.put(worker)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, draw: Drawing) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(theirs, draw), name="specvet-render", daemon=True)
        self._process.start()
        theirs.close()  # so that a dead worker is an EOFError here
        self._started = False

    def ask(self, view: View, deadline_s: float) -> bytes | ValueError | RenderError:
        try:
            if not self._started:
                if not self._pipe.poll(START_DEADLINE_S):
                    raise RenderError(f"a drawing process did not start within {START_DEADLINE_S:g} s")
                self._pipe.recv()
                self._started = True
            self._pipe.send(view)
            if not self._pipe.poll(deadline_s):
                raise RenderTimeout(f"{view!r} was not drawn within {deadline_s:g} s")
            kind, content = self._pipe.recv()
        except (EOFError, OSError) as error:
            if isinstance(error, RenderTimeout):
                raise
            raise RenderError(self._obituary(view)) from error
        if kind == "png":
            return bytes(content)
        return ValueError(content) if kind == "value" else RenderError(f"{view!r}: {content}")

    def kill(self) -> None:
        """Ends the process and waits for it, so that no zombie stays. From any thread, more than once."""
        self._process.kill()
        self._process.join()

    def hang_up(self) -> None:
        """Closes the pipe; only for the thread that uses it."""
        self._pipe.close()

    def _obituary(self, view: View) -> str:
        self._process.join(1.0)
        code = self._process.exitcode
        if self._started:
            return f"the process that drew {view!r} died with exit code {code}"
        return f'a drawing process died at its start (exit code {code}); is `if __name__ == "__main__":` missing?'


def _serve(pipe: Connection[Any, Any], draw: Drawing) -> None:
    """A worker's life: imports, says so, and answers ("png", bytes), ("value", text) or ("error", text) until EOF."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    import matplotlib.backends.backend_agg  # noqa: F401  so that no figure's deadline pays for it

    with contextlib.suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            view = pipe.recv()
            try:
                answer: tuple[str, bytes | str] = ("png", draw(view))
            except ValueError as error:
                answer = ("value", str(error))
            except Exception as error:
                answer = ("error", f"{type(error).__name__}: {error}")
            pipe.send(answer)
