"""What share of the injections was recovered, with Clopper-Pearson intervals (95 %), by S/N, magnitude and kind.

`recovered` are the YES alone. UNSURE, NO_DATA and FAILED go to a person, who may find the object: with the YES they are
`seen`, the most that a search with people can recover. A NO is lost. Where the run was sorted by triage, so are the
injections: `accepted` and `looked` (at by a person) are then what the bands make of them, `rejected` is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specvet.catalogue.completeness.plan import Injection
from specvet.records.schema import Answer
from specvet.vetting.triage.bands import lower_bound, upper_bound

ALL = "all"
"""In `Row.kind`: all kinds of the class together, by their shares in it."""

TAIL = 0.025
TO_PEOPLE = frozenset({Answer.UNSURE, Answer.NO_DATA, Answer.FAILED, Answer.ERROR})


@dataclass(frozen=True, slots=True)
class Outcome:
    """One injection and what became of it."""

    injection: Injection
    answer: Answer
    p_yes: float | None
    snr: float | None
    """As measured on the spectrum that was made."""
    band: str
    """Of triage; empty where the run was not sorted."""

    def as_dict(self) -> dict[str, Any]:
        one = self.injection
        return {
            "note": "SIMULATED",
            "file": one.name,
            "task": one.task,
            "kind": one.kind,
            "snr": round(one.snr, 4),
            "snr_measured": None if self.snr is None else round(self.snr, 4),
            "magnitude": None if one.magnitude is None else round(one.magnitude, 3),
            "drop": None if one.drop is None else round(one.drop, 3),
            "host_file": one.host.file,
            "host_row": one.host.row,
            "host_snr": one.host.snr,
            "host_magnitude": one.host.magnitude,
            "answer": str(self.answer),
            "p_yes": self.p_yes,
            "band": self.band,
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One count."""

    task: str
    kind: str
    """`all`, or one kind of the class."""
    by: str
    """`snr`, `drop`, `magnitude`, or `all` for all of them together."""
    low: float | None
    """Of the bin; an S/N or a drop is one value."""
    high: float | None
    n: int
    yes: int
    no: int
    unsure: int
    no_data: int
    failed: int
    """FAILED and ERROR."""
    recovered: float
    """YES of n."""
    recovered_low: float
    recovered_high: float
    seen: float
    """YES, or sent to a person."""
    seen_low: float
    seen_high: float
    accepted: int | None
    looked: int | None
    rejected: int | None
    kept: float | None
    """Accepted or looked at, of n; None where the run was not sorted."""
    kept_low: float | None
    kept_high: float | None

    def as_dict(self) -> dict[str, Any]:
        return {"note": "SIMULATED", **asdict(self)}


def rows_of(outcomes: Sequence[Outcome]) -> list[Row]:
    """Counts of each task: of all kinds by level and by magnitude, then of each kind."""
    rows = []
    for task in dict.fromkeys(o.injection.task for o in outcomes):
        here = [o for o in outcomes if o.injection.task == task]
        for kind in (ALL, *sorted({o.injection.kind for o in here})):
            those = [o for o in here if kind in (ALL, o.injection.kind)]
            rows.append(_row(task, kind, ALL, None, None, those))
            rows += _by_level(task, kind, those)
            rows += _by_magnitude(task, kind, those)
    return rows


def interval(k: int, n: int) -> tuple[float, float]:
    """95 % Clopper-Pearson."""
    return lower_bound(k, n, TAIL), upper_bound(k, n, TAIL)


def _by_level(task: str, kind: str, outcomes: Sequence[Outcome]) -> Iterable[Row]:
    for level in sorted({o.injection.level for o in outcomes}):
        those = [o for o in outcomes if o.injection.level == level]
        # A level is an S/N where that is what all of it were given.
        by = "snr" if all(o.injection.snr == level for o in those) else "drop"
        yield _row(task, kind, by, level, level, those)


def _by_magnitude(task: str, kind: str, outcomes: Sequence[Outcome]) -> Iterable[Row]:
    known = [(o.injection.magnitude, o) for o in outcomes]
    bins = sorted({math.floor(m) for m, _ in known if m is not None})
    for low in bins:
        those = [o for m, o in known if m is not None and math.floor(m) == low]
        yield _row(task, kind, "magnitude", float(low), low + 1.0, those)


def _row(task: str, kind: str, by: str, low: float | None, high: float | None, those: Sequence[Outcome]) -> Row:
    n = len(those)
    answers = [o.answer for o in those]
    yes = answers.count(Answer.YES)
    seen = yes + sum(a in TO_PEOPLE for a in answers)
    bands = [o.band for o in those]
    accepted, looked = bands.count("accept"), bands.count("look")
    triaged = all(bands) and n > 0
    kept = interval(accepted + looked, n) if triaged else None
    return Row(
        task=task,
        kind=kind,
        by=by,
        low=low,
        high=high,
        n=n,
        yes=yes,
        no=answers.count(Answer.NO),
        unsure=answers.count(Answer.UNSURE),
        no_data=answers.count(Answer.NO_DATA),
        failed=answers.count(Answer.FAILED) + answers.count(Answer.ERROR),
        recovered=yes / n,
        recovered_low=interval(yes, n)[0],
        recovered_high=interval(yes, n)[1],
        seen=seen / n,
        seen_low=interval(seen, n)[0],
        seen_high=interval(seen, n)[1],
        accepted=accepted if triaged else None,
        looked=looked if triaged else None,
        rejected=bands.count("reject") if triaged else None,
        kept=(accepted + looked) / n if triaged else None,
        kept_low=kept[0] if kept else None,
        kept_high=kept[1] if kept else None,
    )
