"""The table at the end of `specvet rollout`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from specvet.cli.console import console
from specvet.cli.progress import duration, rate_text
from specvet.cli.rollout import prefill_ratio, zero_call_share
from specvet.cli.rollout_progress import stops_text

if TYPE_CHECKING:
    from specvet.vetting.watch import RolloutSummary

_ANSWERS = ("YES", "NO", "UNSURE", "NO_DATA", "FAILED")


def print_rollouts(
    folder: str,
    summary: RolloutSummary,
    counts: dict[str, dict[str, int]],
    stops: dict[str, int],
    usage: dict[str, float],
) -> None:
    """Print what the run holds now, and what this session did."""
    from rich import box
    from rich.table import Table

    out = console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("task", style="bold")
    for word in _ANSWERS:
        table.add_column(word, justify="right")
    for task, answers in counts.items():
        if task != "*":
            table.add_row(task, *(f"{answers.get(word, 0):,}" for word in _ANSWERS))
    out.print()
    out.print(table)
    if stops:
        out.print(f"\nEnded: {stops_text(stops)}.", soft_wrap=True)
    if unreadable := sum(counts.get("*", {}).values()):
        out.print(f"{unreadable:,} could not be read (ERROR).", style="bold red")
    for line in _session(summary):
        out.print(line, soft_wrap=True)
    if usage:
        out.print(_usage(usage), soft_wrap=True)
    out.print(f"\nThe run is in {folder}. Next:", soft_wrap=True)
    out.print(f"  specvet transcript {shlex.quote(folder)}", soft_wrap=True)


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
    told = f"The whole run: {usage.get('prompt_tokens', 0):,.0f} tokens in prompts"
    if usage.get("prefilled_tokens"):
        told += f", {usage['prefilled_tokens']:,.0f} prefilled"
    if ratio is not None:
        told += f" ({ratio:.3f} of the least possible)"
    told += f", {usage.get('sampled_tokens', 0):,.0f} sampled, {usage.get('requests', 0):,.0f} requests"
    if usage.get("cost"):
        told += f", {usage['cost']:.2f} US dollars"
    return f"{told}."
