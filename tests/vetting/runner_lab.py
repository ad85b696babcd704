"""What tests of the batch runner share: a deterministic policy, two tasks, small spectra, and processes to kill.

As a script it vets the files that LIST names, as a night's batch would:
`runner_lab.py OUT LIST COMPACT_AT` once; with `shard` behind it kills itself between writing a shard and counting it;
`runner_lab.py OUT LIST siege` forks a batch for each line `COMPACT_AT AFTER SECONDS` that it is given, kills it so many
seconds after its `start` or after its run was `opened`, and prints how it ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specvet.policies import Action, Answered, Call, Capability, Policy, Trajectory
from specvet.records import Decision, RunFolder, shards
from specvet.records.schema import Answer, Measurement, Verdict
from specvet.tasks import KeyWindow, Requires, Task
from specvet.vetting.items import Item
from specvet.vetting.runner import vet


class Steady(Policy):
    """Zooms once, then answers by the mean of the window: the same for the same spectrum, whenever it is asked."""

    name = "steady"
    capabilities: frozenset[Capability] = frozenset()

    def act(self, trajectory: Trajectory) -> Action:
        if not trajectory.turns:
            return Call("spectral_visualization_tool", {"wavelength_range": [6400, 6700]}, "Look at Hα.")
        seen = trajectory.turns[-1].observation
        assert seen is not None
        if seen.data is None:
            return Answered(Verdict(answer=Answer.UNSURE, confidence=0.5, reason=seen.text))
        mean = float(np.mean(seen.data.spectrum.flux)) + len(trajectory.task.key)
        answer = Answer.YES if int(mean * 1000) % 2 else Answer.NO
        measured = (Measurement(index="mean", name="mean flux", value=mean),)
        return Answered(Verdict(answer=answer, confidence=0.8, reason=f"the mean is {mean:.6f}"), measured)


class Counting(Steady):
    """Remembers whom it was asked about, and may do something then."""

    def __init__(self, then: Callable[[Trajectory], Action | None] | None = None) -> None:
        self.asked: list[str] = []
        self.then = then

    def act(self, trajectory: Trajectory) -> Action:
        if not trajectory.turns:
            self.asked.append(trajectory.question.id)
            action = self.then(trajectory) if self.then else None
            if action is not None:
                return action
        return super().act(trajectory)


def task(key: str, guidance: str = "Look.", **requires: Any) -> Task:
    window = KeyWindow(key="ha", name="Hα", range=(6400.0, 6700.0), why="Hα")
    return Task(
        key=key,
        name=key,
        question="Is it?",
        include=("it",),
        exclude=("not it",),
        guidance=guidance,
        windows=(window,),
        requires=Requires(**requires),
        sources=("invented for a test",),
    )


TASKS = [task("cv"), task("wd")]


def write_spectra(folder: Path, n: int) -> list[str]:
    """`n` two-column text spectra of 300 points; the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    wavelength = np.linspace(4000, 7000, 300)
    names = []
    for i in range(n):
        flux = 1 + 0.1 * np.random.default_rng(i).normal(size=300)
        path = folder / f"s{i:04d}.txt"
        np.savetxt(path, np.column_stack([wavelength, flux]), fmt="%.6f")
        names.append(str(path))
    return names


def write_rows(path: Path, n: int) -> str:
    """One NPZ file of `n` targets."""
    wavelength = np.linspace(4000, 7000, 300)
    flux = 1 + 0.1 * np.random.default_rng(7).normal(size=(n, 300))
    np.savez(path, wavelength=wavelength, flux=flux, targetid=np.arange(39_627_000, 39_627_000 + n))
    return str(path)


def comparable(decisions: Iterator[Decision]) -> list[dict[str, Any]]:
    """Decisions without what differs between two runs over the same list: times."""
    out = []
    for d in decisions:
        fields = d.model_dump(mode="json")
        if fields["trajectory"]:
            for name in ("seconds", "started"):
                del fields["trajectory"][name]
            for turn in fields["trajectory"]["turns"]:
                del turn["seconds"]
        out.append(fields)
    return out


def results(path: Path) -> list[dict[str, Any]]:
    with RunFolder.read(path) as run:
        return comparable(run.decisions(with_trajectories=True))


def files_of(names: Sequence[str]) -> list[Item]:
    return [Item(name) for name in names]


def batch(out: str, listed: str, compact_at: int, opened: int | None = None) -> None:
    names = Path(listed).read_text(encoding="utf-8").splitlines()
    with RunFolder.open(out, compact_at=compact_at) as run:
        if opened is not None:
            os.close(opened)
        vet(files_of(names), TASKS, Steady(), run)


def siege(out: str, listed: str) -> None:
    for line in sys.stdin:
        compact_at, after, seconds = line.split()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                batch(out, listed, int(compact_at), writing)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        if after == "opened":
            os.read(reading, 1)
        os.close(reading)
        time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def die_at_the_first_shard() -> None:
    write = shards.write_shard

    def write_and_die(path: Path, trajectories: list[shards.Waiting]) -> None:
        write(path, trajectories)
        os.kill(os.getpid(), signal.SIGKILL)

    shards.write_shard = write_and_die


def main(out: str, listed: str, how: str, die: str = "") -> None:
    if how == "siege":
        siege(out, listed)
        return
    if die == "shard":
        die_at_the_first_shard()
    batch(out, listed, int(how))


if __name__ == "__main__":
    main(*sys.argv[1:])
