"""The table at the end of a run: what was found, what needs a person, what to type next."""

from __future__ import annotations

import heapq
import os
import shlex
from itertools import islice
from typing import TYPE_CHECKING

from specvet.cli.console import console
from specvet.cli.progress import duration, rate_text
from specvet.cli.time_split import time_split_text

if TYPE_CHECKING:
    from rich.console import Console

    from specvet.records import Decision, RunFolder
    from specvet.tasks import Task
    from specvet.vetting.watch import VetSummary

SHOWN_YES = 20
SHOWN_ERRORS = 5

_ANSWERS = ("YES", "NO", "UNSURE", "NO_DATA", "FAILED")
_STYLES = {"YES": "bold green", "UNSURE": "yellow", "NO_DATA": "yellow", "FAILED": "red"}


def print_summary(run: RunFolder, tasks: list[Task], summary: VetSummary) -> None:
    """Print what the run holds now, sessions before this one included."""
    out = console()
    out.print()
    _print_yes(out, run, tasks)
    _print_counts(out, run, tasks)
    _print_session(out, summary)
    _print_errors(out, run)
    _print_undecided(out, run, tasks)
    _print_next(out, str(run.path))


def _print_counts(out: Console, run: RunFolder, tasks: list[Task]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    counts = run.count()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("task", style="bold")
    table.add_column("class", overflow="ellipsis", no_wrap=True)
    for answer in _ANSWERS:
        table.add_column(answer, justify="right", no_wrap=True)
    for task in tasks:
        of_task = counts.get(task.key, {})
        numbers = [
            Text(f"{of_task.get(a, 0):,}", style=_STYLES.get(a, "") if of_task.get(a) else "dim") for a in _ANSWERS
        ]
        table.add_row(task.key, task.name, *numbers)
    out.print(table)


def _print_session(out: Console, s: VetSummary) -> None:
    if not s.decided and s.skipped:
        out.print(f"\nNothing was left to do: {s.skipped:,} decisions were there from before.", style="dim")
        return
    decisions = "1 decision" if s.decided == 1 else f"{s.decided:,} decisions"
    parts = [f"{decisions} in {duration(s.seconds) if s.seconds >= 1 else 'under 1 s'}"]
    if s.decided and s.seconds >= 1:
        parts[0] += f" ({rate_text(s.decided / s.seconds)} a second)"
    if s.skipped:
        parts.append(f"{s.skipped:,} were there from before")
    if s.duplicates:
        parts.append(f"{s.duplicates:,} repeated entries vetted once")
    out.print(f"\n{'; '.join(parts)}.", style="dim")
    if split := time_split_text(s.usage):
        out.print(split, style="dim", soft_wrap=True)


def _print_errors(out: Console, run: RunFolder) -> None:
    from rich.padding import Padding
    from rich.text import Text

    n = sum(of_task.get("ERROR", 0) for of_task in run.count().values())
    if not n:
        return
    out.print(f"\n{n:,} could not be read (ERROR)", style="bold red")
    for d in islice(run.decisions(answers=["ERROR"]), SHOWN_ERRORS):
        reason = d.verdict.reason.removeprefix(f"{d.file}: ")
        out.print(Padding(Text.assemble(f"{d.file}: ", (reason, "dim")), (0, 0, 0, 2), expand=False))
    if n > SHOWN_ERRORS:
        out.print(f"  … and {n - SHOWN_ERRORS:,} more: specvet export {_path(run)} --answer ERROR --out errors.csv")


def _print_undecided(out: Console, run: RunFolder, tasks: list[Task]) -> None:
    open_ones = ("UNSURE", "NO_DATA", "FAILED")
    n = sum(run.count().get(t.key, {}).get(answer, 0) for t in tasks for answer in open_ones)
    if n:
        out.print(f"\n{n:,} {'needs' if n == 1 else 'need'} a person ({', '.join(open_ones)})", style="bold yellow")
        out.print(f"  specvet export {_path(run)} --answer {','.join(open_ones)} --out look.csv", soft_wrap=True)


def _print_yes(out: Console, run: RunFolder, tasks: list[Task]) -> None:
    from rich.text import Text

    counts = run.count()
    found = [t for t in tasks if counts.get(t.key, {}).get("YES")]
    n = sum(counts[t.key]["YES"] for t in found)
    if not n:
        out.print("No YES.\n", style="bold")
        return
    best = [(t, d) for t in found for d in _surest(run, t, max(1, SHOWN_YES // len(found)))]
    out.print("YES, surest first" + (f" ({len(best)} of {n:,})" if n > len(best) else ""), style="bold green")
    for task, d in best:
        v = d.verdict
        confidence = "" if v.confidence is None else f"{min(v.confidence, 0.999):.2f}"
        out.print(Text.assemble((f"{task.key:<4}", "bold"), f"{confidence:>4}  ", spectrum_name(d)), soft_wrap=True)
        reason = v.reason.removeprefix(f"{task.name}: ")
        out.print(Text(" " * 10 + shorten(reason, out.width - 10), style="dim"), soft_wrap=True)
    out.print()


def _surest(run: RunFolder, task: Task, n: int) -> list[Decision]:
    found = run.decisions(tasks=[task.key], answers=["YES"])
    return heapq.nlargest(n, found, key=lambda d: (d.verdict.confidence or 0.0, _weight(d)))


def _weight(d: Decision) -> float:
    """The evidence added up: parts those that stand at the highest confidence."""
    return sum(item.log_odds for item in d.verdict.evidence)


def shorten(text: str, width: int) -> str:
    """`text` cut at a word, with `…` where something is left out."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1].rsplit(" ", 1)[0] + "…"


def _print_next(out: Console, path: str) -> None:
    folder = shlex.quote(path)
    out.print(f"\nThe run is in {path}. Next:", soft_wrap=True)
    out.print(f"  specvet report {folder}", soft_wrap=True)
    out.print(
        f"  specvet export {folder} --out {shlex.quote(os.path.basename(path) or 'verdicts')}.csv", soft_wrap=True
    )


def spectrum_name(d: Decision) -> str:
    """The id where there is one, else the file's name; with the row where the file holds several."""
    name = os.path.basename(d.file)
    row = f" row {d.row}" if d.row else ""
    text = f"{d.id} ({name}{row})" if d.id and d.id not in name else f"{name}{row}"
    simulated = any("SIMULATED" in w for w in d.warnings) and "SIMULATED" not in text
    return f"{text} SIMULATED" if simulated else text


def _path(run: RunFolder) -> str:
    return shlex.quote(str(run.path))
