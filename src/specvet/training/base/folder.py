"""The folder of a run of base training.

config.yaml      what it was told
receipt.json     what it did: documents, updates, time, what waited for what, versions, hash of the weights
metrics.jsonl    a line every few updates, as other training writes it
curve.png        the same, drawn
held_out.json    loss and exact replies on documents that were not learnt from, by kind
vocabulary/      tokenizer.json
model/           a model folder in bfloat16: the newest weights, rewritten every minute while it runs
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from specvet import __version__
from specvet.chat import Vocabulary
from specvet.chat.tiny import write_tiny
from specvet.policies.catalogue import write_model_manifest
from specvet.policies.manner import NANO
from specvet.policies.torch.loading import quiet
from specvet.records import write_atomic
from specvet.training.base.vocabulary import FORMAT
from specvet.training.torch.states import replaced

SHARD = "15MB"
"""Of the files of weights, at most: some services take no larger ones."""
NAME = "nano-base"


def save_model(folder: Path, module: Any, vocabulary: Vocabulary, told: Mapping[str, Any]) -> None:
    """The module as a model folder in bfloat16, in place of the one that is there. Raises TrainerError."""
    with torch.no_grad():
        low = copy.deepcopy(module).to(device="cpu", dtype=torch.bfloat16)
    with replaced(folder) as made:
        with quiet():
            low.save_pretrained(made, max_shard_size=SHARD)
        write_tiny(FORMAT, made, vocabulary)
        write_model_manifest(
            made, name=NAME, version=__version__, licence="Apache-2.0", manner=NANO, receipts=[dict(told)]
        )


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
