"""A LoRA in two processes is the LoRA of one: losses, gradients, steps, states, samples."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sharded_lab import LIMIT_S, Pair, agree, farthest, pair
from train_lab import batch, demonstrations, opening, options, rollouts, small, tiny

from specvet.chat import Datum
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import SamplingParams
from specvet.training.torch.sharded import ShardedTrainer
from specvet.training.torch.sharded_part import shares
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import CROSS_ENTROPY, Lora, Loss, NotFiniteError, TrainerError

PPO = Loss("ppo", entropy=0.01)
ONE = Lora(rank=1, alpha=2.0)
"""A matrix of one row: the second process has none of it."""


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    with pair(options(lora=ONE, micro_tokens=512)) as found:
        yield found


def data(both: Pair) -> list[Datum]:
    """Of unequal lengths, 4 of them."""
    return rollouts(batch(both.one))


def test_a_batch_is_dealt_out_in_step_and_whole() -> None:
    trainer = tiny()
    datums = demonstrations(batch(trainer, [(1, 3), (3, 2), (2, 9), (1, 6), (1, 4)]))
    asyncio.run(trainer.aclose())
    for micro_tokens in (1, 512, 10_000):
        dealt = shares(datums, 3, micro_tokens)
        assert sorted(i for share in dealt for i in share.members) == [0, 1, 2, 3, 4]
        assert len({len(share.pieces) for share in dealt}) == 1
        for share in dealt:
            assert sorted(i for piece in share.pieces for i in piece) == list(range(len(share.datums)))
            assert all(datums[i] is datum for i, datum in zip(share.members, share.datums, strict=True))
    few = shares(datums[:1], 3, 512)
    assert [share.pieces for share in few] == [((0,),), ((),), ((),)]


def test_passes_and_steps_agree_with_one_process(both: Pair, tmp_path: Path) -> None:
    datums = data(both)
    step = both.passed(datums, CROSS_ENTROPY)
    assert step.notes["micro_batches"] == 1
    both.step()
    both.passed(datums, PPO)
    both.passed(datums[1:], CROSS_ENTROPY)  # gradients of several calls add up
    both.step()
    both.passed(datums[:1], CROSS_ENTROPY)  # fewer than processes
    both.step()
    for trainer, name in ((both.one, "one"), (both.two, "two")):
        assert trainer.save_state(name, tmp_path).result(LIMIT_S) == f"{name}-state"
        assert trainer.save_sampler(name, tmp_path).result(LIMIT_S) == f"{name}-sampler"
    for file in ("state/weights", "state/optimiser", "sampler/adapter_model"):
        kind, _, stem = file.partition("/")
        assert farthest(tmp_path / f"one-{kind}/{stem}.safetensors", tmp_path / f"two-{kind}/{stem}.safetensors") < 1e-4
    for file in ("state/state.json", "sampler/adapter_config.json"):
        assert (tmp_path / f"one-{file}").read_text() == (tmp_path / f"two-{file}").read_text()
    assert both.two.usage.updates == both.one.usage.updates
    assert both.two.usage.trained_tokens == both.one.usage.trained_tokens
    assert both.two.fingerprint == both.one.fingerprint


def test_a_loss_that_is_no_number_leaves_the_gradient_that_waits(both: Pair) -> None:
    datums = data(both)
    both.passed(datums, PPO)
    odd = replace(datums[0], advantages=np.full_like(datums[0].weights, np.inf))
    for trainer in (both.one, both.two):
        with pytest.raises(NotFiniteError, match="datums 0: advantages"):
            trainer.forward_backward([odd, *datums[1:]], Loss("importance_sampling")).result(LIMIT_S)
    both.step()
    for trainer in (both.one, both.two):
        with pytest.raises(TrainerError, match="no gradient waits"):
            trainer.optim_step(None).result(LIMIT_S)  # type: ignore[arg-type]


def test_the_reference_is_the_beginning_and_leaves_the_weights_alone(both: Pair) -> None:
    datums = data(both)
    both.passed(datums, CROSS_ENTROPY)
    both.step()
    fresh = tiny()
    begun = fresh.forward(datums).result(LIMIT_S)
    asyncio.run(fresh.aclose())
    before = both.two.forward(datums).result(LIMIT_S)
    for values, wanted in zip(both.two.reference(datums).result(LIMIT_S), begun.logprobs, strict=True):
        assert np.allclose(values, wanted, atol=1e-4)
    after = both.two.forward(datums).result(LIMIT_S)
    assert not any(np.allclose(a, b, atol=1e-4) for a, b in zip(before.logprobs, begun.logprobs, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(before.logprobs, after.logprobs, strict=True))


def test_the_sampler_has_the_weights_of_now(both: Pair) -> None:
    params = SamplingParams(12, temperature=1.0, seed=5)

    async def sampled() -> list[tuple[int, ...]]:
        ours = await asyncio.wait_for(asyncio.wrap_future(both.two.sampler()), LIMIT_S)
        theirs = both.one.sampler()
        ledger = opening(both.one, "what is it", None)  # type: ignore[arg-type]
        one, two = [await asyncio.wait_for(p.sample(ledger, 3, params), LIMIT_S) for p in (theirs, ours)]
        for a, b in zip(one.sequences, two.sequences, strict=True):
            assert a.ids == b.ids
            assert a.logprobs is not None
            assert b.logprobs is not None
            assert np.allclose(a.logprobs, b.logprobs, atol=1e-4)
        return [s.ids for s in two.sequences]

    before = asyncio.run(sampled())
    for _ in range(3):
        both.passed(data(both), CROSS_ENTROPY)
        both.step()
    assert asyncio.run(sampled()) != before


def test_a_state_of_two_processes_goes_on_in_one(both: Pair, tmp_path: Path) -> None:
    datums = data(both)
    both.passed(datums, CROSS_ENTROPY)
    both.step()
    both.two.save_state("two", tmp_path).result(LIMIT_S)
    resumed = small(TorchTrainer.open(options(lora=ONE, state=str(tmp_path / "two-state"), with_optimizer=True)))
    try:
        resumed.save_state("again", tmp_path).result(LIMIT_S)
        for file in ("weights", "optimiser"):
            there = tmp_path / f"two-state/{file}.safetensors"
            assert farthest(there, tmp_path / f"again-state/{file}.safetensors") == 0
        step = both.passed(datums, CROSS_ENTROPY)
        assert agree(resumed.forward_backward(datums, CROSS_ENTROPY).result(LIMIT_S), step)
        both.step()
    finally:
        asyncio.run(resumed.aclose())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": ModelOptions(device="cuda:1")}, "name `cuda`"),
        ({"model": ModelOptions(device="mps")}, "name `cuda`"),
        ({"model": ModelOptions(device="cuda"), "processes": 1_000}, "1000 processes need as many GPUs"),
        ({"model": ModelOptions(device="cpu", adapter="somewhere")}, "an adapter cannot be trained on"),
        ({"model": ModelOptions(device="cpu", model="nowhere/at/all")}, "neither a model folder nor a hub id"),
        ({"model": ModelOptions(device="cpu"), "state": "nowhere"}, "no state of a torch trainer"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(changed: dict[str, object], said: str) -> None:
    with pytest.raises(TrainerError, match=said):
        ShardedTrainer.open(replace(options(processes=2), **changed))  # type: ignore[arg-type]


def test_there_is_one_group_of_processes_at_a_time(both: Pair) -> None:
    with pytest.raises(TrainerError, match="close the other trainer first"):
        ShardedTrainer.open(options(processes=2))
