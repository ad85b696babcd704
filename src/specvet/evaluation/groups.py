"""Numbers within parts of a set: surveys, layouts, splits, S/N, confusers; what is new; where the policy looked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from specvet.evaluation.counts import Sheet, accuracy, f1_of_tasks, macro_f1, mean_of_tasks, ratio
from specvet.evaluation.intervals import Bools, Resamples, bootstrap, proportion
from specvet.evaluation.outcomes import Outcome

STEP = 25.0
"""Å, of `windows`."""
UNKNOWN = "unknown"
_FAR = 50_000.0
"""Å: no survey's spectrum goes on behind."""
_SNR = ((5.0, "<5"), (10.0, "5-10"), (20.0, "10-20"), (40.0, "20-40"))


def groups(outcomes: Sequence[Outcome], sheet: Sheet, draws: Resamples) -> dict[str, dict[str, Any]]:
    """Macro F1 and accuracy within each survey, layout, split and bin of S/N; those that are not told as `unknown`."""
    names: dict[str, Callable[[Outcome], str]] = {
        "survey": lambda o: o.survey or UNKNOWN,
        "layout": lambda o: o.layout or UNKNOWN,
        "split": lambda o: o.split or UNKNOWN,
        "snr": lambda o: snr_bin(o.snr),
    }
    return {by: _each([name(o) for o in outcomes], sheet, draws) for by, name in names.items()}


def snr_bin(snr: float | None) -> str:
    """`<5`, `5-10`, `10-20`, `20-40`, `≥40`; the lower end belongs to the bin."""
    if snr is None or not np.isfinite(snr):
        return UNKNOWN
    return next((name for end, name in _SNR if snr < end), "≥40")


def confusers(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Task → what the object is → how many, what is true of them, how many were called YES, how many were wrong.

    Empty where the set does not tell. `truth` is `both` for a kind that holds members and others.
    """
    found: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind:
            found[outcome.task, outcome.kind].append(outcome)
    tasks: dict[str, dict[str, Any]] = {}
    for (task, kind), those in sorted(found.items()):
        truths = {o.truth for o in those}
        tasks.setdefault(task, {})[kind] = {
            "n": len(those),
            "truth": truths.pop() if len(truths) == 1 else "both",
            "said_yes": sum(o.said == "YES" for o in those),
            "wrong": proportion(sum(not o.right for o in those), len(those)),
        }
    return tasks


def seen_unseen(sheet: Sheet, draws: Resamples, unseen: Collection[str]) -> dict[str, Any] | None:
    """Macro F1 over the tasks whose class the policy was trained on, and over the others; None without any of these."""
    new = [task for task in sheet.tasks if task in unseen]
    if not new:
        return None
    old = [task for task in sheet.tasks if task not in unseen]
    parts = {"seen": old, "unseen": new}
    return {
        name: {"tasks": tasks, "macro_f1": macro_f1(sheet, draws, _of_tasks(sheet, tasks)) if tasks else None}
        for name, tasks in parts.items()
    }


def cross_survey(
    outcomes: Sequence[Outcome], sheet: Sheet, draws: Resamples, reference: str | None
) -> dict[str, Any] | None:
    """Each survey beside the reference; None for a set of one survey, or without a reference.

    `paired` is survey → macro F1 and accuracy there less those in the reference survey, over the questions (object and
    task) that were asked in both, with their interval.
    """
    surveys = sorted({o.survey for o in outcomes if o.survey})
    if reference is None or len(surveys) < 2:
        return None
    told: dict[str, Any] = {
        "reference": reference,
        "surveys": _each([o.survey or UNKNOWN for o in outcomes], sheet, draws),
        "paired": {},
    }
    base = next((name for name in surveys if name.casefold() == reference.casefold()), None)
    if base is None:
        return told | {"note": f"no spectrum is of the reference survey {reference}"}
    told["reference"] = base
    asked = {name: {(o.object_id, o.task) for o in outcomes if o.survey == name} for name in surveys}
    for name in surveys:
        if name != base:
            told["paired"][name] = _paired(outcomes, sheet, draws, name, base, asked[name] & asked[base])
    return told


def windows(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Task → where it looked after the opening: the share of its trajectories that saw each bin of 25 Å.

    `share[i]` is of the bin from low + 25 i Å on. A task of which nobody looked anywhere is left out.
    """
    by_task: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_task[outcome.task].append(outcome)
    found = {task: _windows(those) for task, those in sorted(by_task.items())}
    return {task: told for task, told in found.items() if told is not None}


def _windows(outcomes: Sequence[Outcome]) -> dict[str, Any] | None:
    seen = np.zeros(int(_FAR / STEP), dtype=np.int64)
    for outcome in outcomes:
        here = np.zeros(seen.shape, dtype=bool)
        least, most = _covered(outcome)
        for low, high in outcome.windows:
            # A window that was asked for wider than the spectrum shows no more than the spectrum.
            first, last = np.clip((max(low, least), min(high, most)), 0, _FAR - 1) / STEP
            here[int(first) : max(int(np.ceil(last)), int(first) + 1)] = True
        seen += here
    looked = np.flatnonzero(seen)
    if not looked.size:
        return None
    first, last = int(looked[0]), int(looked[-1]) + 1
    share = [float(x) for x in seen[first:last] / len(outcomes)]
    return {"low": first * STEP, "high": last * STEP, "step": STEP, "share": share}


def _covered(outcome: Outcome) -> tuple[float, float]:
    """Å, in the frame that it was shown in; everything where the coverage is not known."""
    low, high = outcome.metadata.get("wave_min"), outcome.metadata.get("wave_max")
    if not isinstance(low, float) or not isinstance(high, float):
        return 0.0, _FAR
    z = outcome.metadata.get("z")
    stretch = 1.0 + z if isinstance(z, float) else 1.0
    return low / stretch, high / stretch


def _each(names: Sequence[str], sheet: Sheet, draws: Resamples) -> dict[str, Any]:
    named = np.array(names)
    return {
        name: {
            "n": int((named == name).sum()),
            "objects": len(np.unique(draws.objects[named == name])),
            "macro_f1": macro_f1(sheet, draws, named == name),
            "accuracy": accuracy(sheet, draws, named == name),
        }
        for name in sorted(set(names), key=_in_order)
    }


def _in_order(name: str) -> tuple[int, str]:
    """Bins of S/N by S/N, then all else by name, then the unknown."""
    bins = [b for _, b in _SNR] + ["≥40"]
    return (bins.index(name) if name in bins else len(bins) + (name == UNKNOWN), name)


def _paired(
    outcomes: Sequence[Outcome], sheet: Sheet, draws: Resamples, name: str, base: str, both: Collection[tuple[str, str]]
) -> dict[str, Any]:
    there, here = (
        np.array([o.survey == survey and (o.object_id, o.task) in both for o in outcomes]) for survey in (name, base)
    )
    f1 = [mean_of_tasks(f1_of_tasks(sheet, draws, chosen)) for chosen in (there, here)]
    sums = draws.sums(np.stack([there & sheet.right, there, here & sheet.right, here], axis=1))
    right = [ratio(sums[:, i], sums[:, i + 1]) for i in (0, 2)]
    return {
        "n": int(there.sum()),
        "objects": len({object_id for object_id, _ in both}),
        "macro_f1": bootstrap(f1[0] - f1[1]),
        "accuracy": bootstrap(right[0] - right[1]),
    }


def _of_tasks(sheet: Sheet, tasks: Sequence[str]) -> Bools:
    found: Bools = np.isin(sheet.task, [sheet.tasks.index(task) for task in tasks])
    return found
