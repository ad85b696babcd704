"""What processes run in the tests of `Workers`, and a parent of such processes to be killed."""

from __future__ import annotations

import os
import signal
import sys
import threading

from specvet.training.torch.workers import Workers


class KnownError(Exception):
    """One whose message is enough."""


def expected(error: BaseException) -> str | None:
    return str(error) if isinstance(error, KnownError) else None


class Member:
    """A member of rank `rank`."""

    def __init__(self, rank: int, greeting: str) -> None:
        if greeting == "refuse" and rank == 2:
            raise KnownError("no such greeting")
        self.rank, self.greeting = rank, greeting
        self.released = threading.Event()

    def greet(self, name: str) -> str:
        return f"{self.greeting} {name}, says {self.rank}"

    def meet(self, *how: str) -> str:
        """Waits for the others for ever, as a collective operation would, unless `how` says what goes wrong."""
        if how == ("raise",):
            raise ValueError("a bug")
        if how == ("refuse",):
            raise KnownError("out of memory: take less")
        if how == ("die",):
            os.kill(os.getpid(), signal.SIGKILL)
        self.released.wait()
        raise OSError("the connection was closed")

    def interrupt(self) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "still here"


def workers(n: int, mine: Member, *, greeting: str = "Hello") -> Workers:
    """Processes beside this one, whose failure releases `mine`."""
    return Workers(n, Member, (greeting,), expected=expected, broken=mine.released.set)


if __name__ == "__main__":  # a parent whose processes have its standard output
    held = workers(2, Member(0, "Hello"))
    held.answers()
    print(*held.pids, flush=True)
    sys.stdin.read()
