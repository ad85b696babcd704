"""Question sets: read or made, then kept in the campaign, so that scores can be checked where the spectra are not.

`sets/SLUG.parquet` holds each question as it was asked for, where its spectrum lay below the question file's folder,
and the facts that the set tells of it (what the object is, its S/N). `sets/SLUG.json` says where it came from.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from specvet.agent.loop import task_hash
from specvet.data.asking import tasks_of
from specvet.data.errors import InputError
from specvet.data.questions import Asked, read_questions
from specvet.evaluation.plan import Part, SetPlan, read_part
from specvet.records import file_hash, text_hash, write_atomic
from specvet.records.schema import Question
from specvet.tasks import Task

FACTS = ("kind", "subtype", "snr", "survey")
"""Columns of a facts file that are kept."""

Facts = Mapping[str, str]


class SetRecord(Part):
    """What a campaign keeps of a set."""

    slug: str
    origin: dict[str, Any]
    """`{path: …}` as written, or `{recipe: {…}}`."""
    questions: int
    tasks: dict[str, str]
    """Key → hash of the task as asked."""
    file_sha256: str
    """Of the question file."""
    questions_sha256: str
    """Of the questions that are asked, in order, as JSON lines."""
    facts_sha256: str
    unseen: tuple[str, ...] = ()
    reference: str | None = None
    about: dict[str, Any] = Field(default_factory=dict)
    """What a recipe says of itself: versions, whether it is simulated."""

    @property
    def fingerprint(self) -> str:
        """What a cell's rows depend on."""
        return text_hash(json.dumps([self.questions_sha256, self.tasks], sort_keys=True))


@dataclass(frozen=True, slots=True)
class SetQuestion:
    """One question of a set."""

    question: Question
    facts: Facts = field(default_factory=dict)
    where: str = ""
    """Which line of which file, for people; only where the set was read from its file."""
    file: str = ""
    """The spectrum's file from here; likewise."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set with its record; `tasks` are empty for one that is read back from a campaign."""

    record: SetRecord
    questions: tuple[SetQuestion, ...]
    tasks: Mapping[str, Task] = field(default_factory=dict)

    def asked(self) -> list[Asked]:
        """As a rollout takes them."""
        return [Asked(q.question, q.file, q.where) for q in self.questions]


def load_set(
    slug: str,
    plan: SetPlan,
    path: str,
    facts: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> QuestionSet:
    """The questions of the file `path` as `plan` chooses them. Raises InputError: file, line and what is wrong.

    `path` and `facts` are where the plan's file, or what its recipe made, lies now.
    """
    asked = read_questions(path)
    if unanswered := next((one for one in asked if one.question.answer is None), None):
        raise InputError(f"{unanswered.where}: the question {unanswered.question.id} has no answer to be measured by")
    there = {one.question.task for one in asked}
    if missing := [key for key in (*(plan.tasks or ()), *plan.unseen) if key not in there]:
        known = ", ".join(sorted(there))
        raise InputError(f"{path}: holds no question about {', '.join(missing)}; its questions are about {known}")
    if plan.tasks is not None:
        asked = [one for one in asked if one.question.task in plan.tasks]
    chosen = asked if plan.limit is None else _spread(asked, plan.limit)
    tasks = tasks_of(chosen, path)
    told = _read_facts(facts) if facts else {}
    questions = tuple(SetQuestion(one.question, _facts(told, one), one.where, one.file) for one in chosen)
    if told and not any(q.facts for q in questions):
        raise InputError(
            f"{facts}: tells nothing of any spectrum of {path}; its column name (or path) must hold what the "
            f"questions call them, as in {questions[0].question.name}"
        )
    record = SetRecord(
        slug=slug,
        origin=origin_of(plan),
        questions=len(questions),
        tasks={key: task_hash(task) for key, task in tasks.items()},
        file_sha256=file_hash(Path(path)),
        questions_sha256=questions_hash(q.question for q in questions),
        facts_sha256=facts_hash(q.facts for q in questions),
        unseen=plan.unseen,
        reference=plan.reference,
        about=dict(about or {}),
    )
    return QuestionSet(record, questions, tasks)


def origin_of(plan: SetPlan) -> dict[str, Any]:
    """Where a set comes from, in JSON's types: its file or recipe, and what was chosen of it."""
    origin: dict[str, Any] = {"path": plan.path} if plan.path else {"recipe": _recipe(plan)}
    origin |= {name: value for name, value in (("tasks", plan.tasks), ("limit", plan.limit)) if value}
    told: dict[str, Any] = json.loads(json.dumps(origin))
    return told


def questions_hash(questions: Iterable[Question]) -> str:
    """SHA-256 of questions as JSON lines."""
    return text_hash("\n".join(q.model_dump_json(exclude_none=True) for q in questions))


def facts_hash(facts: Iterable[Facts]) -> str:
    """SHA-256 of facts as JSON lines."""
    return text_hash("\n".join(json.dumps(dict(f), sort_keys=True, ensure_ascii=False) for f in facts))


def keep_set(folder: Path, found: QuestionSet) -> None:
    """Write a set into `folder` (the campaign's `sets/`), or hold it against the one there.

    Facts, place and what counts as unseen may change, since no row rests on them. Raises InputError where questions or
    tasks are other ones: finished rows rest on them.
    """
    record = found.record
    place = folder / f"{record.slug}.json"
    if place.is_file():
        kept = read_part(SetRecord, place)
        if kept.fingerprint != record.fingerprint:
            raise InputError(
                f"the set {record.slug} is no longer the one that this campaign asked ({_difference(kept, record)}); "
                "give it another name (--set, or in the campaign file), and its rows stay"
            )
        record = record.model_copy(update={"about": kept.about})
        if record == kept:
            return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{record.slug}.parquet", _parquet(found.questions))
    write_atomic(place, record.model_dump_json(indent=1) + "\n")


def read_set(folder: Path, slug: str) -> QuestionSet:
    """A set that `keep_set` wrote. Raises OSError, ValueError."""
    import pyarrow.parquet as pq

    record = read_part(SetRecord, folder / f"{slug}.json")
    table = pq.read_table(folder / f"{slug}.parquet").to_pylist()
    questions = tuple(
        SetQuestion(Question.model_validate_json(row["question"]), json.loads(row["facts"])) for row in table
    )
    return QuestionSet(record, questions)


def _parquet(questions: Sequence[SetQuestion]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": [q.question.id for q in questions],
            "task": [q.question.task for q in questions],
            "answer": [q.question.answer for q in questions],
            "question": [q.question.model_dump_json(exclude_none=True) for q in questions],
            "facts": [json.dumps(dict(q.facts), sort_keys=True, ensure_ascii=False) for q in questions],
        }
    )
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", compression_level=15)
    data: bytes = buffer.getvalue().to_pybytes()
    return data


def _difference(then: SetRecord, now: SetRecord) -> str:
    if then.questions != now.questions:
        return f"{then.questions} questions then, {now.questions} now"
    tasks = sorted(key for key in then.tasks.keys() | now.tasks.keys() if then.tasks.get(key) != now.tasks.get(key))
    return f"another task {', '.join(tasks)}" if tasks else "other questions"


def _recipe(plan: SetPlan) -> dict[str, Any]:
    assert plan.recipe is not None
    return plan.recipe.model_dump(exclude_none=True)


def _spread(asked: Sequence[Asked], limit: int) -> list[Asked]:
    """`limit` of them in their order, every task by its share, evenly over its questions."""
    if limit >= len(asked):
        return list(asked)
    by_task: dict[str, list[int]] = {}
    for place, one in enumerate(asked):
        by_task.setdefault(one.question.task, []).append(place)
    exact = {task: limit * len(places) / len(asked) for task, places in by_task.items()}
    shares = {task: int(x) for task, x in exact.items()}
    for task in sorted(exact, key=lambda t: (shares[t] - exact[t], t))[: limit - sum(shares.values())]:
        shares[task] += 1
    chosen = [by_task[task][i * len(by_task[task]) // n] for task, n in shares.items() for i in range(n)]
    return [asked[place] for place in sorted(chosen)]


def _read_facts(path: str) -> dict[str, Facts]:
    """Name (or path) → facts."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as f:
            rows = list(csv.DictReader(f))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"{path}: cannot be read as CSV ({e})") from None
    columns = rows[0].keys() if rows else ()
    key = next((name for name in ("name", "path") if name in columns), None)
    if key is None:
        raise InputError(f"{path}: facts need a column name (or path) and at least one of {', '.join(FACTS)}")
    told: dict[str, Facts] = {}
    for line, row in enumerate(rows, 2):
        found = {name: row[name] for name in FACTS if row.get(name)}
        name = row[key] or ""
        if told.setdefault(name, found) != found:
            raise InputError(f"{path}, row {line}: tells another thing of {name} than a row before it")
        if "snr" in found and not _is_number(found["snr"]):
            raise InputError(f"{path}, row {line}: snr: {found['snr']!r} is no number; leave it empty where unknown")
    return told


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _facts(told: Mapping[str, Facts], one: Asked) -> Facts:
    question = one.question
    for name in (question.name, question.spectrum.path, os.path.basename(one.file)):
        if name and name in told:
            return told[name]
    return {}
