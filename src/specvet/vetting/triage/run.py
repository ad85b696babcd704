"""Calibrating and sorting a run folder: what `specvet triage` does, for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specvet.records import Decision, RunFolder
from specvet.records.decision import WHOLE_FILE
from specvet.vetting.blanks import flagged_in
from specvet.vetting.triage.bands import upper_bound
from specvet.vetting.triage.calibration import Calibration, TriageError
from specvet.vetting.triage.cases import Case, Place, cases_of
from specvet.vetting.triage.folder import read_told
from specvet.vetting.triage.looks import RunIndices
from specvet.vetting.triage.measuring import UNMEASURED, Remeasuring
from specvet.vetting.triage.settings import Settings
from specvet.vetting.triage.sorting import EVERY, Triage, sort
from specvet.vetting.triage.truths import Matched, Truth, match, noting_truths

if TYPE_CHECKING:
    from collections.abc import Collection

Progress = Callable[[str, int, int], None]
"""Told (what is done, decisions done, decisions in all)."""

Labels = tuple[dict[Place, Truth], "set[Place]"]
"""Truths by (file as the run knows it, row, task), and which of them do not say the row."""


def calibrate_run(
    run: RunFolder,
    labels: Labels | None = None,
    *,
    indices: RunFolder | None = None,
    measure: bool = True,
    processes: int = 1,
    told: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Calibration, Matched]:
    """A calibration of a labelled run.

    `labels` None takes the answers of the run's own questions (a rollout of a question file). `indices` is a run of
    `line-indices` over the same list; without one, and with `measure`, a model's spectra are read again and measured,
    by so many `processes`, and what was measured is kept (see `measuring`). `told` joins what the calibration says of
    its labels.

    Raises `TriageError`, ImportError without scikit-learn, OSError where a process dies.
    """
    from specvet.vetting.triage.fitting import calibrate

    own: dict[Place, Truth] = {}
    cases, unmeasured = _cases(run, noting_truths(_decisions(run), own), indices, measure, processes, progress)
    truths, vague = (
        ({(run.own_key(f), r, t): truth for (f, r, t), truth in own.items()}, set()) if labels is None else labels
    )
    if not truths:
        raise TriageError(
            f"{run.path}: its questions carry no answers; give labels with --labels"
            if labels is None
            else "the labels hold no YES and no NO about a file that is there; --root DIR says where their paths start"
        )
    found = match(cases, [run.own_key(c.file) for c in cases], truths, vague)
    if not found.labelled:
        raise TriageError(
            f"{run.path}: none of the {len(truths):,} labels is about a spectrum and task that it decided; are they of "
            "the same files, named as for specvet vet?"
        )
    found.unmeasured = unmeasured
    settings = run.settings
    return (
        calibrate(
            found.labelled,
            policy=str(settings.get("policy", "")),
            fingerprint=str(settings.get("policy_fingerprint") or ""),
            settings={
                k: v if _is_plain(v) else json.dumps(v) for k, v in settings.items() if not k.startswith("policy")
            },
            labels=dict(told or {}) | found.counts,
            seed=seed,
        ),
        found,
    )


def sort_run(
    run: RunFolder,
    calibration: Calibration | None,
    settings: Settings | None = None,
    *,
    indices: RunFolder | None = None,
    measure: bool = True,
    processes: int = 1,
    progress: Progress | None = None,
) -> Triage:
    """The cases of a run in their bands. `indices`, `measure`, `processes`: as for `calibrate_run`, where the
    calibration weighs what they give. What `specvet triage blank` has flagged is looked at.

    Raises `TriageError` for a calibration of another policy, `RunError` where what was flagged cannot be read."""
    notices = [] if calibration is None else _differences(run, calibration)
    names = set() if calibration is None else {f.name for f in calibration.features}
    weighed = names & {"index", "supported", "contradicted"}
    if not weighed:
        indices, measure = None, False
    cases, unmeasured = _cases(run, _decisions(run), indices, measure, processes, progress, weighed)
    if unmeasured:
        notices.append(f"{unmeasured:,} answers could not be measured again: {UNMEASURED}")
    found = sort(
        cases,
        calibration,
        settings or Settings(),
        keys=[run.own_key(c.file) for c in cases],
        flagged=flagged_in(run.path),
    )
    if unknown := sorted(set(settings.prevalence if settings else ()) - {EVERY, *found.tasks}):
        notices.append(f"a prevalence is given for {', '.join(unknown)}, of which this run holds no case")
    if calibration is not None and (new := sorted(set(found.tasks) - {WHOLE_FILE, *calibration.tasks})):
        notices.append(f"the calibration knows nothing of {', '.join(new)}: nothing is promised, and all is looked at")
    found.notices = notices
    return found


@dataclass(frozen=True, slots=True)
class Audit:
    """What people found among the rejected that were drawn to be looked at."""

    drawn: int
    checked: int
    found: int
    """True objects among the checked."""
    share_at_most: float
    """Upper 95 % bound of the share of true objects among all that were rejected."""
    rejected: int


def audit_of(run: RunFolder, truths: Mapping[Place, Truth]) -> dict[str, Audit]:
    """By task, what the labels say of the audit of a run that was sorted. Raises `TriageError`."""
    told = read_told(run.path)
    if not told:
        raise TriageError(f"{run.path}: was not sorted yet; run specvet triage {run.path} first")
    counts: dict[str, list[int]] = {}
    for (file, row, task), one in told.items():
        if one.band != "reject":
            continue
        n = counts.setdefault(task, [0, 0, 0, 0])
        n[3] += 1
        if not one.audit:
            continue
        truth = truths.get((run.own_key(file), row, task))
        n[0] += 1
        n[1] += truth is not None
        n[2] += truth is not None and truth.yes
    return {
        task: Audit(drawn, checked, found, upper_bound(found, checked, 0.05) if checked else math.nan, rejected)
        for task, (drawn, checked, found, rejected) in counts.items()
    }


def _decisions(run: RunFolder) -> Iterator[Decision]:
    return run.decisions(with_trajectories=True)


def _told(decisions: Iterable[Decision], run: RunFolder, progress: Progress | None) -> Iterator[Decision]:
    total = sum(n for of_task in run.count().values() for n in of_task.values())
    for n, decision in enumerate(decisions, 1):
        yield decision
        if progress is not None:
            progress("weighing", n, total)


def _cases(
    run: RunFolder,
    decisions: Iterator[Decision],
    indices: RunFolder | None,
    measure: bool,
    processes: int,
    progress: Progress | None,
    weighed: Collection[str] = ("index", "supported"),
) -> tuple[list[Case], int]:
    """The cases with all their features, which a policy that measures has in its verdicts; and how many decisions
    could not be measured again."""
    joined = None if indices is None else RunIndices(indices, run)
    measured = None
    if measure:
        claims = bool({"supported", "contradicted"} & set(weighed))
        wanted = joined is None and "index" in weighed
        measured = Remeasuring(run, indices=wanted, claims=claims, processes=processes)

    def look(decision: Decision) -> Mapping[str, float]:
        found = {} if measured is None else dict(measured(decision))
        return found if joined is None else found | dict(joined(decision))

    with ExitStack() as stack:
        if measured is not None:
            decisions = stack.enter_context(closing(measured.through(decisions)))
        cases = list(cases_of(_told(decisions, run, progress), look if joined or measured else None))
    return cases, 0 if measured is None else measured.unreadable


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _differences(run: RunFolder, calibration: Calibration) -> list[str]:
    """Settings in which a run differs from the calibrated one, in words. Raises `TriageError` for another policy."""
    settings = run.settings
    policy, fingerprint = str(settings.get("policy", "")), str(settings.get("policy_fingerprint") or "")
    if policy != calibration.policy or fingerprint != calibration.fingerprint:
        same = policy == calibration.policy
        raise TriageError(
            f"{run.path}: decided by {policy}"
            + (" with other weights or thresholds" if same else "")
            + f", and the calibration is of {calibration.policy}; what one policy's probabilities mean says nothing of "
            "another's: calibrate on a labelled run of this policy with specvet triage calibrate"
        )
    asked = {name for name in settings if name.startswith("tasks.")}
    told = []
    for name in sorted({*settings, *calibration.settings} - {"policy", "policy_fingerprint"}):
        mine, theirs = settings.get(name), calibration.settings.get(name)
        mine = mine if _is_plain(mine) else json.dumps(mine)
        if mine == theirs or (name.startswith("tasks.") and (name not in asked or theirs is None)):
            continue
        what = "was defined otherwise" if name.startswith("tasks.") else f"was {theirs}, here it is {mine}"
        told.append(f"{name} {what} when the policy was calibrated")
    return told
