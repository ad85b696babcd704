"""`specvet eval publish`: results small enough to go into a repository, and complete enough to be checked there."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from specvet.cli.console import say
from specvet.cli.failure import CANNOT_WRITE, USAGE, failing


def publish(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A campaign with complete cells.")],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A new folder, as in results/mine.")],
) -> None:
    """Copy what a campaign's numbers rest on: trajectories, questions, descriptors, receipts; no pictures or databases.

    What it writes passes `specvet eval verify` wherever it is taken.
    """
    from specvet.data.errors import InputError
    from specvet.evaluation.folder import MANIFEST
    from specvet.evaluation.publishing import publish as published
    from specvet.records import file_hash

    with failing(USAGE, InputError), failing(CANNOT_WRITE, OSError):
        size = published(Path(folder), Path(out))
    say(f"{size / 1e6:.1f} MB in {out}; the SHA-256 of its manifest is {file_hash(Path(out) / MANIFEST)}")
    say(f"next: specvet eval verify {shlex.quote(out)}")
