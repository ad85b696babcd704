"""What of a model is trained: a new LoRA in it, or its weights themselves."""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from typing import Any, Literal

import peft
import torch
from torch import nn

from specvet.policies.torch.adapters import speed_up
from specvet.policies.torch.model import TorchModel
from specvet.training.trainer import Lora, TrainerError

Vision = Literal["frozen", "trained"]
ADAPTER = "default"
"""peft's name of the one adapter."""


def prepare(model: TorchModel, lora: Lora | None, vision: Vision, seed: int) -> dict[str, nn.Parameter]:
    """Make a model trainable; what is trained, by name. `model.trained` says it too. Raises TrainerError.

    With `lora`, adapters in float32 whose weights come from `seed` alone, and which change nothing yet. Without, the
    language model with its embeddings and output layer; in both cases the vision tower only where it is `trained`.
    """
    _ = model.base  # before anything changes
    model.module.requires_grad_(False)
    if lora is not None:
        _insert(model, lora, vision, seed)
    else:
        parts = [model.text, model.head, *([model.vision.visual] if vision == "trained" else [])]
        for part in parts:
            part.requires_grad_(True)
    trained = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    model.trained = dict(trained)
    model.weights_changed()
    return trained


def targets(model: TorchModel, lora: Lora, vision: Vision) -> list[str]:
    """Names of the linear layers that get an adapter: attention and MLP of the language model, and all of the vision
    tower where it is trained."""
    if not (lora.attention or lora.mlp):
        raise TrainerError("a LoRA without attention and without MLP layers trains nothing; switch one of them on")
    names = []
    for name, module in model.module.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        seen = vision == "trained" and ".visual." in f".{name}"
        if (seen or ".language_model.layers." in f".{name}") and (lora.attention if "attn" in name else lora.mlp):
            names.append(name)
    return names


def _insert(model: TorchModel, lora: Lora, vision: Vision, seed: int) -> None:
    names = targets(model, lora, vision)
    alpha: Any = lora.alpha  # peft says int, and takes any number
    config = peft.LoraConfig(r=lora.rank, lora_alpha=alpha, target_modules=_pattern(names), lora_dropout=0.0)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tied embeddings, which are not adapted
        model.module = peft.get_peft_model(model.module, config, adapter_name=ADAPTER).eval()
    adapters: dict[str, Any] = {n: m for n, m in model.module.named_modules() if isinstance(m, peft.tuners.lora.Linear)}
    if len(adapters) != len(names):
        raise TrainerError(f"{len(adapters)} of {len(names)} linear layers took an adapter; is peft too new?")
    with torch.no_grad():
        for name, layer in adapters.items():
            down, up = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
            down.copy_(_fan_in_uniform(down.shape, f"{seed}/{name}"))
            up.zero_()
    speed_up(model.module)


def _pattern(names: list[str]) -> str:
    """One regular expression for layers that differ in their numbers only; peft stores it with the adapter."""
    kinds = sorted({re.sub(r"\\\.\d+(?=\\\.)", r"\\.\\d+", re.escape(name)) for name in names})
    return "|".join(f"(?:{kind})" for kind in kinds)


def _fan_in_uniform(shape: torch.Size, stream: str) -> torch.Tensor:
    """Uniform within ±1/sqrt(columns), as LoRA begins; the same for a stream's name on every machine."""
    seed = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little") >> 1
    generator = torch.Generator().manual_seed(seed)
    bound = 1 / math.sqrt(shape[1])
    return torch.empty(shape, dtype=torch.float32).uniform_(-bound, bound, generator=generator)


def identity(lora: Lora | None, vision: Vision) -> dict[str, Any]:
    """What is trained, as it is written beside saved weights and compared when they are read."""
    told: dict[str, Any] = {"method": "full" if lora is None else "lora", "vision": vision}
    if lora is not None:
        told |= {"rank": lora.rank, "alpha": float(lora.alpha), "attention": lora.attention, "mlp": lora.mlp}
    return told
