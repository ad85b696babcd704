"""Two policies on the same questions."""

from __future__ import annotations

import numpy as np
import pytest
from outcome_lab import many, outcome, outcomes
from scipy.stats import binomtest

from specvet.evaluation.counts import accuracy, macro_f1, sheet_of
from specvet.evaluation.intervals import Resamples
from specvet.evaluation.paired import compare, mcnemar


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (5, 5), (36, 0), (120, 81), (81, 120), (0, 2_000)])
def test_mcnemar_is_the_exact_binomial_test_of_the_discordant_pairs(a: int, b: int) -> None:
    expected = binomtest(a, a + b, 0.5).pvalue if a + b else 1.0
    assert mcnemar(a, b) == pytest.approx(expected, rel=1e-9)


def test_a_hand_made_pair() -> None:
    a = outcomes("YYNNN", "YYN-N")
    b = outcomes("YYNNN", "YNNYN")
    told = compare(a, b, replicates=500)
    assert (told["n"], told["both_right"], told["only_a"], told["only_b"], told["neither"]) == (5, 3, 1, 0, 1)
    assert told["flipped"] == {"only_a": ["q1"], "only_b": []}
    assert told["mcnemar_p"] == 1
    assert told["accuracy"]["a"] == 0.8
    assert told["accuracy"]["b"] == 0.6
    assert told["accuracy"]["difference"]["value"] == pytest.approx(0.2)
    assert told["macro_f1"]["difference"]["value"] == pytest.approx(1 - 0.5)
    assert told["format"]["difference"]["value"] == pytest.approx(-0.2)
    assert told["tasks"]["cv"] == told["macro_f1"]


def test_values_are_those_of_each_side_alone_and_sides_can_be_swapped() -> None:
    a, b = many(300, policy=1), many(300, policy=2)
    told, swapped = compare(a, b, replicates=400), compare(b, a, replicates=400)
    for name, found in (("a", a), ("b", b)):
        alone = Resamples([o.object_id for o in found], 0, seed=0)
        assert told["accuracy"][name] == pytest.approx(accuracy(sheet_of(found), alone)["value"], abs=1e-6)
        assert told["macro_f1"][name] == pytest.approx(macro_f1(sheet_of(found), alone)["value"], abs=1e-6)
    one, other = told["accuracy"]["difference"], swapped["accuracy"]["difference"]
    assert (one["value"], one["low"], one["high"]) == pytest.approx((-other["value"], -other["high"], -other["low"]))
    assert one["low"] < one["value"] < one["high"]
    assert told["both_right"] + told["only_a"] + told["only_b"] + told["neither"] == 300
    assert told["flipped"]["only_a"] == swapped["flipped"]["only_b"]


def test_the_interval_of_a_difference_is_that_of_a_plain_bootstrap_of_objects() -> None:
    a, b = many(200, policy=1), many(200, policy=2)
    gain = np.array([float(x.right) - float(y.right) for x, y in zip(a, b, strict=True)])
    objects = np.unique([o.object_id for o in a], return_inverse=True)[1]
    of = [np.flatnonzero(objects == i) for i in range(objects.max() + 1)]
    luck = np.random.default_rng(7)
    plain = [gain[np.concatenate([of[i] for i in luck.integers(0, len(of), len(of))])].mean() for _ in range(3_000)]
    told = compare(a, b, replicates=3_000)["accuracy"]["difference"]
    assert (told["low"], told["high"]) == pytest.approx(tuple(np.percentile(plain, (2.5, 97.5))), abs=0.012)


def test_only_questions_that_both_were_asked_are_compared() -> None:
    a, b = many(100, policy=1), many(100, policy=2)
    told = compare(a[:70], [*reversed(b[40:])], replicates=50)
    assert (told["n"], told["only_in_a"], told["only_in_b"]) == (30, 40, 30)
    alone = compare(a[40:70], b[40:70], replicates=50)
    assert {**alone, "only_in_a": 40, "only_in_b": 30} == told
    none = compare(a[:10], b[10:20])
    assert none == {"n": 0, "only_in_a": 10, "only_in_b": 10, "note": "no question was asked of both"}


def test_a_policy_against_itself_differs_in_nothing() -> None:
    a = many(100)
    told = compare(a, a, replicates=50)
    assert (told["only_a"], told["only_b"], told["mcnemar_p"]) == (0, 0, 1)
    assert told["accuracy"]["difference"] == {"value": 0, "low": None, "high": None, "method": "bootstrap by object"}


def test_a_small_p_is_kept() -> None:
    a, b = outcomes("N" * 60, "N" * 60), outcomes("N" * 60, "Y" * 60)
    assert compare(a, b, replicates=0)["mcnemar_p"] == pytest.approx(2 * 0.5**60, rel=1e-5)


def test_the_same_id_must_be_the_same_question() -> None:
    with pytest.raises(ValueError, match="question x: is not the same on both sides"):
        compare([outcome("x", "YES")], [outcome("x", "NO")])
    with pytest.raises(ValueError, match="question x: stands there twice"):
        compare([outcome("x"), outcome("x")], [outcome("x")])
