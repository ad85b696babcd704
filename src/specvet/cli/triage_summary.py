"""What `specvet triage` prints: bands with what is expected of them, promises, and what speaks against both."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specvet.cli.console import console
from specvet.vetting.triage.measuring import UNMEASURED
from specvet.vetting.triage.sorting import grouped, percent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from specvet.vetting.triage import Calibration, Settings, Triage
    from specvet.vetting.triage.run import Audit
    from specvet.vetting.triage.sorting import BandCount, TaskCount
    from specvet.vetting.triage.truths import Matched

_FEW = 20
"""Members below which a task's own numbers say little."""


def print_triage(folder: str, found: Triage, settings: Settings, calibration: Calibration | None) -> None:
    """Print a sorted run."""
    out = console()
    out.print()
    if calibration is None:
        _print_raw(out, found)
    else:
        _print_bands(out, found, settings)
    unreadable = found.tasks.get("*")
    if unreadable is not None:
        out.print(
            f"\n{unreadable.n:,} could not be read (ERROR): a person must look.", style="bold red", soft_wrap=True
        )
    for text in found.notices:
        out.print(f"Not as calibrated: {text}.", style="yellow", soft_wrap=True)
    for text, tasks in grouped((task, text) for task, count in found.tasks.items() for text in count.drift).items():
        out.print(f"{', '.join(tasks)}: unlike the calibration set: {text}.", style="yellow", soft_wrap=True)
    if any(count.drift for count in found.tasks.values()):
        out.print("What is promised holds for lists like the calibration set: label some of this one.", style="yellow")
    total = sum(count.n for count in found.tasks.values())
    if found.looks:
        out.print(
            f"\nA person looks at {found.looks:,} of {total:,}: {total / found.looks:.1f}x fewer looks than all.",
            soft_wrap=True,
        )
    run = shlex.quote(folder)
    out.print(f"\nWritten to {run}/triage: rows.parquet, triage.json, page.html. Next:", soft_wrap=True)
    out.print(f"  specvet review {run}", soft_wrap=True)
    out.print(f"  specvet export {run} --out verdicts.fits", soft_wrap=True)


def _table() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)


def _print_raw(out: Console, found: Triage) -> None:
    table = _table()
    table.add_column("task", style="bold")
    for name in ("rows", "look", "reject", "audit", "looks"):
        table.add_column(name, justify="right")
    for task, count in found.tasks.items():
        if task != "*":
            numbers = (count.n, count.bands["look"].n, count.bands["reject"].n, count.audit, count.looks)
            table.add_row(task, *(f"{n:,}" for n in numbers))
    out.print(table)
    out.print(
        "\nNot calibrated: rejected is what the policy said NO to, and nothing is promised of it. Calibrate on a "
        "labelled run: specvet triage calibrate RUN --labels L --out C",
        style="yellow",
        soft_wrap=True,
    )


def _print_bands(out: Console, found: Triage, settings: Settings) -> None:
    table = _table()
    table.add_column("task", style="bold")
    table.add_column("rows", justify="right")
    table.add_column("members, % of list", justify="right")
    for name in ("accept (finds, false)", "look (finds)", "reject (finds lost)", "looks", "fewer"):
        table.add_column(name, justify="right")
    for task, count in found.tasks.items():
        if task != "*":
            table.add_row(task, f"{count.n:,}", _prevalence(count), *_cells(count))
    out.print(table)
    out.print("Finds and losses are expected numbers; [ ] at the ends of the prevalence's 95 % interval.", style="dim")
    audit = f"looks: the band look and a random {settings.audit:.0%} of the rejected (--audit, seed {settings.seed})."
    out.print(audit, style="dim")
    out.print()
    for text, tasks in grouped((task, c.promise.text) for task, c in found.tasks.items() if c.promise).items():
        out.print(f"{', '.join(tasks)}: {text}.", soft_wrap=True)
    if none := [task for task, c in found.tasks.items() if c.promise is not None and c.promise.accept_from is None]:
        out.print(
            f"{', '.join(none)}: nothing is accepted: the labels do not show that at most {settings.max_false:.0%} of "
            f"the accepted would be wrong at this prevalence ({settings.confidence:.0%} confidence).",
            soft_wrap=True,
        )


def _prevalence(count: TaskCount) -> str:
    p = count.prevalence
    if p is None:
        return "not known"
    if p.source == "given":
        return f"{100 * p.value:.3g} (given)"
    return f"{percent(p.value)} [{percent(p.low)}, {percent(p.high)}]"


def _cells(count: TaskCount) -> tuple[str, ...]:
    accept, look, reject = (count.bands[b] for b in ("accept", "look", "reject"))
    finds = "0" if not accept.n else f"{accept.n:,} ({_expected(accept)}, {_number(accept.n - (accept.members or 0))})"
    cells = [finds] + [f"{b.n:,} ({_expected(b)})" if b.n else "0" for b in (look, reject)]
    fewer = f"{count.n / count.looks:.1f}x" if count.looks else "all"
    return (*cells, f"{count.looks:,}", fewer)


def _expected(band: BandCount) -> str:
    if band.members is None or band.low is None or band.high is None:
        return "?"
    value = _number(band.members)
    low, high = _number(band.low), _number(band.high)
    return value if low == high else f"{value} [{low}, {high}]"


def _number(x: float) -> str:
    return f"{x:,.0f}" if x >= 10 else f"{x:.1f}" if x >= 0.05 or x == 0 else "<0.1"


def print_calibration(made: Calibration, matched: Matched, next: str) -> None:
    """Print what a calibration was found on and how well its probabilities fit."""
    out = console()
    table = _table()
    table.add_column("task", style="bold")
    for name in ("members", "others", "Brier", "raw", "ECE, %", "raw", "AUROC", "raw", "curve"):
        table.add_column(name, justify="right")
    for task, told in made.measured.items():
        fit, raw = told["calibrated"], told["raw"]
        curve = "" if task == "all" else f"{len(made.tasks[task].log_odds)} steps" if made.tasks[task].log_odds else "-"
        pairs = [("brier", 1.0, 4), ("ece", 100.0, 2), ("auroc", 1.0, 4)]
        cells = [_digits(side[name], scale, digits) for name, scale, digits in pairs for side in (fit, raw)]
        table.add_row(task, f"{told['members']:,}", f"{told['others']:,}", *cells, curve)
    out.print()
    out.print(table)
    out.print("Cross-fitted by object; raw: the policy's own probability, where it gives one.", style="dim")
    out.print(f"\nWeighed: {', '.join(feature.name for feature in made.features)}.", soft_wrap=True)
    if made.simulated:
        whose = "All" if made.simulated == made.cases else f"{made.simulated:,} of {made.cases:,}"
        out.print(f"{whose} of the cases are SIMULATED: nothing is promised of real lists.", style="yellow")
    few = [t for t, told in made.measured.items() if t != "all" and told["members"] < _FEW]
    if few:
        out.print(
            f"{', '.join(few)}: fewer than {_FEW} members; the weights are nearly those of all tasks.", style="yellow"
        )
    if matched.unmeasured:
        out.print(
            f"{matched.unmeasured:,} answers could not be measured again: {UNMEASURED}.", style="yellow", soft_wrap=True
        )
    left = [
        (matched.unlabelled, "cases of the run have no label"),
        (matched.unasked, "labels are of spectra or tasks that the run did not decide"),
        (matched.unclear, "labels do not say which target of their file they mean"),
    ]
    for n, what in left:
        if n:
            out.print(f"Left out: {n:,} {what}.", soft_wrap=True)
    out.print("\nNext:", soft_wrap=True)
    out.print(f"  {next}", soft_wrap=True)


def _digits(value: float | None, scale: float, digits: int) -> str:
    return "-" if value is None else f"{scale * value:.{digits}f}"


def print_audit(audits: Mapping[str, Audit]) -> None:
    """Print what people found among the rejected."""
    out = console()
    table = _table()
    table.add_column("task", style="bold")
    for name in ("rejected", "drawn", "checked", "true objects", "at most, of the rejected"):
        table.add_column(name, justify="right")
    for task, a in audits.items():
        most = "-" if math.isnan(a.share_at_most) else f"{a.share_at_most:.3%} ({a.share_at_most * a.rejected:,.0f})"
        table.add_row(task, f"{a.rejected:,}", f"{a.drawn:,}", f"{a.checked:,}", f"{a.found:,}", most)
    out.print(table)
    out.print("At most: one-sided 95 % bound (Clopper-Pearson) from the checked ones.", style="dim")


def json_audit(audits: Mapping[str, Audit]) -> dict[str, Any]:
    """The one object of `--checked --json`."""
    return {"audit": {task: asdict(audit) for task, audit in audits.items()}}
