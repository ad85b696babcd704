"""Steps: what the optimiser does to which weights, and what happens when a number or the memory runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from train_lab import (
    FAMILIES,
    LORA,
    batch,
    conversation,
    demonstrations,
    gradient,
    options,
    rollouts,
    run,
    tiny,
    weights,
)

from specvet.chat import sft_datum
from specvet.training.torch import open_trainer
from specvet.training.torch.checkpointing import kept_bytes, layers_to_checkpoint
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Lora, Loss, NotFiniteError, TrainerError

ADAM = Adam(lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, grad_clip_norm=0.05)


@pytest.mark.parametrize("lora", [LORA, None])
def test_two_steps_equal_adamw_worked_out_by_hand(lora: Lora | None) -> None:
    trainer = tiny(lora=lora)
    datums = demonstrations(batch(trainer))

    async def work() -> None:
        expected = weights(trainer)
        first = {n: torch.zeros_like(w) for n, w in expected.items()}
        second = {n: torch.zeros_like(w) for n, w in expected.items()}
        for t in (1, 2):
            trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
            found = gradient(trainer)
            norm = sum(float(g.square().sum()) for g in found.values()) ** 0.5
            update = trainer.optim_step(ADAM).result(60)
            assert update.grad_norm == pytest.approx(norm, rel=1e-5)
            assert norm > ADAM.grad_clip_norm
            for n, g in found.items():
                g = g * (ADAM.grad_clip_norm / norm)  # noqa: PLW2901
                first[n] = 0.9 * first[n] + 0.1 * g
                second[n] = 0.95 * second[n] + 0.05 * g * g
                by = (first[n] / (1 - 0.9**t)) / ((second[n] / (1 - 0.95**t)).sqrt() + 1e-8)
                expected[n] = expected[n] * (1 - 1e-2 * 0.1) - 1e-2 * by
            for n, w in weights(trainer).items():
                torch.testing.assert_close(w, expected[n], atol=2e-5, rtol=1e-4)
        assert not gradient(trainer)

    run(work, trainer)


def test_gradients_of_several_calls_add_up_until_the_step() -> None:
    trainer = tiny()
    one, two = demonstrations(batch(trainer, ((1, 3), (2, 5))))

    async def work() -> None:
        alone = []
        for datum in (one, two):
            trainer.forward_backward([datum], CROSS_ENTROPY).result(60)
            alone.append(gradient(trainer))
            trainer._optimiser.clear()
        for datum in (one, two):
            trainer.forward_backward([datum], CROSS_ENTROPY).result(60)
        for name, both in gradient(trainer).items():
            torch.testing.assert_close(both, alone[0][name] + alone[1][name])

    run(work, trainer)


@pytest.mark.parametrize(("family", "lora"), [("qwen2_5_vl", None), ("qwen3_vl", LORA), ("qwen3_5", LORA)])
def test_training_lowers_the_loss_with_a_lora_and_without(family: str, lora: Lora | None) -> None:
    trainer = tiny(family, lora)
    datums = demonstrations(batch(trainer, ((1, 3), (2, 9))))

    async def work() -> None:
        losses = []
        for _ in range(6):
            losses.append(trainer.forward_backward(datums, CROSS_ENTROPY).result(60).loss)
            trainer.optim_step(Adam(1e-2)).result(60)
        assert losses[-1] < 0.85 * losses[0]

    run(work, trainer)


def test_steps_too_small_for_bfloat16_add_up_in_float32_masters() -> None:
    trainer = tiny(lora=None, dtype="bfloat16")
    datums = demonstrations(batch(trainer, ((1, 3),)))

    async def work() -> None:
        start = weights(trainer)
        masters = {n: m.detach().clone() for n, m in trainer._optimiser.masters.items()}
        for _ in range(3):
            trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
            assert all(g.dtype == torch.float32 for g in gradient(trainer).values())
            trainer.optim_step(Adam(1e-6)).result(60)
        name = "model.language_model.layers.1.mlp.down_proj.weight"
        moved = (trainer._optimiser.masters[name] - masters[name]).abs()
        assert 2e-6 < float(moved.detach().max()) < 4e-6
        assert torch.equal(weights(trainer)[name], trainer._optimiser.masters[name].bfloat16())
        assert float((weights(trainer)[name] != start[name]).float().mean()) < 0.05

    run(work, trainer)


@pytest.mark.parametrize(
    ("lora", "vision", "trained", "frozen"),
    [
        (LORA, "frozen", "language_model.layers.0.mlp.down_proj.lora_B", "visual"),
        (Lora(rank=2, mlp=False), "trained", "visual.blocks.0.attn.qkv.lora_A", "mlp"),
        (Lora(rank=2, attention=False), "trained", "visual.merger.mlp.0.lora_A", "attn"),
        (None, "frozen", "lm_head", "visual"),
        (None, "trained", "visual.patch_embed", "lora"),
    ],
)
def test_what_is_trained_is_what_was_asked_for(lora: Lora | None, vision: str, trained: str, frozen: str) -> None:
    trainer = tiny(lora=lora, vision=vision)

    async def work() -> None:
        names = list(trainer._optimiser.parameters)
        assert any(trained in name for name in names)
        assert not any(frozen in name for name in names)
        assert all(p.requires_grad == (n in names) for n, p in trainer.model.module.named_parameters())
        if lora is not None:
            assert all(p.dtype == torch.float32 for p in trainer._optimiser.parameters.values())

    run(work, trainer)


def test_a_new_adapter_comes_from_its_seed_alone_and_changes_nothing_yet() -> None:
    torch.manual_seed(1)
    one = tiny(seed=7)
    state = torch.random.get_rng_state()
    same, other = tiny(seed=7), tiny(seed=8)

    async def work() -> None:
        assert torch.equal(state, torch.random.get_rng_state())
        a, b, c = weights(one), weights(same), weights(other)
        assert all(torch.equal(a[n], b[n]) for n in a)
        downs = [n for n in a if "lora_A" in n]
        assert not any(torch.equal(a[n], c[n]) for n in downs)
        assert len({float(a[n].sum()) for n in downs}) == len(downs)
        assert all(not a[n].any() for n in a if "lora_B" in n)
        assert one.model.adapter == "fresh"

    run(work, one, same, other)


def test_a_loss_that_is_no_number_takes_its_own_gradient_with_it_and_leaves_the_earlier_one() -> None:
    trainer = tiny()
    good, bad = rollouts(batch(trainer, ((1, 3), (1, 4))))
    assert bad.advantages is not None
    broken = replace(bad, advantages=np.where(bad.weights > 0, np.float32(np.inf), bad.advantages))

    async def work() -> None:
        trainer.forward_backward([good], Loss("ppo")).result(60)
        before, start = gradient(trainer), weights(trainer)
        with pytest.raises(NotFiniteError, match=r"datums 1: advantages\); its gradient was dropped, and no"):
            trainer.forward_backward([good, broken], Loss("ppo")).result(60)
        assert all(torch.equal(g, before[n]) for n, g in gradient(trainer).items())
        assert all(torch.equal(w, start[n]) for n, w in weights(trainer).items())
        assert trainer.usage.batches == 1

    run(work, trainer)


def test_a_datum_whose_logprobs_are_no_numbers_is_named() -> None:
    trainer = tiny()
    datums = demonstrations(batch(trainer, ((1, 3), (1, 4))))
    token = int(datums[1].targets[datums[1].weights > 0][0])

    async def work() -> None:
        assert token not in datums[0].targets
        with torch.no_grad():
            trainer.model.text.embed_tokens.weight[token] = float("nan")
        with pytest.raises(NotFiniteError, match=r"the loss is nan \(not finite in datums 1: log-probs now\)"):
            trainer.forward_backward(datums, CROSS_ENTROPY).result(60)

    run(work, trainer)


def test_a_gradient_that_is_infinite_takes_no_step_and_is_cleared() -> None:
    trainer = tiny(lora=None)
    datums = demonstrations(batch(trainer, ((1, 3),)))

    async def work() -> None:
        trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        start = weights(trainer)
        next(iter(trainer._optimiser.masters.values())).grad.fill_(float("inf"))  # type: ignore[union-attr]
        with pytest.raises(NotFiniteError, match="no step was taken"):
            trainer.optim_step(ADAM).result(60)
        assert all(torch.equal(w, start[n]) for n, w in weights(trainer).items())
        assert trainer.usage.updates == 0
        with pytest.raises(TrainerError, match="no gradient waits"):
            trainer.optim_step(ADAM).result(60)

    run(work, trainer)


@contextmanager
def memory_for(trainer: TorchTrainer, positions: int) -> Iterator[None]:
    """A machine whose memory ends above so many positions: in the backward pass, when half of the work is done, or,
    where there is none, at once."""

    def look(module: Any, given: Any, result: torch.Tensor) -> None:
        if result.shape[:-1].numel() > positions:
            result.register_hook(lambda slope: fail()) if result.requires_grad else fail()

    def fail() -> None:
        raise torch.OutOfMemoryError("no more")

    hook = trainer.model.text.layers[0].register_forward_hook(look)
    try:
        yield
    finally:
        hook.remove()


def test_out_of_memory_does_the_batch_again_in_smaller_pieces_once_and_says_so() -> None:
    trainer = tiny()
    datums = demonstrations(batch(trainer))
    largest = max(d.n_tokens for d in datums)

    async def work() -> None:
        trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        expected = gradient(trainer)
        with memory_for(trainer, 2 * largest):
            step = trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        assert step.notes["micro_batches"] > 1
        assert len(trainer.messages) == 1
        assert trainer.messages[0].startswith("out of memory on cpu: micro-batches")
        assert "set micro_tokens to" in trainer.messages[0]
        for name, g in gradient(trainer).items():  # of two calls, and of nothing that was begun and not ended
            torch.testing.assert_close(g, 2 * expected[name], atol=1e-5, rtol=1e-4)
        with (
            memory_for(trainer, 10),
            pytest.raises(TrainerError, match=r"out of memory on cpu again.*set micro_tokens lower"),
        ):
            trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        assert gradient(trainer).keys() == expected.keys()

    run(work, trainer)


def test_validation_that_runs_out_of_memory_leaves_the_gradient_that_waits() -> None:
    trainer = tiny()
    datums = demonstrations(batch(trainer))

    async def work() -> None:
        trainer.forward_backward(datums, CROSS_ENTROPY).result(60)
        expected = gradient(trainer)
        whole = trainer.forward(datums).result(60)
        with memory_for(trainer, 2 * max(d.n_tokens for d in datums)):
            step = trainer.forward(datums).result(60)
        assert step.notes["micro_batches"] > 1
        assert step.loss == pytest.approx(whole.loss, rel=1e-5)
        assert all(torch.equal(g, expected[n]) for n, g in gradient(trainer).items())

    run(work, trainer)


def test_layers_are_checkpointed_one_by_one_as_memory_gets_short() -> None:
    def needed(room: float) -> int | None:
        return layers_to_checkpoint(room, per_layer=100.0, inputs=10.0, n_layers=4)

    assert [needed(room) for room in (600, 599, 510, 420, 330, 240, 239)] == [0, 1, 1, 2, 3, 4, None]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_kept_for_the_backward_pass_grows_with_the_positions_and_shrinks_with_checkpointing(
    family: str,
) -> None:
    trainer = tiny(family)

    async def work() -> None:
        some, twice = (kept_bytes(trainer.model, n) for n in (128, 256))
        assert twice == pytest.approx(2 * some, rel=0.05)
        trainer._checkpointing.all()
        assert kept_bytes(trainer.model, 128) < some / 2

    run(work, trainer)


def test_options_that_it_cannot_use_are_refused_with_what_to_do() -> None:
    for changed, said in (
        ({"adapter": "somewhere"}, "begin from a state"),
        ({"lora": Lora(unembed=True)}, "leave `unembed` off"),
        ({"lora": Lora(attention=False, mlp=False)}, "switch one of them on"),
        ({"model": "/nowhere"}, "neither a model folder nor a hub id"),
        ({"state": "/nowhere"}, "no state of a torch trainer"),
    ):
        with pytest.raises(TrainerError, match=said):
            open_trainer(options(**changed))  # type: ignore[arg-type]


def test_the_fingerprint_tells_what_is_trained_apart_and_not_how_far_it_has_come() -> None:
    trainers = [
        tiny(),
        tiny(seed=9),
        tiny(lora=None),
        tiny(lora=Lora(rank=2)),
        tiny(vision="trained"),
        tiny("qwen3_vl"),
    ]

    async def work() -> None:
        told = [t.fingerprint for t in trainers]
        assert told[0] == told[1]
        assert len(set(told)) == 5
        trainers[0].forward_backward([sft_datum(conversation(trainers[0], 1, 1, 3))], CROSS_ENTROPY).result(60)
        trainers[0].optim_step(ADAM).result(60)
        assert trainers[0].fingerprint == told[0]

    run(work, *trainers)


def test_a_closed_trainer_says_so_and_may_be_closed_again() -> None:
    trainer = tiny()

    async def work() -> None:
        datums = [sft_datum(conversation(trainer, 1, 1, 3))]
        await trainer.aclose()
        with pytest.raises(TrainerError, match="closed"):
            trainer.forward(datums)

    run(work, trainer)
