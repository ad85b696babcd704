"""Vision features: each picture goes through the tower once, whoever shows it, and stays for a while."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from specvet.chat import ImageSegment
from specvet.policies.torch.pixels import PixelRule, patches

LEAST_PATCHES, MOST_PATCHES = 16_384, 131_072
MOST_HIDDEN_BYTES = 1 << 29
"""Of the widest activations; with the two above it bounds the patches that go through the tower at a time: from some 25
pictures of 448 x 280 on. A small tower is bound by the number of its calls."""
MAX_DECODED = 4096
"""Pictures that wait decoded."""
MAX_LAYOUTS = 256
"""Sizes of pictures whose positions and windows are kept."""

Key = tuple[str, int, int]
"""A picture's SHA-256 and its grid: the same PNG in another grid has other features."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """One picture as the text model sees it."""

    main: Tensor
    """Shape (n_tokens, hidden)."""
    deep: tuple[Tensor, ...] = ()
    """The same shape, one a layer from the first on (DeepStack, Qwen3-VL)."""

    @property
    def n_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (self.main, *self.deep))


def key(segment: ImageSegment) -> Key:
    return segment.sha256, segment.rows, segment.columns


class VisionTower:
    """A model's vision tower with its processor. `encode` alone keeps nothing; `features` keeps what it computed."""

    def __init__(self, visual: Any, rule: PixelRule, *, keep_bytes: int) -> None:
        self.visual, self.rule = visual, rule
        self._keep_bytes, self._kept_bytes = keep_bytes, 0
        self._kept: OrderedDict[Key, Features] = OrderedDict()
        self._lock = threading.Lock()
        self._table: Tensor | None = None
        self._layouts: dict[tuple[int, int], tuple[Tensor, Tensor | None, Tensor | None]] = {}
        self._decoded: OrderedDict[Key, Future[NDArray[np.uint8]]] = OrderedDict()
        self._threads = ThreadPoolExecutor(min(16, os.cpu_count() or 1), "pixels")
        self._staging, self._staging_lock = torch.empty(0, dtype=torch.uint8), threading.Lock()
        config = visual.config
        widest = 2 * max(getattr(config, "intermediate_size", 0) or 0, 4 * config.hidden_size)
        self._most_patches = max(LEAST_PATCHES, min(MOST_PATCHES, MOST_HIDDEN_BYTES // widest))
        self.n_encoded = 0
        """Pictures that went through the tower so far."""
        speed_up(visual)

    @property
    def device(self) -> torch.device:
        return torch.device(next(self.visual.parameters()).device)

    def prepare(self, segments: Iterable[ImageSegment]) -> None:
        """Start decoding these pictures on other threads, where their features are not kept."""
        for s in segments:
            if key(s) not in self._kept and key(s) not in self._decoded:
                self._decoded[key(s)] = self._threads.submit(self.rule.pixels, s)
        while len(self._decoded) > MAX_DECODED:  # of requests that were called off
            self._decoded.popitem(last=False)

    def check(self, segments: Iterable[ImageSegment]) -> None:
        """Whether all of these can be decoded. Raises LedgerError, ImageError."""
        for s in segments:
            if key(s) not in self._kept:
                self._pixels(s)

    def features(self, segments: Iterable[ImageSegment]) -> dict[Key, Features]:
        """Features of these pictures, computed where they are not kept. Raises LedgerError, ImageError."""
        wanted = {key(s): s for s in segments}
        found: dict[Key, Features] = {}
        with self._lock:
            for k in list(wanted):
                if k in self._kept:
                    self._kept.move_to_end(k)
                    found[k] = self._kept[k]
                    del wanted[k]
            with torch.inference_mode():
                encoded = self.encode(list(wanted.values()))
            self.n_encoded += len(wanted)
            for k, features in zip(wanted, encoded, strict=True):
                found[k] = self._kept[k] = features
                self._kept_bytes += features.n_bytes
            while self._kept_bytes > self._keep_bytes and self._kept:
                _, oldest = self._kept.popitem(last=False)
                self._kept_bytes -= oldest.n_bytes
        return found

    def encode(self, segments: Sequence[ImageSegment]) -> list[Features]:
        """Features of these pictures, computed now, with gradients where they are on."""
        self.prepare(segments)
        by_size: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, s in enumerate(segments):
            by_size[s.rows, s.columns].append(i)
        encoded: dict[int, Features] = {}
        for (rows, columns), members in by_size.items():
            per_picture = rows * columns * self.rule.merge**2
            step = max(1, self._most_patches // per_picture)
            for at in range(0, len(members), step):
                some = members[at : at + step]
                pictures = [self._pixels(segments[i]) for i in some]
                encoded |= zip(some, self._forward(pictures, rows, columns), strict=True)
        for s in segments:
            self._decoded.pop(key(s), None)
        return [encoded[i] for i in range(len(segments))]

    def forget(self) -> None:
        """Drop what is kept: the weights have changed, or the policy closes."""
        self._kept.clear()
        self._kept_bytes = 0

    def close(self) -> None:
        self.forget()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _pixels(self, segment: ImageSegment) -> NDArray[np.uint8]:
        decoding = self._decoded.get(key(segment))
        try:
            return decoding.result() if decoding is not None else self.rule.pixels(segment)
        except Exception:
            self._decoded.pop(key(segment), None)
            raise

    def _forward(self, pictures: Sequence[NDArray[np.uint8]], rows: int, columns: int) -> list[Features]:
        if self._table is None or self._table.device != self.device:
            self._table = torch.from_numpy(self.rule.table()).to(self.device)
        values = patches(self._staged(pictures), self.rule, self._table).to(self.visual.dtype)
        grid = torch.tensor([[1, rows * self.rule.merge, columns * self.rule.merge]], device=self.device)
        layout = self._layout(rows, columns, len(pictures))
        out = self.visual(values, grid_thw=grid.expand(len(pictures), 3), **layout)
        n = rows * columns
        main = out.pooler_output.split(n)
        deep = [d.split(n) for d in getattr(out, "deepstack_features", None) or ()]
        return [Features(main[i], tuple(d[i] for d in deep)) for i in range(len(pictures))]

    def _staged(self, pictures: Sequence[NDArray[np.uint8]]) -> Tensor:
        """Pictures of one size on the device, uint8 of shape (pictures, height, width, 3)."""
        shape = (len(pictures), *pictures[0].shape)
        size = int(np.prod(shape))
        with self._staging_lock:
            if self._staging.numel() < size:  # pinned once and used again: fresh memory costs more than the copy
                self._staging = torch.empty(size, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
            staged = self._staging[:size].view(shape)
            np.stack(pictures, out=staged.numpy())
            return staged.to(self.device, copy=True)

    def _layout(self, rows: int, columns: int, n: int) -> dict[str, Tensor]:
        """Positions and windows of n pictures of one size: those of one picture, repeated. The stock tower would work
        them out picture by picture, and takes them ready made."""
        if (rows, columns) not in self._layouts:
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts[rows, columns] = self._layout_of_one(rows, columns)
        position, window, edges = self._layouts[rows, columns]
        layout = {"position_ids": position.repeat(n, 1)}
        if window is not None and edges is not None:
            picture = torch.arange(n, device=position.device)[:, None]
            layout["window_index"] = (window + picture * rows * columns).flatten()
            ends = (edges[1:] + picture * position.shape[0]).flatten()
            layout["cu_window_seqlens"] = torch.cat((edges[:1], ends)).int()
        return layout

    def _layout_of_one(self, rows: int, columns: int) -> tuple[Tensor, Tensor | None, Tensor | None]:
        from transformers import vision_utils

        stock: Any = vision_utils
        merge = self.rule.merge
        grid = torch.tensor([[1, rows * merge, columns * merge]])
        position = stock.get_vision_position_ids(grid, merge).to(self.device)
        if not hasattr(self.visual, "window_size"):
            return position, None, None
        window, edges = stock.get_vision_window_index(grid, merge, self.visual.window_size, self.rule.patch)
        return position, window.to(self.device), edges.to(self.device)


def speed_up(visual: Any) -> None:
    """Make a stock tower attend to all pictures (or windows) of one length in one call, and its patch embedding a
    matrix product.

    The stock code attends picture by picture and window by window in a Python loop, and runs a convolution whose stride
    is its kernel. The results are the same up to the order of float additions; tests hold them to the stock forward.
    """
    for block in visual.blocks:
        block.attn.forward = MethodType(_attention, block.attn)
    if type(visual.patch_embed.proj) is nn.Conv3d:  # an adapter may have put its own layer there
        visual.patch_embed.forward = MethodType(_patch_embedding, visual.patch_embed)


def _patch_embedding(self: Any, hidden_states: Tensor) -> Tensor:
    weight = self.proj.weight
    values = hidden_states.reshape(-1, weight[0].numel()).to(weight.dtype)
    return nn.functional.linear(values, weight.flatten(1), self.proj.bias)


def _attention(
    self: Any, hidden_states: Tensor, cu_seqlens: Tensor, position_embeddings: tuple[Tensor, Tensor], **kwargs: Any
) -> Tensor:
    n = hidden_states.shape[0]
    query, key, value = self.qkv(hidden_states).reshape(n, 3, self.num_heads, -1).unbind(1)  # n, heads, head_dim
    cos, sin = (t.unsqueeze(-2).float() for t in position_embeddings)
    query, key = (_rotated(t.float(), cos, sin).to(value.dtype) for t in (query, key))
    out = torch.empty_like(value)
    for length, rows in _equal_lengths(cu_seqlens):
        q, k, v = (t[rows].view(-1, length, *t.shape[1:]).transpose(1, 2) for t in (query, key, value))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, scale=self.scaling)
        out = out.index_put((rows,), attended.transpose(1, 2).reshape(-1, *value.shape[1:]))
    projected: Tensor = self.proj(out.reshape(n, -1))
    return projected


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


_lengths: OrderedDict[int, tuple[Tensor, list[tuple[int, Tensor]]]] = OrderedDict()


def _equal_lengths(boundaries: Tensor) -> list[tuple[int, Tensor]]:
    """Rows of all segments, by length. Every block of a forward asks with the same tensor, so the answer is kept."""
    known = _lengths.get(id(boundaries))
    if known is not None and known[0] is boundaries:
        return known[1]
    edges = boundaries.cpu().numpy().astype(np.int64)
    starts, lengths = edges[:-1], np.diff(edges)
    groups = []
    for length in np.unique(lengths[lengths > 0]):
        rows = (starts[lengths == length][:, None] + np.arange(length)).reshape(-1)
        groups.append((int(length), torch.from_numpy(rows).to(boundaries.device)))
    _lengths[id(boundaries)] = (boundaries, groups)
    while len(_lengths) > 2:  # whole pictures, and windows
        _lengths.popitem(last=False)
    return groups
