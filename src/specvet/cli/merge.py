"""`specvet models merge`: a LoRA adapter and its base model as one folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli import models
from specvet.cli.console import console, print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.train_summary import rollout_command

if TYPE_CHECKING:
    from specvet.policies.options import ModelOptions
    from specvet.training.config import TrainConfig


def merge(
    *,
    adapter: Annotated[
        str, typer.Option("--adapter", metavar="FOLDER|CHECKPOINT|RUN", help="LoRA folder, or where training saved it.")
    ],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A folder that does not exist, or is empty.")],
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="BASE", help="Folder or hub id; of a checkpoint, what it was trained on."),
    ] = None,
    revision: models.Revision = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Merge a LoRA adapter into its base model: a folder that transformers, vLLM and others load.

    Only the adapted weights change, each rounded once to the precision that the base has on disk.

    \b
      specvet models merge --adapter runs/grpo --out merged
      specvet models merge --model Qwen/Qwen3.5-4B --adapter LORA --out merged

    Ends with 0 when the folder is there, 1 when the adapter does not fit, 2 for a wrong command, 4 for a full disk.
    """
    from specvet.training.checkpoints import CheckpointError
    from specvet.training.config import ConfigError
    from specvet.training.trainer import TrainerError

    with failing(USAGE, CheckpointError, ConfigError):
        folder, options = _named(adapter, model, revision)
    place = Path(out).expanduser()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise CommandError(f"{out} is not empty; name a folder that does not exist", USAGE)
    try:
        from specvet.training.torch.merge import merge as merged
    except ModuleNotFoundError as e:
        raise CommandError(f"merging needs {e.name}: pip install 'specvet[train]'", USAGE) from e
    with failing(CANNOT_WRITE, OSError), failing(NOTHING_VETTED, TrainerError):
        made = merged(options, folder, out)
    told = rollout_command(["--policy", "torch", "--model", str(made)], *_run_of(adapter))
    if json:
        print_json({"model": str(made), "base": options.model, "adapter": folder, "next": told})
    else:
        out_ = console()
        out_.print(f"{folder} merged into {options.model or 'its tiny random model'}: {made}. Next:", soft_wrap=True)
        out_.print(f"  {told}", soft_wrap=True)
    return DONE


def _run_of(adapter: str) -> tuple[Path | None, TrainConfig | None]:
    """The run that a run or checkpoint belongs to, and its settings; (None, None) of a LoRA folder."""
    from specvet.training.checkpoints import FILE
    from specvet.training.config import ConfigError
    from specvet.training.profiles import read_config

    place = Path(adapter).expanduser()
    run = place.resolve().parents[1] if (place / FILE).is_file() else place
    if (run / "run.db").is_file():
        with suppress(ConfigError):  # a checkpoint that was copied elsewhere has no run about it
            return run, read_config(str(run))
    return None, None


def _named(adapter: str, model: str | None, revision: str | None) -> tuple[str, ModelOptions]:
    """(LoRA folder, base model) of what the options name. Raises CheckpointError, ConfigError."""
    from specvet.policies.options import ModelOptions
    from specvet.training.checkpoints import FILE, resolve_start
    from specvet.training.opening import tiny_texts
    from specvet.training.profiles import read_config

    place = Path(adapter)
    given = ModelOptions(model=model, revision=revision)
    if not place.expanduser().is_dir():
        raise CommandError(
            f"{adapter}: there is no such folder; give --adapter a LoRA folder, a checkpoint or a run", USAGE
        )
    if not (place / FILE).is_file() and not (place / "run.db").is_file():
        if model is None:
            raise CommandError("--model is missing: a LoRA folder does not say for certain what it belongs to", USAGE)
        return adapter, given
    start = resolve_start(adapter)
    if start.sampler is None or "://" in start.sampler:
        raise CommandError(
            f"{adapter}: its weights are kept by a service ({start.sampler}); download them first", USAGE
        )
    if start.method.get("kind") == "full":
        raise CommandError(
            f"{adapter}: all weights were trained, there is nothing to merge: use {start.sampler}", USAGE
        )
    if model is not None:
        return start.sampler, given
    told, seed = start.model, 0
    if told.get("name") is None and start.checkpoint is not None:  # a tiny random model is made again, from its seed
        seed = read_config(str(start.checkpoint.folder.parents[1])).seed
    return start.sampler, ModelOptions(
        model=told.get("name"),
        revision=revision or told.get("revision"),
        format=told.get("format"),
        seed=seed,
        texts=tiny_texts(told.get("name"), told.get("format"), told.get("tokenizer")),
    )
