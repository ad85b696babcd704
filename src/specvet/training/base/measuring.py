"""What a model has learnt: loss and exact replies on held-out documents, by kind of reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specvet.training.base.batch import batch_of
from specvet.training.base.encoding import Piece
from specvet.training.base.network import Network

ALL = "all"


def measured(network: Network, pieces: Sequence[Piece]) -> dict[str, dict[str, float]]:
    """By kind, and over all: `replies`, `tokens`, `loss` (nats a token), `right` (share of tokens that are the
    likeliest) and `exact` (share of replies of which every token is), each token given all before it."""
    sums: dict[str, Any] = {}
    for piece in pieces:
        losses, right = network.measured(batch_of(piece, pinned=False).to(network.device))
        turns = piece.turns.reshape(-1)[np.flatnonzero(piece.targets.reshape(-1) >= 0)]
        rows = np.nonzero(piece.targets >= 0)[0]
        _add(sums, piece, rows, turns, losses.double().cpu().numpy(), right.cpu().numpy())
    return {kind: _shares(*values) for kind, values in sorted(sums.items(), key=lambda kv: (kv[0] != ALL, kv[0]))}


def _add(sums: dict[str, Any], piece: Piece, rows: Any, turns: Any, losses: Any, right: Any) -> None:
    edges = np.flatnonzero(np.diff(rows) | np.diff(turns)) + 1  # where another reply begins
    for first, last in zip([0, *edges], [*edges, rows.size], strict=True):
        hits = int(right[first:last].sum())
        one = np.array([1, last - first, losses[first:last].sum(), hits, hits == last - first], dtype=np.float64)
        for kind in (ALL, piece.kinds[int(rows[first])][int(turns[first])]):
            sums[kind] = sums.get(kind, 0.0) + one


def _shares(replies: float, tokens: float, loss: float, right: float, exact: float) -> dict[str, float]:
    return {
        "replies": int(replies),
        "tokens": int(tokens),
        "loss": round(loss / tokens, 5),
        "right": round(right / tokens, 5),
        "exact": round(exact / replies, 5),
    }
