"""All numbers of a cell together, above all where little or nothing is there."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from outcome_lab import many, outcome, outcomes

from specvet.evaluation.measures import measure
from specvet.evaluation.outcomes import Outcome

KEYS = [
    "questions", "objects", "replicates", "headline", "tasks", "answers", "stops", "malformed", "machinery", "calls",
    "turns", "tokens", "seconds", "ranking", "reliability", "risk_coverage", "prevalence", "decisions", "groups",
    "confusers", "metadata_only", "seen_unseen", "cross_survey", "windows",
]  # fmt: skip


def intervals(found: Any) -> list[dict[str, Any]]:
    """All that lie in a tree of numbers."""
    if isinstance(found, dict):
        own = [found] if set(found) == {"value", "low", "high", "method"} else []
        return own + [one for part in found.values() for one in intervals(part)]
    return [one for part in found for one in intervals(part)] if isinstance(found, list) else []


def plain(found: list[Outcome], **options: Any) -> dict[str, Any]:
    """Measured, as JSON has it; strict, so that no NaN passes."""
    told = measure(found, **{"replicates": 30, **options})
    assert list(told) == KEYS
    back: dict[str, Any] = json.loads(json.dumps(told, allow_nan=False))
    assert back == told
    for one in intervals(told):
        assert one["method"] in ("bootstrap by object", "Clopper-Pearson")
        if one["value"] is None:
            assert one["low"] is one["high"] is None
        elif one["low"] is not None and one["high"] is not None:
            assert one["low"] <= one["high"]
            if one["method"] == "Clopper-Pearson":
                assert one["low"] <= one["value"] <= one["high"]
                assert one["low"] < one["high"]
    return told


def test_the_order_of_the_questions_changes_nothing() -> None:
    found = many(120)
    mixed = found.copy()
    random.Random(0).shuffle(mixed)
    told, again = plain(found, reference="LAMOST", unseen=["wd"]), plain(mixed, reference="LAMOST", unseen=["wd"])
    for one in (told, again):
        one.pop("metadata_only")  # a forest takes its questions in their order
    assert told == again


def test_the_same_is_measured_twice_and_another_seed_moves_only_intervals() -> None:
    found = many(100)
    told, again, other = plain(found), plain(found), plain(found, seed=1)
    assert told == again
    assert told["headline"]["accuracy"] != other["headline"]["accuracy"]
    assert [one["value"] for one in intervals(told)] == [one["value"] for one in intervals(other)]


def test_without_replicates_counts_keep_their_intervals_and_the_others_have_none() -> None:
    told = plain(many(100), replicates=0)
    assert told["replicates"] == 0
    for one in intervals(told):
        assert (one["low"] is None) == (one["method"] == "bootstrap by object" or one["value"] is None)


def test_the_headline_is_the_chapters() -> None:
    # 256 questions, 99 right, one of them strictly formatted: as published of the base model
    found = outcomes("Y" * 50 + "N" * 206, "Y" * 50 + "N" * 49 + "-" * 157, format_ok=[True] + [False] * 255)
    told = plain(found)["headline"]
    assert told["correct"] == {"k": 99, "n": 256}
    assert told["accuracy"]["value"] == 0.386719
    assert told["format"]["value"] == 0.003906
    assert told["macro_f1"]["value"] == 1  # silence about others is no false alarm
    assert told["left_out"] == []


def test_nothing_answered_is_all_wrong_and_nothing_is_made_up() -> None:
    found = outcomes("YYNNN", "-----", stop="max_turns", turns=8)
    told = plain(found, reference="LAMOST")
    assert told["headline"]["accuracy"]["value"] == told["headline"]["macro_f1"]["value"] == 0
    assert told["headline"]["format"]["value"] == 0
    assert told["headline"]["accuracy"]["high"] > 0.4
    assert told["answers"] == {"YES": 0, "NO": 0, "UNSURE": 0, "NO_DATA": 0, "FAILED": 5, "ERROR": 0}
    assert told["stops"] == {"max_turns": 5}
    assert told["machinery"] == 0
    chosen = told["decisions"]["selective"]
    assert (chosen["n"], chosen["coverage"]["value"], chosen["accuracy"]["value"]) == (0, 0, None)
    assert told["decisions"]["abstention_cost"]["0.25"]["value"] == 0.25
    assert told["ranking"]["all"] is told["risk_coverage"] is None
    assert told["reliability"] == []
    assert told["tokens"] is told["seen_unseen"] is told["cross_survey"] is None
    assert told["windows"] == told["confusers"] == told["malformed"] == {}
    assert told["calls"]["success_share"] is None
    assert told["prevalence"]["0.02"]["cv"]["looks_per_1000"]["value"] == 1_000


def test_machinery_that_fails_is_wrong_in_every_denominator_and_is_told_apart() -> None:
    found = [
        *outcomes("YYNN", "YYNN"),
        outcome("broken", "YES", None, stop="unreadable", verdict="ERROR"),
        outcome("late", "NO", None, stop="out_of_time"),
        outcome("gone", "NO", None, stop="policy_error"),
        outcome("long", "NO", None, stop="context"),
    ]
    told = plain(found)
    assert told["machinery"] == 3
    assert told["headline"]["correct"] == {"k": 4, "n": 8}
    assert told["tasks"]["cv"]["recall"]["value"] == 0.666667
    assert told["tasks"]["cv"]["counts"]["unanswered_no"] == 3
    assert told["stops"] == {"answered": 4, "context": 1, "out_of_time": 1, "policy_error": 1, "unreadable": 1}
    assert told["answers"]["ERROR"] == 1


def test_one_question_is_measured_too() -> None:
    for truth, said, p in (("Y", "Y", 0.9), ("N", "N", None), ("Y", "-", None), ("N", "-", 0.5)):
        told = plain(outcomes(truth, said, p_yes=p), reference="LAMOST", unseen=["cv"])
        assert told["questions"] == told["objects"] == 1
        assert all(one["low"] is None for one in intervals(told) if one["method"] == "bootstrap by object")
    with pytest.raises(ValueError, match="no outcomes"):
        measure([])


def test_a_task_without_a_yes_is_named_and_others_count() -> None:
    found = [*outcomes("YN", "YN"), *(outcome(f"w{i}", task="wd") for i in range(4))]
    told = plain(found)
    assert told["headline"]["left_out"] == ["wd"]
    assert told["headline"]["macro_f1"]["value"] == 1
    assert told["tasks"]["wd"]["f1"]["value"] is None
    assert told["prevalence"]["0.002"]["wd"]["precision"]["value"] is None
    none = plain([outcome("a"), outcome("b")])
    assert none["headline"]["macro_f1"] == {"value": None, "low": None, "high": None, "method": "bootstrap by object"}
    assert none["headline"]["accuracy"]["value"] == 1


def test_decisions_are_forced_left_out_or_paid_for() -> None:
    found = outcomes("YYNNN", "YN-N-", p_yes=[0.9, 0.4, 0.6, 0.1, 0.2])
    told = plain(found)["decisions"]
    assert (told["forced"]["n"], told["forced"]["accuracy"]["value"]) == (2, 0.6)
    assert told["forced"]["macro_f1"]["value"] == 0.5  # one found, one missed, one false alarm
    assert told["selective"]["coverage"]["value"] == 0.6
    assert told["selective"]["accuracy"]["value"] == 0.666667
    assert told["selective"]["macro_f1"]["value"] == 0.666667
    assert list(told["abstention_cost"]) == ["0.05", "0.1", "0.25", "0.5"]
    assert told["abstention_cost"]["0.1"]["value"] == pytest.approx((1 + 2 * 0.1) / 5)


def test_work_is_summed_and_averaged_over_all_questions() -> None:
    found = [
        outcome("a", calls=3, calls_executed=3, calls_succeeded=2, turns=4, seconds=1.0, malformed=("bad_call",),
                prompt_tokens=100, sampled_tokens=10, ledger_tokens=80),
        outcome("b", calls=1, calls_executed=0, calls_succeeded=0, turns=1, seconds=3.0,
                prompt_tokens=50, sampled_tokens=30, ledger_tokens=60),
        outcome("c", "YES", None, stop="unreadable"),
        outcome("d", turns=2, seconds=0.0, malformed=("bad_call", "no_answer")),
    ]  # fmt: skip
    told = plain(found)
    assert told["calls"] == {
        "made": 4, "executed": 3, "succeeded": 2, "success_share": 0.5, "mean": 1.0, "without_share": 0.5,
    }  # fmt: skip
    assert told["turns"] == {"mean": 1.75, "median": 1.5, "max": 4}
    assert told["tokens"] == {"prompt": 150, "sampled": 40, "sampled_mean": 20.0, "ledger_mean": 70.0}
    assert told["seconds"] == {"mean": 1.0, "median": 0.5, "p95": pytest.approx(np.percentile([0, 0, 1, 3], 95))}
    assert told["malformed"] == {"bad_call": 2, "no_answer": 1}


def test_abstentions_of_a_policy_that_measures_are_looks_and_no_answers() -> None:
    words = ["YES", "NO", "UNSURE", "NO_DATA"]
    found = [outcome(w, "YES", w if w in ("YES", "NO") else None, verdict=w, p_yes=0.5) for w in words]
    told = plain([*found, outcome("other")])
    assert told["answers"] == {"YES": 1, "NO": 2, "UNSURE": 1, "NO_DATA": 1, "FAILED": 0, "ERROR": 0}
    assert told["tasks"]["cv"]["recall"]["value"] == 0.25
    assert told["decisions"]["forced"]["n"] == 2
    assert told["prevalence"]["0.02"]["cv"]["looks_per_1000"]["value"] == pytest.approx(1_000 * 0.02 * 0.75)


def test_every_bootstrap_interval_holds_its_value_in_a_large_set() -> None:
    told = plain(many(400), replicates=200, reference="LAMOST", unseen=["wd"])
    bounded = [one for one in intervals(told) if one["low"] is not None and one["high"] is not None]
    assert len(bounded) > 100
    assert all(one["low"] <= one["value"] <= one["high"] for one in bounded)
