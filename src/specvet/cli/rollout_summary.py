"""The table at the end of `specvet rollout`."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from specvet.cli.console import console
from specvet.cli.progress import duration, rate_text
from specvet.cli.rollout_progress import stops_text
from specvet.cli.summary import SHOWN_ERRORS
from specvet.cli.time_split import time_split, time_split_text

if TYPE_CHECKING:
    from rich.console import Console

    from specvet.records import RunFolder
    from specvet.vetting.watch import RolloutSummary

_ANSWERS = ("YES", "NO", "UNSURE", "NO_DATA", "FAILED")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a whole run holds."""

    counts: dict[str, dict[str, int]]
    """By task and answer."""
    stops: dict[str, int]
    sums: dict[str, int]
    """`specvet.records.receipt.Receipt.sums`, over all tasks."""
    usage: dict[str, float]
    unreadable: tuple[tuple[str, str], ...] = ()
    """(file, reason) of the first few."""

    @classmethod
    def of(cls, run: RunFolder) -> Kept:
        """Of a run that is closed, so that its receipt is complete."""
        receipt = run.receipt()
        errors = islice(run.decisions(answers=["ERROR"]), SHOWN_ERRORS)
        told = tuple((d.file, d.verdict.reason.removeprefix(f"{d.file}: ")) for d in errors)
        return cls(run.count(), _over_tasks(receipt.stops), _over_tasks(receipt.sums), receipt.usage, told)

    @property
    def errors(self) -> int:
        return sum(self.counts.get("*", {}).values())


def _over_tasks(numbers: dict[str, dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for of_task in numbers.values():
        for name, n in of_task.items():
            total[name] = total.get(name, 0) + n
    return total


def print_rollouts(folder: str, summary: RolloutSummary, kept: Kept) -> None:
    """Print what the run holds now, and what this session did."""
    from rich import box
    from rich.table import Table

    out = console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("task", style="bold")
    for word in _ANSWERS:
        table.add_column(word, justify="right")
    for task, answers in kept.counts.items():
        if task != "*":
            table.add_row(task, *(f"{answers.get(word, 0):,}" for word in _ANSWERS))
    out.print()
    out.print(table)
    if kept.stops:
        out.print(f"\nEnded: {stops_text(kept.stops)}.", soft_wrap=True)
    if kept.errors:
        _print_errors(out, kept)
    for line in _session(summary):
        out.print(line, soft_wrap=True)
    if kept.sums and kept.sums["trajectories"] > summary.recorded:
        for line in _sums(kept.sums):
            out.print(line, soft_wrap=True)
    if kept.usage:
        out.print(_usage(kept.usage), soft_wrap=True)
        if split := time_split_text(kept.usage):
            out.print(split, soft_wrap=True)
    out.print(f"\nThe run is in {folder}. Next:", soft_wrap=True)
    out.print(f"  specvet transcript {shlex.quote(folder)}", soft_wrap=True)


def _print_errors(out: Console, kept: Kept) -> None:
    from rich.text import Text

    out.print(f"{kept.errors:,} could not be read (ERROR); --retry-errors tries them again:", style="bold red")
    for file, reason in kept.unreadable:
        out.print(Text.assemble(f"  {file}: ", (reason, "dim")), soft_wrap=True)
    if (more := kept.errors - len(kept.unreadable)) > 0:
        out.print(f"  … and {more:,} more", soft_wrap=True)


def _sums(n: dict[str, int]) -> list[str]:
    """All sessions together."""
    malformed = {name.removeprefix("malformed."): k for name, k in n.items() if name.startswith("malformed.")}
    lines = [
        f"The whole run: {n['trajectories']:,} trajectories, {n['turns']:,} turns; {n.get('calls.made', 0):,} calls, "
        f"{n.get('calls.succeeded', 0):,} answered with a view, {n.get('calls.repeated', 0):,} repeated; "
        f"{n.get('tokens.sampled', 0):,} tokens sampled, {n.get('tokens.images', 0):,} of pictures."
    ]
    return lines + ([f"Malformed turns of the whole run: {stops_text(malformed)}."] if malformed else [])


def _session(s: RolloutSummary) -> list[str]:
    if not s.recorded:
        there = f": {s.skipped:,} trajectories were there from before" if s.skipped else ""
        return [f"\nNothing was made{there}."]
    first = f"\nThis session: {s.recorded:,} trajectories in {duration(s.seconds) if s.seconds >= 1 else 'under 1 s'}"
    if s.skipped:
        first += f", {s.skipped:,} were there from before"
    calls = s.calls
    lines = [
        f"{first}.",
        f"{s.turns:,} turns; {calls.get('made', 0):,} calls, {calls.get('succeeded', 0):,} answered with a view, "
        f"{calls.get('repeated', 0):,} repeated"
        + (f", {calls['unknown_tool']:,} of unknown tools" if calls.get("unknown_tool") else "")
        + ("" if (share := zero_call_share(s)) is None else f"; {share:.0%} of trajectories made none")
        + ".",
    ]
    if s.malformed:
        lines.append(f"Malformed turns: {stops_text(s.malformed)}.")
    if s.tokens:
        t = s.tokens
        rate = f" ({rate_text(t['sampled'] / s.seconds)} a second)" if s.seconds > 0 else ""
        lines.append(
            f"{t['sampled']:,} tokens sampled{rate}, {t['images']:,} of pictures, {t['total']:,} in all ledgers"
            + (f"; {t['looping']:,} turns looped" if t["looping"] else "")
            + "."
        )
    if s.reward is not None:
        lines.append(f"Mean reward {s.reward:.3f} of {s.rewarded:,}.")
    return lines


def _usage(usage: dict[str, float]) -> str:
    ratio = prefill_ratio(usage)

    def of(name: str) -> float:
        return usage.get(name, 0.0) - usage.get(f"probes.{name}", 0.0)

    told = f"The policy, in the whole run: {of('prompt_tokens'):,.0f} tokens in prompts"
    if of("prefilled_tokens"):
        told += f", {of('prefilled_tokens'):,.0f} prefilled"
    if ratio is not None:
        told += f" ({ratio:.3f} of the least possible)"
    told += f", {of('sampled_tokens'):,.0f} sampled, {of('requests'):,.0f} requests"
    in_probes = sum(usage.get(f"probes.{name}", 0.0) for name in ("prompt_tokens", "sampled_tokens"))
    if in_probes:
        told += f" + {in_probes:,.0f} tokens in probes"
    if usage.get("cost"):
        told += f", {usage['cost']:.2f} US dollars"
    return f"{told}."


def json_rollouts(folder: str, summary: RolloutSummary, kept: Kept, policy: str, code: int) -> dict[str, Any]:
    """The one object of `--json`."""
    return {
        "run": folder,
        "policy": policy,
        "answers": {task: answers for task, answers in kept.counts.items() if task != "*"},
        "errors": kept.errors,
        "stops": kept.stops,
        "sums": kept.sums,
        "usage": kept.usage,
        "prefill_ratio": prefill_ratio(kept.usage),
        "time": time_split(kept.usage),
        "this_session": asdict(summary) | {"zero_call_share": zero_call_share(summary)},
        "interrupted": summary.interrupted,
        "exit_code": code,
    }


def prefill_ratio(usage: dict[str, float]) -> float | None:
    """Prefilled tokens over those that had to be prefilled at the least, probes left out; None where nobody counts."""

    def of_rollouts(name: str) -> float:
        return usage.get(name, 0.0) - usage.get(f"probes.{name}", 0.0)

    unique = of_rollouts("unique_tokens")
    return round(of_rollouts("prefilled_tokens") / unique, 4) if unique > 0 else None


def zero_call_share(summary: RolloutSummary) -> float | None:
    """Share of the trajectories that never called the tool, of those whose policy was asked."""
    return round(summary.without_calls / summary.asked, 4) if summary.asked else None
