"""Promises about what is rejected and accepted hold as often as they say, and are not made where they cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from triage_lab import drawn, exact

from specvet.vetting.triage.bands import (
    accept_from,
    least_promise,
    members_needed,
    promises,
    reject_rank,
)


@pytest.mark.parametrize(("share", "confidence", "needed"), [(0.02, 0.95, 149), (0.05, 0.95, 59), (0.1, 0.9, 22)])
def test_so_many_labelled_members_make_a_promise_possible_and_one_less_does_not(
    share: float, confidence: float, needed: int
) -> None:
    assert members_needed(share, confidence) == needed
    assert reject_rank(needed, share, confidence) == 1
    assert reject_rank(needed - 1, share, confidence) == 0
    assert least_promise(needed, confidence) == pytest.approx(share, rel=0.06)
    assert least_promise(needed, confidence) <= share * 1.06


@pytest.mark.parametrize(("n", "share"), [(200, 0.02), (500, 0.05), (3_000, 0.02)])
def test_the_rank_is_the_largest_whose_chance_of_losing_more_is_small_enough(n: int, share: float) -> None:
    rank = reject_rank(n, share, 0.95)
    assert binom.cdf(rank - 1, n, share) <= 0.05 < binom.cdf(rank, n, share)


def test_promises_hold_in_as_many_draws_as_they_say() -> None:
    rng = np.random.default_rng(1)
    rank = reject_rank(300, 0.05, 0.95)
    thresholds = np.sort(rng.uniform(size=(20_000, 300)), axis=1)[:, rank - 1]  # what is lost is the threshold itself
    broken = float((thresholds > 0.05).mean())
    assert broken <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 20_000)
    assert broken > 0.02  # and they are not made of caution alone


def test_learn_then_test_of_mapie_allows_no_more_and_with_a_looser_bound_no_less() -> None:
    from mapie.risk_control import BinaryClassificationController

    evidence, yes = drawn(3_000, 600, seed=3)
    members = np.sort(evidence[yes])
    ours = members[reject_rank(members.size, 0.05, 0.95) - 1]

    def theirs(confidence: float) -> float:
        controller = BinaryClassificationController(
            predict_function=lambda x: np.stack([1 - x[:, 0], x[:, 0]], axis=1),
            risk="recall",
            target_level=0.95,
            confidence_level=confidence,
            list_predict_params=np.arange(60) / 1_000,
            fwer_method="fixed_sequence",
        )
        ranks = np.searchsorted(members, evidence) / 1_000  # probabilities in (0, 1), in the same order
        controller.calibrate(ranks[:, None], yes.astype(int))
        valid = np.asarray(controller.valid_predict_params).ravel()
        return float(members[round(1_000 * valid.max())])

    # mapie's p-values (Hoeffding-Bentkus) are up to e times the exact binomial one.
    assert theirs(0.95) <= ours <= theirs(1 - 0.05 * math.e)


def test_a_task_with_too_few_members_leans_on_all_tasks_together() -> None:
    few, many = exact("wd", members=40), exact("cv", members=400)
    both = few.model_copy(update={"tasks": {**few.tasks, **many.tasks}})
    made = promises(both, {"wd": 0.02, "cv": 0.02, "ss": 0.02}, 0.02, 0.05, 0.95)
    assert [made[t].scope for t in ("wd", "cv", "ss")] == ["all tasks", "task", "none"]
    assert made["wd"].members == 440
    assert "of all tasks together" in made["wd"].text
    assert made["ss"].reject_below is None


def test_without_members_enough_nothing_is_rejected_and_it_is_said_how_many_would_do() -> None:
    made = promises(exact(members=40), {"cv": 0.02}, 0.02, 0.05, 0.95)["cv"]
    assert made.reject_below is None
    assert "40 labelled members are too few" in made.text
    assert "149 would do" in made.text


def test_what_is_accepted_keeps_its_promise_at_the_lists_prevalence() -> None:
    known = exact(members=400, others=4_000).tasks["cv"]
    threshold = accept_from(known, 0.2, 0.05, 0.95)
    assert threshold is not None
    evidence, yes = drawn(200_000, 40_000, seed=9)
    accepted = evidence >= threshold
    assert (~yes[accepted]).mean() <= 0.05
    assert accepted[yes].mean() > 0.5


def test_nothing_is_accepted_where_members_are_rare_and_labels_few() -> None:
    assert accept_from(exact().tasks["cv"], 0.002, 0.05, 0.95) is None
