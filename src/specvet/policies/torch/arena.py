"""The arena: keys, values and recurrent states of all rows, and how a layer writes and reads its part.

A row is one branch. Row r holds its first `length` tokens from the left; nothing is padded. Three views exist of it:

    Prefill   some rows, each with its own start and number of tokens (ragged, padded on the right)
    Step      the first b rows, one token each, fixed shapes: what a CUDA graph records

The last column of the arena is scratch: rows that must not change write there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from specvet.policies.torch.delta import chunked_delta_rule, delta_rule_step


@dataclass(frozen=True, slots=True)
class Shapes:
    """What one row and token needs, layer by layer."""

    kinds: tuple[str, ...]
    """`full_attention` or `linear_attention`, one a layer."""
    kv_heads: int
    head_dim: int
    conv_channels: int = 0
    conv_kernel: int = 1
    value_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0

    @property
    def recurrent(self) -> bool:
        """Whether some layer keeps a state that no earlier prefix can be read from."""
        return "linear_attention" in self.kinds


class Arena:
    """Memory of `rows` x `length` tokens that grows by doubling when asked, up to what it is asked for."""

    def __init__(self, shapes: Shapes, *, device: torch.device, dtype: torch.dtype) -> None:
        self.shapes, self.device, self.dtype = shapes, device, dtype
        self.rows = 0
        self.length = 0
        self.keys: dict[int, Tensor] = {}
        """By layer, shape (rows, kv_heads, length, head_dim)."""
        self.values: dict[int, Tensor] = {}
        self.conv: dict[int, Tensor] = {}
        """By layer, the last inputs of the convolution, shape (rows, conv_channels, conv_kernel - 1)."""
        self.states: dict[int, Tensor] = {}
        """By layer, float32, shape (rows, value_heads, key_dim, value_dim)."""
        self.version = 0
        """Counts the growths: whoever recorded addresses must record anew."""

    def reserve(self, rows: int, length: int) -> None:
        """Make sure that there are this many rows and columns; what is in them stays."""
        if rows <= self.rows and length <= self.length:
            return
        rows, length = max(rows, self.rows), max(length, self.length)
        s = self.shapes
        for i, kind in enumerate(s.kinds):
            if kind == "full_attention":
                shape = (rows, s.kv_heads, length, s.head_dim)
                self.keys[i] = self._grown(self.keys.get(i), shape, self.dtype)
                self.values[i] = self._grown(self.values.get(i), shape, self.dtype)
            else:
                conv = (rows, s.conv_channels, s.conv_kernel - 1)
                self.conv[i] = self._grown(self.conv.get(i), conv, self.dtype)
                state = (rows, s.value_heads, s.key_dim, s.value_dim)
                self.states[i] = self._grown(self.states.get(i), state, torch.float32)
        self.rows, self.length = rows, length
        self.version += 1

    def _grown(self, old: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        new = torch.zeros(shape, dtype=dtype, device=self.device)
        if old is not None:
            new[tuple(slice(n) for n in old.shape)] = old
        return new

    def copy(self, sources: Sequence[int], targets: Sequence[int], length: int, *, state: bool = True) -> None:
        """Copy the first `length` tokens of rows to others, pair by pair, with their recurrent states unless told
        otherwise. No row may be both source and target."""
        if not targets:
            return
        of, to = torch.tensor(sources, device=self.device), torch.tensor(targets, device=self.device)
        for store in (self.keys, self.values):
            for t in store.values():
                t[to, :, :length] = t[of, :, :length]
        if state:
            for store in (self.conv, self.states):
                for t in store.values():
                    t[to] = t[of]

    def swap(self, some: Sequence[int], others: Sequence[int], length: int) -> None:
        """Exchange rows pair by pair, up to `length` tokens of each."""
        if not some:
            return
        a, b = torch.tensor(some, device=self.device), torch.tensor(others, device=self.device)
        for store in (self.keys, self.values):
            for t in store.values():
                t[a, :, :length], t[b, :, :length] = t[b, :, :length], t[a, :, :length]
        for store in (self.conv, self.states):
            for t in store.values():
                t[a], t[b] = t[b], t[a]

    def blank(self, rows: Sequence[int]) -> None:
        """Set the recurrent states of rows to that of no token. Keys and values need nothing: lengths hide them."""
        if rows and self.shapes.recurrent:
            at = torch.tensor(rows, device=self.device)
            for store in (self.conv, self.states):
                for t in store.values():
                    t[at] = 0

    def state(self, row: int) -> dict[int, tuple[Tensor, Tensor]]:
        """A copy of a row's recurrent state, by layer."""
        return {i: (self.conv[i][row].clone(), self.states[i][row].clone()) for i in self.states}

    def set_state(self, row: int, state: dict[int, tuple[Tensor, Tensor]]) -> None:
        for i, (conv, recurrent) in state.items():
            self.conv[i][row] = conv
            self.states[i][row] = recurrent


class Prefill:
    """Some rows of an arena, each with its own start and its own number of tokens, which are its next ones."""

    def __init__(self, arena: Arena, rows: Sequence[int], starts: Sequence[int], counts: Sequence[int]) -> None:
        self.arena = arena
        device = arena.device
        width = max(counts)
        self.rows = torch.tensor(rows, device=device)
        start = torch.tensor(starts, device=device)[:, None]
        count = torch.tensor(counts, device=device)[:, None]
        offsets = torch.arange(width, device=device)[None, :]
        self.valid = offsets < count
        self._columns = torch.where(self.valid, start + offsets, arena.length - 1)
        reach = max(s + c for s, c in zip(starts, counts, strict=True))
        self._reach = min(-(-reach // 16) * 16, arena.length)
        self._fresh = not any(starts)
        self._mask: Tensor | None = None
        if not self._fresh:
            later = torch.arange(self._reach, device=device)[None, None, :] > (start + offsets)[:, :, None]
            mask = torch.zeros(later.shape, dtype=arena.dtype, device=device)  # rows, tokens, columns
            self._mask = mask.masked_fill_(later, float("-inf"))[:, None]
        self._ragged = min(counts) < width
        self._ends = count

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Attention of (rows, heads, tokens, head_dim) over everything before; the same shape."""
        keys, values = self.arena.keys[layer], self.arena.values[layer]
        keys[self.rows[:, None], :, self._columns] = key.transpose(1, 2)
        values[self.rows[:, None], :, self._columns] = value.transpose(1, 2)
        groups = query.shape[1] // key.shape[1]
        if not self._fresh:
            key, value = keys[self.rows, :, : self._reach], values[self.rows, :, : self._reach]
        if groups > 1:
            key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
        return nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=self._mask, is_causal=self._fresh, scale=scale
        )

    def convolve(self, layer: int, inputs: Tensor) -> Tensor:
        """(rows, channels, tokens) with the row's last inputs in front; what the next tokens need is kept."""
        kept = self.arena.conv[layer]
        full = torch.cat((kept[self.rows], inputs), dim=-1)
        last = self._ends + torch.arange(kept.shape[-1], device=full.device)[None, :]
        kept[self.rows] = full.gather(2, last[:, None, :].expand(-1, full.shape[1], -1))
        return full

    def delta_rule(self, layer: int, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
        """Gated delta rule from the rows' states on; padding neither decays nor writes."""
        if self._ragged:
            decay, beta = decay * self.valid[..., None], beta * self.valid[..., None]
        states = self.arena.states[layer]
        out, states[self.rows] = chunked_delta_rule(query, key, value, decay, beta, states[self.rows])
        return out


class Step:
    """The first `rows` rows of an arena, one token each, reading `reach` columns. All shapes are fixed.

    `columns` (rows,) says where each row writes and how far it sees, `moving` (rows,) whether it takes part: a row that
    does not may write a key and value at its column, which the caller chooses so that it harms nobody.
    """

    def __init__(self, arena: Arena, rows: int, reach: int, columns: Tensor, moving: Tensor) -> None:
        self._arena, self._rows, self._reach, self._moving = arena, rows, reach, moving
        heads, dim = arena.shapes.kv_heads, arena.shapes.head_dim
        self._at = columns[:, None, None, None].expand(rows, heads, 1, dim)
        hidden = torch.arange(reach, device=arena.device)[None, :] > columns[:, None]
        bias = torch.zeros((rows, reach), dtype=arena.dtype, device=arena.device).masked_fill_(hidden, float("-inf"))
        self._bias = bias[:, None, None, :]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Attention of (rows, heads, 1, head_dim). Query heads that share a key-value head are read as its queries, so
        that keys and values are never repeated."""
        keys, values = self._arena.keys[layer][: self._rows], self._arena.values[layer][: self._rows]
        keys.scatter_(2, self._at, key)
        values.scatter_(2, self._at, value)
        n, heads, _, dim = query.shape
        groups = heads // key.shape[1]
        out = nn.functional.scaled_dot_product_attention(
            query.view(n, key.shape[1], groups, dim),
            keys[:, :, : self._reach],
            values[:, :, : self._reach],
            attn_mask=self._bias.expand(n, key.shape[1], groups, self._reach),
            scale=scale,
        )
        return out.reshape(n, heads, 1, dim)

    def convolve(self, layer: int, inputs: Tensor) -> Tensor:
        kept = self._arena.conv[layer][: self._rows]
        full = torch.cat((kept, inputs), dim=-1)
        kept.copy_(torch.where(self._moving[:, None, None], full[..., 1:], kept))
        return full

    def delta_rule(self, layer: int, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
        moving = self._moving[:, None, None]
        return delta_rule_step(
            query, key, value, decay * moving, beta * moving, self._arena.states[layer][: self._rows]
        )


Memory = Prefill | Step
"""Where a layer keeps what it must remember."""


def shapes_of(text_config: Any) -> Shapes:
    """The shapes of a text model's cache."""
    c = text_config
    kinds = tuple(getattr(c, "layer_types", None) or ["full_attention"] * c.num_hidden_layers)
    heads = c.num_attention_heads
    dims: dict[str, int] = {}
    if "linear_attention" in kinds:
        dims = {
            "conv_channels": 2 * c.linear_num_key_heads * c.linear_key_head_dim
            + c.linear_num_value_heads * c.linear_value_head_dim,
            "conv_kernel": c.linear_conv_kernel_dim,
            "value_heads": c.linear_num_value_heads,
            "key_dim": c.linear_key_head_dim,
            "value_dim": c.linear_value_head_dim,
        }
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // heads
    return Shapes(kinds, c.num_key_value_heads or heads, head_dim, **dims)
