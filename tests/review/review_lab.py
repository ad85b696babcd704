"""What tests of the review share: small SIMULATED spectra, a run about them, and a PostgreSQL server of one's own.

As a script it is a reviewer who never stops: `review_lab.py STORE SPECTRA NAME` decides on the files of a folder, one
after the other, and prints the key of each decision once it is kept.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from specvet.records import Decision, RunFolder
from specvet.records.schema import (
    ActionRecord,
    Answer,
    EvidenceItem,
    Measurement,
    ObservationRecord,
    Question,
    SpectrumRef,
    StopReason,
    TrajectoryRecord,
    TurnRecord,
    Verdict,
)
from specvet.review.desk import Desk
from specvet.review.events import Draft
from specvet.review.source import of_list
from specvet.review.store import SqliteStore
from specvet.tasks import load_task, task_text

WAVE = np.linspace(4000.0, 7000.0, 300)


def write_spectra(folder: Path, n: int) -> list[str]:
    """`n` two-column text files of 300 pixels, SIMULATED: a flat continuum with an emission line at Hα."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for i in range(n):
        flux = 1 + 0.05 * np.random.default_rng(i).normal(size=WAVE.size)
        flux += 2.0 * np.exp(-0.5 * ((WAVE - 6563.0) / 12.0) ** 2)
        path = folder / f"s{i:04d}.txt"
        np.savetxt(path, np.column_stack([WAVE, flux]), fmt="%.6f")
        names.append(str(path))
    return names


def trajectory(file: str, verdict: Verdict) -> TrajectoryRecord:
    """One look at Hα, then the answer."""
    call = ActionRecord(
        kind="call",
        tool="spectral_visualization_tool",
        arguments={"wavelength_range": [6400, 6700]},
        text="Hα is in emission.",
    )
    seen = ObservationRecord(kind="view", text="", window=(6400.0, 6700.0), n_points=30)
    return TrajectoryRecord(
        question=Question(id=f"{file}#0/cv", task="cv", spectrum=SpectrumRef(path=file)),
        policy="line-indices",
        task_hash="0" * 64,
        spectrum_hash="ab" * 32,
        opening=None,
        turns=(
            TurnRecord(action=call, observation=seen, seconds=0.1),
            TurnRecord(action=ActionRecord(kind="answer"), seconds=0.1),
        ),
        stop=StopReason.ANSWERED,
        verdict=verdict,
        seconds=0.2,
        started="2026-01-01T00:00:00Z",
    )


def decision(file: str, answer: Answer, p: float | None, **rest: Any) -> Decision:
    """What an agent said of one file: Hα speaks for it, Hβ against."""
    halpha = Measurement(index="ha", name="Hα EW", value=-31.0, error=1.5, unit="Å", window=(6530.0, 6596.0))
    hbeta = Measurement(index="hb", name="Hβ EW", value=0.2, error=float("nan"), unit="Å", window=(4837.0, 4887.0))
    evidence = (
        EvidenceItem(says="Hα in emission", window="halpha", measurement=halpha, log_odds=2.0),
        EvidenceItem(says="Hβ not in emission", window="hbeta", measurement=hbeta, log_odds=-0.5),
    )
    sure = None if p is None else max(p, 1 - p)
    verdict = Verdict(answer=answer, confidence=sure, p_yes=p, reason="broad Hα", evidence=evidence)
    about = {"survey": "LAMOST", "snr": 20.0, "ra": 10.5, "dec": -3.0, "pipeline_class": "STAR", "frame": "observed"}
    about |= rest
    id = about.pop("id", os.path.basename(file))
    kept = trajectory(file, verdict)
    return Decision(file=file, row=0, task="cv", id=id, verdict=verdict, trajectory=kept, **about)


def write_run(folder: Path, decisions: list[Decision]) -> Path:
    """A run of the task `cv` with these decisions."""
    with RunFolder.open(folder, config={"policy": "line-indices", "tasks": ["cv"]}) as run:
        (folder / "tasks").mkdir(exist_ok=True)
        (folder / "tasks" / "cv.yaml").write_text(task_text(load_task("cv")), encoding="utf-8")
        run.record_many(decisions)
    return folder


def draft(item: str, verdict: str = "NO", **fields: Any) -> Draft:
    """A decision on an item, under a key of its own."""
    fields.setdefault("key", f"key-{os.urandom(8).hex()}")
    return Draft.model_validate({"item": item, "task": "cv", "verdict": verdict, **fields})


@contextmanager
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that is started for this block, on a socket of its own; skips without one."""
    import pytest

    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = shutil.which("initdb") or (str(programs[-1]) if programs else None)
    if initdb is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    pg_ctl = str(Path(initdb).with_name("pg_ctl"))
    # The server refuses to run as root; its folder must be short, since it holds a socket, and its own.
    folder = Path(tempfile.mkdtemp(prefix="specvet-pg-", dir="/tmp"))
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        who = {"user": "postgres", "group": "postgres", "extra_groups": []}
    data = folder / "data"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": "/tmp", **who}
    try:
        subprocess.run(
            [initdb, "-D", data, "-N", "-A", "trust", "-U", "vi", "-E", "UTF8", "--locale=C"], check=True, **quiet
        )
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c shared_buffers=16MB -c fsync=off"
        start = [pg_ctl, "-D", data, "-w", "-l", folder / "log", "-o", options]
        subprocess.run([*start, "start"], check=True, **quiet)
        try:
            yield f"postgresql://vi@/postgres?host={folder}"
        finally:
            subprocess.run([pg_ctl, "-D", data, "-w", "-m", "immediate", "stop"], check=True, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """For this block nobody can write into a folder, root included: as on a DVD."""
    held = (ctypes.c_uint32 * 6)()  # of both halves: effective, permitted, inheritable
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread and those it starts
    libc = ctypes.CDLL(None, use_errno=True)
    libc.capget(header, held)
    before = held[0]
    paths = [folder, *folder.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    for path, mode in zip(paths, modes, strict=True):
        path.chmod(mode & ~0o222)
    held[0] = before & ~0b110  # without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    try:
        assert libc.capset(header, held) == 0
        yield
    finally:
        held[0] = before
        libc.capset(header, held)
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


def restart(address: str) -> None:
    """Let the server of `postgres()` crash and start again."""
    folder = Path(address.partition("host=")[2])
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    pg_ctl = shutil.which("pg_ctl") or str(programs[-1])
    who: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c shared_buffers=16MB -c fsync=off"
    command = [pg_ctl, "-D", folder / "data", "-w", "-l", folder / "log", "-m", "immediate", "-o", options, "restart"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/tmp", **who)


def tireless(store: str, spectra: str, name: str) -> None:
    listing = of_list([spectra], tasks="cv")
    desk = Desk(listing, SqliteStore(Path(store)))
    while True:
        for item in listing.items:
            written = desk.decide(name, draft(item, "NO"))
            print(written.event.key, flush=True)


if __name__ == "__main__":
    tireless(*sys.argv[1:])
