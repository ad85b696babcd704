"""`specvet train specialist`: a classifier to measure an agent beside, from a question file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specvet.cli import train_options as options
from specvet.cli.console import console, print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, CommandError, failing
from specvet.cli.plot import frame_mode

if TYPE_CHECKING:
    from specvet.policies.specialists.card import Kind
    from specvet.training.specialists import Report
    from specvet.training.specialists.training import Told


def specialist(
    *,
    kind: Annotated[str, typer.Option("--kind", metavar="majority|trees|cnn", help="What is trained.")],
    questions: Annotated[str, typer.Option("--questions", metavar="FILE", help="Questions with answers.")],
    validation: Annotated[
        str | None,
        typer.Option(
            "--validation", metavar="FILE", help="Others, to stop and calibrate by; else a tenth of the objects."
        ),
    ] = None,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder of the specialist; a new one.")],
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Of all that is random.")] = 0,
    frame: Annotated[
        str, typer.Option("--frame", metavar="MODE", help="When to take the file's redshift out, as for vet.")
    ] = "careful",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Train a classifier on a question file, as a peer on the same questions.

    It sees of each spectrum what an agent sees: wavelengths and fluxes in the frame of the opening; no errors, class,
    name or redshift.

    \b
      majority  the commonest answer of each task
      trees     boosted trees on line indices, one model a task; running them needs nothing installed
      cnn       a 1-D convolutional network, one output a task; minutes on two cores

    \b
      specvet train specialist --kind trees --questions bench_rl_train.jsonl --validation bench_dev.jsonl --out trees
      specvet vet spectra/ --task cv --policy trees --model trees

    \b
    Exit codes:
      0    trained
      2    the command is wrong, the questions cannot be learnt from, or something is not installed
      4    the disk is full, or the folder cannot be written
    """
    if kind not in ("majority", "trees", "cnn"):
        raise CommandError(f"--kind {kind}: choose majority, trees or cnn", USAGE)
    mode = frame_mode(frame)
    from specvet.data.errors import InputError
    from specvet.policies.specialists import SpecialistError
    from specvet.training.specialists import train_specialist

    with failing(CANNOT_WRITE, OSError), failing(USAGE, InputError, SpecialistError), _telling(quiet) as told:
        report = train_specialist(
            cast("Kind", kind),
            questions,
            Path(out),
            validation=validation,
            seed=seed,
            frame_mode=mode,  # type: ignore[arg-type]
            told=told,
        )
    if report.constant and not quiet:
        from specvet.cli.console import say

        least = 2 * report.card.settings["min_samples_leaf"]
        say(
            f"too few questions to learn from: of {', '.join(report.constant)} the trees are constants, which say the "
            f"same of every spectrum. A split takes {least} questions of a task at least, and a good one hundreds: "
            "give more, and train again"
        )
    if json:
        print_json({"out": out} | report.card.model_dump(mode="json") | {"receipt": report.receipt})
    elif not quiet:
        _print(out, report)
    return DONE


@contextmanager
def _telling(quiet: bool) -> Iterator[Told]:
    """A bar for each part of the work on a terminal, else a line as it begins; nothing when quiet."""
    import os
    import sys

    from specvet.cli.console import say
    from specvet.cli.progress import bars

    begun: dict[str, Any] = {}
    if quiet:
        yield lambda what, done, total: None
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with bars() as bar:

            def moved(what: str, done: int, total: int) -> None:
                if what not in begun:
                    begun[what] = bar.add_task(what, total=total, note="")
                bar.update(begun[what], completed=done, total=total)

            yield moved
    else:

        def said(what: str, done: int, total: int) -> None:
            if what not in begun:
                begun[what] = total
                say(f"{what}: {total:,}" if total > 1 else what)

        yield said


def _print(out: str, report: Report) -> None:
    from rich import box
    from rich.table import Table

    from specvet.cli.progress import duration

    card, receipt, screen = report.card, report.receipt, console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("task", "questions", "YES", "share"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for key, task in card.tasks.items():
        table.add_row(key, f"{task.questions:,}", f"{task.yes:,}", f"{100 * task.share:.1f} %")
    screen.print(f"{card.kind} on {card.training.questions:,} questions, {duration(receipt['seconds'])}", style="bold")
    screen.print(table)
    if receipt["rejects"]:
        first = receipt["rejects"][0]
        screen.print(
            f"{len(receipt['rejects']):,} left out, listed in receipt.json; {first['where']}: {first['reason']}"
        )
    checked = receipt["validated"]
    if checked and card.validation is not None:
        f1 = f", macro F1 {100 * checked['macro_f1']:.1f} %" if "macro_f1" in checked else ""
        screen.print(
            f"on the {card.validation.questions:,} questions that it was stopped by: accuracy "
            f"{100 * checked['accuracy']:.1f} %{f1}, log loss {checked['log_loss']:.3f} (temperature "
            f"{card.temperature:g}); measure it on others",
            soft_wrap=True,
        )
    screen.print(f"use it: --policy {card.kind} --model {shlex.quote(out)}", soft_wrap=True)
