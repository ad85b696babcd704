"""`specvet data at-once`: demonstrations without their looks."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, USAGE, CommandError, failing


def at_once(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Demonstrations (JSONL).")],
    *,
    out: Annotated[
        str,
        typer.Option("--out", metavar="FILE", help="To write, beside FILE, where the pictures are."),
    ],
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")] = False,
) -> None:
    """The same questions and answers as in FILE, answered at once from the whole view.

    A model that is taught so shows what looking closer is worth.

    \b
      specvet data at-once simvi/sft/sft_train.jsonl --out simvi/sft/whole_train.jsonl

    \b
    Exit codes:
      0    written
      2    FILE is none, or --out lies elsewhere
      4    the disk is full, or the folder cannot be written
    """
    from specvet.data.at_once import at_once as shortened
    from specvet.data.demonstrations import read_demonstrations, write_demonstrations
    from specvet.data.errors import InputError

    if os.path.realpath(os.path.dirname(out) or ".") != os.path.realpath(os.path.dirname(file) or "."):
        raise CommandError(f"--out {out}: must lie in the folder of {file}, where the pictures are", USAGE)
    if os.path.realpath(out) == os.path.realpath(file):
        raise CommandError(f"--out {out}: is FILE itself; give another name", USAGE)
    with failing(USAGE, InputError):
        made = [shortened(one) for one in read_demonstrations(file)]
    with failing(CANNOT_WRITE, OSError):
        write_demonstrations(out, made)
    if json:
        print_json({"file": out, "demonstrations": len(made)})
    elif not quiet:
        say(f"{len(made):,} demonstrations that answer at once: {out}")
