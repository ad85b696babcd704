"""Counts, F1 and accuracy by task, held against scikit-learn and against what can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from outcome_lab import TASKS, many, outcome, outcomes
from sklearn import metrics

from specvet.evaluation.counts import accuracy, by_task, f1_of_tasks, macro_f1, share_of, sheet_of
from specvet.evaluation.intervals import Resamples, clopper_pearson
from specvet.evaluation.outcomes import Outcome


def drawn(found: list[Outcome], replicates: int = 300) -> Resamples:
    return Resamples([o.object_id for o in found], replicates, seed=0)


def test_a_small_case_is_what_one_counts_by_hand() -> None:
    # members: found, missed, silent; others: rightly NO twice, false alarm, silent
    found = outcomes("YYYNNNN", "YN-NNY-")
    told = by_task(sheet_of(found), drawn(found))["cv"]
    assert (told["n"], told["yes"]) == (7, 3)
    assert told["counts"] == {"tp": 1, "fp": 1, "fn": 1, "tn": 2, "unanswered_yes": 1, "unanswered_no": 1}
    assert told["precision"]["value"] == 1 / 2
    assert told["recall"]["value"] == 1 / 3
    assert told["f1"]["value"] == pytest.approx(2 / (2 + 1 + 2))
    assert told["accuracy"]["value"] == 3 / 7
    assert told["false_positive_rate"]["value"] == 1 / 4
    assert (told["recall"]["low"], told["recall"]["high"]) == clopper_pearson(1, 3)
    assert told["recall"]["method"] == "Clopper-Pearson"
    assert told["f1"]["method"] == "bootstrap by object"


def test_scores_are_those_of_scikit_learn_where_no_answer_is_a_miss_but_no_false_alarm() -> None:
    found = many(400)
    sheet, draws = sheet_of(found), drawn(found)
    scores = []
    for task in TASKS:
        here = [o for o in found if o.task == task]
        truth = [o.truth == "YES" for o in here]
        said = [o.said == "YES" for o in here]
        told = by_task(sheet, draws)[task]
        assert told["f1"]["value"] == pytest.approx(metrics.f1_score(truth, said))
        assert told["precision"]["value"] == pytest.approx(metrics.precision_score(truth, said))
        assert told["recall"]["value"] == pytest.approx(metrics.recall_score(truth, said))
        scores.append(told["f1"]["value"])
    assert macro_f1(sheet, draws)["value"] == pytest.approx(np.mean(scores))
    right = metrics.accuracy_score([o.truth for o in found], [o.said or "" for o in found])
    assert accuracy(sheet, draws)["value"] == pytest.approx(right)


def test_every_resample_has_the_scores_of_a_set_with_its_objects_as_often() -> None:
    found = many(120)
    sheet, draws = sheet_of(found), drawn(found, 8)
    scores = f1_of_tasks(sheet, draws)
    assert scores.shape == (9, 5)
    times = draws.sums(np.eye(len(found)))
    for row in range(9):
        for i, task in enumerate(sheet.tasks):
            here = [o for o, n in zip(found, times[row], strict=True) for _ in range(int(n)) if o.task == task]
            truth, said = [o.truth == "YES" for o in here], [o.said == "YES" for o in here]
            expected = metrics.f1_score(truth, said) if any(truth) or any(said) else np.nan
            assert scores[row, i] == pytest.approx(expected, nan_ok=True)


def test_a_task_without_a_yes_true_or_said_has_no_f1_and_is_left_out_of_the_mean() -> None:
    found = [*outcomes("YN", "YY"), *(outcome(f"wd{i}", task="wd") for i in range(5))]
    sheet, draws = sheet_of(found), drawn(found)
    told = by_task(sheet, draws)["wd"]
    assert told["f1"]["value"] is None
    assert told["recall"]["value"] is None
    assert told["precision"]["value"] is None
    assert told["false_positive_rate"] == {
        "value": 0.0,
        "low": 0.0,
        "high": pytest.approx(1 - 0.025**0.2),
        "method": "Clopper-Pearson",
    }
    assert macro_f1(sheet, draws)["value"] == pytest.approx(2 / 3)
    alarmed = [*found, outcome("wd5", said="YES", task="wd")]
    assert macro_f1(sheet_of(alarmed), drawn(alarmed))["value"] == pytest.approx((2 / 3 + 0) / 2)


def test_a_silent_policy_is_wrong_everywhere() -> None:
    found = outcomes("YYNN", "----")
    sheet, draws = sheet_of(found), drawn(found)
    assert accuracy(sheet, draws) == {
        "value": 0.0,
        "low": 0.0,
        "high": pytest.approx(1 - 0.025**0.25),
        "method": "Clopper-Pearson",
    }
    assert macro_f1(sheet, draws)["value"] == 0
    assert accuracy(sheet, draws, sheet.answered)["value"] is None
    assert macro_f1(sheet, draws, sheet.answered)["value"] is None


def test_a_perfect_score_has_a_lower_bound_below_it() -> None:
    found = outcomes("YYYYYNNNNN", "YYYYYNNNNN")
    sheet, draws = sheet_of(found), drawn(found)
    low = 0.025**0.2  # five members found of five, by Clopper-Pearson
    assert by_task(sheet, draws)["cv"]["f1"] == {
        "value": 1.0,
        "low": pytest.approx(2 * low / (1 + low)),
        "high": 1.0,
        "method": "Clopper-Pearson",
    }
    assert macro_f1(sheet, draws)["low"] == pytest.approx(2 * low / (1 + low))
    assert accuracy(sheet, draws)["low"] == pytest.approx(0.025**0.1)


def test_one_object_asked_many_times_is_one_object() -> None:
    found = outcomes("YYNN", "YNNY", object_id="the only one")
    sheet, draws = sheet_of(found), drawn(found)
    assert accuracy(sheet, draws) == {"value": 0.5, "low": None, "high": None, "method": "bootstrap by object"}
    all_right = outcomes("YN", "YN", object_id="the only one")
    assert accuracy(sheet_of(all_right), drawn(all_right))["low"] == pytest.approx(0.025)


def test_the_bound_of_a_perfect_f1_counts_objects_and_not_their_spectra() -> None:
    found = outcomes("YYYYYYNN", "YYYYYYNN", object_id=["a", "a", "a", "b", "b", "b", "c", "d"])
    low = 0.025**0.5  # two stars found of two, whatever their six spectra say
    assert by_task(sheet_of(found), drawn(found))["cv"]["f1"]["low"] == pytest.approx(2 * low / (1 + low))
    missed = outcomes("YYYYYY", "NNNNNN", object_id=["a", "a", "a", "b", "b", "b"])
    high = 1 - 0.025**0.5
    assert macro_f1(sheet_of(missed), drawn(missed))["high"] == pytest.approx(2 * high / (1 + high))


def test_asking_every_object_twice_with_the_same_result_narrows_nothing() -> None:
    once = many(200)
    twice = [*once, *once]
    narrow, wide = (accuracy(sheet_of(found), drawn(found, 1_000)) for found in (twice, once))
    assert narrow == wide


def test_shares_within_a_part_are_of_that_part() -> None:
    found = outcomes("YYNNN", "YNNNY")
    sheet, draws = sheet_of(found), drawn(found)
    first = np.array([True, True, True, False, False])
    assert accuracy(sheet, draws, first)["value"] == pytest.approx(2 / 3)
    assert share_of(sheet.said_yes, draws, first)["value"] == pytest.approx(1 / 3)
    assert macro_f1(sheet, draws, first)["value"] == pytest.approx(2 / 3)
    assert macro_f1(sheet, draws, ~first)["value"] == 0


def test_forcing_takes_the_likelier_word_only_where_nothing_was_said() -> None:
    found = outcomes("YYNNN", "-N---", p_yes=[0.5, 0.9, 0.49, 0.51, None])
    forced = sheet_of(found).forced()
    assert forced.said_yes.tolist() == [True, False, False, True, False]
    assert forced.said_no.tolist() == [False, True, True, False, False]
    assert forced.right.tolist() == [True, False, True, False, False]
