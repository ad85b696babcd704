"""Labels and cases brought together: what a run is calibrated on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specvet.vetting.triage.cases import Case, Place
from specvet.vetting.triage.fitting import Labelled

if TYPE_CHECKING:
    from specvet.data.labels import Label
    from specvet.data.questions import Asked
    from specvet.records import Decision, RunFolder


@dataclass(frozen=True, slots=True)
class Truth:
    """The answer to one question about one spectrum."""

    yes: bool
    object_id: str = ""
    """Empty: every spectrum is an object of its own."""


@dataclass(slots=True)
class Matched:
    """Labelled cases, and what was left out."""

    labelled: list[Labelled] = field(default_factory=list)
    unasked: int = 0
    """Labels of spectra and tasks that the run did not decide."""
    unlabelled: int = 0
    """Cases without a label."""
    unclear: int = 0
    """Labels that do not say which target of a file with several they mean."""
    unmeasured: int = 0
    """Decisions whose spectrum could not be measured again."""

    @property
    def counts(self) -> dict[str, Any]:
        """For the calibration's file."""
        return {
            "used": len(self.labelled),
            "unasked": self.unasked,
            "unlabelled": self.unlabelled,
            "unclear": self.unclear,
            "unmeasured": self.unmeasured,
        }


def truths_of_labels(run: RunFolder, labels: Iterable[Label]) -> tuple[dict[Place, Truth], set[Place]]:
    """Truths by (file as the run knows it, row, task), and which of them do not say the row."""
    found, vague = {}, set()
    for label in labels:
        place = run.key(label.file), label.row, label.task
        found[place] = Truth(label.answer == "YES", label.object_id)
        if not label.row_given:
            vague.add(place)
    return found, vague


def truths_of_questions(run: RunFolder, questions: Iterable[Asked]) -> dict[Place, Truth]:
    """The same of a question file's answers."""
    return {
        (run.key(asked.file), asked.question.spectrum.row, asked.question.task): Truth(
            asked.question.answer == "YES", asked.question.object_id or ""
        )
        for asked in questions
        if asked.question.answer is not None
    }


def noting_truths(decisions: Iterable[Decision], truths: dict[Place, Truth]) -> Iterator[Decision]:
    """The decisions as they come, the answers of their own questions noted in `truths` by (file, row, task)."""
    for decision in decisions:
        asked = decision.trajectory.question if decision.trajectory else None
        if asked is not None and asked.answer is not None:
            place = decision.file, decision.row, decision.task
            truths[place] = Truth(asked.answer == "YES", asked.object_id or "")
        yield decision


def match(cases: Sequence[Case], keys: Sequence[str], truths: dict[Place, Truth], vague: set[Place]) -> Matched:
    """Cases with their truths. `keys` are the cases' files as `truths` names them."""
    rows = Counter(file for file, _ in {(key, case.row) for key, case in zip(keys, cases, strict=True)})
    found, met = Matched(), set()
    for case, key in zip(cases, keys, strict=True):
        place = key, case.row, case.task
        truth = truths.get(place)
        if truth is None:
            found.unlabelled += 1
            continue
        met.add(place)
        if place in vague and rows[key] > 1:
            found.unclear += 1
            continue
        found.labelled.append(Labelled(case, truth.yes, truth.object_id or f"{key}#{case.row}"))
    found.unasked = len(truths.keys() - met)
    return found
