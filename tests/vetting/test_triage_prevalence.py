"""The share of members in a list, from its evidence alone."""

from __future__ import annotations

import numpy as np
import pytest
from triage_lab import drawn, exact

from specvet.vetting.triage.calibration import probability
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
    found = estimate(evidence, exact().tasks["cv"], replicates=100)
    assert found.low <= share <= found.high
    assert found.value == pytest.approx(share, rel=0.5)
    assert found.source == "estimated"


def test_a_list_without_members_may_have_none() -> None:
    evidence, _ = drawn(5_000, 0, seed=6)
    found = estimate(evidence, exact().tasks["cv"], replicates=100)
    assert (found.low, found.value < 0.003, found.high < 0.01) == (0.0, True, True)


def test_an_empty_list_has_the_prevalence_of_the_calibration_set_and_says_so() -> None:
    found = estimate(np.zeros(0), exact().tasks["cv"])
    assert (found.value, found.low, found.high, found.source) == (0.2, 0.0, 1.0, "calibration set")


def test_the_same_list_and_seed_give_the_same_interval() -> None:
    evidence, _ = drawn(3_000, 60, seed=8)
    known = exact().tasks["cv"]
    assert estimate(evidence, known, seed=3, replicates=50) == estimate(evidence, known, seed=3, replicates=50)
