"""Prefill: rows read the tokens that they have not seen, many rows at a time, long ones in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specvet.policies.serving.rows import Reading
from specvet.policies.torch.arena import Arena, Prefill
from specvet.policies.torch.layers import TextLayers
from specvet.policies.torch.model import TorchModel
from specvet.policies.torch.positions import Embedded, stretch
from specvet.policies.torch.vision import Features, Key

LEAST_TOKENS = 2048
MOST_TOKENS = 65_536
MOST_HIDDEN_BYTES = 1 << 28
"""Of the widest activations of one piece; with the two above it bounds the tokens of a piece, padding included."""
MOST_SCORES = 1 << 27
"""Query-key pairs of one piece; each takes a number in their mask."""


def prefill(
    model: TorchModel, layers: TextLayers, arena: Arena, readings: Sequence[Reading], features: dict[Key, Features]
) -> Tensor:
    """Let rows read; the hidden state of each one's last token, shape (readings, hidden), in their order."""
    config = model.config.text_config
    widest = 2 * config.intermediate_size * model.text.embed_tokens.weight.element_size()
    budget = max(LEAST_TOKENS, min(MOST_TOKENS, MOST_HIDDEN_BYTES // widest))
    last = torch.empty((len(readings), config.hidden_size), dtype=model.dtype, device=model.device)
    order = sorted(range(len(readings)), key=lambda i: (readings[i].count, readings[i].end))
    while order:
        rows = _fitting(readings, order, budget)
        group, order = order[:rows], order[rows:]
        parts = [stretch(readings[i].ledger, readings[i].start, readings[i].end) for i in group]
        width = max(1, min(budget // len(group), MOST_SCORES // (len(group) * max(readings[i].end for i in group))))
        for at in range(0, max(p.ids.size for p in parts), width):
            going = [j for j, p in enumerate(parts) if p.ids.size > at]
            pieces = [_piece(parts[j], at, at + width) for j in going]
            counts = [p.ids.size for p in pieces]
            hidden, positions, deep, where = model.embed(pieces, features)
            chosen = [readings[group[j]] for j in going]
            memory = Prefill(arena, [r.slot for r in chosen], [r.start + at for r in chosen], counts)
            states = layers(hidden, positions, memory, deep, where)
            ends = torch.tensor(counts, device=states.device) - 1
            last[[group[j] for j in going]] = states[torch.arange(len(going), device=states.device), ends]
    return last


def _fitting(readings: Sequence[Reading], order: Sequence[int], budget: int) -> int:
    """How many of the next rows, sorted by length, go together: their rectangle must fit, and not be mostly padding."""
    shortest = readings[order[0]].count
    n = 1
    for i in order[1:]:
        r = readings[i]
        area = (n + 1) * r.count
        if area > budget or area * r.end > MOST_SCORES or r.count > 2 * shortest + 64:
            break
        n += 1
    return n


def _piece(part: Embedded, start: int, end: int) -> Embedded:
    """Tokens `start` to `end` of a stretch."""
    end = min(end, part.ids.size)
    pictures = [
        (max(at, start) - start, segment, first + max(start - at, 0), last - max(at + last - first - end, 0))
        for at, segment, first, last in part.pictures
        if at < end and at + last - first > start
    ]
    return Embedded(part.ids[start:end], part.positions[:, start:end], pictures)
