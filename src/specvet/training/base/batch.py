"""A batch as the network takes it: tensors, and where in them pictures stand and what is learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specvet.training.base.encoding import Piece

UNIT = 28
"""Pixels of a token each way."""


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """The pictures of one size."""

    pixels: Tensor
    """uint8, shape (k, height, width)."""
    places: Tensor
    """Where their tokens stand in the flat batch, shape (k · tokens,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Documents, padded on the right: attention is causal, so nothing sees the padding."""

    ids: Tensor
    """Shape (documents, length)."""
    positions: Tensor
    """Time, row, column; shape (3, documents, length)."""
    learnt: Tensor
    """Which of the flat positions predict something, shape (m,)."""
    targets: Tensor
    """What they predict, shape (m,)."""
    pictures: tuple[Pictures, ...]
    documents: int
    tokens: int
    """Without padding."""
    again: bool = False
    """Whether they were learnt from before."""

    def to(self, device: torch.device) -> Batch:
        """There; a GPU is not waited for."""

        def moved(t: Tensor) -> Tensor:
            return t.to(device, non_blocking=True)

        shown = tuple(Pictures(moved(p.pixels), moved(p.places)) for p in self.pictures)
        return Batch(
            moved(self.ids), moved(self.positions), moved(self.learnt), moved(self.targets), shown, self.documents,
            self.tokens, self.again,
        )  # fmt: skip


def batch_of(piece: Piece, *, pinned: bool, again: bool = False) -> Batch:
    """The tensors of a piece, in pinned memory where a GPU will fetch them."""
    flat = piece.targets.reshape(-1)
    learnt = np.flatnonzero(flat >= 0)
    shown = []
    for s in piece.shown:
        _, height, width = s.pixels.shape
        tokens = (height // UNIT) * (width // UNIT)
        first = s.rows.astype(np.int64) * piece.longest + s.starts
        places = (first[:, None] + np.arange(tokens)).reshape(-1)
        shown.append(Pictures(_tensor(s.pixels, pinned), _tensor(places, pinned)))
    return Batch(
        _tensor(piece.ids, pinned),
        _tensor(piece.positions, pinned),
        _tensor(learnt, pinned),
        _tensor(flat[learnt].astype(np.int64), pinned),
        tuple(shown),
        piece.n,
        piece.tokens,
        again,
    )


def _tensor(array: NDArray[Any], pinned: bool) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor.pin_memory() if pinned else tensor
