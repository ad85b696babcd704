"""One demonstration of many: an object, seen by a survey, and a teacher's trajectory about it.

These run in worker processes; each follows from the settings and its number alone, whoever makes it and when.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from specvet.agent.requirements import missing_requirement
from specvet.data.drawing import Draws, Row, Seen, Streams, kinds_drawn, planned, see
from specvet.data.simulate.kinds import TASKS
from specvet.data.teacher import Refused, Taught, Teacher, VoiceName
from specvet.records.schema import Question, SpectrumRef
from specvet.tasks import Wording, builtin_tasks
from specvet.tools import ZoomTool
from specvet.views import COMPACT_STYLE, picture_size

VERSION = 1
"""Of the draws: another version makes others."""

MOST = 10_000_000
"""How many objects there can be."""

MAX_TURNS = 8

SAME_KIND, ATTEMPTS = 6, 60
"""Objects of one kind that are tried until the teacher accepts a draft, before others take the place; and in all."""

_TEACHER = 34
_STREAMS = Streams(version=VERSION, row=31, source=32, observation=33, first=10_000_000)
"""Of random numbers; SimVI, the suites and question sets have others, and other objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Draws):
    """What a demonstration follows from, besides its number."""

    voice: VoiceName = "full"
    wording: Wording = "full"
    style: str = COMPACT_STYLE
    picture_size: str | None = None
    zoom: bool = True
    """False: the whole view is answered at once."""


def taught_at(number: int, settings: Settings) -> tuple[Taught, Seen, Counter[tuple[str, str]]]:
    """Demonstration `number`, what was seen, and how often drafts were refused, by kind and reason.

    Raises RuntimeError where none of `ATTEMPTS` objects gave one.
    """
    row = planned(number, settings, _STREAMS)
    refused: Counter[tuple[str, str]] = Counter()
    for attempt, kind in enumerate(kinds_drawn(row, settings, _STREAMS, ATTEMPTS, SAME_KIND)):
        seen = see(row, kind, attempt, settings, _STREAMS)
        draft = Refused(seen) if isinstance(seen, str) else _draft(row, seen, attempt, settings)
        if isinstance(draft, Taught) and isinstance(seen, Seen):
            return draft, seen, refused
        assert isinstance(draft, Refused)
        refused[kind, draft.reason.partition(" (")[0].partition(":")[0]] += 1
    raise RuntimeError(f"{row}: none of {ATTEMPTS} simulated objects gave a demonstration: {dict(refused)}")


def _draft(row: Row, seen: Seen, attempt: int, settings: Settings) -> Taught | Refused:
    task = builtin_tasks()[row.task]
    opening = ZoomTool(seen.spectrum, style=settings.style, size=picture_size(settings.picture_size)).opening()
    if missing := missing_requirement(task.requires, opening.data):
        return Refused(f"nothing to judge by: {missing}")
    question = Question(
        id=f"{seen.name}-{row.task}",
        name=seen.name,
        task=row.task,
        spectrum=SpectrumRef(array_file=f"{seen.name}.npz"),
        answer=row.answer,
        object_id=seen.object_id,
        label_source="simulated",
    )
    rng = np.random.default_rng([settings.seed, VERSION, _TEACHER, row.number, attempt])
    return _teacher(row.task, settings).teach(question, seen.spectrum, rng)


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
