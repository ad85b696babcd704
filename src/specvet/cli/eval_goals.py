"""`specvet eval goals`: what a model reaches on labelled real spectra, over the folds of a cross-validation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, failing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specvet.evaluation.cells import Cell


def goals(
    campaigns: Annotated[
        list[str], typer.Argument(metavar="CAMPAIGN…", help="Folders of eval run; one a fold, or one of everything.")
    ],
    *,
    policy: Annotated[str | None, typer.Option("--policy", help="Slug, where a campaign has several.")] = None,
    set_: Annotated[str | None, typer.Option("--set", metavar="SET", help="Slug, where there are several.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Where there are several.")] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write the numbers as JSON.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> int:
    """Hold a model against what it is to reach on labelled real spectra.

    F1 of cataclysmic variables and M giants, how many of the former are found, ordinary stars and dwarfs that are taken
    for something; of classes with few real members counts with exact intervals and no claim; and beside them what a
    classifier gets from the metadata alone. Each fold's model is asked about the objects that its training did not see:

    \b
      specvet data realvi --spectra FOLDER --harmonise --fold 2/5 --out REAL2
      specvet eval run REAL2/realvi.jsonl --facts REAL2/facts.csv --policy torch --model FOLD2 --out E2
      specvet eval goals E1 E2 E3 E4 E5

    \b
    Exit codes:
      0  told, whether the goals are met or not
      2  a folder is no campaign, or more than one cell of a fold would count
      4  the file cannot be written
    """
    import json as as_json

    from specvet.data.errors import InputError
    from specvet.evaluation.real_goals import pooled, real_goals
    from specvet.records import write_atomic

    with failing(USAGE, InputError, OSError, ValueError):
        cells = [_cell(campaign, policy, set_, seed) for campaign in campaigns]
        told = {"cells": [cell.name for cell in cells], **real_goals(pooled(cells))}
    if out is not None:
        with failing(CANNOT_WRITE, OSError):
            write_atomic(Path(out), as_json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    if json:
        print_json(told)
    elif not quiet:
        _print(told)
    return DONE


def _cell(campaign: str, policy: str | None, set_: str | None, seed: int | None) -> Cell:
    """The one that counts. Raises InputError."""
    from specvet.data.errors import InputError
    from specvet.evaluation.folder import open_campaign

    found = [
        cell
        for cell in open_campaign(campaign).current()
        if policy in (None, cell.record.policy) and set_ in (None, cell.record.set) and seed in (None, cell.record.seed)
    ]
    if len(found) != 1:
        names = ", ".join(cell.name for cell in found) or "none"
        raise InputError(f"{campaign}: one cell is to count, and it has {names}; choose by --policy, --set and --seed")
    return found[0]


def _print(told: Mapping[str, Any]) -> None:
    from rich.table import Table

    from specvet.cli.eval_tables import percent, with_interval

    table = Table(box=None, pad_edge=False)
    table.add_column("on real spectra")
    for name in ("%, (95 %)", "counts", "goal", "", "metadata alone, F1 %"):
        table.add_column(name, justify="right")
    alone = told["metadata_only"].get("tasks", {})
    for line in told["goals"]:
        counts = f"{line['k']}/{line['n']}" if line["k"] is not None else f"{line['n']} asked"
        met = {True: "met", False: "missed", None: ""}[line["met"]]
        by_metadata = alone.get(line["task"], {}).get("macro_f1") if line["what"].startswith("F1") else None
        cells = with_interval(line), counts, line["goal"], met, "" if by_metadata is None else percent(by_metadata)
        table.add_row(line["what"], *cells)
    console().print(table)
    answers = ", ".join(f"{n:,} {word}" for word, n in told["answers"].items())
    print(f"{told['questions']:,} questions about {told['objects']:,} real objects; {answers}")
    if note := told["metadata_only"].get("note"):
        say(f"metadata alone: {note}")
    for note in told["notes"]:
        say(note)
