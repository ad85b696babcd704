"""From a `TrainConfig` to what opens its trainer, and to its chat format without any weights."""

from __future__ import annotations

import json
from pathlib import Path

from specvet.chat import ChatFormat, ImageError, ImageGeometry, chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.toy_words import toy_texts
from specvet.policies.options import ModelOptions
from specvet.policies.remote import Service
from specvet.policies.remote_setup import format_of, tokenizer_path
from specvet.training.config import ConfigError, SftConfig, TrainConfig
from specvet.training.trainer import Lora, TrainerOptions

TINY_FORMAT = "qwen2_5_vl"
"""Of the tiny random model, where nothing else is said."""
TOY = "toy"
"""The tokenizer of a tiny model that has the words of the toy set."""

MADE_HERE = {"nano-base": "specvet train base --out runs/base makes it, and --from runs/base names it"}
"""Models of profiles that no hub has, and where they come from."""


def check_model(config: TrainConfig) -> None:
    """Whether the model has still to be made. Raises ConfigError, which says how."""
    name = config.model.name
    if name in MADE_HERE and not Path(name).is_dir():
        raise ConfigError(f"model.name: there is no {name} here; {MADE_HERE[name]}")


def model_options(config: TrainConfig) -> ModelOptions:
    """The base model, as policies and trainers take it."""
    model, loop = config.model, config.loop
    if isinstance(loop, SftConfig):
        branches, context = 1, loop.max_tokens
    else:
        branches, context = loop.concurrency, loop.budget.context
    return ModelOptions(
        model=model.name,
        revision=model.revision,
        format=model.format,
        tokenizer=None if model.name is None and model.tokenizer == TOY else model.tokenizer,
        base_url=model.base_url,
        device=model.device,
        dtype=model.dtype,
        branches=branches,
        context=context,
        timeout_s=model.timeout_s,
        seed=config.seed,
        texts=tiny_texts(model.name, model.format, model.tokenizer),
    )


def tiny_texts(name: str | None, format: str | None, tokenizer: str | None) -> tuple[str, ...]:
    """What the vocabulary of a tiny model is learnt from: the toy set's conversations, where its tokenizer is `toy`."""
    return toy_texts(format or TINY_FORMAT) if name is None and tokenizer == TOY else ()


def trainer_options(
    config: TrainConfig,
    *,
    state: str | None = None,
    reference_state: str | None = None,
    with_optimizer: bool = False,
    name: str = "specvet",
) -> TrainerOptions:
    """What `open_trainer` takes; `state` and the rest as `TrainerOptions` has them."""
    method, options = config.method, model_options(config)
    return TrainerOptions(
        options,
        lora=_lora(config) if method.kind == "lora" else None,
        vision=method.vision,
        state=state,
        reference_state=reference_state,
        with_optimizer=with_optimizer,
        gradient_checkpointing=method.gradient_checkpointing,
        micro_tokens=method.micro_tokens,
        processes=method.processes,
        rollout_processes=1 if isinstance(config.loop, SftConfig) else config.loop.processes,
        seed=config.seed,
        branches=options.branches,
        name=name,
    )


def _lora(config: TrainConfig) -> Lora:
    method = config.method
    unembed = config.backend != "torch" if method.unembed is None else method.unembed
    return Lora(method.rank, method.alpha, unembed=unembed)


def chat_format_of(config: TrainConfig) -> ChatFormat:
    """The chat format of the model, from the tokenizer that lies on this machine; no weights, no network.

    Raises PolicyError where there is no tokenizer or no format for it, and ConfigError for a folder whose picture
    sizes cannot be read.
    """
    model = config.model
    if model.name is None:
        name = model.format or TINY_FORMAT
        return chat_format(name, tiny_vocabulary(name, tiny_texts(None, name, model.tokenizer)))
    here = Service(config.backend, "", "")
    format = format_of(here, model_options(config), model.name)
    geometry = _geometry(tokenizer_path(here, model_options(config), model.name))
    return format if geometry is None else chat_format(format.name, format.vocabulary, geometry)


def _geometry(tokenizer: Path) -> ImageGeometry | None:
    """The picture sizes that a model folder states; None where it states none, and the family's own count."""
    folder = tokenizer if tokenizer.is_dir() else tokenizer.parent
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (folder / name).is_file():
            try:
                return ImageGeometry.from_config(json.loads((folder / name).read_text(encoding="utf-8")))
            except (OSError, ValueError, AttributeError, ImageError) as e:
                raise ConfigError(f"{folder / name}: these are no settings of an image processor: {e}") from None
    return None
