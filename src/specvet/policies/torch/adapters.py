"""LoRA layers in the precision of what they are given.

Stock layers compute in their own float32 beside a bfloat16 model: inputs are cast up, products are float32, results are
cast down. Here the small matrices are cast instead, once a call and, where no gradient flows, once a change of weights.
In float32 the numbers are the stock ones.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn


def speed_up(module: Any) -> None:
    """Change how the plain LoRA layers of a model compute; others stay as they are."""
    for layer in _layers(module):
        if _is_plain(layer):
            layer.forward = MethodType(_forward, layer)


def refresh(module: Any) -> None:
    """Weights were trained: cast them again, to where they were cast before, since recorded graphs read them there."""
    for layer in _layers(module):
        if "cast_weights" in vars(layer):
            _cast(layer)


def _layers(module: Any) -> list[Any]:
    return [m for m in module.modules() if hasattr(m, "lora_A")]


def _is_plain(layer: Any) -> bool:
    active = layer.active_adapters
    return (
        len(active) == 1
        and active[0] in layer.lora_A
        and type(layer.base_layer) is nn.Linear
        and isinstance(layer.lora_dropout[active[0]], nn.Identity)
        and not (layer.lora_variant or layer.fan_in_fan_out or layer.merged)
        and layer.lora_A[active[0]].bias is None
        and layer.lora_B[active[0]].bias is None
    )


def _forward(self: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])  # in place on a view, gradients would be copied around
    out: Tensor = self.base_layer(flat)
    if not (self._disable_adapters or self.merged):
        down, up = _weights(self, x.dtype)
        out.addmm_(nn.functional.linear(flat, down), up.T)
    return out.view(*x.shape[:-1], out.shape[-1])


def _weights(layer: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The two matrices in a precision, the second one scaled."""
    down, up, scaling = _matrices(layer)
    if torch.is_grad_enabled() or down.dtype == dtype:
        return down.to(dtype), (up if scaling == 1 else up * scaling).to(dtype)
    kept = vars(layer).get("cast_weights")
    if kept is None or kept[0].dtype != dtype:
        with torch.inference_mode(False), torch.no_grad():  # they are changed outside of inference mode, too
            layer.cast_weights = (down.to(dtype), (up * scaling).to(dtype))
            layer.cast_versions = (down._version, up._version)
    elif layer.cast_versions != (down._version, up._version):
        _cast(layer)
    one, other = layer.cast_weights
    return one, other


@torch.no_grad()
def _cast(layer: Any) -> None:
    down, up, scaling = _matrices(layer)
    layer.cast_weights[0].copy_(down)
    layer.cast_weights[1].copy_(up * scaling)
    layer.cast_versions = (down._version, up._version)


def _matrices(layer: Any) -> tuple[Tensor, Tensor, float]:
    name = layer.active_adapters[0]
    return layer.lora_A[name].weight, layer.lora_B[name].weight, layer.scaling[name]
