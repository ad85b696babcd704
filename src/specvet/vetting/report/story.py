"""What the page says of one spectrum: decisions turned into words, numbers and pictures for the template."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from specvet.records.decision import Decision
from specvet.records.schema import Answer, EvidenceItem, Measurement, TrajectoryRecord, TurnRecord
from specvet.spectra.frame import Frame
from specvet.spectra.lines import in_medium
from specvet.spectra.spectrum import Spectrum
from specvet.tasks.task import KeyWindow, Task
from specvet.tools import shift
from specvet.vetting.claims import Claim, check_decision
from specvet.vetting.report import figure

RANK = (Answer.YES, Answer.UNSURE, Answer.FAILED, Answer.NO_DATA, Answer.NO, Answer.ERROR)
"""Order of verdicts on the page: finds, then what a person must look at, then the rest."""

OPEN = frozenset({Answer.YES, Answer.UNSURE, Answer.FAILED})
"""Answers whose reasons are unfolded from the start."""

Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement as the page's table shows it."""

    says: str
    value: str
    where: str
    quality: str
    note: str
    log_odds: str = ""
    bar: Markup = field(default_factory=Markup)


@dataclass(frozen=True, slots=True)
class Look:
    """One turn: thought, call, what was seen and what was measured there."""

    number: int
    kind: str
    thought: str
    call: str
    observation: str
    trouble: str
    """Kind of an observation that shows nothing; empty for a view."""
    picture: Markup | None
    rows: list[Row]
    claims: list[Claim] = field(default_factory=list)
    """What the thought says that it saw, held against the spectrum."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """All about one task of one spectrum."""

    key: str
    name: str
    answer: str
    confidence: str
    p_yes: str
    reason: str
    likelier_class: str
    stop: str
    unfolded: bool
    policy: str
    total: str
    """Sum of the evidence, in words; empty without any."""
    looks: list[Look]
    other: list[Row]
    """Measured, but in no window that was looked at."""
    claims: list[Claim] = field(default_factory=list)
    """Of the reason."""


@dataclass(frozen=True, slots=True)
class Story:
    """All about one spectrum."""

    number: int
    first: Decision
    chapters: list[Chapter]
    simulated: bool
    problem: str
    """Why there are no pictures; empty when there are."""
    whole: Markup | None
    shared: Markup
    """Windows that several pictures use."""
    links: list[tuple[str, str]] = field(default_factory=list)


def tell(
    number: int, decisions: Sequence[Decision], spectrum: Spectrum | None, problem: str, tasks: Mapping[str, Task]
) -> Story:
    """The story of one spectrum.

    Args:
        number: its place on the page, from 1.
        decisions: of this (file, row), at least one.
        spectrum: as read from its file, native; None when it cannot be read.
        problem: why it cannot be read.
        tasks: definitions by key, for names, features and what may deceive; a task may be missing.
    """
    ordered = sorted(decisions, key=_urgency)
    first = ordered[0]
    if spectrum is not None:
        problem = _changed(ordered, spectrum)
    gallery = Gallery(number, None if problem else spectrum, first, ordered)
    chapters = [_chapter(d, gallery, tasks.get(d.task), None if problem else spectrum) for d in ordered]
    # The features of what was found, or of everything asked when nothing was: more would hide them.
    found = [d for d in ordered if d.verdict.answer in OPEN] or ordered
    marks = [m for d in found if d.task in tasks for w in tasks[d.task].windows for m in gallery.marks(w)]
    marks.sort(key=lambda m: len(m.name) > 4)  # Hα, Hβ: the best known take the least room, so they choose first
    return Story(
        number=number,
        first=first,
        chapters=chapters,
        simulated=is_simulated(first, spectrum),
        problem=problem,
        whole=gallery.whole(marks),
        shared=gallery.shared(),
        links=sky_links(first.ra, first.dec),
    )


class Gallery:
    """The pictures of one spectrum: each distinct window is drawn once, and used again for another task."""

    def __init__(
        self, number: int, spectrum: Spectrum | None, decision: Decision, decisions: Sequence[Decision]
    ) -> None:
        self._number, self._z = number, decision.z or 0.0
        # `rest frame (z = …)`: the axis names the frame, the table below the picture says why.
        self._frame = decision.frame.split(" (", 1)[0] or "frame not recorded"
        self._shown: Spectrum | None = None
        if spectrum is not None and 1 + self._z != 0:
            self._shown = shift(spectrum, Frame(self._z, "rest" if self._z else "observed", ""))
        looks = [w for d in decisions if d.trajectory for w in windows_seen(d.trajectory)]
        self._repeated = {w for w in looks if looks.count(w) > 1}
        self._drawn: dict[Window, figure.Base | None] = {}

    def whole(self, marks: Sequence[figure.Mark]) -> Markup | None:
        """The whole spectrum with the features to mark on it."""
        if self._shown is None:
            return None
        drawn = figure.base(self._shown, z=self._z, frame=self._frame, window=None, size=figure.FULL)
        return figure.picture(drawn, marks) if drawn else None

    def zoom(self, window: Window, task: Task | None, measured: Sequence[Measurement]) -> Markup | None:
        """One window with a task's features, what was measured and what may deceive."""
        if self._shown is None:
            return None
        if window not in self._drawn:
            self._drawn[window] = figure.base(
                self._shown, z=self._z, frame=self._frame, window=window, size=figure.ZOOM
            )
        drawn = self._drawn[window]
        if drawn is None:
            return None
        near = [w for w in task.windows if _overlap(w.range, window) > 0] if task else []
        near.sort(key=lambda w: -_overlap(w.range, window))
        marks = [m for w in near for m in self.marks(w)]
        traps = [figure.Stretch(*c.range, c.name) for w in near for c in w.contaminants if c.range]
        stretches = [figure.Stretch(*m.window, m.name) for m in measured if m.window]
        return figure.picture(drawn, marks, stretches, traps, self._name(window) if window in self._repeated else "")

    def shared(self) -> Markup:
        """Definitions of the windows that several pictures use; one element, without size."""
        uses = [figure.definition(b, self._name(w)) for w, b in self._drawn.items() if b and w in self._repeated]
        return Markup(f'<svg class="defs" aria-hidden="true">{"".join(uses)}</svg>') if uses else Markup("")

    def marks(self, window: KeyWindow) -> list[figure.Mark]:
        """A window's features in the medium of the spectrum; line lists are given at rest."""
        if self._shown is None:
            return []
        return [figure.Mark(in_medium(f.wavelength, f.medium, self._shown.medium), f.name) for f in window.features]

    def _name(self, window: Window) -> str:
        return f"s{self._number}w{list(self._drawn).index(window)}"


def windows_seen(trajectory: TrajectoryRecord) -> list[Window]:
    """The windows a trajectory zoomed into, in order, repeats included."""
    observations = [t.observation for t in trajectory.turns]
    return [o.window for o in observations if o and o.kind == "view" and o.window]


def _urgency(decision: Decision) -> tuple[int, float, str]:
    verdict = decision.verdict
    return RANK.index(verdict.answer), -(verdict.confidence or 0.0), decision.task


def urgency(decisions: Sequence[Decision]) -> tuple[int, float, float]:
    """Sort key of a spectrum: its most urgent verdict; YES most certain, UNSURE likeliest, NO least certain first.

    Equal confidences are ordered by the sum of their evidence.
    """

    def key(decision: Decision) -> tuple[int, float, float]:
        verdict = decision.verdict
        confidence = verdict.confidence or 0.0
        within = {
            Answer.YES: -confidence,
            Answer.UNSURE: -(verdict.p_yes if verdict.p_yes is not None else confidence),
            Answer.NO: confidence,
        }
        total = round(sum(e.log_odds for e in verdict.evidence), 3)
        return RANK.index(verdict.answer), within.get(verdict.answer, 0.0), -total

    return min(key(d) for d in decisions)


def is_simulated(decision: Decision, spectrum: Spectrum | None = None) -> bool:
    """Whether the spectrum says of itself that it is simulated: in its ids, warnings or class."""
    said = [decision.id, decision.survey, decision.pipeline_class, *decision.warnings]
    if spectrum is not None:
        said += [spectrum.id, spectrum.release, spectrum.reduction, *spectrum.ids.values(), *spectrum.warnings]
    return any("simulated" in s.lower() for s in said)


def sky_links(ra: float | None, dec: float | None) -> list[tuple[str, str]]:
    """(name, address) of pages about a position; links to follow, nothing that a page loads."""
    if ra is None or dec is None or not (math.isfinite(ra) and math.isfinite(dec)):
        return []
    spaced, joined = (f"{ra:.6f}{gap}{dec:+.6f}".replace("+", "%2B") for gap in ("%20", ""))
    cds = "cds.unistra.fr"
    return [
        ("SIMBAD", f"https://simbad.{cds}/simbad/sim-coo?Coord={spaced}&Radius=5&Radius.unit=arcsec"),
        ("Gaia DR3", f"https://vizier.{cds}/viz-bin/VizieR-4?-source=I/355/gaiadr3&-c={joined}&-c.rs=5"),
        ("Aladin", f"https://aladin.{cds}/AladinLite/?target={spaced}&fov=0.05"),
        ("Legacy Surveys", f"https://www.legacysurvey.org/viewer?ra={ra:.6f}&dec={dec:.6f}&zoom=16"),
    ]


def _changed(decisions: Sequence[Decision], spectrum: Spectrum) -> str:
    recorded = {d.trajectory.spectrum_hash for d in decisions if d.trajectory and d.trajectory.spectrum_hash}
    if not recorded or spectrum.content_hash in recorded:
        return ""
    return "the file has changed since the run: its wavelengths and fluxes are not those that were judged"


def _chapter(decision: Decision, gallery: Gallery, task: Task | None, spectrum: Spectrum | None) -> Chapter:
    verdict, trajectory = decision.verdict, decision.trajectory
    # A policy that weighs evidence has measured what it says; its numbers stand in the table.
    claims: tuple[Claim, ...] = ()
    if task is not None and spectrum is not None and not verdict.evidence:
        claims = check_decision(decision, spectrum, task)
    turns = trajectory.turns if trajectory else ()
    evidence = {(e.measurement.index, e.says): e for e in verdict.evidence}
    weighed = {e.measurement.index for e in verdict.evidence}
    rest = [m for m in (trajectory.measurements if trajectory else ()) if m.index not in weighed]
    by_turn: dict[int, list[EvidenceItem | Measurement]] = {}
    items: list[EvidenceItem | Measurement] = [*evidence.values(), *rest]
    for item in items:
        by_turn.setdefault(_turn_of(item, turns, task), []).append(item)
    looks = [
        _look(i, turn, by_turn.get(i, []), [c for c in claims if c.turn == i + 1 and not c.in_answer], gallery, task,
              reason=verdict.reason)
        for i, turn in enumerate(turns)
    ]  # fmt: skip
    total = sum(e.log_odds for e in verdict.evidence)
    return Chapter(
        key=decision.task,
        name=task.name if task else decision.task,
        answer=verdict.answer.value,
        confidence=_share(verdict.confidence),
        p_yes=_share(verdict.p_yes),
        reason=verdict.reason,
        likelier_class=verdict.likelier_class or "",
        stop="" if not trajectory or trajectory.stop.value == "answered" else trajectory.stop.value.replace("_", " "),
        unfolded=verdict.answer in OPEN,
        policy=trajectory.policy if trajectory else "",
        total=f"{total:+.1f}".replace("-", "−") if verdict.evidence else "",
        looks=[look for look in looks if look is not None],
        other=[_row(item) for item in by_turn.get(-1, [])],
        claims=[claim for claim in claims if claim.in_answer],
    )


def _look(
    i: int,
    turn: TurnRecord,
    items: Sequence[EvidenceItem | Measurement],
    claims: list[Claim],
    gallery: Gallery,
    task: Task | None,
    *,
    reason: str,
) -> Look | None:
    action, observation = turn.action, turn.observation
    if action.kind == "answer" and action.text in {"", reason}:
        return None  # the verdict above says it already
    drawn = None
    if observation and observation.kind == "view" and observation.window:
        measured = [m.measurement if isinstance(m, EvidenceItem) else m for m in items]
        drawn = gallery.zoom(observation.window, task, measured)
    return Look(
        number=i + 1,
        kind=action.kind,
        thought=action.text,
        call=_call(action.tool, action.arguments) if action.kind == "call" else "",
        observation=observation.text if observation else "",
        trouble="" if observation is None or observation.kind == "view" else observation.kind.replace("_", " "),
        picture=drawn,
        rows=[_row(item) for item in items],
        claims=claims,
    )


def _turn_of(item: EvidenceItem | Measurement, turns: Sequence[TurnRecord], task: Task | None) -> int:
    """Which turn's window a measurement belongs to: its key window's, else the narrowest that holds it; −1 for none."""
    shown = [(i, t.observation.window) for i, t in enumerate(turns) if t.observation and t.observation.window]
    if isinstance(item, EvidenceItem) and task:
        for key_window in task.windows:
            if key_window.key == item.window:
                same = [(o, i) for i, w in shown if (o := _overlap(key_window.range, w)) > 0.8]
                if same:
                    return max(same, key=lambda s: (s[0], -s[1]))[1]
    place = (item.measurement if isinstance(item, EvidenceItem) else item).window
    if place:
        holds = [(w[1] - w[0], i) for i, w in shown if w[0] <= (place[0] + place[1]) / 2 <= w[1]]
        if holds:
            return min(holds)[1]
    return -1


def _overlap(a: Window, b: Window) -> float:
    """Shared length over joint length, 0 to 1."""
    shared = min(a[1], b[1]) - max(a[0], b[0])
    joint = max(a[1], b[1]) - min(a[0], b[0])
    return max(shared, 0.0) / joint if joint > 0 else 0.0


def _row(item: EvidenceItem | Measurement) -> Row:
    weighed = isinstance(item, EvidenceItem)
    m = item.measurement if isinstance(item, EvidenceItem) else item
    log_odds = item.log_odds if isinstance(item, EvidenceItem) else 0.0
    name = m.name or m.index
    return Row(
        says=item.says if isinstance(item, EvidenceItem) else "",
        value=f"{name} = {measured_value(m)}" if m.value is not None else f"{name}: not measurable",
        where=f"{m.window[0]:.0f}-{m.window[1]:.0f} Å" if m.window else "",
        quality=f"{100 * m.quality:.0f} %" if m.value is not None else "",
        note=m.note,
        log_odds=f"{log_odds:+.2f}".replace("-", "−") if weighed else "",
        bar=figure.log_odds_bar(log_odds) if weighed else Markup(),
    )


def measured_value(m: Measurement) -> str:
    """`−12.3 ± 0.4 Å`: the error with two figures, the value to match; three figures without an error."""
    if m.value is None:
        return "not measurable"
    if m.error is not None and m.error > 0 and math.isfinite(m.error):
        decimals = max(0, 1 - math.floor(math.log10(m.error)))
        text = f"{m.value:.{min(decimals, 6)}f} ± {m.error:.{min(decimals, 6)}f}"
    else:
        text = f"{m.value:.3g}"
    return f"{text.replace('-', '−')} {m.unit}".strip()


def _share(value: float | None) -> str:
    """A probability as people read it: never a round 1 or 0."""
    if value is None:
        return ""
    return ">0.99" if value > 0.99 else "<0.01" if value < 0.01 else f"{value:.2f}"


def _call(tool: str | None, arguments: Mapping[str, object] | None) -> str:
    words = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False, default=str)}" for k, v in (arguments or {}).items())
    return f"{tool}({words})"
