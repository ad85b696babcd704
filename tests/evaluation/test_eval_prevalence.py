"""What a score means where members are rare."""

from __future__ import annotations

import pytest
from outcome_lab import outcomes
from scipy.stats import beta

from specvet.evaluation.counts import sheet_of
from specvet.evaluation.prevalence import at_prevalences, precision


def bounds(k: int, n: int) -> tuple[float, float]:
    """Clopper-Pearson at 97.5 %, by scipy's beta distribution."""
    low = beta.ppf(0.0125, k, n - k + 1) if k else 0.0
    return low, beta.ppf(0.9875, k + 1, n - k) if k < n else 1.0


def test_precision_follows_bayes() -> None:
    assert precision(0.002, 0.9, 0.05) == pytest.approx(0.0018 / (0.0018 + 0.0499))
    assert precision(0.002, 0.0, 0.05) == 0
    assert precision(0.002, 0.5, 0.0) == 1
    assert precision(0.002, 0.0, 0.0) is None


def test_a_hand_made_case_at_two_percent() -> None:
    # ten members: 8 YES, 1 NO, 1 silent; forty others: 2 YES, 35 NO, 3 silent
    found = outcomes("Y" * 10 + "N" * 40, "YYYYYYYYN-" + "YY" + "N" * 35 + "---")
    told = at_prevalences(sheet_of(found))["0.02"]["cv"]
    assert told["precision"]["value"] == pytest.approx(0.016 / (0.016 + 0.98 * 0.05))
    looks = 0.02 * 0.9 + 0.98 * 0.125
    assert told["looks_per_1000"]["value"] == pytest.approx(1_000 * looks)
    assert told["looks_per_find"]["value"] == pytest.approx(looks / 0.018)
    (a, b), (c, d) = bounds(8, 10), bounds(2, 40)
    assert told["precision"]["low"] == pytest.approx(0.02 * a / (0.02 * a + 0.98 * d))
    assert told["precision"]["high"] == pytest.approx(0.02 * b / (0.02 * b + 0.98 * c))
    (a, b), (c, d) = bounds(9, 10), bounds(5, 40)
    assert told["looks_per_1000"]["low"] == pytest.approx(1_000 * (0.02 * a + 0.98 * c))
    assert told["looks_per_1000"]["high"] == pytest.approx(1_000 * (0.02 * b + 0.98 * d))
    assert told["looks_per_find"]["low"] == pytest.approx((0.02 * b + 0.98 * c) / (0.02 * b))
    assert told["looks_per_find"]["high"] == pytest.approx((0.02 * a + 0.98 * d) / (0.02 * a))
    assert {one["method"] for one in told.values()} == {"Clopper-Pearson"}


def test_without_a_false_alarm_the_precision_is_one_with_an_honest_lower_bound() -> None:
    told = at_prevalences(sheet_of(outcomes("Y" * 20 + "N" * 100, "Y" * 20 + "N" * 100)))
    rare = told["0.002"]["cv"]["precision"]
    (a, _), (_, d) = bounds(20, 20), bounds(0, 100)
    assert (rare["value"], rare["high"]) == (1, 1)
    assert rare["low"] == pytest.approx(0.002 * a / (0.002 * a + 0.998 * d))
    assert rare["low"] < 0.05  # a hundred others say nothing about one in five hundred
    assert told["0.02"]["cv"]["precision"]["low"] > rare["low"]


def test_a_policy_that_looks_at_everything_takes_one_look_for_each_object() -> None:
    told = at_prevalences(sheet_of(outcomes("YYNN", "--YY")))["0.002"]["cv"]
    assert told["looks_per_1000"]["value"] == 1_000
    assert told["looks_per_find"]["value"] == pytest.approx(500)


def test_what_was_not_seen_is_none() -> None:
    none = {"value": None, "low": None, "high": None, "method": "Clopper-Pearson"}
    for one_class in (outcomes("YY", "YN"), outcomes("NN", "YN")):
        assert at_prevalences(sheet_of(one_class))["0.02"]["cv"] == {
            "precision": none,
            "looks_per_find": none,
            "looks_per_1000": none,
        }
    nothing_said = at_prevalences(sheet_of(outcomes("YNN", "NNN")))["0.02"]["cv"]
    assert nothing_said["precision"] == nothing_said["looks_per_find"] == none
    assert nothing_said["looks_per_1000"]["value"] == 0
    missed = at_prevalences(sheet_of(outcomes("YNN", "NYN")))["0.02"]["cv"]
    assert missed["precision"]["value"] == 0
    assert missed["looks_per_find"]["value"] is None
