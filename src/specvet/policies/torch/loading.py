"""Opening a model: a folder, a hub id, or (with neither) a tiny random one; a LoRA adapter on top."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from specvet.chat import ChatFormat, ImageGeometry, Vocabulary
from specvet.chat.formats import FAMILIES, UnknownFormatError, chat_format, format_for_model_type
from specvet.chat.qwen import PAD
from specvet.chat.tiny import tiny_vocabulary
from specvet.chat.vocabulary import VocabularyError
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import PolicyError
from specvet.policies.torch.adapters import speed_up
from specvet.policies.torch.model import TorchModel
from specvet.policies.torch.pixels import PixelRule
from specvet.policies.torch.tiny import tiny_model

SUPPORTED = ("qwen2_5_vl", "qwen3_vl", "qwen3_5")
"""`model_type` of a `config.json`."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(options: ModelOptions) -> tuple[TorchModel, ChatFormat]:
    """The model that the options name, ready to sample, and its chat format. Raises PolicyError."""
    _check_options(options)
    device = device_of(options.device)
    dtype = dtype_of(options.dtype, device)
    if options.model is None:
        name = options.format or "qwen2_5_vl"
        if options.adapter:
            raise PolicyError("an adapter needs the model that it was trained on: name it with --model", fatal=True)
        module = tiny_model(name, options.seed, options.texts).to(device=device, dtype=dtype)
        model = TorchModel(module, PixelRule.from_config({}, module.config.vision_config))
        return model, chat_format(name, tiny_vocabulary(name, options.texts))
    folder = model_folder(options.model, options.revision)
    config = _config(folder)
    if config.model_type not in SUPPORTED:
        raise PolicyError(
            f"{options.model} is a {config.model_type} model; the torch policy runs {', '.join(SUPPORTED)}", fatal=True
        )
    if "sliding_attention" in (getattr(config.text_config, "layer_types", None) or ()):
        raise PolicyError(
            f"{options.model} uses sliding windows in its text model, which specvet cannot run", fatal=True
        )
    settings = _processor_settings(folder)
    format = _format(options, folder, config, settings)
    module = _quietly(transformers.AutoModelForImageTextToText.from_pretrained, folder, dtype=dtype)
    files = sorted((*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin"), *_deciding(folder, _SETTINGS)))
    if options.adapter:
        module, more = with_adapter(module, options.adapter)
        files += more
    rule = PixelRule.from_config(settings, config.vision_config)
    model = TorchModel(module.to(device), rule, files=files)
    _check_tokenizer(options, format, model)
    return model, format


def with_adapter(module: Any, adapter: str) -> tuple[Any, list[Path]]:
    """The model with a LoRA adapter in it, unmerged, and the adapter's files.

    Unmerged, since merging rounds in low precision, and the trainer's forward is unmerged too. Raises PolicyError for
    no adapter, one of another model, and weights that found no place.
    """
    try:
        import peft
    except ModuleNotFoundError as e:
        raise PolicyError("a LoRA adapter needs peft: pip install 'specvet[train]'", fatal=True) from e
    folder = Path(adapter)
    files = sorted((*folder.glob("adapter_model*.safetensors"), *folder.glob("adapter_model*.bin")))
    if not (folder / "adapter_config.json").is_file() or not files:
        raise PolicyError(f"{adapter}: no LoRA adapter (adapter_config.json and adapter_model.safetensors)", fatal=True)
    try:
        told: Any = peft.PeftConfig.from_pretrained(str(folder))
        # Learnt prompts, and LoRA that begins at some token, act in peft's own forward, which is not used here.
        if told.peft_type != peft.PeftType.LORA or getattr(told, "alora_invocation_tokens", None):
            raise PolicyError(f"{adapter}: not plain LoRA, but {told.peft_type}; only LoRA can be run", fatal=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say of missing weights is an error below
            wrapped = peft.PeftModel.from_pretrained(module, str(folder), is_trainable=False)
        given = _tensor_names(files)
    except PolicyError:
        raise
    except Exception as e:  # damaged files raise whatever their reader raises
        raise PolicyError(f"{adapter}: this adapter does not fit the model: {_said(e)}", fatal=True) from e
    placed = set(peft.get_peft_model_state_dict(wrapped))
    if given - placed or placed - given:
        odd = sorted(given ^ placed)
        raise PolicyError(
            f"{adapter}: {len(given - placed)} of its {len(given)} tensors have no place in this model and "
            f"{len(placed - given)} places stay empty ({odd[0]}, …): it was trained on another model",
            fatal=True,
        )
    speed_up(wrapped)
    return wrapped, [*files, folder / "adapter_config.json"]


def device_of(name: str) -> torch.device:
    """`auto` takes the first GPU if there is one. Raises PolicyError for a device that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # `meta` has no memory
    except (RuntimeError, AssertionError, NotImplementedError) as e:
        raise PolicyError(f"no device {name!r} here ({str(e).splitlines()[0]}); try --device cpu", fatal=True) from e
    return device


def dtype_of(name: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on a GPU and float32 on a CPU. Raises PolicyError for an unknown name."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    short = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}.get(name, name)
    if short not in DTYPES:
        raise PolicyError(f"no dtype {name!r}; known are auto, {', '.join(DTYPES)}", fatal=True)
    return DTYPES[short]


def model_folder(model: str, revision: str | None = None) -> Path:
    """The folder of a model: itself, or the snapshot of a hub id, downloaded if need be. Raises PolicyError."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            trained = (path / "checkpoints").is_dir() or (path / "checkpoint.json").is_file()
            hint = "; of a training run, take a folder checkpoints/NAME/NAME-sampler" if trained else ""
            raise PolicyError(f"{path}: no model folder (config.json is missing){hint}", fatal=True)
        return path
    if path.exists() or model.count("/") != 1 or model.startswith((".", "/", "~")):
        raise PolicyError(f"{model}: neither a model folder nor a hub id (owner/name)", fatal=True)
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(model, revision=revision, ignore_patterns=["*.pth", "*.gguf", "original/*"]))
    except ModuleNotFoundError as e:
        raise PolicyError("a hub id needs huggingface_hub: pip install 'specvet[train]'", fatal=True) from e
    except (OSError, ValueError) as e:  # the hub's own errors are both
        reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise PolicyError(
            f"{model}: cannot be had from the hub ({reason}). Check the name and HF_TOKEN, or name a folder", fatal=True
        ) from e


def _format(options: ModelOptions, folder: Path, config: Any, settings: dict[str, Any]) -> ChatFormat:
    try:
        name = options.format or format_for_model_type(config.model_type)
        if name in FAMILIES and config.model_type not in _types(name):
            raise PolicyError(f"the format {name} is not for {config.model_type} models", fatal=True)
        return chat_format(name, Vocabulary.load(options.tokenizer or folder), ImageGeometry.from_config(settings))
    except (UnknownFormatError, VocabularyError, ValueError) as e:
        raise PolicyError(str(e), fatal=True) from e


def _types(name: str) -> set[str]:
    """Model types that a format's template serves; editions of a family share one."""
    return {t for family in FAMILIES.values() if family.template == FAMILIES[name].template for t in family.model_types}


def _processor_settings(folder: Path) -> dict[str, Any]:
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (folder / name).is_file():
            try:
                read: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
            except ValueError as e:
                raise PolicyError(f"{folder / name}: broken JSON: {e}", fatal=True) from e
            if not isinstance(read, dict):
                raise PolicyError(f"{folder / name}: these are no settings of an image processor", fatal=True)
            return read
    raise PolicyError(
        f"{folder}: no preprocessor_config.json, so that nobody knows how this model's pictures are normalised; copy "
        "that of the model that it was trained from",
        fatal=True,
    )


_SETTINGS = ("config.json", "preprocessor_config.json", "processor_config.json")
"""What decides beside the weights: rotary frequencies, norms, pixel rules."""


def _deciding(folder: Path, names: tuple[str, ...]) -> list[Path]:
    return [folder / name for name in names if (folder / name).is_file()]


def _check_options(options: ModelOptions) -> None:
    """Raises PolicyError for what would be ignored."""
    local = options.model is None or Path(options.model).expanduser().is_dir()
    for said, why in (
        (options.base_url, "--base-url is of a server; the torch policy runs here"),
        (options.revision if local else None, "--revision is of a hub id; name one with --model"),
        (options.tokenizer if options.model is None else None, "--tokenizer needs a --model; the tiny one has its own"),
    ):
        if said:
            raise PolicyError(why, fatal=True)


def _config(folder: Path) -> Any:
    """The configuration; a model's own code is never run, nor asked about."""
    try:
        return transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as e:  # a broken file raises whatever stumbles over it
        raise PolicyError(f"{folder}: its config.json is of no model that can be run: {_said(e)}", fatal=True) from e


def _check_tokenizer(options: ModelOptions, format: ChatFormat, model: TorchModel) -> None:
    """Another family's tokenizer gives ids that mean something else to the model: fluent nonsense."""
    named = options.tokenizer or options.model
    mine, its = format.vocabulary.need(PAD), model.config.image_token_id
    if mine != its:
        raise PolicyError(
            f"{named}: this tokenizer has {PAD} as the id {mine}, the model's config.json as {its}: they do not belong "
            "together",
            fatal=True,
        )
    if format.vocabulary.size > model.n_ids:
        raise PolicyError(
            f"{named}: this tokenizer has ids up to {format.vocabulary.size - 1}, the model {model.n_ids}: they do "
            "not belong together",
            fatal=True,
        )


def _said(error: BaseException) -> str:
    """An error's first words, or its name."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def _tensor_names(files: list[Path]) -> set[str]:
    names: set[str] = set()
    for path in files:
        if path.suffix == ".safetensors":
            from safetensors import safe_open

            with safe_open(path, framework="pt") as file:
                names |= set(file.keys())
        else:
            names |= set(torch.load(path, map_location="meta", weights_only=True))
    return names


def _quietly(load: Any, folder: Path, **options: Any) -> Any:
    """A stock loader without its progress bars on the terminal. Raises PolicyError for what it cannot load."""
    try:
        with quiet():
            module, report = load(folder, output_loading_info=True, trust_remote_code=False, **options)
    except Exception as e:  # damaged files and missing packages raise whatever their reader raises
        raise PolicyError(f"{folder}: the model cannot be loaded: {type(e).__name__}: {_said(e)}", fatal=True) from e
    missing = sorted(set(report.get("missing_keys") or ()))
    if missing:  # they would be random
        raise PolicyError(f"{folder}: {len(missing)} weights are missing ({missing[0]}, …)", fatal=True)
    return module


@contextmanager
def quiet() -> Iterator[None]:
    """transformers without progress bars, and without its tables of missing weights, in this block."""
    from transformers.utils import logging as stock_logging

    logging: Any = stock_logging

    shown, loud = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(loud)
        if shown:
            logging.enable_progress_bar()
