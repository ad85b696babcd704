"""A trained model as a folder that can be given away: bfloat16, in files of at most 15 MB, with hashes and receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from specvet.policies.catalogue import Manifest, write_model_manifest
from specvet.policies.manner import manner_of
from specvet.policies.torch.loading import quiet
from specvet.training.torch.states import copy_settings, replaced
from specvet.training.trainer import TrainerError

SHARD = "15MB"
"""Of a file of weights, at most: some services take no larger ones."""

stock: Any = transformers  # parts of it have no types


def pack(
    model: str | Path,
    out: str | Path,
    *,
    name: str,
    version: str,
    licence: str,
    receipts: Iterable[Mapping[str, Any]] = (),
) -> Manifest:
    """Write a model folder anew to `out`, which must be empty or not exist; its manifest.

    Weights are rounded once to bfloat16; everything else is copied. The folder appears when it is whole. Raises
    TrainerError for what is no model folder and for an `out` that is in use, ModelError for a name that cannot be one.
    """
    source, place = Path(model).expanduser(), Path(out).expanduser()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise TrainerError(f"{out} is not empty; name a folder that does not exist")
    if not (source / "config.json").is_file():
        raise TrainerError(f"{model}: no model folder (config.json is missing)")
    try:
        with quiet():
            module = stock.AutoModelForImageTextToText.from_pretrained(source, dtype=torch.bfloat16)
    except (OSError, ValueError) as e:
        raise TrainerError(f"{model}: cannot be opened ({str(e).splitlines()[0]})") from e
    place.parent.mkdir(parents=True, exist_ok=True)
    with replaced(place) as made:
        with quiet():
            module.save_pretrained(made, max_shard_size=SHARD)
        copy_settings(source, made)
        manner = manner_of(source)
        return write_model_manifest(made, name=name, version=version, licence=licence, manner=manner, receipts=receipts)
