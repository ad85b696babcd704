"""The rows of a benchmark as questions, their spectra and pictures written as they come."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.data.mojibake import UNRESOLVED, Repaired, repaired
from specvet.data.published.layout import task_of
from specvet.data.published.naming import Ids, Names
from specvet.data.published.outputs import Outputs
from specvet.data.published.parquet import Published
from specvet.data.published.sharegpt import Cleaned, RowError, line_of, moved
from specvet.data.published.toolblock import WithoutBlock, without_tool_block
from specvet.data.splits import linked
from specvet.records import bytes_hash
from specvet.records.schema import Question, SpectrumRef


class Collected:
    """What has been read so far. Holds questions and hashes, no arrays: equal texts are kept once."""

    def __init__(self, outputs: Outputs, objects: Mapping[str, str], label_source: str) -> None:
        self._outputs, self._objects, self._label_source = outputs, objects, label_source
        self.questions: dict[str, list[Question]] = {"train": [], "val": [], "test": []}
        self.seen: dict[str, Counter[str]] = {part: Counter() for part in self.questions}
        """Rows of each part and task, usable or not."""
        self.rejects: list[dict[str, Any]] = []
        self.cleaning: list[str] = []
        self.without_redshift = 0
        self._spectra, self._pictures = Names(), Names()
        self._texts: dict[str, str] = {}
        self._asked: dict[tuple[str, str, str], str] = {}
        self._ids = Ids()
        self._first_with: dict[str, str] = {}
        """Hash of a flux → the first published name that it came under."""
        self._twins: dict[tuple[str, str], None] = {}
        self._published: dict[str, str] = {}
        """Name of a spectrum, its own for each → the name that it was published with."""
        self._prompts_repaired = self._prompts_unresolved = self._repairs = self._places = 0
        self._joined: dict[str, str] = {}

    def add(self, part: str, file: str, number: int, row: Published | RowError) -> None:
        """One row of a file, or why it cannot be used."""
        if isinstance(row, RowError):
            self.seen[part][task_of(file)] += 1
            self._reject(part, file, number, row.name, str(row))
            return
        self.seen[part][row.task] += 1
        stem = self._spectra.given(row.name, _content(row))
        asked = (part, stem, row.task)
        if asked in self._asked:
            same = "the same answer" if self._asked[asked] == row.answer else "another answer"
            self._reject(part, file, number, row.name, f"asked before of the same spectrum: with {same}")
            return
        self._asked[asked] = row.answer
        if not self._outputs.has(f"spectra/{stem}.npz"):
            self._outputs.put(f"spectra/{stem}.npz", _npz(row))
            self._note(row, stem)
        self.without_redshift += row.redshift is None
        picture = self._pictures.given(row.name, bytes_hash(row.image))
        self._outputs.put(f"images/{picture}.{row.suffix}", row.image)
        self.questions[part].append(self._question(row, stem, f"images/{picture}.{row.suffix}"))

    def join_objects(self) -> None:
        """Make spectra of equal flux one object, whatever their names; they may be one observation released twice."""
        self._joined = linked((self._object(a), self._object(b)) for a, b in self._twins)
        if any(name != root for name, root in self._joined.items()):
            for part, questions in self.questions.items():
                self.questions[part] = [
                    q.model_copy(update={"object_id": self._joined.get(str(q.object_id), q.object_id)})
                    for q in questions
                ]

    def objects_of(self, names: Collection[str]) -> set[str]:
        """The objects that these spectra show."""
        own = {self._object(name) for name in names}
        return own | {self._joined.get(object_id, object_id) for object_id in own}

    def n_of(self, questions: Iterable[Question], names: Collection[str]) -> int:
        """How many ask about spectra of these published names."""
        return sum(self._published[str(q.name)] in names for q in questions)

    def shared(self, part: str, seen: Collection[str]) -> dict[str, Any]:
        """What a part shares with train and with the cold start."""
        train = {q.object_id for q in self.questions["train"]}
        names = {self._published[str(q.name)] for q in self.questions["train"]}
        fluxes = {name for pair in self._twins for name in pair}
        questions = self.questions[part]
        both = sorted({str(q.object_id) for q in questions if q.object_id in train})
        return {
            "questions": sum(q.object_id in train for q in questions),
            "objects": both,
            "of_the_same_spectrum": self.n_of(questions, names),
            "of_the_same_flux": self.n_of((q for q in questions if q.object_id in train), fluxes - names),
            "questions_in_cold_start": self.n_of(questions, seen),
        }

    @property
    def n_spectra(self) -> int:
        return len(self._published)

    def _object(self, name: str) -> str:
        """Of a published name, before objects of equal flux are joined."""
        return self._objects.get(name, name)

    @property
    def twins(self) -> list[list[str]]:
        """Pairs of names with one flux."""
        return [list(pair) for pair in self._twins]

    @property
    def mojibake(self) -> dict[str, int]:
        """What was repaired in prompts and system texts."""
        return {
            "repairs": self._repairs,
            "questions_repaired": self._prompts_repaired,
            "questions_with_unresolved": self._prompts_unresolved,
            "unresolved_places": self._places,
        }

    def _note(self, row: Published, stem: str) -> None:
        self._published[self._name(row, stem)] = row.name
        if np.nanmin(row.flux) == np.nanmax(row.flux):
            return  # a flat line says nothing of whose it is
        flux = hashlib.sha256(row.flux.tobytes()).hexdigest()
        first = self._first_with.setdefault(flux, row.name)
        if first != row.name:
            self._twins[first, row.name] = None

    def _name(self, row: Published, stem: str) -> str:
        """The published name; with the hash of the spectrum where another one has it already."""
        return row.name if stem == self._spectra.first(row.name) else f"{row.name}#{stem[-8:]}"

    def _question(self, row: Published, stem: str, picture: str) -> Question:
        name = self._name(row, stem)
        id = self._ids.unique(row.index or f"{row.task}:{name}")
        own = None if row.system is None else without_tool_block(row.system)
        system = None if own is None else repaired(own.text)
        prompt = repaired(row.prompt)
        self._note_repairs(id, own, system, prompt)
        return Question(
            id=id,
            task=row.task,
            spectrum=SpectrumRef(array_file=f"spectra/{stem}.npz"),
            name=name,
            system=None if system is None else self._text(system.text),
            prompt=self._text(prompt.text),
            image=picture,
            answer=row.answer,
            object_id=self._object(row.name),
            label_source=self._label_source,
        )

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def _note_repairs(self, id: str, own: WithoutBlock | None, system: Repaired | None, prompt: Repaired) -> None:
        both = [prompt] if system is None else [system, prompt]
        changes = [] if system is None or own is None else [Cleaned(0, moved(c, own)) for c in system.changes]
        changes += [Cleaned(len(both) - 1, change) for change in prompt.changes]
        self.cleaning += [line_of(id, change) for change in changes]
        repairs = sum(cleaned.change.rule != UNRESOLVED for cleaned in changes)
        places = sum(text.unresolved for text in both)
        self._repairs += repairs
        self._prompts_repaired += repairs > 0
        self._places += places
        self._prompts_unresolved += places > 0

    def _reject(self, part: str, file: str, number: int, name: str, problem: str) -> None:
        reason, _, detail = problem.partition(": ")
        where = {"file": file, "row": number, "split": part}
        self.rejects.append({**where, "name": name, "reason": reason, "detail": detail})


def _content(row: Published) -> str:
    """What tells a spectrum from others of its name."""
    digest = hashlib.sha256(repr(row.redshift).encode())
    digest.update(row.wavelength.tobytes())
    digest.update(row.flux.tobytes())
    return digest.hexdigest()


def _npz(row: Published) -> bytes:
    """The spectrum as an archive: 32 bits where they hold the numbers exactly. Equal spectra give equal bytes."""
    arrays: dict[str, Any] = {"wavelength": _smallest(row.wavelength), "flux": _smallest(row.flux)}
    if row.redshift is not None:
        arrays["redshift"] = np.array(row.redshift)
    arrays |= {"id": np.array(row.name), "medium": np.array("vacuum")}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())  # dated 1980, whenever it is written
    return out.getvalue()


def _smallest(values: NDArray[np.float64]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    return short if np.array_equal(short, values, equal_nan=True) else values
