"""`specvet data label-list`: a person's own labels as questions and cold-start demonstrations."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.plot import figure_style

if TYPE_CHECKING:
    from specvet.data.labels import Agreed, LabelRow
    from specvet.data.labels_made import Made
    from specvet.tasks import Task
    from specvet.vetting.inputs_columns import RowReader
    from specvet.vetting.inputs_listed import ListTable


def label_list(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="CSV, ECSV, FITS, VOTable or Parquet, with answers.")],
    *,
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="Where questions and drafts go.")],
    tasks: Annotated[
        str | None, typer.Option("--tasks", metavar="FOLDER", help="YAML files of tasks of your own.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", metavar="DIR", help="Where the table's paths start.")] = None,
    path_column: Annotated[
        str | None, typer.Option("--path-column", metavar="NAME", help="The table's column of paths, if unusual.")
    ] = None,
    style: Annotated[
        str, typer.Option("--style", metavar="reference|compact", help="Of the figures in the drafts.")
    ] = "reference",
    drafts: Annotated[
        bool, typer.Option("--drafts/--no-drafts", help="Let the teacher write demonstrations, or only questions.")
    ] = True,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy the spectra along, so that the folder can be moved.")
    ] = False,
    val_share: Annotated[
        float, typer.Option("--val-share", metavar="X", help="Share of the objects kept for validation; 0 keeps none.")
    ] = 0.1,
    seed: Annotated[int, typer.Option("--seed", help="Of the split and of the drafts.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="The statistics as one JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Neither progress nor a summary.")] = False,
) -> int:
    """Make questions and cold-start demonstrations of your own labels.

    The table has a row for each answer, with the columns file, task and answer (and row, where files hold several
    targets), or a row for each spectrum with a column for each task (cv, wd, …). Optional: name, object_id,
    label_source, comment, reviewer, time. Answers are YES and NO; BORDERLINE, UNSURE and the like are set aside. What
    several people said of one spectrum counts where they agree.

    A teacher then shows, on your spectra, how to come to each answer by looking: what it says is measured, and a draft
    whose measurements contradict the label is left out. The same command goes on where it was stopped.

    \b
      specvet data label-list labels.csv --out mine
      specvet data label-list labels.fits --out mine --tasks tasks/ --style compact --copy
      specvet train sft --profile qwen3.5-4b-chapter --data mine/sft_train.jsonl --validation mine/sft_val.jsonl

    \b
    Writes questions.jsonl, train.jsonl, val.jsonl, sft_train.jsonl, sft_val.jsonl, images/, rejects.jsonl, stats.json.
    Ends with 0, or 1 when no row could be used, 2 for a wrong command, 4 for a full disk, 130 when interrupted.
    """
    drawn = figure_style(style)
    from specvet.data.errors import InputError
    from specvet.data.labels import agreed
    from specvet.data.labels_made import Settings, make_labelled
    from specvet.records import RunError
    from specvet.tasks import TaskError

    with failing(USAGE, InputError, TaskError):
        known = known_tasks(tasks)
        rows, names = label_rows(table, root, path_column, known, quiet)
    labels = agreed(rows, {name: task.key for name, (task, _) in names.items()})
    asked = {label.task for label in labels.labels}
    of_key = {task.key: (task, yaml) for task, yaml in names.values()}
    own = {key: yaml for key, (_, yaml) in of_key.items() if yaml is not None and key in asked}

    from specvet.cli.data_progress import shown_steps
    from specvet.cli.signals import stopped_by_signals

    settings = Settings(style=drawn, drafts=drafts, copy=copy, val_share=val_share, seed=seed)
    with (
        failing(CANNOT_WRITE, OSError),
        failing(NOTHING_VETTED, RunError),
        failing(USAGE, ValueError),
        shown_steps(quiet) as told,
        stopped_by_signals(lambda: None) as stop,
    ):
        made = make_labelled(
            out, labels, {key: task for key, (task, _) in of_key.items()}, settings, own_tasks=own, told=told, stop=stop
        )
    if json:
        print_json(made.stats)
    elif not quiet:
        _tell(made, labels, copy, drafts)
    if made.stopped:
        return INTERRUPTED
    if not made.stats["questions"]:
        raise CommandError(f"{table}: no row could be used; {Path(out) / 'rejects.jsonl'} says why", NOTHING_VETTED)
    return DONE


Known = dict[str, tuple["Task", bytes | None]]
"""Tasks by the names that people write, in small letters without blanks; with the YAML of those that are one's own."""


def known_tasks(folder: str | None) -> Known:
    """The built-in tasks and those of a folder, which come first. Raises TaskError, InputError."""
    from specvet.data.errors import InputError
    from specvet.tasks import builtin_tasks, load_task

    found: Known = {}
    for task in builtin_tasks().values():
        for name in (task.key, task.name, *task.aliases):
            found[_simple(name)] = (task, None)
    if folder is None:
        return found
    if not os.path.isdir(folder):
        raise InputError(f"--tasks {folder}: no such folder")
    files = sorted(p for p in Path(folder).iterdir() if p.suffix in (".yaml", ".yml"))
    if not files:
        raise InputError(f"--tasks {folder}: holds no .yaml file")
    for file in files:
        task = load_task(file)
        for name in (task.key, task.name, *task.aliases):
            found[_simple(name)] = (task, file.read_bytes())
    return found


def _simple(name: str) -> str:
    return name.strip().casefold().replace(" ", "").replace("-", "").replace("_", "")


def label_rows(
    table: str, root: str | None, path_column: str | None, known: Known, quiet: bool
) -> tuple[list[LabelRow], Known]:
    """The table's rows, and the tasks that they name, by the name as written. Raises InputError."""
    from specvet.data.errors import InputError
    from specvet.vetting.inputs_columns import RowReader
    from specvet.vetting.inputs_listed import ListTable
    from specvet.vetting.inputs_tables import open_list

    if not os.path.isfile(table):
        raise InputError(f"{table}: no such file")
    if root is not None and not os.path.isdir(root):
        raise InputError(f"--root {root}: no such folder")
    listed = open_list(table, path_column=path_column, root=root, forced=False)
    if not isinstance(listed, ListTable):
        message = getattr(listed, "message", f"{table}: is no table with a column of spectrum files")
        raise InputError(message)
    reader = RowReader(listed.path, listed.columns, root, path_column, None)
    columns = [c.strip().casefold() for c in listed.columns]
    if not quiet:
        for notice in reader.notices:
            say(notice)
    found = list(_read(listed, reader, columns, known))
    written = {task for row in found for task, _ in row.answers}
    return found, {name: known[_simple(name)] for name in written if _simple(name) in known}


def _read(listed: ListTable, reader: RowReader, columns: list[str], known: Known) -> Iterator[LabelRow]:
    from specvet.data.errors import InputError
    from specvet.data.labels import COLUMNS, LabelRow

    more = {name: columns.index(name) for name in COLUMNS if name in columns}
    if ("task" in more) != ("answer" in more):
        there, missing = ("task", "answer") if "task" in more else ("answer", "task")
        raise InputError(f"{listed.path}: has a column {there} and none called {missing}; both are needed")
    taken = {*reader.needed, *more.values()}
    wide = {c: i for i, c in enumerate(columns) if i not in taken and _simple(c) in known}
    if "task" not in more and not wide:
        raise InputError(
            f"{listed.path}: no column says what was found. Columns found: {', '.join(listed.columns)}. Give the "
            "columns task and answer, or a column for each task, such as cv (tasks of your own: --tasks FOLDER)"
        )
    needed = [*reader.needed, *more.values(), *wide.values()]
    try:
        for where, values in listed.rows(needed):
            place = f"{listed.path} {where}"
            if isinstance(values, str):
                yield LabelRow(place, "", None, (("", ""),), values)
                continue
            item = reader.item(where, values[: len(reader.needed)])
            rest = values[len(reader.needed) :]
            said = {name: rest[i] for i, name in enumerate(more) if rest[i]}
            answers = tuple(zip(wide, rest[len(more) :], strict=True))
            one = said.pop("task", ""), said.pop("answer", "")
            if "task" in more and (any(one) or not wide):  # a table may have both forms, and a row one of them
                answers = (one, *answers)
            problem = item.problem.removeprefix(f"{place}: ")
            if problem.startswith("no such file"):
                problem += "; --root DIR says where the table's paths start"
            yield LabelRow(place, item.file, item.row, answers, problem, said)
    except (EOFError, OSError, TypeError) as e:
        raise InputError(f"{listed.path}: damaged ({e}); save the table again") from None


def _tell(made: Made, labels: Agreed, copied: bool, drafted: bool) -> None:
    from rich.table import Table

    stats = made.stats
    told = console()
    lines = Table(box=None, pad_edge=False)
    for name in ("task", "YES", "NO", "validation", *(["drafts"] if drafted else [])):
        lines.add_column(name, justify="left" if name == "task" else "right")
    for task, n in stats["tasks"].items():
        cells = (n["YES"], n["NO"], n["val"], *([n["drafts"]] if drafted else []))
        lines.add_row(task, *(f"{x:,}" for x in cells))
    if stats["tasks"]:
        told.print(lines)
    told.print(
        f"{stats['questions']:,} questions about {stats['spectra']:,} spectra of {stats['objects']:,} objects"
        + (f"; {stats['drafts']:,} demonstrations, {made.drafted_now:,} tried now" if drafted else ""),
        soft_wrap=True,
    )
    for kind, n in stats["left"].items():
        first = [left for left in made.left if left.kind == kind][:1]
        told.print(f"left out, {kind}: {n:,}, such as {first[0].where}: {first[0].reason}", soft_wrap=True)
    if made.again:
        first_again = made.again[0]
        told.print(
            f"labels to look at again: {len(made.again):,}, which stay in the questions although what can be measured "
            f"says otherwise (stats.json lists them), such as {first_again.where}: {first_again.reason}",
            soft_wrap=True,
        )
    if labels.empty:
        told.print(f"{labels.empty:,} cells hold no answer")
    folder = shlex.quote(str(made.folder))
    if made.stopped:
        say(f"stopped; what is done is kept in {folder}, and the same command goes on")
        return
    if not copied and stats["questions"]:
        told.print("the questions point to your spectra where they lie: to move the folder, make it with --copy")
    if drafted and stats["drafts_train"]:
        held = f" --validation {folder}/sft_val.jsonl" if stats["drafts_val"] else ""
        told.print(
            f"next: specvet train sft --profile tiny --set sft.max_tokens=8192 --data {folder}/sft_train.jsonl{held} "
            "--out RUN --dry-run",
            soft_wrap=True,
        )
        told.print("that counts what a run would take; real models: --profile qwen3.5-4b-chapter or the like")
    elif stats["questions"]:
        told.print(f"next: specvet train grpo --data {folder}/train.jsonl", soft_wrap=True)
    if stats["questions"]:
        told.print(
            f"to measure on them: specvet eval run {folder}/questions.jsonl --policy line-indices --out E",
            soft_wrap=True,
        )
