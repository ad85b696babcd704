"""The page as a whole: what order, what counts, and how it is written without holding it in memory.

Two passes over the decisions: the first counts and orders, the second tells each spectrum's story into a spool file as
soon as its last decision has come. Then head, stories in order and foot are written, and the page takes its place at
once: a reader never meets half a page.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

from specvet import __version__
from specvet.records.decision import WHOLE_FILE, Decision
from specvet.records.schema import Answer
from specvet.spectra.spectrum import Spectrum
from specvet.tasks.task import Task
from specvet.vetting.report.matched import Matched
from specvet.vetting.report.story import RANK, Story, is_simulated, tell, urgency
from specvet.vetting.templates import page_part, page_template

_PACKAGE = "specvet.vetting.report"

Load = Callable[[str, int], Spectrum | None]
"""Reads the spectrum of (file, row) again; None or OSError or ValueError when that fails."""

Progress = Callable[[int, int], None]
"""Told (spectra done, spectra in all)."""

MAX_ERRORS = 1_000
"""Unreadable files that the page lists one by one; all are counted by reason."""

ANSWERS = tuple(a for a in RANK if a is not Answer.ERROR)

ORDER = (
    "Ordered by each spectrum's most urgent verdict: YES first, the most certain at the top and equal ones by their "
    "evidence; then UNSURE, the likeliest first; then FAILED and NO_DATA; then NO, the least certain first. "
    "Reasons for NO and NO_DATA are folded."
)


@dataclass(frozen=True, slots=True)
class About:
    """What the page says of the run."""

    name: str = "specvet report"
    provenance: tuple[tuple[str, str], ...] = ()
    """(key, value) for people: policy, versions, the receipt."""
    definitions: Mapping[str, Task] = field(default_factory=dict)
    """Tasks by key: for names, features and what may deceive."""
    task_hash: Callable[[Task], str] | None = None
    """To tell a definition that is no longer the one that the run used; None does not compare."""
    triage: Mapping[tuple[str, int, str], str] = field(default_factory=dict)
    """What triage said of (file, row, task), in words, where the run was sorted."""
    matched: Callable[[Sequence[Decision]], Matched] | None = None
    """What catalogues say of one spectrum, given its decisions, where the run was matched."""


@dataclass(slots=True)
class _Group:
    """One spectrum in the first pass."""

    urgency: tuple[int, float, float]
    n: int = 0
    chosen: bool = False


@dataclass(slots=True)
class _Tally:
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    groups: dict[tuple[str, int], _Group] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)


def render(
    out: Path,
    decisions: Iterable[Decision],
    load: Load,
    about: About = About(),
    *,
    overview: Iterable[Decision] | None = None,
    answers: Collection[str] | None = None,
    tasks: Collection[str] | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write the page about `decisions` to `out`, all at once, and return `out`.

    Args:
        out: the page; its folder must exist.
        decisions: with trajectories. Gone through once, and once more when there is no `overview`: no iterator then.
        load: reads a spectrum again, for its pictures.
        about: what to say of the run.
        overview: the same decisions in the same order, without trajectories: cheaper to count and order by.
        answers: show only spectra with one of these answers (with all their verdicts); None shows all.
        tasks: tell of these tasks only; None tells of all.
        limit: show only so many spectra, the most urgent; None shows all.
        progress: told after each spectrum.
        tell: told what `limit` leaves out and what has no pictures, in words, as the page says it too.

    Raises:
        ValueError: `decisions` is an iterator and there is no `overview`; an unknown answer; limit below 1.
        OSError: the page cannot be written; an older one stays as it was.
    """
    if overview is None and iter(decisions) is decisions:
        raise ValueError("decisions are read twice: give a list, or an object that can be iterated again")
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; give 1 or more, or None for all")
    wanted = None if answers is None else {Answer(a) for a in answers}
    tally = _count(decisions if overview is None else overview, wanted, None if tasks is None else set(tasks))
    order = sorted(
        (key for key, group in tally.groups.items() if group.chosen), key=lambda key: (tally.groups[key].urgency, key)
    )
    shown = {key: i for i, key in enumerate(order[:limit], start=1)}
    with tempfile.TemporaryFile(dir=out.parent) as spool:
        book = _Book(spool, about, tally, load=load, n=len(shown), progress=progress)
        waiting: dict[tuple[str, int], list[Decision]] = {}
        for decision in decisions if shown else ():
            key = (decision.file, decision.row)
            if key not in shown or _is_error(decision) or (tasks is not None and decision.task not in tasks):
                continue
            waiting.setdefault(key, []).append(decision)
            if len(waiting[key]) == tally.groups[key].n:
                book.add(shown[key], waiting.pop(key))
        for key, rest in waiting.items():  # a run that lost decisions between the passes
            book.add(shown[key], rest)
        notes = _notes(len(order), len(shown), len(tally.groups), wanted, tasks)
        _replace(out, book, notes)
    if tell is not None and len(shown) < len(order):
        tell(notes[-1])
    if tell is not None and book.n_missing:
        tell(
            f"{book.n_missing:,} of the spectra shown could not be read again, or have changed: they have no pictures. "
            "Relative paths start at the folder where the run was made"
        )
    return out


def _count(decisions: Iterable[Decision], wanted: set[Answer] | None, tasks: set[str] | None) -> _Tally:
    tally = _Tally()
    for decision in decisions:
        if _is_error(decision):
            reason = decision.verdict.reason.removeprefix(f"{decision.file}: ")
            tally.errors.append({"file": decision.file, "row": decision.row, "reason": reason})
            continue
        if tasks is not None and decision.task not in tasks:
            continue
        answer = decision.verdict.answer
        tally.counts.setdefault(decision.task, Counter())[answer.value] += 1
        key, own = (decision.file, decision.row), urgency([decision])
        group = tally.groups.setdefault(key, _Group(own))
        group.urgency = min(group.urgency, own)
        group.n += 1
        group.chosen |= wanted is None or answer in wanted
    return tally


def _is_error(decision: Decision) -> bool:
    return decision.task == WHOLE_FILE or decision.verdict.answer is Answer.ERROR


def _notes(
    n_chosen: int, n_shown: int, n_all: int, wanted: set[Answer] | None, tasks: Collection[str] | None
) -> list[str]:
    notes = []
    if tasks is not None:
        notes.append(f"Only these tasks are told of: {', '.join(tasks)}.")
    if wanted is not None:
        words = ", ".join(a.value for a in RANK if a in wanted)
        notes.append(f"Only spectra with one of these answers are shown: {words} ({n_chosen} of {n_all}).")
    if n_shown < n_chosen:
        notes.append(
            f"Only the first {n_shown:,} of {n_chosen:,} spectra are shown, the most urgent. More: specvet report "
            "--limit N (0 for all); others: --answer and --task; every row: specvet export."
        )
    return notes


class _Book:
    """Stories as they come, in a spool file, and what the head of the page will say of them."""

    def __init__(
        self, spool: IO[bytes], about: About, tally: _Tally, *, load: Load, n: int, progress: Progress | None
    ) -> None:
        self.about, self.tally = about, tally
        self.index: dict[int, dict[str, Any]] = {}
        self.policies: Counter[str] = Counter()
        self.started: list[str] = []
        self.hashes: dict[str, set[str]] = {}
        self.n_missing = self.n_simulated = 0
        self._spool, self._load, self._n, self._progress = spool, load, n, progress
        self._places: dict[int, tuple[int, int]] = {}
        self._template = page_template(_PACKAGE, "spectrum.html")

    def add(self, number: int, decisions: list[Decision]) -> None:
        """Tell the story of one spectrum."""
        spectrum, problem = None, "the file is not there any more"
        try:
            spectrum = self._load(decisions[0].file, decisions[0].row)
        except (OSError, ValueError) as e:
            problem = f"the file cannot be read again ({e})"
        story = tell(number, decisions, spectrum, problem, self.about.definitions)
        triage = {d.task: self.about.triage.get((d.file, d.row, d.task), "") for d in decisions}
        matched = self.about.matched(decisions) if self.about.matched else None
        text = self._template.render(story=story, triage=triage, matched=matched).encode("utf-8", "replace")
        self._places[number] = (self._spool.tell(), len(text))
        self._spool.write(text)
        self._remember(story, decisions)
        if self._progress:
            self._progress(len(self._places), self._n)

    def stories(self) -> Iterable[bytes]:
        """What was told, in the order of the page."""
        for number in sorted(self._places):
            place, length = self._places[number]
            self._spool.seek(place)
            yield self._spool.read(length)

    def _remember(self, story: Story, decisions: list[Decision]) -> None:
        first = story.first
        self.n_missing += bool(story.problem)
        self.n_simulated += story.simulated
        cells: dict[str, list[tuple[str, str]]] = {}
        for chapter in story.chapters:
            cells.setdefault(chapter.key, []).append((chapter.answer, chapter.confidence))
        self.index[story.number] = {
            "number": story.number,
            "id": first.id or "–",
            "file": first.file if first.row == 0 else f"{first.file} [{first.row}]",
            "snr": "" if first.snr is None else f"{first.snr:.{1 if first.snr < 100 else 0}f}",
            "simulated": story.simulated or is_simulated(first),
            "cells": cells,
        }
        for trajectory in (d.trajectory for d in decisions):
            if trajectory:
                self.policies[trajectory.policy] += 1
                self.hashes.setdefault(trajectory.question.task, set()).add(trajectory.task_hash)
                self.started = [f([*self.started, trajectory.started]) for f in (min, max)]


def _replace(out: Path, book: _Book, notes: list[str]) -> None:
    """Write the page beside `out`, then move it there."""
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(_head(book, notes))
            f.writelines(book.stories())
            foot = page_template(_PACKAGE, "foot.html").render(version=__version__, script=_part("script.js"))
            f.write(foot.encode())
            f.flush()
            os.fsync(f.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _head(book: _Book, notes: list[str]) -> bytes:
    about, tally = book.about, book.tally
    known = {key: i for i, key in enumerate(about.definitions)}
    keys = sorted(tally.counts, key=lambda key: (known.get(key, len(known)), key))
    own: list[tuple[str, str]] = []
    if book.policies:
        own.append(("policy", ", ".join(sorted(book.policies))))
    if book.started:
        own.append(("first and last question (UTC)", " – ".join(dict.fromkeys(book.started))))
    folder = _common_folder([line["file"] for line in book.index.values()])
    page = {
        "name": about.name,
        "n_spectra": len(tally.groups),
        "answers": [a.value for a in ANSWERS],
        "tasks": [_task(key, tally.counts[key], about, book.hashes.get(key, set())) for key in keys],
        "errors": tally.errors[:MAX_ERRORS],
        "n_errors": len(tally.errors),
        "error_groups": _error_groups(tally.errors),
        "n_simulated": book.n_simulated,
        "n_missing": book.n_missing,
        "notes": notes,
        "provenance": [*own, *about.provenance],
        "order": ORDER,
        "folder": folder,
        "index": [{**line, "file": line["file"].removeprefix(folder)} for _, line in sorted(book.index.items())],
    }
    script = _part("script.js")
    # The hash is of the element's whole text: the template puts a line break before and after.
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = page_template(_PACKAGE, "head.html").render(page=page, css=_part("style.css"), policy=policy)
    return bytes(head.encode("utf-8", "replace"))


def _common_folder(files: list[str]) -> str:
    """The folder that all files lie in, with its slash; empty when there is none to speak of."""
    if len(files) < 2:
        return ""
    first, last = min(files), max(files)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    folder = first[: first.rfind("/", 0, same) + 1]
    return folder if len(folder) > 1 else ""


def _task(key: str, counts: Counter[str], about: About, hashes: set[str]) -> dict[str, Any]:
    task = about.definitions.get(key)
    return {
        "key": key,
        "name": task.name if task else key,
        "question_name": f"{task.name} ({key})" if task else key,
        "definition": task,
        "changed": bool(task and about.task_hash and hashes and hashes != {about.task_hash(task)}),
        "counts": counts,
        "total": counts.total(),
    }


def _error_groups(errors: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """(kind of reason, how often), the most frequent first: without numbers, quotes and advice."""
    reasons: Counter[str] = Counter()
    for error in errors:
        kind = re.split(r"[;(]|: ", error["reason"], maxsplit=1)[0].strip()
        reasons[re.sub(r"'[^']*'|\b\d[\d.,:]*", "…", kind) or error["reason"]] += 1
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


@cache
def _part(name: str) -> Any:
    """A style sheet or script of ours, as it is."""
    from markupsafe import Markup

    return Markup(page_part(_PACKAGE, name))
