"""The sampler samples with the weights that are trained, and training waits for nobody and is waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from train_lab import (
    FAMILIES,
    LORA,
    batch,
    conversation,
    gradient,
    opening,
    options,
    resolve,
    rollouts,
    run,
    small,
    tiny,
)

from specvet.chat import Ledger, rl_datum, sft_datum
from specvet.policies.tokens import SamplingParams
from specvet.policies.torch.policy import TorchPolicy
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Lora, Loss, TrainerError


async def sampled(policy: TorchPolicy, seed: int = 1) -> list[Ledger]:
    """Four branches of a question, without such as hold a picture's id."""
    first = opening(policy)
    pad_id = first.images[0].pad_id
    said = (await policy.sample(first, 4, SamplingParams(7, seed=seed))).sequences
    ledgers = []
    for sequence in said:
        if pad_id not in sequence.ids:
            ledgers.append(first.fork())
            ledgers[-1].append_sampled(sequence.ids, sequence.logprobs, sequence.stop)
    return ledgers


def drift(trainer: TorchTrainer, ledgers: list[Ledger]) -> float:
    """How far the trainer's log-probs are from those of sampling, at most."""
    datums = [rl_datum(ledger, 1.0) for ledger in ledgers]
    step = trainer.forward(datums, Loss("ppo")).result(60)
    return max(float(np.abs(v - d.logprobs)[d.weights > 0].max()) for v, d in zip(step.logprobs, datums, strict=True))


@pytest.mark.parametrize(
    ("family", "lora", "dtype"),
    [*((f, LORA, "float32") for f in FAMILIES), ("qwen3_vl", None, "float32"), ("qwen2_5_vl", LORA, "bfloat16")],
)
def test_after_a_large_step_the_sampler_gives_the_trainers_logprobs_and_no_longer_the_bases(
    family: str, lora: Lora | None, dtype: str
) -> None:
    trainer = tiny(family, lora, dtype=dtype)
    bound = 5e-4 if dtype == "float32" else 0.3

    async def work() -> None:
        policy = trainer.sampler()
        before = await sampled(policy)
        fingerprint = policy.fingerprint
        assert drift(trainer, before) < bound
        trainer.forward_backward(rollouts(batch(trainer)), Loss("ppo")).result(60)
        trainer.optim_step(Adam(0.05)).result(60)
        assert trainer.sampler() is policy
        assert policy.fingerprint != fingerprint
        assert drift(trainer, before) > 1.0
        after = await sampled(policy, seed=2)
        assert drift(trainer, after) < bound
        base = trainer.reference([rl_datum(ledger, 1.0) for ledger in after]).result(60)
        apart = [np.abs(v[v != 0] - s.sampled[0].logprobs).max() for v, s in zip(base, after, strict=True)]
        assert max(apart) > 1.0

    run(work, trainer)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tower_that_sampled_is_trained_and_then_sees_with_its_new_weights(family: str) -> None:
    trainer = tiny(family, None, vision="trained")

    async def work() -> None:
        policy = trainer.sampler()
        ledgers = await sampled(policy)
        datums = [rl_datum(ledger, 1.0) for ledger in ledgers]
        trainer.forward_backward(datums, Loss("ppo")).result(60)
        tower = [g for n, g in gradient(trainer).items() if "visual" in n]
        assert min(float(g.abs().sum()) for g in tower if g.ndim > 1) > 0
        trainer.optim_step(Adam(0.02)).result(60)
        assert drift(trainer, ledgers) > 0.1
        assert drift(trainer, await sampled(policy)) < 5e-4

    run(work, trainer)


def test_a_sampled_turn_goes_on_from_its_cache_after_a_pass_but_not_after_a_step() -> None:
    trainer = tiny()

    async def work() -> None:
        policy = trainer.sampler()
        ledger = (await sampled(policy))[0]
        datums = [rl_datum(ledger, 1.0)]
        again = (await policy.sample(ledger, 1, SamplingParams(3))).cached_tokens
        trainer.forward_backward(datums, Loss("ppo")).result(60)
        assert (await policy.sample(ledger, 1, SamplingParams(3))).cached_tokens == again == ledger.n_tokens - 1
        trainer.optim_step(Adam(1e-3)).result(60)
        assert (await policy.sample(ledger, 1, SamplingParams(3))).cached_tokens == 0

    run(work, trainer)


def test_the_memory_of_turns_goes_when_training_needs_it_and_comes_back() -> None:
    trainer = tiny()

    async def work() -> None:
        policy = trainer.sampler()
        first = await sampled(policy)
        arena = policy._engine._arena
        assert arena.rows > 0
        with policy.held():
            assert trainer._free()
            assert not trainer._free()
        assert policy._engine._arena.rows == 0
        assert [a.sampled[0].ids for a in await sampled(policy)] == [a.sampled[0].ids for a in first]

    run(work, trainer)


def test_training_is_refused_while_something_is_sampled_and_sampling_waits_for_training() -> None:
    trainer = tiny()
    trainer._policy = TorchPolicy(trainer.model, trainer.format, branches=4, context=4096, stop_ids=())
    datums = [sft_datum(conversation(trainer, 1, 1, 3))]

    async def work() -> None:
        policy = trainer.sampler()
        long = asyncio.ensure_future(policy.sample(opening(policy), 1, SamplingParams(1500)))
        await policy.sample(opening(policy, "?"), 1, SamplingParams(1))
        with pytest.raises(TrainerError, match="being sampled"):
            await resolve(trainer.forward_backward(datums, CROSS_ENTROPY))
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)
        await policy.sample(opening(policy, "?"), 1, SamplingParams(1))
        training = trainer.forward_backward(datums, CROSS_ENTROPY)
        (sequence,) = (await policy.sample(opening(policy, "!"), 1, SamplingParams(2))).sequences
        assert len(sequence.ids) == 2
        assert (await resolve(training)).n_active == 3

    run(work, trainer)


def test_the_event_loop_goes_on_while_a_batch_is_trained_on() -> None:
    trainer = tiny()
    datums = [sft_datum(ledger) for ledger in batch(trainer)]

    async def work() -> None:
        turns = 0
        training = asyncio.wrap_future(trainer.forward_backward(datums, CROSS_ENTROPY))
        while not training.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 10

    run(work, trainer)


@pytest.mark.parametrize(("lora", "dtype"), [(LORA, "bfloat16"), (None, "bfloat16")])
def test_the_reference_is_what_the_run_began_from_whatever_was_trained_since(
    lora: Lora | None, dtype: str, tmp_path: Path
) -> None:
    trainer = tiny(lora=lora, dtype=dtype, vision="trained")
    datums = [sft_datum(ledger) for ledger in batch(trainer, ((1, 3), (2, 4)))]

    async def work() -> None:
        base = trainer.forward(datums).result(60).logprobs
        trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        trainer.optim_step(Adam(0.04)).result(60)
        mine = trainer.forward(datums).result(60).logprobs
        masters = {n: m.detach().clone() for n, m in trainer._optimiser.masters.items()}
        told = trainer.reference(datums).result(60)
        for one, other, trained in zip(base, told, mine, strict=True):
            assert other == pytest.approx(one, abs=1e-5)
            assert np.abs(trained - one).max() > 0.1
        assert all(torch.equal(m, masters[n]) for n, m in trainer._optimiser.masters.items())
        after = trainer.forward(datums).result(60).logprobs
        assert all((one == other).all() for one, other in zip(mine, after, strict=True))

        state = str(tmp_path / trainer.save_state("first", tmp_path).result(60))
        for given, expected in (({"reference_state": state}, mine), ({}, base)):
            stage = small(TorchTrainer.open(options(lora=lora, dtype=dtype, vision="trained", state=state, **given)))
            try:
                stage.forward_backward(datums, CROSS_ENTROPY).result(60)
                stage.optim_step(Adam(0.02)).result(60)
                told = stage.reference(datums).result(60)
                assert all(a == pytest.approx(b, abs=1e-5) for a, b in zip(told, expected, strict=True))
            finally:
                await stage.aclose()

    run(work, trainer)
