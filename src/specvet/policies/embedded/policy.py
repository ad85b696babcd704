"""`EmbeddedPolicy`: the `TokenPolicy` of a small model that runs with ONNX Runtime, without torch."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from specvet.chat import ChatFormat, Ledger
from specvet.policies.embedded.engine import Engine
from specvet.policies.embedded.loading import load
from specvet.policies.embedded.model import EmbeddedModel
from specvet.policies.options import ModelOptions
from specvet.policies.serving.thread import check_ids, check_request
from specvet.policies.tokens import Samples, SamplingParams, Usage

if TYPE_CHECKING:
    from specvet.policies.base import Capability


class EmbeddedPolicy:
    """Samples turns; keys and values go from turn to turn. Safe to call from several tasks and event loops.

    `branches` sequences are sampled at a time, and twice as many are kept; calls beyond that wait their turn. Log-probs
    equal those of the torch policy in float32 within 1e-4.
    """

    name = "embedded"
    capabilities: frozenset[Capability] = frozenset({"ids", "logprobs", "n", "images"})

    def __init__(
        self,
        model: EmbeddedModel,
        format: ChatFormat,
        *,
        branches: int,
        weights: str,
        stop_ids: tuple[int, ...] | None = None,
    ) -> None:
        """`weights` is a hash of the model's files; `stop_ids` replaces the format's."""
        self.model, self.format = model, format
        self.context: int | None = model.room
        self.usage = Usage()
        self.branches = branches
        """Sequences that are sampled at a time; a request for more is several, one after the other."""
        told = ("embedded", weights, format.name, format.vocabulary.fingerprint, format.geometry)
        self.fingerprint = hashlib.sha256(repr(told).encode()).hexdigest()
        """SHA-256 of weights, format and vocabulary."""
        stops = format.stop_ids if stop_ids is None else stop_ids
        self._engine = Engine(model, stop_ids=stops, branches=branches, usage=self.usage, vocabulary=format.vocabulary)

    @classmethod
    def open(cls, options: ModelOptions) -> EmbeddedPolicy:
        """The policy that the options name. Raises PolicyError."""
        model, format, weights = load(options)
        return cls(model, format, branches=options.branches, weights=weights)

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        """n sequences that continue the ledger. Raises LedgerError for a ledger that this model cannot be shown or that
        leaves no room, ImageError for a damaged picture, PolicyError for the rest."""
        self._engine.check_open()
        check_request(ledger, n, params, format=self.format, context=self.model.room, policy=self.name)
        check_ids(ledger, self.model.shape.ids)
        return await self._engine.sample(ledger, n, params)

    def release(self, ledger: Ledger) -> None:
        """This trajectory is over: its rows are the first to be given away."""
        self._engine.release(ledger)

    async def aclose(self) -> None:
        """Free everything; what is being sampled fails. May be called twice."""
        await asyncio.to_thread(self._engine.close)
        self.model.forget()
