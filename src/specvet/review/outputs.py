"""What leaves a review: a table of what people decided, in every format of `specvet export`, and labels to train on.

A row is one spectrum and task with at least one vote. Of a run it is the row that `specvet export` writes, triage's
columns among it, with what the votes amount to beside it; of a list it is what the list and the files said.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from specvet import __version__
from specvet.agent import task_hash
from specvet.records import Decision, RunFolder
from specvet.records.tables import Column, Fact, Sheet
from specvet.review.desk import Desk
from specvet.review.events import Event
from specvet.review.listing import Listing
from specvet.review.merging import Merged, merged
from specvet.vetting.columns import COLUMNS, verdict_sheet
from specvet.vetting.export import Format, row_maker, table_kind, write_rows
from specvet.vetting.origin import DIGITS

REVIEW_COLUMNS = (
    Column("decision", str, "what people decided: YES, NO or UNSURE; none while they disagree", ucd="meta.code.class"),
    Column("standing", str, "single, agreed, conflict, or settled by a third look", ucd="meta.code"),
    Column("n_votes", int, "people who decided", ucd="meta.number"),
    Column("reviewers", str, "their names", ucd="meta.id"),
    Column("votes", str, "what each of them decided", ucd="meta.note"),
    Column("quality", float, "mean quality, 0 (no signal) to 4 (two secure features)", ucd="meta.code.qual"),
    Column("review_class", str, "the likelier class that people named", ucd="src.class"),
    Column("review_z", float, "redshift that people set", "", "src.redshift"),
    Column("issues", str, "letters of R (redshift), C (class) and S (spectrum)", ucd="meta.code"),
    Column("flagged", int, "1 where somebody flagged it", ucd="meta.code"),
    Column("comment", str, "what people wrote", ucd="meta.note"),
    Column("reviewed", str, "UTC, of the last vote", ucd="time.processing"),
)
"""Behind the columns of a run or a list."""

LIST_COLUMNS = tuple(
    COLUMNS[name] for name in ("file", "row", "id", "task", "survey", "snr", "ra", "dec", "pipeline_class", "task_hash")
)

LABEL_COLUMNS = (
    Column("file", str, "spectrum file"),
    Column("row", int, "which target of the file, counted from 0"),
    Column("task", str, "key of the question"),
    Column("answer", str, "YES, NO, or UNSURE, which sets the row aside"),
    Column("label_source", str, "who decided"),
    Column("comment", str, "what people wrote"),
    Column("time", str, "UTC, of the last vote"),
)
"""As `specvet data label-list` reads them."""

Told = Callable[[str], None]


def export_reviewed(
    desk: Desk,
    out: str | os.PathLike[str],
    format: Format | None = None,
    *,
    tasks: Collection[str] | None = None,
    answers: Collection[str] | None = None,
    decisions: Collection[str] | None = None,
    tell: Told | None = None,
) -> int:
    """Write what people decided to `out`, and return how many rows.

    `tasks` keeps only those, `answers` only these answers of the agent, `decisions` only these of people (`YES`: the
    accepted ones). The rest is as `specvet.vetting.export.export` does it, whose errors are raised.
    """
    kind = table_kind(out, format)
    listing = desk.listing
    found = {
        task.key: desk.voted(task.key) for task in listing.tasks if tasks is None or task.key in tasks
    }  # task → item → reviewer → vote
    wanted = None if decisions is None else set(decisions)
    rows: Iterator[dict[str, Any]]
    if listing.run is None:
        rows = _list_rows(listing, found)
        sheet = Sheet(
            "REVIEW", f"decisions of people on {listing.title}", (*LIST_COLUMNS, *REVIEW_COLUMNS), _facts(desk)
        )
        return write_rows(_kept(rows, wanted), out, kind, sheet, tell=tell)
    run = RunFolder.read(listing.run)
    try:
        make, sorted_by_triage = row_maker(run)
        base = verdict_sheet(run, tasks, answers, triage=sorted_by_triage)
        nothing = dict.fromkeys(column.name for column in base.columns)
        rows = _run_rows(run, listing, found, answers, make, nothing)
        says = f"decisions of people on the specvet run {run.path.resolve().name}: one row a spectrum and task"
        sheet = Sheet("REVIEW", says, (*base.columns, *REVIEW_COLUMNS), (*base.facts, *_facts(desk, wanted)))
        return write_rows(_kept(rows, wanted), out, kind, sheet, tell=tell)
    finally:
        run.close()


def export_labels(
    desk: Desk, out: str | os.PathLike[str], format: Format | None = None, *, tasks: Collection[str] | None = None
) -> int:
    """Write what people decided as a table for `specvet data label-list`, and return how many rows.

    Each row is what the votes on one spectrum and task amount to; where people are in conflict, UNSURE, which the label
    list sets aside. Files are absolute paths, so that the table works wherever it lies.
    """
    kind = table_kind(out, format)
    sheet = Sheet("LABELS", f"labels by people on {desk.listing.title}", LABEL_COLUMNS, _facts(desk))
    return write_rows(_labels(desk, tasks), out, kind, sheet)


def review_cells(votes: Collection[Event]) -> dict[str, Any]:
    """The cells of `REVIEW_COLUMNS` for the current votes on one spectrum and task, at least one."""
    found = merged(list(votes))
    return {
        "decision": found.verdict,
        "standing": str(found.standing),
        "n_votes": found.n,
        "reviewers": ", ".join(found.reviewers),
        "votes": "; ".join(_vote(v) for v in votes),
        "quality": _grade(found.quality),
        "review_class": found.likelier,
        "review_z": found.z,
        "issues": found.issues or None,
        "flagged": int(found.flagged),
        "comment": found.comment or None,
        "reviewed": max(v.at for v in votes),
    }


def _grade(mean: float | None) -> float | int | None:
    """A quality as people give it, `2`; a mean that lies between two stays one, `3.5`."""
    return int(mean) if mean is not None and mean.is_integer() else mean


def _vote(vote: Event) -> str:
    quality = "" if vote.quality is None else f" ({vote.quality})"
    return f"{vote.reviewer} {vote.verdict}{quality}{', third look' if vote.third else ''}"


_Found = dict[str, dict[str, dict[str, Event]]]


def _kept(rows: Iterator[dict[str, Any]], wanted: set[str] | None) -> Iterator[dict[str, Any]]:
    return rows if wanted is None else (row for row in rows if row["decision"] in wanted)


def _run_rows(
    run: RunFolder,
    listing: Listing,
    found: _Found,
    answers: Collection[str] | None,
    make: Callable[[Decision], dict[str, Any]],
    nothing: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """In the order of the run; of several samples of one question the first, as the page shows it.

    Behind them stand votes on what the run gives no answer to, their other cells as in `nothing`.
    """
    items = {(file, row): item for file, row, item in zip(listing.files, listing.rows, listing.items, strict=True)}
    seen: set[tuple[str, str]] = set()
    for decision in run.decisions(tasks=list(found), answers=answers, with_trajectories=True):
        item = items.get((decision.file, decision.row))
        votes = found[decision.task].get(item or "")
        if item is None or not votes or (item, decision.task) in seen:
            continue
        seen.add((item, decision.task))
        yield make(decision) | review_cells(votes.values())
    if answers is None:  # files that could not be read, and tasks that the run has not come to yet
        rest = {t: {i: v for i, v in by_item.items() if (i, t) not in seen} for t, by_item in found.items()}
        yield from (nothing | row for row in _list_rows(listing, rest))


def _list_rows(listing: Listing, found: _Found) -> Iterator[dict[str, Any]]:
    hashes = {task.key: task_hash(task)[:DIGITS] for task in listing.tasks}
    for task, by_item in found.items():
        for item, votes in by_item.items():
            i = listing.place[item]
            yield {
                "file": listing.files[i],
                "row": listing.rows[i],
                "id": listing.ids[i] or None,
                "task": task,
                "survey": listing.surveys[i] or None,
                "snr": _known(listing.snr[i]),
                "ra": _known(listing.ra[i]),
                "dec": _known(listing.dec[i]),
                "pipeline_class": listing.pipeline_class[i] or None,
                "task_hash": hashes.get(task),
            } | review_cells(votes.values())


def _labels(desk: Desk, tasks: Collection[str] | None) -> Iterator[dict[str, Any]]:
    listing = desk.listing
    for task in listing.tasks:
        if tasks is not None and task.key not in tasks:
            continue
        for item, votes in desk.voted(task.key).items():
            i = listing.place[item]
            found = merged(list(votes.values()))
            yield {
                "file": os.path.abspath(listing.files[i]),
                "row": listing.rows[i],
                "task": task.key,
                "answer": found.verdict or "UNSURE",
                "label_source": _source(found),
                "comment": found.comment or None,
                "time": max(v.at for v in votes.values()),
            }


def _source(found: Merged) -> str:
    """`reviewed by Ann, Bo (agreed)`."""
    return f"reviewed by {', '.join(found.reviewers)} ({found.standing})"


def _facts(desk: Desk, decisions: Collection[str] | None = None) -> tuple[Fact, ...]:
    """Where the decisions come from."""
    facts = [
        Fact("review_creator", "REVCREAT", f"specvet {__version__}", "program that wrote this table"),
        Fact("review_store", "REVSTORE", os.path.basename(desk.store.name), "where the decisions are kept"),
        Fact("review_rule", "REVRULE", "DESI VI: verdict, class, quality by 2, dz/(1+z) 0.0033", "conflict"),
    ]
    if decisions is not None:
        facts.append(Fact("only_decisions", "ONLYDECI", ", ".join(sorted(decisions)), "the review may hold more"))
    return tuple(facts)


def _known(value: np.floating[Any]) -> float | None:
    return float(value) if np.isfinite(value) else None
