"""`TorchPolicy`: the `TokenPolicy` of a transformers model on this machine."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from specvet.chat import ChatFormat, Ledger
from specvet.policies.options import ModelOptions
from specvet.policies.serving.thread import check_request
from specvet.policies.tokens import PolicyError, Samples, SamplingParams, Usage
from specvet.policies.torch.engine import Engine, Hold
from specvet.policies.torch.loading import load
from specvet.policies.torch.model import TorchModel

if TYPE_CHECKING:
    from specvet.policies.base import Capability


class TorchPolicy:
    """Samples turns; its cache goes from turn to turn. Safe to call from several tasks and event loops.

    `branches` sequences are sampled at a time, and twice as many are kept; calls beyond that wait their turn. In
    float32 log-probs equal a stock teacher-forced forward within 1e-4 (Qwen3.5, whose state is summed in another order,
    within 3e-4 for the unlikeliest tokens), in bfloat16 within what bfloat16 rounds
    (`recomputed_logprobs` measures it).
    """

    name = "torch"
    capabilities: frozenset[Capability] = frozenset({"ids", "logprobs", "n", "images", "trainable"})

    def __init__(
        self,
        model: TorchModel,
        format: ChatFormat,
        *,
        branches: int = 16,
        context: int = 16_384,
        stop_ids: tuple[int, ...] | None = None,
        block: int | None = None,
        rows: int | None = None,
        graphs: bool | None = None,
    ) -> None:
        """`stop_ids` replaces the format's; `block` steps run between two looks at the results; `rows` caches are kept;
        `graphs` records decode steps as CUDA graphs (on by default on a GPU). Raises PolicyError."""
        if branches < 1:
            raise PolicyError(f"{branches} branches; at least one sequence must be sampled at a time", fatal=True)
        self.model, self.format = model, format
        self.context: int | None = min(context, model.max_positions)
        self.usage = Usage()
        self.branches = branches
        """Sequences that are sampled at a time; a request for more is several, one after the other."""
        self._fingerprint: tuple[str, str] | None = None
        self._engine = Engine(
            model,
            stop_ids=format.stop_ids if stop_ids is None else stop_ids,
            branches=branches,
            context=self.context,
            usage=self.usage,
            block=block,
            rows=rows,
            graphs=graphs,
            vocabulary=format.vocabulary,
        )

    @classmethod
    def open(cls, options: ModelOptions) -> TorchPolicy:
        """The policy that the options name. Raises PolicyError."""
        model, format = load(options)
        return cls(model, format, branches=options.branches, context=options.context)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of weights (adapter included), dtype, format and vocabulary. Hashes the weight files once."""
        weights = self.model.weights
        if self._fingerprint is None or self._fingerprint[0] != weights:
            geometry = self.format.geometry
            told = (weights, self.model.dtype, self.format.name, self.format.vocabulary.fingerprint, geometry)
            self._fingerprint = weights, hashlib.sha256(repr(told).encode()).hexdigest()
        return self._fingerprint[1]

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        """n sequences that continue the ledger. Raises LedgerError for a ledger that this model cannot be shown or that
        leaves no room, ImageError for a damaged picture, PolicyError for the rest."""
        self._engine.check_open()
        assert self.context is not None
        check_request(ledger, n, params, format=self.format, context=self.context, policy=self.name)
        self.model.check(ledger)
        self.model.vision.prepare(s for s in ledger.images if s.png is not None)
        return await self._engine.sample(ledger, n, params)

    def release(self, ledger: Ledger) -> None:
        """This trajectory is over: its rows are the first to be given away."""
        self._engine.release(ledger)

    def recomputed_logprobs(self, ledger: Ledger, *, adapter: bool = True) -> NDArray[np.float32]:
        """Log-probs of all sampled tokens as the stock model gives them for the whole ledger, without any cache; shape
        (n_sampled,). With `adapter` False, those of the base model. Waits for the engine's block in hand. Raises
        LedgerError, PolicyError."""

        def compute() -> NDArray[np.float32]:
            with torch.no_grad(), nullcontext() if adapter else self.model.without_adapter():
                values: NDArray[np.float32] = self.model.logprobs([ledger])[0].cpu().numpy()
            return values

        result: NDArray[np.float32] = self._engine.call(compute).result()
        return result

    def weights_changed(self) -> None:
        """Somebody trained the weights, in place as optimisers do: caches, features and the fingerprint go. Recorded
        graphs stay, since they read the weights where they lie. Raises PolicyError while something is sampled."""
        with self._engine.held():
            self._engine.drop()
            self.model.weights_changed()

    def held(self) -> Hold:
        """A block in which nothing is sampled, so that a trainer has weights and device to itself. What is asked for
        after this call waits for its end; to enter it raises PolicyError where something asked for before is still
        being sampled."""
        return self._engine.held()

    def drop(self, *, memory: bool = False) -> None:
        """Drop what is kept of earlier turns, which the weights of now would not give; with `memory` also the memory it
        lay in, which is taken anew when something is sampled. Only within `held`."""
        self._engine.drop(memory=memory)

    async def aclose(self) -> None:
        """Free everything; what is being sampled fails. May be called twice."""
        await asyncio.to_thread(self._engine.close)
        self.model.close()
