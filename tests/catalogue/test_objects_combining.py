"""What the epochs of one star amount to."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.agent import task_hash
from specvet.catalogue.objects import Vote, combine
from specvet.records.schema import Answer
from specvet.tasks import Epochs, TaskError, builtin_tasks
from specvet.tasks.epochs import DEFAULT, RULES
from specvet.tasks.load import task_from_bytes, task_text

CV = builtin_tasks()["cv"].epochs
WD = builtin_tasks()["wd"].epochs
assert CV is not None
assert WD is not None


def votes(said: str, **more: Any) -> list[Vote]:
    """`YES:0.9:20` is an answer, its p(YES) and its S/N; one epoch a year."""
    out = []
    for n, text in enumerate(said.split()):
        word, p, snr = [*text.split(":"), "", ""][:3]
        out.append(
            Vote(
                (f"{n}.fits", 0),
                Answer(word),
                float(p) if p else None,
                float(snr) if snr else None,
                55000.0 + n,
                **more,
            )
        )
    return out


def test_one_outburst_of_five_epochs_makes_a_cv():
    five = votes("NO:0.1 NO:0.2 YES:0.97 NO:0.05 NO:0.1")
    found = combine(five, CV)
    assert found.answer is Answer.YES
    assert found.p_yes == 0.97
    assert found.yes == (("2.fits", 0),)
    assert found.conflict
    assert found.reason == "YES in 1 of 5 epochs (MJD 55002), which is enough"
    assert found.likelier is None


def test_the_same_five_epochs_make_no_white_dwarf():
    found = combine(votes("NO:0.1 NO:0.2 YES:0.97 NO:0.05 NO:0.1"), WD)
    assert found.answer is Answer.NO
    odds = sum(math.log(p / (1 - p)) for p in (0.1, 0.2, 0.97, 0.05, 0.1)) / 5
    assert found.p_yes == pytest.approx(1 / (1 + math.exp(-odds)))
    assert found.reason.startswith(
        "epochs conflict: 1 YES (MJD 55002), 4 NO (MJD 55000, 55001, 55003 and 1 more); by S/N"
    )


def test_a_yes_that_is_not_trusted_decides_nothing_alone():
    found = combine(votes("NO:0.1 YES:0.55"), CV)
    assert found.answer is Answer.UNSURE
    assert found.reason == "YES in 1 of 2 epochs (MJD 55001), but at p 0.55 below 0.6"
    assert combine(votes("NO YES"), CV).answer is Answer.YES  # a word without a probability
    assert combine(votes("YES:0.55", by="triage"), CV).answer is Answer.YES


def test_epochs_of_better_signal_weigh_more():
    assert combine(votes("YES:0.9:40 NO:0.2:2"), WD).answer is Answer.YES
    assert combine(votes("YES:0.9:2 NO:0.1:40"), WD).answer is Answer.NO
    found = combine(votes("YES:0.9:10 NO:0.1:10"), WD)
    assert found.answer is Answer.UNSURE
    assert found.p_yes == pytest.approx(0.5)
    assert "which does not decide" in found.reason


def test_the_weights_stay_within_their_bounds_and_unknown_signal_weighs_least():
    assert [v.weight for v in votes("NO:0.1:-3 NO:0.1:0.2 NO:0.1:7 NO:0.1:9000 NO:0.1")] == [1.0, 1.0, 7.0, 50.0, 1.0]
    assert Vote(("a", 0), Answer.NO, snr=math.nan).weight == 1.0


def test_many_epochs_that_agree_are_hardly_surer_than_one():
    one, many = combine(votes("YES:0.8:10"), WD), combine(votes(" ".join(["YES:0.8:10"] * 50)), WD)
    assert many.p_yes == pytest.approx(one.p_yes) == pytest.approx(0.8)


def test_epochs_that_agree_keep_their_word_whatever_its_probability():
    assert combine(votes("YES:0.4 YES:0.3"), WD).answer is Answer.YES
    assert combine(votes("NO:0.55"), WD).answer is Answer.NO


def test_what_is_not_yes_or_no_does_not_vote_and_is_told():
    found = combine(votes("UNSURE:0.5 NO:0.1 NO_DATA FAILED ERROR"), CV)
    assert found.answer is Answer.NO
    assert found.reason == "NO in the only epoch; not counted: 1 UNSURE, 1 NO_DATA, 1 FAILED, 1 ERROR"
    assert found.no == (("1.fits", 0),)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("NO_DATA UNSURE ERROR", "UNSURE"),
        ("NO_DATA FAILED ERROR", "FAILED"),
        ("NO_DATA ERROR", "NO_DATA"),
        ("ERROR", "ERROR"),
    ],
)
def test_where_no_epoch_votes_the_object_is_what_can_still_be_helped(said: str, answer: str):
    found = combine(votes(said))
    assert found.answer == answer
    assert found.p_yes is None
    assert found.by is None


def test_where_people_saw_a_star_that_does_not_change_only_they_count():
    person = Vote(("9.fits", 0), Answer.NO, snr=3.0, by="person", likelier="hot subdwarf")
    found = combine([*votes("YES:0.99:50 YES:0.99:50"), person], WD)
    assert found.answer is Answer.NO
    assert found.by == "person"
    assert found.likelier == "hot subdwarf"
    assert found.reason == "NO in the only epoch; not counted: 2 YES"


def test_a_person_who_saw_one_state_of_a_cv_does_not_speak_of_the_others():
    person = Vote(("9.fits", 0), Answer.NO, by="person")
    assert combine([*votes("YES:0.99"), person], CV).answer is Answer.YES


def test_the_likelier_class_is_the_one_that_most_epochs_name():
    named = [
        Vote((str(n), 0), Answer.NO, likelier=name) for n, name in enumerate(["M dwarf", "Be star", "Be star", ""])
    ]
    assert combine(named, CV).likelier == "Be star"


def test_a_task_without_the_section_is_weighed():
    assert DEFAULT.rule == "weighed"
    assert combine(votes("YES:0.9:10 NO:0.1:10")).rule == "weighed"
    with pytest.raises(ValueError, match="no votes"):
        combine([])


def test_every_built_in_task_states_its_rule_and_why():
    rules = {key: task.epochs.rule for key, task in builtin_tasks().items() if task.epochs}
    assert rules == {"cv": "any_yes", "cc": "weighed", "ss": "weighed", "gm": "weighed", "wd": "weighed"}
    assert set(RULES) == {"any_yes", "weighed"}


def test_the_section_is_checked_kept_and_no_part_of_what_was_asked():
    cv = builtin_tasks()["cv"]
    assert task_from_bytes(task_text(cv).encode(), "cv.yaml") == cv
    assert task_hash(cv.model_copy(update={"epochs": None})) == task_hash(cv)
    wrong = task_text(cv).replace("rule: any_yes", "rule: majority")
    with pytest.raises(TaskError, match=r"(?s)cv\.yaml.*epochs.*rule"):
        task_from_bytes(wrong.encode(), "cv.yaml")


epoch = st.builds(
    Vote,
    key=st.tuples(st.uuids().map(str), st.just(0)),
    answer=st.sampled_from(Answer),
    p_yes=st.none() | st.floats(0, 1),
    snr=st.none() | st.floats(allow_nan=True),
    mjd=st.none() | st.floats(0, 1e5),
    likelier=st.sampled_from(["", "Be star", "M dwarf"]),
    by=st.sampled_from(["person", "triage", "policy"]),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(epoch, min_size=1, max_size=8, unique_by=lambda v: v.key),
    st.sampled_from([None, CV, WD]),
    st.randoms(use_true_random=False),
)
def test_combining_knows_no_order_and_gives_one_of_the_six_words(
    said: list[Vote], rule: Epochs | None, shuffler: random.Random
):
    found = combine(said, rule)
    assert isinstance(found.answer, Answer)
    assert found.p_yes is None or 0.0 < found.p_yes < 1.0
    assert (found.answer is Answer.YES) <= bool(found.yes)
    assert (found.answer is Answer.NO) <= bool(found.no)
    again = list(said)
    shuffler.shuffle(again)
    assert combine(again, rule) == found
