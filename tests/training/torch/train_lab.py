"""What the tests of the `torch` trainer share: tiny trainers, and batches of made-up trajectories."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[2] / "policies" / "torch"))  # the lab of the policy on the same models

from torch_lab import FAMILIES, observe, opening, picture, stock_logprobs

from specvet.chat import Datum, Ledger, rl_datum, sft_datum
from specvet.policies.options import ModelOptions
from specvet.policies.remote import resolve
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import Lora, TrainerOptions

__all__ = [
    "FAMILIES",
    "LORA",
    "advantages",
    "batch",
    "conversation",
    "demonstrations",
    "gradient",
    "opening",
    "options",
    "picture",
    "resolve",
    "rollouts",
    "run",
    "small",
    "stock_logprobs",
    "tiny",
    "weights",
]

T = TypeVar("T")
LORA = Lora(rank=4, alpha=8.0)


def options(family: str = "qwen2_5_vl", lora: Lora | None = LORA, **changed: Any) -> TrainerOptions:
    """A tiny model on the CPU; what is of `ModelOptions` may be given too."""
    of_model = {"seed": 3, "context": 4096, "device": "cpu", "format": family}
    of_model |= {name: changed.pop(name) for name in ("model", "dtype", "adapter", "device") if name in changed}
    return TrainerOptions(ModelOptions(**of_model), lora=lora, **{"branches": 4, **changed})


def small(trainer: TorchTrainer) -> TorchTrainer:
    """The trainer, with a format that takes pictures of any size from one token on, so that tests stay small."""
    geometry = trainer.format.geometry
    trainer.format.geometry = type(geometry)(geometry.patch, geometry.merge, 1, 1 << 20)
    return trainer


def tiny(family: str = "qwen2_5_vl", lora: Lora | None = LORA, **changed: Any) -> TorchTrainer:
    """A trainer of a tiny random model of a family."""
    return small(TorchTrainer.open(options(family, lora, **changed)))


def conversation(trainer: TorchTrainer, seed: int, turns: int, tokens: int, *pictures: int) -> Ledger:
    """A trajectory of random words, a picture a turn: by number, else the turn's own."""
    draw = np.random.default_rng(seed)
    ledger = opening(trainer, "a" * (seed % 7), picture(pictures[0] if pictures else seed, 64, 64))  # type: ignore[arg-type]
    for turn in range(turns):
        if turn:
            observe(trainer, ledger, seed=pictures[turn] if turn < len(pictures) else 100 * seed + turn)  # type: ignore[arg-type]
        said = [*draw.integers(0, 200, tokens - 1).tolist(), trainer.format.stop_ids[0]]
        ledger.append_sampled(said, -draw.exponential(2.0, tokens).astype(np.float32), "end")
    return ledger


def batch(trainer: TorchTrainer, sizes: Sequence[tuple[int, int]] = ((1, 3), (2, 9), (3, 2), (1, 6))) -> list[Ledger]:
    """Trajectories of so many turns and sampled tokens a turn."""
    return [conversation(trainer, i, turns, tokens) for i, (turns, tokens) in enumerate(sizes)]


def advantages(n: int) -> list[float]:
    """Some above 0, some below, one 0."""
    return [(1.5, -0.75, 0.0, 0.5, -1.25)[i % 5] for i in range(n)]


def rollouts(ledgers: Sequence[Ledger]) -> list[Datum]:
    return [rl_datum(ledger, a) for ledger, a in zip(ledgers, advantages(len(ledgers)), strict=True)]


def demonstrations(ledgers: Sequence[Ledger]) -> list[Datum]:
    return [sft_datum(ledger) for ledger in ledgers]


def run(work: Callable[[], Coroutine[Any, Any, T]], *trainers: TorchTrainer) -> T:
    """Run asynchronous work, then close the trainers, within a minute."""

    async def all_of_it() -> T:
        try:
            return await asyncio.wait_for(work(), 60)
        finally:
            for trainer in trainers:
                await trainer.aclose()

    return asyncio.run(all_of_it())


def gradient(trainer: TorchTrainer) -> dict[str, torch.Tensor]:
    """What waits for a step, by name."""
    masters = trainer._optimiser.masters
    return {name: m.grad.clone() for name, m in masters.items() if m.grad is not None}


def weights(trainer: TorchTrainer) -> dict[str, torch.Tensor]:
    """The trained weights, by name."""
    return {name: p.detach().clone() for name, p in trainer._optimiser.parameters.items()}
