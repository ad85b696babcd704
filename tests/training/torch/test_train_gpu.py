"""On a GPU: the numbers of the CPU, checkpointing by memory, and a sampler whose recorded graphs see new weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from train_lab import FAMILIES, LORA, batch, conversation, gradient, opening, rollouts, run, tiny

from specvet.chat import rl_datum, sft_datum
from specvet.policies.tokens import SamplingParams
from specvet.training.torch.batches import micro_batches
from specvet.training.trainer import CROSS_ENTROPY, Adam, Lora, Loss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("lora", "vision"), [(LORA, "frozen"), (None, "trained")])
def test_a_pass_on_a_gpu_gives_the_loss_logprobs_and_gradient_of_the_cpu(
    family: str, lora: Lora | None, vision: str
) -> None:
    trainers = [tiny(family, lora, vision=vision, device=device, dtype="float32") for device in ("cpu", "cuda")]

    async def work() -> None:
        steps, slopes = [], []
        for trainer in trainers:
            datums = rollouts(batch(trainer))
            steps.append(trainer.forward_backward(datums, Loss("ppo", entropy=0.01)).result(60))
            slopes.append({n: g.cpu() for n, g in gradient(trainer).items()})
            trainer.optim_step(Adam(1e-3)).result(60)
        assert steps[1].loss == pytest.approx(steps[0].loss, abs=1e-3)
        for one, other in zip(steps[0].logprobs, steps[1].logprobs, strict=True):
            assert other == pytest.approx(one, abs=2e-3)
        norm = sum(float(g.square().sum()) for g in slopes[0].values()) ** 0.5
        apart = sum(float((slopes[1][n] - g).square().sum()) for n, g in slopes[0].items()) ** 0.5
        assert apart < 5e-3 * norm

    run(work, *trainers)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("lora", [LORA, None])
def test_recorded_graphs_sample_with_the_weights_of_the_last_step(family: str, lora: Lora | None) -> None:
    trainer = tiny(family, lora, device="cuda", dtype="bfloat16")

    async def work() -> None:
        policy = trainer.sampler()
        for seed in range(3):
            first = opening(policy)
            said = (await policy.sample(first, 4, SamplingParams(9, seed=seed))).sequences
            ledgers = [first.fork() for _ in said]
            for ledger, sequence in zip(ledgers, said, strict=True):
                ledger.append_sampled(sequence.ids, sequence.logprobs, sequence.stop)
            datums = [rl_datum(g, 1.0) for g in ledgers if g.images[0].pad_id not in g.sampled[0].ids]
            step = trainer.forward_backward(datums, Loss("ppo")).result(60)
            pairs = zip(step.logprobs, datums, strict=True)
            drift = [np.abs(v - d.logprobs)[d.weights > 0].mean() for v, d in pairs]
            assert np.mean(drift) < 0.1
            trainer.optim_step(Adam(0.02)).result(60)
            trainer.reference(datums).result(60)

    run(work, trainer)


def test_layers_are_checkpointed_when_memory_is_short_and_the_numbers_stay() -> None:
    trainer = tiny("qwen2_5_vl", device="cuda", dtype="bfloat16")
    datums = [sft_datum(conversation(trainer, i, 2, 9)) for i in range(4)]
    checkpointing = trainer._checkpointing

    async def work() -> None:
        expected = trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        assert checkpointing.n_layers == 0
        (only,) = micro_batches(datums, CROSS_ENTROPY, 1 << 20)
        asked = []
        checkpointing.plan(only, later=1 << 50, free=lambda: bool(asked.append(1)))
        assert checkpointing.n_layers == 2
        assert asked == [1]
        checkpointing._wanted = False  # as planned, whatever is free
        step = trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        assert step.loss == expected.loss

    run(work, trainer)
