"""What a `Trainer` is: datums in, gradients and steps inside, weights out. The semantics that Tinker and PyTRIO share.

    forward_backward(datums, loss)   adds the gradient of one batch        → Step
    optim_step(adam)                 takes it and clears it                → Update
    save_state, save_sampler         weights to go on from, weights to sample with

What a method gives back may be the value itself, a future, a coroutine, or a coroutine of a future (`Later`): an SDK's
own client fits. Loops hand it to `specvet.policies.remote.resolve`.

**The losses**, over the batch's active tokens (datum weight above 0), N of them, with the log-probs p now and q when
the token was sampled, ratio r = exp(p − q) and advantage A:

| name | loss |
|---|---|
| `cross_entropy` | −Σ w·p / N |
| `importance_sampling` | −Σ r·A / N |
| `ppo` | −Σ min(r·A, clip(r, low, high)·A) / N |
| `cispo` | −Σ sg(clip(r, low, high))·A·p / N, sg: no gradient |

p − q is held within ±20 (`MAX_MOVE`) in r, so that r is finite: an infinite one has no gradient even where it is
clipped. Beyond, r is constant and a token has no gradient through it. This is so for what is computed here; what a
service does there it does not say.

N is counted over the whole call, whatever pieces a trainer or its SDK cuts it into: a piece's share of the loss is its
sum divided by N, so that the pieces add up to the mean over the batch. One call is one batch; the gradients of several
calls before an `optim_step` add up. An active token counts in N although its advantage is 0.

Imports neither torch nor pydantic.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from specvet.chat import ChatFormat, Datum
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import TokenPolicy

T = TypeVar("T")

Later: TypeAlias = "concurrent.futures.Future[T] | Awaitable[T] | Awaitable[concurrent.futures.Future[T]] | T"
"""A value, or what becomes one."""

LossName = Literal["cross_entropy", "importance_sampling", "ppo", "cispo"]


MAX_MOVE = 20.0
"""Largest p − q, up or down, that a ratio is made of."""


class TrainerError(RuntimeError):
    """Training cannot go on; the message says what to do. What was saved before is intact."""


class NotFiniteError(TrainerError):
    """A loss or gradient that is NaN or infinite; no step was taken with it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What is minimised; see the head of this module."""

    name: LossName
    clip: tuple[float, float] = (0.8, 1.2)
    """Lowest and highest ratio, of `ppo` and `cispo`. "Clip higher" is (0.8, 1.28)."""
    entropy: float = 0.0
    """Coefficient of the mean entropy of the active positions' next-token distributions, which is subtracted from the
    loss. Needs the capability `entropy`."""


CROSS_ENTROPY = Loss("cross_entropy")


@dataclass(frozen=True, slots=True)
class Adam:
    """One step of AdamW."""

    lr: float
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_clip_norm: float = 1.0
    """The gradient's norm is brought down to this; 0 leaves it."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a forward pass (and backward) over a batch gave."""

    loss: float
    """Mean over the batch's active tokens, as in the table above; the entropy bonus included."""
    logprobs: tuple[NDArray[np.float32], ...] = field(repr=False)
    """One array a datum, shape (n_tokens,): log-prob of each active target with the weights as they were, else 0."""
    n_active: int
    """N: tokens that carried weight."""
    entropy: float | None = None
    """Mean over the active positions, in nats; None where the backend does not tell."""
    notes: dict[str, float] = field(default_factory=dict)
    """Anything else a backend tells, by name."""


@dataclass(frozen=True, slots=True)
class Update:
    """What an optimiser step gave."""

    grad_norm: float | None = None
    """Before clipping; None where the backend does not tell."""
    notes: dict[str, float] = field(default_factory=dict)


def odd_datums(datums: Sequence[Datum], logprobs: Sequence[NDArray[np.float32]]) -> str:
    """Which datums have a log-prob (`logprobs` now, or when sampled) or an advantage that is not finite, as a message
    ends with it; empty where none has."""
    odd = []
    for i, (datum, now) in enumerate(zip(datums, logprobs, strict=True)):
        at = datum.weights > 0
        told = {"log-probs now": now, "log-probs when sampled": datum.logprobs, "advantages": datum.advantages}
        what = [name for name, values in told.items() if values is not None and not np.isfinite(values[at]).all()]
        if what:
            odd.append(f"{i}: {', '.join(what)}")
    return f" (not finite in datums {'; '.join(odd[:8])})" if odd else ""


@dataclass(slots=True)
class TrainUsage:
    """What a trainer has used so far; all of it goes into the receipt."""

    trained_tokens: int = 0
    """Positions of all datums of `forward_backward`, pictures included: what services charge for."""
    active_tokens: int = 0
    """Of them, those that carried weight."""
    padded_tokens: int = 0
    """Positions that were computed for them, padding included; 0 where the backend does not tell."""
    forward_tokens: int = 0
    """Positions of `forward` and `reference`: validation, KL."""
    images: int = 0
    """Pictures in trained datums."""
    batches: int = 0
    updates: int = 0
    seconds: float = 0.0
    """In forward, backward and steps."""
    save_seconds: float = 0.0
    notes: dict[str, float] = field(default_factory=dict)


TrainerCapability = Literal["entropy", "reference", "grad_norm", "local"]
"""`entropy`: the bonus, and `Step.entropy`; `reference`: log-probs under the weights that training began from; `local`:
what it saves are files."""


class Trainer(Protocol):
    """Whoever trains a model. Not safe for several tasks at a time: one loop owns it."""

    name: str
    """`torch`, `trio`, `tinker`."""
    format: ChatFormat
    capabilities: frozenset[TrainerCapability]
    usage: TrainUsage
    context: int | None
    """Positions a datum may have; None where unknown."""
    messages: list[str]
    """What people should hear of what the trainer had to do; whoever tells them takes it from here."""

    @property
    def fingerprint(self) -> str:
        """Hash of what is trained (base model, adapter's shape, format, vocabulary), not of how far it has come."""
        ...

    def forward(self, datums: Sequence[Datum], loss: Loss) -> Later[Step]:
        """The loss without a gradient. Raises TrainerError."""
        ...

    def forward_backward(self, datums: Sequence[Datum], loss: Loss) -> Later[Step]:
        """The loss, and its gradient added to what waits for `optim_step`.

        Raises TrainerError; NotFiniteError for a loss that is no number, whose gradient is dropped.
        """
        ...

    def optim_step(self, adam: Adam) -> Later[Update]:
        """One step with the gradient that waits; it is cleared. Raises TrainerError, NotFiniteError (no step)."""
        ...

    def reference(self, datums: Sequence[Datum]) -> Later[tuple[NDArray[np.float32], ...]]:
        """As `Step.logprobs`, under the weights that training began from (those of `--from`), for a KL penalty.

        Raises TrainerError where it has not the capability `reference`.
        """
        ...

    def save_state(self, name: str, folder: Path) -> Later[str]:
        """Save weights and optimiser, to train on from. Saving a name again replaces it.

        Local trainers write below `folder`, which exists, and return the name of what they wrote there; services
        return its address (`trio://…`).
        """
        ...

    def save_sampler(self, name: str, folder: Path) -> Later[str]:
        """Save the weights to sample with: a LoRA folder, a model folder, or an address; as `save_state`."""
        ...

    def sampler(self) -> Later[TokenPolicy]:
        """A policy of the weights as they are now. The one that was given before must not be used any more.

        The trainer closes it with itself.
        """
        ...

    def aclose(self) -> Later[None]:
        """Free everything. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters (arXiv 2106.09685)."""

    rank: int = 32
    alpha: float = 32.0
    """The adapter's output is multiplied by alpha / rank. Services choose it themselves (Tinker: 32)."""
    attention: bool = True
    mlp: bool = True
    unembed: bool = False
    """Of services: whether the output layer has an adapter too."""


@dataclass(frozen=True, slots=True)
class TrainerOptions:
    """What `open_trainer` is told; each backend says in an error which of it it cannot use."""

    model: ModelOptions
    """Base model, format, tokenizer, device, dtype, server, time-out. Its `adapter` must be None: see `state`."""
    lora: Lora | None = Lora()
    """None trains all weights of the language model."""
    vision: Literal["frozen", "trained"] = "frozen"
    state: str | None = None
    """What `save_state` wrote or named, to begin from."""
    reference_state: str | None = None
    """The state that the run began from (its `--from`), whose log-probs `reference` gives; None: the base model."""
    with_optimizer: bool = False
    """Whether the optimiser of that state goes on too (resuming), or begins anew (the next stage)."""
    gradient_checkpointing: bool | None = None
    """None: `torch` does it on a GPU, in as many layers as a micro-batch needs to fit."""
    micro_tokens: int | None = None
    """Positions, padding included, that go through the model at a time; None: the backend chooses."""
    processes: int = 1
    """GPUs (or CPU processes) the model is sharded over; `torch` only."""
    rollout_processes: int = 1
    """Processes that sample, each with a copy of the trainer's weights; `torch` in one process only."""
    seed: int = 0
    """Of new adapters' weights."""
    branches: int = 64
    """Sequences that the sampler samples at a time."""
    name: str = "specvet"
    """What a service shows for this run."""
