"""The comparison as one HTML page that is complete in itself: no script, no network, nothing of a stranger's as markup.

Its style sheet and Content Security Policy are those of a transcript's page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from specvet import __version__
from specvet.evaluation.cells import Cell
from specvet.evaluation.compare.meeting import SIDES, Meeting, Pair, Side
from specvet.evaluation.compare.spectra import spectra_of
from specvet.evaluation.compare.told import Article, certain_words, tell
from specvet.evaluation.compare.words import numbers_lines, side_name
from specvet.records import Decision
from specvet.vetting.templates import page_part, page_template
from specvet.vetting.transcript import safe
from specvet.vetting.transcript.page import security_policy, style_sheet

LIMIT = 20
"""Questions of each kind that are shown in full."""


@dataclass(frozen=True, slots=True)
class Section:
    """The questions of one side."""

    side: Side
    title: str
    total: int
    rows: tuple[dict[str, str], ...]
    """All of them, a line each."""
    articles: tuple[Article, ...]


def page(
    meeting: Meeting,
    *,
    limit: int | None = LIMIT,
    spectra: Iterable[Path] = (),
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """The page. `limit` is how many of each kind are shown in full (None: all); `spectra` are folders to look in.

    Raises OSError, ValueError, KeyError for rows that cannot be read.
    """
    chosen = {side: meeting.of(side) for side in SIDES}
    full = {side: pairs[:limit] for side, pairs in chosen.items()}
    ids = {pair.a.id for pairs in full.values() for pair in pairs}
    told = _Teller(meeting, ids, list(spectra), progress)
    sections = [
        Section(
            side=side,
            title=side_name(side, meeting.names),
            total=len(pairs),
            rows=tuple(_row(f"{side}-{n}" if n <= len(full[side]) else "", pair) for n, pair in enumerate(pairs, 1)),
            articles=tuple(told.article(f"{side}-{n}", pair) for n, pair in enumerate(full[side], 1)),
        )
        for side, pairs in chosen.items()
    ]
    own = page_part("specvet.evaluation.compare", "compare.css")
    style = f"\n{style_sheet()}\n{own}\n"
    return str(
        page_template("specvet.evaluation.compare", "compare.html").render(
            meeting=meeting,
            names=[safe.one_line(name) for name in meeting.names],
            cells=[_about(cell) for cell in (meeting.a, meeting.b)],
            lines=numbers_lines(meeting),
            by_task=meeting.by_task,
            sections=sections,
            simulated=any(a.simulated for s in sections for a in s.articles),
            policy=security_policy(style),
            style=Markup(style),
            version=__version__,
            clean=safe.one_line,
        )
    )


class _Teller:
    """Articles, one after another; each cell's spectra and rows are read once."""

    def __init__(
        self, meeting: Meeting, ids: set[str], spectra: list[Path], progress: Callable[[int, int], None] | None
    ) -> None:
        self._meeting = meeting
        self._cells = (meeting.a, meeting.b)
        self._spectra = (spectra_of(meeting.a, spectra), spectra_of(meeting.b, spectra))
        self._decisions = (_decisions(meeting.a, ids), _decisions(meeting.b, ids))
        self._progress, self._total, self._done = progress, len(ids), 0

    def article(self, anchor: str, pair: Pair) -> Article:
        a, b = (decisions[pair.a.id] for decisions in self._decisions)
        article = tell(anchor, pair, self._meeting.names, self._cells, (a, b), self._spectra)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
        return article


def _decisions(cell: Cell, ids: set[str]) -> dict[str, Decision]:
    return {id: decision for _, id, decision in cell.rows() if id in ids}


def _row(anchor: str, pair: Pair) -> dict[str, str]:
    def said(outcome: Any) -> str:
        return f"{outcome.verdict} {certain_words(outcome)}".strip()

    return {
        "anchor": anchor,
        "id": safe.one_line(pair.a.id),
        "task": safe.one_line(pair.a.task),
        "truth": pair.a.truth,
        "object": safe.one_line(" ".join(filter(None, (pair.a.kind, pair.a.subtype)))),
        "snr": "" if pair.a.snr is None else f"{pair.a.snr:.3g}",
        "a": said(pair.a),
        "b": said(pair.b),
        "a_wrong": "" if pair.a.right else "wrong",
        "b_wrong": "" if pair.b.right else "wrong",
    }


def _about(cell: Cell) -> list[tuple[str, str]]:
    record = cell.record
    return [
        ("cell", cell.name),
        ("policy", f"{cell.policy.slug} ({cell.policy.policy})"),
        ("set", f"{record.set}, {record.questions:,} questions"),
        ("seed", "any: it measures" if record.seed is None else str(record.seed)),
        ("rows", f"sha256 {record.rows_sha256[:16]}"),
    ]
