"""The text model's forward over an arena: the stock layers' own weights and modules, our memory.

The stock forward keeps its cache in objects whose contracts change from version to version and which hold rows of one
length. Here each layer's modules (norms, projections, adapters in them) are called as they are, in the stock order;
only where keys, values and states live is ours. Tests hold the results to the stock forward, family by family.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from specvet.policies.torch.arena import Memory


class TextLayers:
    """The layers of one text model (`…TextModel` of Qwen2.5-VL, Qwen3-VL or Qwen3.5)."""

    def __init__(self, text: Any) -> None:
        self.text = text
        self.kinds: list[str] = list(getattr(text.config, "layer_types", None) or ["full_attention"] * len(text.layers))

    def __call__(
        self,
        hidden: Tensor,
        positions: Tensor,
        memory: Memory,
        deep: Sequence[Tensor] = (),
        deep_at: Tensor | None = None,
    ) -> Tensor:
        """Final, normalised hidden states, shape (rows, tokens, hidden).

        `hidden` are embeddings of that shape, `positions` (3, rows, tokens). `deep[i]`, shape (n, hidden), is added
        after layer i at the flat places `deep_at` (n,): DeepStack.
        """
        cos, sin = self.text.rotary_emb(hidden, positions)
        cos, sin = cos[:, None], sin[:, None]
        for i, layer in enumerate(self.text.layers):
            normed = layer.input_layernorm(hidden)
            if self.kinds[i] == "linear_attention":
                hidden = hidden + _linear_attention(layer.linear_attn, i, normed, memory)
            else:
                hidden = hidden + _attention(layer.self_attn, i, normed, cos, sin, memory)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
            if i < len(deep) and deep_at is not None:
                flat = hidden.flatten(0, 1).index_add(0, deep_at, deep[i].to(hidden.dtype))
                hidden = flat.view_as(hidden)
        normed = self.text.norm(hidden)
        return torch.as_tensor(normed)


def _attention(module: Any, layer: int, x: Tensor, cos: Tensor, sin: Tensor, memory: Memory) -> Tensor:
    rows, tokens, _ = x.shape
    dim = module.head_dim
    query, gate = module.q_proj(x), None
    key, value = module.k_proj(x).view(rows, tokens, -1, dim), module.v_proj(x).view(rows, tokens, -1, dim)
    if module.q_proj.out_features != module.o_proj.in_features:  # Qwen3.5: the query brings its output's gate
        query, gate = query.view(rows, tokens, -1, 2 * dim).chunk(2, dim=-1)
        gate = gate.reshape(rows, tokens, -1)
    query = query.reshape(rows, tokens, -1, dim)
    if hasattr(module, "q_norm"):
        query, key = module.q_norm(query), module.k_norm(key)
    query, key, value = (t.transpose(1, 2) for t in (query, key, value))
    out = memory.attend(layer, rotated(query, cos, sin), rotated(key, cos, sin), value, module.scaling)
    out = out.transpose(1, 2).reshape(rows, tokens, -1)
    if gate is not None:
        out = out * torch.sigmoid(gate)
    return torch.as_tensor(module.o_proj(out))


def _linear_attention(module: Any, layer: int, x: Tensor, memory: Memory) -> Tensor:
    rows, tokens, _ = x.shape
    key_dim, value_dim = module.head_k_dim, module.head_v_dim
    gate = module.in_proj_z(x).view(-1, value_dim)
    beta = module.in_proj_b(x).sigmoid()
    decay = -module.A_log.float().exp() * nn.functional.softplus(module.in_proj_a(x).float() + module.dt_bias)
    inputs = memory.convolve(layer, module.in_proj_qkv(x).transpose(1, 2))
    weight = module.conv1d.weight
    mixed = nn.functional.conv1d(inputs.to(weight.dtype), weight, module.conv1d.bias, groups=weight.shape[0])
    mixed = nn.functional.silu(mixed).to(x.dtype).transpose(1, 2)
    query, key, value = torch.split(mixed, [module.key_dim, module.key_dim, module.value_dim], dim=-1)
    query, key = (t.reshape(rows, tokens, -1, key_dim) for t in (query, key))
    value = value.reshape(rows, tokens, -1, value_dim)
    share = module.num_v_heads // module.num_k_heads
    if share > 1:
        query, key = (t.repeat_interleave(share, dim=2) for t in (query, key))
    out = memory.delta_rule(layer, query, key, value, decay, beta)
    out = module.norm(out.reshape(-1, value_dim), gate).view(rows, tokens, -1)
    return torch.as_tensor(module.out_proj(out))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of the first `cos.shape[-1]` of a head's dimensions; the rest passes."""
    width = cos.shape[-1]
    turned, rest = (x, None) if width == x.shape[-1] else (x[..., :width], x[..., width:])
    half = width // 2
    turned = turned * cos + torch.cat((-turned[..., half:], turned[..., :half]), dim=-1) * sin
    return turned if rest is None else torch.cat((turned, rest), dim=-1)


def speed_up(text: Any) -> None:
    """Make a stock text model normalise in one kernel a norm, where the stock code takes six, and add DeepStack's
    features at places that are known, where the stock code has to look for them and to wait for the device.

    In float32 the numbers are the stock ones up to the order of additions; in bfloat16 a norm is rounded once, not
    twice.
    """
    for module in text.modules():
        kind = type(module).__name__
        if kind == "Qwen3_5RMSNorm":
            module.forward = MethodType(_norm_around_one, module)
        elif kind.endswith("RMSNorm"):
            module.forward = MethodType(_norm, module)
    if hasattr(text, "_deepstack_process"):
        text._deepstack_process = MethodType(_add_at, text)


def _norm(self: Any, hidden_states: Tensor) -> Tensor:
    return nn.functional.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)


def _norm_around_one(self: Any, x: Tensor) -> Tensor:
    scale = 1.0 + self.weight.float()
    return nn.functional.rms_norm(x.float(), scale.shape, scale, self.eps).to(x.dtype)


def _add_at(self: Any, hidden_states: Tensor, places: Tensor, features: Tensor) -> Tensor:
    """`places` are flat ones, or a mask, as the stock model has it."""
    where = places.flatten().nonzero().squeeze(-1) if places.dtype == torch.bool else places
    flat = hidden_states.flatten(0, 1).index_add(0, where, features.to(hidden_states.dtype))
    return flat.view_as(hidden_states)
