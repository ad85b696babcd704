"""Policies by the name people give on the command line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from specvet.policies.base import Policy

if TYPE_CHECKING:
    from specvet.policies.options import ModelOptions
    from specvet.policies.text import TextPolicy
    from specvet.policies.tokens import TokenPolicy

POLICIES = {
    "line-indices": "measures lines and bands in the task's windows; transparent, no model, no download",
    "majority": "the commonest answer of its training questions; trained by `specvet train specialist`",
    "trees": "boosted trees on line indices; trained by `specvet train specialist`",
    "cnn": "a small convolutional network; trained by `specvet train specialist`, and needs specvet[train]",
    "embedded": "a small vision-language model in the package, on this machine's processor; needs no torch",
    "torch": "a vision-language model on this machine (folder or hub id); needs specvet[train]",
    "openai": "a model behind an OpenAI-compatible server; gives words only, so it cannot be trained on",
    "trio": "a model on PyTRIO, token by token; needs specvet[trio] and a login",
    "tinker": "a model on Tinker, token by token; needs specvet[tinker] and a login",
}
"""Name → what it is, for lists and help."""

SPECIALISTS = ("majority", "trees", "cnn")
"""Those that were trained to measure; `policy` opens them from their folder."""

MODELS = ("embedded", "torch", "openai", "trio", "tinker")
"""Those that `open_policy` opens; a model is shown pictures and answers in words."""


RUN_HERE = ("embedded", "torch")
"""Those of them that run on this machine, from a folder."""

PACKAGED_MODEL = "nano"
"""Name of the model that `embedded` takes where none is named."""


class UnknownPolicyError(ValueError):
    """A name that no policy has."""


def policy(name: str, model: str | None = None) -> Policy:
    """A new policy of that name that measures; `model` is the folder of one that was trained.

    Raises UnknownPolicyError, which lists the known ones; SpecialistError, a ValueError, for a folder that is missing,
    damaged or of another kind, and where something must be installed to run it.
    """
    if name == "line-indices":
        if model is not None:
            raise UnknownPolicyError("line-indices was not trained and takes no --model; leave it out")
        from specvet.policies.line_indices import LineIndices

        return LineIndices()
    if name in SPECIALISTS:
        from specvet.policies.specialists import SpecialistError, open_specialist

        if model is None:
            raise SpecialistError(f"{name} needs --model, the folder that `specvet train specialist` wrote")
        return open_specialist(name, model)
    if name in MODELS:
        raise UnknownPolicyError(f"{name!r} is a model, which needs options: open it with `open_policy`")
    raise _unknown(name)


def model_folder(policy: str, model: str | None) -> Path | None:
    """The folder of a model that runs on this machine: as it is given, else by its name in `specvet models`.

    None for a hub id that is not here, for a server's model, and where none is named.
    """
    from specvet.policies.catalogue import ModelError, find_model, folder_named

    if policy not in RUN_HERE:
        return None
    name = model or (PACKAGED_MODEL if policy == "embedded" else None)
    if name is None:
        return None
    try:
        return (folder_named(name) if model else None) or find_model(name)
    except ModelError:
        return None


def policy_for(folder: Path) -> str:
    """Who runs the model in a folder: `embedded`, which needs no torch, where its graphs are for such a model; else
    `torch`."""
    from specvet.policies.embedded.shape import Shape
    from specvet.policies.tokens import PolicyError

    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return "embedded" if Shape.of(config).has_graphs else "torch"
    except (OSError, ValueError, RecursionError, PolicyError):
        return "torch"


def default_policy(tasks: Iterable[str]) -> str:
    """Who decides where nobody is named: `embedded`, where the package holds its model and the model was trained on
    all these tasks (by key); else `line-indices`, which measures whatever a task file lists."""
    from specvet.policies.catalogue import PACKAGED
    from specvet.policies.manner import manner_of

    manner = manner_of(PACKAGED / PACKAGED_MODEL)
    return "embedded" if manner is not None and set(tasks) <= set(manner.tasks) else "line-indices"


def open_policy(name: str, options: ModelOptions) -> TokenPolicy | TextPolicy:
    """The model policy of that name.

    Raises UnknownPolicyError; PolicyError for a missing extra, login or model and for options that it cannot use;
    TimeoutError where a service does not answer.
    """
    if name not in MODELS:
        raise _unknown(name)
    module = import_module(f"specvet.policies.{name}")
    return cast("TokenPolicy | TextPolicy", module.open_policy(options))


def _unknown(name: str) -> UnknownPolicyError:
    near = difflib.get_close_matches(name, POLICIES, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near and near[0] != name else ""
    return UnknownPolicyError(f"there is no policy named {name!r}; {hint}known are: {', '.join(POLICIES)}")
