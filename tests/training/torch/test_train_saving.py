"""States to train on from, weights to sample with, and a LoRA merged into its base."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from train_lab import (
    FAMILIES,
    LORA,
    batch,
    conversation,
    demonstrations,
    options,
    resolve,
    rollouts,
    run,
    small,
    stock_logprobs,
    tiny,
    weights,
)

from specvet.policies.options import ModelOptions
from specvet.policies.torch.loading import load
from specvet.policies.torch.policy import TorchPolicy
from specvet.policies.torch.tiny import save_tiny
from specvet.training.torch.merge import merge
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import Adam, Lora, Loss, TrainerError

ADAM = Adam(0.02, weight_decay=0.01)


def trained(trainer: TorchTrainer, steps: int = 1) -> TorchTrainer:
    """The trainer after some steps."""
    for seed in range(steps):
        datums = rollouts(batch(trainer, ((1, 3 + seed), (2, 4))))
        trainer.forward_backward(datums, Loss("ppo")).result(60)
        trainer.optim_step(ADAM).result(60)
    return trainer


def policy(model: str, adapter: str | None = None) -> TorchPolicy:
    """The saved model, for pictures of any size."""
    opened, format = load(ModelOptions(model=model, adapter=adapter, device="cpu"))
    geometry = format.geometry
    format.geometry = type(geometry)(geometry.patch, geometry.merge, 1, 1 << 20)  # type: ignore[misc]
    return TorchPolicy(opened, format, branches=2, context=4096)


@pytest.mark.parametrize(("lora", "dtype"), [(LORA, "float32"), (None, "bfloat16")])
def test_a_run_that_goes_on_from_a_saved_state_takes_the_same_steps_bit_by_bit(
    lora: Lora | None, dtype: str, tmp_path: Path
) -> None:
    whole = trained(tiny(lora=lora, dtype=dtype), 2)

    async def work() -> None:
        name = await resolve(whole.save_state("a", tmp_path))
        resumed = small(
            TorchTrainer.open(options(lora=lora, dtype=dtype, state=str(tmp_path / name), with_optimizer=True, seed=5))
        )
        anew = small(TorchTrainer.open(options(lora=lora, dtype=dtype, state=str(tmp_path / name))))
        try:
            assert resumed._optimiser.steps == 2
            assert resumed.sampler().fingerprint == whole.sampler().fingerprint
            for trainer in (whole, resumed, anew):
                trained(trainer)
            expected, masters = weights(whole), whole._optimiser.masters
            assert all(torch.equal(w, expected[n]) for n, w in weights(resumed).items())
            assert all(torch.equal(m, masters[n]) for n, m in resumed._optimiser.masters.items())
            assert not all(torch.equal(m, masters[n]) for n, m in anew._optimiser.masters.items())
        finally:
            await resumed.aclose()
            await anew.aclose()

    run(work, whole)


def test_a_state_of_something_else_is_refused_with_what_differs(tmp_path: Path) -> None:
    trainer = trained(tiny())

    async def work() -> None:
        state = str(tmp_path / trainer.save_state("a", tmp_path).result(60))
        for changed, said in (
            ({"lora": Lora(rank=8, alpha=8.0)}, "rank is 4 there and 8 here"),
            ({"lora": Lora(rank=4, alpha=16.0)}, "alpha is 8.0 there and 16.0 here"),
            ({"lora": None}, "method is 'lora' there and 'full' here"),
            ({"vision": "trained"}, "vision is 'frozen' there and 'trained' here"),
            ({"family": "qwen3_vl"}, "it was trained on a tiny model, with other weights or settings"),
        ):
            with pytest.raises(TrainerError, match=said):
                TorchTrainer.open(options(**changed, state=state))  # type: ignore[arg-type]
        file = Path(state) / "weights.safetensors"
        held = load_file(file)
        save_file({n: t[:1] for n, t in held.items()}, file)
        with pytest.raises(TrainerError, match=r"has shape \(1, 64\) there and \(4, 64\) here"):
            TorchTrainer.open(options(state=state))
        file.write_bytes(file.read_bytes()[:100])
        with pytest.raises(TrainerError, match="damaged or missing"):
            TorchTrainer.open(options(state=state))
        (Path(state) / "state.json").write_text("{")
        with pytest.raises(TrainerError, match="broken JSON"):
            TorchTrainer.open(options(state=state))

    run(work, trainer)


def test_saving_a_name_again_replaces_it_and_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trained(tiny())

    async def work() -> None:
        name = trainer.save_state("a", tmp_path).result(60)
        first = load_file(tmp_path / name / "weights.safetensors")
        trained(trainer)
        assert trainer.save_state("a", tmp_path).result(60) == name
        second = load_file(tmp_path / name / "weights.safetensors")
        assert not all(torch.equal(second[n], first[n]) for n in first)
        trained(trainer)

        def full(self: Path, *args: Any, **kwargs: Any) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_text", full)  # the last file, when all others are there
            with pytest.raises(TrainerError, match="No space left on device"):
                trainer.save_state("a", tmp_path).result(60)
        left = load_file(tmp_path / name / "weights.safetensors")
        assert all(torch.equal(left[n], second[n]) for n in second)
        assert [p.name for p in tmp_path.iterdir()] == [name]

    run(work, trainer)


@pytest.mark.parametrize(
    ("family", "vision"), [("qwen2_5_vl", "frozen"), ("qwen3_vl", "trained"), ("qwen3_5", "trained")]
)
def test_a_saved_lora_is_loaded_by_the_policy_and_by_stock_peft_and_merges_into_what_stock_code_loads(
    family: str, vision: str, tmp_path: Path
) -> None:
    base = str(save_tiny(tmp_path / "base", family, seed=3))
    trainer = trained(tiny(family, model=base, vision=vision))

    async def work() -> None:
        ledger = conversation(trainer, 4, 2, 5)
        values = trainer.forward(demonstrations([ledger])).result(60).logprobs[0]
        mine = values[demonstrations([ledger])[0].weights > 0]
        adapter = str(tmp_path / trainer.save_sampler("a", tmp_path).result(60))
        assert json.loads((Path(adapter) / "adapter_config.json").read_text())["base_model_name_or_path"] == base
        merged = merge(base, adapter, tmp_path / "merged")
        opened = policy(base, adapter), policy(str(merged))
        try:
            assert opened[0].recomputed_logprobs(ledger) == pytest.approx(mine, abs=1e-5)
            assert opened[1].recomputed_logprobs(ledger) == pytest.approx(mine, abs=1e-3)
            assert np.abs(opened[0].recomputed_logprobs(ledger, adapter=False) - mine).max() > 0.1
            stock = transformers.AutoModelForImageTextToText.from_pretrained(base)
            stock = peft.PeftModel.from_pretrained(stock, adapter).eval()
            assert stock_logprobs(opened[0], ledger, stock.get_base_model()) == pytest.approx(mine, abs=1e-3)
            stock = transformers.AutoModelForImageTextToText.from_pretrained(merged)
            assert stock_logprobs(opened[1], ledger, stock) == pytest.approx(mine, abs=1e-3)
            assert opened[1].format.vocabulary.fingerprint == trainer.format.vocabulary.fingerprint
        finally:
            for one in opened:
                await one.aclose()
        other = {p.name for p in Path(base).iterdir()}
        assert {p.name for p in merged.iterdir()} == other
        assert all((merged / n).read_bytes() == (Path(base) / n).read_bytes() for n in other if n[-4:] == "json")

    run(work, trainer)


@pytest.mark.parametrize(("family", "tiny_base"), [*((f, True) for f in FAMILIES), ("qwen2_5_vl", False)])
def test_a_model_that_was_trained_whole_is_saved_as_a_folder_that_stock_code_and_the_policy_load(
    family: str, tiny_base: bool, tmp_path: Path
) -> None:
    base = None if tiny_base else str(save_tiny(tmp_path / "base", family, seed=3))
    trainer = trained(tiny(family, None, model=base))

    async def work() -> None:
        ledger = conversation(trainer, 4, 2, 5)
        values = trainer.forward(demonstrations([ledger])).result(60).logprobs[0]
        mine = values[demonstrations([ledger])[0].weights > 0]
        folder = str(tmp_path / trainer.save_sampler("a", tmp_path).result(60))
        opened = policy(folder)
        try:
            assert opened.recomputed_logprobs(ledger) == pytest.approx(mine, abs=1e-5)
            stock = transformers.AutoModelForImageTextToText.from_pretrained(folder)
            assert stock_logprobs(opened, ledger, stock) == pytest.approx(mine, abs=1e-3)
            assert transformers.AutoProcessor.from_pretrained(folder) is not None
        finally:
            await opened.aclose()

    run(work, trainer)


def test_merging_rounds_once_and_leaves_every_other_tensor_as_it_was(tmp_path: Path) -> None:
    base = save_tiny(tmp_path / "base", "qwen2_5_vl", seed=3)
    half = {n: t.bfloat16() for n, t in load_file(base / "model.safetensors").items()}
    save_file(half, base / "model.safetensors", metadata={"format": "pt"})
    trainer = trained(tiny(model=str(base), lora=replace(LORA, mlp=False)))

    async def work() -> None:
        adapter = tmp_path / trainer.save_sampler("a", tmp_path).result(60)
        made = load_file(merge(str(base), adapter, tmp_path / "out") / "model.safetensors")
        assert made.keys() == half.keys()
        changed = {n for n in made if not torch.equal(made[n], half[n])}
        assert all("language_model" in n or n.startswith("model.layers") for n in changed)
        assert {n.rsplit(".", 2)[1] for n in changed} == {"q_proj", "k_proj", "v_proj", "o_proj"}
        down, up = (
            weights(trainer)[f"base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_{x}.default.weight"]
            for x in "AB"
        )
        name = next(n for n in changed if n.endswith("layers.1.self_attn.q_proj.weight"))
        assert torch.equal(made[name], (half[name].float() + 2.0 * (up @ down)).bfloat16())

    run(work, trainer)


def test_what_cannot_be_merged_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    base = save_tiny(tmp_path / "base", "qwen2_5_vl", seed=3)
    other = save_tiny(tmp_path / "other", "qwen3_5", seed=3)
    trainer = trained(tiny(model=str(base)))

    async def work() -> None:
        adapter = tmp_path / trainer.save_sampler("a", tmp_path).result(60)
        used = tmp_path / "used"
        used.mkdir()
        (used / "mine.txt").write_text("mine")
        config = json.loads((adapter / "adapter_config.json").read_text())
        dora = tmp_path / "dora"
        dora.mkdir()
        (dora / "adapter_model.safetensors").write_bytes((adapter / "adapter_model.safetensors").read_bytes())
        (dora / "adapter_config.json").write_text(json.dumps(config | {"use_dora": True}))
        for one, lora, out, said in (
            (str(base), adapter, used, "is not empty"),
            (str(base), tmp_path, tmp_path / "x", "no LoRA folder"),
            (str(base), dora, tmp_path / "x", r"not plain LoRA \(use_dora\)"),
            (str(other), adapter, tmp_path / "x", "trained on another model"),
            ("/nowhere", adapter, tmp_path / "x", "neither a model folder nor a hub id"),
        ):
            with pytest.raises(TrainerError, match=said):
                merge(one, lora, out)
        assert not (tmp_path / "x").exists()
        assert (used / "mine.txt").read_text() == "mine"
        assert not list(tmp_path.glob(".*"))

    run(work, trainer)
