"""`specvet data realvi`: labelled real spectra as questions."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, USAGE, failing

if TYPE_CHECKING:
    from specvet.data.realvi import RealVI, Spectra

LABELS = ("YES", "NO", "BORDERLINE", "MODEL")


def realvi(
    spectra: Annotated[
        str,
        typer.Option("--spectra", metavar="FOLDER", help="Real spectra with manifest.csv and labels.csv."),
    ],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="Folder to write.")],
    *,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the spectra along, so that the folder can move.")] = False,
    harmonise: Annotated[
        bool,
        typer.Option(
            "--harmonise",
            help="Write all spectra alike (3850-7400 A in vacuum, no errors), so that the container tells nothing.",
        ),
    ] = False,
    fold: Annotated[
        str | None,
        typer.Option("--fold", metavar="K/N", help="Only objects that simulations of this fold keep back, as in 2/5."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Make questions of labelled real spectra, to report by.

    Writes realvi.jsonl (labels YES and NO), realvi_borderline.jsonl, realvi_model.jsonl and realvi_stats.json. The
    split says held-out for objects that no simulated spectrum is made from, and seed for the others.
    """
    from specvet.data.realvi import make_realvi
    from specvet.data.simulate.templates_manifest import read_fold

    if copy and harmonise:
        with failing(USAGE, ValueError):
            raise ValueError("--copy and --harmonise: choose one; harmonised spectra lie in the folder anyhow")
    how: Spectra = "harmonised" if harmonise else "copied" if copy else "where they are"
    with failing(USAGE, ValueError), failing(CANNOT_WRITE, OSError):
        made = make_realvi(spectra, out, how, None if fold is None else read_fold(fold))
    if json:
        print_json(made.stats())
    elif not quiet:
        _print_table(made)
    if not quiet:
        for note in made.notes:
            say(note)


def _print_table(made: RealVI) -> None:
    """A line a layout and split; a cell is YES/NO, and in brackets what else there is."""
    from rich.table import Table

    tasks = sorted({key[0] for key in made.counts})
    table = Table(box=None, pad_edge=False)
    for name in ("layout", "split"):
        table.add_column(name)
    for task in tasks:
        table.add_column(task, justify="right")
    for layout, split in sorted({key[1:3] for key in made.counts}):
        counts = ({label: made.counts[task, layout, split, label] for label in LABELS} for task in tasks)
        table.add_row(layout, split, *(_cell(count) for count in counts))
    console().print(table)
    print(f"{made.counts.total():,} questions in {made.folder}; cells are YES/NO")
    if made.left_out:
        say(f"left out {len(made.left_out)} labelled files; realvi_stats.json says why")
    asked, facts = (shlex.quote(str(made.folder / name)) for name in ("realvi.jsonl", "facts.csv"))
    say(f"next: specvet eval run {asked} --facts {facts} --policy line-indices --out RUN")


def _cell(count: dict[str, int]) -> str:
    others = ", ".join(f"{n} {label.lower()}" for label, n in count.items() if n and label not in ("YES", "NO"))
    return f"{count['YES']}/{count['NO']}" + (f" ({others})" if others else "")
