"""One demonstration of many: an object, seen by a survey, and a teacher's trajectory about it.

These run in worker processes; each follows from the settings and its number alone, whoever makes it and when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from specvet.agent.requirements import missing_requirement
from specvet.data.simulate.kinds import KINDS, TASKS, make
from specvet.data.simulate.observed import SURVEYS, Observed, SurveyName
from specvet.data.simulate.observing import observe, spectrum
from specvet.data.simulate.survey import SnrRange, kind_weights
from specvet.data.simvi.making import as_published, part_templates
from specvet.data.simvi.plan import COLDSTART_YES, HARD, YesNo
from specvet.data.teacher import Refused, Taught, Teacher, VoiceName
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum
from specvet.tasks import Wording, builtin_tasks
from specvet.tools import ZoomTool
from specvet.views import COMPACT_STYLE, picture_size

VERSION = 1
"""Of the draws: another version makes others."""

FIRST, MOST = 10_000_000, 10_000_000
"""Number of the first object, beyond those of SimVI and the suites, and how many there can be."""

MAX_TURNS = 8
PUBLISHED = 0.5
"""Share of the spectra that are shown as published arrays hold them."""

SAME_KIND, ATTEMPTS = 6, 60
"""Objects of one kind that are tried until the teacher accepts a draft, before others take the place; and in all."""

_ROW, _SOURCE, _OBSERVATION, _TEACHER = 31, 32, 33, 34
"""Streams of random numbers; SimVI and the suites have others."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a demonstration follows from, besides its number."""

    seed: int = 0
    voice: VoiceName = "full"
    wording: Wording = "full"
    style: str = COMPACT_STYLE
    picture_size: str | None = None
    zoom: bool = True
    """False: the whole view is answered at once."""
    kinds: tuple[str, ...] | None = None
    """As `specvet.data.simulate.survey.kind_weights` takes them; None takes all."""
    snr: SnrRange | None = None
    """Drawn log-uniformly between two values; None draws it as each survey has it."""
    surveys: tuple[SurveyName, ...] = SURVEYS
    templates: str | None = None
    """Folder of real spectra that may seed sources: those that may seed SimVI's train."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One demonstration to be."""

    number: int
    task: str
    answer: YesNo
    survey: SurveyName
    published: bool


def taught_at(number: int, settings: Settings) -> tuple[Taught, Observed, Counter[tuple[str, str]]]:
    """Demonstration `number`, what was observed, and how often drafts were refused, by kind and reason.

    Raises RuntimeError where none of `ATTEMPTS` objects gave one.
    """
    row = _planned(number, settings)
    kinds = _kinds(row.task, row.answer, settings.kinds)
    refused: Counter[tuple[str, str]] = Counter()
    rng = np.random.default_rng([settings.seed, VERSION, _ROW, number, 1])
    kind = ""
    for attempt in range(ATTEMPTS):
        if attempt == 0 or attempt >= SAME_KIND:
            kind = _drawn(kinds[rng.random() >= HARD and len(kinds) > 1], rng)
        observed = _observed(row, kind, attempt, settings)
        seen = as_published(spectrum(observed)) if row.published else spectrum(observed)
        draft = _draft(row, observed, seen, attempt, settings)
        if isinstance(draft, Taught):
            return draft, observed, refused
        refused[kind, draft.reason.partition(" (")[0].partition(":")[0]] += 1
    raise RuntimeError(f"{row}: none of {ATTEMPTS} simulated objects gave a demonstration: {dict(refused)}")


def _draft(row: _Row, observed: Observed, seen: Spectrum, attempt: int, settings: Settings) -> Taught | Refused:
    task = builtin_tasks()[row.task]
    opening = ZoomTool(seen, style=settings.style, size=picture_size(settings.picture_size)).opening()
    if missing := missing_requirement(task.requires, opening.data):
        return Refused(f"nothing to judge by: {missing}")
    question = Question(
        id=f"{observed.name}-{row.task}",
        name=observed.name,
        task=row.task,
        spectrum=SpectrumRef(array_file=f"{observed.name}.npz"),
        answer=row.answer,
        object_id=observed.object_id,
        label_source="simulated",
    )
    rng = np.random.default_rng([settings.seed, VERSION, _TEACHER, row.number, attempt])
    return _teacher(row.task, settings).teach(question, seen, rng)


def _observed(row: _Row, kind: str, attempt: int, settings: Settings) -> Observed:
    rng = np.random.default_rng([settings.seed, VERSION, _SOURCE, row.number, attempt])
    source = make(kind, rng)
    if settings.templates is not None:
        source = part_templates(settings.templates, "train").seed(source, rng)
    rng = np.random.default_rng([settings.seed, VERSION, _OBSERVATION, row.number, attempt])
    snr = None if settings.snr is None else float(np.exp(rng.uniform(*np.log(settings.snr))))
    return observe(source, row.survey, rng, snr=snr, object_number=FIRST + row.number)


def _planned(number: int, settings: Settings) -> _Row:
    rng = np.random.default_rng([settings.seed, VERSION, _ROW, number, 0])
    task = TASKS[number % len(TASKS)]
    answer: YesNo = "YES" if rng.random() < COLDSTART_YES else "NO"
    if not _kinds(task, answer, settings.kinds):  # of the kinds asked for, none has this answer
        answer = "NO" if answer == "YES" else "YES"
    survey = settings.surveys[number // len(TASKS) % len(settings.surveys)]
    return _Row(number, task, answer, survey, bool(rng.random() < PUBLISHED))


@lru_cache(maxsize=32)
def _kinds(task: str, answer: YesNo, kinds: tuple[str, ...] | None) -> tuple[dict[str, float], ...]:
    """Weights of kinds, for each way of drawing: of a class's members; of others those taken for it, and all."""
    allowed = [KINDS[key] for key in kind_weights(kinds)]
    members = {kind.key: kind.positive for kind in allowed if task in kind.yes}
    strangers = [kind for kind in allowed if task not in kind.yes]
    taken = {kind.key: kind.confuses.get(task, 0.0) for kind in strangers}
    ways = (members,) if answer == "YES" else (taken, {kind.key: kind.weight for kind in strangers})
    return tuple(way for way in ways if sum(way.values()) > 0.0)


def _drawn(weights: Mapping[str, float], rng: np.random.Generator) -> str:
    shares = np.array(list(weights.values()))
    return list(weights)[int(rng.choice(shares.size, p=shares / shares.sum()))]


@lru_cache(maxsize=len(TASKS))
def _teacher(task: str, settings: Settings) -> Teacher:
    return Teacher(
        builtin_tasks()[task],
        style=settings.style,
        max_turns=MAX_TURNS if settings.zoom else 1,
        voice=settings.voice,
        wording=settings.wording,
        size=picture_size(settings.picture_size),
    )
