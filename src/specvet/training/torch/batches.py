"""From datums to micro-batches: what goes through the model at a time, padded on the right.

Datums of like length go together, so that little is padding; a micro-batch has at most `micro_tokens` positions,
padding included, unless a single datum is longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.chat import ChatFormat, Datum, ImageSegment
from specvet.policies.torch.model import TorchModel
from specvet.policies.torch.positions import Embedded, stretch
from specvet.training.trainer import Loss, TrainerError

MICRO_TOKENS = {"cuda": 16_384, "cpu": 8_192}
"""Positions of a micro-batch where nobody says: enough to fill a GPU, little enough to fit."""
START = 512
"""A micro-batch costs its positions, and about as much as these for being launched: more of a small model, whose
launches take the longest of all, see `launching`."""
LAUNCHED = 1.5e12
"""Weights times positions that take as long as launching a micro-batch: some 0.1 s for nano on one H200."""


def launching(model: TorchModel) -> int:
    """Positions that cost a model as much as launching a micro-batch; nothing is launched on a CPU."""
    if model.device.type == "cpu":
        return START
    return max(START, int(LAUNCHED / max(1, sum(p.numel() for p in model.module.parameters()))))


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Some datums of a batch, and their active positions, datum by datum."""

    members: tuple[int, ...]
    """Their indices in the batch."""
    parts: tuple[Embedded, ...]
    width: int
    """Positions of the longest."""
    places: NDArray[np.int64]
    """Where the active positions are: row · width + position; shape (n,), as all that follow."""
    targets: NDArray[np.int64]
    weights: NDArray[np.float32]
    old: NDArray[np.float32] | None
    advantages: NDArray[np.float32] | None

    @property
    def padded_tokens(self) -> int:
        return len(self.parts) * self.width

    @property
    def pictures(self) -> list[ImageSegment]:
        return [segment for part in self.parts for _, segment, _, _ in part.pictures]


def micro_batches(
    datums: Sequence[Datum], loss: Loss | None, micro_tokens: int, start: int = START
) -> list[MicroBatch]:
    """The whole batch in micro-batches, the longest datums first. `loss` None leaves out what only losses need."""
    groups = cuts([d.n_tokens for d in datums], micro_tokens, start)
    return [micro_batch(datums, members, loss) for members in groups]


def cuts(lengths: Sequence[int], micro_tokens: int, start: int = START) -> list[list[int]]:
    """Indices of sequences that go together, longest first: the cut of the sorted lengths that costs least, in
    positions, padding included, and `start` for each piece."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    best: list[tuple[int, int]] = [(0, 0)]  # cost of the first n, and where their last piece begins
    for n in range(1, len(order) + 1):
        costs = []
        for first in range(n - 1, -1, -1):
            area = (n - first) * lengths[order[first]]
            if area > micro_tokens and first < n - 1:
                break
            costs.append((best[first][0] + area + start, first))
        best.append(min(costs))
    pieces = []
    n = len(order)
    while n:
        first = best[n][1]
        pieces.append(order[first:n])
        n = first
    return pieces[::-1]


def check(datums: Sequence[Datum], loss: Loss | None, model: TorchModel, format: ChatFormat) -> int:
    """Whether this model can be shown these datums and learn from them; N, their active tokens. Raises TrainerError."""
    for i, datum in enumerate(datums):
        if datum.n_tokens > model.max_positions:
            raise TrainerError(f"datum {i} has {datum.n_tokens} positions; the model takes {model.max_positions}")
        if loss is not None and loss.name != "cross_entropy" and (datum.logprobs is None or datum.advantages is None):
            raise TrainerError(
                f"datum {i} has no log-probs of sampling or no advantages, which {loss.name} needs; a demonstration is "
                "trained on with cross_entropy"
            )
        highest = int(datum.targets.max(initial=0))
        for chunk in datum.chunks:
            if isinstance(chunk, ImageSegment):
                _check_picture(chunk, format, i)
            else:
                highest = max((highest, *chunk))
        if highest >= model.n_ids:
            raise TrainerError(f"datum {i}: the token id {highest} is beyond the model's {model.n_ids} ids")
    active = sum(int((d.weights > 0).sum()) for d in datums)
    if not active:
        raise TrainerError(f"none of the {len(datums)} datums has a token to learn from")
    return active


def _check_picture(segment: ImageSegment, format: ChatFormat, i: int) -> None:
    if segment.png is None:
        raise TrainerError(
            f"datum {i}: the picture {segment.sha256} is known by its hash only, and nobody learns from a picture "
            "that is not shown; read the ledger with its images (RUN/images/)"
        )
    grid = format.geometry.grid(segment.width, segment.height)
    if (segment.rows, segment.columns) != grid:
        raise TrainerError(
            f"datum {i}: a picture of {segment.width} x {segment.height} pixels counts as {segment.rows} x "
            f"{segment.columns} tokens; this model makes {grid[0]} x {grid[1]} of it: it was made for another model"
        )


def micro_batch(datums: Sequence[Datum], members: Sequence[int], loss: Loss | None) -> MicroBatch:
    """These datums of a batch together."""
    some = [datums[i] for i in members]
    width = max(d.n_tokens for d in some)
    active = [np.flatnonzero(d.weights > 0) for d in some]
    places = np.concatenate([row * width + at for row, at in enumerate(active)]).astype(np.int64)

    def chosen(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([getattr(d, name)[at] for d, at in zip(some, active, strict=True)]).astype(dtype)

    rollouts = loss is not None and loss.name != "cross_entropy"
    return MicroBatch(
        tuple(members),
        tuple(stretch(d.chunks, 0, d.n_tokens) for d in some),
        width,
        places,
        chosen("targets", np.int64),
        chosen("weights", np.float32),
        chosen("logprobs", np.float32) if rollouts else None,
        chosen("advantages", np.float32) if rollouts else None,
    )
