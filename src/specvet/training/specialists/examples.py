"""Questions as a classifier learns from them: what is seen of each spectrum, the task, and the answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specvet.agent.loop import task_hash
from specvet.data.asking import load_questions
from specvet.data.errors import InputError, Reject
from specvet.policies.specialists.card import Data, TaskCard
from specvet.policies.specialists.sight import seen
from specvet.records import file_hash, text_hash
from specvet.spectra import FrameMode, Spectrum
from specvet.views import COMPACT_STYLE

Measure = Callable[[Spectrum], NDArray[np.floating] | None]
"""What is made of a spectrum, always of one shape, or None where it shows nothing to learn from."""

HELD_OUT = 10
"""One object in so many is held out where no validation questions are given."""


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Questions in their order; arrays have shape (n_questions, …)."""

    tasks: dict[str, str]
    """Key → hash of the task as asked, sorted by key."""
    x: NDArray[np.floating]
    """What was measured."""
    task: NDArray[np.int64]
    """Place of each question's task in `tasks`."""
    yes: NDArray[np.bool_]
    objects: tuple[str, ...]
    spectra: tuple[str, ...]
    """Content hashes of the spectra as seen."""
    sources: tuple[str, ...]
    """The same of the spectra as read, which trajectories keep as well."""
    rejects: tuple[Reject, ...]
    file_sha256: str

    def __len__(self) -> int:
        return len(self.objects)

    def of(self, key: str) -> NDArray[np.bool_]:
        """Which questions ask about a task."""
        return np.asarray(self.task == list(self.tasks).index(key))

    def take(self, which: NDArray[np.bool_]) -> Examples:
        """Some of them."""
        told = (self.objects, self.spectra, self.sources)
        objects, spectra, sources = (tuple(np.array(of, dtype=object)[which].tolist()) for of in told)
        return replace(
            self,
            x=self.x[which],
            task=self.task[which],
            yes=self.yes[which],
            objects=objects,
            spectra=spectra,
            sources=sources,
        )

    def asked(self, tasks: dict[str, str], task: NDArray[np.int64]) -> Examples:
        """The same questions with their tasks' places in another list of tasks."""
        return replace(self, tasks=tasks, task=task)

    def data(self) -> Data:
        """As a card tells of them."""
        return Data(
            file_sha256=self.file_sha256,
            spectra_sha256=text_hash("\n".join(sorted(self.spectra))),
            questions=len(self),
            objects=len(set(self.objects)),
            rejects=len(self.rejects),
        )

    def task_cards(self) -> dict[str, TaskCard]:
        cards = {}
        for key, sha in self.tasks.items():
            yes = self.yes[self.of(key)]
            cards[key] = TaskCard(task_hash=sha, questions=int(yes.size), yes=int(yes.sum()))
        return cards


def read_examples(
    path: str,
    measure: Measure,
    frame_mode: FrameMode = "careful",
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Examples:
    """The questions of a file, each spectrum opened as an agent's tool opens it, and measured.

    `told` is called with how many are done, and of how many. Raises InputError: file, line and what is wrong.
    """
    questions = load_questions(path, frame_mode=frame_mode, style=COMPACT_STYLE)
    tasks = {key: task_hash(task) for key, task in sorted(questions.tasks.items())}
    places = {key: i for i, key in enumerate(tasks)}
    rejects = list(questions.rejects)
    x, task, yes, objects, spectra, sources = [], [], [], [], [], []
    for done, asked in enumerate(questions.asked):
        told(done, len(questions.asked))
        question = asked.question
        tool = questions.pose(asked).tool
        data = tool.opening().data
        spectrum = None if data is None else seen(data)
        found = None if spectrum is None else measure(spectrum)
        if spectrum is None or found is None:
            rejects.append(Reject(question.id, asked.where, "the spectrum shows nothing that is measured"))
            continue
        x.append(found)
        task.append(places[question.task])
        yes.append(question.answer == "YES")
        objects.append(question.object_id or question.name or f"{asked.file}#{question.spectrum.row}")
        spectra.append(spectrum.content_hash)
        sources.append(tool.spectrum.content_hash)
    if not x:
        raise InputError(f"{path}: no spectrum shows anything that is measured; the first: {rejects[0].where}")
    told(len(questions.asked), len(questions.asked))
    return Examples(
        tasks, np.stack(x), np.array(task), np.array(yes), tuple(objects), tuple(spectra), tuple(sources),
        tuple(rejects), file_hash(Path(path)),
    )  # fmt: skip


def held_out(examples: Examples, seed: int) -> tuple[Examples, Examples]:
    """What to learn from, and a tenth to validate with: whole objects, chosen by a hash of their names."""
    chosen = np.array([_number(name, seed) % HELD_OUT == 0 for name in examples.objects])
    return examples.take(~chosen), replace(examples.take(chosen), rejects=())  # told of the first part already


def both_answers(examples: Examples, where: str) -> None:
    """Raises InputError where a task has only one answer, of which nothing can be learnt."""
    for key in examples.tasks:
        yes = examples.yes[examples.of(key)]
        if not (yes.any() and not yes.all()):
            raise InputError(f"{where}: all {yes.size} questions about {key} have one answer; it takes YES and NO")


def _number(name: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "big")
