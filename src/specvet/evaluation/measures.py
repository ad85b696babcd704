"""`measure`: all numbers of a cell, from its outcomes alone.

No answer is wrong, whatever ended the trajectory, and stays in every denominator. Nothing here knows a model: the same
outcomes give the same numbers, to the sixth digit, on any machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from specvet.evaluation.counts import Sheet, accuracy, by_task, macro_f1, share_of, sheet_of
from specvet.evaluation.groups import confusers, cross_survey, groups, seen_unseen, windows
from specvet.evaluation.intervals import Interval, Resamples, bootstrap, tidy
from specvet.evaluation.metadata_only import metadata_only
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.prevalence import at_prevalences
from specvet.evaluation.ranking import ranking, reliability, risk_coverage
from specvet.records.schema import Answer

COSTS = (0.05, 0.1, 0.25, 0.5)
"""Of a question without an answer, where an error costs 1."""


def measure(
    outcomes: Sequence[Outcome],
    *,
    replicates: int = 2_000,
    seed: int = 0,
    unseen: Collection[str] = (),
    reference: str | None = None,
) -> dict[str, Any]:
    """The numbers of `metrics.json`, in JSON's types.

    `replicates` of the bootstrap (0: no such intervals) and its `seed`; `unseen`: tasks that the policy was not trained
    on; `reference`: the survey that others are compared with. Raises ValueError for no outcomes.
    """
    if not outcomes:
        raise ValueError("there are no outcomes to measure")
    sheet = sheet_of(outcomes)
    draws = Resamples([o.object_id for o in outcomes], replicates, seed)
    tasks = by_task(sheet, draws)
    told = {
        "questions": len(outcomes),
        "objects": draws.n_objects,
        "replicates": replicates,
        "headline": {
            "macro_f1": macro_f1(sheet, draws),
            "accuracy": accuracy(sheet, draws),
            "format": share_of(np.array([o.format_ok for o in outcomes]), draws),
            "correct": {"k": int(sheet.right.sum()), "n": len(outcomes)},
            "left_out": [task for task, of in tasks.items() if of["f1"]["value"] is None],
        },
        "tasks": tasks,
        "answers": {str(word): sum(o.verdict == word for o in outcomes) for word in Answer},
        "stops": _counted(str(o.stop) for o in outcomes),
        "malformed": _counted(str(kind) for o in outcomes for kind in o.malformed),
        "machinery": sum(o.machinery for o in outcomes),
        **_work(outcomes),
        "ranking": ranking(sheet, draws),
        "reliability": reliability(sheet),
        "risk_coverage": risk_coverage(sheet),
        "prevalence": at_prevalences(sheet),
        "decisions": _decisions(sheet, draws),
        "groups": groups(outcomes, sheet, draws),
        "confusers": confusers(outcomes),
        "metadata_only": metadata_only(outcomes),
        "seen_unseen": seen_unseen(sheet, draws, unseen),
        "cross_survey": cross_survey(outcomes, sheet, draws, reference),
        "windows": windows(outcomes),
    }
    rounded: dict[str, Any] = tidy(told)
    return rounded


def _decisions(sheet: Sheet, draws: Resamples) -> dict[str, Any]:
    """What becomes of questions without an answer: forced to the likelier word, left out, or paid for."""
    forced, answered = sheet.forced(), sheet.answered
    return {
        "forced": {
            "n": int((forced.answered & ~answered).sum()),
            "accuracy": accuracy(forced, draws),
            "macro_f1": macro_f1(forced, draws),
        },
        "selective": {
            "n": int(answered.sum()),
            "coverage": share_of(answered, draws),
            "accuracy": accuracy(sheet, draws, answered),
            "macro_f1": macro_f1(sheet, draws, answered),
        },
        "abstention_cost": {str(cost): _cost(sheet, draws, cost) for cost in COSTS},
    }


def _cost(sheet: Sheet, draws: Resamples, cost: float) -> Interval:
    paid = np.where(sheet.answered, ~sheet.right, cost)
    sums = draws.sums(np.stack([paid, np.ones(len(paid))], axis=1))
    return bootstrap(sums[:, 0] / sums[:, 1])


def _work(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Calls, turns, tokens and seconds. Means are a question; `success_share` is of the calls that were made."""
    made, succeeded = sum(o.calls for o in outcomes), sum(o.calls_succeeded for o in outcomes)
    turns, seconds = np.array([o.turns for o in outcomes]), np.array([o.seconds for o in outcomes])
    return {
        "calls": {
            "made": made,
            "executed": sum(o.calls_executed for o in outcomes),
            "succeeded": succeeded,
            "success_share": succeeded / made if made else None,
            "mean": made / len(outcomes),
            "without_share": sum(not o.calls for o in outcomes) / len(outcomes),
        },
        "turns": {"mean": float(turns.mean()), "median": float(np.median(turns)), "max": int(turns.max())},
        "tokens": _tokens(outcomes),
        "seconds": {
            "mean": float(seconds.mean()),
            "median": float(np.median(seconds)),
            "p95": float(np.percentile(seconds, 95)),
        },
    }


def _tokens(outcomes: Sequence[Outcome]) -> dict[str, Any] | None:
    """Sums, and means over the questions that took tokens; None where none did."""
    prompt, sampled, ledger = (
        [n for o in outcomes if (n := getattr(o, f"{name}_tokens")) is not None]
        for name in ("prompt", "sampled", "ledger")
    )
    if not sampled:
        return None
    return {
        "prompt": sum(prompt),
        "sampled": sum(sampled),
        "sampled_mean": sum(sampled) / len(sampled),
        "ledger_mean": sum(ledger) / len(ledger) if ledger else None,
    }


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))
