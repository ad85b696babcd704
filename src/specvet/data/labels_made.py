"""Makes a set of a person's labels: questions, and demonstrations by the teacher, in a folder that training reads.

    questions.jsonl            all of them; `split` says which part each belongs to
    train.jsonl, val.jsonl     the same, apart
    sft_train.jsonl, sft_val.jsonl, images/      cold-start drafts, where drafts were asked for
    tasks/KEY.yaml             the user's own tasks
    spectra/                   copies, where copies were asked for
    rejects.jsonl, stats.json  what was left out, and counts

What is done is written down line by line (`made.jsonl`: what each file holds, what became of each draft), so that a run
that was stopped goes on, and one that is repeated does nothing twice. A draft is made again when its spectrum, label,
task or style has changed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from specvet.data.files import SpectrumFiles, failure
from specvet.data.labels import Agreed, Label, Left
from specvet.data.labels_files import copy_spectrum, put, read_journal, relative, state_of
from specvet.data.labels_objects import Sighting, objects_of
from specvet.data.splits import Row, held_out
from specvet.data.teacher import Taught, Teacher
from specvet.records import text_hash
from specvet.records.files import TEMPORARY
from specvet.records.lock import FolderLock
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum
from specvet.tasks import Task
from specvet.views import REFERENCE_STYLE

VERSION = 3
"""Of the drafts that are made; another makes them anew."""

JOURNAL = "made.jsonl"
OWN_TASKS = "tasks"


class Stop(Protocol):
    """Tells whether to stop before the next draft."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How a set is made."""

    style: str = REFERENCE_STYLE
    drafts: bool = True
    copy: bool = False
    val_share: float = 0.1
    seed: int = 0
    max_turns: int = 8


@dataclass(slots=True)
class Made:
    """What became of the labels."""

    folder: Path
    stats: dict[str, Any]
    left: list[Left]
    drafted_now: int
    """Drafts tried in this call; the others were found."""
    again: list[Left] = field(default_factory=list)
    """Labels that stay in the questions although the evidence says otherwise: to look at again."""
    stopped: bool = False
    """Before all drafts were tried; the same call goes on."""


@dataclass(slots=True)
class _Held:
    """What is known of a spectrum without reading it again."""

    rows: list[int]
    positions: list[tuple[float, float] | None]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A label whose spectrum can be read."""

    label: Label
    name: str
    """Its own for each spectrum."""
    position: tuple[float, float] | None
    """Right ascension and declination, degrees."""


@dataclass(slots=True)
class _Set:
    """One set in the making."""

    folder: Path
    tasks: Mapping[str, Task]
    settings: Settings
    told: Callable[[str, int, int], None]
    files: SpectrumFiles = field(default_factory=lambda: SpectrumFiles(2))
    journal: dict[str, dict[str, Any]] = field(default_factory=dict)
    teachers: dict[str, Teacher] = field(default_factory=dict)


def make_labelled(
    folder: str | Path,
    labels: Agreed,
    tasks: Mapping[str, Task],
    settings: Settings,
    *,
    own_tasks: Mapping[str, bytes] | None = None,
    told: Callable[[str, int, int], None] = lambda what, done, total: None,
    stop: Stop | None = None,
) -> Made:
    """Write the set of `labels` into `folder`; see the module. `tasks` are those of the labels, by key.

    `own_tasks` are the YAML files of those that are not built in; they are written beside the questions. Raises
    ValueError for a share that is none, RunLockedError while another process writes the folder.
    """
    if not 0.0 <= settings.val_share < 1.0:
        raise ValueError(f"--val-share {settings.val_share}: a share from 0 to below 1 is needed")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        for half in folder.glob(TEMPORARY):
            half.unlink(missing_ok=True)
        work = _Set(folder, tasks, settings, told)
        work.journal = read_journal(folder / JOURNAL)
        for key, yaml in (own_tasks or {}).items():
            (folder / OWN_TASKS).mkdir(exist_ok=True)
            put(folder / OWN_TASKS / f"{key}.yaml", yaml.decode("utf-8"))
        return _make(work, labels, stop)
    finally:
        lock.release()


def _make(work: _Set, labels: Agreed, stop: Stop | None) -> Made:
    held = _held_of(work, labels)
    labels = labels.of_several({os.path.abspath(f): len(h.rows) for f, h in held.items() if len(h.rows) > 1})
    left = list(labels.left)
    readable = _readable(labels.labels, held, left)
    questions = _questions(work, readable)
    drafts: dict[str, dict[str, Any]] = {}
    again: list[Left] = []
    tried, stopped = 0, False
    if work.settings.drafts:
        with open(work.folder / JOURNAL, "a", encoding="utf-8") as journal:
            for number, (of, question) in enumerate(zip(readable, questions, strict=True)):
                label = of.label
                work.told("drafts", number, len(questions))
                key = _draft_key(work, label, question)
                found = work.journal.get(key)
                if found is None or not _is_whole(work.folder, found):
                    if stop is not None and stop.is_set():
                        stopped = True
                        break
                    found = {"key": key, **_drafted(work, label, question)}
                    tried += 1
                    journal.write(json.dumps(found, ensure_ascii=False) + "\n")
                    journal.flush()
                if "reason" in found:
                    left.append(label.left("draft", found["reason"]))
                    if found.get("contradicts"):
                        again.append(left[-1])
                else:
                    drafts[question.id] = found
        work.told("drafts", len(questions) if not stopped else tried, len(questions))
    return _written(work, labels, questions, drafts, left, again, tried, stopped)


def _held_of(work: _Set, labels: Agreed) -> dict[str, _Held]:
    """What each file holds, by its path as labels and rows write it."""
    held: dict[str, _Held] = {}
    for n, file in enumerate(files := sorted({label.file for label in labels.labels} | labels.unplaced())):
        work.told("files", n, len(files))
        held[file] = _held(work, file)
    work.told("files", len(files), len(files))
    return held


def _readable(labels: Sequence[Label], held: Mapping[str, _Held], left: list[Left]) -> list[_Found]:
    """The labels whose spectrum can be read; the others are added to `left`."""
    found: list[_Found] = []
    names: dict[str, tuple[str, int]] = {}
    for label in labels:
        of_file = held[label.file]
        name, place = _name(label, len(of_file.rows) > 1), (os.path.abspath(label.file), label.row)
        if problem := of_file.problem or _wrong_row(label, of_file):
            left.append(label.left("unreadable", problem))
        elif names.setdefault(name, place) != place:
            other, row = names[name]
            left.append(label.left("name taken", f"{other} row {row} is called {name!r} too; give each a name"))
        else:
            found.append(_Found(label, name, of_file.positions[of_file.rows.index(label.row)]))
    return found


def _wrong_row(label: Label, held: _Held) -> str:
    if label.row not in held.rows:
        return f"there is no row {label.row}; the file holds {len(held.rows)}, from 0"
    return ""


def _held(work: _Set, file: str) -> _Held:
    """What a file holds: from the journal where it has not changed since."""
    key = f"file {os.path.abspath(file)} {state_of(file)}"
    found = work.journal.get(key)
    if found is None:
        try:
            spectra = work.files.spectra(file)
            found = {
                "key": key,
                "rows": [s.row for s in spectra],
                "positions": [None if s.ra is None or s.dec is None else [s.ra, s.dec] for s in spectra],
            }
        except MemoryError:
            raise
        except Exception as e:  # a reader may fail on anything that a file may hold
            return _Held([], [], failure(e))
        with open(work.folder / JOURNAL, "a", encoding="utf-8") as journal:
            journal.write(json.dumps(found) + "\n")
    return _Held(found["rows"], [None if p is None else (p[0], p[1]) for p in found["positions"]])


def _name(label: Label, many: bool) -> str:
    """The table's, else the file's, with the row where it holds several."""
    return label.name or os.path.basename(label.file) + (f"#{label.row}" if many else "")


def _questions(work: _Set, found: Sequence[_Found]) -> list[Question]:
    """A question each, split by object."""
    objects = objects_of([Sighting(f.label.file, f.label.row, f.name, f.label.object_id, f.position) for f in found])
    rows = [Row(name, f.label.task, f.label.answer) for name, f in zip(objects, found, strict=True)]
    targets = {task: round(work.settings.val_share * n) for task, n in Counter(r.task for r in rows).items()}
    held = held_out(rows, targets, work.settings.seed)
    places = _places(work, [f.label.file for f in found])
    return [
        Question(
            id=f"{f.label.task}-{f.name}",
            task=f.label.task,
            spectrum=SpectrumRef(path=places[f.label.file], row=f.label.row),
            name=f.name,
            answer=f.label.answer,
            split="val" if i in held else "train",
            object_id=objects[i],
            label_source=f.label.label_source,
        )
        for i, f in enumerate(found)
    ]


def _places(work: _Set, files: Sequence[str]) -> dict[str, str]:
    """Where each file lies, seen from the folder; copied into it where that was asked for."""
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for file in dict.fromkeys(files):
        if not work.settings.copy:
            found[file] = relative(file, work.folder)
            continue
        base = os.path.basename(file)
        if taken.setdefault(base, file) != file:  # another folder's file of the same name
            base = f"{text_hash(os.path.abspath(os.path.dirname(file)))[:8]}/{base}"
        found[file] = f"spectra/{base}"
        copy_spectrum(file, work.folder / "spectra" / base)
    return found


# Drafts --------------------------------------------------------------------------------------------------------------


def _draft_key(work: _Set, label: Label, question: Question) -> str:
    """What a draft follows from; anything else may change without its being made again."""
    s = work.settings
    task = text_hash(work.tasks[label.task].model_dump_json())
    parts = [VERSION, s.style, s.seed, s.max_turns, task, os.path.basename(label.file), state_of(label.file)]
    return "draft " + text_hash(json.dumps([*parts, question.model_dump(exclude={"spectrum", "split"})]))


def _drafted(work: _Set, label: Label, question: Question) -> dict[str, Any]:
    """The demonstration as a line, with its pictures written; or the reason why there is none."""
    try:
        spectrum: Spectrum = work.files.row(label.file, label.row)
        taught = _teacher(work, label.task).teach(question, spectrum, _rng(work, question))
    except MemoryError:
        raise
    except Exception as e:  # a file that changed under our hands, or a spectrum beyond all expectation
        return {"reason": failure(e)}
    if not isinstance(taught, Taught):
        return {"reason": taught.reason, "contradicts": taught.contradicts}
    demonstration = taught.demonstration(work.folder, question.id)
    pictures = {path: (work.folder / path).stat().st_size for path in demonstration.pictures}
    return {"line": demonstration.line(), "pictures": pictures, "calls": taught.n_calls, "words": taught.words}


def _teacher(work: _Set, task: str) -> Teacher:
    if task not in work.teachers:
        s = work.settings
        work.teachers[task] = Teacher(work.tasks[task], style=s.style, max_turns=s.max_turns)
    return work.teachers[task]


def _rng(work: _Set, question: Question) -> np.random.Generator:
    """Of its own for each question, whatever else the table holds."""
    return np.random.default_rng([work.settings.seed, int(text_hash(question.id)[:15], 16)])


def _is_whole(folder: Path, found: Mapping[str, Any]) -> bool:
    """Whether the pictures of a draft are there."""
    try:
        return all((folder / path).stat().st_size == size for path, size in found.get("pictures", {}).items())
    except OSError:
        return False


# Files ---------------------------------------------------------------------------------------------------------------


def _written(
    work: _Set, labels: Agreed, questions: Sequence[Question],
    drafts: Mapping[str, Mapping[str, Any]], left: list[Left], again: list[Left], tried: int,
    stopped: bool,
) -> Made:  # fmt: skip
    folder, s = work.folder, work.settings
    parts = ("train", "val") if s.val_share else ("train",)
    lines = {part: [q.model_dump_json(exclude_none=True) for q in questions if q.split == part] for part in parts}
    put(folder / "questions.jsonl", _lines(q.model_dump_json(exclude_none=True) for q in questions))
    for part in parts:
        put(folder / f"{part}.jsonl", _lines(lines[part]))
        if s.drafts:
            shown = [drafts[q.id]["line"] for q in questions if q.split == part and q.id in drafts]
            put(folder / f"sft_{part}.jsonl", _lines(shown))
    put(folder / "rejects.jsonl", _lines(json.dumps(x.fields(), ensure_ascii=False) for x in left))
    by_task = {
        task: {
            "YES": sum(q.answer == "YES" for q in questions if q.task == task),
            "NO": sum(q.answer == "NO" for q in questions if q.task == task),
            "val": sum(q.split == "val" for q in questions if q.task == task),
            "drafts": sum(q.id in drafts for q in questions if q.task == task),
        }
        for task in sorted({q.task for q in questions})
    }
    calls = Counter(int(d["calls"]) for d in drafts.values())
    stats = {
        "questions": len(questions),
        "spectra": len({(q.spectrum.path, q.spectrum.row) for q in questions}),
        "objects": len({q.object_id for q in questions}),
        "tasks": by_task,
        "drafts": len(drafts),
        "drafts_train": sum(q.id in drafts for q in questions if q.split == "train"),
        "drafts_val": sum(q.id in drafts for q in questions if q.split == "val"),
        "calls": {str(n): calls[n] for n in sorted(calls)},
        "left": dict(sorted(Counter(x.kind for x in left).items())),
        "look_again": [x.fields() for x in again],
        "empty": labels.empty,
        "style": s.style,
        "copied": s.copy,
        "complete": not stopped,
    }
    put(folder / "stats.json", json.dumps(stats, indent=1, ensure_ascii=False) + "\n")
    return Made(folder, stats, left, tried, again, stopped)


def _lines(lines: Any) -> str:
    return "".join(f"{line}\n" for line in lines)
