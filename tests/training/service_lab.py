"""The trainers on the two services, opened on their loopback services, and batches to train on."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "policies"))  # the services, and their lab

from remote_lab import KEY, Lab, direct, lab, opening, params, picture, same
from services.backing import SEED, Faults

from specvet.chat import ChatFormat, Datum, Ledger, rl_datum, sft_datum
from specvet.chat.messages import tool
from specvet.policies.options import ModelOptions
from specvet.training.remote import RemoteTrainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Lora, TrainerOptions

__all__ = ["KEY", "direct", "opening", "params", "picture", "same"]

LORA = Lora(rank=4)
SIZES = {"qwen2_5_vl": (112, 112), "qwen3_vl": (256, 256)}
"""Pixels of pictures that the family's processor does not resize: trainer and service would do it by other code."""
STEP = Adam(lr=1e-2)
HERE = Path()
"""Services save nothing in a folder."""
GRADIENT = {"trio": "/trainer.forward_backward", "tinker": "/forward_backward"}
"""How the path ends that asks for a gradient."""
ONE = ((1, 3),)
"""The shape of a batch of one short trajectory."""
BATCH = ((1, 3), (2, 6), (1, 4))
"""Turns, and sampled tokens a turn, of the trajectories of a batch."""


@dataclass(frozen=True)
class Services:
    """A running loopback service and the trainer on it."""

    here: Lab

    @property
    def name(self) -> str:
        return self.here.name

    @property
    def service(self) -> Any:
        return self.here.service

    @property
    def faults(self) -> Faults:
        return self.here.service.faults

    @property
    def format(self) -> ChatFormat:
        return self.here.backing.format

    def options(self, **changed: Any) -> TrainerOptions:
        model = {name: changed.pop(name) for name in ("model", "timeout_s", "base_url") if name in changed}
        return replace(TrainerOptions(replace(self.here.options, **model), lora=LORA, name="run a"), **changed)

    def open(self, **changed: Any) -> RemoteTrainer:
        return import_module(f"specvet.training.{self.name}").open_trainer(self.options(**changed))  # type: ignore[no-any-return]

    def asked(self, kind: str) -> list[Any]:
        """Bodies of the requests of a kind, in order."""
        return [body for path, body in self.service.asked if path.endswith(kind)]


@contextlib.contextmanager
def services(name: str, folder: Path) -> Iterator[Services]:
    """A loopback service for as long as a module's tests run."""
    with pytest.MonkeyPatch.context() as patched, lab(name, folder, patched) as here:
        yield Services(here)


def torch_options(format: ChatFormat, **changed: Any) -> TrainerOptions:
    """The torch trainer of the weights that stand behind a service."""
    model = ModelOptions(format=format.name, device="cpu", seed=SEED)
    return replace(TrainerOptions(model, lora=LORA), **changed)


def ledgers(format: ChatFormat, shape: Sequence[tuple[int, int]] = BATCH) -> list[Ledger]:
    """Trajectories with a picture in the question and one in each later observation; ids out of the air."""
    draw = np.random.default_rng(7)
    ends, size_of_picture = format.stop_ids[0], SIZES[format.name]
    made = []
    for i, (turns, size) in enumerate(shape):
        ledger = opening(format, picture(i, *size_of_picture))
        for turn in range(turns):
            if turn:
                ledger.append(format.observation(ledger, tool("Here.", picture(10 * i + turn, *size_of_picture))))
            ids = [*draw.integers(33, 120, size - 1).tolist(), ends]
            ledger.append_sampled(ids, draw.uniform(-6, -2, size).astype(np.float32), "end")
        made.append(ledger)
    return made


def demonstrations(format: ChatFormat, shape: Sequence[tuple[int, int]] = BATCH) -> list[Datum]:
    return [sft_datum(ledger) for ledger in ledgers(format, shape)]


def trajectories(
    format: ChatFormat, logprobs: Sequence[Any], shape: Sequence[tuple[int, int]] = BATCH, spread: float = 0.3
) -> list[Datum]:
    """RL datums whose sampling log-probs lie around these (one array a datum, as `Step.logprobs`), so that some ratios
    are clipped, with advantages of both signs and one that is 0."""
    draw = np.random.default_rng(8)
    datums = []
    for i, (ledger, near) in enumerate(zip(ledgers(format, shape), logprobs, strict=True)):
        datum = rl_datum(ledger, (1.5, -0.7, 0.0)[i % 3])
        q = np.where(datum.weights > 0, near + spread * draw.standard_normal(near.size), 0).astype(np.float32)
        datums.append(replace(datum, logprobs=np.minimum(q, 0)))
    return datums


def run(work: Any) -> Any:
    return asyncio.run(work)


async def learning(trainer: RemoteTrainer, batch: Sequence[Datum]) -> None:
    """One step on a batch of demonstrations."""
    await trainer.forward_backward(batch, CROSS_ENTROPY)
    await trainer.optim_step(STEP)


def learn(trainer: RemoteTrainer, batch: Sequence[Datum]) -> None:
    run(learning(trainer, batch))
