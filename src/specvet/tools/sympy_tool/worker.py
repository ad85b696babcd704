"""The worker: one process, one call. It is forked before the call comes, waits for it, answers and ends."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any

from specvet.tasks.physics.grammar import GrammarError
from specvet.tools.sympy_tool.text import one_line

MAX_REQUEST = 16_384
FILES = 8
"""Open files of a worker; a few for modules that SymPy imports late."""
GRACE_S = 1.0
"""After the wall limit the kernel's own alarm ends a worker that nobody ended."""


def serve(channel: socket.socket) -> None:
    """Answer one request on `channel` and end the process. Never returns."""
    status = 1
    try:
        _confine()
        answer("x + 1", 512)  # touches the pages that every call writes to, before anybody waits
        request = json.loads(channel.recv(MAX_REQUEST) or b"{}")
        if request:
            _limit(request)
            kind, text = answer(request["argument"], request["output"])
            channel.sendall(json.dumps([kind, text]).encode())
        status = 0
    except MemoryError:
        channel.sendall(b'["memory", "the calculation needs too much memory"]')
    finally:
        os._exit(status)


def _confine() -> None:
    """Give up what a calculation does not need: other files, writing, children, dumps of memory."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(name, signal.SIG_DFL)
    for which, most in (
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (most, most))


def _limit(request: dict[str, Any]) -> None:
    memory = int(request["memory_mb"]) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = math.ceil(used.ru_utime + used.ru_stime + request["cpu_s"])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    signal.setitimer(signal.ITIMER_REAL, request["wall_s"] + GRACE_S)  # SIGALRM's default ends the process


def read_by_grammar() -> None:
    """Let SymPy read its own texts by the grammar instead of by `eval`.

    SymPy makes some, as `nsimplify` does for `simplify(1/(1 + sqrt(2)))`, and reads them back. No line of a model is
    among them; if one ever were, it would be held against the whitelist all the same.
    """
    from sympy.parsing import sympy_parser

    from specvet.tasks.physics.grammar import parse

    def refused(*_: object, **__: object) -> object:
        raise GrammarError("internal", "SymPy would run a text as a program")

    sympy_parser.parse_expr = lambda text, *_, **__: parse(text)
    sympy_parser.eval_expr = refused


def answer(argument: str, output: int) -> tuple[str, str]:
    """(kind, text) of one line: kind is empty for a value. Names of files and traces never reach the text."""
    from specvet.tasks.physics.grammar import evaluate, shown

    return guarded(lambda: one_line(shown(evaluate(argument)), output))


def guarded(calculation: Callable[[], str]) -> tuple[str, str]:
    """("", the text) of a calculation, or (kind, message) of what it raised."""
    try:
        return "", calculation()
    except GrammarError as error:
        return error.kind, error.message
    except MemoryError:
        return "memory", "the calculation needs too much memory"
    except RecursionError:
        return "too_large", "the calculation is nested too deeply"
    except ZeroDivisionError:
        return "domain", "division by zero"
    except OverflowError:
        return "too_large", "a number here is too large"
    except NotImplementedError:
        return "unsupported", "SymPy has no method for this; try N(…), nsolve(equation, x, guess) or a simpler form"
    except ValueError as error:
        if "digits" in str(error) and "limit" in str(error):  # Python prints integers of at most 4,300 digits
            return "too_large", "a number here has more than 4300 digits; use N(…)"
        return "domain", "SymPy finds no value for these arguments"
    except Exception as error:
        if type(error).__module__.startswith("sympy."):
            return "domain", "SymPy finds no value for these arguments"
        return "internal", f"SymPy failed with {type(error).__name__}" if type(
            error
        ).__module__ == "builtins" else "SymPy failed"


def fork(others: list[socket.socket]) -> tuple[int, socket.socket]:
    """A worker that waits for a request: its process id, which is its group, and the end to talk to it.

    `others` are sockets of this process that the worker must not keep open.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            for other in (*others, ours):
                other.close()
            os.dup2(theirs.fileno(), 3)
            os.closerange(4, 256)
            theirs.detach()
            serve(socket.socket(fileno=3))
        finally:
            os._exit(1)
    theirs.close()
    with contextlib.suppress(OSError):  # the worker did it first, or is gone
        os.setpgid(pid, pid)
    return pid, ours
