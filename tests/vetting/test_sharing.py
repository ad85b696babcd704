"""Several processes at work on one run: no row twice, no row lost, whoever dies."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import runner_lab as lab
import sharing_lab

from specvet.records import RunError, RunFolder, RunLockedError
from specvet.records.schema import Answer
from specvet.vetting.items import Item
from specvet.vetting.runner import vet
from specvet.vetting.sharing import shard_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs are shared by POSIX locks")


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """Spectra, files of several targets, missing files and repeated names, mixed."""
    names = lab.write_spectra(tmp_path / "data", 60)
    names += [lab.write_rows(tmp_path / f"many{n}.npz", 7) for n in range(3)]
    names += [str(tmp_path / "gone" / f"{n}.fits") for n in range(30)]
    random.Random(5).shuffle(names)
    names += names[:10]
    path = tmp_path / "list"
    path.write_text("\n".join(names), encoding="utf-8")
    return path


def sorted_results(path: Path) -> list[dict[str, object]]:
    return sorted(lab.results(path), key=lambda d: (str(d["file"]), d["row"], str(d["task"]), str(d["id"])))


def alone(tmp_path: Path, listed: Path) -> list[dict[str, object]]:
    with RunFolder.open(tmp_path / "alone") as run:
        vet(lab.files_of(listed.read_text(encoding="utf-8").splitlines()), lab.TASKS, lab.Steady(), run)
    return sorted_results(tmp_path / "alone")


def together(out: Path, listed: Path, workers: int, die_at: int = 0, shards: str = "whole") -> list[int]:
    command = [sys.executable, sharing_lab.__file__, str(out), str(listed), str(workers), str(die_at), shards]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    ended: list[int] = json.loads(done.stdout)
    assert 1 not in ended, done.stderr
    return ended


@pytest.mark.parametrize("die_at", [0, 9])
def test_three_processes_decide_each_row_once_also_when_one_is_killed(
    tmp_path: Path, listed: Path, die_at: int
) -> None:
    out = tmp_path / "run"
    ended = together(out, listed, 3, die_at)
    assert ended == [-signal.SIGKILL if die_at else 0, 0, 0]
    assert sorted_results(out) == alone(tmp_path, listed)
    with RunFolder.read(out) as run:
        sessions = run.receipt().sessions
        assert sum(s.ended is None for s in sessions) == (die_at > 0)
        if not die_at:
            assert sum(s.decided for s in sessions) == len(sorted_results(out))
        assert [e.kind for e in run.events()].count("joined") == 2
        left = run._db.execute("SELECT count(*) FROM leases").fetchone()[0]
        assert run._db.execute("SELECT count(*) FROM pending").fetchone()[0] == 0  # the last one out has packed up
    assert left == 0


def test_shards_of_a_list_are_disjoint_and_whole_and_may_share_a_run(tmp_path: Path, listed: Path) -> None:
    items = lab.files_of(listed.read_text(encoding="utf-8").splitlines())
    parts = [list(shard_of(items, part, 4)) for part in (1, 2, 3, 4)]
    assert sorted(i.file for part in parts for i in part) == sorted(i.file for i in items)
    files = [{i.file for i in part} for part in parts]
    assert all(not a & b for n, a in enumerate(files) for b in files[n + 1 :])
    assert min(map(len, parts)) > 10
    assert together(tmp_path / "run", listed, 2, shards="shards") == [0, 0]
    assert sorted_results(tmp_path / "run") == alone(tmp_path, listed)


def test_rows_of_one_file_fall_into_shards_by_themselves_whatever_folder_it_lies_in() -> None:
    here = [Item("/a/many.fits", row=n) for n in range(200)]
    there = [Item("/other/place/many.fits", row=n) for n in range(200)]
    parts = [[i.row for i in shard_of(here, part, 3)] for part in (1, 2, 3)]
    assert sorted(r for part in parts for r in part if r is not None) == list(range(200))
    assert min(map(len, parts)) > 40
    assert [i.row for i in shard_of(there, 2, 3)] == parts[1]


def test_what_a_killed_session_had_in_hand_is_free_at_once(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", shared=True) as run:
        assert run.leases is not None
        run._db.execute("INSERT INTO leases VALUES ('a', 7)")  # of a session that is not there any more
        assert run.leases.claim(["a", "b", "a"]) == {"a", "b"}
        run.leases.over("a")
        assert run.leases.claim(["b"]) == {"b"}
        assert run._db.execute("SELECT name FROM leases").fetchall() == [("b",)]


OTHER = """
import sys
from specvet.records import RunFolder
with RunFolder.open(sys.argv[1], shared=True) as run:
    print(sorted(run.leases.claim(["a", "b"])), flush=True)
    sys.stdin.readline()
"""


def test_another_process_gets_only_what_nobody_has_in_hand(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", shared=True) as run:
        assert run.leases is not None
        assert run.leases.claim(["a"]) == {"a"}
        command = [sys.executable, "-c", OTHER, str(tmp_path / "run")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            assert other.stdout.readline() == "['b']\n"
            assert run.leases.claim(["b", "c"]) == {"c"}
            with pytest.raises(RunLockedError, match="this process has already opened this run"):
                RunFolder.open(tmp_path / "run")
            print(file=other.stdin, flush=True)
        assert run.leases.claim(["b"]) == {"b"}


def test_who_does_not_share_is_kept_out_and_keeps_others_out(tmp_path: Path) -> None:
    alone = "import sys; from specvet.records import RunFolder; RunFolder.open(sys.argv[1], shared=sys.argv[2] == 's')"
    for mine, other in ((True, ""), (False, "s")):
        path = tmp_path / f"run{other}"
        with RunFolder.open(path, shared=mine):
            done = subprocess.run(
                [sys.executable, "-c", alone, str(path), other], capture_output=True, text=True, check=False, timeout=60
            )
        assert "RunLockedError" in done.stderr
        assert ("--share" in done.stderr) is (other == "s")


def test_rows_are_not_taken_back_while_others_are_at_work(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", shared=True) as run:
        assert run.retry(Answer.FAILED) == 0
        assert run._shared is not None
        run._shared.first = False
        with pytest.raises(RunError, match="other processes work on this run; try FAILED rows again"):
            run.retry(Answer.FAILED)
