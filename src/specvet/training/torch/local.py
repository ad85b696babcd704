"""What trainers on this machine have in common: the thread that does the work while the sampler waits, and counts."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from specvet.chat import ChatFormat, Datum, ImageError, LedgerError
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.model import TorchModel, at_home, is_out_of_memory
from specvet.policies.torch.policy import TorchPolicy
from specvet.training.torch.preparing import identity
from specvet.training.trainer import (
    NotFiniteError,
    Step,
    TrainerCapability,
    TrainerError,
    TrainerOptions,
    TrainUsage,
    odd_datums,
)

T = TypeVar("T")
ADVICE = (
    "set micro_tokens lower, switch gradient_checkpointing on, allow shorter trajectories, sample fewer branches, or "
    "train a LoRA; what was saved before is intact"
)
"""Where memory does not do."""


class LocalTrainer:
    """One loop owns it. Results are futures of its thread; `messages` collects what people should hear."""

    name = "torch"
    capabilities: frozenset[TrainerCapability] = frozenset({"entropy", "reference", "grad_norm", "local"})

    def __init__(self, model: TorchModel, format: ChatFormat, options: TrainerOptions) -> None:
        """`model` has not been changed in any way yet, unless its `base` was asked for before."""
        self.model, self.format, self.options = model, format, options
        self.context: int | None = model.max_positions
        self.usage = TrainUsage()
        self.messages: list[str] = []
        self._told = identity_of(model, format, options)
        self._policy: TorchPolicy | None = None
        self._closing = threading.Event()
        self._thread = ThreadPoolExecutor(1, "torch-trainer")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the base model, of what is trained of it, and of format, vocabulary and dtype."""
        told = {k: v for k, v in self._told.items() if k != "model"}
        of = (told, self.model.dtype, self.format.vocabulary.fingerprint, self.format.geometry)
        return hashlib.sha256(repr(of).encode()).hexdigest()

    def _do(self, work: Callable[[], T], *, timed: bool = True) -> Future[T]:
        """Work as a future of this trainer's thread, alone on the device: the sampler waits from this call on."""
        self._check_open()
        try:
            hold = None if self._policy is None else self._policy.held()
        except PolicyError as e:  # somebody closed it
            raise TrainerError(str(e)) from e

        def run() -> T:
            started = time.perf_counter()
            try:
                with at_home(self.model.device), hold or nullcontext():
                    return work()
            except (PolicyError, LedgerError, ImageError) as e:
                raise TrainerError(str(e)) from e
            except Exception as e:
                if is_out_of_memory(e):
                    raise TrainerError(f"out of memory on {self.model.device}; {ADVICE}") from e
                raise
            finally:
                if timed:
                    self.usage.seconds += time.perf_counter() - started

        done = self._thread.submit(run)
        if hold is not None:
            done.add_done_callback(lambda _: hold.release())  # of work that is called off before it begins
        return done

    def _save(self, name: str, folder: Path, write: Callable[[Path], None]) -> Future[str]:
        def work() -> str:
            started = time.perf_counter()
            write(Path(folder) / name)
            self.usage.save_seconds += time.perf_counter() - started
            return name

        return self._do(work, timed=False)

    def _count(self, datums: Sequence[Datum], step: Step) -> None:
        usage = self.usage
        usage.trained_tokens += sum(d.n_tokens for d in datums)
        usage.active_tokens += step.n_active
        usage.padded_tokens += int(step.notes["padded_tokens"])
        usage.images += sum(len(d.images) for d in datums)
        usage.batches += 1

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise TrainerError("this trainer is closed")

    def _tell(self, message: str) -> None:
        self.messages.append(message)


def check_options(options: TrainerOptions) -> None:
    """Raises TrainerError for what no trainer on this machine can use."""
    if options.model.adapter is not None:
        raise TrainerError("an adapter cannot be trained on: begin from a state that the torch trainer saved")
    if options.lora is not None and options.lora.unembed:
        raise TrainerError("the torch trainer has no adapter for the output layer; leave `unembed` off")


def identity_of(model: TorchModel, format: ChatFormat, options: TrainerOptions) -> dict[str, Any]:
    """What is trained of which base model, as it is written beside saved weights and compared when they are read."""
    told = {"model": options.model.model, "base": model.base, "format": format.name}
    return told | identity(options.lora, options.vision)


def check_finite(step: Step, datums: Sequence[Datum]) -> None:
    """Raises NotFiniteError, which names the datums."""
    if np.isfinite(step.loss):
        return
    where = odd_datums(datums, step.logprobs)
    raise NotFiniteError(f"the loss is {step.loss}{where}; its gradient was dropped, and no weight has changed")
