"""Samplers in other processes, on copies of the weights that this one trains.

Each process opens the same model on the same device and makes it trainable in the same way. What is trained lies once
more in memory that all processes of this machine see: a step is written there, and each process copies it from there
before it samples again. A small model's weights take milliseconds, and no process holds memory of another's GPU.
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

Weights = Mapping[str, Tensor]
"""What is trained, by name, in shared memory."""


class CrewPolicy(TorchPolicy):
    """A trainer's sampler whose rollouts run in the processes of `crew`, where it has one."""

    crew: Crew | None = None
    weights: Weights | None = None

    def tell(self) -> None:
        """All processes sample with the weights of now from here on. Raises PolicyError while they sample."""
        if self.crew is None:
            return
        for name, values in (self.weights or {}).items():
            values.copy_(self.model.trained[name].detach())
        self.crew.everywhere("weights_changed")


class CopyPolicy(TorchPolicy):
    """What samples in such a process."""

    weights: Weights | None = None

    def weights_changed(self) -> None:
        """Take the weights of now. Raises PolicyError while something is sampled."""
        with self.held():
            self.take()
            self.drop()
            self.model.weights_changed()

    def take(self) -> None:
        for name, values in (self.weights or {}).items():
            self.model.trained[name].data.copy_(values)

    def forget(self) -> None:
        """Give back the memory that turns lie in, and the features of pictures. Raises PolicyError while it samples."""
        with self.held():
            self.drop(memory=True)
            self.model.vision.forget()
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()


def open_crew(policy: CrewPolicy, options: TrainerOptions) -> None:
    """Give a trainer's policy its processes. Raises TrainerError."""
    n, model = options.rollout_processes, policy.model
    branches = -(-options.branches // n)
    told = replace(options, model=replace(options.model, device=str(model.device)), state=None, branches=branches)
    # What is sent to another process moves to shared memory, and is seen by both from then on.
    policy.weights = {name: p.detach().cpu().clone() for name, p in model.trained.items()}
    try:
        policy.crew = Crew(policy, copy_policy, (told, policy.weights), n)
    except PolicyError as e:
        raise TrainerError(str(e)) from e


def copy_policy(options: TrainerOptions, weights: Weights) -> CopyPolicy:
    """A policy of this process's own on copies of these weights. Raises PolicyError."""
    model, format = load(options.model)
    prepare(model, options.lora, options.vision, options.seed)
    if odd := model.trained.keys() ^ weights.keys():
        raise PolicyError(f"a rollout process has another model: {sorted(odd)[0]} is not in both", fatal=True)
    for name, parameter in model.trained.items():
        given = weights[name]
        if (given.shape, given.dtype) != (parameter.shape, parameter.dtype):
            raise PolicyError(
                f"a rollout process has another model: {name} is {given.dtype} {tuple(given.shape)}", fatal=True
            )
    policy = CopyPolicy(model, format, branches=options.branches, context=options.model.context)
    policy.weights = weights
    policy.take()
    model.weights_changed()
    return policy
