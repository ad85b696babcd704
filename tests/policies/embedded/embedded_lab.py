"""What the tests of the `embedded` policy share: a random model of nano's shape, conversations, the torch policy."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image as Pillow

from specvet.chat import Image, Ledger
from specvet.chat.messages import system, tool, user
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import SamplingParams, Sequence
from specvet.policies.torch.nano import nano_model, save_nano

torch.set_num_threads(1)
T = TypeVar("T")
GREEDY = SamplingParams(max_tokens=10, temperature=0.0)
FULL, ZOOM = (224, 168), (252, 196)
"""Pixels of nano's two pictures: 48 and 63 tokens."""
BOUND = 1e-4
"""Of log-probs between the two policies."""


def write_nano(folder: Path, seed: int = 3) -> Path:
    """A random model of nano's shape as a model folder; its weights are drawn wider than for training, so that one
    changed token or pixel clearly moves the output, and no bias is 0."""
    vocabulary = tiny_vocabulary("qwen2_5_vl")
    model = nano_model(vocabulary, seed)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(-0.1, 0.1)
            elif parameter.dim() > 1:
                parameter.mul_(3)
            else:
                parameter.uniform_(0.5, 1.5)
    return save_nano(folder, model, vocabulary)


def altered(folder: Path, to: Path, **files: dict[str, Any]) -> Path:
    """A copy of a model folder with settings changed: `config={"model_type": …}` for `config.json`."""
    shutil.copytree(folder, to)
    for name, changes in files.items():
        file = to / f"{name}.json"
        told = json.loads(file.read_text()) if file.exists() else {}
        for path, value in changes.items():
            *parents, last = path.split(".")
            at = told
            for parent in parents:
                at = at[parent]
            at[last] = value
        file.write_text(json.dumps(told))
    return to


def options(folder: Path, **more: Any) -> ModelOptions:
    return ModelOptions(**{"model": str(folder), "context": 1024, "device": "cpu", **more})


def picture(seed: int, size: tuple[int, int] = ZOOM, *, grey: bool = True) -> Image:
    """A picture of noise: every patch tells it from another seed's."""
    width, height = size
    shape = (height, width) if grey else (height, width, 3)
    out = io.BytesIO()
    Pillow.fromarray(np.random.default_rng(seed).integers(0, 255, shape, dtype=np.uint8)).save(out, "PNG")
    return Image.of(out.getvalue())


def opening(policy: Any, text: str = "Is there Hα?", *images: Image) -> Ledger:
    """The first prompt of a question: the rules, a picture or more, the question."""
    ledger: Ledger = policy.format.new_ledger()
    ledger.append(policy.format.opening([system("Look."), user(*(images or (picture(1, FULL),)), text)]))
    return ledger


def observe(policy: Any, ledger: Ledger, *content: str | Image) -> None:
    """A tool's answer, appended."""
    ledger.append(policy.format.observation(ledger, tool(*content)))


def say(ledger: Ledger, sequence: Sequence) -> Ledger:
    """The ledger with what was sampled; itself."""
    ledger.append_sampled(sequence.ids, sequence.logprobs, sequence.stop)
    return ledger


def run(work: Callable[[], Coroutine[Any, Any, T]], *close: Any) -> T:
    """Run asynchronous work, then close policies, within a minute."""

    async def all_of_it() -> T:
        try:
            return await asyncio.wait_for(work(), 60)
        finally:
            for policy in close:
                await policy.aclose()

    return asyncio.run(all_of_it())
