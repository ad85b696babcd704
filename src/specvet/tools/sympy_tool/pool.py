"""The owner's side: a server process, and calls to its workers from any thread."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import specvet
from specvet.tools.sympy_tool.limits import Limits
from specvet.tools.sympy_tool.messages import MESSAGE_LENGTH

START_S = 60.0
"""For the server to import SymPy; a second or two unless the machine is very busy."""
REPLY_S = 10.0
"""For the server to hand out a worker."""
MAX_REPLY = 65_536


class ServerGoneError(OSError):
    """The server ended or does not answer."""


class Pool:
    """Runs lines in workers, `workers` at a time, each under its `Limits`.

    The server starts with the first call, and again if it was killed or this process was forked. `close` ends it;
    at the interpreter's exit this happens by itself.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or max(2, min(16, os.cpu_count() or 2))
        self.isolation: tuple[str, ...] = ()
        """What stands beside the grammar, see `isolation.isolate`; known once the server runs."""
        self._begin()
        atexit.register(self.close)

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self.workers)
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._stock: deque[tuple[int, socket.socket]] = deque()
        """Workers that wait for a call."""

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._server.pid if self._server else None

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads to call from, as many as workers."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="sympy")
            return self._threads

    def call(self, argument: str, limits: Limits) -> tuple[str, str, float]:
        """(kind, text, seconds) of one line; kind is empty for a value. Raises ServerGoneError, twice in a row gone."""
        if self._owner != os.getpid():  # forked: the socket is the other process's
            self._begin()
        with self._slots:
            try:
                pid, channel = self._worker()
            except ServerGoneError:
                pid, channel = self._worker()
            began = time.monotonic()
            with channel:
                kind, text = self._ask(pid, channel, argument, limits, began + limits.wall_s)
            return kind, text, time.monotonic() - began

    def _ask(self, pid: int, channel: socket.socket, argument: str, limits: Limits, deadline: float) -> tuple[str, str]:
        request = {
            "argument": argument, "output": limits.output, "wall_s": limits.wall_s, "cpu_s": limits.cpu_s,
            "memory_mb": limits.memory_mb,
        }  # fmt: skip
        said = b""
        try:
            channel.sendall(json.dumps(request).encode())
            while len(said) < MAX_REPLY:
                left = deadline - time.monotonic()
                if left <= 0 or not readable(channel, left):
                    self._end(pid)
                    return "timeout", f"the calculation took longer than {limits.wall_s:g} s"
                part = channel.recv(MAX_REPLY - len(said))
                if not part:
                    break
                said += part
                if said.endswith(b"]"):
                    break
            kind, text = json.loads(said)
        except (OSError, ValueError):
            return self._ended(pid, limits)
        self._end(pid)
        return str(kind), str(text)

    def _ended(self, pid: int, limits: Limits) -> tuple[str, str]:
        """Why a worker ended without an answer."""
        status = self._status(pid)
        signalled = os.WTERMSIG(status) if status > 0 and os.WIFSIGNALED(status) else 0
        if signalled in (signal.SIGXCPU, signal.SIGALRM):
            return "timeout", f"the calculation took longer than {limits.cpu_s:g} s"
        if signalled in (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT):
            return "memory", "the calculation was stopped by the system"
        return "internal", "the calculation ended without a result"

    def _worker(self) -> tuple[int, socket.socket]:
        """A worker that waits; the one that takes its place is ordered when it ends."""
        with self._lock:
            self._run()
            while not self._stock:
                self._read()
            return self._stock.popleft()

    def _end(self, pid: int) -> None:
        self._tell(b"e %d\nw\n" % pid)

    def _status(self, pid: int) -> int:
        """The wait status of a worker that ended, -1 where nobody knows it."""
        with self._lock, contextlib.suppress(ServerGoneError):
            if self._control is not None:
                self._order(b"s %d\nw\n" % pid)
                while (status := self._read()) is None:
                    pass
                return status
        return -1

    def _tell(self, order: bytes) -> None:
        """Give an order, unless the server is gone; its workers end with it."""
        with self._lock, contextlib.suppress(ServerGoneError):
            if self._control is not None:
                self._order(order)

    def _order(self, order: bytes) -> None:
        assert self._control is not None
        try:
            self._control.sendall(order)
        except OSError as error:
            self._stop()
            raise ServerGoneError("the server of the sympy tool does not answer") from error

    def _read(self) -> int | None:
        """Read one message: a worker, which goes to the stock, or a status. The lock is held."""
        if self._control is None:
            raise ServerGoneError("the server of the sympy tool does not answer")
        try:
            said, files, _, _ = socket.recv_fds(self._control, MESSAGE_LENGTH, 1)
            kind, number = said[:1], int(said[1:])
        except (OSError, ValueError) as error:
            self._stop()
            raise ServerGoneError("the server of the sympy tool does not answer") from error
        if kind == b"s":
            return number
        self._stock.append((number, socket.socket(fileno=files[0])))
        return None

    def _run(self) -> None:
        """Start the server if need be, and order the first workers. The lock is held."""
        if self._control is not None:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "specvet.tools.sympy_tool.server", str(theirs.fileno())],
                env=environment(),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        ours.settimeout(REPLY_S)
        self._control = ours
        said = ours.recv(MAX_REPLY) if readable(ours, START_S) else b""
        if not said:
            self._stop()
            raise ServerGoneError("the server of the sympy tool does not start; is SymPy installed (extra `physics`)?")
        self.isolation = tuple(said.decode().strip().split(",")) if said.strip() else ()
        self._order(b"w\n" * self.workers)

    def _stop(self) -> None:
        """End the server; its workers see that and end. The lock is held."""
        if self._control is not None:
            self._control.close()
            self._control = None
        while self._stock:
            self._stock.popleft()[1].close()
        if self._server is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(2.0)
            if self._server.poll() is None:
                self._server.kill()
                self._server.wait()
            self._server = None

    def close(self) -> None:
        """End the server and all workers. A later call starts another."""
        if self._owner != os.getpid():
            return
        with self._lock:
            self._stop()
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)


def readable(channel: socket.socket, seconds: float) -> bool:
    """Whether something can be read within `seconds`. `poll` has no largest file number, as `select` has."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1e3))


def environment() -> dict[str, str]:
    """The server's environment: where modules are, one thread, the same hashes in every run, and no secret."""
    places = [str(Path(specvet.__file__).parents[1]), *(p for p in sys.path if p and Path(p).is_dir())]
    return {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(places)),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }


@cache
def shared_pool() -> Pool:
    """The pool of this process, which all tools share."""
    return Pool()
