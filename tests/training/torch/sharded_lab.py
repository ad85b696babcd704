"""What the tests of several processes share: a trainer in one process and one in two, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from safetensors.torch import load_file
from train_lab import small

from specvet.chat import Datum
from specvet.training.torch import open_trainer
from specvet.training.torch.sharded import ShardedTrainer
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import Adam, Loss, Step, TrainerOptions

ADAM = Adam(1e-3)
LIMIT_S = 60
"""No test waits longer for anything."""


@dataclass(frozen=True)
class Pair:
    """Two trainers that are taken through the same things, and stay equal up to the order of float additions."""

    one: TorchTrainer
    two: ShardedTrainer

    def passed(self, datums: Sequence[Datum], loss: Loss) -> Step:
        """A pass of both, whose results agree within float32; that of two processes."""
        one = self.one.forward_backward(datums, loss).result(LIMIT_S)
        two = self.two.forward_backward(datums, loss).result(LIMIT_S)
        assert agree(one, two)
        return two

    def step(self) -> float:
        """A step of both, whose gradients have the same norm; it."""
        one = self.one.optim_step(ADAM).result(LIMIT_S).grad_norm
        two = self.two.optim_step(ADAM).result(LIMIT_S).grad_norm
        assert one is not None
        assert two is not None
        assert np.isclose(one, two, rtol=1e-4)
        return two


def agree(one: Step, two: Step) -> bool:
    """Loss and log-probs within 1e-4, counts exactly."""
    assert one.n_active == two.n_active
    assert (one.entropy is None) == (two.entropy is None)
    assert np.isclose(one.entropy or 0, two.entropy or 0, atol=1e-4)
    assert np.isclose(one.loss, two.loss, atol=1e-4)
    for a, b in zip(one.logprobs, two.logprobs, strict=True):
        assert np.allclose(a, b, atol=1e-4)
    return True


def farthest(one: Path, other: Path) -> float:
    """Largest difference between the tensors of two files, which hold the same ones."""
    a, b = load_file(one), load_file(other)
    assert {name: t.shape for name, t in a.items()} == {name: t.shape for name, t in b.items()}
    assert a
    return max(float((a[name].double() - b[name].double()).abs().max()) for name in a)


@contextmanager
def pair(options: TrainerOptions) -> Iterator[Pair]:
    """The trainers that the options say, in one process and in two."""
    two = open_trainer(replace(options, processes=2))
    assert isinstance(two, ShardedTrainer)
    small(two)  # type: ignore[arg-type]
    one = small(TorchTrainer.open(options))
    try:
        yield Pair(one, two)
    finally:
        asyncio.run(one.aclose())
        asyncio.run(two.aclose())
        asyncio.run(two.aclose())  # once more does nothing
