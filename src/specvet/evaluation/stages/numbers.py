"""The numbers of a table of stages, from outcomes alone: each model's, means over seeds, paired differences.

All models of a set answered the same questions, so one set of resamples, which draws objects, serves them all: what
two models get in a resample is of the same questions, and differences are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specvet.evaluation.counts import Sheet, f1_of_tasks, mean_of_tasks, ratio, sheet_of
from specvet.evaluation.groups import UNKNOWN, snr_bin
from specvet.evaluation.intervals import Bools, Floats, Resamples, bootstrap, share, tidy
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.paired import mcnemar
from specvet.evaluation.stages.plan import StagesPlan
from specvet.evaluation.summary import mean_and_std

LOW_SNR = 10.0
"""Below it narrow features are hard to see."""
MEASURES = ("macro_f1", "accuracy", "format", "calls", "low_snr_macro_f1", "low_snr_accuracy")
BINS = ("<5", "5-10", "10-20", "20-40", "≥40", UNKNOWN)

Answered = Mapping[str, Sequence[Outcome]]
"""Model → its outcomes, all in the order of the set."""


def stage_numbers(plan: StagesPlan, answered: Mapping[str, Answered], replicates: int = 2_000) -> dict[str, Any]:
    """The numbers of each set in JSON's types; `answered` by set. Models that are not there are left out.

    Raises ValueError where two models of a set were not asked the same questions.
    """
    told: dict[str, Any] = tidy({name: _of_set(plan, models, replicates) for name, models in answered.items()})
    return told


def _of_set(plan: StagesPlan, answered: Answered, replicates: int) -> dict[str, Any]:
    first = next(iter(answered.values()))
    asked = [(o.id, o.task, o.truth) for o in first]
    for model, outcomes in answered.items():
        if [(o.id, o.task, o.truth) for o in outcomes] != asked:
            raise ValueError(f"{model} was not asked the same questions as {next(iter(answered))}")
    draws = Resamples([o.object_id for o in first], replicates, 0)
    models = {model: _Drawn(answered[model], draws) for model in plan.models if model in answered}
    numbers = {model: _of_model(plan, model, drawn) for model, drawn in models.items()}
    low = np.array([_is_low(o) for o in first])
    return {
        "questions": len(first),
        "objects": draws.n_objects,
        "members": sum(o.truth == "YES" for o in first),
        "low_snr": {"below": LOW_SNR, "questions": int(low.sum())},
        "replicates": replicates,
        "models": numbers,
        "stages": {row: _of_row(names, numbers) for row, names in plan.stages.items() if numbers.keys() & set(names)},
        "differences": [told for pair in plan.differences if (told := _pair(plan, pair.of, pair.over, models))],
    }


class _Drawn:
    """A model's measures in the sample and in every resample: arrays of (1 + replicates,)."""

    def __init__(self, outcomes: Sequence[Outcome], draws: Resamples) -> None:
        self.outcomes, self.draws = outcomes, draws
        self.sheet: Sheet = sheet_of(outcomes)
        self.calls: Floats = np.array([o.calls for o in outcomes], dtype=np.float64)
        self.tasks = f1_of_tasks(self.sheet, draws)
        low = np.array([_is_low(o) for o in outcomes])
        right, ones = self.sheet.right.astype(np.float64), np.ones(len(outcomes))
        form = np.array([o.format_ok for o in outcomes], dtype=np.float64)
        sums = draws.sums(np.stack([right, form, self.calls, ones, right * low, low], axis=1))
        self.measures: dict[str, Floats] = {
            "macro_f1": mean_of_tasks(self.tasks),
            "accuracy": ratio(sums[:, 0], sums[:, 3]),
            "format": ratio(sums[:, 1], sums[:, 3]),
            "calls": ratio(sums[:, 2], sums[:, 3]),
            "low_snr_macro_f1": mean_of_tasks(f1_of_tasks(self.sheet, draws, low)),
            "low_snr_accuracy": ratio(sums[:, 4], sums[:, 5]),
        }

    def calls_by(self, names: Sequence[str], order: Sequence[str]) -> dict[str, Any]:
        """Mean calls of each group of questions, with its interval."""
        told, groups = np.array(names), [name for name in order if name in set(names)]
        masks = np.stack([told == name for name in groups], axis=1).astype(np.float64)
        sums = self.draws.sums(np.concatenate([masks * self.calls[:, None], masks], axis=1))
        means = ratio(sums[:, : len(groups)], sums[:, len(groups) :])
        return {name: {"n": int(masks[:, i].sum()), "calls": bootstrap(means[:, i])} for i, name in enumerate(groups)}


def _is_low(outcome: Outcome) -> bool:
    return outcome.snr is not None and outcome.snr < LOW_SNR


def _of_model(plan: StagesPlan, model: str, drawn: _Drawn) -> dict[str, Any]:
    row, seed = plan.models[model]
    outcomes, sheet = drawn.outcomes, drawn.sheet
    objects = drawn.draws.n_objects
    told: dict[str, Any] = {"stage": row, "seed": seed}
    for name in MEASURES:
        of_share = name in ("accuracy", "format")
        told[name] = share(drawn.measures[name], objects) if of_share else bootstrap(drawn.measures[name])
    told |= {
        "correct": {"k": int(sheet.right.sum()), "n": len(outcomes)},
        "said_yes": int(sheet.said_yes.sum()),
        "unanswered": int((~sheet.answered).sum()),
        "machinery": sum(o.machinery for o in outcomes),
        "tasks": {task: bootstrap(drawn.tasks[:, i]) for i, task in enumerate(sheet.tasks)},
    }
    if plan.conduct and row not in plan.conduct:
        return told
    words = ["right" if right else "wrong" for right in sheet.right]
    told["calls_by"] = {
        "class": drawn.calls_by([o.task for o in outcomes], sheet.tasks),
        "truth": drawn.calls_by([str(o.truth) for o in outcomes], ("YES", "NO")),
        "S/N": drawn.calls_by([snr_bin(o.snr) for o in outcomes], BINS),
        "answer": drawn.calls_by(words, ("right", "wrong")),
    }
    return told


def _of_row(names: Sequence[str], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Means over those seeds that are there, with the sample standard deviation."""
    own = [numbers[name] for name in names if name in numbers]
    means = {name: mean_and_std([one[name]["value"] for one in own]) for name in MEASURES}
    correct = mean_and_std([one["correct"]["k"] for one in own])
    tasks = {task: mean_and_std([one["tasks"][task]["value"] for one in own]) for task in own[0]["tasks"]}
    return {"seeds": [one["seed"] for one in own], **means, "correct": correct, "tasks": tasks}


def _pair(plan: StagesPlan, of: str, over: str, models: Mapping[str, _Drawn]) -> dict[str, Any] | None:
    """What a row gains over another, seed by seed and in the mean over seeds; None where no seed has both.

    `mean` is over the seeds that are there: its interval is that of questions, and says nothing of other seeds.
    """
    seeds = []
    gains: dict[str, list[Floats]] = {name: [] for name in MEASURES}
    for seed in plan.seeds:
        ours, theirs = (models.get(plan.of(row, seed)) for row in (of, over))
        if ours is None or theirs is None:
            continue
        told: dict[str, Any] = {"seed": seed}
        for name in MEASURES:
            gain = ours.measures[name] - theirs.measures[name]
            gains[name].append(gain)
            told[name] = bootstrap(gain)
        a, b = (int(n.sum()) for n in _flipped(ours.sheet.right, theirs.sheet.right))
        seeds.append(told | {"only_of": a, "only_over": b, "mcnemar_p": mcnemar(a, b)})
    if not seeds:
        return None
    mean = {name: bootstrap(np.mean(gains[name], axis=0)) for name in MEASURES}
    spread = {name: mean_and_std([one[name]["value"] for one in seeds]) for name in MEASURES}
    return {"of": of, "over": over, "seeds": seeds, "mean": mean, "over_seeds": spread}


def _flipped(ours: Bools, theirs: Bools) -> tuple[Bools, Bools]:
    return ours & ~theirs, theirs & ~ours
