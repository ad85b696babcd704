"""What tests of rollouts in bulk share. As a script it rolls out a question file, to be killed while it does:

rollouts_lab.py OUT QUESTIONS COMPACT_AT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "agent"))

from rollout_lab import Scripted, gambler, task, timeless

from specvet.agent import Engine
from specvet.data.questions import read_questions
from specvet.policies.tokens import usage_numbers
from specvet.records import RunFolder
from specvet.tasks import Task
from specvet.vetting.rollouts import Wanted, rollout, wanted_of_questions
from specvet.vetting.watch import RolloutProgress, RolloutSummary

GROUP = 3
TASKS = {key: task().model_copy(update={"key": key}) for key in ("cv", "wd")}


def write_questions(folder: Path, n: int) -> Path:
    """`n` questions about `n` / 2 spectra, half of them text files and half rows of an NPZ file; one is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    wavelength = np.arange(4000.0, 8000.0, 4.0)
    flux = 10 + 0.1 * np.random.default_rng(1).normal(size=(n // 2, wavelength.size))
    np.savez(folder / "rows.npz", wavelength=wavelength, flux=flux)
    lines = []
    for i in range(n // 2):
        if i % 2:
            place: dict[str, Any] = {"array_file": "rows.npz", "row": i}
        else:
            place = {"path": f"s{i}.txt"}
            np.savetxt(folder / f"s{i}.txt", np.column_stack([wavelength, flux[i]]), fmt="%.5f")
        lines += [{"id": f"{key}-{i}", "task": key, "spectrum": place, "answer": ("YES", "NO")[i % 2]} for key in TASKS]
    lines.append({"id": "gone", "task": "cv", "spectrum": {"path": "gone.fits"}})
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return file


def roll(
    out: Path,
    wanted: Iterable[Wanted],
    policy: Scripted | None = None,
    tasks: Iterable[Task] = tuple(TASKS.values()),
    compact_at: int = 2_000,
    progress: Callable[[RolloutProgress], None] | None = None,
    **more: Any,
) -> RolloutSummary:
    made = {"group": GROUP, "concurrency": 8, "style": "compact", **more}
    policy = policy or Scripted(gambler)
    with (
        RunFolder.open(out, kind="rollout", compact_at=compact_at) as run,
        Engine(policy, keep_image=run.images.put, concurrency=made["concurrency"]) as engine,
    ):
        return rollout(wanted, tasks, engine, run, usage=lambda: usage_numbers(policy.usage), progress=progress, **made)


def asked(questions: Path) -> Iterable[Wanted]:
    return wanted_of_questions(read_questions(str(questions)), TASKS)


def results(out: Path) -> dict[tuple[str, int], Any]:
    """Every trajectory by (question, sample), without what differs between two runs: times."""
    with RunFolder.read(out) as run:
        found = {}
        for d in run.decisions(with_trajectories=True):
            assert (d.id, d.sample) not in found
            fields = d.model_dump(mode="json", exclude={"trajectory"})
            found[d.id, d.sample] = fields | {"trajectory": timeless(d.trajectory) if d.trajectory else None}
        return found


def main(out: str, questions: str, compact_at: str) -> None:
    roll(Path(out), asked(Path(questions)), compact_at=int(compact_at), progress=_tell)


def _tell(progress: RolloutProgress) -> None:
    print(progress.recorded, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
