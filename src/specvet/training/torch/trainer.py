"""`TorchTrainer`: the `Trainer` of a transformers model on this machine, in one process.

The model is opened once. What is trained lies in it and is what `sampler()` samples with: no copies, no reloading. All
work runs on one thread of the trainer's own, so the event loop stays free; the sampler waits meanwhile, and training is
refused while something is being sampled.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from specvet.agent.crew import Crew
from specvet.chat import ChatFormat, Datum
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.loading import load, model_folder
from specvet.policies.torch.model import TorchModel, is_out_of_memory
from specvet.policies.torch.policy import TorchPolicy
from specvet.training.torch.batches import MICRO_TOKENS, MicroBatch, check, launching, micro_batches
from specvet.training.torch.checkpointing import Checkpointing
from specvet.training.torch.local import ADVICE, LocalTrainer, check_finite, check_options
from specvet.training.torch.optimiser import Optimiser
from specvet.training.torch.passes import batch_pass
from specvet.training.torch.preparing import prepare
from specvet.training.torch.sharing import CrewPolicy, open_crew
from specvet.training.torch.start import Start
from specvet.training.torch.states import check_state, read_state, save_adapter, save_model, save_state
from specvet.training.trainer import (
    CROSS_ENTROPY,
    Adam,
    Loss,
    Step,
    TrainerError,
    TrainerOptions,
    Update,
)

T = TypeVar("T")


class TorchTrainer(LocalTrainer):
    """Trains a LoRA, or the weights themselves, of one model: see `specvet.training.trainer.Trainer`."""

    def __init__(self, model: TorchModel, format: ChatFormat, options: TrainerOptions) -> None:
        """Makes the model trainable. Raises TrainerError for a state that does not fit."""
        super().__init__(model, format, options)
        self._optimiser = Optimiser(prepare(model, options.lora, options.vision, options.seed))
        if options.state is not None:
            self._go_on_from(options.state)
        self._start = Start(self._told, model, self._optimiser, options)
        self._micro_tokens = options.micro_tokens or MICRO_TOKENS.get(model.device.type, MICRO_TOKENS["cpu"])
        self._checkpointing = Checkpointing(model, options.gradient_checkpointing, tower=options.vision == "trained")
        self._launching = launching(model)
        self._shrunk = False
        self._largest = 0
        """Positions of the largest micro-batch of the last pass."""
        self._sampled = False
        """Whether the sampler was asked for since its memory was given back."""
        self._crew: Crew | None = None
        """The processes that roll out with the weights here, where there are some."""

    @classmethod
    def open(cls, options: TrainerOptions) -> TorchTrainer:
        """The trainer that the options name. Raises TrainerError."""
        check_options(options)
        if options.processes != 1:
            raise TrainerError(f"{options.processes} processes; this trainer runs in one")
        try:
            model, format = load(options.model)
            return cls(model, format, options)
        except PolicyError as e:
            raise TrainerError(str(e)) from e
        except Exception as e:
            if is_out_of_memory(e):
                raise TrainerError(
                    "out of memory: the model does not fit with what training it takes; train a LoRA"
                ) from e
            raise

    # --- training

    def forward(self, datums: Sequence[Datum], loss: Loss = CROSS_ENTROPY) -> Future[Step]:
        def work() -> Step:
            step = self._fitted(lambda: self._pass(datums, loss, gradient=False))
            self.usage.forward_tokens += sum(d.n_tokens for d in datums)
            return step

        return self._do(work)

    def forward_backward(self, datums: Sequence[Datum], loss: Loss) -> Future[Step]:
        def whole() -> Step:
            self._optimiser.clear()  # of what was begun and did not fit
            return self._pass(datums, loss, gradient=True)

        def work() -> Step:
            earlier = self._optimiser.take()  # so that what goes wrong here costs only what is done here
            try:
                step = self._fitted(whole)
                check_finite(step, datums)
            except BaseException:
                self._optimiser.clear()
                raise
            finally:
                self._optimiser.add(earlier)
            self._count(datums, step)
            return step

        return self._do(work)

    def optim_step(self, adam: Adam) -> Future[Update]:
        def work() -> Update:
            if not self._optimiser.waits:
                raise TrainerError("no gradient waits for a step; call forward_backward first")
            norm = self._optimiser.step(adam)
            self.usage.updates += 1
            self._changed()
            return Update(norm)

        return self._do(work)

    def reference(self, datums: Sequence[Datum]) -> Future[tuple[NDArray[np.float32], ...]]:
        def work() -> tuple[NDArray[np.float32], ...]:
            with self._start.weights():
                step = self._fitted(lambda: self._pass(datums, CROSS_ENTROPY, gradient=False))
            self.usage.forward_tokens += sum(d.n_tokens for d in datums)
            return step.logprobs

        return self._do(work)

    def _pass(self, datums: Sequence[Datum], loss: Loss, *, gradient: bool) -> Step:
        active = check(datums, loss, self.model, self.format)
        batches = micro_batches(datums, loss, self._micro_tokens, self._launching)
        self._largest = max(batch.padded_tokens for batch in batches)

        def before(batch: MicroBatch) -> None:
            self._check_open()
            if gradient:
                self._checkpointing.plan(batch, later=self._optimiser.later_bytes, free=self._free)

        tower = self.options.vision == "trained"
        return batch_pass(self.model, batches, datums, loss, active, gradient=gradient, tower=tower, before=before)

    def _fitted(self, work: Callable[[], T]) -> T:
        """What the work gives. Where memory runs out, all of it is done again, once, with smaller micro-batches.

        Raises TrainerError where it runs out again.
        """
        try:
            return work()
        except Exception as e:
            if not is_out_of_memory(e):
                raise
            if self._shrunk:
                raise self._out_of_memory() from e
        self._free()  # here, where the error and its frames hold nothing any more
        self.model.vision.forget()
        gc.collect()
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()
        self._checkpointing.all()
        self._shrunk, self._micro_tokens = True, max(1, min(self._micro_tokens, self._largest) // 2)
        self._tell(
            f"out of memory on {self.model.device}: micro-batches have at most {self._micro_tokens} positions from now "
            f"on, instead of {self._largest}; set micro_tokens to {self._micro_tokens} to begin so"
        )
        try:
            return work()
        except Exception as e:
            if is_out_of_memory(e):
                raise self._out_of_memory() from e
            raise

    def _out_of_memory(self) -> TrainerError:
        return TrainerError(
            f"out of memory on {self.model.device} again, with a micro-batch of {self._largest} positions: {ADVICE}"
        )

    def _free(self) -> bool:
        """Give back the memory that the sampler's turns lie in; whether it had any."""
        if self._policy is None or not self._sampled:
            return False
        self._policy.drop(memory=True)
        if self._crew is not None:
            self._crew.everywhere("forget")
        self._sampled = False
        if self.model.device.type == "cuda":
            torch.cuda.empty_cache()
        return True

    # --- saving, sampling, closing

    def save_state(self, name: str, folder: Path) -> Future[str]:
        def write(path: Path) -> None:
            optimiser = self._optimiser
            save_state(path, self._told, optimiser.masters, optimiser.moments(), optimiser.steps)

        return self._save(f"{name}-state", folder, write)

    def save_sampler(self, name: str, folder: Path) -> Future[str]:
        options = self.options.model

        def write(path: Path) -> None:
            if self.options.lora is not None:
                save_adapter(path, self.model, options.model)
            else:
                base = None if options.model is None else model_folder(options.model, options.revision)
                save_model(path, self.model, self.format, base)

        return self._save(f"{name}-sampler", folder, write)

    def sampler(self) -> TorchPolicy:
        """The policy of this trainer's own weights, always the same one. It is idle while there is training work, and
        forgets its caches when the weights change; their memory goes when training needs it. So do those of its crew,
        which is opened with it."""
        self._check_open()
        if self._policy is None:
            context = self.options.model.context
            policy = CrewPolicy(self.model, self.format, branches=self.options.branches, context=context)
            if self.options.rollout_processes > 1:
                open_crew(policy, self.options)
                self._crew = policy.crew
            self._policy = policy
        self._sampled = True
        return self._policy

    async def aclose(self) -> None:
        """Free everything; work in hand ends at its next micro-batch. May be called twice."""
        self._closing.set()
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        if self._crew is not None:
            await asyncio.to_thread(self._crew.close)
        if self._policy is not None:
            await self._policy.aclose()
        self.model.close()

    def _changed(self) -> None:
        self.model.weights_changed()
        if self._policy is not None:
            self._policy.drop()
        if isinstance(self._policy, CrewPolicy):
            self._policy.tell()

    def _do(self, work: Callable[[], T], *, timed: bool = True) -> Future[T]:
        if self._crew is not None and (n := self._crew.under_way):
            raise TrainerError(f"{n} trajectories are under way; weights may change between batches only")
        return super()._do(work, timed=timed)

    def _go_on_from(self, folder: str) -> None:
        state = read_state(folder)
        check_state(state, self._told, self._optimiser.shapes)
        self._optimiser.set_weights(state.weights())
        if self.options.with_optimizer:
            self._optimiser.set_moments(state.moments(), state.steps)
        self.model.weights_changed()
