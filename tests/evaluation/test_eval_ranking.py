"""Ranking and calibration, held against scikit-learn and against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from outcome_lab import TASKS, many, outcomes
from sklearn import metrics

from specvet.evaluation.counts import sheet_of
from specvet.evaluation.intervals import Resamples
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.ranking import (
    BINS,
    NOTE,
    areas,
    equal_mass,
    ranked,
    ranking,
    reliability,
    risk_area,
    risk_coverage,
)


def numbers(found: list[Outcome], replicates: int = 50) -> dict:  # type: ignore[type-arg]
    return ranking(sheet_of(found), Resamples([o.object_id for o in found], replicates, seed=0))


def known(found: list[Outcome]) -> tuple[list[bool], list[float]]:
    there = [o for o in found if o.p_yes is not None]
    return [o.truth == "YES" for o in there], [float(o.p_yes or 0) for o in there]


def test_auroc_auprc_and_brier_are_those_of_scikit_learn_with_ties_in_all_and_in_each_task() -> None:
    found = many(500)
    told = numbers(found)
    parts = {None: found} | {task: [o for o in found if o.task == task] for task in TASKS}
    for task, those in parts.items():
        truth, p = known(those)
        assert len(set(p)) < len(p)  # ties
        mine = told["all"] if task is None else told["tasks"][task]
        assert mine["n"] == len(p)
        assert mine["auroc"]["value"] == pytest.approx(metrics.roc_auc_score(truth, p))
        assert mine["auprc"]["value"] == pytest.approx(metrics.average_precision_score(truth, p))
        assert mine["brier"]["value"] == pytest.approx(metrics.brier_score_loss(truth, p))
        assert mine["auroc"]["low"] < mine["auroc"]["value"] < mine["auroc"]["high"]
        assert mine["ece"]["low"] <= mine["ece"]["value"] <= mine["ece"]["high"]
    assert told["without_p_yes"] == sum(o.p_yes is None for o in found) > 0
    assert told["note"] == ""


def test_weights_count_as_those_of_scikit_learn_do() -> None:
    luck = np.random.default_rng(0)
    p, yes = luck.integers(0, 12, 80) / 12, luck.random(80) < 0.3
    weights = luck.integers(0, 4, (30, 80)).astype(float)
    weights[0, yes], weights[1, ~yes] = 0, 0
    order, starts = ranked(p)
    told = areas(weights[:, order], yes[order], starts)
    assert np.isnan(told[0]).all()
    assert np.isnan(told[1, 0])
    assert told[1, 1] == pytest.approx(1)
    for row in range(2, 30):
        assert told[row, 0] == pytest.approx(metrics.roc_auc_score(yes, p, sample_weight=weights[row]))
        assert told[row, 1] == pytest.approx(metrics.average_precision_score(yes, p, sample_weight=weights[row]))


def mean_risk(wrong: list[bool]) -> float:
    return float(np.mean([np.mean(wrong[: k + 1]) for k in range(len(wrong))]))


def test_aurc_is_the_mean_risk_over_all_orders_of_equal_confidences() -> None:
    confidence = np.array([0.9, 0.8, 0.8, 0.8, 0.6, 0.6])
    wrong = np.array([False, True, False, False, False, True])
    orders = [
        [0, *tie, *other] for tie in itertools.permutations((1, 2, 3)) for other in itertools.permutations((4, 5))
    ]
    expected = np.mean([mean_risk([bool(wrong[i]) for i in order]) for order in orders])
    order, starts = ranked(-confidence)
    assert risk_area(np.ones((1, 6)), wrong[order], starts)[0, 0] == pytest.approx(expected)


def test_an_object_that_is_drawn_twice_stands_in_the_order_twice() -> None:
    luck = np.random.default_rng(1)
    confidence, wrong = luck.random(25), luck.random(25) < 0.4
    weights = luck.integers(0, 3, (5, 25))
    order, starts = ranked(-confidence)
    told = risk_area(weights[:, order].astype(float), wrong[order], starts)[:, 0]
    for row in range(5):
        copies = np.repeat(np.arange(25), weights[row])
        again, at = ranked(-confidence[copies])
        expected = risk_area(np.ones((1, len(copies))), wrong[copies][again], at)[0, 0]
        assert told[row] == pytest.approx(expected)


def test_aurc_counts_all_questions_with_the_unanswered_last() -> None:
    found = outcomes("YNYNN", "YN-NY", p_yes=[0.9, 0.05, 0.99, None, 0.6])
    # order: 0.95 right, 0.9 right, 0.6 wrong, without a probability right, without an answer wrong
    assert numbers(found)["all"]["aurc"]["value"] == pytest.approx(mean_risk([False, False, True, False, True]))
    curve = risk_coverage(sheet_of(found))
    assert curve == {
        "coverage": pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0]),
        "risk": pytest.approx([0, 0, 1 / 3, 1 / 4, 2 / 5]),
    }


def test_the_curve_ends_at_the_error_rate_and_its_mean_is_near_its_area() -> None:
    found = many(700)
    sheet = sheet_of(found)
    curve = risk_coverage(sheet)
    assert curve is not None
    assert len(curve["coverage"]) == len(curve["risk"]) == 200
    assert curve["coverage"][-1] == 1
    assert curve["risk"][-1] == pytest.approx(float(np.mean(~sheet.right)))
    assert np.mean(curve["risk"]) == pytest.approx(numbers(found)["all"]["aurc"]["value"], abs=0.005)


def test_p_yes_and_its_complement_tie_to_the_last_bit() -> None:
    assert 1 - 0.7 != 0.3
    found = outcomes("YN", "NN", p_yes=[1 - 0.7, 0.3])
    assert numbers(found)["all"]["auroc"]["value"] == 0.5
    found = outcomes("YN", "YN", p_yes=[0.7, 0.3])
    assert risk_coverage(sheet_of(found)) == {"coverage": [0.5, 1.0], "risk": [0.0, 0.0]}


def test_ece_is_the_mean_gap_over_bins_of_equal_mass() -> None:
    luck = np.random.default_rng(2)
    p = luck.permutation(np.linspace(0.001, 0.999, 300))
    yes = luck.random(300) < p**2
    found = outcomes("".join("Y" if y else "N" for y in yes), "N" * 300, p_yes=[float(x) for x in p])
    confidence, right = np.maximum(p, 1 - p), (p >= 0.5) == yes
    order = np.argsort(np.round(confidence, 12), kind="stable")
    gaps = [abs(confidence[part].mean() - right[part].mean()) for part in np.array_split(order, BINS)]
    assert numbers(found)["all"]["ece"]["value"] == pytest.approx(np.mean(gaps), abs=0.004)  # pairs p, 1 − p tie
    bins = reliability(sheet_of(found))
    assert [b["n"] for b in bins] == [20] * 15
    weighted = sum(b["n"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / 300
    assert numbers(found)["all"]["ece"]["value"] == pytest.approx(weighted)
    assert all(b["low"] <= b["confidence"] <= b["high"] for b in bins)


def test_equal_confidences_share_a_bin_whatever_their_order() -> None:
    values = np.array([0.7] * 30 + [1.0] * 20 + [0.5] * 10)
    assert set(equal_mass(values).tolist()) == {1, 6, 12}  # their middles are at 5/60, 25/60 and 50/60 of the mass
    shuffled = np.random.default_rng(0).permutation(60)
    assert (equal_mass(values[shuffled]) == equal_mass(values)[shuffled]).all()
    assert equal_mass(np.array([0.6])).tolist() == [7]
    assert equal_mass(np.array([])).size == 0


def test_the_interval_of_a_calibrated_policys_ece_holds_it() -> None:
    luck = np.random.default_rng(3)
    p = luck.random(400)
    found = outcomes("".join("Y" if luck.random() < x else "N" for x in p), "N" * 400, p_yes=[float(x) for x in p])
    told = numbers(found, 500)["all"]["ece"]
    assert 0 <= told["low"] < told["value"] < told["high"] < 0.15


def test_what_one_class_cannot_tell_is_none() -> None:
    only_no = numbers(outcomes("NNN", "NNY", p_yes=[0.1, 0.2, 0.8]))["all"]
    assert only_no["auroc"]["value"] is None
    assert only_no["auprc"]["value"] is None
    assert only_no["brier"]["value"] == pytest.approx((0.01 + 0.04 + 0.64) / 3)
    only_yes = numbers(outcomes("YYY", "NNY", p_yes=[0.1, 0.2, 0.8]))["all"]
    assert only_yes["auroc"]["value"] is None
    assert only_yes["auprc"]["value"] == 1


def test_without_any_probability_nothing_is_ranked_and_a_note_says_so() -> None:
    found = outcomes("YNY", "YNN")
    assert numbers(found) == {"all": None, "tasks": {}, "without_p_yes": 3, "note": NOTE}
    assert reliability(sheet_of(found)) == []
    assert risk_coverage(sheet_of(found)) is None


def test_a_perfect_ranking_has_no_made_up_interval() -> None:
    told = numbers(outcomes("YYNN", "YYNN", p_yes=[0.9, 0.8, 0.2, 0.1]))["all"]
    assert told["auroc"] == {"value": 1.0, "low": None, "high": None, "method": "bootstrap by object"}
