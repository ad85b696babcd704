"""How much the questions of a task count, by their answer."""

from __future__ import annotations

import pytest

from specvet.records.schema import Question, SpectrumRef
from specvet.training.balance import answer_weights


def _questions(task: str, yes: int, no: int) -> list[Question]:
    answers = ["YES"] * yes + ["NO"] * no
    return [
        Question(id=f"{task}:{i}", task=task, spectrum=SpectrumRef(path="x.fits"), answer=a)  # type: ignore[arg-type]
        for i, a in enumerate(answers)
    ]


def test_without_balance_every_question_counts_one() -> None:
    weights = answer_weights([*_questions("cv", 1, 9), *_questions("wd", 5, 5)], 0.0)
    assert weights == {("cv", "YES"): 1.0, ("cv", "NO"): 1.0, ("wd", "YES"): 1.0, ("wd", "NO"): 1.0}


def test_with_full_balance_both_answers_of_a_task_count_the_same_in_all() -> None:
    weights = answer_weights([*_questions("cv", 1, 9), *_questions("wd", 5, 5)], 1.0)
    assert weights["cv", "YES"] == pytest.approx(5.0)
    assert weights["cv", "NO"] == pytest.approx(5.0 / 9.0)
    assert weights["wd", "YES"] == weights["wd", "NO"] == pytest.approx(1.0)


def test_half_a_balance_lies_between_with_a_mean_of_one() -> None:
    weights = answer_weights(_questions("cv", 1, 9), 0.5)
    assert weights["cv", "YES"] / weights["cv", "NO"] == pytest.approx(3.0)
    assert (weights["cv", "YES"] + 9 * weights["cv", "NO"]) / 10 == pytest.approx(1.0)


def test_a_task_of_one_answer_is_left_as_it_is() -> None:
    assert answer_weights(_questions("cv", 0, 4), 1.0) == {("cv", "NO"): pytest.approx(1.0)}
