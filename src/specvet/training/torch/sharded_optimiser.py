"""AdamW over shards: each process has masters, gradients and moments of its own rows.

A sharded weight is a `DTensor` whose rows lie with the processes in order, ⌈rows / processes⌉ each, as `fully_shard`
cuts them; what steps are taken with is the float32 tensor of this process's rows. Weights that are not sharded (a
vision tower that is trained) are the same everywhere, and so are their steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from specvet.training.torch.optimiser import Optimiser


class ShardedOptimiser(Optimiser):
    """As `Optimiser`, on all processes at a time."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._whole = dict(parameters)
        self._sharded = {name: p for name, p in parameters.items() if isinstance(p, DTensor)}
        self._rank, self._n = dist.get_rank(), dist.get_world_size()
        super().__init__({name: _rows(p) for name, p in parameters.items()})

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(p.shape) for name, p in self._whole.items()}

    def own(self, name: str, values: Tensor) -> Tensor:
        if name not in self._sharded:
            return values
        step = math.ceil(values.shape[0] / self._n)
        return values[self._rank * step : (self._rank + 1) * step]

    def collect(self) -> None:
        """After a pass that began without gradients: they are where steps are taken with them, summed over the
        processes and divided by their number."""
        for name, p in self._sharded.items():
            shard: Any = p.grad
            if shard is not None:
                self.masters[name].grad = shard.to_local()
                p.grad = None
        copies = [master for name, master in self.masters.items() if name not in self._sharded]
        if not copies:
            return
        seen = torch.tensor([float(m.grad is not None) for m in copies], device=copies[0].device)
        dist.all_reduce(seen)
        for master, count in zip(copies, seen.tolist(), strict=True):
            if count:
                master.grad = torch.zeros_like(master) if master.grad is None else master.grad
                dist.all_reduce(master.grad)
                master.grad /= self._n

    def clear(self) -> None:
        super().clear()
        for p in self._whole.values():
            p.grad = None

    def norm(self, gradients: list[Tensor]) -> float:
        shards = [m.grad for n, m in self.masters.items() if n in self._sharded and m.grad is not None]
        copies = [m.grad for n, m in self.masters.items() if n not in self._sharded and m.grad is not None]
        total = torch.zeros((), dtype=torch.float64, device=gradients[0].device)
        if shards:
            total += torch.stack(torch._foreach_norm(shards)).double().square().sum()
        dist.all_reduce(total)
        if copies:
            total += torch.stack(torch._foreach_norm(copies)).double().square().sum()
        return float(total.sqrt())

    @torch.no_grad()
    def whole_masters(self) -> Iterator[tuple[str, Tensor]]:
        """Name and all of each master, on every process at a time, one after the other."""
        for name, master in self.masters.items():
            yield name, self._gathered(name, master)

    @torch.no_grad()
    def whole_moments(self) -> Iterator[tuple[str, Tensor]]:
        """Name and all of each of `moments`, likewise."""
        for key, value in self.moments().items():
            yield key, self._gathered(key.rpartition("/")[0], value) if value.dim() else value

    def _gathered(self, name: str, rows: Tensor) -> Tensor:
        if name not in self._sharded:
            return rows.detach()
        n = self._whole[name].shape[0]
        step = math.ceil(n / self._n)
        mine = rows.new_zeros((step, *rows.shape[1:]))
        mine[: rows.shape[0]] = rows
        all_of_it = rows.new_empty((step * self._n, *rows.shape[1:]))
        dist.all_gather(list(all_of_it.chunk(self._n)), mine)
        return all_of_it[:n]


def _rows(parameter: nn.Parameter) -> nn.Parameter:
    """This process's rows of a parameter, in the very memory that the parameter has."""
    whole: Any = parameter.detach()
    return nn.Parameter(whole.to_local()) if isinstance(parameter, DTensor) else parameter
