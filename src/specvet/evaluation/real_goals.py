"""What a release is to reach on labelled real spectra (`specvet data realvi`), over the folds of a cross-validation.

Each fold's model is asked about the objects that it has not seen; their outcomes together are one sheet of every
object. F1 with a bootstrap over objects, counts by Clopper-Pearson, beside what the metadata alone give away. Kinds of
objects are those of the folder's manifest. Where there are fewer than `FEW` members no goal is set: counts are told,
and nothing is claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from specvet.data.errors import InputError
from specvet.evaluation.cells import Cell
from specvet.evaluation.counts import by_task, macro_f1, sheet_of
from specvet.evaluation.intervals import Resamples, proportion, tidy
from specvet.evaluation.metadata_only import metadata_only
from specvet.evaluation.outcomes import Outcome

FEW = 20
"""Real members, below which no claim is made."""

F1_GOAL, RECALL_GOAL, GIANTS_GOAL, ALARMS_GOAL = 0.92, 0.93, 0.08, 1

ORDINARY = ("A star", "F star", "G star", "K star")
SURVEY = "LAMOST"
"""Ordinary stars of this survey are to be called nothing at all."""

OTHERS = (
    ("wd", "WD", "white dwarfs found"),
    ("cc", "", "carbon stars found"),
    ("ss", "", "S stars found"),
)
"""Task, kind (any, where empty) and what is counted: members that were found."""

CONFUSERS = (
    ("wd", ("hot subdwarf",), "hot subdwarfs called white dwarfs"),
    ("wd", ("A star", "B star", "O star"), "O, B and A stars called white dwarfs"),
    ("ss", ("M giant", "M supergiant", "M supergiant/bright giant"), "M giants called S stars"),
    ("cc", ("CH subgiant (carbon-enhanced)", "CH star (G giant, carbon-enhanced)", "K giant"),
     "K giants and CH stars called carbon stars"),
)  # fmt: skip


def pooled(cells: Iterable[Cell]) -> list[Outcome]:
    """The outcomes of one cell a fold, together. Raises InputError where two of them were asked the same."""
    found: list[Outcome] = []
    asked: dict[str, str] = {}
    for cell in cells:
        for outcome in cell.outcomes():
            if outcome.id in asked:
                raise InputError(
                    f"{cell.name} and {asked[outcome.id]} were both asked {outcome.id}; give one cell for each fold, "
                    "chosen by --policy, --set and --seed"
                )
            asked[outcome.id] = cell.name
            found.append(outcome)
    return found


def real_goals(outcomes: Sequence[Outcome], *, replicates: int = 2_000, seed: int = 0) -> dict[str, Any]:
    """`goals` (one line each: what, value with interval, counts, goal, met), `tasks`, `metadata_only`, `notes`.

    `met` is None where there is no goal, or nothing to measure it by. Raises ValueError for no outcomes.
    """
    if not outcomes:
        raise ValueError("there are no outcomes to measure")
    sheet = sheet_of(outcomes)
    draws = Resamples([o.object_id for o in outcomes], replicates, seed)
    tasks = by_task(sheet, draws)
    told = {
        "questions": len(outcomes),
        "objects": draws.n_objects,
        "macro_f1": macro_f1(sheet, draws),
        "answers": dict(sorted(Counter(o.verdict for o in outcomes).items())),
        "goals": [*_of_tasks(tasks), *_of_kinds(outcomes)],
        "tasks": tasks,
        "metadata_only": metadata_only(outcomes),
        "notes": _notes(outcomes),
    }
    rounded: dict[str, Any] = tidy(told)
    return rounded


def _of_tasks(tasks: dict[str, Any]) -> list[dict[str, Any]]:
    lines = []
    for task, name in (("cv", "cataclysmic variables"), ("gm", "M giants")):
        if task in tasks:
            told = tasks[task]
            f1 = told["f1"]
            met = None if f1["value"] is None or told["yes"] < FEW else bool(f1["value"] >= F1_GOAL)
            lines.append({"what": f"F1, {name}", "task": task, **f1, "k": None, "n": told["n"], "goal": f"≥ {F1_GOAL}",
                          "met": met})  # fmt: skip
    if "cv" in tasks:
        told = tasks["cv"]
        lines.append(
            _counted(
                "cataclysmic variables found",
                "cv",
                told["counts"]["tp"],
                told["yes"],
                f"≥ {RECALL_GOAL:.0%}",
                lambda k, n: k >= RECALL_GOAL * n,
            )
        )
    return lines


def _of_kinds(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    ordinary = [o for o in outcomes if o.kind in ORDINARY and o.survey == SURVEY]
    spectra, objects = ({of(o) for o in ordinary} for of in (_spectrum, lambda o: o.object_id))
    called = [o for o in ordinary if o.said == "YES"]
    goal = f"at most {ALARMS_GOAL}"
    lines = [
        _counted(
            f"A to K spectra of {SURVEY} called anything",
            "",
            len({_spectrum(o) for o in called}),
            len(spectra),
            goal,
            lambda k, n: k <= ALARMS_GOAL,
        ),
        _counted("the same, by star", "", len({o.object_id for o in called}), len(objects)),
        _counted(
            "M dwarfs called giants", "gm", *_said_yes(outcomes, "gm", ("M dwarf",)), f"≤ {GIANTS_GOAL:.0%}",
            lambda k, n: k <= GIANTS_GOAL * n,
        ),
    ]  # fmt: skip
    for task, kind, what in OTHERS:
        members = [o for o in outcomes if o.task == task and o.truth == "YES" and (not kind or o.kind == kind)]
        lines.append(_counted(what, task, sum(o.said == "YES" for o in members), len(members)))
    lines += [_counted(what, task, *_said_yes(outcomes, task, kinds)) for task, kinds, what in CONFUSERS]
    return lines


def _spectrum(outcome: Outcome) -> str:
    """Which spectrum a question of `specvet data realvi` is about: its id is `task:name`."""
    return outcome.id.removeprefix(f"{outcome.task}:")


def _said_yes(outcomes: Sequence[Outcome], task: str, kinds: Sequence[str]) -> tuple[int, int]:
    """Of the NO of these kinds, how many were called YES, and how many there are."""
    those = [o for o in outcomes if o.task == task and o.truth == "NO" and o.kind in kinds]
    return sum(o.said == "YES" for o in those), len(those)


def _counted(
    what: str, task: str, k: int, n: int, goal: str = "", holds: Callable[[int, int], bool] | None = None
) -> dict[str, Any]:
    met = None if holds is None or not n else bool(holds(k, n))
    return {"what": what, "task": task, **proportion(k, n), "k": k, "n": n, "goal": goal, "met": met}


def _notes(outcomes: Sequence[Outcome]) -> list[str]:
    """What these numbers cannot say."""
    notes = []
    for task in sorted({o.task for o in outcomes}):
        members = [o for o in outcomes if o.task == task and o.truth == "YES"]
        if len(members) < FEW:
            notes.append(f"{task}: {len(members)} real members, fewer than {FEW}: counts only, no claim")
    if not any(o.truth == "YES" and o.survey == SURVEY for o in outcomes):
        notes.append(f"no member of any class was observed by {SURVEY}: how they would fare there is not known")
    if not any(o.kind for o in outcomes):
        notes.append("no facts say what each spectrum is: give --facts to eval run to count confusers")
    snr = [o.snr for o in outcomes if o.snr is not None]
    if snr:
        low, middle, high = np.percentile(snr, (10, 50, 90))
        notes.append(f"S/N a pixel (10, 50, 90 %): {low:.0f}, {middle:.0f}, {high:.0f}")
    return notes
