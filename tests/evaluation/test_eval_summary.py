"""A campaign's numbers: cells side by side, means over seeds, paired differences."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specvet.evaluation.cells import metrics_file
from specvet.evaluation.folder import CampaignFolder, open_campaign
from specvet.evaluation.paired import compare
from specvet.evaluation.plan import Comparison
from specvet.evaluation.sealing import metrics_of, metrics_text
from specvet.evaluation.summary import mean_and_std, met, summarise


@pytest.fixture(scope="module")
def summary(example: CampaignFolder) -> dict[str, Any]:
    return summarise(example)


def test_every_cell_has_its_row_with_its_own_numbers(example: CampaignFolder, summary: dict[str, Any]) -> None:
    assert summary == example.summary() == json.loads(json.dumps(summary, allow_nan=False))
    assert (summary["schema_version"], summary["campaign"], summary["rule"]) == (1, "example", "strict/1")
    assert [(row["policy"], row["set"], row["seed"]) for row in summary["rows"]] == [
        ("line-indices", "examples", None),
        ("gambler", "examples", 42),
        ("gambler", "examples", 43),
        ("careful", "examples", 42),
        ("careful", "examples", 43),
    ]
    for row, cell in zip(summary["rows"], example.cells, strict=True):
        numbers = cell.metrics()
        assert (row["cell"], row["label"]) == (cell.name, cell.label)
        assert {name: row[name] for name in numbers["headline"]} == numbers["headline"]
        assert row["tasks"] == {task: of["f1"] for task, of in numbers["tasks"].items()}
        assert row["auroc"] == numbers["ranking"]["all"]["auroc"]
        assert row["correct"]["k"] == sum(o.right for o in cell.outcomes())
        assert row["questions"] == 14
        for name in ("calls", "turns", "seconds", "tokens", "machinery", "objects", "seconds_per_spectrum"):
            assert row[name] == numbers[name]
        assert row["cost_usd"] is None


def test_means_are_over_seeds_with_the_sample_standard_deviation(summary: dict[str, Any]) -> None:
    assert [(mean["policy"], mean["seeds"]) for mean in summary["means"]] == [
        ("line-indices", [None]),
        ("gambler", [42, 43]),
        ("careful", [42, 43]),
    ]
    rows = [row for row in summary["rows"] if row["policy"] == "gambler"]
    mean = summary["means"][1]
    for name in ("macro_f1", "accuracy", "format"):
        values = [row[name]["value"] for row in rows]
        assert mean[name]["mean"] == pytest.approx(np.mean(values), abs=1e-6)
        assert mean[name]["std"] == pytest.approx(np.std(values, ddof=1), abs=1e-6)
        assert mean[name]["n"] == 2
    assert mean["correct"]["mean"] == np.mean([row["correct"]["k"] for row in rows])
    assert mean["calls"]["mean"] == pytest.approx(np.mean([row["calls"]["mean"] for row in rows]), abs=1e-6)
    assert set(mean["tasks"]) == set(rows[0]["tasks"])
    assert summary["means"][0]["accuracy"]["std"] is None
    assert summary["means"][0]["sampled_tokens"] == {"mean": None, "std": None, "n": 0}


def test_a_mean_is_of_what_is_there() -> None:
    assert mean_and_std([1, 2, 4]) == {"mean": 2.333333, "std": 1.527525, "n": 3}
    assert mean_and_std([0.5, None]) == {"mean": 0.5, "std": None, "n": 1}
    assert mean_and_std([None]) == {"mean": None, "std": None, "n": 0}


def test_a_measuring_policy_meets_each_seed_of_the_other(example: CampaignFolder, summary: dict[str, Any]) -> None:
    told = summary["comparisons"]
    assert [(one["of"], one["over"], [per["seed"] for per in one["seeds"]]) for one in told] == [
        ("gambler", "line-indices", [42, 43]),
        ("careful", "line-indices", [42, 43]),
        ("careful", "gambler", [42, 43]),
    ]
    cells = {cell.name: cell for cell in example.cells}
    for one in told:
        for per in one["seeds"]:
            ours, theirs = cells[per["of_cell"]], cells[per["over_cell"]]
            expected = compare(ours.outcomes(), theirs.outcomes(), replicates=40)
            expected.pop("flipped")
            assert {name: per[name] for name in expected} == expected
            assert per["both_right"] + per["only_a"] + per["only_b"] + per["neither"] == per["n"] == 14
        values = [per["accuracy"]["difference"]["value"] for per in one["seeds"]]
        assert one["over_seeds"]["accuracy"]["mean"] == pytest.approx(np.mean(values), abs=1e-6)
        assert one["over_seeds"]["accuracy"]["std"] == pytest.approx(np.std(values, ddof=1), abs=1e-6)


def test_another_rule_is_summed_up_from_what_it_was_rescored_with(example: CampaignFolder, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="lenient-1"):
        summarise(example, "lenient")
    copy = open_campaign(Path(shutil.copytree(example.path, tmp_path / "copy")))
    for cell in copy.cells:
        file = cell.path / metrics_file("lenient/1", cell.record.rule)
        file.write_text(metrics_text(metrics_of(cell, "lenient/1")), encoding="utf-8")
    again = summarise(open_campaign(copy.path), "lenient")
    assert again["rule"] == "lenient/1"
    before = example.summary()["rows"]
    assert [row["cell"] for row in again["rows"]] == [row["cell"] for row in before]
    assert all(new["correct"]["n"] == old["correct"]["n"] for new, old in zip(again["rows"], before, strict=True))


def cell(policy: str, seed: int | None, asked: str = "s") -> Any:
    return SimpleNamespace(record=SimpleNamespace(policy=policy, set=asked, seed=seed))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([cell("a", 1), cell("a", 2), cell("b", 2), cell("b", 3)], [(2, 1, 2)]),
        ([cell("a", None), cell("b", 2), cell("b", 3)], [(2, 0, 1), (3, 0, 2)]),
        ([cell("a", None), cell("b", None)], [(None, 0, 1)]),
        ([cell("a", 1), cell("b", 1, "other"), cell("c", 1)], []),
        ([cell("a", None)], []),
        ([], []),
    ],
)
def test_cells_meet_by_seed(cells: list[Any], expected: list[Any]) -> None:
    assert met(cells, Comparison(of="a", over="b"), "s") == expected
