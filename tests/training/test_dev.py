"""The dev questions: what is made of their answers, and that what is on disk is not asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from menu_lab import MenuTrainer
from run_lab import grpo_loop, toy_questions

from specvet.policies.remote import resolve
from specvet.records import RunFolder
from specvet.training.dev import Answered, Dev, numbers


def answered(task: str, truth: str, said: str | None, reward: float | None = 0.0, calls: int = 1) -> Answered:
    return Answered(task, truth, said, said is not None, calls, reward)


def test_accuracy_is_over_all_questions_and_macro_f1_over_tasks() -> None:
    every = [
        answered("cv", "YES", "YES", 1.0),
        answered("cv", "YES", "NO"),
        answered("cv", "NO", "YES"),
        answered("cv", "NO", "NO", 1.0),
        answered("cv", "YES", None, -0.2, calls=3),  # no answer is a wrong one, and a miss
        answered("wd", "YES", "YES", 1.0),
        answered("wd", "NO", None, None),  # ended by a failing backend: no reward
    ]
    told = numbers(every)
    cv, wd = 2 * 1 / (3 + 2), 2 * 1 / (1 + 1)
    assert told == {
        "questions": 7,
        "accuracy": pytest.approx(3 / 7),
        "format": pytest.approx(5 / 7),
        "calls_mean": pytest.approx(9 / 7),
        "macro_f1": pytest.approx((cv + wd) / 2),
        "reward_mean": pytest.approx(2.8 / 6),
    }


def test_a_task_without_any_yes_has_no_f1_and_no_reward_is_no_number() -> None:
    told = numbers([answered("cv", "NO", "NO", None), answered("wd", "YES", "YES", None)])
    assert told["macro_f1"] == 1.0
    assert "reward_mean" not in told
    assert numbers([answered("cv", "NO", "NO")])["macro_f1"] == 0.0
    assert numbers([answered("cv", "YES", "NO")])["macro_f1"] == 0.0


def test_the_questions_are_asked_once_a_step_and_kept(tmp_path: Path) -> None:
    questions = toy_questions(tmp_path / "toy")
    heard: list[tuple[int, int]] = []
    dev = Dev(questions, grpo_loop(), tmp_path / "dev", 0, told=lambda done, total: heard.append((done, total)))

    async def asked(step: int) -> tuple[dict[str, float], int]:
        trainer = MenuTrainer()
        policy = await resolve(trainer.sampler())
        told = dict(await dev(policy, step))
        return told, policy.usage.requests

    first, requests = asyncio.run(asked(3))
    assert first["questions"] == 4
    assert requests > 0
    assert heard == [(i, 4) for i in range(5)]
    again, requests = asyncio.run(asked(3))
    assert (again, requests) == (first, 0)
    with RunFolder.read(tmp_path / "dev" / "step-000003") as run:
        kept = list(run.decisions(with_trajectories=True))
        assert sum(run.receipt().stops["toy"].values()) == 4
    right = sum(d.verdict.answer == d.trajectory.question.answer for d in kept if d.trajectory)
    assert first["accuracy"] == right / 4
