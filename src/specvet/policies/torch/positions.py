"""Where each token stands: multimodal rotary positions (time, row, column), the same rule in all families.

Text counts on by one in all three. A still picture of rows x columns tokens that starts at p has time p, rows p … and
columns p …; what follows it stands at p + max(rows, columns) (Qwen2-VL, arXiv 2409.12191, section 2.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specvet.chat import ImageSegment, Ledger


def rotary_positions(ledger: Ledger, start: int = 0, end: int | None = None) -> NDArray[np.int64]:
    """Positions of tokens `start` to `end` (all of them), shape (3, end - start): time, row, column.

    A sampled id that happens to be the picture id is text and counts as text, unlike in a rule that goes by ids.
    """
    end = ledger.n_tokens if end is None else end
    parts = [np.zeros((3, 0), dtype=np.int64)]
    at = 0
    for begin, stop, segment in zip(ledger.ends, ledger.ends[1:], ledger, strict=False):
        if begin >= end:
            break
        seen = stop > start
        if isinstance(segment, ImageSegment):
            if seen:
                rows, columns = np.indices((segment.rows, segment.columns)).reshape(2, -1)
                parts.append(at + np.stack((np.zeros_like(rows), rows, columns)))
            at += max(segment.rows, segment.columns)
        else:
            if seen:
                parts.append(np.broadcast_to(at + np.arange(stop - begin), (3, stop - begin)))
            at += stop - begin
        if seen:
            parts[-1] = parts[-1][:, max(start - begin, 0) : end - begin]
    return np.concatenate(parts, axis=1)


def next_position(ledger: Ledger) -> int:
    """Position of the token that would follow, in all three."""
    return sum(max(s.rows, s.columns) if isinstance(s, ImageSegment) else s.n_tokens for s in ledger)
