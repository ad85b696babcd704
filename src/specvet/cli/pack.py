"""`specvet models pack`: what training saved, as a folder that can be given away."""

from __future__ import annotations

from typing import Annotated

import typer

from specvet.cli.console import console, print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, NOTHING_VETTED, USAGE, CommandError, failing


def pack(
    what: Annotated[str, typer.Argument(metavar="RUN|CHECKPOINT|FOLDER", help="Of a run, its newest checkpoint.")],
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the model shall be called.")],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A folder that does not exist, or is empty.")],
    version: Annotated[str | None, typer.Option("--version", help="Of the model; by default that of specvet.")] = None,
    licence: Annotated[str, typer.Option("--licence", help="Of the weights, as SPDX has it.")] = "Apache-2.0",
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Round a trained model to bfloat16, in files of at most 15 MB, and write down its hashes and receipts.

    \b
      specvet models pack runs/grpo --name nano --out nano
      specvet models verify nano

    Ends with 0 when the folder is there, 1 when the model cannot be opened, 2 for a wrong command, 4 for a full disk.
    """
    from specvet import __version__
    from specvet.policies.catalogue import ModelError
    from specvet.training.checkpoints import CheckpointError
    from specvet.training.config import ConfigError
    from specvet.training.lineage import made_by
    from specvet.training.trainer import TrainerError

    with failing(USAGE, CheckpointError, ConfigError):
        model, receipts = made_by(what)
    if "://" in model:
        raise CommandError(f"{what}: its weights are kept by a service ({model}); download them first", USAGE)
    try:
        from specvet.training.torch.packing import pack as packed
    except ModuleNotFoundError as e:
        raise CommandError(f"packing needs {e.name}: pip install 'specvet[train]'", USAGE) from e
    with failing(CANNOT_WRITE, OSError), failing(NOTHING_VETTED, TrainerError, ModelError):
        made = packed(model, out, name=name, version=version or __version__, licence=licence, receipts=receipts)
    if json:
        print_json({"folder": out, "name": made.name, "digest": made.digest, "files": made.files, "receipts": receipts})
    else:
        stages = ", ".join(str(receipt.get("stage")) for receipt in receipts) or "none"
        console().print(
            f"{out}: {made.name} {made.version}, {len(made.files)} files, receipts: {stages}", soft_wrap=True
        )
    return DONE
