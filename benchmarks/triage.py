"""What calibrated triage is worth on the published baselines: SimVI's part for tuning (SIMULATED), and real spectra.

    python benchmarks/triage.py [--out results/triage] [--json]

Reads the rows of `results/eval/baselines`, so it needs no spectra. Everything is cross-fitted by object: the cases are
dealt into five parts, and what is told of each comes from a calibration on the other four, which cross-fits once more
inside. Told for each policy, alone and with the evidence of `line-indices` beside it:

- Brier score, expected calibration error of p(YES) (15 bins of equal mass) and AUROC, raw and calibrated;
- others that a person must look at when 97 % of the members are found, with the threshold put where that holds, and
  looks saved against looking at all, in lists with 2 % and 0.2 % members;
- the same for the promise "at most 2 % (5 %) of the true objects are lost, 95 % confidence", with the threshold of the
  other four parts: what was really lost, and how many looks it takes;
- lists of 2 % and 0.2 % members put together of the held-out cases: how near the estimated prevalence comes.

Undecided cases (UNSURE, NO_DATA, FAILED) are looked at, in every number.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import specvet
from specvet.evaluation.rows import read_rows
from specvet.vetting.triage.bands import promises
from specvet.vetting.triage.calibration import Calibration, probability
from specvet.vetting.triage.cases import DECIDED, cases_of
from specvet.vetting.triage.fitting import Labelled, calibrate
from specvet.vetting.triage.folds import FOLDS, fold_of
from specvet.vetting.triage.numbers import fit_and_rank, share_looked_at
from specvet.vetting.triage.prevalence import estimate

BASELINES = Path(__file__).parents[1] / "results" / "eval" / "baselines" / "cells"
SETS = {"simvi-val": ("line-indices", "trees", "cnn"), "realvi": ("line-indices", "trees", "cnn")}
RECALL = 0.97
PREVALENCES = (0.02, 0.002)
PROMISES = (0.02, 0.05)
LISTS, LENGTH = 20, 20_000


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Cases with what a calibration that had not seen their objects says of them, (cases,)."""

    labelled: list[Labelled]
    evidence: np.ndarray[Any, Any]
    p: np.ndarray[Any, Any]
    lost: dict[float, np.ndarray[Any, Any]]
    """By promise: whether the case was rejected."""
    calibrations: list[Calibration]

    @property
    def yes(self) -> np.ndarray[Any, Any]:
        return np.array([one.yes for one in self.labelled])

    @property
    def decided(self) -> np.ndarray[Any, Any]:
        return np.array([one.case.answer in DECIDED for one in self.labelled]) & np.isfinite(self.evidence)

    def of(self, task: str) -> np.ndarray[Any, Any]:
        return np.array([one.case.task == task for one in self.labelled])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for metrics.json")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    args = parser.parse_args()
    begun = time.process_time()
    found: dict[str, Any] = {}
    for name, policies in SETS.items():
        measured = read(name, "line-indices")
        for policy in policies:
            labelled = measured if policy == "line-indices" else read(name, policy)
            found[f"{name} {policy}"] = numbers(held_out(labelled, policy))
            if policy != "line-indices":
                found[f"{name} {policy} + indices"] = numbers(held_out(joined(labelled, measured), policy))
            print(f"{name} {policy}: {time.process_time() - begun:.0f} s", file=sys.stderr)
    result = {
        "what": "triage, cross-fitted by object; simvi-val is SIMULATED",
        "policies": found,
        "cpu_s": round(time.process_time() - begun, 1),
        "versions": {"specvet": specvet.__version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "metrics.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    table(found)
    if args.json:
        print(json.dumps(result))
    return 0


def read(set_name: str, policy: str) -> list[Labelled]:
    """The labelled cases of a published cell."""
    (folder,) = BASELINES.glob(f"{policy}--{set_name}--*")
    decisions = [decision for _, _, decision in read_rows(folder / "rows.parquet")]
    asked = {(d.file, d.row, d.task): d.trajectory.question for d in decisions if d.trajectory}
    return [
        Labelled(case, asked[case.place].answer == "YES", asked[case.place].object_id or case.file)
        for case in cases_of(decisions)
    ]


def joined(labelled: Sequence[Labelled], measured: Sequence[Labelled]) -> list[Labelled]:
    """With the evidence of the indices of the same spectrum and task."""
    known = {one.case.place: one.case.features for one in measured}
    found = []
    for one in labelled:
        more = {name: x for name, x in known[one.case.place].items() if name in ("index", "index_sn")}
        found.append(replace(one, case=replace(one.case, features={**one.case.features, **more})))
    return found


def held_out(labelled: Sequence[Labelled], policy: str) -> HeldOut:
    """Each fifth of the objects by a calibration of the others."""
    fold = np.array([fold_of(one.object_id, seed=7) for one in labelled])
    n = len(labelled)
    evidence, p = np.full(n, np.nan), np.full(n, np.nan)
    lost = {share: np.zeros(n, dtype=bool) for share in PROMISES}
    calibrations = []
    for held in range(FOLDS):
        made = calibrate([one for one, f in zip(labelled, fold, strict=True) if f != held], policy=policy)
        calibrations.append(made)
        here = np.flatnonzero(fold == held)
        cases = [labelled[i].case for i in here]
        evidence[here] = made.evidence(cases)
        for task, known in made.tasks.items():
            mine = here[[case.task == task for case in cases]]
            p[mine] = probability(evidence[mine], known.prior)
        for share in PROMISES:
            thresholds = promises(made, dict.fromkeys(made.tasks, 0.1), share, 0.05, 0.95)
            for i, case in zip(here, cases, strict=True):
                promise = thresholds.get(case.task)
                below = None if promise is None else promise.reject_below
                decided = case.answer in DECIDED and np.isfinite(evidence[i])
                lost[share][i] = below is not None and decided and evidence[i] < below
    return HeldOut(list(labelled), evidence, p, lost, calibrations)


def numbers(held: HeldOut) -> dict[str, Any]:
    """All that the head of this file names."""
    raw = np.array([np.nan if one.case.p_raw is None else one.case.p_raw for one in held.labelled])
    known = np.isfinite(held.p)
    tasks = sorted(held.calibrations[0].tasks)
    every = np.any([held.of(task) for task in tasks], axis=0)
    told: dict[str, Any] = {
        "cases": int(every.sum()),
        "members": int((held.yes & every).sum()),
        "tasks": tasks,
        "raw": fit_and_rank(raw[known], held.yes[known]),
        "calibrated": fit_and_rank(held.p[known], held.yes[known]),
        "at_recall": {"all": at_recall(held, every)} | {task: at_recall(held, held.of(task)) for task in tasks},
        "promised": {str(share): promised(held, every, share) for share in PROMISES},
        "prevalence": {str(p): estimated(held, tasks, p) for p in PREVALENCES},
    }
    return told


def at_recall(held: HeldOut, here: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Of the others looked at when the threshold finds 97 % of the members."""
    decided, yes = held.decided & here, held.yes
    members = np.sort(held.evidence[decided & yes])[::-1]
    total, undecided = int((yes & here).sum()), int((yes & here & ~decided).sum())
    needed = int(np.ceil(RECALL * total)) - undecided
    threshold = -np.inf if needed > members.size else np.inf if needed <= 0 else members[needed - 1]
    looked = here & (~decided | (held.evidence >= threshold))
    return spent(looked, here, yes)


def promised(held: HeldOut, here: np.ndarray[Any, Any], share: float) -> dict[str, Any]:
    """What was lost and looked at under a promise."""
    rejected = held.lost[share] & here
    lost = int((rejected & held.yes).sum())
    return {"rejected": int(rejected.sum()), "lost": lost} | spent(here & ~rejected, here, held.yes)


def spent(looked: np.ndarray[Any, Any], here: np.ndarray[Any, Any], yes: np.ndarray[Any, Any]) -> dict[str, Any]:
    found, alarms = float(looked[yes & here].mean()), float(looked[~yes & here].mean())
    fewer = {str(p): round(1.0 / share_looked_at(p, found, alarms), 1) for p in PREVALENCES}
    return {"recall": round(found, 4), "false_positives": round(alarms, 4), "fewer_looks": fewer}


def estimated(held: HeldOut, tasks: Sequence[str], prevalence: float) -> dict[str, Any]:
    """Estimates of the prevalence of lists put together of held-out cases; how many intervals hold the truth."""
    rng = np.random.default_rng(0)
    values, inside = [], 0
    scored = np.isfinite(held.evidence)
    for task in tasks:
        members, others = (held.evidence[held.of(task) & scored & side] for side in (held.yes, ~held.yes))
        for number in range(LISTS // len(tasks) + 1):
            n = round(prevalence * LENGTH)
            drawn = np.concatenate([rng.choice(members, n), rng.choice(others, LENGTH - n)])
            known = held.calibrations[number % FOLDS].tasks[task]
            got = estimate(drawn, known, seed=number)
            values.append(got.value)
            inside += got.low <= prevalence <= got.high
    low, middle, high = np.percentile(values, (10, 50, 90))
    return {
        "median": round(float(middle), 5),
        "from_to": [round(float(low), 5), round(float(high), 5)],
        "inside": inside,
        "lists": len(values),
    }


def table(found: dict[str, Any]) -> None:
    """For people, on stderr."""
    for name, told in found.items():
        raw, fit, goal = told["raw"], told["calibrated"], told["at_recall"]["all"]
        print(
            f"\n{name}: {told['members']} members of {told['cases']} cases, {', '.join(told['tasks'])}", file=sys.stderr
        )
        for key in ("brier", "ece", "auroc"):
            print(f"  {key:6} raw {raw[key]}  calibrated {fit[key]}", file=sys.stderr)
        print(
            f"  at {RECALL:.0%} recall: {goal['false_positives']:.2%} of others, {goal['fewer_looks']}", file=sys.stderr
        )
        by_task = {t: f"{x['false_positives']:.1%}" for t, x in told["at_recall"].items() if t != "all"}
        print(f"    by task: {by_task}", file=sys.stderr)
        for share, kept in told["promised"].items():
            cost = f"{kept['false_positives']:.2%} of others, {kept['fewer_looks']}"
            print(f"  promise {share}: lost {kept['lost']} of {told['members']}, {cost}", file=sys.stderr)
        print(f"  prevalence: {told['prevalence']}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
