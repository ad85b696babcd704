"""Opening a model folder without torch and transformers: the packaged `nano`, one that was fetched, or any folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from specvet.chat import ChatFormat, ImageError, ImageGeometry, Vocabulary, VocabularyError, chat_format
from specvet.chat.qwen import PAD
from specvet.policies.catalogue import PACKAGED, find_model
from specvet.policies.embedded.model import EmbeddedModel
from specvet.policies.embedded.shape import Shape
from specvet.policies.embedded.weights import Weights, read_tensors
from specvet.policies.manner import FILE
from specvet.policies.options import ModelOptions
from specvet.policies.registry import PACKAGED_MODEL
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.pixels import PixelRule
from specvet.records import file_hash

FORMAT = "qwen2_5_vl"
_SETTINGS = ("config.json", "preprocessor_config.json", "tokenizer.json")


def load(options: ModelOptions) -> tuple[EmbeddedModel, ChatFormat, str]:
    """The model that the options name, its chat format, and a hash of its files. Raises PolicyError."""
    _check_options(options)
    folder = model_folder(options.model)
    files = [*sorted(folder.glob("*.safetensors")), *(folder / name for name in _SETTINGS)]
    hashes = _verified(folder, files)
    config, settings = (_json(folder / name) for name in _SETTINGS[:2])
    shape = Shape.of(config)
    if not shape.has_graphs:
        raise PolicyError(
            f"{folder}: not of nano's shape, the only one that the embedded policy has graphs for; --policy torch runs "
            "any Qwen2.5-VL",
            fatal=True,
        )
    try:
        vocabulary = Vocabulary.load(options.tokenizer or folder)
        format = chat_format(options.format or FORMAT, vocabulary, ImageGeometry.from_config(settings))
        rule = PixelRule.from_config(settings, SimpleNamespace(**config["vision_config"]))
    except (VocabularyError, ImageError, ValueError) as e:
        raise PolicyError(f"{folder}: {e}", fatal=True) from e
    if format.name != FORMAT:
        raise PolicyError(f"the format {format.name} is not for qwen2_5_vl models; leave out --format", fatal=True)
    if vocabulary.need(PAD) != shape.image_id or vocabulary.size > shape.ids:
        raise PolicyError(
            f"{folder}: this tokenizer has {vocabulary.size} ids and {PAD} as {vocabulary.need(PAD)}, config.json says "
            f"up to {shape.ids} and {shape.image_id}: they do not belong together",
            fatal=True,
        )
    room = min(options.context, shape.positions)
    weights = Weights(read_tensors(files[: -len(_SETTINGS)]), shape, rule)
    model = EmbeddedModel(weights, shape, rule, rows=2 * options.branches, room=room)
    return model, format, hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def model_folder(model: str | None) -> Path:
    """The folder of a model by name or path; None is the packaged default. Raises PolicyError."""
    packaged = PACKAGED / PACKAGED_MODEL
    if model is None and not (packaged / "config.json").is_file():
        raise PolicyError(
            f"this installation has no packaged model ({packaged} is missing): name a folder with --model, or "
            "take --policy line-indices",
            fatal=True,
        )
    folder = find_model(model or PACKAGED_MODEL)
    if not (folder / "config.json").is_file():
        raise PolicyError(f"{folder}: no model folder (config.json is missing)", fatal=True)
    return folder


def _check_options(options: ModelOptions) -> None:
    """Raises PolicyError for what would be ignored."""
    for said, why in (
        (options.base_url, "--base-url is of a server; the embedded policy runs here"),
        (options.revision, "--revision is of a hub id; `specvet models fetch` takes it"),
        (options.adapter, "the embedded policy has no adapters: merge it first (`specvet models merge`)"),
        (options.device not in ("auto", "cpu"), "the embedded policy runs on the processor; --policy torch has GPUs"),
        (
            options.dtype not in ("auto", "float32", "fp32"),
            f"the embedded policy computes in float32, not {options.dtype}",
        ),
        (options.branches < 1, f"{options.branches} branches; at least one sequence must be sampled at a time"),
    ):
        if said:
            raise PolicyError(why, fatal=True)


def _verified(folder: Path, files: list[Path]) -> list[str]:
    """`name hash` of each file, held against the manifest where there is one. Raises PolicyError."""
    missing = [file.name for file in files if not file.is_file()]
    if len(files) == len(_SETTINGS):
        missing.append("*.safetensors")
    if missing:
        raise PolicyError(f"{folder}: {', '.join(missing)} missing, so this is no whole model folder", fatal=True)
    hashes = {file.name: file_hash(file) for file in files}
    told = _json(folder / FILE).get("files") or {} if (folder / FILE).is_file() else {}
    if not isinstance(told, dict):
        raise PolicyError(f"{folder / FILE}: 'files' is not an object of names and hashes", fatal=True)
    wrong = [name for name, found in hashes.items() if told.get(name, found) != found]
    wrong += [name for name in told if name.endswith(".safetensors") and name not in hashes]
    if wrong:
        raise PolicyError(
            f"{folder}: {', '.join(wrong)} not as {FILE} says: damaged or changed; install or fetch it again",
            fatal=True,
        )
    return [f"{name} {found}" for name, found in sorted(hashes.items())]


def _json(file: Path) -> dict[str, Any]:
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as e:
        raise PolicyError(f"{file}: broken JSON: {e}", fatal=True) from e
    if not isinstance(read, dict):
        raise PolicyError(f"{file}: not an object of settings", fatal=True)
    return read
