"""`ShardedTrainer`: the torch trainer over several GPUs of one machine, or several CPU processes.

This process is the first of them, and holds what the loops need; the others are started here and run the same calls
(`workers.py`) on their parts of the model (`sharded_part.py`). A batch is dealt out by length; N, its active tokens, is
counted over all of it, so the numbers are those of one process up to the order of float additions.

The sampler is a whole model of its own in this process, on the first GPU: it is made when it is first asked for, and
after an update the trained weights are gathered into it, of a LoRA the adapters only. So one GPU holds a whole model
beside its part, and samples alone while the others wait.

What fails in one process ends them all: the trainer is then closed for everything but closing, and a run goes on from
its last checkpoint, on any number of processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from specvet.chat import Datum, ImageError, LedgerError
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.loading import load, model_folder
from specvet.policies.torch.model import TorchModel, is_out_of_memory
from specvet.policies.torch.policy import TorchPolicy
from specvet.training.torch.batches import MICRO_TOKENS, check
from specvet.training.torch.local import LocalTrainer, check_finite, check_options
from specvet.training.torch.preparing import prepare
from specvet.training.torch.sharded_part import Part, Share, shares, worker
from specvet.training.torch.states import read_state, save_adapter, save_model, save_state
from specvet.training.torch.workers import TIMEOUT_S, Workers, WorkersError
from specvet.training.trainer import (
    CROSS_ENTROPY,
    Adam,
    Loss,
    NotFiniteError,
    Step,
    TrainerError,
    TrainerOptions,
    Update,
)

stock: Any = dist  # parts of it have no types


class ShardedTrainer(LocalTrainer):
    """A trainer whose model is sharded over `options.processes` processes."""

    def __init__(self, part: Part, workers: Workers, store: Any) -> None:
        """This process's part, the processes of all others, and where they met."""
        super().__init__(part.model, part.format, part.options)
        self._part, self._workers, self._store = part, workers, store
        self._micro_tokens = part.options.micro_tokens or MICRO_TOKENS[part.device.type]
        self._waits = False
        """Whether a gradient waits for a step."""
        self._replica: TorchModel | None = None
        self._stale = True
        """Whether the replica lags behind."""

    @classmethod
    def open(cls, options: TrainerOptions) -> ShardedTrainer:
        """Start the processes, and open the model in all of them. Raises TrainerError."""
        check_options(options)
        if options.rollout_processes != 1:
            raise TrainerError("a sharded model samples in its own processes; set grpo.processes to 1")
        device = _device(options)
        _settle()
        n = options.processes
        try:
            if options.model.model is not None:
                model_folder(options.model.model, options.model.revision)  # once, should it have to be downloaded
        except PolicyError as e:
            raise TrainerError(str(e)) from e
        for state in filter(None, (options.state, options.reference_state)):
            read_state(state)
        if dist.is_initialized():
            raise TrainerError("this process belongs to a torch process group already; close the other trainer first")
        workers = Workers(n - 1, worker, (options, device), expected=expected, broken=_abort)
        try:
            part = Part(0, options, device)
            workers.answers()  # all have read the model
            store = stock.TCPStore("127.0.0.1", 0, n, is_master=True, wait_for_workers=False)
            workers.together(part, "join", [(store.port, TIMEOUT_S)] * n)
            return cls(part, workers, store)
        except BaseException as e:
            workers.close()
            _leave()
            told = str(e) if isinstance(e, WorkersError) else expected(e)
            if told is not None:
                raise TrainerError(told) from e
            raise

    # --- training

    def forward(self, datums: Sequence[Datum], loss: Loss = CROSS_ENTROPY) -> Future[Step]:
        def work() -> Step:
            step = self._passed("forward", datums, loss)
            self.usage.forward_tokens += sum(d.n_tokens for d in datums)
            return step

        return self._do(work)

    def forward_backward(self, datums: Sequence[Datum], loss: Loss) -> Future[Step]:
        def work() -> Step:
            if self._policy is not None and self.model.device.type == "cuda":
                self._policy.drop(memory=True)  # what this GPU has more to hold than the others
                torch.cuda.empty_cache()
            step = self._passed("forward_backward", datums, loss)
            check_finite(step, datums)
            self._waits = True
            self._count(datums, step)
            return step

        return self._do(work)

    def optim_step(self, adam: Adam) -> Future[Update]:
        def work() -> Update:
            if not self._waits:
                raise TrainerError("no gradient waits for a step; call forward_backward first")
            self._waits = False
            norm = self._together("step", (adam,))[0]
            if isinstance(norm, NotFiniteError):
                raise norm
            self.usage.updates += 1
            self._stale = True
            return Update(norm)

        return self._do(work)

    def reference(self, datums: Sequence[Datum]) -> Future[tuple[NDArray[np.float32], ...]]:
        def work() -> tuple[NDArray[np.float32], ...]:
            step = self._passed("reference", datums, None)
            self.usage.forward_tokens += sum(d.n_tokens for d in datums)
            return step.logprobs

        return self._do(work)

    def _passed(self, name: str, datums: Sequence[Datum], loss: Loss | None) -> Step:
        active = check(datums, loss or CROSS_ENTROPY, self.model, self.format)
        dealt = shares(datums, self.options.processes, self._micro_tokens)
        of = (active,) if loss is None else (loss, active)
        calls: list[tuple[Any, ...]] = [(share, *of) for share in dealt]
        calls[0] = (*calls[0], self._before)
        return _whole(self._everywhere(name, calls), dealt, len(datums))

    def _before(self) -> None:
        self._check_open()
        self._workers.alive()

    # --- saving and sampling

    def save_state(self, name: str, folder: Path) -> Future[str]:
        def write(path: Path) -> None:
            masters, moments = self._gathered("masters"), self._gathered("moments")
            save_state(path, self._told, masters, moments, self._part.optimiser.steps)

        return self._save(f"{name}-state", folder, write)

    def save_sampler(self, name: str, folder: Path) -> Future[str]:
        options = self.options.model

        def write(path: Path) -> None:
            dtype = None if self.options.lora is not None else self.model.dtype
            weights = self._gathered("masters", dtype)
            if self.options.lora is not None:
                save_adapter(path, self.model, options.model, weights)
            else:
                base = None if options.model is None else model_folder(options.model, options.revision)
                save_model(path, self.model, self.format, base, _completed(self.model, weights))

        return self._save(f"{name}-sampler", folder, write)

    def sampler(self) -> Future[TorchPolicy]:
        """The policy of this trainer's weights as they are now, always the same one."""

        def work() -> TorchPolicy:
            if self._replica is None:
                self._replica = self._whole_model()
            if self._stale:
                self._refresh(self._replica)
            if self._policy is None:
                options = self.options
                self._policy = TorchPolicy(
                    self._replica, self.format, branches=options.branches, context=options.model.context
                )
            return self._policy

        return self._do(work)

    def _whole_model(self) -> TorchModel:
        """A model on this process's device, with trainable weights by the names that they have in the parts."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        try:
            model, _ = load(replace(self.options.model, device=str(self.model.device), dtype=dtype))
        except Exception as e:
            if is_out_of_memory(e):
                raise TrainerError(
                    f"out of memory: {self.model.device} cannot hold a whole model to sample with, beside its part; "
                    "take more processes, or a smaller model"
                ) from e
            raise
        prepare(model, self.options.lora, self.options.vision, self.options.seed)
        return model

    def _refresh(self, replica: TorchModel) -> None:
        @torch.no_grad()
        def put(name: str, whole: Tensor) -> None:
            replica.trained[name].copy_(whole)

        self._together("masters", (put,), others=(None,))
        replica.weights_changed()
        if self._policy is not None:
            self._policy.drop()
        self._stale = False

    def _gathered(self, what: str, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """Whole weights or moments on the CPU; one at a time is whole on the device."""
        taken: dict[str, Tensor] = {}

        def take(name: str, whole: Tensor) -> None:
            self._workers.alive()
            taken[name] = whole.to("cpu", dtype, copy=True)

        self._together(what, (take,), others=(None,))
        return taken

    async def aclose(self) -> None:
        """End the processes and free everything; work in hand ends at its next micro-batch. May be called twice."""
        self._closing.set()
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        if self._policy is not None:
            await self._policy.aclose()
        await asyncio.to_thread(self._workers.close)
        _leave()
        self.model.close()

    # --- the processes

    def _together(self, name: str, arguments: tuple[Any, ...], *, others: tuple[Any, ...] | None = None) -> list[Any]:
        rest = [arguments if others is None else others] * (self.options.processes - 1)
        return self._everywhere(name, [arguments, *rest])

    def _everywhere(self, name: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        try:
            return self._workers.together(self._part, name, calls)
        except WorkersError as e:
            raise TrainerError(f"{e}; training goes on from the last checkpoint") from e
        except Exception as e:
            if is_out_of_memory(e):
                raise TrainerError(f"process 0: {expected(e)}") from e
            raise


def expected(error: BaseException) -> str | None:
    """What a person is told of an error that has a known cause; None for others, whose traceback is needed."""
    if is_out_of_memory(error):
        return (
            "out of memory: set micro_tokens lower, switch gradient_checkpointing on, take more processes, or train a "
            "LoRA; what was saved before is intact"
        )
    return str(error) if isinstance(error, TrainerError | PolicyError | LedgerError | ImageError) else None


def _device(options: TrainerOptions) -> str:
    """Where the processes compute, `cuda` or `cpu`. Raises TrainerError."""
    name = options.model.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cuda", "cpu"):
        raise TrainerError(
            f"{options.processes} processes on the device {name!r}: name `cuda`, of which each process takes one, "
            "or `cpu`; CUDA_VISIBLE_DEVICES says which GPUs there are"
        )
    if name == "cuda" and (there := torch.cuda.device_count()) < options.processes:
        raise TrainerError(f"{options.processes} processes need as many GPUs, and there are {there}")
    return name


def _settle() -> None:
    """What the processes need to find each other on this machine, unless somebody says otherwise."""
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")  # the listener sees to it, and this process lives on


def _abort() -> None:
    """Break off what this process waits for; gloo does so itself when the others are gone."""
    if dist.is_initialized() and dist.get_backend() == "nccl":
        with contextlib.suppress(Exception):
            dist.distributed_c10d._abort_process_group()


def _leave() -> None:
    """Leave the group, whether or not anybody is left in it."""
    _abort()
    if dist.is_initialized():
        with contextlib.suppress(Exception):
            dist.destroy_process_group()


def _whole(steps: Sequence[Step], dealt: Sequence[Share], n: int) -> Step:
    """The batch's step from those of the shares, each of which knows the whole loss already."""
    logprobs: list[Any] = [None] * n
    for step, share in zip(steps, dealt, strict=True):
        for i, values in zip(share.members, step.logprobs, strict=True):
            logprobs[i] = values
    notes = {
        "micro_batches": max(step.notes["micro_batches"] for step in steps),
        "padded_tokens": sum(step.notes["padded_tokens"] for step in steps),
    }
    return replace(steps[0], logprobs=tuple(logprobs), notes=notes)


def _completed(model: TorchModel, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict: `weights`, tied ones under all of their names, and the rest from the model."""
    names = {id(p): name for name, p in model.module.named_parameters()}
    everything = model.module.state_dict(keep_vars=True)
    return {key: weights.get(names.get(id(value), ""), value) for key, value in everything.items()}
