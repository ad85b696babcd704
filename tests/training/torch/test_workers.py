"""Processes in step: what they give, and that none outlives another's failure, or its parent."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import workers_lab
from workers_lab import KnownError, Member

from specvet.training.torch.workers import Workers, WorkersError


@contextmanager
def group(n: int) -> Iterator[tuple[Workers, Member]]:
    """Processes that are ready, and this one's member; all are gone afterwards."""
    mine = Member(0, "Hello")
    workers = workers_lab.workers(n, mine)
    try:
        workers.answers()
        yield workers, mine
    finally:
        workers.close()
    assert not any(process.is_alive() for process in workers._processes)


def test_every_process_runs_a_call_with_its_own_share() -> None:
    with group(2) as (workers, mine):
        told = workers.together(mine, "greet", [("you",), ("him",), ("her",)])
        assert told == ["Hello you, says 0", "Hello him, says 1", "Hello her, says 2"]
        workers.send("interrupt", [(), ()])
        assert workers.answers() == ["still here", "still here"]  # Ctrl-C is for the parent
        workers.close()
        workers.close()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", r"process 2: Traceback(.|\n)*ValueError: a bug"),
        ("refuse", r"^process 2: out of memory: take less$"),
        ("die", r"^process 2 ended \(signal SIGKILL\)$"),
    ],
)
def test_one_that_fails_ends_the_waiting_of_all(how: str, said: str) -> None:
    with group(2) as (workers, mine):
        with pytest.raises(WorkersError, match=said):
            workers.together(mine, "meet", [(), (), (how,)])
        with pytest.raises(WorkersError, match=said):  # and stays so
            workers.together(mine, "greet", [("you",)] * 3)


def test_an_error_here_ends_the_others() -> None:
    with group(1) as (workers, mine):
        with pytest.raises(KnownError, match="take less"):
            workers.together(mine, "meet", [("refuse",), ()])
        with pytest.raises(WorkersError, match=r"^process 0: out of memory: take less$"):
            workers.together(mine, "greet", [("you",)] * 2)


def test_one_that_cannot_begin_says_why() -> None:
    mine = Member(0, "refuse")
    workers = workers_lab.workers(2, mine, greeting="refuse")
    try:
        with pytest.raises(WorkersError, match=r"^process 2: no such greeting$"):
            workers.answers()
    finally:
        workers.close()


def test_silence_ends_at_a_time_limit() -> None:
    with group(1) as (workers, mine):
        workers.timeout_s = 0.5
        with pytest.raises(WorkersError, match="nothing was heard"):
            workers.together(mine, "meet", [(), ()])


def test_processes_of_a_killed_parent_end() -> None:
    command = [sys.executable, str(Path(workers_lab.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert re.fullmatch(r"\d+ \d+\n", parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        assert parent.communicate(timeout=30)[0] == ""  # the end of the output: nobody has it any more
