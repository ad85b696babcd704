"""kill -9 at any moment loses at most the trajectory in flight, and the resumed run equals an uninterrupted one."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import runner_lab as lab

from specvet.records import RunFolder
from specvet.vetting.runner import vet

KILLS = 24


def start(out: Path, listed: Path, compact_at: int, die: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, lab.__file__, str(out), str(listed), str(compact_at), *([die] if die else [])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def listed(tmp_path) -> Path:
    """A list of spectra, files of many targets and missing files, mixed."""
    names = lab.write_spectra(tmp_path / "data", 500)
    names += [lab.write_rows(tmp_path / f"many{n}.npz", 40) for n in range(10)]
    names += [str(tmp_path / "gone" / f"{n}.fits") for n in range(400)]
    random.Random(3).shuffle(names)
    path = tmp_path / "list"
    path.write_text("\n".join(names), encoding="utf-8")
    return path


def uninterrupted(tmp_path: Path, listed: Path) -> list[dict[str, object]]:
    with RunFolder.open(tmp_path / "whole") as run:
        vet(lab.files_of(listed.read_text(encoding="utf-8").splitlines()), lab.TASKS, lab.Steady(), run)
    return lab.results(tmp_path / "whole")


def test_kills_at_random_moments_lose_and_double_nothing(tmp_path, listed):
    out, moments = tmp_path / "run", random.Random(20260101)
    whole = uninterrupted(tmp_path, listed)
    lengths, killed = [0], 0
    command = [sys.executable, lab.__file__, str(out), str(listed), "siege"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for attempt in range(KILLS):
            # The first ones are killed while they set the run up; compaction is rare in some and constant in others.
            when = ("start", moments.uniform(0.0, 0.06)) if attempt < 6 else ("opened", moments.uniform(0.0, 0.4))
            print((2_000, 40, 5)[attempt % 3], *when, file=process.stdin, flush=True)
            killed += int(process.stdout.readline()) == -signal.SIGKILL
            if (out / "config.yaml").exists():
                now = lab.results(out)
                assert now == whole[: len(now)]  # nothing lost, doubled or out of order
                assert len(now) >= lengths[-1]  # nothing that was on disk is gone
                lengths.append(len(now))
    assert killed >= 15
    assert len(set(lengths)) > 5
    with start(out, listed, compact_at=5) as process:
        assert process.wait() == 0
    assert lab.results(out) == whole
    receipts = [json.loads((p / "receipt.json").read_text(encoding="utf-8")) for p in (out, tmp_path / "whole")]
    assert receipts[0]["inputs"] == receipts[1]["inputs"]
    assert receipts[0]["answers"] == receipts[1]["answers"]
    assert receipts[0]["stops"] == receipts[1]["stops"]
    assert not list(out.rglob("*.tmp"))


def test_a_kill_between_a_shard_and_its_counting_loses_and_doubles_nothing(tmp_path, listed):
    names = listed.read_text(encoding="utf-8").splitlines()[:40]
    listed.write_text("\n".join(names), encoding="utf-8")
    whole = uninterrupted(tmp_path, listed)
    out = tmp_path / "run"
    for _ in range(3):  # killed at the first shard, at the first again (it did not count), and again
        with start(out, listed, 7, "shard") as process:
            assert process.wait() == -signal.SIGKILL
        assert [p.name for p in (out / "trajectories").iterdir()] == ["part-00000.parquet"]
        with RunFolder.read(out) as run:
            assert all(d.trajectory for d in run.decisions(tasks=["cv", "wd"], with_trajectories=True))
    with start(out, listed, 7) as process:
        assert process.wait() == 0
    assert lab.results(out) == whole
