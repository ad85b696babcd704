"""What others published: the numbers as printed, and that they fit each other."""

from __future__ import annotations

import pytest

from specvet.evaluation.plan import RunSettings
from specvet.evaluation.published import published

CHAPTER, PAPER = published()


def test_the_five_results_of_the_chapter_are_as_it_prints_them() -> None:
    assert [(r.label, r.macro_f1, r.accuracy, r.format, r.correct) for r in CHAPTER.results] == [
        ("Qwen3.5-4B base", 53.99, 38.67, 0.39, 99),
        ("Qwen3.5-4B SFT epoch 2", 63.05, 53.91, 85.94, 138),
        ("Qwen3.5-4B RL epoch 1", 71.68, 67.97, 96.09, 174),
        ("Qwen3.5-4B RL epoch 3", 70.93, 68.36, 98.05, 175),
        ("Qwen3.5-9B RL epoch 3", 75.94, 74.61, 99.61, 191),
    ]
    assert [r.calls for r in CHAPTER.results] == [None, None, None, 1087, 1011]
    assert [r.max_tokens for r in CHAPTER.results] == [6132, 2048, 6144, 6144, 6144]


def test_the_two_results_of_the_paper_are_as_it_prints_them() -> None:
    assert [(r.label, r.macro_f1, r.accuracy, r.format, r.correct) for r in PAPER.results] == [
        ("Spec-o3-3B SFT + RL", 73.3, None, None, None),
        ("Spec-o3-7B SFT + RL", 76.5, None, None, None),
    ]
    assert PAPER.results[0].tasks == {"cv": 80.7, "cc": 75.9, "ss": 84.0, "gm": 82.7, "wd": 43.2}
    assert PAPER.results[1].tasks == {"cv": 81.0, "cc": 80.2, "ss": 84.5, "gm": 83.4, "wd": 53.6}
    assert PAPER.results[0].transfer == {"lamost": 79.8, "sdss": 77.3, "desi": 73.6, "unseen": 74.4}


@pytest.mark.parametrize("source", published(), ids=lambda s: s.key)
def test_macro_f1_is_the_mean_of_the_tasks_and_questions_add_up(source) -> None:  # type: ignore[no-untyped-def]
    assert sum(source.questions_of.values()) == source.questions
    for result in (r for r in source.results if r.tasks):
        assert sorted(result.tasks) == sorted(source.questions_of)
        # The parts are rounded, so their mean may differ in the last digit.
        assert sum(result.tasks.values()) / 5 == pytest.approx(result.macro_f1, abs=10**-source.digits)


def test_shares_of_the_chapter_are_whole_counts_of_its_questions() -> None:
    for result in CHAPTER.results:
        assert result.correct is not None
        assert round(100 * result.correct / 256, 2) == result.accuracy
        assert result.format is not None
        well = round(result.format * 256 / 100)
        assert round(100 * well / 256, 2) == result.format


def test_our_settings_are_those_of_the_chapter_unless_others_are_given() -> None:
    ours = RunSettings().model_dump()
    assert {name: ours[name] for name in CHAPTER.settings if name != "seed"} == {
        name: value for name, value in CHAPTER.settings.items() if name != "seed"
    }
    assert CHAPTER.settings["seed"] == 42
    assert ours["max_tokens"] == 6144


def test_the_caveat_says_whose_results_these_are_and_on_which_questions() -> None:
    whose, on = "Published by others (chapter 9.4 of agentic-rl-lab)", "256 dev questions of SpecVI-Bench"
    assert CHAPTER.caveat() == f"{whose}: {on}, other questions than ours."
    assert PAPER.caveat().startswith("Published by others (the Spec-o3 paper): 6,754 test questions of SpecVI-Bench")
    assert CHAPTER.caveat(same=True).endswith("as many of each task as here.")
