"""LoRA layers that compute in the model's precision, and norms that take one kernel: the stock numbers."""

from __future__ import annotations

from typing import Any

import peft
import pytest
import torch
from torch import nn
from torch_lab import FAMILIES

from specvet.policies.torch.adapters import refresh, speed_up
from specvet.policies.torch.layers import speed_up as speed_up_norms
from specvet.policies.torch.tiny import tiny_model


def adapted(dtype: torch.dtype, **changed: Any) -> Any:
    """Two linear layers with a LoRA each, in which nothing is 0."""
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(6, 10), nn.SiLU(), nn.Linear(10, 4, bias=False)).to(dtype)
    config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=["0", "2"], **changed)
    wrapped = peft.get_peft_model(base, config).eval()
    with torch.no_grad():
        for name, weight in wrapped.named_parameters():
            if "lora_" in name:
                weight.normal_(std=0.5)
    return wrapped


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_lora_layer_and_its_gradients_are_the_stock_ones(dtype: torch.dtype) -> None:
    x = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    told = []
    for fast in (False, True):
        module = adapted(dtype)
        if fast:
            speed_up(module)
            assert all(m.forward.__name__ == "_forward" for n, m in module.named_modules() if hasattr(m, "lora_A"))
        out = module(x)
        out.float().square().sum().backward()
        told.append([out, *(p.grad for n, p in module.named_parameters() if "lora_" in n)])
    for stock, mine in zip(*told, strict=True):
        scale = float(stock.detach().abs().max())
        bound = 1e-5 if dtype == torch.float32 else 2e-2
        assert mine.dtype == stock.dtype
        assert float((mine.float() - stock.float()).detach().abs().max()) < bound * scale


def test_what_was_cast_follows_the_weights_to_where_it_lies() -> None:
    module = adapted(torch.bfloat16)
    speed_up(module)
    layers = [m for m in module.modules() if hasattr(m, "lora_A")]
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(1)).bfloat16()
    with torch.inference_mode():
        first = module(x).clone()
    places = [t.data_ptr() for layer in layers for t in layer.cast_weights]
    assert torch.equal(first, module(x))  # with gradients, cast anew
    for change in (refresh, lambda module: module):  # told, or found at the next call
        with torch.no_grad():
            for layer in layers:
                layer.lora_B["default"].weight.mul_(-2.0)
        change(module)
        with torch.inference_mode():
            now = module(x).clone()
        assert not torch.equal(now, first)
        assert torch.equal(now, module(x))
        assert places == [t.data_ptr() for layer in layers for t in layer.cast_weights]
    with module.disable_adapter():
        assert torch.equal(module(x), module.get_base_model()(x))


@pytest.mark.parametrize("changed", [{"use_dora": True}, {"lora_dropout": 0.1}, {"lora_bias": True}])
def test_layers_that_are_no_plain_lora_stay_as_they_are(changed: dict[str, Any]) -> None:
    module = adapted(torch.float32, **changed)
    speed_up(module)
    assert not any(m.forward.__name__ == "_forward" for m in module.modules() if hasattr(m, "lora_A"))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_text_model_says_what_it_says_with_stock_norms(family: str, dtype: torch.dtype) -> None:
    text = tiny_model(family, seed=2).model.language_model.to(dtype)
    with torch.no_grad():
        for name, weight in text.named_parameters():
            if "norm" in name:  # as after training; 1 would hide a forgotten one
                weight.add_(torch.linspace(-0.4, 0.4, weight.numel()))
    hidden = torch.randn(2, 9, 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    told = []
    for fast in (False, True):
        if fast:
            speed_up_norms(text)
        x = hidden.clone().requires_grad_()
        out = text(inputs_embeds=x, use_cache=False).last_hidden_state
        out.float().square().sum().backward()
        assert x.grad is not None
        told.append((out.detach().float(), x.grad.float()))
    for stock, mine in zip(*told, strict=True):
        bound = 1e-5 if dtype == torch.float32 else 5e-2
        assert float((mine - stock).abs().max()) < bound * float(stock.abs().max())
