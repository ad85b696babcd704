"""Gradient checkpointing, in as many layers as it takes.

A checkpointed layer keeps its input only and is computed again in the backward pass: with a LoRA half as much work
again. So it is done where asked for, or, on a GPU where nobody says, in just so many layers that a micro-batch fits
into what memory is free.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from specvet.policies.torch.model import TorchModel
from specvet.training.torch.batches import MicroBatch
from specvet.training.torch.head import rows_at_a_time

MARGIN = 0.08
"""Share of the device's memory that plans leave free: fragments, workspaces, what other libraries take."""
PROBE = 256
"""Positions with which a layer's memory is measured."""


class Checkpointing:
    """Sets which layers of a model are checkpointed. `wanted` None: as memory asks for, on a GPU; else none.

    `tower` says that the vision tower is trained too; on a GPU all of its layers are checkpointed unless that is
    forbidden.
    """

    def __init__(self, model: TorchModel, wanted: bool | None, *, tower: bool) -> None:
        self._model, self._wanted = model, wanted
        self._layers = list(model.text.layers)
        self._per_position: float | None = None
        """Bytes that a layer keeps of a position."""
        again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        blocks = list(model.vision.visual.blocks) if tower else []
        for layer in (*self._layers, *blocks):
            layer._gradient_checkpointing_func = again
            layer.training = True  # the stock layers checkpoint in training only; what is in them stays in evaluation
        for block in blocks:
            block.gradient_checkpointing = model.device.type == "cuda" if wanted is None else wanted
        self.n_layers = 0
        """Of the text model, checkpointed in the next pass."""
        self._set(len(self._layers) if wanted else 0)

    def plan(self, batch: MicroBatch, *, later: int, free: Callable[[], bool]) -> None:
        """Checkpoint as many layers as this micro-batch needs. `later` bytes are for others to take; `free`, for where
        all layers are not enough, gives memory back and says whether there was any."""
        if self._wanted is not None or self._model.device.type != "cuda":
            return
        n = self._layers_for(batch, later)
        if n is None and free():
            n = self._layers_for(batch, later)
        self._set(len(self._layers) if n is None else n)

    def all(self) -> None:
        """Checkpoint all layers from here on, unless it was forbidden."""
        if self._wanted is None:
            self._wanted = True
            self._set(len(self._layers))

    def _set(self, n: int) -> None:
        self.n_layers = n
        for i, layer in enumerate(self._layers):
            layer.gradient_checkpointing = i < n

    def _layers_for(self, batch: MicroBatch, later: int) -> int | None:
        if self._per_position is None:
            self._set(0)
            self._per_position = kept_bytes(self._model, PROBE) / PROBE / len(self._layers)
        states = batch.padded_tokens * self._model.config.text_config.hidden_size * self._model.dtype.itemsize
        logits = 4 * rows_at_a_time(self._model.n_ids) * self._model.n_ids
        room = self._room() - later - 4 * (states + logits)  # both are there a few times at the output layer
        return layers_to_checkpoint(room, self._per_position * batch.padded_tokens, states, len(self._layers))

    def _room(self) -> int:
        cuda: Any = torch.cuda
        device = self._model.device
        free, total = cuda.mem_get_info(device)
        kept = cuda.memory_reserved(device) - cuda.memory_allocated(device)
        return int(free + kept - MARGIN * total)


def layers_to_checkpoint(room: float, per_layer: float, inputs: float, n_layers: int) -> int | None:
    """The fewest layers so that all fits: those that are not keep `per_layer` bytes, those that are their `inputs`, and
    two layers more are in hand in the backward pass. None where all of them are not enough."""
    for n in range(n_layers + 1):
        if per_layer * (n_layers - n + 2) + inputs * n <= room:
            return n
    return None


def kept_bytes(model: TorchModel, positions: int) -> int:
    """Bytes that the text model keeps for the backward pass of so many positions, weights not counted."""
    weights = {p.untyped_storage().data_ptr() for p in model.module.parameters()}
    kept: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    hidden = torch.zeros(1, positions, model.config.text_config.hidden_size, dtype=model.dtype, device=model.device)
    at = torch.arange(positions, device=model.device).expand(3, 1, -1)
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
        model.text(inputs_embeds=hidden.requires_grad_(), position_ids=at, attention_mask=None, use_cache=False)
    return sum(kept.values())
