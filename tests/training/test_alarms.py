"""Alarms: each collapse is said once, with what it means; quiet runs are left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from metrics_lab import Line, grpo_line, grpo_run, sft_line, sft_run

from specvet.training.watch import RULES, Alarm, Alarms


def raised(lines: Iterable[Line], alarms: Alarms | None = None) -> list[Alarm]:
    alarms = alarms or Alarms()
    return [alarm for line in lines for alarm in alarms.check(line)]


def series(name: str, values: Sequence[Any], **fixed: Any) -> list[Line]:
    return [grpo_line(step, **{name: value}, **fixed) for step, value in enumerate(values, 1)]


COLLAPSES: dict[str, tuple[list[Line], int]] = {
    # name → (lines, the step at which it is said)
    "zero_calls": (series("zero_call_share", [0.05] * 8 + [0.3, 0.6] + [0.9] * 8), 12),
    "looping": (series("looping_share", [0.0] * 5 + [0.05, 0.2, 0.4, 0.4]), 8),
    "format_drop": (series("format", [0.97] * 8 + [0.8, 0.7, 0.6, 0.5, 0.5]), 11),
    "equal_groups": (series("groups_equal", [3, 8, 8, 8, 8, 2, 8, 8, 8, 8, 8], loss=None, datums=0), 11),
    "reward_drop": (series("reward_mean", [0.6] * 22 + [0.2] * 22), 33),
    "drift": (series("drift_mean", [0.012] * 3 + [0.24]), 4),
    "entropy": (series("entropy", [0.4] * 6 + [0.3, 0.2, 0.1, 0.05, 0.02, 0.02, 0.02, 0.02]), 13),
    "not_finite": (series("loss", [0.01, None]), 2),
    "clipped": (series("clip_share", [0.01] * 6 + [0.2, 0.3, 0.4, 0.4, 0.4]), 10),
}


def test_there_is_a_collapse_for_every_rule_here() -> None:
    assert set(COLLAPSES) == set(RULES)


@pytest.mark.parametrize("name", COLLAPSES)
def test_a_collapse_is_said_once_when_it_is_plain_and_nothing_else_is(name: str) -> None:
    lines, step = COLLAPSES[name]
    assert [(alarm.name, alarm.step) for alarm in raised(lines)] == [(name, step)]


def test_an_alarm_is_said_again_only_after_a_recovery() -> None:
    high = series("looping_share", [0.4] * 30)
    between = series("looping_share", [0.06] * 30)
    low = series("looping_share", [0.0] * 30)
    alarms = Alarms()
    assert len(raised(high, alarms)) == 1
    assert raised(between, alarms) == []
    assert alarms.standing == {"looping"}
    assert raised(high, alarms) == []  # it wavered between the two thresholds
    assert raised(low, alarms) == []
    assert alarms.standing == set()
    assert len(raised(high, alarms)) == 1


def test_what_was_said_before_a_resume_is_not_said_after_it() -> None:
    lines, step = COLLAPSES["zero_calls"]
    going_on = Alarms()
    before = raised(lines[:step], going_on)
    assert [a.step for a in before] == [step]
    assert raised(lines[step:], going_on) == []


def test_texts_tell_what_was_measured_and_what_to_try() -> None:
    (calls,) = raised(COLLAPSES["zero_calls"][0])
    assert calls.text.startswith("55% of the trajectories of the last 5 steps never called the tool; it was 5% at its")
    assert "--set grpo.kl=0.01" in calls.text
    (drift,) = raised(COLLAPSES["drift"][0])
    assert drift.text.startswith("trainer and sampler disagree by 0.24 nats a token")
    (equal,) = raised(COLLAPSES["equal_groups"][0])
    assert "in the last 5 steps all 40 groups had equal rewards (mean 0.60)" in equal.text
    assert "mix in easier questions" in equal.text
    solved = [line | {"reward_mean": 1.0} for line in COLLAPSES["equal_groups"][0]]
    assert "the questions have become too easy" in raised(solved)[-1].text


def test_a_model_that_never_calls_from_the_start_is_told_of_too() -> None:
    (alarm,) = raised(series("zero_call_share", [0.94] * 30))
    assert (alarm.name, alarm.step) == ("zero_calls", 5)
    assert "it was never below 94%" in alarm.text
    assert "specvet train sft" in alarm.text
    assert raised(series("zero_call_share", [0.6] * 30)) == []  # a habit, not a collapse


def test_few_equal_groups_in_a_row_are_chance() -> None:
    assert raised(series("groups_equal", [8] * 4, loss=None, datums=0)) == []
    small = [grpo_line(s, groups=4, groups_equal=4, loss=None, datums=0) for s in range(1, 9)]
    assert [a.step for a in raised(small)] == [8]  # 32 groups


def test_a_null_loss_is_an_alarm_only_where_something_was_trained_on() -> None:
    assert raised([grpo_line(1, loss=None, datums=0, groups_equal=8), grpo_line(2)]) == []
    assert [a.name for a in raised([sft_line(1), sft_line(2, loss=None), sft_line(3, loss=None)])] == ["not_finite"]
    again = [sft_line(1, loss=None), sft_line(2), sft_line(3, loss=None)]
    assert [a.step for a in raised(again)] == [1, 3]


def test_what_a_backend_does_not_tell_raises_nothing() -> None:
    silent = {"entropy": None, "drift_mean": None, "clip_share": None, "kl_reference": None, "looping_share": None}
    assert raised(grpo_line(s, **silent) for s in range(1, 40)) == []
    assert raised({"kind": "step", "step": s, "loss": 0.1, "reward_mean": 0.5} for s in range(1, 40)) == []


def test_validation_and_dev_lines_are_not_steps() -> None:
    dev = {"kind": "dev", "step": 1, "format": 0.0, "reward_mean": -0.2}
    assert raised([dev] * 30) == []
    assert raised([{"kind": "validation", "step": 1, "loss": None}]) == []


def test_healthy_runs_are_left_alone_and_a_collapsing_one_is_followed_from_cause_to_effect() -> None:
    assert raised(sft_run(200)) == []
    for seed in range(4):
        assert raised(grpo_run(200, seed)) == []
    said = raised(grpo_run(160, 1, collapse_at=100))
    assert [a.name for a in said][:2] == ["zero_calls", "looping"]
    assert {"format_drop", "reward_drop"} <= {a.name for a in said}
    assert all(99 <= a.step <= 130 for a in said)
    assert max(Counter(a.name for a in said).values()) == 1


def test_noise_alone_raises_nothing_with_eight_questions_of_eight() -> None:
    """Runs in which nothing changes: questions of their own difficulty, each answered 8 times."""
    rng = np.random.default_rng(0)
    for level, form, calls in ((0.5, 0.97, 0.1), (0.5, 0.6, 0.4), (0.9, 0.99, 0.1), (0.5, 0.9, 0.5)):
        alarms = Alarms()
        for step in range(1, 401):
            right = rng.random((8, 8)) < rng.beta(level * 1.5, (1 - level) * 1.5, 8)[:, None]
            well = rng.random((8, 8)) < form
            none = rng.random((8, 8)) < rng.beta(calls * 3, (1 - calls) * 3, 8)[:, None]
            reward = right - 0.2 * ~well
            line = grpo_line(
                step,
                reward_mean=float(reward.mean()),
                format=float(well.mean()),
                zero_call_share=float(none.mean()),
                looping_share=float((rng.random(64) < 0.01).mean()),
                groups_equal=int((reward.std(axis=1) == 0).sum()),
            )
            assert alarms.check(line) == []
