"""A policy on a remote service: what `trio` and `tinker` do alike, from a ledger to sequences and counts."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence as Listed
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specvet.chat import ChatFormat, ImageSegment, Ledger, LedgerError
from specvet.policies.remote import Service, Slots, off_loop, prompt_chunks
from specvet.policies.serving.stops import StopTexts
from specvet.policies.tokens import ContextLengthError, PolicyError, Samples, SamplingParams, Sequence, Usage

if TYPE_CHECKING:
    from specvet.policies.base import Capability

CLOSE_S = 10.0
"""Seconds that closing a session may take; a dead service must not hold up the end of a program."""
MAX_SEEN = 200_000
"""Prefixes that are remembered to count unique tokens."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a service, in our words."""

    sequences: tuple[Sequence, ...]
    prompt_tokens: int | None = None
    """As the service counts them."""
    cached_tokens: int | None = None
    """Of them, those it did not compute again, as it states them."""


_SAMPLED: frozenset[Capability] = frozenset({"ids", "logprobs", "n", "images"})


class RemotePolicy(ABC):
    """A policy on a remote service. A subclass makes its SDK's prompt and sends it.

    `usage.prefilled_tokens` leaves out what the service says was cached; where it says nothing, it is the whole prompt.
    How often an SDK retried it does not tell, so `usage.retries` stays 0; neither states a cost.
    """

    name: str
    service: Service
    capabilities: frozenset[Capability]

    def __init__(
        self,
        format: ChatFormat,
        identity: Listed[str],
        *,
        model: str,
        context: int,
        trainable: bool,
        timeout_s: float,
        in_flight: int,
    ) -> None:
        """`identity` is what decides beside the format: service, base model, weights; never a secret."""
        self.format = format
        self.model = model
        self.context: int | None = context
        self._limit = context
        self.timeout_s = timeout_s
        self.usage = Usage()
        self.capabilities = _SAMPLED | {"trainable"} if trainable else _SAMPLED
        self._slots = Slots(in_flight)
        self._seen: dict[bytes, bool] = {}
        """By digest of a prefix: whether its last segment was sampled here and has not been part of a prompt yet."""
        self._identity = (*identity, format.name, format.new_ledger().vocabulary)
        self._closed = False

    @property
    def fingerprint(self) -> str:
        """Hash of service, base model, weights' path, chat format and vocabulary."""
        return hashlib.sha256("\n".join(self._identity).encode()).hexdigest()

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        """n sequences that continue the ledger. Raises PolicyError (ContextLengthError), TimeoutError, LedgerError.

        The log-probs are the service's. At temperature 1 with nothing cut off they are the model's own; what a service
        gives at other settings it does not document.
        """
        if n < 1:
            raise ValueError(f"{n} sequences asked for; at least 1")
        if ledger.n_tokens + params.max_tokens > self._limit:
            raise ContextLengthError(
                f"{self.name}: {ledger.n_tokens} tokens and {params.max_tokens} more are over the {self._limit} that "
                f"{self.model} takes"
            )
        prompt = self._prompt(prompt_chunks(ledger))
        async with self._slots.one():
            if self._closed:
                raise PolicyError(f"{self.name}: the policy was closed", fatal=True)
            started = time.perf_counter()
            self.usage.requests += 1
            self.usage.images += len(ledger.images)
            try:
                reply = await asyncio.wait_for(self._send(prompt, n, params), self.timeout_s)
            except TimeoutError:
                raise self.service.stalled("a request", self.timeout_s, self._heard(self.timeout_s)) from None
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise PolicyError(f"{self.name}: the SDK dropped a request; was the policy closed?") from None
            except (LedgerError, PolicyError):
                raise
            except Exception as e:  # whatever an SDK raises gets said in one way
                raise self._explained(e, False) from e
            finally:
                self.usage.seconds += time.perf_counter() - started
        if len(reply.sequences) != n:
            raise LedgerError(f"the service gave {len(reply.sequences)} sequences where {n} were asked for")
        if params.stop:
            reply = replace(reply, sequences=tuple(self._stopped(s, params) for s in reply.sequences))
        self._count(ledger, reply)
        return Samples(reply.sequences, reply.prompt_tokens, reply.cached_tokens)

    def release(self, ledger: Ledger) -> None:  # noqa: B027 - nothing to do is right for most
        """Nothing is kept for a trajectory here."""

    async def aclose(self) -> None:
        """End the session with the service; a service that does not answer is left after a few seconds."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(Exception):  # the work is done; how the farewell went changes nothing
            await asyncio.wait_for(off_loop(self._close), CLOSE_S)

    def _stopped(self, one: Sequence, params: SamplingParams) -> Sequence:
        """A sequence with the stop `stop` where its last token completes a text: services do not tell which it was."""
        texts = StopTexts(params.stop, self.format.vocabulary)
        known = one.stop != "end" or not one.ids or one.ids[-1] in self.format.stop_ids
        return one if known or not texts.completed(one.ids[-texts.reach :]) else replace(one, stop="stop")

    def _count(self, ledger: Ledger, reply: Reply) -> None:
        usage, n = self.usage, ledger.n_tokens
        usage.prompt_tokens += n
        usage.prefilled_tokens += n - min(reply.cached_tokens or 0, n)
        for digest, segment in zip(ledger.digests[1:], ledger, strict=True):
            said = self._seen.get(digest)
            if said is None:
                usage.unique_tokens += segment.n_tokens
            elif said:  # an engine that keeps what it sampled has yet to read the last token of it
                usage.unique_tokens += 1
            self._seen[digest] = False
        for one in reply.sequences:
            usage.sampled_tokens += len(one.ids)
            if one.stop == "end" and (not one.ids or one.ids[-1] not in self.format.stop_ids):
                usage.notes["end_tokens_left_out"] = usage.notes.get("end_tokens_left_out", 0) + 1
            with contextlib.suppress(LedgerError):  # a turn that no ledger takes is its trajectory's affair
                branch = ledger.fork()
                branch.append_sampled(one.ids, one.logprobs, one.stop)
                self._seen.setdefault(branch.digest, True)
        while len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]

    # what each SDK does its own way

    @abstractmethod
    def _prompt(self, chunks: list[tuple[int, ...] | ImageSegment]) -> Any:
        """The SDK's ModelInput."""

    @abstractmethod
    async def _send(self, prompt: Any, n: int, params: SamplingParams) -> Reply:
        """One request, to its end. May raise anything."""

    @abstractmethod
    def _explained(self, e: Exception, opening: bool) -> PolicyError:
        """An SDK's exception in our words."""

    def _heard(self, seconds: float) -> str:
        """What the SDK last said of the service's state within so many seconds, or nothing."""
        return ""

    @abstractmethod
    def _close(self) -> None:
        """Close the SDK's clients; may block."""
