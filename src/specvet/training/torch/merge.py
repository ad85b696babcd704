"""A LoRA merged into its base model: a model folder that transformers, servers and `specvet … --model` load.

Only the adapted tensors change, each in float32 and rounded once to the precision that the base has on disk. All other
tensors, the names of all, and all other files (configuration, tokenizer, processor, template) are the base's own.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from specvet.policies.options import ModelOptions
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.loading import model_folder, quiet
from specvet.policies.torch.tiny import save_tiny
from specvet.training.torch.states import copy_settings, replaced
from specvet.training.trainer import TrainerError

NOT_PLAIN = (
    *("use_dora", "lora_bias", "alora_invocation_tokens", "trainable_token_indices"),
    *("rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication"),
)
"""Settings of an adapter that make it more than B · A beside linear layers."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an adapter adds to one weight: scale · up · down."""

    down: Tensor
    """Shape (rank, in)."""
    up: Tensor
    """Shape (out, rank)."""
    scale: float

    def applied(self, weight: Tensor) -> Tensor:
        """The weight with it, in the weight's precision."""
        delta = self.up.float() @ self.down.float()
        return torch.add(weight.float(), delta, alpha=self.scale).to(weight.dtype)


def merge(base: str | ModelOptions, adapter: str | Path, out: str | Path) -> Path:
    """Write the merged model to the folder `out`, which must be empty or not exist; its path.

    `base` is a model folder or a hub id, or options that name one (a tiny random model, where they name none). The
    folder appears when it is whole. Raises TrainerError for an adapter that is no plain LoRA or of another model, for a
    base without safetensors, and for a folder that is in use.
    """
    out = Path(out).expanduser()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TrainerError(f"{out} is not empty; name a folder that does not exist")
    changes = read_adapter(Path(adapter).expanduser())
    options = ModelOptions(model=base) if isinstance(base, str) else base
    with tempfile.TemporaryDirectory() as tiny:
        try:
            if options.model is None:
                with quiet():
                    folder = save_tiny(tiny, options.format or "qwen2_5_vl", options.seed, options.texts)
            else:
                folder = model_folder(options.model, options.revision)
        except PolicyError as e:
            raise TrainerError(str(e)) from e
        out.parent.mkdir(parents=True, exist_ok=True)
        with replaced(out) as made:
            _write(folder, made, changes)
    return out


def read_adapter(folder: Path) -> dict[str, Change]:
    """What a LoRA folder adds, by `placed` names of layers. Raises TrainerError for what is no plain LoRA."""
    try:
        config: Mapping[str, Any] = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError, SafetensorError) as e:
        raise TrainerError(
            f"{folder}: no LoRA folder with adapter_config.json and adapter_model.safetensors ({e})"
        ) from e
    odd = [name for name in NOT_PLAIN if config.get(name)]
    if config.get("peft_type") != "LORA" or config.get("bias", "none") != "none" or odd:
        raise TrainerError(
            f"{folder}: not plain LoRA ({', '.join(odd) or config.get('peft_type')}); only that can be merged"
        )
    rank, alpha = int(config["r"]), float(config["lora_alpha"])
    scale = alpha / rank**0.5 if config.get("use_rslora") else alpha / rank
    changes = {}
    for name in [n for n in tensors if n.endswith(".lora_A.weight")]:
        layer = name.removesuffix(".lora_A.weight")
        down, up = tensors.pop(name), tensors.pop(f"{layer}.lora_B.weight", None)
        if up is None or down.ndim != 2:
            raise TrainerError(f"{folder}: {layer} is no linear layer's adapter; only those can be merged")
        changes[placed(layer)] = Change(down, up, scale)
    if tensors or not changes:
        raise TrainerError(
            f"{folder}: {next(iter(tensors), 'nothing')} is not of a linear layer; only those can be merged"
        )
    return changes


def placed(name: str) -> str:
    """A layer's name without what differs between a checkpoint's files and the model in memory: `model.layers.0.…` and
    `base_model.model.model.language_model.layers.0.…` are one."""
    return re.sub(r"^(?:base_model\.)?(?:model\.)*(?:language_model\.)?(?:model\.)*", "", name)


def _write(base: Path, made: Path, changes: Mapping[str, Change]) -> None:
    shards = sorted(base.glob("*.safetensors"))
    if not shards:
        raise TrainerError(f"{base}: its weights are not in safetensors; convert them first")
    merged: set[str] = set()
    for shard in shards:
        tensors: dict[str, Tensor] = {}
        with safe_open(shard, framework="pt") as file:
            names = list(file.keys())
            for name in names:
                layer = placed(name.removesuffix(".weight"))
                tensor = file.get_tensor(name)
                change = changes.get(layer) if name.endswith(".weight") else None
                if change is not None:
                    if layer in merged or tensor.shape != (change.up.shape[0], change.down.shape[1]):
                        raise TrainerError(
                            f"{base}: {name} has shape {tuple(tensor.shape)}, the adapter's layer "
                            f"{(change.up.shape[0], change.down.shape[1])}: it was trained on another model"
                        )
                    tensor = change.applied(tensor)
                    merged.add(layer)
                tensors[name] = tensor
            save_file(tensors, made / shard.name, metadata=file.metadata() or {"format": "pt"})
    if missing := sorted(changes.keys() - merged):
        raise TrainerError(
            f"{base}: {len(missing)} of the adapter's {len(changes)} layers are not in it ({missing[0]}, …): it was "
            "trained on another model"
        )
    for index in base.glob("*.safetensors.index.json"):
        shutil.copyfile(index, made / index.name)
    copy_settings(base, made)
