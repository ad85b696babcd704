"""The rows of SimVI: a spectrum as LAMOST would have taken it, its figure, and a teacher's trajectory about it.

These run in worker processes; each follows from the seed and its row alone, whoever makes it and when.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from specvet.agent.opening import IMAGE_MARK
from specvet.agent.requirements import missing_requirement
from specvet.data.published.writing import BenchRow, ColdStartRow
from specvet.data.simulate import kinds
from specvet.data.simulate.observed import Observed
from specvet.data.simulate.observing import observe, spectrum
from specvet.data.simulate.source import Source
from specvet.data.simulate.templates import Templates, load_templates
from specvet.data.simvi.plan import Part, Row
from specvet.data.teacher import Refused, Teacher, VoiceName
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Redshift, Spectrum
from specvet.tasks import SYSTEM_TEXT, Wording, builtin_tasks, question_text
from specvet.tools import ZoomTool
from specvet.views import picture_size

VERSION = 1
"""Of the draws: another version is another set."""

SURVEY: Final = "lamost"
MAX_TURNS = 8
ATTEMPTS = 30
"""How often an object is observed anew until its spectrum offers what the task requires."""

_SOURCE, _OBSERVATION, _TEACHER = 1, 2, 3
"""Streams of random numbers."""

Truth = dict[str, str | float | int]
"""Column → value."""

TRUTH_COLUMNS = (
    "name", "object_id", "part", "task", "answer", "kind", "subtype", "snr", "velocity_km_s", "redshift", "pipeline_z",
    "ebv", "defects", "template",
)  # fmt: skip

_ID = uuid.UUID("6f1d0f0e-3e4b-5d8e-9d1a-51b0c1a70001")
"""Namespace of the rows' ids."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all rows of a set share."""

    seed: int
    style: str
    templates: str | None
    """Folder of real spectra that may seed sources."""
    voice: VoiceName = "full"
    """Of the trajectories, as the next two: questions are published as they are."""
    wording: Wording = "full"
    picture_size: str | None = None
    """Of the compact style, see `specvet.views.picture_size`."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A row with its spectrum, as it is published."""

    row: Row
    observed: Observed
    spectrum: Spectrum

    @property
    def truth(self) -> Truth:
        """What only the simulator knows, and whoever analyses results."""
        source = self.observed.source
        return {
            "name": self.observed.name,
            "object_id": self.observed.object_id,
            "part": self.row.part,
            "task": self.row.task,
            "answer": self.row.answer,
            "kind": source.kind,
            "subtype": source.subtype,
            "snr": round(self.observed.snr, 2),
            "velocity_km_s": round(source.velocity_km_s, 1),
            "redshift": round(source.redshift, 5),
            "pipeline_z": "" if self.observed.pipeline_z is None else round(self.observed.pipeline_z, 6),
            "ebv": round(source.ebv, 3),
            "defects": "; ".join(self.observed.defects),
            "template": source.template,
        }


def bench_rows(rows: Sequence[Row], settings: Settings) -> list[tuple[BenchRow, Truth]]:
    """The published row and the truth of each."""
    return [(_bench_row(seen, settings), seen.truth) for seen in (see(row, settings) for row in rows)]


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """What the teacher made of a row."""

    row: Row
    written: ColdStartRow | None
    """None where the draft was refused."""
    refused: str
    """Why; empty where it was not."""
    truth: Truth


def draft(row: Row, settings: Settings) -> Draft:
    """A teacher's trajectory about a row."""
    seen = see(row, settings)
    rng = np.random.default_rng([settings.seed, VERSION, _TEACHER, *row.key])
    taught = _teacher(row.task, settings).teach(_question(seen), seen.spectrum, rng)
    if isinstance(taught, Refused):
        return Draft(row, None, taught.reason, seen.truth)
    said = taught.conversation
    index = 10 * row.number + row.epoch
    written = ColdStartRow(said.messages, said.tools, seen.observed.name, row.answer, index, row.task)
    return Draft(row, written, "", seen.truth)


def see(row: Row, settings: Settings) -> Seen:
    """A row's object as LAMOST sees it, with a spectrum of which its question can be asked.

    Raises RuntimeError where none of `ATTEMPTS` observations offers what the task requires.
    """
    source = _source(row, settings)
    task = builtin_tasks()[row.task]
    problem = ""
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([settings.seed, VERSION, _OBSERVATION, *row.key, attempt])
        observed = observe(source, SURVEY, rng, object_number=row.number, epoch=row.epoch)
        seen = spectrum(observed)
        problem = missing_requirement(task.requires, ZoomTool(seen, style=settings.style).opening().data)
        if not problem:
            return Seen(row, observed, as_published(seen))
    raise RuntimeError(f"{row}: none of {ATTEMPTS} simulated observations can be asked about; the last: {problem}")


def as_published(spectrum: Spectrum) -> Spectrum:
    """What the published arrays hold of a spectrum, and so all that whoever is asked will get: no errors, no class."""
    z = Redshift(spectrum.redshift.value or 0.0, None, "redshift")
    return Spectrum(
        spectrum.wavelength, spectrum.flux, medium="vacuum", redshift=z, id=spectrum.id, layout="npz", row=0
    )


def _source(row: Row, settings: Settings) -> Source:
    rng = np.random.default_rng([settings.seed, VERSION, _SOURCE, row.number])
    source = kinds.make(row.kind, rng)
    return source if settings.templates is None else part_templates(settings.templates, row.part).seed(source, rng)


def _bench_row(seen: Seen, settings: Settings) -> BenchRow:
    row, observed = seen.row, seen.observed
    opening = _tool(seen.spectrum, settings.style).opening()
    assert opening.view is not None
    return BenchRow(
        data_source="carbon" if row.task == "cc" else row.task,
        name=observed.name,
        index=str(uuid.uuid5(_ID, f"{settings.seed} {row.task} {observed.name}")),
        system=SYSTEM_TEXT,
        user=f"{IMAGE_MARK}\n{opening.text}\n\n{question_text(builtin_tasks()[row.task], MAX_TURNS)}",
        answer=row.answer,
        wavelength=seen.spectrum.wavelength,
        flux=seen.spectrum.flux,
        redshift=seen.spectrum.redshift.value or 0.0,
        image=opening.view.png,
    )


def _question(seen: Seen) -> Question:
    name = seen.observed.name
    return Question(
        id=name,
        name=name,
        task=seen.row.task,
        spectrum=SpectrumRef(array_file=f"{name}.npz"),
        answer=seen.row.answer,
        object_id=seen.observed.object_id,
        label_source="simulated",
    )


def _tool(spectrum: Spectrum, style: str) -> ZoomTool:
    from specvet.data.asking import figure_title

    return ZoomTool(spectrum, style=style, title=figure_title("plain", style))


@lru_cache(maxsize=8)
def _teacher(task: str, settings: Settings) -> Teacher:
    return Teacher(
        builtin_tasks()[task],
        style=settings.style,
        max_turns=MAX_TURNS,
        voice=settings.voice,
        wording=settings.wording,
        size=picture_size(settings.picture_size),
    )


@lru_cache(maxsize=4)
def part_templates(folder: str, part: Part) -> Templates:
    """The real objects that may seed this part's: each seeds one part alone, and train's trajectories as train."""
    found = load_templates(folder)
    return Templates(
        [t for t in found.templates if template_part(t.object_id) == ("train" if part == "spare" else part)]
    )


def template_part(object_id: str) -> Part:
    """Which part a real object may seed: five in ten train, three test, two val, by a hash of its id."""
    tenth = int.from_bytes(hashlib.sha256(f"part {object_id}".encode()).digest()[:8], "big") % 10
    return "train" if tenth < 5 else "test" if tenth < 8 else "val"
