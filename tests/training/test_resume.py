"""A run that is killed anywhere and goes on equals one that never stopped: metrics, weights, trajectories."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_lab import (
    Fuse,
    Killed,
    assert_same_run,
    config,
    count_evaluations,
    grpo_loop,
    lines,
    timeless_lines,
    toy_questions,
    trained,
    weights,
)

from specvet.data.asking import Questions

# Three questions in batches of two: each epoch has a full step and a smaller one; a checkpoint after each.
LOOP = grpo_loop(epochs=2, questions=2, group=2, save_every=1)
CONFIG = config(LOOP)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    found = toy_questions(tmp_path_factory.mktemp("toy") / "toy")
    found.asked = found.asked[:3]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, questions: Questions) -> Path:
    """The run that was never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    fuse = Fuse()
    trained(out, CONFIG, questions, fuse=fuse, evaluate=count_evaluations)
    assert fuse.happened["recorded"] == 12
    assert fuse.happened["forward_backward"] == 4
    return out


def test_the_run_that_is_compared_with_has_its_epochs_ends_and_smaller_batches(whole):
    assert [(x["kind"], x["step"], x["epoch"], x.get("trajectories")) for x in lines(whole)] == [
        ("dev", 0, 0, None),
        ("step", 1, 1, 4),
        ("dev", 1, 1, None),
        ("step", 2, 1, 2),
        ("dev", 2, 1, None),
        ("step", 3, 2, 4),
        ("dev", 3, 2, None),
        ("step", 4, 2, 2),
        ("dev", 4, 2, None),
    ]
    assert sorted(p.name for p in (whole / "checkpoints").iterdir()) == [
        "epoch-01",
        "epoch-02",
        "step-000001",
        "step-000003",
    ]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("what", ["forward_backward", "saved_state", "placed"])
def test_a_run_killed_at_any_step_goes_on_as_if_it_had_not_been(tmp_path, questions, whole, what, step):
    with pytest.raises(Killed):
        trained(tmp_path / "run", CONFIG, questions, fuse=Fuse(what, step), evaluate=count_evaluations)
    trained(tmp_path / "run", CONFIG, questions, evaluate=count_evaluations)
    assert_same_run(tmp_path / "run", whole)


@pytest.mark.parametrize("trajectory", [1, 3, 11])
def test_a_batch_that_was_cut_short_is_completed_and_not_made_again(tmp_path, questions, whole, trajectory):
    with pytest.raises(Killed):
        trained(tmp_path / "run", CONFIG, questions, fuse=Fuse("recorded", trajectory), evaluate=count_evaluations)
    rest = Fuse()
    trained(tmp_path / "run", CONFIG, questions, fuse=rest, evaluate=count_evaluations)
    assert rest.happened["recorded"] == 12 - trajectory
    assert_same_run(tmp_path / "run", whole)


@pytest.mark.parametrize("line", [1, 4, 5, 9])  # of the first evaluation, a step, an evaluation, the last
def test_a_kill_right_after_a_line_of_metrics_neither_repeats_nor_loses_it(tmp_path, questions, whole, line):
    with pytest.raises(Killed):
        trained(tmp_path / "run", CONFIG, questions, fuse=Fuse("logged", line), evaluate=count_evaluations)
    trained(tmp_path / "run", CONFIG, questions, evaluate=count_evaluations)
    assert_same_run(tmp_path / "run", whole)


def test_a_run_killed_again_and_again_arrives_all_the_same(tmp_path, questions, whole):
    sessions = 0
    while True:
        sessions += 1
        try:
            # every session gets one trajectory further than the one before, if it makes any at all
            trained(tmp_path / "run", CONFIG, questions, fuse=Fuse("recorded", 1), evaluate=count_evaluations)
        except Killed:
            continue
        break
    assert sessions == 13
    assert_same_run(tmp_path / "run", whole)


def test_without_any_checkpoint_recorded_trajectories_are_read_back_from_the_start(tmp_path, questions):
    loop = config(grpo_loop(epochs=2, questions=2, group=2, save_every=0, max_steps=3))
    trained(tmp_path / "whole", loop, questions)
    with pytest.raises(Killed):
        trained(tmp_path / "run", loop, questions, fuse=Fuse("save_state", 1))  # at the end of the first epoch
    rest = Fuse()
    trained(tmp_path / "run", loop, questions, fuse=rest)
    assert rest.happened["forward_backward"] == 3
    assert rest.happened["recorded"] == 4
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_run_that_is_done_does_nothing_more_and_says_the_same(tmp_path, questions):
    loop = config(grpo_loop(epochs=1, questions=2, group=2))
    trained(tmp_path / "run", loop, questions)
    before, rest = timeless_lines(tmp_path / "run"), Fuse()
    trained(tmp_path / "run", loop, questions, fuse=rest)
    assert timeless_lines(tmp_path / "run") == before
    assert not rest.happened


def test_a_batch_that_was_being_refilled_is_completed(tmp_path, questions):
    loop = config(grpo_loop(epochs=2, questions=1, group=2, refill=2, save_every=1))
    trained(tmp_path / "whole", loop, questions)
    assert sum(x["groups_refilled"] for x in lines(tmp_path / "whole", "step")) > 0
    for trajectory in (3, 5):
        run = tmp_path / f"run-{trajectory}"
        with pytest.raises(Killed):
            trained(run, loop, questions, fuse=Fuse("recorded", trajectory))
        trained(run, loop, questions)
        assert_same_run(run, tmp_path / "whole")


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import run_lab
from test_resume import CONFIG

class Fuse(run_lab.Fuse):
    def check(self):
        if self.blown:
            os.kill(os.getpid(), signal.SIGKILL)

questions = run_lab.toy_questions(sys.argv[2])
questions.asked = questions.asked[:3]
fuse = Fuse(sys.argv[4], int(sys.argv[5]))
run_lab.trained(sys.argv[3], CONFIG, questions, fuse=fuse, evaluate=run_lab.count_evaluations)
"""


@pytest.mark.parametrize(("what", "n"), [("recorded", 7), ("saved_state", 2)])
def test_a_process_that_is_killed_for_real_goes_on(tmp_path, whole, what, n):
    here, toy, out = str(Path(__file__).parent), str(tmp_path / "toy"), tmp_path / "run"
    command = [sys.executable, "-c", KILLED, here, toy, str(out), what, str(n)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    questions = toy_questions(tmp_path / "toy")
    questions.asked = questions.asked[:3]
    trained(out, CONFIG, questions, evaluate=count_evaluations)
    assert timeless_lines(out) == timeless_lines(whole)
    assert weights(out) == weights(whole)
