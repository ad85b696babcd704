"""A person's labels of spectra: what the rows of a table say, held together by spectrum and task.

    file,row,task,answer,reviewer,comment,time
    a.fits,0,cv,YES,wang,broad Hα,2026-03-01T10:00:00Z

or a column for each task, with the answers in them (the wide form):

    file,cv,wd
    a.fits,YES,NO

| column | what |
|---|---|
| file (path, …) | of the spectrum, as `specvet vet` reads lists |
| row | which target of the file, from 0; may be left out where it holds one |
| task | key, name or alias of a task, as people write it |
| answer | YES or NO; BORDERLINE, UNSURE and the like, or nothing, set the row aside |
| name | (optional) of the spectrum, its own for each |
| object_id | (optional) what must not be on both sides of a split |
| label_source, comment | (optional) kept |
| reviewer, time | (optional) who said so and when: a reviewer's last word counts, by time where both can be read |

Where several rows are about one spectrum and task, equal answers make one label. Others make none: they are listed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

YES = frozenset({"yes", "y", "true"})
NO = frozenset({"no", "n", "false"})
ASIDE = frozenset({
    "", "borderline", "unsure", "undecided", "unknown", "maybe", "?", "model", "no_data", "nodata", "failed", "error",
    "skip", "skipped", "nan", "null", "none", "--", "n/a", "na", "-",
})  # fmt: skip
"""Answers that decide nothing, in small letters; a review's own words and the nulls of tables."""

MAX_VOICES = 6
"""Of those who do not agree that are named."""

COLUMNS = ("task", "answer", "name", "object_id", "label_source", "comment", "reviewer", "time")
"""Those that mean something, beside the place of the spectrum."""

Kind = Literal[
    "unreadable", "no place", "unknown task", "no answer", "set aside", "contradiction", "name taken", "draft"
]
"""What became of a row or label that makes no question, or no draft."""


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One row of a table."""

    where: str
    """`labels.csv line 17`."""
    file: str
    row: int | None
    """Which target of the file; None where the table does not say."""
    answers: tuple[tuple[str, str], ...]
    """(task as written, answer as written): one, or one for each task column that holds anything."""
    problem: str = ""
    """Why the row has no place to read from; empty where it has."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Other columns of `COLUMNS`, where they hold anything."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was left out, with the reason; a line of `rejects.jsonl`."""

    kind: Kind
    where: str
    file: str
    row: int | None
    task: str
    answer: str
    reason: str

    def fields(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("kind", "where", "file", "row", "task", "answer", "reason")}


@dataclass(frozen=True, slots=True)
class Label:
    """An answer that stands: one spectrum, one task."""

    file: str
    row: int
    """Which target of the file; 0 where the table does not say."""
    row_given: bool
    """Whether it does."""
    task: str
    """Key of the task."""
    answer: Literal["YES", "NO"]
    where: str
    """The first row that says so."""
    name: str
    """Empty where the table gives none."""
    object_id: str
    label_source: str
    """`user` where the table says nothing."""

    def left(self, kind: Kind, reason: str) -> Left:
        """This label, left out."""
        return Left(kind, self.where, self.file, self.row, self.task, self.answer, reason)


@dataclass(slots=True)
class Agreed:
    """The labels of a table, and what was left out."""

    labels: list[Label] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    empty: int = 0
    """Cells without an answer: nobody was asked, so they are counted and not listed."""
    rows: tuple[LabelRow, ...] = ()
    """All that was said, to settle it anew once it is known how many targets the files hold."""
    tasks: Mapping[str, str] = field(default_factory=dict)

    def of_several(self, targets: Mapping[str, int]) -> Agreed:
        """The same, where `targets` tells which files (absolute paths) hold several: rows that do not say which of them
        they are about are listed, each."""
        return agreed(self.rows, self.tasks, targets) if targets else self

    def unplaced(self) -> set[str]:
        """Files that rows speak of without saying which target they mean, as those rows write them."""
        return {row.file for row in self.rows if row.row is None and not row.problem}


def agreed(rows: Iterable[LabelRow], tasks: Mapping[str, str], targets: Mapping[str, int] | None = None) -> Agreed:
    """What the rows say together. `tasks` gives the key of a task for each name as written; unknown ones it lacks.

    Labels stand in the order of their first rows. `targets`: see `Agreed.of_several`.
    """
    found = Agreed(rows=tuple(rows), tasks=tasks)
    said: dict[tuple[str, int, str], list[tuple[LabelRow, str, str]]] = {}
    paths: dict[str, str] = {}
    for row in found.rows:
        path = paths.get(row.file) or paths.setdefault(row.file, os.path.abspath(row.file))
        for task, answer in row.answers:
            if row.problem:
                found.left.append(Left("no place", row.where, row.file, row.row, task, answer, row.problem))
                continue
            key = tasks.get(task)
            if key is None:
                reason = f"there is no task {task!r}; give a built-in one, or its YAML with --tasks"
                found.left.append(Left("unknown task", row.where, row.file, row.row, task, answer, reason))
                continue
            word = _word(answer)
            if word is None:
                reason = f"{answer!r} is no answer; write YES, NO, or UNSURE for what cannot be told"
                found.left.append(Left("no answer", row.where, row.file, row.row, key, answer, reason))
            elif not answer.strip():
                found.empty += 1
            elif row.row is None and targets and path in targets:
                reason = f"the file holds {targets[path]} targets; say which in a column row"
                found.left.append(Left("unreadable", row.where, row.file, None, key, answer, reason))
            else:
                said.setdefault((path, row.row or 0, key), []).append((row, answer, word))
    for (_, row_number, task), entries in said.items():
        _settle(found, row_number, task, entries)
    return found


def _settle(found: Agreed, row: int, task: str, entries: Sequence[tuple[LabelRow, str, str]]) -> None:
    """One label of all that is said of one spectrum and task, or why there is none."""
    last: dict[str, tuple[LabelRow, str, str]] = {}
    for number, entry in enumerate(entries):
        who = " ".join(entry[0].more.get("reviewer", "").split()).casefold()
        # Without a reviewer each row speaks for itself.
        key = f"reviewer {who}" if who else f"row {number}"
        if key not in last or not is_before(entry[0].more.get("time", ""), last[key][0].more.get("time", "")):
            last[key] = entry
    words = {word for _, _, word in last.values()}
    first, answer, _ = next(iter(last.values()))
    file = first.file
    if len(words) > 1:
        voices = list(last.values())
        # Of each answer one voice, so that a long list shows the disagreement.
        one_each = list({word: i for i, (_, _, word) in reversed([*enumerate(voices)])}.values())
        shown = [voices[i] for i in sorted([*dict.fromkeys([*one_each, *range(len(voices))])][:MAX_VOICES])]
        told = ", ".join(f"{r.more.get('reviewer', '').strip() or r.where} says {a}" for r, a, _ in shown)
        told += f", and {len(voices) - len(shown):,} more" if len(voices) > len(shown) else ""
        reason = f"those who looked do not agree: {told}"
        found.left.append(Left("contradiction", first.where, file, row, task, "", reason))
        return
    word = words.pop()
    if word == "":
        found.left.append(Left("set aside", first.where, file, row, task, answer, f"{answer} decides nothing"))
        return
    given = any(r.row is not None for r, _, _ in entries)
    more: dict[str, str] = {}
    for entry_row, _, _ in last.values():
        more = {**entry_row.more, **more}
    found.labels.append(
        Label(
            file, row, given, task, "YES" if word == "YES" else "NO", first.where,
            more.get("name", ""), more.get("object_id", ""), more.get("label_source") or "user",
        )
    )  # fmt: skip


_TIME = re.compile(
    r"(?:(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ,]\s*|$))?"
    r"(?:(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6})\d*)?)?)?\s*(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE,
)


def is_before(time: str, other: str) -> bool:
    """Whether one time is plainly earlier than another; False where they cannot be compared.

    Times are dates with year first, with or without a time of day and a zone (none: UTC), or plain times of day. A date
    alone is neither before nor after a time on that day.
    """
    a, b = _instant(time), _instant(other)
    if a is None or b is None or a[0] != b[0]:
        return False
    both_timed = a[2] and b[2]
    return a[1] < b[1] if both_timed else a[1].date() < b[1].date()


def _instant(text: str) -> tuple[bool, datetime, bool] | None:
    """Whether there is a date, the time in UTC, and whether there is a time of day; None for what is no time."""
    m = _TIME.fullmatch(text.strip())
    if m is None or not (m[1] or m[4]):
        return None
    zone = UTC
    if m[8] and m[8][0] in "+-":
        hours, minutes = int(m[8][1:3]), int(m[8][3:].lstrip(":") or 0)
        sign = -1 if m[8][0] == "-" else 1
        if hours > 23 or minutes > 59:
            return None
        zone = timezone(sign * timedelta(hours=hours, minutes=minutes))
    day = [int(m[i]) for i in (1, 2, 3)] if m[1] else [2000, 1, 1]
    clock = [int(m[i] or 0) for i in (4, 5, 6)]
    try:
        at = datetime(*day, *clock, int((m[7] or "").ljust(6, "0")), tzinfo=zone).astimezone(UTC)  # type: ignore[misc, arg-type]
    except (ValueError, OverflowError):
        return None
    return bool(m[1]), at, bool(m[4])


def _word(answer: str) -> str | None:
    """`YES`, `NO`, nothing for what is set aside, None for what is no answer."""
    plain = answer.strip().casefold()
    return "YES" if plain in YES else "NO" if plain in NO else "" if plain in ASIDE else None
