"""SFT, then GRPO from its state in two sessions, then sampling, all of it at a loopback service: the loops, the SDKs,
and checkpoints that are addresses.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_lab import config, grpo_loop, lines
from service_lab import Services, opening, params, run

from specvet.chat import ChatFormat
from specvet.data.asking import Questions, load_questions
from specvet.data.demonstrations import Said, SftRow, load_sft, read_demonstrations, write_demonstrations
from specvet.data.toy import make_toy
from specvet.policies.registry import open_policy
from specvet.policies.remote import resolve
from specvet.training.checkpoints import FILE, checkpoints, resolve_start, weights_of
from specvet.training.config import BudgetConfig, MethodConfig, ModelConfig, OptimiserConfig, SftConfig, TrainConfig
from specvet.training.grpo import grpo
from specvet.training.opening import trainer_options
from specvet.training.registry import open_trainer
from specvet.training.run import TrainingRun
from specvet.training.sft import sft


def test_sft_then_grpo_then_sampling(there: Services, tmp_path: Path) -> None:
    told, questions = one_word(there.format, tmp_path)
    cold = settings(there, SftConfig(epochs=5, batch=2, optimiser=OptimiserConfig(lr=0.01)))
    run(session(cold, tmp_path / "cold", told, told[:1]))
    losses = {kind: [line["loss"] for line in lines(tmp_path / "cold", kind)] for kind in ("step", "validation")}
    assert losses["step"][-1] < 0.3 * losses["step"][0]
    assert losses["validation"][-1] < losses["validation"][0]

    start = resolve_start(str(tmp_path / "cold"))
    assert start.state.startswith(f"{there.name}://")
    warm = settings(there, small_grpo(max_steps=1), start=start.state)
    run(session(warm, tmp_path / "warm", questions))
    run(session(replaced(warm, max_steps=2), tmp_path / "warm", questions))
    first, second = lines(tmp_path / "warm", "step")
    assert (first["step"], second["step"]) == (1, 2)
    learnt = next(line for line in (first, second) if line["datums"])  # of equal rewards nothing is learnt
    assert (learnt["datums"], learnt["images"], learnt["update"]) == (4, 4, 1)
    assert learnt["drift_max"] < 1e-4  # what was sampled is what is trained
    assert learnt["kl_reference"] == pytest.approx(0, abs=1e-4)  # the first update begins where the reference stands

    saved = checkpoints(tmp_path / "warm")
    assert [c.step for c in saved] == [1, 2]
    assert all(c.state.startswith(f"{there.name}://") and c.files == {} for c in saved)
    assert (saved[0].folder / FILE).is_file()

    async def sampled() -> Any:
        policy = open_policy(there.name, replace(there.here.options, adapter=saved[-1].sampler))
        got = await policy.sample(opening(there.format), 2, params())  # type: ignore[union-attr]
        await policy.aclose()
        return got.sequences

    assert all(np.isfinite(one.logprobs).all() for one in run(sampled()))


def settings(there: Services, loop: Any, **more: Any) -> TrainConfig:
    told = there.here.options
    model = ModelConfig(name=told.model, tokenizer=told.tokenizer, base_url=told.base_url, timeout_s=told.timeout_s)
    return config(loop, backend=there.name, model=model, method=MethodConfig(rank=4), **more)


def small_grpo(**more: Any) -> Any:
    """One question a step, four answers of two tokens."""
    budget = BudgetConfig(max_turns=1, turn_tokens=2)
    return grpo_loop(
        questions=1, group=4, epochs=1, kl=0.01, budget=budget, optimiser=OptimiserConfig(lr=0.01), save_every=1, **more
    )


def replaced(settings: TrainConfig, **loop: Any) -> TrainConfig:
    return settings.model_copy(update={"loop": settings.loop.model_copy(update=loop)})


async def session(settings: TrainConfig, out: Path, *data: Any) -> None:
    """One session of a run at the service."""
    with TrainingRun.open(out, settings) as training:
        options = trainer_options(settings, name=out.name, **weights_of(settings, training.checkpoint))
        trainer = open_trainer(settings.backend, options)
        try:
            await (sft if settings.stage == "sft" else grpo)(settings, trainer, *data, training)
        finally:
            await resolve(trainer.aclose())


def one_word(format: ChatFormat, folder: Path) -> tuple[list[SftRow], Questions]:
    """Demonstrations that answer a question with one word, and such questions: both words become likely, so that the
    rewards of a group differ."""
    toy = make_toy(folder / "toy", sft_train=2, sft_val=2, rl_train=2, dev=2)
    told = []
    for one, word in zip(read_demonstrations(str(toy.sft_train)), ("YES", "NO"), strict=True):
        asked = one.messages[: [m.role for m in one.messages].index("assistant")]
        told.append(replace(one, messages=(*asked, Said("assistant", (word,)))))
    file = Path(toy.sft_train).with_name("one_word.jsonl")
    write_demonstrations(str(file), told)
    return load_sft(str(file), format, 4096)[0], load_questions(toy.rl_train, style="compact")
