"""Which trajectory of a run is meant, and what a list of them says."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from specvet.records import Decision, RunFolder


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a trajectory must be; None asks for nothing."""

    id: str | None = None
    """One of `names`."""
    n: int | None = None
    """Place in the run, from 1."""
    sample: int | None = None
    tasks: Collection[str] | None = None
    answers: Collection[str] | None = None
    stops: Collection[str] | None = None

    def fits(self, n: int, decision: Decision) -> bool:
        """Whether a decision may be meant, as far as can be told without its trajectory."""
        return (
            self.n in (None, n)
            and self.sample in (None, decision.sample)
            and (self.tasks is None or decision.task in self.tasks)
            and (self.answers is None or str(decision.verdict.answer) in self.answers)
            and (self.id is None or self.id in names(decision))
        )


def names(decision: Decision) -> set[str]:
    """By what a trajectory may be called: id, file, file name, file and row, and with the task, as questions are."""
    place = f"{decision.file}#{decision.row}"
    return {decision.id, decision.file, os.path.basename(decision.file), place, f"{place}/{decision.task}"}


def chosen(run: RunFolder, wanted: Wanted) -> Iterator[tuple[int, Decision]]:
    """(n, decision with its trajectory) of all that fit, in the order of the run; `n` counts every decision from 1.

    An ERROR row has no trajectory, and comes without. Where one is asked for, only its own trajectory is read.
    """
    every = wanted.id is None and wanted.n is None
    for n, decision in enumerate(run.decisions(with_trajectories=every), start=1):
        if wanted.fits(n, decision):
            found = decision.trajectory if every else run.trajectory_of(decision)
            if wanted.stops is None or (found is not None and found.stop.value in wanted.stops):
                yield n, decision.model_copy(update={"trajectory": found})
        if n == wanted.n:
            return


def missing(run: RunFolder, wanted: Wanted) -> str:
    """Why nothing of the run is what was wanted: what samples there are, or which names are like the one given."""
    if wanted.sample is not None:
        others = dataclasses.replace(wanted, sample=None)
        every = {d.sample for n, d in enumerate(run.decisions(with_trajectories=False), start=1) if others.fits(n, d)}
        if every:
            *most, last = [str(sample) for sample in sorted(every)]
            samples = f"samples {', '.join(most)} and {last}" if most else f"sample {last} only"
            return f"no sample {wanted.sample}: {'it' if wanted.id is not None else 'what fits'} has {samples}"
    if wanted.id is None:
        return "no such trajectory"
    known: set[str] = set()
    for decision in run.decisions(with_trajectories=False):
        if wanted.id in names(decision):  # other filters leave it out
            return f"no such trajectory of {wanted.id!r}"
        known |= {decision.id, os.path.basename(decision.file)} - {""}
    near = difflib.get_close_matches(wanted.id, sorted(known), n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"no trajectory called {wanted.id!r}{hint}"


def list_row(n: int, decision: Decision) -> dict[str, Any]:
    """What a list says of a trajectory."""
    record = decision.trajectory
    tokens = record.tokens.total if record and record.tokens else None
    return {
        "n": n,
        "id": decision.id,
        "file": decision.file,
        "row": decision.row,
        "task": decision.task,
        "sample": decision.sample,
        "stop": record.stop.value if record else None,
        "answer": str(decision.verdict.answer),
        "turns": len(record.turns) if record else None,
        "tokens": tokens,
        "question": record.question.id if record else None,
    }
