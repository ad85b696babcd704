"""Both loops with the torch trainer and a tiny model: what is read back from disk gives the gradients it first gave."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_lab import (
    Fuse,
    Killed,
    Seen,
    config,
    grpo_loop,
    lines,
    receipt,
    timeless_lines,
    timeless_trajectories,
    toy_questions,
)

from specvet.data.asking import Questions
from specvet.data.demonstrations import load_sft
from specvet.data.toy import make_toy
from specvet.policies.remote import resolve
from specvet.records.schema import TrajectoryRecord
from specvet.tasks.rewards import Reward
from specvet.training import batches
from specvet.training.checkpoints import weights_of
from specvet.training.config import BudgetConfig, MethodConfig, OptimiserConfig, SftConfig, TrainConfig
from specvet.training.grpo import grpo
from specvet.training.run import TrainingRun
from specvet.training.sft import sft

pytest.importorskip("peft")

METHOD = MethodConfig(rank=4)
SFT = config(SftConfig(epochs=1, batch=1, save_every=1, optimiser=OptimiserConfig(lr=1e-3)), method=METHOD)
GRPO = config(
    grpo_loop(
        epochs=2,
        questions=2,
        group=2,
        save_every=0,
        kl=0.05,
        optimiser=OptimiserConfig(lr=1e-3),
        budget=BudgetConfig(max_turns=2, turn_tokens=6, max_malformed=1),
    ),
    method=METHOD,
)


def session(out: Path, told: TrainConfig, data: Any, fuse: Fuse | None = None) -> Seen:
    """One session; a blown fuse leaves the run as `kill -9` does."""
    from specvet.training.opening import trainer_options
    from specvet.training.registry import open_trainer

    fuse, seen = fuse or Fuse(), Seen()

    async def trained(run: TrainingRun) -> None:
        trainer = await resolve(open_trainer("torch", trainer_options(told, **weights_of(told, run.checkpoint))))
        try:
            if isinstance(told.loop, SftConfig):
                rows = load_sft(data.sft_train, trainer.format, told.loop.max_tokens)[0]
                await sft(told, trainer, rows, [], run, seen)
            else:
                await grpo(told, trainer, data, run, seen)
        finally:
            await resolve(trainer.aclose())

    run = TrainingRun.open(out, told)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "log", fuse.after("logged", run.log))
        patched.setattr(run.folder, "record_many", fuse.after("recorded", run.folder.record_many))
        try:
            asyncio.run(trained(run))
        except Killed:
            run.folder._db.close()
            assert run.folder._lock is not None
            run.folder._lock.release()
            raise
    run.__exit__(None, None, None)
    return seen


def last_weights(run: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    folder = run / "checkpoints" / max(p.name for p in (run / "checkpoints").glob("epoch-*"))
    return dict(load_file(folder / f"{folder.name}-state" / "weights.safetensors"))


def assert_close(one: Path, other: Path) -> None:
    """Within what the sums of another batch round to."""
    ours, theirs = timeless_lines(one), timeless_lines(other)
    assert [x.keys() for x in ours] == [x.keys() for x in theirs]
    for x, y in zip(ours, theirs, strict=True):
        for name, value in x.items():
            close = pytest.approx(y[name], rel=1e-4, abs=1e-5) if isinstance(value, float) else y[name]
            assert value == close, (x["step"], name)
    mine, others = last_weights(one), last_weights(other)
    for name, value in mine.items():
        np.testing.assert_allclose(value, others[name], rtol=0, atol=2e-6)


def test_sft_goes_on_with_weights_and_moments_as_they_were(tmp_path):
    toy = make_toy(tmp_path / "toy", sft_train=4, sft_val=2, rl_train=2, dev=2)
    session(tmp_path / "whole", SFT, toy)
    with pytest.raises(Killed):
        session(tmp_path / "run", SFT, toy, Fuse("logged", 3))
    assert [x["step"] for x in session(tmp_path / "run", SFT, toy).lines] == [3, 4]
    assert_close(tmp_path / "run", tmp_path / "whole")
    assert lines(tmp_path / "run")[-1]["images"] >= 2


def by_luck(record: TrajectoryRecord, *_: Any) -> Reward:
    """A reward that a random model gets different ones of: it depends on what was said."""
    assert record.ledger is not None
    said = str([segment["sampled"] for segment in record.ledger["segments"] if "sampled" in segment])
    return Reward(hashlib.sha256(said.encode()).digest()[0] / 255, False, False, "")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Questions]:
    """A run of two steps that was never stopped, and its questions."""
    folder = tmp_path_factory.mktemp("whole")
    questions = toy_questions(folder / "toy", 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "score", by_luck)
        session(folder / "run", GRPO, questions)
    return folder / "run", questions


def test_grpo_of_a_tiny_model_has_a_gradient_and_moves_from_its_beginning(whole):
    found = lines(whole[0], "step")
    assert [x["datums"] + x["datums_refused"] for x in found] == [4, 4]  # a random model may say a picture's id
    assert min(x["datums"] for x in found) >= 2
    assert min(x["grad_norm"] for x in found) > 0
    assert found[0]["kl_reference"] == pytest.approx(0.0, abs=1e-4)
    assert found[1]["kl_reference"] != 0.0
    assert max(x["drift_max"] for x in found) < 1e-3


def test_a_group_larger_than_what_runs_at_a_time_counts_every_prompt_that_was_sent(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(batches, "score", by_luck)
    loop = GRPO.loop.model_copy(update={"epochs": 1, "max_steps": 1, "group": 3, "concurrency": 2, "kl": 0.0})
    session(tmp_path / "run", GRPO.model_copy(update={"loop": loop}), whole[1])
    (line,), used = lines(tmp_path / "run", "step"), receipt(tmp_path / "run")["usage"]
    for name in ("prompt_tokens", "prefilled_tokens", "cached_tokens"):
        assert line[name] == used[name] > 0, name


def test_two_processes_go_on_from_half_a_batch_of_one_and_say_and_learn_the_same(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(batches, "score", by_luck)
    with pytest.raises(Killed):
        session(tmp_path / "run", GRPO, whole[1], Fuse("recorded", 3))
    loop = GRPO.loop.model_copy(update={"processes": 2})
    session(tmp_path / "run", GRPO.model_copy(update={"loop": loop}), whole[1])
    assert_close(tmp_path / "run", whole[0])
    assert said(tmp_path / "run") == said(whole[0])
    assert max(x["drift_max"] for x in lines(tmp_path / "run", "step")) < 1e-3


@pytest.mark.parametrize("trajectory", [3, 6])
def test_grpo_goes_on_from_half_a_batch_with_the_gradients_of_a_whole_one(tmp_path, monkeypatch, whole, trajectory):
    monkeypatch.setattr(batches, "score", by_luck)
    with pytest.raises(Killed):
        session(tmp_path / "run", GRPO, whole[1], Fuse("recorded", trajectory))
    session(tmp_path / "run", GRPO, whole[1])
    assert_close(tmp_path / "run", whole[0])
    assert said(tmp_path / "run") == said(whole[0])


def said(run: Path) -> dict[Any, list[list[int]]]:
    """The sampled ids of every trajectory."""
    records = timeless_trajectories(run).items()
    return {key: [s["sampled"] for s in r["ledger"]["segments"] if "sampled" in s] for key, r in records}
