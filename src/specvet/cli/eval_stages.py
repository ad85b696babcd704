"""`specvet eval stages`: the table of what each stage of a training brought."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from collections.abc import Mapping


def stages(
    what: Annotated[
        str,
        typer.Argument(metavar="STAGES.yaml|FOLDER", help="Which models are which stage; or a folder that was made."),
    ],
    *,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help="Where to, with a STAGES.yaml.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table.")] = False,
) -> int:
    """Put the stages of a training side by side: base, SFT, RL, of several seeds, on the same questions.

    Macro F1, accuracy, format, correct and calls with intervals, paired differences seed by seed, calls by class and
    S/N, curves; and each answer in a few bytes, so that DIR can go into a repository. `specvet pipeline nano` writes
    such a file and calls this. Given a DIR that was made, it makes every number again from the answers in it.

    \b
      specvet eval stages runs/nano/stages.yaml --out results/mine
      specvet eval stages results/mine

    \b
    Exit codes:
      0  made; or all of it came out again
      1  something in the folder does not hold
      2  the command is wrong, or what it names cannot be read
      4  the folder cannot be written
    """
    from specvet.data.errors import InputError
    from specvet.evaluation.stages import gather, remade

    if Path(what).is_dir():
        if out is not None:
            raise CommandError("--out is of a STAGES.yaml; a folder that was made is checked where it lies", USAGE)
        with failing(USAGE, InputError, OSError):
            wrong = remade(Path(what))
        if json:
            print_json({"folder": what, "wrong": wrong})
        for line in wrong if not json else ():
            say(line)
        if not wrong and not quiet and not json:
            say(f"{what}: every file is as named, and every number comes out again")
        return NOTHING_VETTED if wrong else DONE
    if out is None:
        raise CommandError("--out is missing: say where the table is to lie, as in --out results/mine", USAGE)
    with failing(USAGE, InputError), failing(CANNOT_WRITE, OSError):
        told = gather(Path(what), Path(out), say=(lambda text: None) if quiet or json else say)
    if json:
        print_json(told)
    elif not quiet:
        _print(told)
        say(f"{out}: README.md, stages.json and figures; specvet eval stages {out} makes its numbers again")
    return DONE


def _print(told: Mapping[str, Any]) -> None:
    from rich.table import Table

    from specvet.evaluation.report.words import interval
    from specvet.evaluation.stages.page import count

    for name, numbers in told["sets"].items():
        table = Table(
            title=f"{name}, {numbers['questions']:,} questions", box=None, pad_edge=False, title_justify="left"
        )
        for head in ("stage", "seed"):
            table.add_column(head)
        for head in ("macro F1", "accuracy", "format", "correct", "calls"):
            table.add_column(head, justify="right")
        for of in numbers["models"].values():
            shares = [interval(of[key]) for key in ("macro_f1", "accuracy", "format")]
            seed = "all" if of["seed"] is None else str(of["seed"])
            table.add_row(of["stage"], seed, *shares, f"{of['correct']['k']:,}", count(of["calls"]))
        console().print(table)
        gains = Table(title="gains in macro F1, points", box=None, pad_edge=False, title_justify="left")
        for head in ("of", "over", "seed"):
            gains.add_column(head)
        for head in ("all", f"S/N < {numbers['low_snr']['below']:g}"):
            gains.add_column(head, justify="right")
        for pair in numbers["differences"]:
            of_all = [(str(one["seed"]), one) for one in pair["seeds"]]
            for seed, one in [*of_all, *([("mean", pair["mean"])] if len(of_all) > 1 else [])]:
                both = (interval(one[key], sign=True) for key in ("macro_f1", "low_snr_macro_f1"))
                gains.add_row(pair["of"], pair["over"], seed, *both)
        if numbers["differences"]:
            console().print(gains)
    for text in told["missing"]:
        say(f"not there yet: {text}")
