"""Sorts the cases of a list into accept, look and reject, and counts what may be expected of each band.

    evidence → prevalence of this list → probability → promises → bands → audit → counts

UNSURE, NO_DATA, FAILED and ERROR go to a person whatever their evidence. Without a calibration nothing is promised and
nothing accepted: a NO is rejected because the policy said so, all else is looked at.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from specvet.records.decision import WHOLE_FILE
from specvet.records.schema import Answer
from specvet.vetting.triage.bands import BANDS, Band, Promise, promises
from specvet.vetting.triage.calibration import Calibration, Floats, probability
from specvet.vetting.triage.cases import DECIDED, Case, Place
from specvet.vetting.triage.drift import NO_MIXTURE, warnings_of
from specvet.vetting.triage.numbers import Bools
from specvet.vetting.triage.prevalence import Prevalence, estimate
from specvet.vetting.triage.settings import Settings

EVERY = "*"
"""In `Settings.prevalence`: all tasks that are not named."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """A case and where it went."""

    case: Case
    evidence: float | None
    """Natural logarithm of the likelihood ratio; None where nothing can be weighed."""
    probability: float | None
    """Of YES, at the prevalence of this list; without a calibration as the policy gave it."""
    band: Band
    why: str
    audit: bool = False
    """Rejected, and drawn to be looked at all the same."""


@dataclass(frozen=True, slots=True)
class BandCount:
    """One band of a task."""

    n: int
    members: float | None
    """Expected members among those that have a probability; None without a calibration."""
    low: float | None
    """The same at the low end of the prevalence's interval."""
    high: float | None
    without: int
    """Cases without a probability, of which nothing is expected."""


@dataclass(frozen=True, slots=True)
class TaskCount:
    """One task of a list."""

    n: int
    answers: dict[str, int]
    bands: dict[str, BandCount]
    audit: int
    prevalence: Prevalence | None
    promise: Promise | None
    drift: tuple[str, ...] = ()

    @property
    def looks(self) -> int:
        """Cases that a person looks at: the band `look`, and the audit."""
        return self.bands["look"].n + self.audit

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"looks": self.looks}


@dataclass(slots=True)
class Triage:
    """A list, sorted."""

    rows: list[Sorted]
    tasks: dict[str, TaskCount]
    """Unreadable files under `*`."""
    notices: list[str] = field(default_factory=list)
    """What speaks against using this calibration for this list."""

    @property
    def looks(self) -> int:
        return sum(task.looks for task in self.tasks.values())


def grouped(said: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Of (task, text): the tasks that each text is said of."""
    found: dict[str, list[str]] = {}
    for task, text in said:
        found.setdefault(text, []).append(task)
    return found


def percent(share: float) -> str:
    """Two digits: `0.21`, `7.4`, `98`."""
    return f"{100 * share:.0f}" if share >= 0.0995 or not share else f"{100 * share:.2g}"


def sort(
    cases: Sequence[Case],
    calibration: Calibration | None,
    settings: Settings,
    *,
    keys: Sequence[str] | None = None,
    flagged: Collection[Place] = (),
) -> Triage:
    """Every case in its band, in the order of `cases`.

    `keys` are the files as they are known wherever the list lies, for the audit's draw; `flagged` are places (file,
    row, task) that something else speaks against, such as an agent that says YES of a blank page: they are looked at.
    """
    evidence = calibration.evidence(cases) if calibration is not None else np.full(len(cases), np.nan)
    tasks = np.array([c.task for c in cases], dtype=object)
    decided = np.array([c.answer in DECIDED for c in cases], dtype=bool)
    told = {
        t: _prevalence(t, evidence[tasks == t], decided[tasks == t], calibration, settings)
        for t in dict.fromkeys(tasks.tolist())
    }
    known = {t: p for t, p in told.items() if p is not None}
    made: Mapping[str, Promise] = {}
    if calibration is not None:
        # What is accepted has to be right at any prevalence that the list may have; rarer is harder.
        shares = {t: p.low for t, p in known.items()}
        made = promises(calibration, shares, settings.max_lost, settings.max_false, settings.confidence)
    p = np.array([np.nan if c.p_raw is None else c.p_raw for c in cases])
    for task, at in known.items():
        p[tasks == task] = probability(evidence[tasks == task], at.value)
    names = keys if keys is not None else [c.file for c in cases]
    rows = []
    for i, case in enumerate(cases):
        band, why = _band(case, evidence[i], made.get(case.task), calibration is not None, case.place in flagged)
        audit = band == "reject" and _drawn(names[i], case, settings)
        rows.append(Sorted(case, _or_none(evidence[i]), _or_none(p[i]), band, why, audit))
    counts = {}
    for task, share in told.items():
        here = [row for row in rows if row.case.task == task]
        drift = () if calibration is None else _drift(calibration, [r.case for r in here], share)
        counts[task] = _counted(here, share, made.get(task), drift)
    return Triage(rows, counts)


def _prevalence(
    task: str, evidence: Floats, decided: Bools, calibration: Calibration | None, settings: Settings
) -> Prevalence | None:
    if calibration is None or task == WHOLE_FILE:
        return None
    scored = np.isfinite(evidence)
    found = evidence[scored]
    given = settings.prevalence.get(task, settings.prevalence.get(EVERY))
    if given is not None:
        return Prevalence(given, given, given, "given", int(found.size))
    known = calibration.tasks.get(task)
    if known is None:
        return None
    return estimate(found, known, settings.seed, decided[scored])


def _band(case: Case, evidence: float, promise: Promise | None, calibrated: bool, flagged: bool) -> tuple[Band, str]:
    if case.answer not in DECIDED:
        return "look", f"not decided: {case.answer}"
    if flagged:
        return "look", "flagged"
    if not calibrated:
        if case.answer is Answer.NO:
            return "reject", "the policy said NO; nothing is promised"
        return "look", "the policy said YES"
    if promise is None or np.isnan(evidence):
        return "look", "the task is not calibrated" if promise is None else "nothing to weigh"
    if promise.reject_below is not None and evidence < promise.reject_below:
        return "reject", "below the threshold"
    if promise.accept_from is not None and evidence >= promise.accept_from:
        return "accept", "above the threshold"
    if promise.reject_below is None:
        return "look", "too few labelled members to reject anything"
    return "look", "between the thresholds"


def _drawn(key: str, case: Case, settings: Settings) -> bool:
    """By a hash, so that the draw stays when the list grows or is sorted anew."""
    name = f"{settings.seed} {key} {case.row} {case.task}"
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:8], "big") < (
        settings.audit * 2.0**64
    )


def _drift(calibration: Calibration, cases: Sequence[Case], prevalence: Prevalence | None) -> tuple[str, ...]:
    if not cases or cases[0].task not in calibration.tasks or prevalence is None:
        return ()
    told = warnings_of(calibration, cases, prevalence.value)
    return tuple(told if prevalence.fits else [*told, NO_MIXTURE])


def _counted(
    rows: Sequence[Sorted], prevalence: Prevalence | None, promise: Promise | None, drift: tuple[str, ...]
) -> TaskCount:
    evidence = np.array([np.nan if row.evidence is None else row.evidence for row in rows])
    bands: dict[str, BandCount] = {}
    for band in BANDS:
        here = np.array([row.band == band for row in rows], dtype=bool)
        weighed = evidence[here & np.isfinite(evidence)]
        low = value = high = None
        if prevalence is not None:
            low, value, high = (
                float(probability(weighed, share).sum())
                for share in (prevalence.low, prevalence.value, prevalence.high)
            )
        bands[band] = BandCount(int(here.sum()), value, low, high, int(here.sum()) - weighed.size)
    return TaskCount(
        n=len(rows),
        answers=dict(Counter(str(row.case.answer) for row in rows)),
        bands=bands,
        audit=sum(row.audit for row in rows),
        prevalence=prevalence,
        promise=promise,
        drift=drift,
    )


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
