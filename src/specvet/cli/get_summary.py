"""What `specvet get` would ask for, and what came of it, for people and for programs."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.cli.console import console

if TYPE_CHECKING:
    from specvet.catalogue.getting import Asks, Outcome

NONE_GOT, SOME_MISSING = 1, 3
"""Exit codes."""
SHOWN = 5


def plan_json(asks: Asks, base: str) -> dict[str, Any]:
    """What would be asked for."""
    return {
        "service": base,
        "spectra": len(asks.asks),
        "files": len(_addresses(asks, base)),
        "duplicates": asks.duplicates,
        "addresses": _addresses(asks, base),
        "problems": [{"asked": written, "problem": problem} for written, problem in asks.problems],
    }


def print_plan(asks: Asks, base: str, out: Path) -> None:
    """Addresses on stdout, then how many."""
    addresses = _addresses(asks, base)
    for address in addresses:
        print(address)
    shown = console()
    spectra, files = _counted(len(asks.asks), "spectrum", "spectra"), _counted(len(addresses), "file", "files")
    shown.print(f"{spectra} in {files} would go to {out}{_aside(asks)}", soft_wrap=True)
    _print_problems([(written, problem) for written, problem in asks.problems])


def _addresses(asks: Asks, base: str) -> list[str]:
    """The likeliest address of each file; of SPARCL, where the questions go."""
    if any(not ask.paths for ask in asks.asks):
        return [f"{base}/api/find/", f"{base}/api/spectras/"]
    every = dict.fromkeys(path for ask in asks.asks for path in (*ask.paths[:1], *ask.beside))
    return [f"{base}/{path}" for path in every]


def as_json(asks: Asks, outcome: Outcome, out: Path) -> dict[str, Any]:
    """What came of it."""
    missing = [got for got in outcome.found if not got.there]
    return {
        "out": str(out),
        "list": str(out / "get.csv"),
        "asked": len(asks.asks),
        "there": outcome.there,
        "files_fetched": outcome.fetched,
        "bytes": outcome.bytes,
        "duplicates": asks.duplicates,
        "missing": dict(Counter(got.kind for got in missing)),
        "given_up": outcome.given_up,
        "problems": [{"asked": written, "kind": "not understood", "problem": text} for written, text in asks.problems]
        + [{"asked": got.asked, "kind": str(got.kind), "problem": got.problem} for got in missing],
    }


def print_summary(asks: Asks, outcome: Outcome, out: Path) -> None:
    """How many are there, how many are not and why, and what to type next."""
    shown = console()
    total = len(outcome.found)
    came = f"{_counted(outcome.fetched, 'file', 'files')} came, {outcome.bytes / 1e6:,.1f} MB"
    shown.print(f"{outcome.there:,} of {total:,} spectra are in {out} ({came}){_aside(asks)}", soft_wrap=True)
    if outcome.given_up:
        shown.print(f"The service was left alone: {outcome.given_up}", style="bold red", soft_wrap=True)
    missing = [got for got in outcome.found if not got.there]
    if missing:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in Counter(got.kind for got in missing).most_common())
        are = _counted(len(missing), "is", "are")
        shown.print(f"{are} not there ({kinds}); {out / 'get.csv'} says why", style="bold yellow", soft_wrap=True)
        _print_problems([(got.asked, got.problem) for got in missing])
    _print_problems(list(asks.problems))
    notes = [got for got in outcome.found if got.there and got.problem]
    _print_problems([(got.asked, got.problem) for got in notes])
    if outcome.there:
        shown.print(f"\nNext: specvet vet {shlex.quote(str(out / 'get.csv'))} --out RUN", soft_wrap=True)


def _counted(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _aside(asks: Asks) -> str:
    parts = []
    if asks.duplicates:
        parts.append(f"{asks.duplicates:,} asked for twice")
    if asks.problems:
        parts.append(f"{len(asks.problems):,} not understood")
    return f"; {', '.join(parts)}" if parts else ""


def _print_problems(problems: list[tuple[str, str]]) -> None:
    shown = console()
    for written, problem in problems[:SHOWN]:
        shown.print(f"  {written}: {problem}", style="dim", soft_wrap=True)
    if len(problems) > SHOWN:
        shown.print(f"  … and {len(problems) - SHOWN:,} more")
