"""How often the 95 % interval of a list's prevalence holds the true one.

    python benchmarks/prevalence.py [--lists 100] [--only simulated|scores|chain] [--out results/triage] [--json]

Three checks, each of calibration sets and lists drawn anew every time, with prevalences of 0.1 to 10 %:

- *simulated*: SIMULATED evidence: normal (three distances), evidence three times too certain, and a class of which one
  other in 200 looks like a member and one member in ten like an other;
- *scores*: held-out evidence of the published baselines (`results/eval/baselines`), each task a population from which
  calibration set and list are drawn with replacement;
- *chain*: calibration by `specvet triage calibrate`'s own code on few objects of one half, and lists of the other half,
  no case twice, all tasks as one. Lists are short, since real members are few.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import specvet
from specvet.vetting.triage.calibration import TaskCalibration, Weights
from specvet.vetting.triage.fitting import Labelled, calibrate
from specvet.vetting.triage.folds import fold_of
from specvet.vetting.triage.prevalence import estimate
from triage import SETS, held_out, read

PREVALENCES = (0.001, 0.002, 0.01, 0.1)
CALIBRATION_SETS = ((40, 200), (40, 1_000), (150, 2_000))
"""Members and others."""
LENGTHS = (2_000, 20_000)

Draw = Callable[[int, np.random.Generator], np.ndarray[Any, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, default=100, help="of each setting")
    parser.add_argument("--only", choices=("simulated", "scores", "chain"))
    parser.add_argument("--out", type=Path, help="folder for prevalence.json, a summary")
    parser.add_argument("--json", action="store_true", help="print one JSON line last, with every row")
    args = parser.parse_args()
    begun = time.process_time()
    parts = {"simulated": simulated, "scores": scores, "chain": chain}
    found = {name: list(part(args.lists)) for name, part in parts.items() if args.only in (None, name)}
    result = {
        "what": "coverage of the 95 % interval of the prevalence; simulated, and simvi-val, are SIMULATED",
        "lists": args.lists,
        "found": found,
        "cpu_s": round(time.process_time() - begun, 1),
        "versions": {"specvet": specvet.__version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        told = result | {"found": {name: summary(rows) for name, rows in found.items()}}
        text = json.dumps(told, indent=1) + "\n"
        (args.out / "prevalence.json").write_text(text, encoding="utf-8")
    for name, rows in found.items():
        for row in rows:
            print(f"{name}: {row}", file=sys.stderr)
        held, lists = sum(r["held"] for r in rows), sum(r["lists"] for r in rows)
        print(f"{name}: {held} of {lists} ({held / lists:.1%})", file=sys.stderr)
    if args.json:
        print(json.dumps(result))
    return 0


def normal(apart: float, scale: float = 1.0) -> tuple[Draw, Draw]:
    """Members and others whose log-odds are their own evidence, times `scale`."""
    spread = math.sqrt(apart)
    return (
        lambda n, rng: scale * (0.5 * apart + spread * rng.normal(size=n)),
        lambda n, rng: scale * (-0.5 * apart + spread * rng.normal(size=n)),
    )


def heavy() -> tuple[Draw, Draw]:
    return (
        lambda n, rng: np.where(rng.random(n) < 0.1, -4.0, 5.0) + 2.0 * rng.normal(size=n),
        lambda n, rng: np.where(rng.random(n) < 0.005, 4.0, -5.0) + 2.0 * rng.normal(size=n),
    )


def simulated(lists: int) -> Iterator[dict[str, Any]]:
    kinds = {"apart 4": normal(4), "apart 9": normal(9), "apart 25": normal(25), "too certain": normal(9, 3.0)}
    for name, (members, others) in (kinds | {"heavy tails": heavy()}).items():
        yield from covered(name, members, others, lists)


def scores(lists: int) -> Iterator[dict[str, Any]]:
    for set_name, policies in SETS.items():
        for policy in policies:
            held = held_out(read(set_name, policy), policy)
            for task in sorted(held.calibrations[0].tasks):
                here = held.of(task) & held.decided
                members, others = held.evidence[here & held.yes], held.evidence[here & ~held.yes]
                if members.size >= 10:
                    name = f"{set_name} {policy} {task}"
                    settings = [(CALIBRATION_SETS[0], LENGTHS[0]), (CALIBRATION_SETS[1], LENGTHS[1])]
                    yield from covered(name, _from(members), _from(others), max(lists // 4, 10), settings)


def _from(population: np.ndarray[Any, Any]) -> Draw:
    return lambda n, rng: rng.choice(population, n)


def covered(
    name: str,
    members: Draw,
    others: Draw,
    lists: int,
    settings: list[tuple[tuple[int, int], int]] | None = None,
) -> Iterator[dict[str, Any]]:
    """Each prevalence, with each calibration set and length of a list."""
    for (n_members, n_others), length in settings or [(s, n) for s in CALIBRATION_SETS for n in LENGTHS]:
        for prevalence in PREVALENCES:
            got = []
            for number in range(lists):
                rng = np.random.default_rng([number, length, n_others])
                known = TaskCalibration(
                    model=Weights(intercept=0.0, weights=()),
                    prior=n_members / (n_members + n_others),
                    members=tuple(np.sort(members(n_members, rng)).tolist()),
                    others=tuple(np.sort(others(n_others, rng)).tolist()),
                )
                n = int(rng.binomial(length, prevalence))
                listed = np.concatenate([members(n, rng), others(length - n, rng)])
                got.append(estimate(listed, known, seed=number))
            about = {"of": name, "members": n_members, "others": n_others, "length": length}
            yield about | counted(got, prevalence)


def counted(got: list[Any], prevalence: float) -> dict[str, Any]:
    return {
        "prevalence": prevalence,
        "lists": len(got),
        "held": sum(p.low <= prevalence <= p.high for p in got),
        "above": sum(p.low > prevalence for p in got),
        "below": sum(p.high < prevalence for p in got),
        "no_mixture": sum(not p.fits for p in got),
        "median": [round(float(np.median([getattr(p, end) for p in got])), 5) for end in ("low", "value", "high")],
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Intervals that held the prevalence, of all: by what was drawn, by prevalence, by calibration set."""
    told: dict[str, Any] = {"all": share(rows)}
    for key in ("of", "prevalence", "members", "length"):
        values = list(dict.fromkeys(row[key] for row in rows if key in row))
        told[f"by_{key}"] = {str(value): share([row for row in rows if row[key] == value]) for value in values}
    return told | {"no_mixture": sum(row["no_mixture"] for row in rows)}


def share(rows: list[dict[str, Any]]) -> dict[str, int | float]:
    held, lists = sum(row["held"] for row in rows), sum(row["lists"] for row in rows)
    return {"held": held, "lists": lists, "share": round(held / lists, 4)}


def chain(lists: int) -> Iterator[dict[str, Any]]:
    for set_name, policies in SETS.items():
        for policy in policies:
            labelled = [
                replace(one, case=replace(one.case, task="all"), object_id=one.object_id)
                for one in read(set_name, policy)
                if one.case.scored
            ]
            for prevalence in (0.001, 0.01, 0.05):
                got = [sampled(labelled, policy, prevalence, number) for number in range(max(lists // 4, 10))]
                about = {"of": f"{set_name} {policy}", "members": 40, "others": 400}
                yield about | counted(got, prevalence)


def sampled(labelled: list[Labelled], policy: str, prevalence: float, number: int) -> Any:
    """A calibration of 40 members and 400 others of some objects, and a list of the other objects."""
    rng = np.random.default_rng([7, number])
    halves: tuple[list[Labelled], list[Labelled]] = ([], [])
    for one in labelled:
        halves[fold_of(one.object_id, 1_000 + number) % 2].append(one)
    sides = [[[one for one in half if one.yes is yes] for yes in (True, False)] for half in halves]
    (members, others), (listed_members, listed_others) = ([_shuffled(side, rng) for side in half] for half in sides)
    made = calibrate(members[:40] + others[:400], policy=policy)
    length = int(len(listed_others) / (1.0 - prevalence))
    n = min(int(rng.binomial(length, prevalence)), len(listed_members))
    cases = [one.case for one in listed_members[:n] + listed_others[: length - n]]
    decided = np.array([case.answer in ("YES", "NO") for case in cases])
    return estimate(made.evidence(cases), made.tasks["all"], number, decided)


def _shuffled(side: list[Labelled], rng: np.random.Generator) -> list[Labelled]:
    return [side[i] for i in rng.permutation(len(side))]


if __name__ == "__main__":
    sys.exit(main())
