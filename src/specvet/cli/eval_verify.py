"""`specvet eval verify`: whether a campaign's results hold, without a model."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from specvet.cli.console import console, print_json
from specvet.cli.failure import DONE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.evaluation.verify import Check, Verified

_INPUTS = ("try", "skip", "require")


def verify(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Campaign folder: the --out of eval run.")],
    *,
    inputs: Annotated[
        str,
        typer.Option(
            "--inputs",
            metavar="try|skip|require",
            help="Spectra and pictures: as far as they are here, not at all, or as a must.",
        ),
    ] = "try",
    manifest: Annotated[
        str | None,
        typer.Option("--manifest", metavar="SHA256", help="Of manifest.json, as it was published elsewhere."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress, and only what failed.")] = False,
) -> int:
    """Check results as a sceptic would: no model is asked, and nothing is believed that can be made again.

    Files are held against their hashes, every question against its one row, every trajectory against itself (tokens,
    texts, what they parse to, counts, reward), receipts and settings against the rows; all numbers are made again from
    the raw trajectories. Where the spectra are here, or can be made from their seed, every observation is made again
    and every picture drawn again. What is not here is told and fails nothing.

    \b
    Exit codes:
      0    all that could be checked holds
      1    something does not; the message says where
      2    the folder holds no campaign
    """
    from specvet.cli.data_progress import shown_steps
    from specvet.data.errors import InputError
    from specvet.evaluation.folder import open_campaign
    from specvet.evaluation.verify import Wanted
    from specvet.evaluation.verify import verify as look

    if inputs not in _INPUTS:
        raise CommandError(f"--inputs {inputs}: give one of {', '.join(_INPUTS)}", USAGE)
    with failing(USAGE, InputError):
        opened = open_campaign(Path(folder))
    with shown_steps(quiet or json) as progress:
        found = look(opened, inputs=cast(Wanted, inputs), progress=progress)
    expected = _expected(manifest, found)
    if json:
        print_json(as_json(folder, found, expected))
    else:
        print_verified(folder, found, expected, quiet)
    return DONE if found.ok and not expected else NOTHING_VETTED


def _expected(wanted: str | None, found: Verified) -> str:
    """What is wrong with the manifest as a whole; empty where it is the published one, or none was named."""
    if wanted is None or (len(wanted) >= 8 and found.manifest.startswith(wanted.lower())):
        return ""
    if len(wanted) < 8:
        raise CommandError(f"--manifest {wanted}: give at least 8 digits of the SHA-256", USAGE)
    return f"manifest.json has the SHA-256 {found.manifest or 'of nothing'}, and {wanted} was expected"


def as_json(folder: str, found: Verified, expected: str = "") -> dict[str, Any]:
    """The one object of `--json`."""
    return {
        "campaign": folder,
        "ok": found.ok and not expected,
        "manifest": found.manifest,
        "expected": expected,
        "checks": [asdict(check) for check in found.checks],
    }


def print_verified(folder: str, found: Verified, expected: str = "", quiet: bool = False) -> None:
    """What held by name, then all that did not, each with its place."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    if not quiet:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("checked", style="bold")
        for column in ("ok", "failed", "not here", "not checked"):
            table.add_column(column, justify="right")
        for name, counts in _by_name(found).items():
            table.add_row(name, *(f"{n:,}" if n else "-" for n in counts))
        out.print()
        out.print(table)
    told: tuple[tuple[Literal["not present", "not checked"], str], ...] = (
        ("not present", "Not here"),
        ("not checked", "Not checked"),
    )
    for state, head in told:
        for check in () if quiet else found.of(state):
            out.print(Text.assemble((f"{head}: ", "yellow"), _line(check)), soft_wrap=True)
    for check in found.of("failed"):
        out.print(Text.assemble(("FAILED ", "bold red"), _line(check)), soft_wrap=True)
    if expected:
        out.print(Text.assemble(("FAILED ", "bold red"), expected), soft_wrap=True)
    if quiet:
        return
    n = len(found.of("failed")) + bool(expected)
    if n:
        out.print(f"\n{folder} does not hold: {n:,} checks failed.", soft_wrap=True)
    else:
        left = len(found.of("not present")) + len(found.of("not checked"))
        rest = f"; {left:,} could not be made" if left else ""
        out.print(f"\n{folder} holds: {len(found.of('ok')):,} checks{rest}.", soft_wrap=True)
    if found.manifest:
        out.print(f"Its manifest has the SHA-256 {found.manifest}", soft_wrap=True)
    sys.stdout.flush()


def _by_name(found: Verified) -> dict[str, list[int]]:
    states = ("ok", "failed", "not present", "not checked")
    table: dict[str, list[int]] = {}
    for check in found.checks:
        table.setdefault(check.name, [0] * len(states))[states.index(check.state)] += 1
    return table


def _line(check: Check) -> str:
    return f"{check.name}{f', {check.where}' if check.where else ''}: {check.detail}"
