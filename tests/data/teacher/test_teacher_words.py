"""Words and numbers as people write them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from specvet.data.teacher.figures import figure, two_digits, unit_of, unit_of_two
from specvet.data.teacher.plans import Plan
from specvet.data.teacher.words import Speaker, a, capital, listed, phrases
from specvet.tasks import builtin_tasks, load_task


@pytest.mark.parametrize(
    ("value", "error", "unit", "text"),
    [
        (-32.07, 0.8, "Å", "−32 ± 1 Å"),
        (12.3, 1.6, "Å", "12 ± 2 Å"),
        (3.14, 0.02, "Å", "3.1 ± 0.1 Å"),
        (1183.0, 61.0, "km/s", "1180 ± 70 km/s"),
        (0.6173, 0.004, "", "0.62 ± 0.02"),
        (0.02, 0.31, "Å", "0.0 ± 0.4 Å"),
        (-0.04, 0.96, "Å", "0 ± 1 Å"),
        (157.0, None, "Å", "157 Å"),
    ],
)
def test_a_number_is_rounded_to_what_can_be_known(value: float, error: float | None, unit: str, text: str) -> None:
    assert figure(value, error, unit).text() == text


def test_an_error_is_never_stated_smaller_than_it_is() -> None:
    rng = np.random.default_rng(0)
    for value, error in zip(rng.normal(0, 30, 500), rng.exponential(2.0, 500), strict=True):
        shown = figure(float(value), float(error), "Å")
        assert shown.error is not None
        assert shown.error >= error * 0.999
        assert abs(shown.value - value) <= shown.error


def test_two_digits_are_two() -> None:
    assert [two_digits(x) for x in (0.449, 1.0, 1.84, 9.96, 13.6, 99.7, 142.0)] == [
        "0.45", "1.0", "1.8", "10", "14", "100", "140",
    ]  # fmt: skip
    assert [unit_of_two(x) for x in ("1.8", "30", "140")] == [0.1, 1.0, 10.0]
    assert [unit_of(x) for x in ("−1.8", "−30", "1180")] == [0.1, 10.0, 10.0]


def test_names_take_the_article_that_they_are_spoken_with() -> None:
    names = ("M giant", "carbon star", "S-type star", "K star", "F or G star", "emission-line galaxy", "WD+MS binary")
    assert [a(name).split()[0] for name in names] == ["an", "a", "an", "a", "an", "an", "a"]
    assert listed(["Hα"]) == "Hα"
    assert listed(["Hα", "Hβ", "Hγ"]) == "Hα, Hβ and Hγ"
    assert capital("the G band") == "The G band"


def test_no_sentence_is_said_twice_while_others_are_left() -> None:
    speaker = Speaker(np.random.default_rng(0))
    n = len(phrases()["plan"]["expected"])
    said = [speaker.say("plan.expected", a_task="a", features="f", range="r") for _ in range(n)]
    assert len({re.sub(r"\W", "", s)[:4] for s in said}) >= n - 2
    assert len(set(said)) == n


def test_every_sentence_has_whole_brackets_and_no_number_of_its_own() -> None:
    for group, keys in phrases().items():
        for key, sentences in keys.items():
            for sentence in sentences:
                if group == "names":
                    continue
                assert sentence.count("[") == sentence.count("]"), (key, sentence)
                assert not re.search(r"\d", sentence), (key, sentence)
                assert set(re.findall(r"{(\w+)}", sentence.lower())) <= {
                    "low", "high", "snr", "a", "b", "k", "range", "place", "join", "a_task", "features", "name", "v",
                    "u", "w", "percent", "pending", "what", "says", "value", "best", "reasons", "a_rival", "why",
                }, (key, sentence)  # fmt: skip


def test_each_name_of_a_quantity_means_one_measurement_of_a_kind() -> None:
    for task in builtin_tasks().values():
        plan = Plan.of(task)
        meant: dict[tuple[str, str, str], str] = {}
        for q in plan.quantities.values():
            for name in q.names:
                assert meant.setdefault((name.lower(), q.unit, q.kind), q.key) == q.key


def test_features_of_key_windows_are_measured_by_the_index_that_exists_for_them() -> None:
    from specvet.data.teacher.plans import features_of

    found = {
        feature.name: key
        for name in ("cv", "cc", "ss", "gm", "wd")
        for plan in [Plan.of(load_task(name))]
        for window in plan.task.windows
        for feature, key in features_of(plan, window)
    }
    assert found["Hα"] == "ha"
    assert found["C2 Swan (0,0)"] == "c2_5165"
    assert found["CaH2 6830"] == "cah2"
    assert found["CN red 6925"] == "cn_6925"
    assert found["TiO 7053"] == "feature:TiO 7053"
