"""Our trainer on the work of `train_work.py`, for `train_torch.py`. Its time counts all from the PNG bytes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rollout_torch import ours as rolled_out
from specvet.chat import ChatFormat, Ledger, LedgerError, rl_datum, sft_datum
from specvet.policies.options import ModelOptions
from specvet.policies.remote import resolve
from specvet.policies.torch.model import TorchModel
from specvet.policies.torch.pixels import PixelRule
from specvet.training.torch import passes
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Lora, Loss, Step, TrainerOptions
from train_clocks import Stopwatch, kernel_seconds, medians, rates, rounded, synchronise
from train_work import RolloutStep, Sizes, batches, script

RATE = 2e-5


@dataclass
class Ours:
    """Opens a trainer on a module, and measures it."""

    module: Any
    format: ChatFormat
    rank: int
    checkpointing: bool | None
    branches: int = 64
    context: int = 8_192

    def __post_init__(self) -> None:
        rule = PixelRule.from_config({}, self.module.config.vision_config)
        model = TorchModel(self.module, rule, files=[Path(__file__)])  # named by a file, or all weights would be hashed
        options = TrainerOptions(
            ModelOptions(context=self.context),
            lora=Lora(self.rank, self.rank),
            gradient_checkpointing=self.checkpointing,
            branches=self.branches,
        )
        self.trainer = TorchTrainer(model, self.format, options)
        self.device = model.device
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()

    async def sft(self, ledgers: Sequence[Ledger], batch: int, *, kernels: bool) -> dict[str, Any]:
        """Steps of `batch` ledgers each, until all are used up; the last is watched, one before it may be profiled."""
        groups = batches(ledgers, batch)
        seconds, losses = [], []
        for group in groups[: -2 if kernels else -1]:
            synchronise(self.device)
            start = time.perf_counter()
            step = await self.step(group)
            seconds.append(time.perf_counter() - start)
            losses.append(step.loss)
        told: dict[str, Any] = rates(self.module, [[sft_datum(x) for x in g] for g in groups], seconds, losses)
        told["peak_gib"] = self.peak()
        told["layers_checkpointed"] = self.trainer._checkpointing.n_layers
        if kernels:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                await self.step(groups[-2])
            told["kernels"] = kernel_seconds(profile)
        watch = self.watched()
        with watch.part("other, data included"):
            await self.step(groups[-1])
        watch.stop()
        return told | {"parts": rounded(watch.seconds)}

    async def step(self, ledgers: Sequence[Ledger]) -> Step:
        """One update, from ledgers on."""
        step = await resolve(self.trainer.forward_backward([sft_datum(x) for x in ledgers], CROSS_ENTROPY))
        await resolve(self.trainer.optim_step(Adam(RATE)))
        synchronise(self.device)
        return step

    async def long(self, ledgers: Sequence[Ledger]) -> dict[str, float]:
        """Memory and seconds of steps of one datum."""
        for ledger in ledgers:
            synchronise(self.device)
            start = time.perf_counter()
            await self.step([ledger])
            seconds = time.perf_counter() - start
        return {"peak_gib": self.peak(), "seconds": round(seconds, 3)}

    async def grpo(self, work: Sequence[RolloutStep], group: int, sizes: Sizes) -> dict[str, float]:
        """One step for each of `work`, of which the first warms up."""
        rows = [await self.grpo_step(w, group, sizes, np.random.default_rng(i)) for i, w in enumerate(work)]
        return medians(rows[1:]) | {"first_step_seconds": round(rows[0]["seconds"], 2), "peak_gib": self.peak()}

    async def grpo_step(
        self, work: RolloutStep, group: int, sizes: Sizes, noise: np.random.Generator
    ) -> dict[str, float]:
        told = script(self.format, work, sizes)
        synchronise(self.device)
        start = time.perf_counter()
        policy = await resolve(self.trainer.sampler())
        before = dict(policy.usage.notes)
        ledgers = await rolled_out(policy, told, group)
        synchronise(self.device)
        rolled = time.perf_counter()
        rewards = noise.integers(0, 2, (len(told.openings), group)).astype(float)
        advantages = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, ddof=1, keepdims=True) + 1e-6)
        datums = []
        for ledger, advantage in zip(ledgers, advantages.flat, strict=True):
            try:
                datums.append(rl_datum(ledger, float(advantage)))
            except LedgerError:  # random weights said the id of a picture
                continue
        step = await resolve(self.trainer.forward_backward(datums, Loss("ppo")))
        await resolve(self.trainer.optim_step(Adam(RATE)))
        synchronise(self.device)
        done = time.perf_counter()
        drift = [
            np.abs(now - d.logprobs)[d.weights > 0]
            for d, now in zip(datums, step.logprobs, strict=True)
            if d.logprobs is not None
        ]
        prompts = group * sum(x.n_tokens for x in told.openings)
        return {
            "seconds": done - start,
            "rollout_seconds": rolled - start,
            "train_seconds": done - rolled,
            "trajectories": len(ledgers),
            "trained_on": len(datums),
            "prompt_tokens": prompts,
            "completion_tokens": sum(x.n_tokens for x in ledgers) - prompts,
            "sampled_tokens": sum(x.n_sampled for x in ledgers),
            "images": sum(len(x.images) for x in ledgers),
            "drift_mean": float(np.concatenate(drift).mean()),
            **{k: v - before.get(k, 0) for k, v in policy.usage.notes.items()},
        }

    def watched(self) -> Stopwatch:
        """Clocks on what a step is made of. What is computed again counts as backward."""
        watch, model = Stopwatch(self.device), self.trainer.model
        watch.watch(model.vision, "features", "vision")
        watch.watch(model.vision, "_pixels", "pictures decoded")
        watch.watch(model.text, "forward", "text forward")
        watch.watch(passes, "micro_loss", "head and loss")
        watch.watch(torch.autograd, "backward", "backward")
        watch.watch(self.trainer._optimiser, "step", "optimiser")
        return watch

    def peak(self) -> float:
        return round(torch.cuda.max_memory_allocated() / 2**30, 2) if self.device.type == "cuda" else 0.0

    async def aclose(self) -> None:
        await resolve(self.trainer.aclose())
