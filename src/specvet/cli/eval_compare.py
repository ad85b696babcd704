"""`specvet eval compare`: two cells on the same questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json
from specvet.cli.failure import CANNOT_WRITE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specvet.evaluation.cells import Cell
    from specvet.evaluation.compare import Meeting, Pair, Side

SHOWN = 12
"""Questions of each kind in the terminal."""


def compare(
    first: Annotated[
        str,
        typer.Argument(metavar="A|CAMPAIGN", help="A cell (a folder in cells/ of a campaign), or a campaign folder."),
    ],
    second: Annotated[str | None, typer.Argument(metavar="[B]", help="Another cell.")] = None,
    *,
    of: Annotated[str | None, typer.Option("--of", metavar="SLUG", help="Of a campaign: this policy …")] = None,
    over: Annotated[str | None, typer.Option("--over", metavar="SLUG", help="… and this one.")] = None,
    asked: Annotated[
        str | None, typer.Option("--set", metavar="SLUG", help="On this set, where it has several.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="With this seed, where there are several.")
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option("--rule", help="How answers are read: strict, lenient, …; by default as it was measured."),
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write one page with the trajectories side by side.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="Of each kind, N in full on the page; 0 for all.")
    ] = 20,
    spectra: Annotated[
        list[str] | None,
        typer.Option(
            "--spectra", metavar="FOLDER", help="Where the question file lies, for pictures; may be repeated."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object with all flipped questions.")] = False,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Show the page in the browser.")] = False,
) -> None:
    """Show which questions flipped between two cells, both ways.

    \b
      specvet eval compare E --of rl --over sft --html flips.html
      specvet eval compare E/cells/rl--val--s42--1a2b3c4d F/cells/rl--val--s42--5e6f7a8b

    The worst come first: answers that are wrong and certain, then wrong ones without a probability, then questions
    without an answer. On the page both trajectories stand side by side. Pictures that the campaign did not keep are
    drawn again, if the spectra are where its sets say, or below --spectra; else the page says what is missing.
    """
    from specvet.chat import LedgerError
    from specvet.data.errors import InputError
    from specvet.evaluation.compare import meet
    from specvet.evaluation.rules import UnknownRuleError
    from specvet.evaluation.rules import rule as rule_of

    if html is not None and json:
        raise CommandError("--html and --json are two different outputs; choose one", USAGE)
    with failing(USAGE, InputError, OSError, ValueError):
        a, b = _cells(first, second, of, over, asked, seed)
    with failing(USAGE, UnknownRuleError):
        chosen = _rule(a, b) if rule is None else rule_of(rule).name
    with failing(NOTHING_VETTED, LedgerError, OSError, ValueError, KeyError):
        meeting = meet(a, b, chosen)
    if json:
        print_json(_json(meeting))
        return
    if html is None:
        _print(meeting)
        return
    _write(meeting, html, limit, spectra or [])
    if open_page:
        typer.launch(html)


def _write(meeting: Meeting, html: str, limit: int, spectra: Sequence[str]) -> None:
    from pathlib import Path

    from specvet.chat import LedgerError
    from specvet.cli.console import say
    from specvet.cli.data_progress import shown_steps
    from specvet.evaluation.compare import page
    from specvet.records import write_atomic

    for folder in spectra:
        if not Path(folder).is_dir():
            raise CommandError(f"--spectra {folder}: no such folder", USAGE)
    with failing(NOTHING_VETTED, LedgerError, OSError, ValueError, KeyError), shown_steps(False) as tell:
        text = page(
            meeting,
            limit=limit or None,
            spectra=[Path(folder) for folder in spectra],
            progress=lambda done, total: tell("questions", done, total),
        )
    with failing(CANNOT_WRITE, OSError):
        Path(html).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(html, text.encode("utf-8", "replace"))
    left = sum(max(0, len(meeting.of(side)) - limit) for side in ("only_a", "only_b", "neither")) if limit else 0
    if left:
        say(f"{left:,} questions are listed without their trajectories; --limit 0 tells all in full")
    print(html)


def _cells(
    first: str, second: str | None, of: str | None, over: str | None, asked: str | None, seed: int | None
) -> tuple[Cell, Cell]:
    """The two that are meant. Raises CommandError, InputError, OSError, ValueError."""
    from pathlib import Path

    from specvet.evaluation.folder import CAMPAIGN

    if second is not None:
        if of or over or asked or seed is not None:
            raise CommandError("two cells need no --of, --over, --set or --seed; those choose from a campaign", USAGE)
        return _cell(first), _cell(second)
    if not (Path(first) / CAMPAIGN).is_file():
        raise CommandError(f"{first}: is no campaign folder; give one with --of and --over, or two cells", USAGE)
    return _of_campaign(first, of, over, asked, seed)


def _cell(path: str) -> Cell:
    from pathlib import Path

    from specvet.evaluation.folder import CAMPAIGN, open_campaign

    place = Path(path).resolve()
    if place.parent.name != "cells" or not (place.parents[1] / CAMPAIGN).is_file():
        raise CommandError(f"{path}: is no cell; they lie in cells/ of a campaign folder", USAGE)
    found = next((cell for cell in open_campaign(place.parents[1]).cells if cell.name == place.name), None)
    if found is None:
        raise CommandError(f"{path}: is not complete; `specvet eval run` goes on with it", USAGE)
    return found


def _of_campaign(path: str, of: str | None, over: str | None, asked: str | None, seed: int | None) -> tuple[Cell, Cell]:
    from specvet.evaluation.folder import open_campaign

    folder = open_campaign(path)
    cells = folder.current()
    known = list(dict.fromkeys(cell.record.policy for cell in cells))
    if of is None or over is None:
        raise CommandError(f"say who with --of and --over; {path} has {', '.join(known) or 'no complete cell'}", USAGE)
    for option, slug in (("--of", of), ("--over", over)):
        if slug not in known:
            raise CommandError(f"{option} {slug}: has no complete cell in {path}; known are {', '.join(known)}", USAGE)
    here = {slug: {c.record.set for c in cells if c.record.policy == slug} for slug in (of, over)}
    sets = [name for name in folder.sets if name in here[of] & here[over]]
    name = _chosen("--set", asked, sets, f"{of} and {over} were both asked")
    seeds = {
        slug: {c.record.seed: c for c in cells if (c.record.policy, c.record.set) == (slug, name)}
        for slug in (of, over)
    }
    # One that measures has a single cell, which stands beside any seed of the other.
    sown = [set(found) for found in seeds.values() if None not in found]
    shared = sorted(s for s in set.intersection(*sown) if s is not None) if sown else []
    if not sown and seed is None:
        return seeds[of][None], seeds[over][None]
    wanted = _chosen("--seed", seed, shared, f"both have on {name}")
    a, b = (found[None] if None in found else found[wanted] for found in seeds.values())
    return a, b


def _chosen(option: str, given: Any, known: list[Any], whose: str) -> Any:
    told = ", ".join(map(str, known)) or "none"
    if given is not None and given not in known:
        raise CommandError(f"{option} {given}: is none that {whose}: {told}", USAGE)
    if given is None and len(known) != 1:
        raise CommandError(f"choose with {option} from what {whose}: {told}", USAGE)
    return known[0] if given is None else given


def _rule(a: Cell, b: Cell) -> str:
    if a.record.rule != b.record.rule:
        raise CommandError(
            f"{a.name} was measured by {a.record.rule}, {b.name} by {b.record.rule}: choose --rule", USAGE
        )
    return a.record.rule


def _print(meeting: Meeting) -> None:
    from rich import box
    from rich.table import Table

    from specvet.evaluation.compare.meeting import SIDES
    from specvet.evaluation.compare.words import numbers_lines, side_name
    from specvet.vetting.transcript.safe import one_line

    out = console()
    for line in numbers_lines(meeting):
        out.print(line, soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("task", style="bold")
    for column in ("both right", *(side_name(side, meeting.names) for side in SIDES)):
        table.add_column(column, justify="right")
    for task, counts in meeting.by_task.items():
        table.add_row(one_line(task), *(f"{counts[name]:,}" for name in ("both", *SIDES)))
    out.print()
    out.print(table)
    for side in SIDES:
        _print_side(out, meeting, side)


def _print_side(out: Any, meeting: Meeting, side: Side) -> None:
    from rich import box
    from rich.table import Table

    from specvet.evaluation.compare.told import certain_words
    from specvet.evaluation.compare.words import side_name
    from specvet.vetting.transcript.safe import one_line

    pairs = meeting.of(side)
    out.print(f"\n{side_name(side, meeting.names)}: {len(pairs):,}", style="bold", soft_wrap=True)
    if not pairs:
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("question", "task", "truth", "object", *map(one_line, meeting.names)):
        table.add_column(column)
    for pair in pairs[:SHOWN]:
        what = " ".join(filter(None, (pair.a.kind, pair.a.subtype)))
        said = [f"{o.verdict} {certain_words(o)}".strip() for o in (pair.a, pair.b)]
        table.add_row(*map(one_line, (pair.a.id, pair.a.task, pair.a.truth, what)), *said)
    out.print(table)
    if len(pairs) > SHOWN:
        out.print(f"… and {len(pairs) - SHOWN:,} more: --html shows them, --json lists them", soft_wrap=True)


def _json(meeting: Meeting) -> dict[str, Any]:
    from specvet.evaluation.compare.meeting import SIDES

    def told(pair: Pair) -> dict[str, Any]:
        sides = {
            name: {"said": o.said, "verdict": o.verdict, "p_yes": o.p_yes, "stop": o.stop}
            for name, o in (("a", pair.a), ("b", pair.b))
        }
        return {"id": pair.a.id, "task": pair.a.task, "truth": pair.a.truth, "kind": pair.a.kind, **sides}

    a, b = meeting.names
    return {
        "a": {"name": a, "cell": str(meeting.a.path)},
        "b": {"name": b, "cell": str(meeting.b.path)},
        "rule": meeting.rule,
        "numbers": {key: value for key, value in meeting.numbers.items() if key != "flipped"},
        "by_task": meeting.by_task,
        **{side: [told(pair) for pair in meeting.of(side)] for side in SIDES},
    }
