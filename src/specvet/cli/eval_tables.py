"""What a campaign's numbers look like on a terminal."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.cli.console import console

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHOWN_COMPARISONS = 12


def print_campaign(folder: Path) -> None:
    """The table of cells, the means over seeds, the paired differences, and what to do next."""
    from rich import box
    from rich.table import Table

    from specvet.evaluation.folder import MANIFEST, open_campaign

    out = console()
    campaign = open_campaign(folder)
    if not (folder / MANIFEST).is_file():
        out.print(f"\nNo cell is complete yet. How far it is: specvet eval status {shlex.quote(str(folder))}")
        return
    summary = campaign.summary()
    out.print()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("policy", "set", "seed"):
        table.add_column(column, style="bold" if column == "policy" else None)
    for column in ("macro F1, % (95 %)", "accuracy, %", "format, %", "correct", "calls", "s/spectrum"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in summary["rows"]:
        correct = row["correct"]
        table.add_row(
            row["label"],
            row["set"],
            "any" if row["seed"] is None else str(row["seed"]),
            with_interval(row["macro_f1"]),
            percent(row["accuracy"]["value"]),
            percent(row["format"]["value"]),
            f"{correct['k']:,}/{correct['n']:,}",
            number(row["calls"]["mean"]),
            number(row.get("seconds_per_spectrum"), 3),
        )
    out.print(table)
    _machinery(out, summary["rows"])
    _learnt(out, summary["rows"])
    _means(out, summary["means"])
    _comparisons(out, summary["comparisons"])
    where = shlex.quote(str(folder))
    out.print(f"\nThe campaign is in {folder}. Next:", soft_wrap=True)
    out.print(f"  specvet eval verify {where}", soft_wrap=True)
    out.print(f"  specvet eval report {where}", soft_wrap=True)


def _machinery(out: Any, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        if row["machinery"]:
            out.print(
                f"{row['machinery']:,} of {row['questions']:,} trajectories of {row['label']} on {row['set']} were "
                "ended by a server or a file; they count as wrong (--retry tries them again in a new session)",
                soft_wrap=True,
            )


def _learnt(out: Any, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        if n := row.get("seen_in_training"):
            out.print(
                f"{n:,} of {row['questions']:,} questions of {row['set']} are about spectra that {row['label']} was "
                "trained on or stopped by: these are no held-out numbers",
                soft_wrap=True,
            )


def _means(out: Any, means: Iterable[Mapping[str, Any]]) -> None:
    several = [mean for mean in means if len(mean["seeds"]) > 1]
    if several:
        out.print("\nOver seeds, mean ± sample standard deviation:")
    for mean in several:
        told = ", ".join(
            f"{name} {100 * mean[key]['mean']:.2f} ± {100 * mean[key]['std']:.2f}"
            for key, name in (("macro_f1", "macro F1"), ("accuracy", "accuracy"), ("format", "format"))
            if mean[key]["mean"] is not None and mean[key]["std"] is not None
        )
        out.print(f"  {mean['label']} on {mean['set']} ({len(mean['seeds'])} seeds): {told}", soft_wrap=True)


def _comparisons(out: Any, comparisons: list[Mapping[str, Any]]) -> None:
    told = [(c, per) for c in comparisons for per in c["seeds"]]
    if told:
        out.print("\nPaired differences (accuracy in points, 95 %; exact McNemar):")
    for c, per in told[:SHOWN_COMPARISONS]:
        difference = per["accuracy"]["difference"]
        seed = "" if per.get("seed") is None else f", seed {per['seed']}"
        out.print(
            f"  {c['of']} - {c['over']} on {c['set']}{seed}: {with_interval(difference, signed=True)}, "
            f"{per['only_a']} gained, {per['only_b']} lost, {p_text(per['mcnemar_p'])}",
            soft_wrap=True,
        )
    if len(told) > SHOWN_COMPARISONS:
        out.print(f"  … and {len(told) - SHOWN_COMPARISONS} more in metrics.json")


def percent(value: float | None, digits: int = 2) -> str:
    """`71.68`; a dash for what could not be measured."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def with_interval(interval: Mapping[str, Any], signed: bool = False) -> str:
    """`71.68 (66.1-76.9)` in percent."""
    value, low, high = interval["value"], interval["low"], interval["high"]
    if value is None:
        return "-"
    sign = "+" if signed else ""
    told = f"{100 * value:{sign}.2f}"
    return told if low is None else f"{told} ({100 * low:{sign}.1f} to {100 * high:{sign}.1f})"


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def p_text(p: float | None) -> str:
    """`p = 0.0312`, `p < 0.0001`."""
    return "p unknown" if p is None else "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}"


def json_campaign(folder: Path, code: int) -> dict[str, Any]:
    """The one object of `--json`."""
    from specvet.evaluation.folder import SUMMARY, open_campaign

    summary = open_campaign(folder).summary() if (folder / SUMMARY).is_file() else None
    return {"campaign": str(folder), "exit_code": code, "summary": summary}
