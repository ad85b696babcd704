"""What a trainer writes: states to train on from, and weights to sample with. All of it in safetensors and JSON.

    NAME-state/     state.json, weights.safetensors (float32 masters), optimiser.safetensors
    NAME-sampler/   LoRA: adapter_config.json, adapter_model.safetensors; else a whole model folder

Each is written under another name first and renamed when it is whole.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import peft
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from specvet.chat import ChatFormat
from specvet.chat.tiny import write_tiny
from specvet.policies.manner import FILE, manner_of
from specvet.policies.torch.loading import quiet
from specvet.policies.torch.model import TorchModel
from specvet.training.torch.preparing import ADAPTER
from specvet.training.trainer import TrainerError

STATE_VERSION = 1
WEIGHTS, OPTIMISER, STATE = "weights.safetensors", "optimiser.safetensors", "state.json"


@dataclass(frozen=True, slots=True)
class State:
    """A saved state, its tensors still on disk."""

    folder: Path
    told: Mapping[str, Any]
    """What is trained (`preparing.identity`), of which base model, and how many steps have been taken."""

    @property
    def steps(self) -> int:
        return int(self.told["steps"])

    def weights(self) -> dict[str, Tensor]:
        """Trained weights by name, float32, on the CPU. Raises TrainerError."""
        return _tensors(self.folder / WEIGHTS)

    def moments(self) -> dict[str, Tensor]:
        """What the optimiser keeps. Raises TrainerError."""
        return _tensors(self.folder / OPTIMISER)


def save_state(
    folder: Path, told: Mapping[str, Any], masters: Mapping[str, Tensor], moments: Mapping[str, Tensor], steps: int
) -> None:
    """Write weights, optimiser and what they are of."""
    with replaced(folder) as made:
        save_file(_saveable(masters), made / WEIGHTS)
        save_file(_saveable(moments), made / OPTIMISER)
        versions = {name: version(name) for name in ("torch", "transformers", "peft")}
        state = {"version": STATE_VERSION, **told, "steps": steps, "versions": versions}
        (made / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")


def read_state(folder: str | Path) -> State:
    """A saved state. Raises TrainerError for what is none."""
    folder = Path(folder).expanduser()
    try:
        told = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except OSError as e:
        raise TrainerError(f"{folder}: no state of a torch trainer ({STATE}: {e.strerror})") from e
    except ValueError as e:
        raise TrainerError(f"{folder / STATE}: broken JSON: {e}") from e
    if not isinstance(told, dict) or told.get("version") != STATE_VERSION or "steps" not in told:
        raise TrainerError(f"{folder / STATE}: not of a version that this specvet reads ({STATE_VERSION})")
    return State(folder, told)


def check_state(state: State, told: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Whether a state is of this base model and of what is trained of it. Raises TrainerError, which names the
    differences."""
    odd = [
        f"{key} is {state.told.get(key)!r} there and {mine!r} here"
        for key, mine in told.items()
        if state.told.get(key) != mine and key != "model"
    ]
    if any(text.startswith("base ") for text in odd):
        odd = [f"it was trained on {state.told.get('model') or 'a tiny model'}, with other weights or settings", *odd]
    if not odd:
        there = _shapes(state.folder / WEIGHTS)
        odd = [
            f"{name} has shape {there.get(name)} there and {shapes.get(name)} here"
            for name in sorted(there.keys() | shapes.keys())
            if there.get(name) != shapes.get(name)
        ][:3]
    if odd:
        raise TrainerError(f"{state.folder}: this state does not fit: {'; '.join(odd)}")


def save_adapter(
    folder: Path, model: TorchModel, base: str | None, weights: Mapping[str, Tensor] | None = None
) -> None:
    """The LoRA as a folder that peft and servers load; `base` is the name of the model that it belongs to. `weights`
    are its trained ones where they are not in the model."""
    with replaced(folder) as made:
        adapter = peft.get_peft_model_state_dict(
            model.module, weights, adapter_name=ADAPTER, save_embedding_layers=False
        )
        save_file(_saveable(adapter), made / "adapter_model.safetensors", metadata={"format": "pt"})
        config = copy.copy(model.module.peft_config[ADAPTER])
        config.inference_mode, config.base_model_name_or_path = True, base
        config.save_pretrained(str(made))


def save_model(
    folder: Path, model: TorchModel, format: ChatFormat, base: Path | None, weights: Mapping[str, Tensor] | None = None
) -> None:
    """The whole model as a folder that transformers and servers load. What is no weight comes from the `base` folder;
    a tiny model (None) has files of its own. `weights` are its weights where they are not in the model."""
    with replaced(folder) as made:
        with quiet():
            model.module.save_pretrained(made, state_dict=weights)
        if base is None:
            write_tiny(format.name, made, format.vocabulary)
        else:
            copy_settings(base, made)


def copy_settings(base: Path, made: Path) -> None:
    """Copy what a model folder has beside weights (tokenizer, processor, template), where it is not there yet. Of its
    `specvet.json` that is how the model is asked; the hashes in it are those of other weights."""
    for path in sorted(base.iterdir()):
        if path.is_file() and not is_weights(path) and path.name != FILE and not (made / path.name).exists():
            shutil.copyfile(path, made / path.name)
    if (manner := manner_of(base)) is not None:
        (made / FILE).write_text(json.dumps({"manner": manner.model_dump(mode="json")}, indent=1), encoding="utf-8")


def is_weights(path: Path) -> bool:
    return path.suffix in {".safetensors", ".bin", ".pt", ".pth", ".gguf"} or path.name.endswith(".index.json")


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when the block ends well, and goes when it does
    not. Raises TrainerError where it cannot be written."""
    made = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(made, ignore_errors=True)  # of a run that was killed
    made.mkdir()
    try:
        yield made
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(made, folder)
    except (OSError, SafetensorError) as e:
        raise TrainerError(
            f"{folder}: cannot be written ({e}); is the disk full? What was saved before is intact"
        ) from e
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _saveable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.detach().cpu().contiguous() for name, t in tensors.items()}


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as e:
        raise TrainerError(f"{path}: damaged or missing ({e}); begin from another checkpoint") from e


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (OSError, SafetensorError) as e:
        raise TrainerError(f"{path}: damaged or missing ({e}); begin from another checkpoint") from e
