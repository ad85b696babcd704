"""A run folder among processes, full disks and media that cannot be written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from samples import decision, error

from specvet.records import DiskFullError, RunError, RunFolder, RunLockedError

HOLDER = """
import sys
from specvet.records import RunFolder
run = RunFolder.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""

FILLER = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from samples import decision
from specvet.records import DiskFullError, RunFolder
try:
    with RunFolder.open(sys.argv[1], compact_at=int(sys.argv[3])) as run:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        for n in range(100_000):
            run.record(decision(f"f{n}", says="x" * 2_000))
            print(n, flush=True)
except DiskFullError as e:
    print(f"full: {e}")
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the run open."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A memory disk of `size`; skips the test where one may not be mounted."""
    path.mkdir()
    mounted = shutil.which("mount") and os.geteuid() == 0
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "specvet-test", str(path)]
    if not mounted or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a memory disk may not be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path):
    with holder(tmp_path / "run") as process:
        with pytest.raises(RunLockedError, match=f"another process works on this run .pid {process.pid} on "):
            RunFolder.open(tmp_path / "run")
        with RunFolder.read(tmp_path / "run") as run:
            assert list(run.decisions()) == []


def test_a_second_opening_in_one_process_is_refused_and_the_first_stays_locked(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        with pytest.raises(RunLockedError, match="this process has already opened this run"):
            RunFolder.open(tmp_path / "run")
        code = f"from specvet.records import RunFolder; RunFolder.open({str(tmp_path / 'run')!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "RunLockedError" in other.stderr
        run.record(decision())


def test_a_killed_process_leaves_no_lock(tmp_path):
    with holder(tmp_path / "run") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with RunFolder.open(tmp_path / "run") as run:
            assert any("did not end by itself" in e.text for e in run.events())


def test_a_reader_sees_what_another_process_records_and_compacts(tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from samples import decision; "
        "from specvet.records import RunFolder\n"
        "with RunFolder.open(sys.argv[1], compact_at=7) as run:\n"
        "    print('open', flush=True)\n"
        "    for n in range(300): run.record(decision(f'f{n}'))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run"), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with RunFolder.read(tmp_path / "run") as run:
            most = 0
            while process.poll() is None or most < 300:
                seen = list(run.decisions(with_trajectories=True))
                assert [d.file for d in seen] == [f"f{n}" for n in range(len(seen))]
                assert all(d.trajectory is not None for d in seen)
                assert len(seen) >= most
                most = len(seen)
        assert process.wait() == 0


def test_a_full_disk_is_named_and_after_making_room_the_run_goes_on(tmp_path):
    with small_disk(tmp_path / "disk", "2m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * 700_000)
        recorded = []

        def fill() -> None:
            with RunFolder.open(disk / "run", compact_at=50) as run:
                for n in range(10_000):
                    run.record(decision(f"f{n}", says="x" * 3_000))
                    recorded.append(f"f{n}")

        with pytest.raises(DiskFullError, match=r"disk/run/.*free some space"):
            fill()
        with RunFolder.read(disk / "run") as run:
            before = [d.file for d in run.decisions()]
        # The one in flight may be on disk too, when the disk was full only for what comes after it.
        assert recorded
        assert before[: len(recorded)] == recorded
        assert len(before) <= len(recorded) + 1
        ballast.unlink()
        with RunFolder.open(disk / "run", compact_at=50) as run:
            run.record(decision("later"))
            seen = list(run.decisions(with_trajectories=True))
            assert [d.file for d in seen] == [*before, "later"]
            assert all(d.trajectory is not None for d in seen)
        assert not list((disk / "run").rglob("*.tmp"))


def test_a_disk_that_is_full_from_the_start_is_named(tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        rows = [error(f"f{n}") for n in range(5_000)]
        with pytest.raises(DiskFullError, match="disk/run"), RunFolder.open(disk / "run") as run:
            run.record_many(rows)


@pytest.mark.parametrize("compact_at", [20, 100_000])
def test_a_quota_is_named_and_loses_nothing(tmp_path, compact_at):
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", FILLER, str(tmp_path / "run"), here, str(compact_at)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[-1].startswith(f"full: {tmp_path / 'run'}")
    with RunFolder.open(tmp_path / "run") as run:
        files = [d.file for d in run.decisions(with_trajectories=True) if d.trajectory is not None]
    assert files[: len(out) - 1] == [f"f{n}" for n in range(len(out) - 1)]
    assert len(files) <= len(out)


def test_a_run_on_media_that_cannot_be_written_reads_and_is_refused_for_writing(tmp_path):
    with small_disk(tmp_path / "disk", "4m") as disk:
        with RunFolder.open(disk / "run") as run:
            run.record(decision())
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with RunFolder.read(disk / "run") as run:
            assert [d.file for d in run.decisions(with_trajectories=True)] == ["a.fits"]
            assert run.trajectory("a.fits", 0, "cv") is not None
        for path in (disk / "run", disk / "new"):
            with pytest.raises(RunError, match="read-only file system; give another --out"):
                RunFolder.open(path)


def test_a_killed_run_copied_to_media_that_cannot_be_written_says_what_to_do(tmp_path):
    with holder(tmp_path / "run") as process:
        process.kill()
        process.wait()
    with small_disk(tmp_path / "disk", "4m") as disk:
        (disk / "run").mkdir()
        for name in ("run.db", "run.db-wal"):  # without the -shm that belongs to the machine where it was made
            shutil.copy(tmp_path / "run" / name, disk / "run")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(RunError, match="copy it first"):
            RunFolder.read(disk / "run")
        shutil.copytree(disk / "run", tmp_path / "copy")
        with RunFolder.read(tmp_path / "copy") as run:
            assert list(run.decisions()) == []
