"""The server: a clean process with one thread that has SymPy loaded and forks workers.

    python -m specvet.tools.sympy_tool.server FD

FD is a socket to the owner, the process that started it. The first message to the owner is one line, what `isolate`
did. Then it reads orders of one line each: `w` forks a worker and sends its process id with the socket to talk to it;
`e PID` ends a worker with its group; `s PID` ends it, too, and sends its wait status. Messages to the owner have a
fixed length. Workers that end are reaped at once. When the socket closes, the server ends all workers and itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys

from specvet.tools.sympy_tool import worker
from specvet.tools.sympy_tool.isolation import isolate
from specvet.tools.sympy_tool.messages import MESSAGE

WARM = (
    "solve(a*x**2 + b*x + c == 0, x)", "solve([x + y == 3, x*y == 2], [x, y])", "solve(x**2 < 4, x)",
    "simplify(sin(x)**2 + cos(x)**2)", "integrate(x*exp(-x**2), (x, 0, oo))", "integrate(1/(1 + x**2), x)",
    "dsolve(diff(y(t), t, 2) + w**2*y(t) == 0, y(t))", "limit(sin(x)/x, x, 0)", "series(exp(x), x, 0, 4)",
    "summation(k**2, (k, 1, n))", "eigenvals([[2, 1], [1, 2]])", "inv([[a, b], [c, d]])", "factor(x**3 - 1)",
    "apart(1/(x**2 - 1))", "N(integrate(exp(-x**2), (x, 0, 1)))", "convert(3.6*km/h, m/s)", "nsolve(cos(x) == x, x, 1)",
    "Piecewise((1, x > 0), (0, True))", "trigsimp(2*sin(x)*cos(x))",
)  # fmt: skip
"""Asked once at the start, so that workers find modules imported and tables filled."""

PARENT_CHECK_S = 5.0


class Server:
    """Workers that live, and the socket to the owner."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.alive: set[int] = set()
        self.ended: dict[int, int] = {}
        """Wait status of workers that ended by themselves, until the owner's order about them comes."""
        self.wake_read, self.wake_write = socket.socketpair()
        for end in (self.wake_read, self.wake_write):
            end.setblocking(False)

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write.fileno(), warn_on_full_buffer=False)
        parent, pending = os.getppid(), b""
        while os.getppid() == parent:
            ready, _, _ = select.select([self.control, self.wake_read], [], [], PARENT_CHECK_S)
            if self.control in ready:
                said = self.control.recv(4096)
                if not said:
                    return
                *lines, pending = (pending + said).split(b"\n")
                for line in lines:
                    self.obey(line)
            if self.wake_read in ready:
                with contextlib.suppress(BlockingIOError):
                    while self.wake_read.recv(4096):
                        pass
                self.reap()

    def obey(self, line: bytes) -> None:
        order, _, number = line.partition(b" ")
        if order == b"w":
            pid, channel = worker.fork([self.control, self.wake_read, self.wake_write])
            self.alive.add(pid)
            with channel:
                socket.send_fds(self.control, [MESSAGE % (b"w", pid)], [channel.fileno()])
            return
        pid = int(number)
        status = self.ended.pop(pid, -1)
        if pid in self.alive:
            self.kill(pid)
            _, status = os.waitpid(pid, 0)
            self.alive.discard(pid)
        if order == b"s":
            self.control.sendall(MESSAGE % (b"s", status))

    def kill(self, pid: int) -> None:
        """End the worker's group. It is not reaped yet, so the number is still its own."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)

    def reap(self) -> None:
        for pid in list(self.alive):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self.alive.discard(pid)
                self.ended[pid] = status

    def close(self) -> None:
        for pid in self.alive:
            self.kill(pid)
        for pid in self.alive:
            os.waitpid(pid, 0)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, whose end this process sees
    for line in WARM:
        worker.answer(line, 512)
    worker.read_by_grammar()
    active = isolate()
    gc.collect()
    gc.freeze()  # collections in workers then copy no pages
    control.sendall(",".join(active).encode() + b"\n")
    server = Server(control)
    try:
        server.run()
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        server.close()


if __name__ == "__main__":
    main()
