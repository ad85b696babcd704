"""Questions in bulk, SIMULATED: to learn from by rewards, or to choose a model by; of all surveys and containers.

    FOLDER/question_set.json    the settings
    FOLDER/questions.jsonl      the questions, see `specvet.data.questions`; written last
    FOLDER/facts.csv            what only the simulator knows of each, see `FACTS`
    FOLDER/spectra/00000-0.npz  the spectra, a few of one wavelength grid in each file, see `specvet.data.packed`
    FOLDER/stats.json           counts

What they are about is told in `specvet.data.drawing`. Question i follows from the seed, the settings and i alone; its
object is in no other set. A spectrum that does not offer what its task requires gives way to another.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from specvet.agent.requirements import missing_requirement
from specvet.data.drawing import Draws, Row, Seen, Streams, kinds_drawn, planned, see, templates_of
from specvet.data.errors import InputError
from specvet.data.packed import alike, packed
from specvet.data.simulate.survey_files import templates_fingerprint
from specvet.data.sliced import SLICES, STATS, Made, Progress, Slices, begin, make_set
from specvet.records import write_atomic
from specvet.records.schema import Question, SpectrumRef
from specvet.tasks import builtin_tasks
from specvet.tools import ZoomTool
from specvet.views import COMPACT_STYLE

__all__ = ["Draws", "make_question_set"]

VERSION = 1
"""Of the draws and files: another version is another set."""

MOST = 10_000_000
"""How many objects there can be."""

SLICE = 100
"""Questions that are made together: five tasks with twenty spectra each, a survey after the other."""

SAME_KIND, ATTEMPTS = 6, 60
"""Objects of one kind that are tried until one can be asked about, before others take the place; and in all."""

RECEIPT, QUESTIONS, FACTS_FILE = "question_set.json", "questions.jsonl", "facts.csv"

FACTS = (
    "name", "object_id", "task", "answer", "kind", "subtype", "snr", "survey", "container", "template",
)  # fmt: skip

_STREAMS = Streams(version=VERSION, row=41, source=42, observation=43, first=20_000_000)
"""Of random numbers; SimVI, the suites and demonstrations have others, and other objects."""


def make_question_set(
    folder: str | os.PathLike[str],
    n: int,
    draws: Draws,
    *,
    workers: int | None = None,
    progress: Progress = lambda doing, done, total: None,
    stop: threading.Event | None = None,
) -> Made:
    """Write `n` questions into `folder`, or go on with them; equal calls write equal bytes.

    More than one worker are new interpreters, so a script needs the usual `if __name__ == "__main__":`. Once `stop` is
    set, slices under way are finished and no more are begun. Raises InputError for settings that cannot be and for a
    folder that holds something else, RunLockedError where another process is at it, OSError.
    """
    if not 1 <= n <= MOST:
        raise InputError(f"n = {n}: give 1 to {MOST:,}")
    draws.check()
    place = Path(folder)
    told = {"simulated": True, "version": VERSION, "n": n, **asdict(draws)}
    begin(place, RECEIPT, told | {"templates": templates_fingerprint(draws.templates)}, {}, "question set")

    def prepare() -> None:
        (place / "spectra").mkdir(exist_ok=True)
        templates_of(draws)  # once, into the cache that workers take them from

    slices = Slices(place, n, SLICE)
    work = partial(_make_slice, slices, draws)
    return make_set(
        slices, QUESTIONS, "questions", prepare, work, _finish, workers=workers, progress=progress, stop=stop
    )


def _make_slice(slices: Slices, draws: Draws, i: int) -> int:
    """Write the spectra of a slice, then what is asked about them, which says that it is done; returns `i`."""
    rows, left_out = [], Counter[tuple[str, str]]()
    for number in slices.numbers(i):
        row = planned(number, draws, _STREAMS)
        seen, of_row = _asked_about(row, draws)
        rows.append((row, seen))
        left_out += of_row
    groups: dict[object, list[int]] = {}
    for place, (_, seen) in enumerate(rows):
        groups.setdefault(alike(seen.spectrum), []).append(place)
    where: dict[int, SpectrumRef] = {}
    for number, members in enumerate(groups.values()):
        name = f"spectra/{i:05d}-{number}.npz"
        write_atomic(slices.folder / name, packed([rows[place][1].spectrum for place in members]))
        where |= {place: SpectrumRef(array_file=name, row=at) for at, place in enumerate(members)}
    told = {
        "questions": [
            _question(row, seen, where[place]).model_dump_json(exclude_none=True)
            for place, (row, seen) in enumerate(rows)
        ],
        "facts": [_facts(row, seen) for row, seen in rows],
        "left_out": [[*key, count] for key, count in sorted(left_out.items())],
    }
    slices.keep(i, told)
    return i


def _asked_about(row: Row, draws: Draws) -> tuple[Seen, Counter[tuple[str, str]]]:
    """The first spectrum of the row's that can be asked about, and why others could not, by kind."""
    left_out: Counter[tuple[str, str]] = Counter()
    requires = builtin_tasks()[row.task].requires
    for attempt, kind in enumerate(kinds_drawn(row, draws, _STREAMS, ATTEMPTS, SAME_KIND)):
        seen = see(row, kind, attempt, draws, _STREAMS)
        if isinstance(seen, str):
            problem = seen
        else:
            problem = missing_requirement(requires, ZoomTool(seen.spectrum, style=COMPACT_STYLE).opening().data)
            if not problem:
                return seen, left_out
        left_out[kind, re.split(r"[\d(:]", problem)[0].strip()] += 1
    raise RuntimeError(f"{row}: none of {ATTEMPTS} simulated spectra can be asked about: {dict(left_out)}")


def _question(row: Row, seen: Seen, place: SpectrumRef) -> Question:
    return Question(
        id=f"{seen.name}-{row.task}",
        task=row.task,
        spectrum=place,
        name=seen.name,
        answer=row.answer,
        object_id=seen.object_id,
        label_source="simulated",
    )


def _facts(row: Row, seen: Seen) -> list[str]:
    source = seen.source
    known = [seen.name, seen.object_id, row.task, row.answer, source.kind, source.subtype, f"{seen.snr:.2f}"]
    return [*known, seen.survey, seen.container, source.template]


def _finish(slices: Slices) -> dict[str, Any]:
    """One file of each kind, from all slices; the questions last."""
    found, folder = slices.told(), slices.folder
    facts = [row for one in found for row in one["facts"]]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(FACTS)
    writer.writerows(facts)
    write_atomic(folder / FACTS_FILE, table.getvalue())
    stats = _stats([dict(zip(FACTS, row, strict=True)) for row in facts], found)
    stats["megabytes"] = round(sum(file.stat().st_size for file in (folder / "spectra").iterdir()) / 1e6, 1)
    write_atomic(folder / STATS, json.dumps(stats, indent=1, ensure_ascii=False) + "\n")
    write_atomic(folder / QUESTIONS, "".join(f"{line}\n" for one in found for line in one["questions"]))
    shutil.rmtree(folder / SLICES)
    return stats


def _stats(rows: Sequence[Mapping[str, str]], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    left_out: dict[str, dict[str, int]] = {}
    for kind, reason, count in (item for one in found for item in one["left_out"]):
        of_kind = left_out.setdefault(kind, {})
        of_kind[reason] = of_kind.get(reason, 0) + count

    def counted(column: str) -> dict[str, int]:
        return dict(sorted(Counter(row[column] for row in rows).items()))

    return {
        "questions": len(rows),
        "yes": sum(row["answer"] == "YES" for row in rows),
        "tasks": dict(sorted(Counter(f"{row['task']} {row['answer']}" for row in rows).items())),
        "surveys": counted("survey"),
        "containers": counted("container"),
        "seeded": sum(bool(row["template"]) for row in rows),
        "kinds": counted("kind"),
        "left_out": {kind: left_out[kind] for kind in sorted(left_out)},
    }
