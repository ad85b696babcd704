"""Where each token stands: multimodal rotary positions (time, row, column), the same rule in all families.

Text counts on by one in all three. A still picture of rows x columns tokens that starts at p has time p, rows p … and
columns p …; what follows it stands at p + max(rows, columns) (Qwen2-VL, arXiv 2409.12191, section 2.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.chat import ImageSegment, Ledger, Segment, WordsSegment

Piece = Segment | tuple[int, ...]
"""A segment of a ledger, or a chunk of a datum: ids, or a picture."""


def length(piece: Piece) -> int:
    """Tokens of a piece."""
    return len(piece) if isinstance(piece, tuple) else piece.n_tokens


def rotary_positions(pieces: Iterable[Piece], start: int = 0, end: int | None = None) -> NDArray[np.int64]:
    """Positions of tokens `start` to `end` (all of them), shape (3, end - start): time, row, column.

    A sampled id that happens to be the picture id is text and counts as text, unlike in a rule that goes by ids.
    """
    parts = [np.zeros((3, 0), dtype=np.int64)]
    at = stop = 0
    for piece in pieces:
        begin, stop = stop, stop + length(piece)
        if end is not None and begin >= end:
            break
        seen = stop > start
        if isinstance(piece, ImageSegment):
            if seen:
                rows, columns = np.indices((piece.rows, piece.columns)).reshape(2, -1)
                parts.append(at + np.stack((np.zeros_like(rows), rows, columns)))
            at += max(piece.rows, piece.columns)
        else:
            if seen:
                parts.append(np.broadcast_to(at + np.arange(stop - begin), (3, stop - begin)))
            at += stop - begin
        if seen:
            parts[-1] = parts[-1][:, max(start - begin, 0) : None if end is None else end - begin]
    return np.concatenate(parts, axis=1)


@dataclass(slots=True)
class Embedded:
    """A stretch of a ledger or a datum, ready for the text model."""

    ids: NDArray[np.int64]
    """Shape (n,)."""
    positions: NDArray[np.int64]
    """Shape (3, n)."""
    pictures: list[tuple[int, ImageSegment, int, int]]
    """Where in the stretch, which picture, and which of its tokens (from, to) stand there."""


def stretch(pieces: Iterable[Piece], start: int, end: int) -> Embedded:
    """Tokens `start` to `end` of a ledger, or of a datum's chunks; they must be tokens, not words."""
    pieces = list(pieces)
    ids = np.empty(end - start, dtype=np.int64)
    pictures = []
    stop = 0
    for piece in pieces:
        at, stop = stop, stop + length(piece)
        first, last = max(at, start), min(stop, end)
        if first >= last:
            continue
        if isinstance(piece, ImageSegment):
            ids[first - start : last - start] = piece.pad_id
            pictures.append((first - start, piece, first - at, last - at))
        elif not isinstance(piece, WordsSegment):
            some = piece if isinstance(piece, tuple) else piece.ids
            ids[first - start : last - start] = some[first - at : last - at]
    return Embedded(ids, rotary_positions(pieces, start, end), pictures)


def next_position(ledger: Ledger) -> int:
    """Position of the token that would follow, in all three."""
    return sum(max(s.rows, s.columns) if isinstance(s, ImageSegment) else s.n_tokens for s in ledger)
