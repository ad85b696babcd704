"""What opening a remote policy needs beside its SDK: tokenizer files, chat format, and what an account may use."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from specvet.chat import ChatFormat, UnknownFormatError, Vocabulary, chat_format, format_for_model_type
from specvet.chat.formats import FAMILIES
from specvet.chat.vocabulary import VocabularyError
from specvet.policies.options import ModelOptions
from specvet.policies.remote import Service
from specvet.policies.tokens import PolicyError

_NAMES = (
    (r"qwen2(\.5|_5)?[-_]vl", "qwen2_5_vl"),
    (r"qwen3[-_]vl.*thinking", "qwen3_vl_thinking"),
    (r"qwen3[-_]vl", "qwen3_vl"),
    (r"qwen3(\.5|_5)", "qwen3_5"),
)
"""How the families' models are called at the hub, and so at the services."""


@dataclass(frozen=True, slots=True)
class LiveModel:
    """One model that a service offers to an account."""

    name: str
    context: int | None
    """Tokens; None where the service does not say."""
    sampled: bool
    """Whether it can be sampled from."""
    trained: bool
    """Whether it can be trained."""


@dataclass(frozen=True, slots=True)
class LiveReport:
    """What a real account answered, for `specvet doctor --live`."""

    service: str
    ok: bool
    detail: str
    """Whose account it is, or what is wrong and what to do; never a key."""
    models: tuple[LiveModel, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """As JSON knows it."""
        models = [{name: getattr(m, name) for name in ("name", "context", "sampled", "trained")} for m in self.models]
        return {"service": self.service, "ok": self.ok, "detail": self.detail, "models": models}


def live_check(name: str, base_url: str | None = None, timeout_s: float = 60.0) -> LiveReport:
    """Ask the service `trio` or `tinker` what the user's own account may use. Contacts the service; raises nothing.

    Raises ValueError for another name.
    """
    if name == "trio":
        from specvet.policies.trio import models_offered
    elif name == "tinker":
        from specvet.policies.tinker import models_offered
    else:
        raise ValueError(f"there is no service named {name!r}; known are: trio, tinker")
    try:
        account, models = models_offered(base_url, timeout_s)
    except (PolicyError, TimeoutError) as e:
        return LiveReport(name, False, str(e))
    return LiveReport(name, True, account, models)


def model_named(service: Service, models: Iterable[LiveModel], name: str) -> LiveModel:
    """The model of that name among those an account may sample from. Raises PolicyError, which lists them."""
    offered = {m.name: m for m in models if m.sampled}
    if name not in offered:
        known = ", ".join(sorted(offered)) or "none"
        raise service.problem("model", f"this account cannot sample from {name!r}; it can from: {known}", opening=True)
    return offered[name]


def identity(service: Service, address: str, model: str, weights: str | None) -> tuple[str, ...]:
    """What decides at a service: its name and host (no user, no password, no query), base model and weights."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    return (service.name, f"{host}:{parts.port}" if parts.port else host, model, weights or "")


def format_of(service: Service, options: ModelOptions, model: str) -> ChatFormat:
    """The chat format of a remote model, on the tokenizer that lies on this machine. Raises PolicyError."""
    if options.format and options.format not in FAMILIES:  # before a tokenizer is missed that would not help
        raise PolicyError(
            f"{service.name}: there is no chat format {options.format!r}; known are {', '.join(FAMILIES)}", fatal=True
        )
    path = tokenizer_path(service, options, model)
    try:
        return chat_format(options.format or _format_name(model, path), Vocabulary.load(path))
    except (VocabularyError, UnknownFormatError) as e:
        raise PolicyError(f"{service.name}: {e}", fatal=True) from e


def _format_name(model: str, tokenizer: Path) -> str:
    """By the name of the model, which a service knows it by, else by the `config.json` beside the tokenizer."""
    for pattern, name in _NAMES:
        if re.search(pattern, model, re.IGNORECASE):
            return name
    config = (tokenizer if tokenizer.is_dir() else tokenizer.parent) / "config.json"
    if config.is_file():
        with contextlib.suppress(ValueError, AttributeError):
            return format_for_model_type(json.loads(config.read_text(encoding="utf-8"))["model_type"])
    raise UnknownFormatError(f"which chat format does {model!r} speak? Name it with --format")


def tokenizer_path(service: Service, options: ModelOptions, model: str) -> Path:
    """Folder or file of the tokenizer: as named, else the model's folder, else in the hub's cache.

    Nothing is downloaded. Raises PolicyError where there is none.
    """
    if options.tokenizer:
        return Path(options.tokenizer).expanduser()
    if Path(model).expanduser().is_dir():
        return Path(model).expanduser()
    for folder in _cached(model, options.revision):
        if (folder / "tokenizer.json").exists() or (folder / "vocab.json").exists():
            return folder
    raise PolicyError(
        f"{service.name}: specvet makes the token ids itself and needs the tokenizer of {model!r}, which is not on "
        "this machine; give --tokenizer its folder or tokenizer.json, or run once: "
        f"hf download {model} tokenizer.json tokenizer_config.json config.json",
        fatal=True,
    )


def _cached(model: str, revision: str | None) -> list[Path]:
    """Snapshots of a model in the hub's cache, the likeliest first (layout of huggingface_hub since 0.8)."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
    folder = cache / ("models--" + model.replace("/", "--"))
    named = folder / "refs" / (revision or "main")
    commits = [named.read_text(encoding="utf-8").strip()] if named.is_file() else []
    if revision:
        commits.append(revision)
    elif (folder / "snapshots").is_dir():
        commits += sorted(p.name for p in (folder / "snapshots").iterdir())
    return [folder / "snapshots" / commit for commit in commits]
