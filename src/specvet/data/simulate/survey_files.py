"""A simulated survey as a folder: native files, the truth about each, and questions.

    FOLDER/spectra/lamost/0000/spec-….fits     as the survey lays them out, 1,000 objects a folder
    FOLDER/truth.csv                           one row a spectrum, see `TRUTH`; `specvet vet` takes it as a list
    FOLDER/questions.jsonl                     one line a spectrum and task, see `specvet.data.questions`
    FOLDER/simulated.json                      the settings

Objects are made in blocks. A block that is done leaves its rows of the truth in `.parts`, so that an interrupted run
goes on behind it; `truth.csv` comes last, and a folder that has it is finished. All paths are relative to the folder.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.data.errors import InputError
from specvet.data.processes import in_any_order
from specvet.data.simulate import layouts
from specvet.data.simulate.kinds import KINDS, TASKS
from specvet.data.simulate.observed import Observed
from specvet.data.simulate.survey import (
    EPOCHS,
    VERSION,
    Drawing,
    SnrRange,
    SurveyChoice,
    checked,
    epochs_of,
    kind_weights,
)
from specvet.records.hashing import file_hash
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

if TYPE_CHECKING:
    from specvet.data.simulate.templates import Templates

BLOCK = 50
"""Objects that are done together; no more than a DESI file holds."""
PER_FOLDER = 1_000

TRUTH = (
    "name", "object_id", "epoch", "file", "row", "kind", "subtype", *TASKS, "survey", "snr", "mjd", "z_true",
    "z_pipeline", "ebv", "defects", "template",
)  # fmt: skip
"""Columns of `truth.csv`. The tasks' columns hold YES or NO; `z_true` has the velocity in it."""

SETTINGS, TRUTH_FILE, QUESTIONS_FILE, _PARTS = "simulated.json", "truth.csv", "questions.jsonl", ".parts"

Progress = Callable[[str, int, int], None]
"""What is done, how many of how many."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What lies in the folder."""

    folder: Path
    objects: int
    spectra: int
    yes: dict[str, int]
    """Task → spectra whose answer is YES."""
    made: bool
    """Whether this call did anything."""
    finished: bool
    """False where it was asked to stop."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What a worker needs."""

    folder: Path
    n: int
    drawing: Drawing
    """Without templates, which each process loads for itself."""
    templates: str | None
    release: str


def write_survey(
    folder: str | os.PathLike[str],
    n: int,
    survey: SurveyChoice,
    seed: int = 0,
    *,
    kinds: Mapping[str, float] | Iterable[str] | None = None,
    snr: SnrRange | None = None,
    epochs: float = EPOCHS,
    templates: str | None = None,
    release: str = "dr9",
    tasks: Sequence[str] = TASKS,
    workers: int = 1,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Survey:
    """Write a survey of `n` objects, or go on with it, or find it finished.

    Args:
        templates: folder of real spectra that seed some sources, with a `manifest.csv`.
        release: layout of LAMOST's files, see `layouts.write`.
        tasks: what is asked of every spectrum.
        workers: processes; what is written does not depend on it. More than one are new interpreters ("spawn"), so a
            script needs the usual `if __name__ == "__main__":`.
        stop: once it is set, blocks under way are finished and no more are begun.

    Raises InputError for settings that cannot be, and for a folder that holds something else; OSError.
    """
    try:
        drawing = checked(Drawing(seed, survey, tuple(kind_weights(kinds).items()), snr, epochs))
    except ValueError as e:
        raise InputError(str(e)) from None
    if unknown := [task for task in tasks if task not in TASKS]:
        raise InputError(f"there is no answer to the task {unknown[0]!r}; known are {', '.join(TASKS)}")
    if release not in layouts.RELEASES:
        raise InputError(f"the layout of LAMOST {release} is not written; there are {', '.join(layouts.RELEASES)}")
    if n < 1 or not tasks or workers < 1:
        raise InputError("give at least one object, one task and one worker")
    job = _Job(Path(folder), n, drawing, templates, release)
    finished = _opened(job, tuple(dict.fromkeys(tasks)))
    if not finished:
        if not _made(job, workers, progress or (lambda *_: None), stop or threading.Event()):
            return _counted(job.folder, _rows_of_parts(job.folder), made=True, finished=False)
        _finish(job.folder, tuple(dict.fromkeys(tasks)))
    shutil.rmtree(job.folder / _PARTS, ignore_errors=True)
    with open(job.folder / TRUTH_FILE, encoding="utf-8", newline="") as file:
        return _counted(job.folder, csv.DictReader(file), made=not finished, finished=True)


def _opened(job: _Job, tasks: Sequence[str]) -> bool:
    """Make the folder, or see that it is one of these settings; whether it is finished. Raises InputError."""
    settings = {
        "simulated": True,
        "version": VERSION,
        "survey": job.drawing.survey,
        "n": job.n,
        "seed": job.drawing.seed,
        "kinds": dict(job.drawing.shares),
        "snr": list(job.drawing.snr) if job.drawing.snr else None,
        "epochs": job.drawing.epochs,
        "templates": templates_fingerprint(job.templates),
        "release": job.release if job.drawing.survey in ("lamost", "all") else None,
        "tasks": list(tasks),
    }
    file = job.folder / SETTINGS
    try:
        found = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if job.folder.exists() and (not job.folder.is_dir() or any(job.folder.iterdir())):
            raise InputError(f"{job.folder}: holds something else than a simulated survey; name a new folder") from None
        (job.folder / _PARTS).mkdir(parents=True)
        _replace(file, json.dumps(settings, indent=1) + "\n")
        return False
    except ValueError as e:
        raise InputError(f"{file}: is damaged ({e}); name a new folder") from None
    if other := [key for key in settings if not isinstance(found, dict) or found.get(key) != settings[key]]:
        was = found.get(other[0]) if isinstance(found, dict) else found
        raise InputError(
            f"{job.folder}: was made with another {other[0]} ({_short(was)}, not {_short(settings[other[0]])}); "
            "name a new folder"
        )
    (job.folder / _PARTS).mkdir(exist_ok=True)
    return (job.folder / TRUTH_FILE).is_file()


def _short(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, dict) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def templates_fingerprint(place: str | None) -> str | None:
    """What templates are: the hash of a folder's manifest, or of a file of them. They may lie anywhere."""
    if place is None:
        return None
    from specvet.data.simulate.templates_file import read_template_file
    from specvet.data.simulate.templates_manifest import MANIFEST, read_manifest

    whole = Path(place).is_file()
    try:
        (read_template_file if whole else read_manifest)(place)
    except ValueError as e:
        raise InputError(str(e)) from None
    return file_hash(Path(place) if whole else Path(place) / MANIFEST)


def _made(job: _Job, workers: int, progress: Progress, stop: threading.Event) -> bool:
    """Make the blocks that are missing; False where it was stopped before the last."""
    blocks = range(-(-job.n // BLOCK))
    missing = [block for block in blocks if not _part(job.folder, block).is_file()]
    done = job.n - sum(_size(job, block) for block in missing)
    progress("objects", done, job.n)
    workers = min(workers, len(missing))
    if workers > 1 and job.templates:
        _loaded(job.templates)  # read them once, into the cache that the workers take them from
    for block in in_any_order(partial(_make_block, job), missing, workers, stop):
        done += _size(job, block)
        progress("objects", done, job.n)
    return done == job.n


def _size(job: _Job, block: int) -> int:
    return min(BLOCK, job.n - block * BLOCK)


@lru_cache(maxsize=1)
def _loaded(templates: str) -> Templates:
    from specvet.data.simulate.templates import load_templates

    return load_templates(templates)


def _make_block(job: _Job, block: int) -> int:
    """Write the files of a block, then its rows of the truth, which say that it is done."""
    first = block * BLOCK
    drawing = replace(job.drawing, templates=_loaded(job.templates)) if job.templates else job.drawing
    spectra = [one for i in range(first, first + _size(job, block)) for one in epochs_of(i, drawing)]
    by_survey: dict[str, list[Observed]] = {}
    for one in spectra:
        by_survey.setdefault(one.survey, []).append(one)
    files: dict[str, Path] = {}
    for survey, members in by_survey.items():
        place = Path("spectra") / survey / f"{first // PER_FOLDER:04d}"
        paths = layouts.write(members, job.folder / place, release=job.release)
        files |= {one.name: place / path.name for one, path in zip(members, paths, strict=True)}
    rows: dict[Path, int] = {}
    lines = []
    for one in spectra:
        file = files[one.name]
        rows[file] = rows.get(file, -1) + 1
        lines.append(json.dumps(_truth(one, file.as_posix(), rows[file]), ensure_ascii=False))
    _replace(_part(job.folder, block), "".join(f"{line}\n" for line in lines))
    return block


def _truth(one: Observed, file: str, row: int) -> list[str]:
    """One row of `TRUTH`."""
    source, kind = one.source, KINDS[one.source.kind]
    z_true = (1.0 + source.redshift) * (1.0 + source.velocity_km_s / SPEED_OF_LIGHT_KM_S) - 1.0
    stated = "" if one.pipeline_z is None else f"{one.pipeline_z:.8f}"
    answers = [kind.answer(task) for task in TASKS]
    seen = [one.survey, f"{one.snr:.3f}", str(one.mjd), f"{z_true:.8f}", stated, f"{source.ebv:.4f}"]
    known = [one.name, one.object_id, str(one.epoch), file, str(row), source.kind, source.subtype]
    return [*known, *answers, *seen, "; ".join(one.defects), source.template]


def _part(folder: Path, block: int) -> Path:
    return folder / _PARTS / f"{block:06d}.jsonl"


def _rows_of_parts(folder: Path) -> Iterator[dict[str, str]]:
    """Rows of the truth of all blocks that are done, in the order of objects."""
    for part in sorted((folder / _PARTS).glob("*.jsonl")):
        with open(part, encoding="utf-8") as lines:
            for line in lines:
                yield dict(zip(TRUTH, json.loads(line), strict=True))


def _finish(folder: Path, tasks: Sequence[str]) -> None:
    """Questions, then the truth: whoever finds it finds all."""
    _replace(folder / QUESTIONS_FILE, _questions(_rows_of_parts(folder), tasks))
    partly = folder / _PARTS / TRUTH_FILE
    with open(partly, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, TRUTH, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rows_of_parts(folder))
    os.replace(partly, folder / TRUTH_FILE)


def _questions(rows: Iterable[dict[str, str]], tasks: Sequence[str]) -> Iterator[str]:
    for row in rows:
        for task in tasks:
            question = {
                "id": f"{row['name']}-{task}",
                "task": task,
                "spectrum": {"path": row["file"], "row": int(row["row"])},
                "name": row["name"],
                "answer": row[task],
                "object_id": row["object_id"],
                "label_source": "simulated",
            }
            yield json.dumps(question) + "\n"


def _replace(path: Path, text: str | Iterable[str]) -> None:
    """Write a text so that a killed process leaves all of it or nothing."""
    partly = path.with_name(f".{path.name}.partly")
    with open(partly, "w", encoding="utf-8", newline="\n") as file:
        file.writelines([text] if isinstance(text, str) else text)
    os.replace(partly, path)


def _counted(folder: Path, rows: Iterable[Mapping[str, str]], *, made: bool, finished: bool) -> Survey:
    objects, spectra, yes = set[str](), 0, dict.fromkeys(TASKS, 0)
    for row in rows:
        objects.add(row["object_id"])
        spectra += 1
        for task in TASKS:
            yes[task] += row[task] == "YES"
    return Survey(folder, len(objects), spectra, yes, made, finished)
