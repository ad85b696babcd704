"""One question that two cells were asked, as the page tells it: the same first look, then each one's way on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from specvet.chat import LedgerError
from specvet.evaluation.cells import Cell
from specvet.evaluation.compare.meeting import Pair, certainty
from specvet.evaluation.compare.spectra import Spectra, gallery
from specvet.evaluation.outcomes import Outcome
from specvet.records import Decision
from specvet.records.schema import ObservationRecord
from specvet.vetting.report.story import is_simulated
from specvet.vetting.transcript import Block, Gallery, Picture, Transcript, transcript
from specvet.vetting.transcript.page import block_markup, picture_markup
from specvet.vetting.transcript.safe import one_line
from specvet.vetting.transcript.words import totals_lines

MAX_REASON = 400


@dataclass(frozen=True, slots=True)
class Told:
    """One side's trajectory."""

    name: str
    answer: str
    """Its verdict's word."""
    right: bool
    certain: str
    """How certain it was of what it said, in words; empty where it does not say."""
    reason: str
    facts: tuple[tuple[str, str], ...]
    evidence: tuple[tuple[str, str], ...]
    """(what it says, log-odds) of a policy that weighs evidence."""
    opening: Markup
    """What it was told and shown first; without the picture where both saw the same."""
    turns: Markup
    problem: str
    """Why there is no trajectory to show."""


@dataclass(frozen=True, slots=True)
class Article:
    """One question."""

    anchor: str
    id: str
    task: str
    truth: str
    simulated: bool
    facts: tuple[tuple[str, str], ...]
    first: Markup
    """The picture that both saw first."""
    sides: tuple[Told, Told]


def tell(
    anchor: str,
    pair: Pair,
    names: tuple[str, str],
    cells: tuple[Cell, Cell],
    decisions: tuple[Decision, Decision],
    spectra: tuple[Spectra, Spectra],
) -> Article:
    """The article about one question."""
    shown = [_transcript(cell, decision) for cell, decision in zip(cells, decisions, strict=True)]
    galleries = [gallery(*one) for one in zip(cells, decisions, spectra, strict=True)]
    first = _shared_picture(shown, galleries)
    sides = [
        _told(name, outcome, decision, t, pictures, without_picture=first is not None)
        for name, outcome, decision, t, pictures in zip(
            names, (pair.a, pair.b), decisions, shown, galleries, strict=True
        )
    ]
    return Article(
        anchor=anchor,
        id=one_line(pair.a.id),
        task=one_line(pair.a.task),
        truth=pair.a.truth,
        simulated=any(map(is_simulated, decisions)),
        facts=tuple(_facts(pair.a, decisions[0])),
        first=first or Markup(""),
        sides=(sides[0], sides[1]),
    )


def certain_words(outcome: Outcome) -> str:
    """`0.97 sure`, or why there is no such number."""
    sure = certainty(outcome)
    if sure is not None:
        return f"{min(sure, 0.9999):.{4 if sure > 0.999 else 3 if sure > 0.99 else 2}f} sure"
    return "no answer" if outcome.said is None else ""


def _facts(outcome: Outcome, decision: Decision) -> list[tuple[str, str]]:
    what = " ".join(filter(None, (outcome.kind, outcome.subtype)))
    pairs: Mapping[str, str] = {
        "object": what,
        "survey": outcome.survey,
        "S/N": "" if outcome.snr is None else f"{outcome.snr:.3g}",
        "spectrum": f"{decision.file}, row {decision.row}",
        "name": outcome.object_id,
    }
    return [(name, one_line(value)) for name, value in pairs.items() if value]


def _transcript(cell: Cell, decision: Decision) -> Transcript | str:
    """What was said, or why that cannot be shown."""
    if decision.trajectory is None:
        return "The spectrum could not be read, so nobody was asked."
    try:
        return transcript(0, decision, cell.tasks.get(decision.task))
    except (LedgerError, ValueError) as e:
        return f"The kept trajectory cannot be shown: {one_line(str(e))}"


def _pictures(block: Block) -> list[Picture]:
    return [part for part in block.parts if isinstance(part, Picture)]


def _shared_picture(shown: list[Transcript | str], galleries: list[Gallery]) -> Markup | None:
    """The first picture of both, once, where it is the same."""
    seen: list[tuple[Picture, ObservationRecord]] = []
    for t in shown:
        pictures = [] if isinstance(t, str) else [p for b in t.blocks if b.turn == 0 for p in _pictures(b)]
        if len(pictures) != 1 or pictures[0].view is None:
            return None
        seen.append((pictures[0], pictures[0].view))
    if len({view.view_hash for _, view in seen}) != 1 or seen[0][1].view_hash is None:
        return None
    return picture_markup(seen[0][0], galleries[0])


def _told(
    name: str,
    outcome: Outcome,
    decision: Decision,
    t: Transcript | str,
    pictures: Gallery,
    without_picture: bool,
) -> Told:
    said: dict[str, Any] = {
        "name": one_line(name),
        "answer": outcome.verdict,
        "right": outcome.right,
        "certain": certain_words(outcome),
        "reason": one_line(decision.verdict.reason, MAX_REASON),
    }
    if isinstance(t, str):
        return Told(**said, facts=(), evidence=(), opening=Markup(""), turns=Markup(""), problem=t)
    opening = [b for b in t.blocks if b.turn == 0]
    if without_picture:
        opening = [Block(b.role, b.turn, [p for p in b.parts if not isinstance(p, Picture)]) for b in opening]
    return Told(
        **said,
        facts=tuple((name, one_line(value)) for name, value in _taken(outcome, t) if value),
        evidence=tuple((one_line(says), odds) for says, odds in t.evidence),
        opening=Markup("").join(block_markup(b, pictures, by_token=False) for b in opening),
        turns=Markup("").join(block_markup(b, pictures, by_token=False) for b in t.blocks if b.turn),
        problem="" if any(b.turn for b in t.blocks) else "It took no turn.",
    )


def _taken(outcome: Outcome, t: Transcript) -> list[tuple[str, str]]:
    """What it took and how it ended."""
    windows = ", ".join(f"{low:g}-{high:g}" for low, high in outcome.windows)
    return [
        ("said", outcome.said or "nothing that the rule reads"),
        ("ended", outcome.stop),
        ("looked at (Å)", windows or "the whole spectrum only"),
        ("likelier class", outcome.likelier_class),
        ("malformed turns", ", ".join(outcome.malformed)),
        *[(name, value) for name, value in totals_lines(t) if name == "tokens"],
    ]
