"""`specvet transcript`: one trajectory of a run, in the terminal or as HTML, and a list of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.export import answer_words, task_keys
from specvet.cli.failure import CANNOT_WRITE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.records import Decision, RunFolder
    from specvet.tasks import Task
    from specvet.vetting.transcript.choosing import Wanted


def transcript(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet or rollout made.")],
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Which: its id, file, file name, or FILE#ROW.")
    ] = None,
    *,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Which: its place in the run, as --list says.")] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, metavar="K", help="Which of several samples, from 0.")
    ] = None,
    turn: Annotated[
        str | None, typer.Option("--turn", metavar="N", help="Only these turns: 2 or 0,3-5; 0 is the opening.")
    ] = None,
    color: Annotated[
        str, typer.Option("--color", metavar="role|weight|logprob", help="What the colour of a token says.")
    ] = "role",
    paper: Annotated[
        str, typer.Option("--paper", metavar="dark|light", help="What the terminal's background is, for log-probs.")
    ] = "dark",
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page instead.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The whole record as one JSON object.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The exact text, nothing else.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the trajectories of the run.")] = False,
    task: Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd.")] = None,
    answer: Annotated[str | None, typer.Option("--answer", help="Only these answers: YES,FAILED.")] = None,
    stop: Annotated[
        str | None, typer.Option("--stop", help="Only what stopped so: answered, max_turns, malformed, …")
    ] = None,
) -> None:
    """Show a trajectory: what was asked, seen, said and called, token by token.

    Text stands in its order with the pictures where they were seen. Every other token is underlined; tags that are one
    token are bold; line breaks show as ↵; whatever could act on your terminal or hide, and bytes that are no whole
    character, is spelt out (\\x1b, \\u202e). --color weight shows what a trainer learns from, --color logprob how
    surprising each sampled token was. The page of --html holds all three, with each token's log-prob in its title and
    the pictures themselves, drawn again from the spectra where the run did not keep them.

    Without ID or --n: the only trajectory that fits, else the list. --raw to a terminal spells out what could act on
    it; to a file or a pipe it writes every byte. A policy without tokens has words only, line-indices its recorded
    actions and observations.
    """
    if color not in ("role", "weight", "logprob"):
        raise CommandError(f"--color {color}: choose role, weight or logprob", USAGE)
    if paper not in ("dark", "light"):
        raise CommandError(f"--paper {paper}: choose dark or light", USAGE)
    if sum((json and not listed, raw, html is not None)) > 1 or (listed and (raw or html is not None)):
        raise CommandError("--html, --json, --raw and --list are four different outputs; choose one", USAGE)
    if n is not None and sample is not None:
        raise CommandError("--n names one trajectory already; leave --sample away", USAGE)
    if turn is not None and (json or raw or listed):
        raise CommandError("--turn picks what the terminal or --html shows; --json, --raw and --list give all", USAGE)
    turns = None if turn is None else _turns(turn)
    from specvet.records import RunError, RunFolder
    from specvet.vetting.transcript.choosing import Wanted, chosen

    with failing(USAGE, RunError):
        folder = RunFolder.read(run)
    try:
        wanted = Wanted(id, n, sample, task_keys(task, run), answer_words(answer), _stops(stop))
        found = chosen(folder, wanted)
        if listed:
            _list(found, json, run)
            return
        place, decision = _only(found, wanted, run, folder)
        if json:
            _json(decision.model_dump(mode="json") | {"n": place})
        elif raw:
            _raw(decision)
        else:
            _show(folder, place, decision, turns, color, paper, html)
    finally:
        folder.close()


def _show(
    run: RunFolder,
    n: int,
    decision: Decision,
    turns: Sequence[int] | None,
    color: str,
    paper: str,
    html: str | None,
) -> None:
    from specvet.chat import LedgerError
    from specvet.records import write_atomic
    from specvet.vetting.transcript import Gallery, page, print_transcript
    from specvet.vetting.transcript import transcript as told

    gallery = Gallery(run, decision)
    with failing(NOTHING_VETTED, LedgerError, ValueError):
        shown = told(n, decision, _definition(run, decision.task), turns, gallery.spectrum)
    if turns is not None and not shown.blocks:
        raise CommandError(f"--turn {','.join(map(str, turns))}: there is nothing to show. {shown.only}", USAGE)
    if html is None:
        print_transcript(console(), shown, gallery, color, dark=paper == "dark")  # type: ignore[arg-type]
        return
    text = page(shown, gallery, color)
    with failing(CANNOT_WRITE, OSError):
        write_atomic(html, text.encode("utf-8", "replace"))
    print(html)


def _only(found: Iterable[tuple[int, Decision]], wanted: Wanted, run: str, folder: RunFolder) -> tuple[int, Decision]:
    """The one that fits; a list of them and an error where there are none or several."""
    from specvet.vetting.transcript.safe import one_line

    several = list(_first(found, MAX_CHOICES + 1))
    if not several:
        from specvet.vetting.transcript.choosing import missing

        why = one_line(missing(folder, wanted))
        raise CommandError(f"{run}: {why}; specvet transcript {run} --list names them all", USAGE)
    if len(several) > 1:
        _table(several[:MAX_CHOICES])
        more = "" if len(several) <= MAX_CHOICES else " (the first of more)"
        raise CommandError(f"these fit{more}: choose one with --n N, or an ID with --task and --sample", USAGE)
    n, decision = several[0]
    if decision.trajectory is None:
        raise CommandError(
            one_line(f"{decision.file} row {decision.row}: there is no trajectory: {decision.verdict.reason}"),
            NOTHING_VETTED,
        )
    return n, decision


MAX_CHOICES = 30
"""How many are listed where several fit."""


def _first(found: Iterable[Any], n: int) -> Iterable[Any]:
    from itertools import islice

    return islice(found, n)


def _list(found: Iterable[tuple[int, Decision]], json: bool, run: str) -> None:
    from specvet.vetting.transcript.choosing import list_row

    if json:
        for n, decision in found:
            print_json(list_row(n, decision))
        return
    if not _table(found):
        say(f"{run}: no trajectory fits")


_COLUMNS = ("n", "id", "task", "sample", "stop", "answer", "turns", "tokens")
_WIDTHS = (6, 32, 6, 6, 14, 8, 5, 8)


def _table(found: Iterable[tuple[int, Decision]]) -> int:
    """Lines of fixed columns, printed as they come: a run may hold more than memory; how many."""
    from specvet.vetting.transcript.choosing import list_row
    from specvet.vetting.transcript.safe import one_line

    count = 0
    for count, (n, decision) in enumerate(found, start=1):
        if count == 1:
            print(_line(_COLUMNS))
        row = list_row(n, decision)
        row["id"] = row["id"] or os.path.basename(row["file"])
        values = ["" if row[c] is None else f"{row[c]:,}" if c == "tokens" else str(row[c]) for c in _COLUMNS]
        print(_line([one_line(v) for v in values]))
    return count


def _line(values: Sequence[str]) -> str:
    numbers = ("n", "sample", "turns", "tokens")
    cells = [v.rjust(w) if c in numbers else v.ljust(w) for c, v, w in zip(_COLUMNS, values, _WIDTHS, strict=True)]
    return "  ".join(cells).rstrip()


def _raw(decision: Decision) -> None:
    from specvet.chat import LedgerError
    from specvet.vetting.transcript.raw import raw_text
    from specvet.vetting.transcript.safe import plain

    assert decision.trajectory is not None
    with failing(NOTHING_VETTED, LedgerError):
        text = raw_text(decision.trajectory)
    if sys.stdout.isatty():
        print(plain(text))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _json(record: dict[str, Any]) -> None:
    """To a terminal in ASCII, since JSON leaves characters as they are that act on one."""
    if sys.stdout.isatty():
        import json

        print(json.dumps(record))
        return
    print_json(record)


def _definition(run: RunFolder, key: str) -> Task | None:
    """What was asked, as the run kept it."""
    from specvet.tasks import TaskError, load_task

    try:
        return load_task(run.path / "tasks" / f"{key}.yaml")
    except (TaskError, OSError):
        return None


def _turns(text: str) -> list[int]:
    """The turns in `0,2-4`."""
    turns: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})\s*(?:[-–]\s*(\d{1,4})\s*)?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise CommandError(f"--turn {text}: give turns such as 2 or 0,3-5", USAGE)
        turns.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(turns)


def _stops(text: str | None) -> list[str] | None:
    """Stop reasons in `max_turns,malformed`."""
    from specvet.records.schema import StopReason

    if text is None:
        return None
    words = [w.strip().lower() for w in text.split(",") if w.strip()]
    for word in words:
        if word not in list(StopReason):
            raise CommandError(f"--stop {word}: choose from {', '.join(StopReason)}", USAGE)
    return words
