"""Trainers by the name people give on the command line."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import cast

from specvet.training.trainer import Trainer, TrainerOptions

TRAINERS = {
    "torch": "trains on this machine (transformers, LoRA or full, one GPU or several); needs specvet[train]",
    "trio": "trains LoRA adapters on PyTRIO; needs specvet[trio] and a login",
    "tinker": "trains LoRA adapters on Tinker; needs specvet[tinker] and a login",
}
"""Name → what it is, for lists and help."""


class UnknownTrainerError(ValueError):
    """A name that no trainer has."""


def open_trainer(name: str, options: TrainerOptions) -> Trainer:
    """The trainer of that name. A service is contacted, and nothing is spent yet.

    Raises UnknownTrainerError; TrainerError for a missing extra, login or model, for a state that cannot be read, and
    for options that it cannot use.
    """
    if name not in TRAINERS:
        near = difflib.get_close_matches(name, TRAINERS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownTrainerError(f"there is no trainer named {name!r}; {hint}known are: {', '.join(TRAINERS)}")
    module = import_module(f"specvet.training.{name}")
    return cast(Trainer, module.open_trainer(options))
