"""All weights, vision tower and all, trained in two processes from where one has stopped; and how that ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sharded_lab import ADAM, LIMIT_S, Pair, farthest, pair
from train_lab import batch, demonstrations, options, tiny

from specvet.training.trainer import CROSS_ENTROPY, TrainerError

CHANGES = {"micro_tokens": 256, "vision": "trained", "gradient_checkpointing": True}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process saved after a step."""
    folder = tmp_path_factory.mktemp("begun")
    trainer = tiny("qwen3_vl", None, **CHANGES)
    trainer.forward_backward(demonstrations(batch(trainer)), CROSS_ENTROPY).result(LIMIT_S)
    trainer.optim_step(ADAM).result(LIMIT_S)
    trainer.save_state("begun", folder).result(LIMIT_S)
    asyncio.run(trainer.aclose())
    return folder / "begun-state"


@pytest.fixture(scope="module")
def both(state: Path) -> Iterator[Pair]:
    with pair(options("qwen3_vl", None, state=str(state), with_optimizer=True, **CHANGES)) as found:
        yield found


def test_a_state_of_one_process_goes_on_in_two(both: Pair, state: Path, tmp_path: Path) -> None:
    both.two.save_state("same", tmp_path).result(LIMIT_S)
    for file in ("weights.safetensors", "optimiser.safetensors"):
        assert farthest(state / file, tmp_path / "same-state" / file) == 0
    datums = demonstrations(batch(both.one))
    for some in (datums, datums[:1], datums[1:]):
        both.passed(some, CROSS_ENTROPY)
        both.step()
    for trainer, name in ((both.one, "one"), (both.two, "two")):
        trainer.save_state(name, tmp_path).result(LIMIT_S)
        trainer.save_sampler(name, tmp_path).result(LIMIT_S)
    for file in ("state/weights.safetensors", "state/optimiser.safetensors", "sampler/model.safetensors"):
        assert farthest(tmp_path / f"one-{file}", tmp_path / f"two-{file}") < 1e-4
    files = [sorted(path.name for path in (tmp_path / f"{name}-sampler").iterdir()) for name in ("one", "two")]
    assert files[0] == files[1]


def test_the_reference_is_the_base_model(both: Pair) -> None:
    datums = demonstrations(batch(both.one))
    before = both.two.forward(datums, CROSS_ENTROPY).result(LIMIT_S)
    ours = both.two.reference(datums).result(LIMIT_S)
    theirs = both.one.reference(datums).result(LIMIT_S)
    after = both.two.forward(datums, CROSS_ENTROPY).result(LIMIT_S)
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(ours, theirs, strict=True))
    assert not any(np.allclose(a, b, atol=1e-4) for a, b in zip(ours, before.logprobs, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(before.logprobs, after.logprobs, strict=True))


def test_a_killed_process_ends_the_training_with_an_error(both: Pair) -> None:
    datums = demonstrations(batch(both.one))
    os.kill(both.two._workers.pids[0], signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(TrainerError, match=r"process 1 ended \(signal SIGKILL\); training goes on from the last"):
            both.two.forward_backward(datums, CROSS_ENTROPY).result(LIMIT_S)
