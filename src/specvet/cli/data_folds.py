"""`specvet data folds`: cross-validation with one set of demonstrations."""

from __future__ import annotations

from typing import Annotated

import typer

from specvet.cli.console import print_json
from specvet.cli.failure import CANNOT_WRITE, USAGE, failing


def folds(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Of specvet data trajectories.")],
    templates: Annotated[str, typer.Option("--templates", metavar="FILE", help="Real spectra that seeded them.")],
    *,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Equal parts of all objects.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """For each fold, the demonstrations that rest on none of the real objects that it keeps back.

    Make one set that all real spectra may seed, train a model on each fold's file, and ask it about the real spectra of
    that fold (specvet data realvi --fold), which it has not seen; train the model to give away on the whole set.

    \b
      specvet data trajectories --n 60000 --templates seeds.npz --fold none --out DEMOS
      specvet data folds DEMOS --templates seeds.npz --folds 3
      specvet train base --data DEMOS/fold-1-of-3.jsonl --from BASE/model --epochs 3 --out FOLD1

    \b
    Exit codes:
      0  the files are there
      2  the folder holds no finished demonstrations, or other spectra seeded them
      4  the disk is full, or the folder cannot be written
    """
    from specvet.data.errors import InputError
    from specvet.data.trajectories_folds import with_folds

    with failing(USAGE, InputError), failing(CANNOT_WRITE, OSError):
        made = with_folds(folder, templates, folds)
    if json:
        print_json({name: {"file": str(path), "demonstrations": n} for name, (path, n) in made.items()})
    elif not quiet:
        for name, (path, n) in made.items():
            print(f"{path}: {n:,} SIMULATED demonstrations without the objects of fold {name}")
