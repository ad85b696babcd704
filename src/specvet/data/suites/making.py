"""The spectra of a suite: an object, made, and seen by each of the suite's surveys, with the files that show it.

These run in worker processes; each object follows from the seed and its row alone, whoever makes it and when.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specvet.agent.requirements import missing_requirement
from specvet.data.simulate import kinds, layouts
from specvet.data.simulate.instruments import HABITS
from specvet.data.simulate.observed import Observed, SurveyName
from specvet.data.simulate.observing import observe, spectrum
from specvet.data.simulate.physics import truncated_normal
from specvet.data.simulate.source import Source
from specvet.data.simvi.making import as_published
from specvet.data.suites.classes import CLASSES, task_of
from specvet.data.suites.plan import SURVEYS, Row
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum
from specvet.tasks import Task, builtin_tasks
from specvet.tools import ZoomTool

VERSION = 1
"""Of the draws and files: another version is another suite."""

ATTEMPTS = 30
"""How often an object is observed anew, by all its surveys, until each spectrum offers what the question requires."""

BLOCK = 50
"""Objects that are made together; those of a block share a DESI file, which holds no more."""

FACTS = ("name", "object_id", "task", "answer", "kind", "subtype", "snr", "survey", "defects")
"""Columns of `facts.csv`."""

_SOURCE, _OBSERVATION = 21, 22
"""Streams of random numbers; SimVI has others."""

_SKY = ((112.0, 262.0), (-4.0, 60.0))
"""Degrees of right ascension and declination that LAMOST, SDSS and DESI all cover, roughly."""

_SURVEY_NAMES: dict[SurveyName, str] = {"lamost": "LAMOST", "sdss": "SDSS", "desi": "DESI"}
"""As spectra that are read say it."""


@dataclass(frozen=True, slots=True)
class Made:
    """One spectrum that lies in the folder: what is asked about it, and what is known of it."""

    question: Question
    facts: dict[str, str]


def make_block(rows: Sequence[Row], seed: int, folder: Path) -> list[Made]:
    """Write the spectra of some rows of one suite and task below `folder`; one of each row and survey, in order."""
    suite = rows[0].suite
    seen = [(row, one) for row in rows for one in see(row, seed)]
    by_survey = {name: [one for _, one in seen if one.survey == name] for name in SURVEYS[suite]}
    places: dict[str, SpectrumRef] = {}
    for name, members in by_survey.items():
        places |= (
            _native(members, folder, Path("spectra") / name)
            if suite == "cross-survey"
            else _arrays(members, folder, Path("spectra"), redshift=CLASSES[rows[0].task].redshift)
        )
    return [Made(_question(row, one, places[one.name]), _facts(row, one)) for row, one in seen]


def see(row: Row, seed: int) -> list[Observed]:
    """A row's object as each of its surveys sees it, with spectra of which its question can be asked.

    The object has one place in the S/N distributions of all surveys: what is bright for one is bright for the others.
    Raises RuntimeError where none of `ATTEMPTS` observations offers what the task requires.
    """
    source, problem = _source(row, seed), ""
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, VERSION, _OBSERVATION, row.number, attempt])
        brightness = truncated_normal(rng, 0.0, 1.0, -3.0, 3.0)
        position = _position(rng)
        seen = [
            observe(source, survey, rng, snr=_snr(survey, brightness), object_number=row.number, position=position)
            for survey in SURVEYS[row.suite]
        ]
        problem = next(filter(None, (_missing(row, one) for one in seen)), "")
        if not problem:
            return seen
    raise RuntimeError(f"{row}: none of {ATTEMPTS} simulated observations can be asked about; the last: {problem}")


def shown(row: Row, observed: Observed) -> Spectrum:
    """What whoever is asked gets to see: as the native file is read, or as published arrays."""
    if row.suite == "cross-survey":
        return spectrum(observed)
    return as_published(spectrum(observed))


def _source(row: Row, seed: int) -> Source:
    rng = np.random.default_rng([seed, VERSION, _SOURCE, row.number])
    unclear = CLASSES[row.task].unclear_subtypes if row.suite == "cross-task" else ()
    while True:
        source = kinds.make(row.kind, rng)
        if source.subtype not in unclear:
            return source


def _task(row: Row) -> Task:
    return builtin_tasks()[row.task] if row.suite == "cross-survey" else task_of(row.task)


def _missing(row: Row, observed: Observed) -> str:
    return missing_requirement(_task(row).requires, ZoomTool(shown(row, observed), style="compact").opening().data)


def _snr(survey: SurveyName, brightness: float) -> float:
    """The S/N a pixel of an object `brightness` σ from the median in the survey's own distribution."""
    habits = HABITS[survey]
    return float(np.clip(habits.snr_median * np.exp(habits.snr_sigma * brightness), *habits.snr_range))


def _position(rng: np.random.Generator) -> tuple[float, float]:
    (west, east), (south, north) = _SKY
    sine = rng.uniform(np.sin(np.radians(south)), np.sin(np.radians(north)))
    return float(rng.uniform(west, east)), float(np.degrees(np.arcsin(sine)))


def _native(members: Sequence[Observed], folder: Path, place: Path) -> dict[str, SpectrumRef]:
    """Native files below `folder`/`place`; where each spectrum lies, by its name."""
    rows: dict[str, int] = {}
    found = {}
    for one, path in zip(members, layouts.write(members, folder / place), strict=True):
        rows[path.name] = rows.get(path.name, -1) + 1
        found[one.name] = SpectrumRef(path=(place / path.name).as_posix(), row=rows[path.name])
    return found


def _arrays(members: Sequence[Observed], folder: Path, place: Path, *, redshift: bool) -> dict[str, SpectrumRef]:
    """One NPZ a spectrum, as SimVI has them: wavelength (Å, vacuum), flux, redshift (0 where none is told)."""
    (folder / place).mkdir(parents=True, exist_ok=True)
    found = {}
    for one in members:
        told = as_published(spectrum(one))
        buffer = io.BytesIO()
        np.savez(  # dates every member 1980, so that equal arrays are equal bytes
            buffer,
            wavelength=told.wavelength.astype(np.float32),
            flux=told.flux.astype(np.float32),
            redshift=np.array(told.redshift.value if redshift else 0.0),
            id=np.array(one.name),
            medium=np.array("vacuum"),
        )
        file = place / f"{one.name}.npz"
        (folder / file).write_bytes(buffer.getvalue())
        found[one.name] = SpectrumRef(array_file=file.as_posix())
    return found


def _question(row: Row, observed: Observed, place: SpectrumRef) -> Question:
    return Question(
        id=f"{observed.name}-{row.task}",
        task=row.task,
        spectrum=place,
        name=observed.name,
        answer=row.answer,
        object_id=observed.object_id,
        label_source="simulated",
    )


def _facts(row: Row, observed: Observed) -> dict[str, str]:
    values = (
        observed.name,
        observed.object_id,
        row.task,
        row.answer,
        observed.source.kind,
        observed.source.subtype,
        f"{observed.snr:.2f}",
        _SURVEY_NAMES[observed.survey],
        "; ".join(observed.defects),
    )
    return dict(zip(FACTS, values, strict=True))
