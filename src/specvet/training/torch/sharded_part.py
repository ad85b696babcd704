"""One process's part of a model that several processes train together with `fully_shard` (FSDP2).

Every decoder layer is sharded on its own; embeddings, last norm and output layer are the root's. A layer's weights are
gathered when it is computed and let go afterwards; its gradients are summed over the processes and scattered. The
vision tower is whole everywhere, since it runs on what each process is shown; where it is trained, its gradients are
summed as well, and every process takes the same step.

Every process reads the model to the CPU first, and it goes to the device layer by layer: no device ever holds more than
its part and one layer, and the machine's memory holds the model once a process for a while.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from specvet.chat import Datum
from specvet.policies.torch.loading import dtype_of, load
from specvet.policies.torch.model import TorchModel, at_home
from specvet.policies.torch.positions import stretch
from specvet.training.torch.batches import MicroBatch, cuts, micro_batch
from specvet.training.torch.checkpointing import Checkpointing
from specvet.training.torch.local import identity_of
from specvet.training.torch.passes import Forward, Losses, batch_pass
from specvet.training.torch.preparing import prepare
from specvet.training.torch.sharded_optimiser import ShardedOptimiser
from specvet.training.torch.start import Start
from specvet.training.torch.states import check_state, read_state
from specvet.training.trainer import CROSS_ENTROPY, Adam, Loss, NotFiniteError, Step, TrainerOptions

stock: Any = dist  # parts of it have no types
CHECKPOINTED = 500_000_000
"""Parameters of a model whose layers are checkpointed on a GPU, where nobody says."""
EMPTY = 8
"""Positions of a micro-batch of nothing, which a process computes to keep step with the others."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one process computes of a batch."""

    datums: tuple[Datum, ...]
    pieces: tuple[tuple[int, ...], ...]
    """Indices of the datums that go together; as many pieces in every process, some may be empty."""
    members: tuple[int, ...]
    """Which datums of the batch they are."""


def shares(datums: Sequence[Datum], processes: int, micro_tokens: int) -> list[Share]:
    """A batch dealt out: by length, so that micro-batches that are computed at the same time are about equally long."""
    order = sorted(range(len(datums)), key=lambda i: -datums[i].n_tokens)
    rows = [order[i : i + processes] for i in range(0, len(order), processes)]  # one datum a process
    groups = cuts([datums[row[0]].n_tokens for row in rows], micro_tokens)
    dealt = []
    for rank in range(processes):
        mine = [[rows[r][rank] for r in group if rank < len(rows[r])] for group in groups]
        members = tuple(i for piece in mine for i in piece)
        at = {i: n for n, i in enumerate(members)}
        pieces = tuple(tuple(at[i] for i in piece) for piece in mine)
        dealt.append(Share(tuple(datums[i] for i in members), pieces, members))
    return dealt


class Part:
    """The part of process `rank`. All methods but the first are called on all processes at a time."""

    def __init__(self, rank: int, options: TrainerOptions, device: str) -> None:
        """Reads the model to the CPU. Raises PolicyError, TrainerError."""
        self.options, self._rank = options, rank
        self.device = torch.device(device, rank) if device == "cuda" else torch.device(device)
        dtype = str(dtype_of(options.model.dtype, self.device)).removeprefix("torch.")
        self.model, self.format = load(replace(options.model, device="cpu", dtype=dtype))
        self._told = identity_of(self.model, self.format, options)
        self._trained = prepare(self.model, options.lora, options.vision, options.seed)

    def join(self, port: int, timeout_s: float) -> None:
        """Meet the others, shard the model, and go on from the state that the options name. Raises TrainerError."""
        n, timeout = self.options.processes, timedelta(seconds=timeout_s)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        dist.init_process_group(
            "nccl" if self.device.type == "cuda" else "gloo",
            store=stock.TCPStore("127.0.0.1", port, n, is_master=False, timeout=timeout),
            rank=self._rank,
            world_size=n,
            timeout=timeout,
        )
        self._root = sharded(self.model, self.device)
        trained = set(self._trained)
        named = {name: p for name, p in self.model.module.named_parameters() if name in trained}
        self.model.trained = dict(named)
        self.optimiser = ShardedOptimiser(named)
        if self.options.state is not None:
            self._go_on_from(self.options.state)
        self._start = Start(self._told, self.model, self.optimiser, self.options)
        wanted = self.options.gradient_checkpointing
        if wanted is None:
            size = sum(p.numel() for p in self.model.module.parameters())
            wanted = self.device.type == "cuda" and size > CHECKPOINTED
        Checkpointing(self.model, wanted, tower=self.options.vision == "trained")

    def forward(self, share: Share, loss: Loss, active: int, before: Callable[[], None] | None = None) -> Step:
        """Loss and entropy of the whole batch; log-probs of this share."""
        with at_home(self.device):
            return self._pass(share, loss, active, gradient=False, before=before)

    def forward_backward(self, share: Share, loss: Loss, active: int, before: Callable[[], None] | None = None) -> Step:
        """Likewise, and the gradient; of a loss that is no number it is dropped, and what waited before stays."""
        earlier = self.optimiser.take()
        try:
            with at_home(self.device):
                step = self._pass(share, loss, active, gradient=True, before=before)
                self.optimiser.collect()
            if not np.isfinite(step.loss):
                self.optimiser.clear()
        finally:
            self.optimiser.add(earlier)
        return step

    def reference(self, share: Share, active: int, before: Callable[[], None] | None = None) -> Step:
        """As `forward`, with the weights of the beginning."""
        with at_home(self.device), self._start.weights():
            return self._pass(share, CROSS_ENTROPY, active, gradient=False, before=before)

    def step(self, adam: Adam) -> float | NotFiniteError:
        """The gradient's norm, and a step; or why none was taken."""
        try:
            norm = self.optimiser.step(adam)
        except NotFiniteError as e:
            return e
        self.model.weights_changed()
        return norm

    def masters(self, take: Callable[[str, Tensor], None] | None) -> None:
        """`take` is given each trained weight, float32 on the device; None where only the others want them."""
        for name, whole in self.optimiser.whole_masters():
            if take is not None:
                take(name, whole)

    def moments(self, take: Callable[[str, Tensor], None] | None) -> None:
        """Likewise what the optimiser keeps."""
        for name, whole in self.optimiser.whole_moments():
            if take is not None:
                take(name, whole)

    def _pass(
        self, share: Share, loss: Loss, active: int, *, gradient: bool, before: Callable[[], None] | None
    ) -> Step:
        batches = [micro_batch(share.datums, piece, loss) if piece else _nothing(loss) for piece in share.pieces]
        try:
            step = batch_pass(
                self.model,
                batches,
                share.datums,
                loss,
                active,
                gradient=gradient,
                tower=self.options.vision == "trained",
                before=(lambda batch: before()) if before is not None else (lambda batch: None),
                through=self._root,
                scale=self.options.processes,  # since gradients are averaged over the processes
            )
        finally:
            self._root.reshard()  # or the next pass would see the root's weights as they are now
        both = torch.tensor([step.loss, step.entropy or 0.0], dtype=torch.float64, device=self.device)
        dist.all_reduce(both)
        total, entropy = both.tolist()
        return replace(step, loss=total, entropy=None if step.entropy is None else entropy)

    def _go_on_from(self, folder: str) -> None:
        state = read_state(folder)
        check_state(state, self._told, self.optimiser.shapes)
        self.optimiser.set_weights(state.weights())
        if self.options.with_optimizer:
            self.optimiser.set_moments(state.moments(), state.steps)


def worker(rank: int, options: TrainerOptions, device: str) -> Part:
    """The part of a process that does nothing else."""
    if device == "cpu":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.processes))
    return Part(rank, options, device)


class Root(nn.Module):
    """Text model and output layer; computes a whole micro-batch with them, in whatever way it is told."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, forward: Forward) -> Losses:
        return forward()


def sharded(model: TorchModel, device: torch.device) -> Any:
    """Shard a model over all processes, onto this one's device; what its micro-batches are computed through. What is
    trained is sharded in float32, and computed with in the model's precision."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    lower = None if model.dtype == torch.float32 else model.dtype
    precision = MixedPrecisionPolicy(param_dtype=lower, reduce_dtype=torch.float32, cast_forward_inputs=False)

    def shard(module: nn.Module) -> Any:
        for p in module.parameters():
            if p.requires_grad and not isinstance(p, DTensor):
                p.data = p.data.float()
        return fully_shard(module, mesh=mesh, mp_policy=precision)

    for layer in model.text.layers:
        shard(layer)
    root = shard(Root(model.text, model.head))
    model.vision.visual.to(device)
    model.device = device
    return root


def _nothing(loss: Loss) -> MicroBatch:
    none: NDArray[Any] = np.zeros(0, dtype=np.float32)
    rollouts = loss.name != "cross_entropy"
    return MicroBatch(
        (),
        (stretch(((0,) * EMPTY,), 0, EMPTY),),
        EMPTY,
        none.astype(np.int64),
        none.astype(np.int64),
        none,
        none if rollouts else None,
        none if rollouts else None,
    )
