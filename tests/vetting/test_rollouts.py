"""Rollouts in bulk: every trajectory on disk at once, no sample twice, and a resumed run that equals a whole one."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import rollouts_lab as lab
from rollout_lab import Asked, Scripted, answer, gambler, turns

from specvet.agent import Budget
from specvet.chat import Image, Ledger
from specvet.policies import policy
from specvet.policies.tokens import PolicyError
from specvet.records import RunFolder, RunMismatchError
from specvet.records.schema import Answer, StopReason
from specvet.vetting.items import Item
from specvet.vetting.rollouts import Measuring, rollout, rollout_settings, wanted_of_items
from specvet.vetting.watch import RolloutProgress

N = 8


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return lab.write_questions(tmp_path / "data", N)


def test_a_question_file_is_rolled_out_and_keeps_its_ids(tmp_path: Path, questions: Path) -> None:
    policy = Scripted(gambler)
    summary = lab.roll(tmp_path / "run", lab.asked(questions), policy)
    found = lab.results(tmp_path / "run")
    ids = [f"{key}-{i}" for i in range(N // 2) for key in lab.TASKS]
    assert found.keys() == {(id, sample) for id in ids for sample in range(lab.GROUP)} | {("gone", 0)}
    assert (summary.recorded, summary.errors, summary.skipped) == (N * lab.GROUP, 1, 0)
    assert sum(summary.stops.values()) == summary.recorded
    assert {"answered", "max_turns"} <= summary.stops.keys()
    for (id, sample), fields in found.items():
        trajectory = fields["trajectory"]
        if id == "gone":
            assert (fields["verdict"]["answer"], fields["task"], trajectory) == ("ERROR", "*", None)
            continue
        assert (trajectory["question"]["id"], trajectory["sample"], fields["sample"]) == (id, sample, sample)
        assert fields["verdict"] == trajectory["verdict"]
        assert fields["row"] == trajectory["question"]["spectrum"]["row"]
        assert trajectory["reward"] is not None
    with RunFolder.read(tmp_path / "run") as run:
        receipt = run.receipt()
        usage = receipt.usage
        assert usage["sampled_tokens"] == policy.usage.sampled_tokens == summary.tokens["sampled"]
        assert (receipt.tokens_in, receipt.tokens_out) == (usage["prompt_tokens"], usage["sampled_tokens"])
        assert sum(n for of_task in receipt.stops.values() for n in of_task.values()) == summary.recorded
        decision = next(iter(run.decisions(tasks=["cv"], with_trajectories=True)))
        assert decision.trajectory is not None
        assert decision.trajectory.ledger is not None
        images = {p.stem: Image.of(p.read_bytes()) for p in run.images.folder.glob("*/*.png")}
        ledger = Ledger.from_dict(decision.trajectory.ledger, images)
        assert ledger.trainable
        assert all(i.png is not None for i in ledger.images)
        assert {i.sha256 for i in ledger.images} <= images.keys()
    assert {p.stem for p in (tmp_path / "run" / "tasks").iterdir()} == {"cv", "wd"}


def test_two_runs_over_the_same_questions_are_equal_however_many_run_at_a_time(tmp_path: Path, questions: Path) -> None:
    lab.roll(tmp_path / "wide", lab.asked(questions), concurrency=64)
    lab.roll(tmp_path / "narrow", lab.asked(questions), concurrency=1)
    assert lab.results(tmp_path / "wide") == lab.results(tmp_path / "narrow")


def test_the_same_call_makes_nothing_again_and_more_samples_join(tmp_path: Path, questions: Path) -> None:
    lab.roll(tmp_path / "run", lab.asked(questions), group=2)
    policy = Scripted(gambler)
    again = lab.roll(tmp_path / "run", lab.asked(questions), policy, group=2)
    assert (again.recorded, again.errors, again.skipped) == (0, 0, 2 * N + 1)
    assert policy.requests == []
    more = lab.roll(tmp_path / "run", lab.asked(questions), group=3)
    assert (more.recorded, more.skipped) == (N, 2 * N + 1)
    lab.roll(tmp_path / "whole", lab.asked(questions), group=3)
    got, whole = lab.results(tmp_path / "run"), lab.results(tmp_path / "whole")
    for fields in (*got.values(), *whole.values()):
        if fields["trajectory"]:
            del fields["trajectory"]["group"]
    assert got == whole


def test_every_trajectory_is_on_disk_before_it_is_reported(tmp_path: Path, questions: Path) -> None:
    seen: list[int] = []

    def progress(p: RolloutProgress) -> None:
        with RunFolder.read(tmp_path / "run") as run:
            on_disk = sum(n for answers in run.count().values() for n in answers.values())
        assert on_disk >= p.recorded + p.errors
        seen.append(p.recorded)

    lab.roll(tmp_path / "run", lab.asked(questions), progress=progress)
    assert seen[-1] == N * lab.GROUP
    assert seen == sorted(seen)


def test_a_stop_finishes_what_is_under_way_and_the_same_call_ends_as_an_uninterrupted_one(
    tmp_path: Path, questions: Path
) -> None:
    stop = threading.Event()

    def progress(p: RolloutProgress) -> None:
        if p.recorded >= 4:
            stop.set()

    first = lab.roll(tmp_path / "run", lab.asked(questions), progress=progress, stop=stop, concurrency=3)
    assert first.interrupted
    assert 4 <= first.recorded < N * lab.GROUP
    receipt = json.loads((tmp_path / "run" / "receipt.json").read_text())
    assert receipt["sessions"][0]["interrupted"]
    second = lab.roll(tmp_path / "run", lab.asked(questions))
    assert not second.interrupted
    assert first.recorded + second.recorded == N * lab.GROUP
    lab.roll(tmp_path / "whole", lab.asked(questions))
    assert lab.results(tmp_path / "run") == lab.results(tmp_path / "whole")


def test_what_every_question_would_meet_ends_the_run_and_what_is_over_is_kept(tmp_path: Path, questions: Path) -> None:
    count = 0

    async def breaks(asked: Asked) -> None:
        nonlocal count
        count += 1
        if count == 20:
            raise PolicyError("the server is gone; start it and run the same command again", fatal=True)

    with pytest.raises(PolicyError, match="the server is gone"):
        lab.roll(tmp_path / "run", lab.asked(questions), Scripted(gambler, before=breaks), concurrency=2)
    kept = lab.results(tmp_path / "run")
    assert 1 <= len(kept) < N * lab.GROUP
    lab.roll(tmp_path / "run", lab.asked(questions))
    lab.roll(tmp_path / "whole", lab.asked(questions))
    whole = lab.results(tmp_path / "whole")
    assert lab.results(tmp_path / "run") == whole
    assert all(whole[key] == fields for key, fields in kept.items())


def test_kills_at_random_moments_lose_only_what_was_under_way(tmp_path: Path, questions: Path) -> None:
    lab.roll(tmp_path / "whole", lab.asked(questions))
    whole, moments = lab.results(tmp_path / "whole"), random.Random(20260201)
    out, reported = tmp_path / "run", 0
    for attempt in range(4):
        command = [sys.executable, lab.__file__, str(out), str(questions), str((2_000, 2)[attempt % 2])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            most = moments.randint(1, 6)
            told = 0
            for line in process.stdout:
                told = int(line)
                if told >= most:
                    break
            process.send_signal(signal.SIGKILL)
        reported += told
        now = lab.results(out)
        assert all(whole[key] == fields for key, fields in now.items())
        assert len(now) >= min(reported, N * lab.GROUP)  # what was reported is there
    lab.roll(out, lab.asked(questions))
    assert lab.results(out) == whole
    assert not list(out.rglob("*.tmp"))


def test_spectra_and_tasks_make_questions_of_their_own_and_repeated_entries_are_rolled_out_once(tmp_path: Path) -> None:
    lab.write_questions(tmp_path / "data", 4)
    items = [Item(str(tmp_path / "data" / "rows.npz")), Item(str(tmp_path / "data" / "s0.txt"), id="mine")]
    items.append(items[1])
    tasks = list(lab.TASKS.values())
    summary = lab.roll(tmp_path / "run", wanted_of_items(items, tasks), Scripted(turns(answer())))
    assert (summary.recorded, summary.duplicates) == (3 * 2 * lab.GROUP, 2)
    with RunFolder.read(tmp_path / "run") as run:
        decisions = list(run.decisions(with_trajectories=True))
    assert {d.id for d in decisions if d.file.endswith("s0.txt")} == {"mine"}
    one = next(d for d in decisions if d.row == 1 and d.task == "wd")
    assert one.trajectory is not None
    assert one.trajectory.question.id == f"{one.file}#1/wd"
    assert one.trajectory.reward is None  # nobody knows the answer


def test_a_row_that_no_file_can_have_is_an_error_row_and_the_others_are_rolled_out(tmp_path: Path) -> None:
    lab.write_questions(tmp_path / "data", 4)
    file = str(tmp_path / "data" / "rows.npz")
    rows = (-1, 2, 2**62, 2**63, 2**70, 1)
    items = [Item(file, row=row, id=f"row {row}") for row in rows]
    for session in range(2):
        summary = lab.roll(tmp_path / "run", wanted_of_items(items, [lab.TASKS["cv"]]), Scripted(turns(answer())))
        assert (summary.recorded, summary.errors) == ((lab.GROUP, 5) if session == 0 else (0, 0))
    with RunFolder.read(tmp_path / "run") as run:
        made = {d.id: d.verdict.answer for d in run.decisions()}
    assert made == {f"row {row}": Answer.YES if row == 1 else Answer.ERROR for row in rows}


@pytest.mark.parametrize("recorded", [0, 1, 4])
def test_an_abort_is_an_interruption_and_what_was_over_is_kept(tmp_path: Path, questions: Path, recorded: int) -> None:
    def abort(progress: RolloutProgress) -> None:
        if progress.recorded >= recorded:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.roll(tmp_path / "run", lab.asked(questions), progress=abort)
    with RunFolder.read(tmp_path / "run") as run:
        (session,) = run.receipt().sessions
        made = sum(d.trajectory is not None for d in run.decisions(with_trajectories=True))
    assert session.interrupted
    assert session.decided >= made >= recorded


def test_a_policy_that_measures_can_be_rolled_out_too(tmp_path: Path) -> None:
    lab.write_questions(tmp_path / "data", 4)
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        engine = Measuring(policy("line-indices"), Budget())
        wanted = wanted_of_items([Item(str(tmp_path / "data" / "s0.txt"))], [lab.TASKS["cv"]])
        summary = rollout(wanted, [lab.TASKS["cv"]], engine, run, group=2)
        decisions = list(run.decisions(with_trajectories=True))
    assert (summary.recorded, [d.sample for d in decisions]) == (2, [0, 1])
    assert all(d.trajectory and d.trajectory.ledger is None and d.trajectory.tokens is None for d in decisions)
    assert decisions[0].verdict.answer in (Answer.UNSURE, Answer.NO, Answer.YES)


def test_what_is_to_come_before_the_first_trajectory_comes_once_and_not_where_none_is_missing(
    tmp_path: Path, questions: Path
) -> None:
    calls = []
    for session in range(2):
        lab.roll(tmp_path / "run", lab.asked(questions), before=lambda: calls.append("probed"))
        assert calls == ["probed"], session


def test_settings_that_can_change_a_trajectory_are_held_against_those_of_the_run(tmp_path: Path) -> None:
    from specvet.policies.tokens import SamplingParams

    def settings(**more: Any) -> dict[str, Any]:
        params = SamplingParams(100, temperature=more.pop("temperature", 1.0), seed=more.pop("seed", 0))
        fixed = {"group": 2, "frame_mode": "careful", "budget": Budget(), "style": "compact", **more}
        return rollout_settings(lab.TASKS.values(), Scripted(gambler), params=params, **fixed)

    asked = settings()
    assert asked["sampling"] == {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "seed": 0}
    assert (asked["format"], asked["style"], asked["group"]) == ("qwen3_5", "compact", 2)
    assert asked["budget"]["context"] == 16_384
    with RunFolder.open(tmp_path / "run", kind="rollout", config=asked):
        pass
    for other, name in (
        (settings(temperature=0.5), "sampling.temperature"),
        (settings(seed=1), "sampling.seed"),
        (settings(group=3), "group"),
        (settings(title="file"), "title"),
        (settings(budget=Budget(context=1_000)), "budget.context"),
        (settings(style="spec-o3-reference-1"), "style"),
    ):
        with pytest.raises(RunMismatchError, match=name):
            RunFolder.open(tmp_path / "run", kind="rollout", config=other)


def test_a_stalled_server_does_not_keep_a_run_from_ending(tmp_path: Path, questions: Path) -> None:
    import asyncio

    async def stalls(asked: Asked) -> None:
        if asked.turn == 1:
            await asyncio.Event().wait()

    import rollout_lab

    policy = Scripted(turns(rollout_lab.look()), before=stalls)
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        from specvet.agent import Engine

        with Engine(policy, Budget(max_seconds=0.5)) as engine:
            wanted = list(lab.asked(questions))[:2]
            summary = rollout(wanted, lab.TASKS.values(), engine, run, group=2, style="compact")
    assert summary.stops == {StopReason.OUT_OF_TIME: 4}
