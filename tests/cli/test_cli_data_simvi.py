"""`specvet data simvi` from outside: signals, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


COMMAND = (  # Ctrl-C is ignored where tests run in the background
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from specvet.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux shows them")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_build_that_is_stopped_leaves_no_worker_and_says_how_to_go_on(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    options = ["data", "simvi", "--size", "small", "--out", str(tmp_path / "sim"), "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *options], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    workers: list[int] = []
    deadline = time.monotonic() + 60
    while len(workers) < 3 and time.monotonic() < deadline:  # the workers, and the process that tracks resources
        workers = children_of(process.pid)
        time.sleep(0.01)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.kill()
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    if code == 130:
        assert said == "specvet: stopped; what is made is kept, and the same command goes on from there\n"
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline + 30:
        time.sleep(0.01)
    assert not any(alive(pid) for pid in workers)
    assert json.loads((tmp_path / "sim" / "simvi.json").read_text())["size"] == "small"
