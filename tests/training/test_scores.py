"""What a recorded trajectory is worth, read from its own ids."""

from __future__ import annotations

import pytest
from menu_lab import ELSEWHERE, FORMAT, LOOK, MENU, NO, YES

from specvet.chat import Ledger
from specvet.chat.segments import TextSegment
from specvet.records.schema import ActionRecord, Answer, Question, SpectrumRef, TrajectoryRecord, TurnRecord, Verdict
from specvet.tasks.rewards import Reward
from specvet.training.config import RewardConfig
from specvet.training.scores import score

HM = MENU[4]


def record(*turns: list[int], stop: str = "answered", truth: str | None = "YES") -> TrajectoryRecord:
    kinds = {id(LOOK): "call", id(ELSEWHERE): "call", id(YES): "answer", id(NO): "answer"}
    ledger = Ledger(FORMAT.name, FORMAT.vocabulary.fingerprint)
    for turn in turns:
        ledger.append([TextSegment((5, 6), "frame")])
        ledger.append_sampled(turn, [-0.1] * len(turn), "end")
    return TrajectoryRecord(
        question=Question(id="q", task="t", spectrum=SpectrumRef(path="x"), answer=truth),  # type: ignore[arg-type]
        policy="menu",
        task_hash="",
        spectrum_hash=None,
        opening=None,
        turns=tuple(
            TurnRecord(action=ActionRecord(kind=kinds.get(id(turn), "malformed")), seconds=0.0)  # type: ignore[arg-type]
            for turn in turns
        ),
        stop=stop,  # type: ignore[arg-type]
        verdict=Verdict(answer=Answer.FAILED, reason=""),
        seconds=0.0,
        started="",
        ledger=ledger.to_dict(),
    )


def worth(*given, rule: RewardConfig = RewardConfig(), **more) -> Reward | None:  # noqa: B008 - frozen
    return score(record(*given, **more), FORMAT, rule)


def test_the_right_answer_in_good_format_is_worth_one():
    assert worth(LOOK, YES) == Reward(1.0, True, True, "YES")
    assert worth(LOOK, NO) == Reward(0.0, False, True, "NO")


def test_a_trajectory_without_an_answer_loses_for_its_format():
    assert worth(LOOK, LOOK, stop="max_turns") == Reward(-0.2, False, False, "")
    assert worth(LOOK, HM, stop="malformed") == Reward(-0.2, False, False, "")


def test_a_malformed_turn_before_the_answer_spoils_the_format_and_not_the_answer():
    assert worth(HM, YES) == Reward(0.8, True, False, "YES")


def test_the_weights_are_the_runs_own():
    rule = RewardConfig(correct=2.0, bad_format=-0.5)
    assert worth(HM, YES, rule=rule) == Reward(1.5, True, False, "YES")


def test_the_papers_variant_reads_all_turns_as_one_text():
    rule = RewardConfig(variant="paper")
    # Two thoughts, one answer, no fault: calls and words around them are none to the published code …
    assert worth(LOOK, YES, rule=rule) == Reward(1.0, True, True, "YES")
    # … nor is a turn that our parser calls malformed.
    assert worth(HM, YES, rule=rule) == Reward(1.0, True, True, "YES")
    assert worth(YES, NO, rule=rule) == Reward(-0.2, False, False, "NO")


@pytest.mark.parametrize("stop", ["policy_error", "out_of_time", "token_drift", "ledger", "not_asked"])
def test_what_is_no_doing_of_the_models_has_no_reward(stop):
    assert worth(LOOK, YES, stop=stop) is None


def test_without_an_answer_to_the_question_or_a_sampled_turn_there_is_no_reward():
    assert worth(LOOK, YES, truth=None) is None
    assert worth(stop="context") is None
