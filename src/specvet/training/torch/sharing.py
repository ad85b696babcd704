"""Samplers in other processes, on the weights that this one trains.

Each process opens the same model, is made trainable in the same way, and lets go of its weights for those of the
trainer: on a GPU by CUDA's handles between processes, on a CPU in shared memory. A step changes weights where they lie,
so nothing is sent afterwards; samplers are told to forget what the old ones gave.

Where a GPU's memory cannot be shared (in some containers), what is trained is copied instead: after each step to the
machine's shared memory, and from there to each process's own weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.multiprocessing  # teaches processes to send tensors by where they lie
from torch import Tensor

from specvet.agent.crew import Crew
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.loading import load
from specvet.policies.torch.policy import TorchPolicy
from specvet.training.torch.preparing import prepare
from specvet.training.trainer import TrainerError, TrainerOptions


class CrewPolicy(TorchPolicy):
    """A trainer's sampler whose rollouts run in the processes of `crew`, where it has one."""

    crew: Crew | None = None
    mirror: Mapping[str, Tensor] | None = None
    """What is trained, in shared memory; None where processes read it where it lies."""

    def tell(self) -> None:
        """All processes sample with the weights of now from here on. Raises PolicyError while they sample."""
        if self.crew is None:
            return
        if self.mirror is not None:
            for name, values in self.mirror.items():
                values.copy_(self.model.trained[name].detach())
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)
        self.crew.everywhere("weights_changed")


class SharedPolicy(TorchPolicy):
    """What samples in such a process."""

    mirror: Mapping[str, Tensor] | None = None

    def weights_changed(self) -> None:
        with self.held():
            if self.mirror is not None:
                for name, values in self.mirror.items():
                    self.model.trained[name].data.copy_(values)
            self.drop()
            self.model.weights_changed()

    def forget(self) -> None:
        """Give back the memory that turns lie in, and the features of pictures. Raises PolicyError while it samples."""
        with self.held():
            self.drop(memory=True)
            self.model.vision.forget()
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()


def open_crew(policy: CrewPolicy, options: TrainerOptions, *, shared: bool = True) -> str | None:
    """Give a trainer's policy its processes; what people should hear of it. Raises TrainerError.

    Without `shared`, what is trained is copied after each step.
    """
    n, model = options.rollout_processes, policy.model
    branches = -(-options.branches // n)
    told = replace(options, model=replace(options.model, device=str(model.device)), state=None, branches=branches)
    if shared:
        weights = {name: p.detach() for name, p in model.module.named_parameters()}
    else:
        weights = {name: p.detach().cpu().clone() for name, p in model.trained.items()}
    try:
        policy.crew = Crew(policy, shared_policy, (told, weights, shared), n)
    except PolicyError as e:
        raise TrainerError(str(e)) from e
    except RuntimeError as e:  # of torch
        if not shared or model.device.type != "cuda":
            raise
        open_crew(policy, options, shared=False)
        return f"rollout processes cannot share the GPU's memory and copy weights after each step instead: {e}"
    policy.mirror = None if shared else weights
    return None


def shared_policy(options: TrainerOptions, weights: Mapping[str, Tensor], shared: bool) -> SharedPolicy:
    """A policy on weights that another process owns, or on copies of those it trains. Raises PolicyError."""
    model, format = load(options.model)
    prepare(model, options.lora, options.vision, options.seed)
    mine = dict(model.module.named_parameters()) if shared else dict(model.trained)
    if odd := mine.keys() ^ weights.keys():
        raise PolicyError(f"a rollout process has another model: {sorted(odd)[0]} is not in both", fatal=True)
    for name, parameter in mine.items():
        given = weights[name]
        if (given.shape, given.dtype) != (parameter.shape, parameter.dtype):
            raise PolicyError(f"a rollout process has another model: {name} is {given.dtype} {given.shape}", fatal=True)
        if shared:
            parameter.data = given
        else:
            parameter.data.copy_(given)
    model.weights_changed()
    policy = SharedPolicy(model, format, branches=options.branches, context=options.model.context)
    policy.mirror = None if shared else weights
    return policy
