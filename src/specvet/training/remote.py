"""What the trainers on a remote training service (`trio`, `tinker`) share, without importing either SDK.

**The loss** is that of `specvet.training.trainer`, whatever a service does by itself. `Step.loss` is computed here from
the log-probs that came back; what the service says its loss is, on the same scale, is `Step.notes["service_loss"]`.
Where the two differ, the service weighs tokens otherwise than its adapter assumes: that is logged, and counted in
`usage.notes["batches_whose_loss_differs"]`.

**What can go wrong.** A request gets ten times `timeout_s`; the SDKs retry by themselves below that, under numbers that
keep a gradient from being added twice. When a gradient or step fails for good, nobody here knows whether the service
has taken it. Then the session is over: every later call raises TrainerError with what to do, so that nothing
half-taken is ever saved.

**The reference** (KL) is a training run of its own, of the base model or of `reference_state`, of which only `forward`
is used: log-probs from the same engine, without the drift between a service's sampler and its trainer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.chat import ChatFormat, Datum, ImageError, LedgerError
from specvet.policies.remote import Problem, Service, off_loop, resolve, scrubbed
from specvet.policies.remote_policy import CLOSE_S, RemotePolicy
from specvet.training.remote_batches import Passed, grad_norm, token_losses
from specvet.training.remote_setup import advice
from specvet.training.trainer import (
    CROSS_ENTROPY,
    Adam,
    Loss,
    NotFiniteError,
    Step,
    TrainerCapability,
    TrainerError,
    TrainerOptions,
    TrainUsage,
    Update,
    odd_datums,
)

LONG = 10
"""A training request gets so many times the deadline of a sampling request."""
DIFFERS = 0.01
"""Difference between a service's loss and ours from which on they count as different, as a share of the mean size of a
token's part in it: in a policy loss, gains and losses cancel, and what is left may be near 0."""
TINY = 1e-6
"""Of that size, what it is at the least."""


class _NameTakenError(TrainerError):
    """A checkpoint of that name is there already, and this kind cannot be replaced."""


class RemoteTrainer(ABC):
    """A trainer on a remote service. A subclass makes its SDK's datums and sends them."""

    name: str
    service: Service
    capabilities: frozenset[TrainerCapability] = frozenset({"reference"})

    def __init__(
        self,
        client: Any,
        run: Any,
        format: ChatFormat,
        *,
        model: str,
        context: int,
        options: TrainerOptions,
    ) -> None:
        """`client` is the SDK's session, which ends with the trainer, and `run` its training client."""
        self.format = format
        self.model = model
        self.context: int | None = context
        self.usage = TrainUsage()
        self.messages: list[str] = []
        self.deadline_s = LONG * options.model.timeout_s
        self._client, self._run = client, run
        self._options = options
        self._limit = context
        self._reference: Any = None
        self._sampler: RemotePolicy | None = None
        self._saved = options.state or ""
        self._names: dict[str, int] = {}
        self._waiting = False
        self._lost = ""
        self._closed = False

    @property
    def fingerprint(self) -> str:
        """Hash of the service's name, base model, the adapter's shape, chat format and vocabulary."""
        format, lora = self.format, self._options.lora
        told = (self.name, self.model, format.name, format.new_ledger().vocabulary, repr(lora))
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    # --- training

    async def forward(self, datums: Sequence[Datum], loss: Loss) -> Step:
        """The loss without a gradient. Raises TrainerError, NotFiniteError."""
        step = await self._pass(self._run, datums, loss, learn=False)
        self.usage.forward_tokens += sum(d.n_tokens for d in datums)
        return step

    async def forward_backward(self, datums: Sequence[Datum], loss: Loss) -> Step:
        """The loss, and its gradient added to what waits. Raises TrainerError; NotFiniteError ends the session, since
        no service can be told to drop a gradient."""
        step = await self._pass(self._run, datums, loss, learn=True)
        self._waiting = True
        self.usage.trained_tokens += sum(d.n_tokens for d in datums)
        self.usage.active_tokens += step.n_active
        self.usage.images += sum(len(d.images) for d in datums)
        self.usage.batches += 1
        return step

    async def optim_step(self, adam: Adam) -> Update:
        """One step with the gradient that waits. Raises TrainerError; NotFiniteError where the service says that it
        took a step with a gradient that is no number, which ends the session."""
        self._check_session()
        if not self._waiting:
            raise TrainerError(f"{self.name}: no gradient waits for a step; call forward_backward first")
        notes = await self._ask("an optimiser step", lambda: self._step(self._run, adam), changes=True)
        self._waiting = False
        self.usage.updates += 1
        norm = grad_norm(notes)
        if norm is not None and not math.isfinite(norm):
            self._lost = f"a step was taken with a gradient whose norm is {norm}"
            raise NotFiniteError(f"{self.name}: {self._lost}; {self._go_on()}")
        return Update(norm, notes)

    async def reference(self, datums: Sequence[Datum]) -> tuple[NDArray[np.float32], ...]:
        """Log-probs under the weights that training began from, of active targets, else 0. Raises TrainerError."""
        if self._reference is None:
            self._reference = await self._ask("opening a reference", lambda: off_loop(self._new_run))
        step = await self._pass(self._reference, datums, CROSS_ENTROPY, learn=False)
        self.usage.forward_tokens += sum(d.n_tokens for d in datums)
        return step.logprobs

    async def _pass(self, run: Any, datums: Sequence[Datum], loss: Loss, *, learn: bool) -> Step:
        self._check_session()
        active = self._checked(datums, loss)
        try:
            sent = await off_loop(lambda: self._datums(datums, loss, active))
        except (LedgerError, ImageError) as e:
            raise TrainerError(f"{self.name}: {e}; nothing was sent") from e

        async def asked() -> tuple[Passed, tuple[NDArray[np.float32], ...]]:
            passed = await self._send(run, sent, loss, active, learn)
            return passed, self._logprobs(datums, passed)

        passed, logprobs = await self._ask("a gradient" if learn else "a forward pass", asked, changes=learn)
        losses = token_losses(datums, logprobs, loss)
        told = float(losses.mean())
        notes = dict(passed.notes)
        if not all(map(math.isfinite, (told, told if passed.loss is None else passed.loss))):
            raise self._not_finite(
                f"the loss of a batch of {len(datums)} is {told} (the service's: {passed.loss})"
                + odd_datums(datums, logprobs),
                learn,
            )
        if passed.loss is not None:
            notes["service_loss"] = passed.loss
            self._compare(told, passed.loss, float(np.abs(losses).mean()))
        return Step(told, logprobs, active, None, notes)

    def _checked(self, datums: Sequence[Datum], loss: Loss) -> int:
        """Active tokens of a batch that can be sent. Raises TrainerError."""
        if loss.entropy:
            raise TrainerError(
                f"{self.name}: an entropy bonus of {loss.entropy} was asked for, and the service knows no such loss; "
                "set grpo.entropy to 0, or train with --backend torch"
            )
        for i, datum in enumerate(datums):
            if datum.n_tokens > self._limit:
                raise TrainerError(
                    f"{self.name}: datum {i} of the batch has {datum.n_tokens} positions, over the {self._limit} that "
                    f"{self.model} takes; nothing was sent"
                )
            if loss.name != "cross_entropy" and (datum.logprobs is None or datum.advantages is None):
                raise TrainerError(
                    f"{self.name}: datum {i} of the batch has no log-probs or advantages for {loss.name}"
                )
        active = sum(d.n_learnt for d in datums)
        if not active:
            raise TrainerError(f"{self.name}: no token of this batch carries weight; there is nothing to learn")
        return active

    def _logprobs(self, datums: Sequence[Datum], passed: Passed) -> tuple[NDArray[np.float32], ...]:
        sizes, wanted = [p.size for p in passed.logprobs], [d.n_tokens for d in datums]
        if sizes != wanted:
            raise TrainerError(f"{self.name}: the service gave log-probs of {sizes} positions where {wanted} were sent")
        found = []
        for datum, p in zip(datums, passed.logprobs, strict=True):
            kept = np.where(datum.weights > 0, p, 0).astype(np.float32)
            kept.setflags(write=False)
            found.append(kept)
        return tuple(found)

    def _compare(self, ours: float, theirs: float, scale: float) -> None:
        if abs(ours - theirs) > DIFFERS * max(TINY, scale):
            counts = self.usage.notes
            if "batches_whose_loss_differs" not in counts:
                self.messages.append(
                    f"{self.name} says that the loss of a batch is {theirs:.6g}, where its log-probs make {ours:.6g} "
                    "as mean over active tokens; it may weigh tokens otherwise than is assumed here"
                )
            counts["batches_whose_loss_differs"] = counts.get("batches_whose_loss_differs", 0) + 1

    # --- saving and sampling

    async def save_state(self, name: str, folder: Path) -> str:
        """Save weights and optimiser at the service; returns the address. Raises TrainerError."""
        address = await self._save(lambda: self._save_state(self._run, self._label(name)))
        self._saved = address
        return address

    async def save_sampler(self, name: str, folder: Path) -> str:
        """Save the weights to sample with at the service; returns the address. Raises TrainerError.

        Neither service replaces such weights, so a name that comes again gets a number, and one that is taken all the
        same (an answer was lost) gets a random end.
        """
        label = self._label(name)
        times = self._names[label] = self._names.get(label, 0) + 1
        first = label if times == 1 else f"{label}-{times}"
        try:
            return await self._save(lambda: self._save_weights(self._run, first))
        except _NameTakenError:
            other = f"{label}-{secrets.token_hex(4)}"
            return await self._save(lambda: self._save_weights(self._run, other))

    async def _save(self, asked: Callable[[], Awaitable[str]]) -> str:
        return str(await self._ask("saving", asked, saving=True))

    def _label(self, name: str) -> str:
        """What a checkpoint is called at the service: with the run's name before it, in letters that both take."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self._options.name}-{name}").strip("-._")

    async def sampler(self) -> RemotePolicy:
        """A policy of the weights as they are now; the one before is closed. Raises TrainerError.

        The service keeps these weights for this policy alone, and for some hours.
        """
        if self._sampler is not None:
            await self._sampler.aclose()
            self._sampler = None
        sampling = await self._ask("opening a sampler", lambda: self._sampling(self._run), saving=True)
        self._sampler = self._policy(sampling, f"{self._run_id()}+{self.usage.updates}")
        return self._sampler

    async def aclose(self) -> None:
        """End the session with the service; one that does not answer is left after a few seconds."""
        if self._closed:
            return
        self._closed = True
        if self._sampler is not None:
            await self._sampler.aclose()
        with contextlib.suppress(Exception):  # the work is done; how the farewell went changes nothing
            await asyncio.wait_for(off_loop(lambda: self._shut(self._client)), CLOSE_S)

    # --- asking

    async def _ask(
        self, doing: str, asked: Callable[[], Awaitable[Any]], *, changes: bool = False, saving: bool = False
    ) -> Any:
        """What the service answers within the deadline. Raises TrainerError.

        `changes`: a failure leaves its gradient or weights unknown, which ends the session.
        """
        self._check_session()
        began = time.perf_counter()
        try:
            return await asyncio.wait_for(resolve(asked()), self.deadline_s)
        except TimeoutError:
            error: TrainerError = TrainerError(str(self.service.stalled(doing, self.deadline_s, self._heard())))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                if changes:
                    self._lost = f"{doing} was interrupted"
                raise
            error = TrainerError(f"{self.name}: the SDK dropped {doing}; was the trainer closed?")
        except TrainerError:
            if changes:
                self._lost = f"{doing} was answered with something else"
            raise
        except Exception as e:  # whatever an SDK raises gets said in one way
            if self._is_not_finite(e):
                raise self._not_finite(f"the service has no number for {doing}", changes) from e
            kind, said = self._problem(e)
            if saving and self._is_taken(e):
                raise _NameTakenError(f"{self.name}: {scrubbed(said)}") from e
            error = TrainerError(f"{self.name}: {scrubbed(said)}; {advice(self.service, kind)}")
            error.__cause__ = e
        finally:
            spent = time.perf_counter() - began
            if saving:
                self.usage.save_seconds += spent
            else:
                self.usage.seconds += spent
        if changes:
            self._lost = f"{doing} failed and nobody knows whether the service took it"
        raise TrainerError(f"{error}. {self._go_on(capital=True)}") from error.__cause__

    def _check_session(self) -> None:
        if self._closed:
            raise TrainerError(f"{self.name}: the trainer was closed")
        if self._lost:
            raise TrainerError(f"{self.name}: this session of training is over, since {self._lost}; {self._go_on()}")

    def _not_finite(self, said: str, learn: bool) -> NotFiniteError:
        if learn:
            self._lost = "a gradient that is no number waits at the service"
        return NotFiniteError(f"{self.name}: {said}; no step was taken with it, {self._go_on()}")

    def _go_on(self, *, capital: bool = False) -> str:
        if self._saved:
            said = f"the state {self._saved} is intact: run the same command again, it goes on from there"
        else:
            said = "nothing was saved yet: run the same command again, it begins anew"
        return said[0].upper() + said[1:] if capital else said

    # --- what each SDK does its own way

    @abstractmethod
    def _datums(self, datums: Sequence[Datum], loss: Loss, active: int) -> Any:
        """The SDK's datums. Raises LedgerError, ImageError."""

    @abstractmethod
    async def _send(self, run: Any, sent: Any, loss: Loss, active: int, learn: bool) -> Passed:
        """One batch, to its end. May raise anything."""

    @abstractmethod
    async def _step(self, run: Any, adam: Adam) -> dict[str, float]:
        """An optimiser step; what the service says of it."""

    @abstractmethod
    async def _save_state(self, run: Any, label: str) -> str:
        """The address of weights and optimiser, which replace those of the same name."""

    @abstractmethod
    async def _save_weights(self, run: Any, label: str) -> str:
        """The address of weights to sample with."""

    @abstractmethod
    async def _sampling(self, run: Any) -> Any:
        """The SDK's sampling client of the weights as they are now."""

    @abstractmethod
    def _policy(self, sampling: Any, weights: str) -> RemotePolicy:
        """The policy on it, which does not end the session."""

    @abstractmethod
    def _new_run(self) -> Any:
        """A training client of the weights that this run began from; blocks. SDK errors as they are."""

    @abstractmethod
    def _run_id(self) -> str:
        """What the service calls this training run."""

    @abstractmethod
    def _problem(self, e: Exception) -> tuple[Problem, str]:
        """An SDK's exception in our words."""

    @abstractmethod
    def _is_taken(self, e: Exception) -> bool:
        """Whether it says that a checkpoint's name is taken."""

    def _is_not_finite(self, e: Exception) -> bool:
        """Whether it says that a loss is no number."""
        return False

    def _heard(self) -> str:
        """What the SDK last said of the service's state, or nothing."""
        return ""

    @abstractmethod
    def _shut(self, client: Any) -> None:
        """Close the SDK's session; may block."""
