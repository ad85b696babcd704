"""Two `specvet vet` of a model at work on one run: each row once, and what one that is killed had in hand is done."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_lab import SCRIPT, write_star

from specvet.records import RunFolder

sys.path.append(str(Path(__file__).parents[1] / "policies"))
from openai_lab import LoopbackServer, Said, completion

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs are shared by POSIX locks")

STARS = 40

Vet = Callable[..., "subprocess.Popen[str]"]


def answer(asked: Any) -> Said:
    """YES or NO by the picture that was sent alone."""
    said = json.dumps(asked.body["messages"])
    return completion(f"<answer>\\boxed{{{'YES' if sum(said.encode()) % 3 else 'NO'}}} It is so.</answer>")


class Gate:
    """Answers `n` requests, then says so and holds the others back, or goes on."""

    def __init__(self, n: int, *, hold: bool) -> None:
        self.left, self.hold = n, hold
        self.passed = threading.Event()

    def __call__(self, asked: Any) -> Said:
        if self.left <= 0 and self.hold:
            self.passed.set()
            return Said(fault="stall")
        self.left -= 1
        if self.left == 0 and not self.hold:
            self.passed.set()
        return answer(asked)


def gone() -> str:
    """An address at which nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{s.getsockname()[1]}/v1"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A list of SIMULATED spectra, all different."""
    names = [f"stars/{i}.txt" for i in range(STARS)]
    for i, name in enumerate(names):
        write_star(tmp_path / name, peak=1.0 + i / 10)
    (tmp_path / "list.txt").write_text("\n".join(names), encoding="utf-8")
    return tmp_path


@pytest.fixture
def vet(place: Path) -> Iterator[Vet]:
    """Begins a `specvet vet` of the list with a server, into a run."""
    begun = []

    def begin(server: LoopbackServer, out: str, *more: str) -> subprocess.Popen[str]:
        command = [SCRIPT, "vet", "list.txt", "--task", "cv", "--policy", "openai", "--model", "tiny", "--no-probes"]
        # A run of several servers is known by its model's name, so that each process may have a server of its own.
        command += ["--base-url", server.url, "--base-url", gone(), "--concurrency", "4", "--style", "compact"]
        command += ["--out", out, "--json", *more]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        begun.append(subprocess.Popen(command, cwd=place, text=True, **pipes))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    told: dict[str, Any] = json.loads(out)
    return told


def answers(run: Path) -> dict[str, str]:
    """Answers by file; none may be there twice."""
    with RunFolder.read(run) as folder:
        rows = [(d.file, str(d.verdict.answer)) for d in folder.decisions()]
    assert max(Counter(file for file, _ in rows).values()) == 1
    return dict(rows)


def test_two_processes_of_a_model_share_a_run_and_one_may_be_killed(place: Path, vet: Vet) -> None:
    first, second = Gate(6, hold=True), Gate(STARS - 16, hold=False)
    with LoopbackServer(first) as a, LoopbackServer(second) as b, LoopbackServer(answer) as c:
        alone = vet(c, "ALONE")
        dies = vet(a, "RUN", "--share")
        assert first.passed.wait(60)
        stays = vet(b, "RUN", "--share")
        # It does what the other has not claimed, 16 at a time, then waits for what that one has in hand.
        assert second.passed.wait(60)
        assert stays.poll() is None
        dies.send_signal(signal.SIGKILL)
        dies.communicate(timeout=60)
        told = ended(stays)
        ended(alone)
        made_by_the_dead = STARS - len(b.posts)
    assert 0 <= made_by_the_dead <= 6
    assert answers(place / "RUN") == answers(place / "ALONE")
    assert len(answers(place / "RUN")) == STARS
    assert told["this_session"]["decided"] == STARS - made_by_the_dead
    with RunFolder.read(place / "RUN") as run:
        sessions = run.receipt().sessions
        assert [s.ended is None for s in sessions] == [True, False]
        assert sum(run.count()["cv"].values()) == STARS


def test_both_of_two_processes_do_a_part_when_none_dies(place: Path, vet: Vet) -> None:
    with LoopbackServer(answer) as a, LoopbackServer(answer) as b:
        both = [vet(server, "RUN", "--share") for server in (a, b)]
        told = [ended(process) for process in both]
        assert len(a.posts) + len(b.posts) == STARS
        assert sorted(len(server.posts) for server in (a, b)) == sorted(t["this_session"]["decided"] for t in told)
    assert len(answers(place / "RUN")) == STARS
