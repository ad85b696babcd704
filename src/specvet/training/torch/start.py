"""The weights that a run began from: what a KL penalty holds the trained ones against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from specvet.policies.torch.loading import load
from specvet.policies.torch.model import TorchModel
from specvet.training.torch.optimiser import Optimiser
from specvet.training.torch.states import State, check_state, read_state
from specvet.training.trainer import TrainerOptions


class Start:
    """Puts the weights of the beginning into the model for a while.

    They are those of `options.reference_state`, else the base model's: with a LoRA the adapter is switched off, without
    one they are read again where they came from, since a second copy of all weights may not fit beside the first.
    """

    def __init__(
        self, told: Mapping[str, Any], model: TorchModel, optimiser: Optimiser, options: TrainerOptions
    ) -> None:
        """Raises TrainerError where there is no such state."""
        self._model, self._optimiser, self._options = model, optimiser, options
        self._state: State | None = None
        self._kept: dict[str, Tensor] | None = None
        if options.reference_state is not None:
            self._state = read_state(options.reference_state)
            check_state(self._state, told, optimiser.shapes)
            if options.lora is not None:  # little, and the folder may be gone later
                self._kept = {n: optimiser.own(n, t).to(model.device) for n, t in self._state.weights().items()}

    @contextmanager
    def weights(self) -> Iterator[None]:
        """In this block the model has them; afterwards its own, bit by bit."""
        if self._options.lora is not None and self._kept is None:
            with self._model.without_adapter():
                yield
            return
        if self._kept is None:
            self._kept = self._read()
        parameters, masters = self._optimiser.parameters, self._optimiser.masters
        own = {name: p.detach().clone() for name, p in parameters.items() if p is masters[name]}
        try:
            self._put(self._kept)
            yield
        finally:
            self._put(own)
            self._optimiser.round()
            self._model.weights_changed()

    def _put(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, values in weights.items():
                self._optimiser.parameters[name].copy_(values)
        self._model.weights_changed()

    def _read(self) -> dict[str, Tensor]:
        """Weights on the CPU, in the model's precision."""
        if self._state is not None:
            return {n: self._optimiser.own(n, t).to(self._model.dtype) for n, t in self._state.weights().items()}
        dtype = str(self._model.dtype).removeprefix("torch.")
        base, _ = load(replace(self._options.model, device="cpu", dtype=dtype))
        base.close()
        named = dict(base.module.named_parameters())
        return {name: self._optimiser.own(name, named[name].detach()) for name in self._optimiser.parameters}
