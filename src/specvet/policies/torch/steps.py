"""Decoding in blocks: the same small step again and again over static buffers, on a GPU as a recorded CUDA graph.

The host writes what a block needs (`Lanes`), lets `n` steps run without looking, and then reads
ids and log-probs of all of them. A row that meets an end token or its limit in the middle stands still for the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specvet.policies.serving.lanes import Lanes
from specvet.policies.torch.arena import Arena, Step
from specvet.policies.torch.layers import TextLayers
from specvet.policies.torch.sampling import draw

MAX_GRAPHS = 256
"""Recorded sizes: some ten of rows times some ten of columns are in use at a time."""
MAX_BLOCK = 32
"""Steps that a block can have."""


class Stepper:
    """Steps the moving rows of an arena. `head` makes logits of hidden states, `embed` embeddings of ids."""

    def __init__(
        self,
        layers: TextLayers,
        arena: Arena,
        *,
        embed: Callable[[Tensor], Tensor],
        head: Callable[[Tensor], Tensor],
        stop_ids: Sequence[int],
        graphs: bool,
    ) -> None:
        self._layers, self._arena, self._embed, self._head = layers, arena, embed, head
        self._stop_ids = torch.tensor(stop_ids, device=arena.device)
        self._graphs: OrderedDict[tuple[int, int, bool], torch.cuda.CUDAGraph] | None = (
            OrderedDict() if graphs else None
        )
        self._side: Any = None
        self._pool: Any = None
        self._version = -1
        self._rows = 0

    def rows_for(self, n: int) -> int:
        """Rows that a step over the first n rows computes: with graphs, one of few sizes, so that graphs are few."""
        return n if self._graphs is None else rounded(n, 1, 1 if n <= 64 else 2)

    def run(self, lanes: Lanes, n: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """n steps of the rows that move: ids and log-probs, shape (n, n_busy). What follows a row's end is noise."""
        at = lanes.busy
        rows = min(self.rows_for(int(at.max()) + 1), self._arena.rows)
        reach = int(lanes.column[at].max()) + n
        reach = min(-(-reach // 16) * 16 if self._graphs is None else rounded(reach, 64, 4), self._arena.length)
        filtered = lanes.cuts(at)
        self._allocate()
        self._fill(lanes, at, n)
        step = self._recorded(rows, reach, filtered) if self._graphs is not None else None
        for _ in range(n):
            if step is None:
                self._step(rows, reach, filtered)
            else:
                step.replay()
        return self._ids[:n].cpu().numpy()[:, at], self._logprobs[:n].cpu().numpy()[:, at]

    def _allocate(self) -> None:
        """Static buffers, one entry a row of the arena."""
        if self._version == self._arena.version:
            return
        n, device = self._arena.rows, self._arena.device
        self._whole = torch.zeros((5, n), dtype=torch.int64, device=device)
        self._token, self._column, self._offset, self._limit, self._top_k = self._whole
        self._real = torch.zeros((2, n), dtype=torch.float32, device=device)
        self._temperature, self._top_p = self._real
        self._moving = torch.zeros(n, dtype=torch.bool, device=device)
        self._uniforms = torch.zeros((MAX_BLOCK, n), dtype=torch.float32, device=device)
        self._ids = torch.zeros((MAX_BLOCK, n), dtype=torch.int64, device=device)
        self._logprobs = torch.zeros((MAX_BLOCK, n), dtype=torch.float32, device=device)
        self._count = torch.zeros(1, dtype=torch.int64, device=device)
        self._version = self._arena.version
        if self._graphs is not None:
            self._graphs.clear()
            self._pool = None  # a pool ends with its last graph

    def _fill(self, lanes: Lanes, at: NDArray[np.int64], n: int) -> None:
        whole = lanes.whole.copy()
        whole[1, ~lanes.moving] = self._arena.length - 1  # rows that stand still write into the scratch column
        numbers = np.zeros((n, self._arena.rows), dtype=np.float32)
        numbers[:, at] = lanes.numbers(at, n)
        self._whole.copy_(torch.from_numpy(whole))
        self._real.copy_(torch.from_numpy(lanes.real))
        self._moving.copy_(torch.from_numpy(lanes.moving))
        self._uniforms[:n].copy_(torch.from_numpy(numbers))
        self._count.zero_()

    def _step(self, rows: int, reach: int, filtered: bool) -> None:
        token, column, moving = self._token[:rows], self._column[:rows], self._moving[:rows]
        positions = (column + self._offset[:rows])[None, :, None].expand(3, rows, 1)
        memory = Step(self._arena, rows, reach, column, moving)
        hidden = self._layers(self._embed(token[:, None]), positions, memory)
        uniforms = self._uniforms.index_select(0, self._count)[0, :rows]
        cut = (self._top_p[:rows], self._top_k[:rows]) if filtered else (None, None)
        ids, logprobs = draw(self._head(hidden[:, 0]), uniforms, self._temperature[:rows], *cut)
        self._ids[:, :rows].index_copy_(0, self._count, ids[None])
        self._logprobs[:, :rows].index_copy_(0, self._count, logprobs[None])
        self._count.add_(1)
        column.add_(moving)
        self._limit[:rows].sub_(moving.long())
        ended = (ids[:, None] == self._stop_ids[None, :]).any(dim=-1) | (self._limit[:rows] <= 0)
        token.copy_(torch.where(moving, ids, token))
        moving.logical_and_(~ended)

    def _recorded(self, rows: int, reach: int, filtered: bool) -> torch.cuda.CUDAGraph:
        """The step of this size as a graph, recorded at its first use."""
        assert self._graphs is not None
        known = self._graphs.get((rows, reach, filtered))
        if known is not None:
            self._graphs.move_to_end((rows, reach, filtered))
            return known
        while len(self._graphs) >= MAX_GRAPHS:
            self._graphs.popitem(last=False)
        moving, column = self._moving.clone(), self._column.clone()
        token, limit = self._token.clone(), self._limit.clone()
        self._moving.zero_()  # the rehearsals below must change no row
        cuda: Any = torch.cuda  # parts of it have no types
        if self._side is None:
            self._side, self._pool = cuda.Stream(), cuda.graph_pool_handle()
        graph: torch.cuda.CUDAGraph = cuda.CUDAGraph()
        self._side.wait_stream(cuda.current_stream())
        with cuda.stream(self._side):
            for _ in range(2):
                self._step(rows, reach, filtered)
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            self._step(rows, reach, filtered)
            graph.capture_end()
        cuda.current_stream().wait_stream(self._side)
        for buffer, kept in (
            (self._moving, moving),
            (self._column, column),
            (self._token, token),
            (self._limit, limit),
        ):
            buffer.copy_(kept)
        self._count.zero_()
        self._graphs[rows, reach, filtered] = graph
        return graph


def rounded(n: int, least: int, per_octave: int) -> int:
    """n rounded up to one of `per_octave` sizes between each power of two and the next, at least `least`."""
    n = max(n, least)
    octave = 1 << (n - 1).bit_length()
    part = max(octave // 2 // per_octave, 1)
    return max(least, -(-n // part) * part)
