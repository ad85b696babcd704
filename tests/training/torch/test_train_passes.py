"""What a pass over a batch gives: log-probs, losses and gradients, in whatever pieces it is computed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from train_lab import (
    FAMILIES,
    LORA,
    advantages,
    batch,
    conversation,
    demonstrations,
    gradient,
    rollouts,
    run,
    stock_logprobs,
    tiny,
)

from specvet.chat import Datum, sft_datum
from specvet.training.torch.batches import START, cuts, micro_batches
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Loss, Step, TrainerError

PPO = Loss("ppo", clip=(0.8, 1.2))


def passed(
    trainer: TorchTrainer, datums: list[Datum], loss: Loss = CROSS_ENTROPY
) -> tuple[Step, dict[str, torch.Tensor]]:
    """A pass with gradient, which is taken away."""
    step = trainer.forward_backward(datums, loss).result(60)
    found = gradient(trainer)
    trainer._optimiser.clear()
    return step, found


def off(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """How far two gradients are apart, in units of the first one's norm."""
    assert one.keys() == other.keys()
    apart = sum(float((one[n] - other[n]).double().square().sum()) for n in one) ** 0.5
    return apart / sum(float(g.double().square().sum()) for g in one.values()) ** 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_equal_those_of_the_stock_model_and_of_the_policy(family: str) -> None:
    trainer = tiny(family)
    ledgers = batch(trainer)

    async def work() -> None:
        step = trainer.forward(rollouts(ledgers), PPO).result(60)
        policy = trainer.sampler()
        for ledger, datum, values in zip(ledgers, rollouts(ledgers), step.logprobs, strict=True):
            assert values.shape == (datum.n_tokens,)
            assert not values[datum.weights == 0].any()
            said = values[datum.weights > 0]
            assert said == pytest.approx(
                stock_logprobs(policy, ledger, trainer.model.module.get_base_model()),
                abs=5e-5,  # 3e-5 is seen on some processors
            )
            assert said == pytest.approx(policy.recomputed_logprobs(ledger), abs=5e-5)

    run(work, trainer)


def test_losses_are_means_over_the_active_tokens_of_the_whole_call() -> None:
    trainer = tiny()
    ledgers = batch(trainer)

    async def work() -> None:
        demonstrated = trainer.forward(demonstrations(ledgers), CROSS_ENTROPY).result(60)
        logs = np.concatenate([v[d.weights > 0] for v, d in zip(demonstrated.logprobs, rollouts(ledgers), strict=True)])
        n = sum(ledger.n_sampled for ledger in ledgers)
        assert demonstrated.n_active == n == logs.size
        assert demonstrated.loss == pytest.approx(-logs.sum() / n, abs=1e-5)
        assert demonstrated.entropy is None

        datums = rollouts(ledgers)
        old = np.concatenate([d.logprobs[d.weights > 0] for d in datums if d.logprobs is not None])
        a = np.repeat(advantages(len(ledgers)), [ledger.n_sampled for ledger in ledgers])
        ratio = np.exp(logs - old)
        expected = -np.minimum(ratio * a, np.clip(ratio, 0.8, 1.2) * a).sum() / n
        step = trainer.forward(datums, PPO).result(60)
        assert step.loss == pytest.approx(expected, rel=1e-4)
        assert step.entropy is not None
        assert 0 < step.entropy < np.log(trainer.model.n_ids)
        bonus = trainer.forward(datums, replace(PPO, entropy=0.25)).result(60)
        assert bonus.loss == pytest.approx(expected - 0.25 * step.entropy, rel=1e-4)

    run(work, trainer)


@pytest.mark.parametrize(("family", "vision"), [*((f, "frozen") for f in FAMILIES), ("qwen3_vl", "trained")])
def test_micro_batches_sum_to_the_gradient_of_the_whole_batch(family: str, vision: str) -> None:
    trainer = tiny(family, vision=vision)
    datums = rollouts(batch(trainer, ((1, 3), (2, 9), (3, 2), (1, 6))))
    for weight in trainer._optimiser.masters.values():  # where B is 0, A has no gradient
        torch.nn.init.normal_(weight, std=0.05, generator=torch.Generator().manual_seed(1))
    loss = Loss("importance_sampling", entropy=0.1)

    async def work() -> None:
        whole, expected = passed(trainer, datums, loss)
        assert whole.notes["micro_batches"] == 1
        for micro_tokens in (300, 1):
            trainer._micro_tokens = micro_tokens
            step, found = passed(trainer, datums, loss)
            assert step.notes["micro_batches"] == (4 if micro_tokens == 1 else step.notes["micro_batches"])
            assert step.notes["micro_batches"] > 1
            assert step.loss == pytest.approx(whole.loss, rel=1e-5)
            assert off(expected, found) < 2e-5  # float32; 2e-7 to 5e-6 are seen, by processor
            for one, other in zip(whole.logprobs, step.logprobs, strict=True):
                assert one == pytest.approx(other, abs=1e-5)

    run(work, trainer)


@pytest.mark.parametrize("family", FAMILIES)
def test_checkpointed_layers_give_the_same_gradient(family: str) -> None:
    plain, checkpointed = (tiny(family, None, vision="trained", gradient_checkpointing=c) for c in (False, True))
    datums = demonstrations(batch(plain, ((1, 3), (2, 5))))

    async def work() -> None:
        _, expected = passed(plain, datums)
        _, found = passed(checkpointed, datums)
        assert off(expected, found) < 1e-6
        checkpointed._checkpointing._set(1)  # part of them, as memory may ask for
        assert off(expected, passed(checkpointed, datums)[1]) < 1e-6

    run(work, plain, checkpointed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("lora", "vision"), [(LORA, "frozen"), (None, "trained")])
def test_swapping_a_picture_of_any_turn_moves_logprobs_and_gradient(family: str, lora: object, vision: str) -> None:
    trainer = tiny(family, lora, vision=vision)  # type: ignore[arg-type]

    async def work() -> None:
        def shown(first: int, second: int) -> tuple[Step, dict[str, torch.Tensor]]:
            return passed(trainer, [sft_datum(conversation(trainer, 1, 2, 4, first, second))])

        (base, slope), (first, first_slope), (later, later_slope) = shown(1, 2), shown(9, 2), shown(1, 9)
        active = np.flatnonzero(base.logprobs[0])
        moved = np.abs(first.logprobs[0] - base.logprobs[0])[active]
        assert moved.min() > 1e-4
        moved = np.abs(later.logprobs[0] - base.logprobs[0])[active]
        assert moved[:4].max() < 1e-5
        assert moved[4:].max() > 1e-3
        assert off(slope, first_slope) > 1e-2
        assert off(slope, later_slope) > 1e-2

    run(work, trainer)


def test_a_picture_that_a_group_shares_goes_through_a_frozen_tower_once_and_stays_known_after_a_step() -> None:
    trainer = tiny()
    group = [sft_datum(conversation(trainer, i, 2, 3, 1, 10 + i)) for i in range(4)]

    async def work() -> None:
        trainer._micro_tokens = 1
        await_step = trainer.forward_backward(group, CROSS_ENTROPY).result(60)
        assert await_step.notes["micro_batches"] == 4
        assert trainer.model.vision.n_encoded == 5
        trainer.optim_step(Adam(1e-3)).result(60)
        trainer.forward_backward(group, CROSS_ENTROPY).result(60)
        assert trainer.model.vision.n_encoded == 5
        assert trainer.usage.images == 16

    run(work, trainer)


def test_the_cut_into_micro_batches_is_the_cheapest_of_all() -> None:
    draw = np.random.default_rng(5)
    for _ in range(20):
        lengths = draw.integers(1, 4000, 7).tolist()
        limit = int(draw.integers(2000, 9000))
        pieces = cuts(lengths, limit)
        assert sorted(i for piece in pieces for i in piece) == list(range(7))
        areas = [len(piece) * max(lengths[i] for i in piece) for piece in pieces]
        assert all(a <= limit or len(piece) == 1 for a, piece in zip(areas, pieces, strict=True))
        order = sorted(lengths, reverse=True)
        best = float("inf")
        for mask in range(1 << 6):  # every way to cut the sorted lengths
            edges = [0, *(i + 1 for i in range(6) if mask >> i & 1), 7]
            parts = [order[a:b] for a, b in pairwise(edges)]
            if all(len(p) * p[0] <= limit or len(p) == 1 for p in parts):
                best = min(best, sum(len(p) * p[0] + START for p in parts))
        assert sum(areas) + START * len(pieces) == best


def test_usage_counts_positions_pictures_padding_and_what_validation_read() -> None:
    trainer = tiny()
    datums = demonstrations(batch(trainer))

    async def work() -> None:
        trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        trainer.forward(datums[:1], CROSS_ENTROPY).result(60)
        trainer.reference(datums[:1]).result(60)
        trainer.optim_step(Adam(1e-3)).result(60)
        usage = trainer.usage
        assert usage.trained_tokens == sum(d.n_tokens for d in datums)
        assert usage.active_tokens == sum(d.n_learnt for d in datums)
        assert usage.images == sum(len(d.images) for d in datums) == 7
        assert usage.padded_tokens == sum(b.padded_tokens for b in micro_batches(datums, CROSS_ENTROPY, 8192))
        assert usage.forward_tokens == 2 * datums[0].n_tokens
        assert (usage.batches, usage.updates) == (1, 1)
        assert usage.seconds > 0

    run(work, trainer)


def test_what_cannot_be_learnt_from_is_named_with_what_to_do() -> None:
    trainer = tiny()
    ledger = conversation(trainer, 1, 1, 3)
    datum = sft_datum(ledger)
    hidden = replace(datum, chunks=tuple(replace(c, png=None) if not isinstance(c, tuple) else c for c in datum.chunks))
    other = replace(
        datum,
        chunks=tuple(replace(c, rows=1, columns=c.n_tokens) if not isinstance(c, tuple) else c for c in datum.chunks),
    )
    beyond = replace(datum, targets=np.where(datum.weights > 0, trainer.model.n_ids, -100).astype(np.int32))
    silent = replace(datum, weights=np.zeros_like(datum.weights))

    async def work() -> None:
        for datums, loss, said in (
            (
                [datum, hidden],
                CROSS_ENTROPY,
                f"datum 1: the picture {datum.images[0].sha256} is known by its hash only",
            ),
            ([other], CROSS_ENTROPY, "it was made for another model"),
            ([beyond], CROSS_ENTROPY, "beyond the model's"),
            ([silent], CROSS_ENTROPY, "none of the 1 datums has a token to learn from"),
            ([datum], PPO, "no log-probs of sampling"),
        ):
            with pytest.raises(TrainerError, match=said):
                trainer.forward_backward(datums, loss).result(60)
        assert not gradient(trainer)

    run(work, trainer)
