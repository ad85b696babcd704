"""Intervals: what is drawn, what comes of it, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from specvet.evaluation.intervals import Resamples, bootstrap, clopper_pearson, proportion, share, tidy

IDS = ["a", "b", "a", "c", "d", "b", "a"]


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 30), (30, 30), (3, 10), (99, 256), (174, 256), (5, 5_000)])
@pytest.mark.parametrize("level", [0.95, 0.975])
def test_clopper_pearson_is_that_of_scipy(k: int, n: int, level: float) -> None:
    expected = binomtest(k, n).proportion_ci(level, method="exact")
    assert clopper_pearson(k, n, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_nothing_seen_in_n_trials_is_bounded_in_closed_form() -> None:
    for n in (1, 7, 250):
        assert clopper_pearson(0, n)[1] == pytest.approx(1 - 0.025 ** (1 / n))
        assert clopper_pearson(n, n)[0] == pytest.approx(0.025 ** (1 / n))
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert proportion(0, 0) == {"value": None, "low": None, "high": None, "method": "Clopper-Pearson"}


def test_each_resample_holds_as_many_objects_as_there_are_and_all_questions_of_each() -> None:
    draws = Resamples(IDS, 500, seed=3)
    one_each = np.eye(len(IDS))
    sums = draws.sums(one_each)
    assert sums.shape == (501, 7)
    assert (sums[0] == 1).all()
    for same in ((0, 2, 6), (1, 5)):  # questions of one object come and go together
        assert all((sums[:, i] == sums[:, same[0]]).all() for i in same)
    assert (sums[:, [0, 1, 3, 4]].sum(axis=1) == 4).all()
    assert len(np.unique(sums[1:], axis=0)) > 30
    weights = draws.each(np.arange(7), lambda w: w)
    assert (weights == sums).all()
    assert (draws.each(np.array([5, 0, 0]), lambda w: w) == sums[:, [5, 0, 0]]).all()


def test_draws_are_evenly_spread_as_those_of_a_bootstrap_are() -> None:
    sums = Resamples([str(i) for i in range(40)], 4_000, seed=0).sums(np.eye(40))[1:]
    assert sums.mean() == 1
    assert abs(sums.mean(axis=0) - 1).max() < 5 * math.sqrt(1 / 4_000)
    assert sums.var() == pytest.approx(1 - 1 / 40, rel=0.02)  # of a multinomial
    assert (sums == 0).mean() == pytest.approx((1 - 1 / 40) ** 40, rel=0.02)


def test_the_same_seed_draws_the_same_for_ever_and_another_seed_does_not() -> None:
    sums = Resamples(["a", "b", "c", "d", "e"], 4, seed=0).sums(np.eye(5))[1:]
    assert sums.astype(int).tolist() == [[2, 1, 1, 0, 1], [3, 1, 0, 0, 1], [1, 0, 1, 1, 2], [3, 1, 0, 1, 0]]
    assert (Resamples(["a", "b", "c", "d", "e"], 4, seed=1).sums(np.eye(5))[1:] != sums).any()


def test_a_mean_has_the_interval_that_its_standard_error_tells() -> None:
    values = np.random.default_rng(0).normal(size=900)
    draws = Resamples([str(i) for i in range(900)], 4_000, seed=0).sums(values[:, None])[:, 0] / 900
    told = bootstrap(draws)
    error = values.std() / 30
    assert told["value"] == pytest.approx(values.mean())
    assert (told["low"], told["high"]) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.15 * error
    )


def test_several_spectra_of_one_star_widen_an_interval_as_much_as_they_should() -> None:
    values = np.random.default_rng(1).normal(size=400)
    alone = Resamples([str(i) for i in range(400)], 3_000, seed=0).sums(values[:, None])[:, 0] / 400
    four = np.repeat(values, 4)
    together = Resamples([str(i // 4) for i in range(1_600)], 3_000, seed=0).sums(four[:, None])[:, 0] / 1_600
    apart = Resamples([str(i) for i in range(1_600)], 3_000, seed=0).sums(four[:, None])[:, 0] / 1_600
    assert together.std() == pytest.approx(alone.std(), rel=0.05)
    assert apart.std() == pytest.approx(alone.std() / 2, rel=0.05)


def test_where_there_is_no_spread_there_is_no_interval_and_never_a_made_up_one() -> None:
    none = {"low": None, "high": None, "method": "bootstrap by object"}
    assert bootstrap(np.array([0.4])) == {"value": 0.4, **none}
    assert bootstrap(np.array([0.4, 0.4, 0.4])) == {"value": 0.4, **none}
    assert bootstrap(np.array([0.4, np.nan, np.nan])) == {"value": 0.4, **none}
    assert bootstrap(np.array([np.nan, 0.1, 0.9])) == {"value": None, **none}
    one = Resamples(["a", "a", "a"], 2_000, seed=0)
    assert one.sums(np.ones((3, 1))).tolist() == [[3.0]]


def test_a_share_of_all_or_none_is_bounded_by_its_number_of_objects() -> None:
    assert share(np.ones(100), 20) == proportion(20, 20)
    assert share(np.zeros(100), 20) == proportion(0, 20)
    assert share(np.array([np.nan]), 0)["value"] is None
    assert share(np.array([0.5, 0.4, 0.6]), 20)["method"] == "bootstrap by object"


def test_undefined_resamples_are_left_out() -> None:
    told = bootstrap(np.concatenate([[0.5], np.full(300, np.nan), np.linspace(0, 1, 101)]))
    assert told == {
        "value": 0.5,
        "low": pytest.approx(0.025),
        "high": pytest.approx(0.975),
        "method": "bootstrap by object",
    }


def test_numbers_are_tidied_to_what_json_holds() -> None:
    untidy = {"a": np.float64(1 / 3), 2: [np.int64(3), float("nan"), float("inf")], "c": (-0.0000001, None, "x", True)}
    assert tidy(untidy) == {"a": 0.333333, "2": [3, None, None], "c": [0.0, None, "x", True]}
    assert math.copysign(1, tidy(-1e-9)) == 1
