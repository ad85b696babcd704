"""A campaign's `metrics.json`: its cells side by side, means over seeds, paired differences.

Everything comes from the cells' own numbers and outcomes; a spread over seeds is the sample standard deviation (one
degree of freedom less), which one seed does not have.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from specvet.evaluation.cells import Cell
from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.intervals import tidy
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.paired import compare
from specvet.evaluation.plan import Comparison
from specvet.evaluation.rules import rule

SCORES = ("auroc", "auprc", "brier", "ece", "aurc")
DIFFERENCES = ("accuracy", "macro_f1", "format")

Numbers = Mapping[str, Any]


def _value(name: str) -> Callable[[Numbers], float | None]:
    """Of an interval in a row, which may not be there."""
    return lambda row: (row[name] or {}).get("value")


_AVERAGED: dict[str, Callable[[Numbers], float | None]] = {
    **{name: _value(name) for name in ("macro_f1", "accuracy", "format", *SCORES)},
    "correct": lambda row: row["correct"]["k"],
    "calls": lambda row: row["calls"]["mean"],
    "turns": lambda row: row["turns"]["mean"],
    "sampled_tokens": lambda row: row["tokens"] and row["tokens"]["sampled_mean"],
    "seconds": lambda row: row["seconds"]["mean"],
    "seconds_per_spectrum": lambda row: row["seconds_per_spectrum"],
    "cost_usd": lambda row: row["cost_usd"],
    "machinery": lambda row: row["machinery"],
}


def summarise(folder: CampaignFolder, name: str | None = None) -> dict[str, Any]:
    """The numbers of the cells that count now, under the campaign's rule or another that they were rescored with.

    Raises OSError where a cell's numbers under that rule are not there, ValueError for one that cannot be read.
    """
    chosen = rule(name or folder.campaign.rule).name
    cells = folder.current()
    rows = [_row(cell, cell.metrics(chosen)) for cell in cells]
    return {
        "schema_version": 1,
        "campaign": folder.campaign.name,
        "rule": chosen,
        "rows": rows,
        "means": list(_means(rows)),
        "comparisons": list(_comparisons(folder, cells, chosen)),
    }


def mean_and_std(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean and sample standard deviation of those that are there, and how many these are."""
    there = [float(value) for value in values if value is not None]
    told = {
        "mean": statistics.fmean(there) if there else None,
        "std": statistics.stdev(there) if len(there) > 1 else None,
        "n": len(there),
    }
    rounded: dict[str, Any] = tidy(told)
    return rounded


def _row(cell: Cell, numbers: Numbers) -> dict[str, Any]:
    ranks = numbers["ranking"]["all"] or {}
    return {
        "policy": cell.record.policy,
        "label": cell.label,
        "set": cell.record.set,
        "seed": cell.record.seed,
        "cell": cell.name,
        "questions": numbers["questions"],
        "objects": numbers["objects"],
        **numbers["headline"],
        "tasks": {task: of["f1"] for task, of in numbers["tasks"].items()},
        **{score: ranks.get(score) for score in SCORES},
        **{name: numbers[name] for name in ("calls", "turns", "tokens", "seconds")},
        "seconds_per_spectrum": numbers["seconds_per_spectrum"],
        "cost_usd": cell.record.cost_usd,
        "machinery": numbers["machinery"],
        "seen_in_training": numbers.get("seen_in_training"),
    }


def _means(rows: Sequence[Numbers]) -> Iterator[dict[str, Any]]:
    """One a policy and set, over its seeds."""
    together: dict[tuple[str, str], list[Numbers]] = {}
    for row in rows:
        together.setdefault((row["policy"], row["set"]), []).append(row)
    for (policy, asked), seeds in together.items():
        tasks = list(seeds[0]["tasks"])
        yield {
            "policy": policy,
            "label": seeds[0]["label"],
            "set": asked,
            "seeds": [row["seed"] for row in seeds],
            **{name: mean_and_std([value(row) for row in seeds]) for name, value in _AVERAGED.items()},
            "tasks": {task: mean_and_std([row["tasks"][task]["value"] for row in seeds]) for task in tasks},
        }


def _comparisons(folder: CampaignFolder, cells: Sequence[Cell], name: str) -> Iterator[dict[str, Any]]:
    """Each pair that is meant, on each set, seed by seed; those of which a side is not there yet are left out."""

    @lru_cache(maxsize=8)
    def outcomes(place: int) -> list[Outcome]:
        return cells[place].outcomes(name)

    for pair in folder.campaign.pairs():
        for asked in folder.sets:
            seeds = []
            for seed, ours, theirs in met(cells, pair, asked):
                numbers = compare(outcomes(ours), outcomes(theirs), replicates=folder.campaign.replicates)
                numbers.pop("flipped", None)  # `eval compare` lists them
                seeds.append({"seed": seed, "of_cell": cells[ours].name, "over_cell": cells[theirs].name, **numbers})
            if seeds:
                yield {
                    "of": pair.of,
                    "over": pair.over,
                    "set": asked,
                    "seeds": seeds,
                    "over_seeds": {
                        key: mean_and_std([one[key]["difference"]["value"] for one in seeds]) for key in DIFFERENCES
                    },
                }


def met(cells: Sequence[Cell], pair: Comparison, asked: str) -> list[tuple[int | None, int, int]]:
    """(seed, place of one cell, place of the other) of a pair on a set.

    A policy that measures has one cell for all seeds, which meets each of the other's.
    """
    ours, theirs = (
        {cell.record.seed: place for place, cell in enumerate(cells) if (cell.record.policy, cell.record.set) == side}
        for side in ((pair.of, asked), (pair.over, asked))
    )
    seeds: list[int | None] = [seed for seed in {**ours, **theirs} if seed is not None]
    seeds = seeds or [None]
    found = ((seed, ours.get(seed, ours.get(None)), theirs.get(seed, theirs.get(None))) for seed in seeds)
    return [(seed, a, b) for seed, a, b in found if a is not None and b is not None]
