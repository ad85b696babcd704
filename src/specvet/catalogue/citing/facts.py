"""`RunFacts`: all that the text about a run may say, as plain data. What a run does not hold is None or empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class SurveyFacts:
    """The spectra of one survey, release and reduction."""

    survey: str
    """`LAMOST`, or `unknown`."""
    release: str
    """As the files name it; empty where they do not."""
    reduction: str
    spectra: int
    simulated: int = 0
    """How many of them say that they are SIMULATED."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One question, and what was answered."""

    key: str
    name: str
    """The class: `cataclysmic variable`; the key where the run no longer holds the task."""
    hash: str | None
    """SHA-256 of the task as it was asked."""
    answers: Mapping[str, int]
    """Decisions by answer; of a rollout one a trajectory."""
    sources: tuple[str, ...] = ()
    """As its file states them."""
    indices: tuple[str, ...] = ()
    """Sources of the indices that were measured for it."""


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """Who decided."""

    policy: str
    name: str
    hash: str | None
    """SHA-256."""
    of: Literal["weights", "policy"]
    measures: bool
    """It measures and looks at no picture."""
    turns: int | None = None
    """Most turns a spectrum and task."""
    temperature: float | None = None
    """Of sampling; None for a policy that samples nothing."""
    style: str = ""
    """Of the pictures: `spec-o3-reference-1`."""
    wording: str = ""
    guarded: bool = False
    """The program turns undecided answers into UNSURE."""
    prefilter: str = ""
    """Who left out what was hopeless, in the run's words: `line-indices below 0.02`."""
    prefiltered: int = 0
    """Decisions that the prefilter made."""


@dataclass(frozen=True, slots=True)
class TriageFacts:
    """How one task was sorted."""

    task: str
    accept: int
    look: int
    reject: int
    audit: int
    """Rejected, and drawn to be looked at."""
    calibrated: bool
    """False: by the policy's own answers, and nothing is promised."""
    prevalence: float | None = None
    low: float | None = None
    high: float | None = None
    """95 % interval."""
    source: str = ""
    """`estimated`, `given` or `calibration set`."""
    promised: bool = False
    """The calibration knows the task."""
    rejects: bool = False
    """The labels were enough to promise how many members are lost at most."""
    accepts: bool = False
    scope: str = ""
    """Whose members the promise rests on: `task`, `all tasks` or `none`."""
    members: int = 0
    max_lost: float = 0.0
    max_false: float = 0.0
    confidence: float = 0.0
    calibration: str = ""
    """First digits of the SHA-256 of the calibration's file."""
    cases: int = 0
    """Labelled cases of the whole calibration."""
    simulated_cases: int = 0


@dataclass(frozen=True, slots=True)
class AuditFacts:
    """What people found among the rejected that were drawn."""

    drawn: int
    checked: int
    found: int
    share_at_most: float | None
    """Upper 95 % bound of the share of members among the rejected."""


@dataclass(frozen=True, slots=True)
class ReviewFacts:
    """What people decided on one task."""

    task: str
    reviewers: int
    spectra: int
    """With one vote or more."""
    yes: int
    no: int
    unsure: int
    conflicts: int
    """Undecided, since people disagree."""
    settled: int
    """Decided by a third look."""
    double: int
    """With two votes or more, third looks aside."""
    votes: int = 0
    """That stand."""
    hidden: int = 0
    """Votes cast while the agent's answer was hidden."""
    seen: int = 0
    """Votes cast with the agent's answer in sight; where neither is noted, a vote counts in neither."""
    kappa: float | None = None
    kappa_kind: Literal["", "Cohen", "Fleiss"] = ""
    kappa_low: float | None = None
    kappa_high: float | None = None
    """95 % interval, of Cohen's."""
    alpha: float | None = None
    """Krippendorff's."""
    alpha_low: float | None = None
    alpha_high: float | None = None
    audit: AuditFacts | None = None


@dataclass(frozen=True, slots=True)
class MatchFacts:
    """What catalogues say of the run's spectra."""

    spectra: int
    """That a catalogue was asked about."""
    asked: Mapping[str, int]
    """Catalogue → spectra about which it answered."""
    gaia: int
    """Spectra with a Gaia source."""
    known: Mapping[str, int]
    """Catalogue → spectra of which it knows the object."""
    known_any: int
    new: int
    """Spectra whose object none of the catalogues of known objects knows, though one or more answered."""
    radius_arcsec: float | None = None
    answers: int = 0
    """Verdicts that stand beside one with Gaia."""
    changed: int = 0
    """How many of these differ."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run."""

    name: str
    """Of its folder."""
    kind: str
    """`vet`, `rollout` or `eval`."""
    receipt: str | None
    """SHA-256 of `receipt.json`."""
    began: str | None
    """UTC date, `2026-11-30`."""
    ended: str | None
    specvet: tuple[str, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of Python and packages, when the run began."""
    files: int = 0
    """That were asked for, unreadable ones included."""
    unreadable: int = 0
    spectra: int = 0
    """(file, row) with a decision."""
    objects: int = 0
    """That these spectra are of."""
    gaia_objects: int = 0
    """Those known by a Gaia source, stated or matched."""
    radius_arcsec: float = 0.0
    """Within which spectra without a Gaia source are of one object."""
    simulated: int = 0
    decisions: int = 0
    snr: float | None = None
    """Median over the spectra of the median S/N a pixel."""
    snr_of: int = 0
    """Spectra with one."""
    mjd: tuple[float, float] | None = None
    """First and last observation."""
    mjd_of: int = 0
    """Spectra with a date."""
    surveys: tuple[SurveyFacts, ...] = ()
    tasks: tuple[TaskFacts, ...] = ()
    policy: PolicyFacts | None = None
    group: int = 1
    """Trajectories a question, of a rollout."""
    questions: str = ""
    """Of an eval run: the name of the question set."""
    seed: int | None = None
    shards: tuple[str, ...] = ()
    """Parts of the list that this run was given, `3/16`; empty for all of it."""
    interrupted: bool = False
    """The last session was stopped, or killed, before the list was through."""
    triage: tuple[TriageFacts, ...] = ()
    review: tuple[ReviewFacts, ...] = ()
    review_names: int = 0
    """People who decided anything, over all tasks."""
    match: MatchFacts | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
