"""What trains behind both loopback services: stock transformers, peft's LoRA and AdamW, one datum at a time.

Nothing here is shared with the trainers that are tested against it: the losses are written out once more, on the
targets and numbers as they came over the line, and each service divides by what its own protocol says.
"""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from services.backing import Backing, Chunk

IGNORED = -100
ALPHA = 32.0
_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")


class BadRequestError(ValueError):
    """What a service answers to a datum that it cannot take."""


@dataclass(frozen=True)
class Shape:
    """An adapter, as both services ask for it."""

    rank: int
    seed: int | None
    mlp: bool
    attention: bool
    unembed: bool


@dataclass(frozen=True)
class Example:
    """One datum as it came over the line."""

    chunks: list[Chunk]
    targets: list[int]
    numbers: dict[str, list[float]]
    """`weights`, or `logprobs` and `advantages`."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint: the adapter, and for a state the optimiser too."""

    model: str
    shape: Shape
    weights: dict[str, torch.Tensor] = field(repr=False)
    optimizer: dict[str, Any] | None = field(repr=False)


class Run:
    """One training run: an adapter on a copy of the base model, its gradient and its optimiser."""

    def __init__(self, backing: Backing, model: str, shape: Shape) -> None:
        self._backing = backing
        self.name, self.shape = model, shape
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft asks transformers for an old name
            torch.manual_seed(0 if shape.seed is None else shape.seed)
            self._model = get_peft_model(copy.deepcopy(backing.model), _lora(shape)).eval()
        if backing.adapter is not None:
            self.load(backing.adapter)
        self._learnt = [p for p in self._model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(self._learnt, lr=0.0)

    @classmethod
    def resumed(cls, backing: Backing, saved: Saved, *, optimizer: bool) -> Run:
        """From a checkpoint, with its optimiser or a new one."""
        run = cls(backing, saved.model, saved.shape)
        run.load(saved.weights)
        if optimizer and saved.optimizer is not None:
            run._optimizer.load_state_dict(copy.deepcopy(saved.optimizer))
        return run

    def load(self, weights: dict[str, torch.Tensor]) -> None:
        """Put an adapter's weights in, by peft's names."""
        assert not set_peft_model_state_dict(self._model, weights).unexpected_keys

    def saved(self, *, optimizer: bool) -> Saved:
        """A copy of the adapter as it is now."""
        weights = {name: value.detach().clone() for name, value in get_peft_model_state_dict(self._model).items()}
        state = copy.deepcopy(self._optimizer.state_dict()) if optimizer else None
        return Saved(self.name, self.shape, weights, state)

    def sampler(self) -> Backing:
        """What samples with the adapter as it is now, and goes on doing so."""
        return self._backing.of_model(copy.deepcopy(self._model))

    def forward(
        self, examples: list[Example], loss: str, config: dict[str, float], *, divisor: float, learn: bool
    ) -> tuple[list[list[float]], float, int]:
        """(log-probs of the targets, the loss summed over tokens, active tokens).

        The gradient of sum / divisor is added to what waits.
        """
        logprobs: list[list[float]] = []
        total, active = 0.0, 0
        with torch.set_grad_enabled(learn):
            for example in examples:
                p, mask = self._logprobs(example)
                lost = (_losses(loss, p, example, config) * mask).sum()
                if learn:
                    (lost / divisor).backward()
                logprobs.append(p.detach().tolist())
                total += float(lost.detach())
                active += int(mask.sum())
        return logprobs, total, active

    def step(self, adam: dict[str, float]) -> float:
        """One step of AdamW with the gradient that waits; gives its norm before clipping."""
        clip = adam["grad_clip_norm"] or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self._learnt, clip))
        for group in self._optimizer.param_groups:
            group["lr"], group["eps"] = adam["learning_rate"], adam["eps"]
            group["betas"] = (adam["beta1"], adam["beta2"])
            group["weight_decay"] = adam["weight_decay"]
        self._optimizer.step()
        self._optimizer.zero_grad()
        return norm

    def _logprobs(self, example: Example) -> tuple[torch.Tensor, torch.Tensor]:
        ids, _, pixels = self._backing.read(example.chunks)
        targets = torch.tensor(example.targets)
        for name, values in {"targets": example.targets, **example.numbers}.items():
            if len(values) != len(ids):
                raise BadRequestError(f"{name} has {len(values)} entries, the input {len(ids)} positions")
        mask = targets != IGNORED
        if bool(((targets < 0) & mask).any()) or int(targets.max()) >= self._backing.format.vocabulary.size:
            raise BadRequestError("a target is no token id")
        logits = self._backing.of_model(self._model).logits(ids, pixels)
        p = torch.log_softmax(logits, -1).gather(-1, targets.clamp(min=0)[:, None])[:, 0]
        return p, mask


def _lora(shape: Shape) -> LoraConfig:
    layers = [*(_ATTENTION if shape.attention else ()), *(_MLP if shape.mlp else ())]
    parts = [rf"language_model\..*\.({'|'.join(layers)})"] if layers else []
    wanted = "|".join([*parts, *(["lm_head"] if shape.unembed else [])])
    return LoraConfig(r=shape.rank, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=rf"(.*\.)?({wanted})")


def _losses(loss: str, p: torch.Tensor, example: Example, config: dict[str, float]) -> torch.Tensor:
    """The loss of each position."""
    numbers = {name: torch.tensor(values) for name, values in example.numbers.items()}
    if loss == "cross_entropy":
        return -p * numbers["weights"]
    ratio, advantage = torch.exp(p - numbers["logprobs"]), numbers["advantages"]
    low, high = config.get("clip_low_threshold", 0.8), config.get("clip_high_threshold", 1.2)
    if loss == "importance_sampling":
        return -ratio * advantage
    if loss == "ppo":
        return -torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
    if loss == "cispo":
        return -ratio.detach().clamp(low, high) * advantage * p
    raise BadRequestError(f"there is no loss {loss!r}")
