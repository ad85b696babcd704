"""`specvet data templates`: the templates of a folder of real spectra in one small file."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, USAGE, failing


def templates(
    spectra: Annotated[str, typer.Argument(metavar="FOLDER", help="Real spectra with a manifest.csv.")],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="File to write, as in seeds.npz.")],
    *,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Parts that the table counts.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Clean real spectra and keep them in one small file, which --templates of other commands take.

    Each is brought to rest and into vacuum, its noise, its air's bands and its own blur taken out. The file holds all
    objects; --fold of the other commands says which of them seed nothing. What it holds are other people's spectra:
    keep it to yourself.

    \b
      specvet data templates SPECTRA --out seeds.npz
      specvet data questions --n 10000 --templates seeds.npz --fold 2/5 --out FOLD2
    """
    from pathlib import Path

    from specvet.data.simulate.templates_file import write_template_file
    from specvet.data.simulate.templates_manifest import Fold

    with failing(USAGE, ValueError), failing(CANNOT_WRITE, OSError):
        found, refused = write_template_file(spectra, out)
    kinds = sorted({kind for one in found for kind in one.kinds})
    counts = {
        kind: [len({one.object_id for one in found if kind in one.kinds and Fold(k, folds).holds(one.object_id)})
               for k in range(1, folds + 1)]
        for kind in kinds
    }  # fmt: skip
    size = Path(out).stat().st_size
    if json:
        spectra_of = Counter(kind for one in found for kind in one.kinds)
        told = {"file": out, "bytes": size, "templates": len(found), "refused": refused, "objects": counts}
        print_json(told | {"spectra": dict(sorted(spectra_of.items()))})
    elif not quiet:
        _print_table(counts, folds)
        print(
            f"{out}: {len(found)} real spectra of {len({one.object_id for one in found})} objects, {size / 1e6:.1f} MB"
        )
        say(f"left out {len(refused)} spectra; --json says why. Not to be published or committed")


def _print_table(counts: dict[str, list[int]], folds: int) -> None:
    """Objects a kind and fold."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("kind (objects)")
    for name in (*(f"{k}/{folds}" for k in range(1, folds + 1)), "all"):
        table.add_column(name, justify="right")
    for kind, row in counts.items():
        table.add_row(kind, *(str(n) if n else "" for n in row), str(sum(row)))
    console().print(table)
