"""The forward of a Qwen2.5-VL whose vision attends to whole pictures, on its stock module's own weights, written out.

The stock forward works out positions and attention picture by picture; here all pictures of one size are one batch, and
grey pixels enter as one channel. Residuals and products have the given dtype, weights stay float32, norms and rotations
are float32. A test holds it to the stock forward. What the model cannot have (windows in its vision tower, grouped
sizes that differ from layer to layer) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from specvet.policies.torch.pixels import CLIP_MEAN, CLIP_STD
from specvet.training.base.batch import UNIT, Batch
from specvet.views.compact import BOTTOM, FRAME, LEFT, RIGHT, TOP

PATCH, MERGE = 14, 2
STRIP = 7
"""Pixels: of each strip of a picture the auxiliary head tells where its line is."""
_DARK = FRAME - 8
"""Of the drawing only the line is darker: grid, frame, ticks and bands are lighter."""


class InkHead(nn.Module):
    """What a picture's tokens should know, for training only: where the line is in each strip of 7 pixels.

    From the mean of a column of tokens, the height of the ink's centre and of its top, from −2 (upper edge) to 2.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, 2 * UNIT // STRIP)

    def forward(self, features: Tensor, pixels: Tensor) -> Tensor:
        """Mean squared error over the strips with ink; `features` have shape (k, rows, columns, hidden)."""
        told = self.linear(features.mean(dim=1).float()).unflatten(-1, (-1, 2)).flatten(1, 2)  # k, strips, 2
        wanted, there = ink(pixels)
        squares = (told - wanted).square() * there[..., None]
        mean: Tensor = squares.sum() / (2.0 * there.sum()).clamp(min=1.0)
        return mean


@torch.no_grad()
def ink(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and top of the dark pixels in each strip of a plot, and whether there are any: shapes (k, strips, 2) and
    (k, strips); heights from −2 (the picture's upper edge) to 2."""
    _, height, width = pixels.shape
    plot = torch.full_like(pixels, 255)
    plot[:, TOP : height - BOTTOM, LEFT : width - RIGHT] = pixels[:, TOP : height - BOTTOM, LEFT : width - RIGHT]
    dark = (_DARK - plot.clamp(max=_DARK).float()).view(-1, height, width // STRIP, STRIP).sum(dim=-1)
    y = torch.linspace(-2.0, 2.0, height, device=pixels.device)[:, None]
    total = dark.sum(dim=1)
    there = total >= _DARK
    centre = (dark * y).sum(dim=1) / total.clamp(min=1.0)
    top = torch.where(dark > 0, y, 2.0).amin(dim=1)
    return torch.stack((centre, top), dim=-1), there.float()


@dataclass(frozen=True, slots=True)
class Out:
    """Of one batch."""

    loss: Tensor
    """Mean over what is learnt, nats a token."""
    ink: Tensor
    """The auxiliary loss; 0 without a head."""


class Network:
    """Reads the weights of a stock module wherever they are; holds none."""

    def __init__(self, module: Any, dtype: torch.dtype, *, compile: bool = False) -> None:
        """Raises ValueError for a model that is built otherwise."""
        config = module.config
        text, vision = config.text_config, config.vision_config
        if set(range(vision.depth)) - set(vision.fullatt_block_indexes):
            raise ValueError("base training takes a vision tower whose every layer attends to the whole picture")
        if (vision.patch_size, vision.spatial_merge_size) != (PATCH, MERGE):
            raise ValueError(f"base training takes patches of {PATCH} pixels, {MERGE} x {MERGE} of them a token")
        self.module, self.dtype, self.compiled = module, dtype, compile
        self.device = next(module.parameters()).device
        core = module.model
        self.text, self.visual = core.language_model, core.visual
        self.eps = float(text.rms_norm_eps)
        self.heads, self.kv = text.num_attention_heads, text.num_key_value_heads
        dim = text.hidden_size // self.heads
        self._text_rates = _rates(dim, float(text.rope_parameters["rope_theta"])).to(self.device)
        self._axis = torch.repeat_interleave(torch.arange(3), torch.tensor(text.rope_parameters["mrope_section"])).to(
            self.device
        )
        self.vision_heads = vision.num_heads
        self._vision_dim = vision.hidden_size // vision.num_heads
        self._vision_turns: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        made: Callable[[Any], Any] = torch.compile if compile else lambda f: f
        self._text_layer = made(_text_layer)
        self._vision_layer = made(_vision_layer)
        self._token_losses = made(_token_losses)

    def losses(self, batch: Batch, head: InkHead | None) -> Out:
        """For training."""
        states, inks = self._states(batch, head)
        values, _ = self._of_tokens(states, batch)
        zero = torch.zeros((), device=self.device)
        return Out(values.mean(), torch.stack(inks).mean() if inks else zero)

    @torch.no_grad()
    def measured(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of each learnt token its loss, and whether it is the likeliest."""
        states, _ = self._states(batch, None)
        values, best = self._of_tokens(states, batch)
        return values, best == batch.targets

    def _of_tokens(self, states: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        learnt, targets = self._any_size(states.index_select(0, batch.learnt), 0), self._any_size(batch.targets, 0)
        values, best = self._token_losses(learnt, self.module.lm_head.weight, targets)
        return values, best

    def states(self, batch: Batch) -> Tensor:
        """Final hidden states, shape (documents · length, hidden)."""
        return self._states(batch, None)[0]

    def _states(self, batch: Batch, head: InkHead | None) -> tuple[Tensor, list[Tensor]]:
        hidden = F.embedding(batch.ids.reshape(-1).long(), self.text.embed_tokens.weight).to(self.dtype)
        inks = []
        for shown in batch.pictures:
            features = self.features(shown.pixels)
            if head is not None:
                inks.append(head(features, shown.pixels))
            hidden = hidden.index_copy(0, shown.places, features.flatten(0, 2))
        rows, length = batch.ids.shape
        hidden = hidden.view(rows, length, -1)
        at = batch.positions.permute(1, 2, 0).float()[..., self._axis] * self._text_rates  # rows, length, dim / 2
        cos, sin = (self._any_size(t, 0, 2) for t in (at.cos()[:, None], at.sin()[:, None]))
        for layer in self.text.layers:
            attention, mlp = layer.self_attn, layer.mlp
            hidden = self._text_layer(
                self._any_size(hidden, 0, 1), cos, sin,
                layer.input_layernorm.weight,
                attention.q_proj.weight, attention.q_proj.bias, attention.k_proj.weight, attention.k_proj.bias,
                attention.v_proj.weight, attention.v_proj.bias, attention.o_proj.weight,
                layer.post_attention_layernorm.weight,
                mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight,
                self.heads, self.kv, self.eps,
            )  # fmt: skip
        return _normed(hidden, self.text.norm.weight, self.eps).flatten(0, 1), inks

    def features(self, pixels: Tensor) -> Tensor:
        """Tokens of grey pictures of one size, uint8 of shape (k, height, width) → (k, rows, columns, hidden)."""
        k, height, width = pixels.shape
        rows, columns = height // UNIT, width // UNIT
        x = (255 - pixels).view(k, rows, MERGE, PATCH, columns, MERGE, PATCH).permute(0, 1, 4, 2, 5, 3, 6)
        weight, bias = self._grey_patches()
        x = F.linear(x.reshape(k, rows * columns * MERGE**2, PATCH**2).to(self.dtype), weight, bias)
        cos, sin = self._turns(rows, columns)
        for block in self.visual.blocks:
            attention, mlp = block.attn, block.mlp
            x = self._vision_layer(
                self._any_size(x, 0, 1), cos, sin,
                block.norm1.weight,
                attention.qkv.weight, attention.qkv.bias, attention.proj.weight, attention.proj.bias,
                block.norm2.weight,
                mlp.gate_proj.weight, mlp.gate_proj.bias, mlp.up_proj.weight, mlp.up_proj.bias,
                mlp.down_proj.weight, mlp.down_proj.bias,
                self.vision_heads,
            )  # fmt: skip
        merger = self.visual.merger
        x = _normed(x, merger.ln_q.weight, 1e-6).view(k, rows, columns, -1)
        return _linear(F.gelu(_linear(x, merger.mlp[0])), merger.mlp[2])

    def _any_size(self, t: Tensor, *dims: int) -> Tensor:
        """`t`, whose sizes along these dimensions are not compiled in."""
        if self.compiled:
            for dim in dims:
                torch._dynamo.maybe_mark_dynamic(t, dim)
        return t

    def _grey_patches(self) -> tuple[Tensor, Tensor]:
        """Weights of the stock patch embedding for one channel that is 0 where the picture is white and 255 where it is
        black: three equal channels, normalised as the processor does, in two equal frames."""
        weight = self.visual.patch_embed.proj.weight.sum(dim=2)  # hidden, 3, patch, patch
        mean, std = (torch.tensor(t, device=self.device)[:, None, None] for t in (CLIP_MEAN, CLIP_STD))
        grey = -(weight / (255.0 * std)).sum(dim=1).flatten(1)
        white = (weight * ((1.0 - mean) / std)).sum(dim=(1, 2, 3))
        return grey.to(self.dtype), white.to(self.dtype)

    def _turns(self, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of a picture's patches, in the order of their tokens, shape (patches, 1, dim / 2)."""
        if (rows, columns) not in self._vision_turns:
            y, x = np.indices((rows * MERGE, columns * MERGE))
            order = [p.reshape(rows, MERGE, columns, MERGE).transpose(0, 2, 1, 3).reshape(-1) for p in (y, x)]
            rates = _rates(self._vision_dim // 2, 10_000.0)
            at = torch.cat([torch.from_numpy(p).float()[:, None] * rates for p in order], dim=-1).to(self.device)
            self._vision_turns[rows, columns] = (
                self._any_size(at.cos()[:, None], 0),
                self._any_size(at.sin()[:, None], 0),
            )
        return self._vision_turns[rows, columns]


def _rates(dim: int, theta: float) -> Tensor:
    return 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x.float(), (x.shape[-1],), weight, eps).to(x.dtype)


def _linear(x: Tensor, module: Any) -> Tensor:
    return F.linear(x, module.weight.to(x.dtype), module.bias.to(x.dtype))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs are a half apart, as the stock rotation has them."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def _text_layer(
    x: Tensor, cos: Tensor, sin: Tensor,
    norm1: Tensor, q_w: Tensor, q_b: Tensor, k_w: Tensor, k_b: Tensor, v_w: Tensor, v_b: Tensor, o_w: Tensor,
    norm2: Tensor, gate: Tensor, up: Tensor, down: Tensor,
    heads: int, kv: int, eps: float,
) -> Tensor:  # fmt: skip
    rows, length, width = x.shape
    dtype, dim = x.dtype, width // heads
    h = _normed(x, norm1, eps)
    weight = torch.cat((q_w, k_w, v_w)).to(dtype)
    qkv = F.linear(h, weight, torch.cat((q_b, k_b, v_b)).to(dtype)).view(rows, length, heads + 2 * kv, dim)
    q, k, v = torch.split(qkv.transpose(1, 2), [heads, kv, kv], dim=1)
    q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
    k, v = (t[:, :, None].expand(rows, kv, heads // kv, length, dim).flatten(1, 2) for t in (k, v))
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(a.transpose(1, 2).reshape(rows, length, width), o_w.to(dtype))
    h = _normed(x, norm2, eps)
    return x + F.linear(F.silu(F.linear(h, gate.to(dtype))) * F.linear(h, up.to(dtype)), down.to(dtype))


def _vision_layer(
    x: Tensor, cos: Tensor, sin: Tensor,
    norm1: Tensor, qkv_w: Tensor, qkv_b: Tensor, o_w: Tensor, o_b: Tensor,
    norm2: Tensor, gate_w: Tensor, gate_b: Tensor, up_w: Tensor, up_b: Tensor, down_w: Tensor, down_b: Tensor,
    heads: int,
) -> Tensor:  # fmt: skip
    k, patches, width = x.shape
    dtype = x.dtype
    h = _normed(x, norm1, 1e-6)
    q, key, v = F.linear(h, qkv_w.to(dtype), qkv_b.to(dtype)).view(k, patches, 3, heads, -1).unbind(2)
    q, key = _rotated(q, cos, sin), _rotated(key, cos, sin)
    a = F.scaled_dot_product_attention(q.transpose(1, 2), key.transpose(1, 2), v.transpose(1, 2))
    x = x + F.linear(a.transpose(1, 2).reshape(k, patches, width), o_w.to(dtype), o_b.to(dtype))
    h = _normed(x, norm2, 1e-6)
    g = F.silu(F.linear(h, gate_w.to(dtype), gate_b.to(dtype)))
    return x + F.linear(g * F.linear(h, up_w.to(dtype), up_b.to(dtype)), down_w.to(dtype), down_b.to(dtype))


def _token_losses(states: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logits = F.linear(states, head.to(states.dtype)).float()
    return F.cross_entropy(logits, targets, reduction="none"), logits.detach().argmax(dim=-1)
