"""The trainers on the two services: what goes over the line, what is refused, what is saved and gone on from."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from service_lab import (
    GRADIENT,
    HERE,
    KEY,
    LORA,
    ONE,
    STEP,
    Services,
    demonstrations,
    direct,
    learn,
    learning,
    ledgers,
    opening,
    params,
    run,
    same,
)

from specvet.chat import rl_datum
from specvet.training.registry import TRAINERS, UnknownTrainerError, open_trainer
from specvet.training.remote import RemoteTrainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Loss, TrainerError

UNTRAINED = {"trio": "Qwen/Qwen2.5-VL-7B-Instruct", "tinker": "Qwen/Qwen3-VL-235B-A22B-Instruct"}


# --- what goes over the line


def test_a_demonstration_goes_with_its_pictures_and_weights_on_what_was_said(
    there: Services, trainer: RemoteTrainer
) -> None:
    (datum,) = demonstrations(there.format, ((2, 4),))
    run(trainer.forward_backward([datum], CROSS_ENTROPY))
    targets, numbers, pictures = sent(there)
    active = datum.weights > 0
    assert active.sum() == 8
    assert pictures == [(c.png, c.n_tokens) for c in datum.images]
    assert len(targets) == len(numbers["weights"]) == datum.n_tokens
    np.testing.assert_array_equal(targets[active], datum.targets[active])
    if there.name == "trio":  # divides by the totals of the request
        assert set(targets[~active]) == {-100}
        np.testing.assert_array_equal(numbers["weights"], datum.weights)
        (body,) = there.asked(GRADIENT["trio"])
        assert body["gradient_accumulation"]["total_active_tokens"] == 8
    else:  # sums
        assert set(targets[~active]) == {0}
        np.testing.assert_allclose(numbers["weights"], datum.weights / 8)


def test_a_trajectory_goes_with_its_advantage_and_a_token_of_advantage_0_counts(
    there: Services, trainer: RemoteTrainer
) -> None:
    batch = [
        rl_datum(ledger, advantage) for ledger, advantage in zip(ledgers(there.format), (2.0, 0.0, -1.0), strict=True)
    ]
    step = run(trainer.forward_backward(batch, Loss("ppo", clip=(0.7, 1.4))))
    n = sum(d.n_learnt for d in batch)
    _, numbers, _ = sent(there)
    assert step.n_active == n
    assert set(numbers) == {"logprobs", "advantages"}
    np.testing.assert_array_equal(numbers["logprobs"], np.asarray(batch[0].logprobs))
    scale = 1 if there.name == "trio" else n
    np.testing.assert_allclose(numbers["advantages"], np.asarray(batch[0].advantages) / scale)
    if there.name == "trio":
        (body,) = there.asked(GRADIENT["trio"])
        assert body["loss"] == {"type": "ppo", "config": {"clip_low_threshold": 0.7, "clip_high_threshold": 1.4}}
        assert body["gradient_accumulation"] == {
            "total_samples": 3,
            "total_active_tokens": n,
            "total_advantage_tokens": n - batch[1].n_learnt,
        }


def test_all_of_adam_is_passed_on(there: Services, trainer: RemoteTrainer) -> None:
    run(trainer.forward_backward(demonstrations(there.format, ONE), CROSS_ENTROPY))
    run(trainer.optim_step(Adam(1e-3, 0.8, 0.99, 1e-6, 0.1, 0.5)))
    (body,) = there.asked("step")
    assert body["adam_params"] == {
        "learning_rate": 1e-3,
        "beta1": 0.8,
        "beta2": 0.99,
        "eps": 1e-6,
        "weight_decay": 0.1,
        "grad_clip_norm": 0.5,
    }


def test_the_adapter_is_asked_for_as_described(there: Services) -> None:
    lora = replace(LORA, rank=8, mlp=False, unembed=True)
    made = there.open(lora=lora, seed=5)
    run(made.aclose())
    (body,) = there.asked("/training-runs" if there.name == "trio" else "/create_model")
    told = (
        body if there.name == "trio" else {f"lora_{k}": v for k, v in body["lora_config"].items()} | body["lora_config"]
    )
    assert (told["lora_rank"], told["seed"]) == (8, 5)
    assert (told["train_mlp"], told["train_attn"], told["train_unembed"]) == (False, True, True)
    if there.name == "tinker":
        assert body["user_metadata"] == {"name": "run a"}


def test_usage_counts_what_was_trained(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format)
    run(trainer.forward(batch, CROSS_ENTROPY))
    run(trainer.forward_backward(batch, CROSS_ENTROPY))
    run(trainer.optim_step(STEP))
    with pytest.raises(TrainerError, match="no gradient waits for a step"):
        run(trainer.optim_step(STEP))
    tokens, usage = sum(d.n_tokens for d in batch), trainer.usage
    assert (usage.trained_tokens, usage.forward_tokens, usage.images) == (tokens, tokens, 4)
    assert (usage.active_tokens, usage.batches, usage.updates) == (sum(d.n_learnt for d in batch), 1, 1)
    assert usage.seconds > 0


# --- refused before anything is spent


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lora": None}, r"method.kind full: the service trains LoRA adapters only"),
        ({"lora": replace(LORA, alpha=64)}, r"method.alpha 64: the service chooses it; leave it at 32"),
        ({"lora": replace(LORA, attention=False, mlp=False)}, r"neither attention nor MLP nor the output layer"),
        ({"vision": "trained"}, r"method.vision trained: the service does not train the vision tower"),
        ({"processes": 2}, r"method.processes 2: the service decides"),
        ({"gradient_checkpointing": True}, r"method.gradient_checkpointing: the service decides it"),
        ({"micro_tokens": 4096}, r"method.micro_tokens: the service cuts batches itself"),
        ({"state": "checkpoints/epoch-01/state"}, r"is no address at this service; those begin with (trio|tinker)://"),
        ({"reference_state": "elsewhere://x"}, r"'elsewhere://x': is no address at this service"),
        ({"with_optimizer": True}, r"there is no state whose optimiser could go on"),
        ({"model": None}, r"no base model was named; give --model"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_the_service_cannot_do_is_refused_before_it_is_asked(
    there: Services, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(TrainerError, match=said):
        there.open(**changed)
    assert there.service.asked == []


def test_a_rank_that_trio_does_not_take_is_refused(there: Services) -> None:
    if there.name == "trio":
        with pytest.raises(TrainerError, match=r"method\.rank 2: the service takes ranks from 4 to 64"):
            there.open(lora=replace(LORA, rank=2))


def test_a_model_that_cannot_be_trained_is_answered_with_those_that_can(there: Services) -> None:
    for model in (UNTRAINED[there.name], "Qwen/Qwen2.5-VL-72B-Instruct"):
        with pytest.raises(TrainerError, match=rf"cannot train '{model}'; it can train: Qwen/"):
            there.open(model=model)
    assert not any("train" in path for path in there.service.paths())


def test_a_batch_that_cannot_be_sent_is_not_sent(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    with pytest.raises(TrainerError, match=r"an entropy bonus of 0\.01.*set grpo.entropy to 0"):
        run(trainer.forward_backward(batch, Loss("ppo", entropy=0.01)))
    with pytest.raises(TrainerError, match="datum 0 of the batch has no log-probs or advantages for cispo"):
        run(trainer.forward_backward(batch, Loss("cispo")))
    with pytest.raises(TrainerError, match="no gradient waits for a step"):
        run(trainer.optim_step(STEP))
    blind = replace(
        batch[0], chunks=tuple(replace(c, png=None) if c in batch[0].images else c for c in batch[0].chunks)
    )
    with pytest.raises(TrainerError, match=r"has no bytes.*nothing was sent"):
        run(trainer.forward_backward([blind], CROSS_ENTROPY))
    trainer._limit = 50
    with pytest.raises(TrainerError, match=r"datum 0 of the batch has \d+ positions, over the 50"):
        run(trainer.forward_backward(batch, CROSS_ENTROPY))
    assert there.asked(GRADIENT[there.name]) == []


def test_a_missing_sdk_says_what_to_install(there: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    package = {"trio": "pytrio", "tinker": "tinker"}[there.name]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TrainerError, match=rf"pip install 'specvet\[{there.name}\]'"):
        there.open()


def test_an_unknown_trainer_is_answered_with_the_nearest(there: Services) -> None:
    with pytest.raises(
        UnknownTrainerError, match="no trainer named 'tinkr'; did you mean 'tinker'\\? known are: torch"
    ):
        open_trainer("tinkr", there.options())
    assert set(TRAINERS) == {"torch", "trio", "tinker"}


def test_a_wrong_key_and_a_lost_state_say_what_to_do(there: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTRIO_API_KEY", "TINKER_API_KEY"):
        monkeypatch.setenv(name, "tml-a-wrong-secret")
    with pytest.raises(TrainerError, match=r"log in with `t") as caught:
        there.open()
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("PYTRIO_API_KEY", KEY)
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    with pytest.raises(TrainerError, match=r"404.*give --from the address of a state"):
        there.open(state=f"{there.name}://run-99/weights/lost")


# --- saving and going on


def test_a_state_goes_on_with_its_optimiser_or_begins_anew(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    learn(trainer, batch)
    state = run(trainer.save_state("step-000001", HERE))
    assert state.startswith(f"{there.name}://")
    assert state.endswith("/weights/run-a-step-000001")
    resumed, anew = there.open(state=state, with_optimizer=True), there.open(state=state)
    losses = {}
    for name, one in {"uninterrupted": trainer, "resumed": resumed, "anew": anew}.items():
        first = run(one.forward(batch, CROSS_ENTROPY)).loss
        learn(one, batch)
        losses[name] = (first, run(one.forward(batch, CROSS_ENTROPY)).loss)
    assert losses["resumed"] == losses["uninterrupted"]
    assert losses["anew"][0] == losses["resumed"][0]
    assert losses["anew"][1] != losses["resumed"][1]
    assert resumed.fingerprint == trainer.fingerprint
    for one in (resumed, anew):
        run(one.aclose())


def test_a_state_names_its_base_and_keeps_its_shape(there: Services, trainer: RemoteTrainer) -> None:
    state = run(trainer.save_state("kept", HERE))
    unnamed = there.open(state=state, model=None)
    assert unnamed.model == trainer.model
    run(unnamed.aclose())
    with pytest.raises(TrainerError, match="rank 4 where 8 was asked for"):
        there.open(state=state, lora=replace(LORA, rank=8))


def test_saving_a_name_again_replaces_it(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    first = run(trainer.save_state("epoch-01", HERE))
    sampler = run(trainer.save_sampler("epoch-01", HERE))
    learn(trainer, batch)
    again = run(trainer.save_state("epoch-01", HERE))
    newer = run(trainer.save_sampler("epoch-01", HERE))
    assert again == first
    assert newer == f"{sampler}-2"  # neither service replaces these
    resumed = there.open(state=first)
    assert run(resumed.forward(batch, CROSS_ENTROPY)).loss == run(trainer.forward(batch, CROSS_ENTROPY)).loss
    run(resumed.aclose())
    moved = [name for name, value in there.service.saved[newer].weights.items() if "lora_B" in name and value.any()]
    assert moved
    assert not any(value.any() for name, value in there.service.saved[sampler].weights.items() if "lora_B" in name)


def test_a_name_that_is_taken_gets_another_end(
    there: Services, trainer: RemoteTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there.name == "tinker":  # its SDK would repeat a conflict for five minutes
        from tinker.lib.internal_client_holder import InternalClientHolder as Holder

        monkeypatch.setattr(Holder, "_is_retryable_status_code", staticmethod(lambda status: status >= 500))
    runs = there.service.runs if there.name == "trio" else there.service.models
    run(trainer.save_state("x", HERE))  # so that the run is there
    list(runs.values())[-1].names.add("sampler_weights/run-a-epoch-01")
    address = run(trainer.save_sampler("epoch-01", HERE))
    start, _, end = address.rpartition("-")
    assert start.endswith("/sampler_weights/run-a-epoch-01")
    assert len(end) == 8
    assert address in there.service.saved


def test_the_sampler_samples_with_the_weights_as_they_are(there: Services, trainer: RemoteTrainer) -> None:
    ledger = opening(there.format)
    base = direct(there.service.backing, ledger, 2, params())

    async def work() -> None:
        before = await trainer.sampler()
        got = await before.sample(ledger, 2, params())
        assert [same(a, b) for a, b in zip(got.sequences, base, strict=True)] == [True, True]
        await learning(trainer, demonstrations(there.format, ONE))
        after = await trainer.sampler()
        moved = await after.sample(ledger, 1, params(temperature=0.0))
        assert not np.array_equal(moved.sequences[0].logprobs, got.sequences[0].logprobs)
        assert before._closed
        assert before.fingerprint != after.fingerprint
        assert "trainable" in after.capabilities
        # What it sampled is what the trainer reads in it, so that the first ratio of an update is 1.
        said = ledger.fork()
        said.append_sampled(moved.sequences[0].ids, moved.sequences[0].logprobs, moved.sequences[0].stop)
        datum = rl_datum(said, 1.0)
        step = await trainer.forward([datum], Loss("ppo"))
        np.testing.assert_allclose(step.logprobs[0], datum.logprobs, atol=1e-5)
        assert step.loss == pytest.approx(-1, abs=1e-4)

    run(work())
    assert not any(path.endswith(("/close", "/finish")) for path in there.service.paths())  # the session lives on


def test_closing_ends_the_session_and_the_sampler_once(there: Services) -> None:
    trainer = there.open()

    async def work() -> None:
        policy = await trainer.sampler()
        await trainer.aclose()
        await trainer.aclose()
        assert policy._closed
        with pytest.raises(TrainerError, match="the trainer was closed"):
            await trainer.forward(demonstrations(there.format, ONE), CROSS_ENTROPY)

    run(work())
    assert sum(path.endswith(("/close", "/finish")) for path in there.service.paths()) == 1


def test_the_reference_may_be_a_state(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    learn(trainer, batch)
    state = run(trainer.save_state("first", HERE))
    wanted = run(trainer.forward(batch, CROSS_ENTROPY)).logprobs
    later = there.open(state=state, reference_state=state)
    learn(later, batch)
    np.testing.assert_array_equal(run(later.reference(batch))[0], wanted[0])
    run(later.aclose())


# --- helpers


def sent(there: Services) -> tuple[Any, dict[str, Any], list[tuple[bytes, int]]]:
    """(targets, other numbers, pictures and their counts) of the first datum of the one gradient that was asked for."""
    (body,) = there.asked(GRADIENT[there.name])
    if there.name == "trio":
        datum = body["data"][0]
        chunks = [c for c in datum["model_input"]["chunks"] if c["type"] == "image"]
        numbers = {name: np.array(datum[name]) for name in ("weights", "logprobs", "advantages") if name in datum}
        return np.array(datum["target_ids"]), numbers, [(c["data"], c["expected_tokens"]) for c in chunks]
    datum = body.data[0]
    numbers = {
        name: np.frombuffer(value.dense, dtype=np.int64 if name == "target_tokens" else np.float32)
        for name, value in datum.loss_fn_inputs.items()
    }
    pictures = [(c.image.data, c.image.expected_tokens) for c in datum.model_input if c.HasField("image")]
    return numbers.pop("target_tokens"), numbers, pictures
