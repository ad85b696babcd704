"""Output that nobody reads: a pipe that ends early, a stream that is closed, a disk that is full."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_lab import SCRIPT, write_star

COMMANDS = [
    ["show", "stars", "--json"],
    ["tasks"],
    ["--help"],
    ["export", "RUN", "--out", "-"],
    ["vet", "stars", "--task", "cv", "--policy", "line-indices", "--out", "NEW"],
]
EVERY = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for i in range(2):
        write_star(folder / "stars" / f"{i}.txt", peak=2.0 * i)
    subprocess.run(
        [SCRIPT, "vet", "stars", "--task", "cv", "--policy", "line-indices", "--out", "RUN", "--quiet"],
        cwd=folder,
        check=True,
    )
    return folder


@pytest.fixture
def here(made: Path) -> Path:
    shutil.rmtree(made / "NEW", ignore_errors=True)
    return made


def shell(here: Path, command: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    """The command under a shell with a redirection such as `>&-`."""
    line = f'exec "$0" "$@" {redirection}'
    return subprocess.run(
        ["bash", "-c", line, str(SCRIPT), *command], cwd=here, capture_output=True, text=True, check=False, timeout=300
    )


@EVERY
def test_a_reader_that_has_seen_enough_ends_it_as_sigpipe_would_without_a_word(here: Path, command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [SCRIPT, *command], cwd=here, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=300
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
    if "NEW" in command:
        assert json.loads((here / "NEW" / "receipt.json").read_text())["decisions"] == 2


@EVERY
@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_wants_nothing_and_takes_nothing_from_the_result(
    here: Path, command: list[str], closed: str
) -> None:
    done = shell(here, command, closed)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")
    if "NEW" in command:
        assert json.loads((here / "NEW" / "receipt.json").read_text())["decisions"] == 2


def test_a_message_for_a_closed_stderr_does_not_land_in_a_file_of_ours(here: Path) -> None:
    done = shell(
        here, ["vet", "stars", "nowhere", "--task", "cv", "--policy", "line-indices", "--out", "NEW"], ">&- 2>&-"
    )
    assert done.returncode == 0
    for file in ("run.db", "config.yaml", "receipt.json", "run.lock"):
        assert b"nowhere: no such file" not in (here / "NEW" / file).read_bytes().replace(b'"nowhere: no', b"")
    assert (here / "NEW" / "run.db").read_bytes().startswith(b"SQLite format 3\0")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@EVERY
def test_a_full_disk_behind_stdout_is_said_and_is_no_fault_of_the_program(here: Path, command: list[str]) -> None:
    done = shell(here, command, ">/dev/full")
    said = done.stderr.splitlines()[-1]
    assert done.returncode == 4
    assert said.startswith("specvet: cannot write")
    assert said.endswith("No space left on device")
    assert "fault" not in done.stderr
