"""The share of members in a list, from its evidence alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from triage_lab import case, drawn, exact

from specvet.vetting.triage import Settings, sort
from specvet.vetting.triage.calibration import TaskCalibration, Weights, probability
from specvet.vetting.triage.drift import NO_MIXTURE
from specvet.vetting.triage.prevalence import estimate, most_likely


@pytest.mark.parametrize(("members", "n"), [(40, 2_000), (200, 3_000), (10, 2_000)])
def test_the_estimate_is_what_expectation_maximisation_converges_to(members: int, n: int) -> None:
    evidence, _ = drawn(n, members, seed=2)
    share = 0.3
    for _ in range(1_500):
        share = float(probability(evidence, share).mean())
    assert most_likely(evidence, np.ones(n)) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("share", [0.2, 0.02, 0.002])
def test_the_interval_holds_the_true_share_of_a_list(share: float) -> None:
    evidence, _ = drawn(20_000, round(20_000 * share), seed=4)
    found = estimate(evidence, exact().tasks["cv"])
    assert found.low <= share <= found.high
    assert found.value == pytest.approx(share, rel=0.5)
    assert found.source == "estimated"


def test_a_list_without_members_may_have_none() -> None:
    evidence, _ = drawn(5_000, 0, seed=6)
    found = estimate(evidence, exact().tasks["cv"])
    assert (found.low, found.value < 0.003, found.high < 0.01) == (0.0, True, True)


def test_an_empty_list_has_the_prevalence_of_the_calibration_set_and_says_so() -> None:
    found = estimate(np.zeros(0), exact().tasks["cv"])
    assert (found.value, found.low, found.high, found.source) == (0.2, 0.0, 1.0, "calibration set")


def test_the_same_list_and_seed_give_the_same_interval() -> None:
    evidence, _ = drawn(3_000, 60, seed=8)
    known = exact().tasks["cv"]
    assert estimate(evidence, known, seed=3) == estimate(evidence, known, seed=3)


def calibrated(members: np.ndarray[Any, Any], others: np.ndarray[Any, Any], **more: Any) -> TaskCalibration:
    """A calibration set whose evidence is given."""
    fields = {"members": tuple(np.sort(members).tolist()), "others": tuple(np.sort(others).tolist())}
    prior = members.size / (members.size + others.size)
    return TaskCalibration(model=Weights(intercept=0.0, weights=()), prior=prior, **fields | more)


def look_alikes(n: int, rng: np.random.Generator, share: float, at: float) -> np.ndarray[Any, Any]:
    """Evidence around −at, of `share` of the cases around at."""
    return np.where(rng.random(n) < share, at, -at) + 2.0 * rng.normal(size=n)


@pytest.mark.parametrize(("n_members", "n_others"), [(40, 200), (150, 1_500)])
@pytest.mark.parametrize("share", [0.001, 0.002, 0.01, 0.1])
def test_intervals_hold_the_share_also_where_few_labels_miss_the_others_that_look_like_members(
    share: float, n_members: int, n_others: int
) -> None:
    """SIMULATED: one other in 200 looks like a member, one member in ten like an other; calibration sets hold 1 to 8 of
    those others, and some hold none."""
    held = 0
    for number in range(40):
        rng = np.random.default_rng([number, n_others])
        known = calibrated(look_alikes(n_members, rng, 0.9, 4.5), look_alikes(n_others, rng, 0.005, 4.5))
        members = int(rng.binomial(5_000, share))
        listed = [look_alikes(members, rng, 0.9, 4.5), look_alikes(5_000 - members, rng, 0.005, 4.5)]
        found = estimate(np.concatenate(listed), known, seed=number)
        held += found.low <= share <= found.high
        assert found.low <= found.value <= found.high
    assert held >= 38  # 95 %


def test_an_interval_narrows_with_the_calibration_set_and_with_the_list() -> None:
    def width(n_members: int, n_others: int, length: int) -> float:
        rng = np.random.default_rng(3)
        known = calibrated(rng.normal(4.5, 3.0, n_members), rng.normal(-4.5, 3.0, n_others))
        members = length // 20
        listed = [rng.normal(4.5, 3.0, members), rng.normal(-4.5, 3.0, length - members)]
        found = estimate(np.concatenate(listed), known)
        return found.high - found.low

    small, more_labels, both = width(40, 200, 1_000), width(400, 4_000, 1_000), width(400, 4_000, 20_000)
    assert small > 1.3 * more_labels > 1.5 * both


def test_undecided_cases_count_as_members_and_others_that_no_threshold_sees() -> None:
    """Half of the members are UNSURE, in the calibration set and in the list: the share is of all scored cases."""
    rng = np.random.default_rng(4)
    known = calibrated(rng.normal(6, 1, 100), rng.normal(-6, 1, 2_000), undecided={"YES": 100, "NO": 0})
    evidence = np.concatenate([rng.normal(6, 1, 50), rng.normal(0, 1, 50), rng.normal(-6, 1, 1_900)])
    decided = np.arange(2_000) >= 100
    decided[:50] = True
    found = estimate(evidence, known, decided=decided)
    assert found.low <= 0.05 <= found.high
    assert found.low > 0.025  # that of the decided members alone is below it
    assert found.fits


def test_a_list_that_is_no_mixture_of_members_and_others_is_told_and_gets_no_narrow_interval() -> None:
    rng = np.random.default_rng(5)
    known = calibrated(rng.normal(6, 1, 400), rng.normal(-6, 1, 4_000))
    # A tenth of this list lies where few members and no others lie: above the lowest threshold, not above the highest.
    found = estimate(np.concatenate([rng.normal(5.0, 0.1, 500), rng.normal(-6, 1, 4_500)]), known)
    assert not found.fits
    assert found.low == 0.0
    assert found.high > 0.1
    evidence = np.concatenate([rng.normal(3.0, 0.1, 500), rng.normal(-4.5, 3.0, 4_500)])
    told = sort([case(i, "cv", x) for i, x in enumerate(evidence)], exact(), Settings()).tasks["cv"]
    assert NO_MIXTURE in told.drift
