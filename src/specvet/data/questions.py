"""Question files: JSON Lines or Parquet, one `specvet.records.schema.Question` a line or row.

    {"id": "q1", "task": "cv", "spectrum": {"path": "spectra/a.fits", "row": 0}, "answer": "YES"}
    {"id": "q2", "task": "cv", "spectrum": {"array_file": "spectra/train.npz", "row": 17}}

Paths are relative to the question file, so that a folder of questions and spectra can be moved. A Parquet file has the
same fields as columns, `spectrum` being a struct of `path`, `array_file` and `row`. Fields that are null count as not
given; a field that is none of a question's is an error, since it may be a misspelt one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from specvet.data.errors import InputError
from specvet.data.jsonl import json_lines
from specvet.records.schema import Question, SpectrumRef

_FIELDS = {"id", "task", "spectrum"}
"""Without which it is no question."""

_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a file."""

    question: Question
    file: str
    """The spectrum's file, from here."""
    where: str = ""
    """Which line or row of which question file, for people."""


def is_question_file(path: str) -> bool:
    """Whether a file holds questions, judged by its first line or its columns; a `.jsonl` is nothing else."""
    if not os.path.isfile(path):
        return False
    if path.lower().endswith((".parquet", ".pq")):
        return _columns(path) >= _FIELDS
    if path.lower().endswith(".jsonl"):
        return True  # its errors are worth telling
    if not path.lower().endswith((".ndjson", ".json")):
        return False
    try:
        with open(path, encoding="utf-8-sig") as lines:
            first = next((line for line in lines if line.strip()), "")
        found = json.loads(first)
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.keys() >= _FIELDS


def read_questions(path: str) -> list[Asked]:
    """The questions of a file, in their order. Raises InputError, which names the line and the field.

    Ids must differ, and so must (spectrum, row, task): a run keeps trajectories by them.
    """
    folder = os.path.dirname(path)
    asked: list[Asked] = []
    ids: dict[str, str] = {}
    places: dict[tuple[str, int, str], str] = {}
    here = os.path.abspath(folder)
    for where, fields in _rows(path):
        given = {k: v for k, v in fields.items() if v is not None}
        if isinstance(spectrum := given.get("spectrum"), dict):
            given["spectrum"] = {k: v for k, v in spectrum.items() if v is not None}
        if isinstance(answer := given.get("answer"), str) and answer.upper() in ("YES", "NO"):
            given["answer"] = answer.upper()
        try:
            question = Question.model_validate(given)
        except ValidationError as e:
            raise InputError(f"{where}: {_problem(e)}") from None
        reference = question.spectrum
        file = os.path.normpath(os.path.join(folder, reference.path or reference.array_file or ""))
        if question.id in ids:
            raise InputError(f"{where}: the id {question.id!r} stands at {ids[question.id]} already; give each its own")
        # Relative and absolute paths of one spectrum are one place; a run would roll it out once and drop the other.
        place = (
            os.path.normpath(os.path.join(here, reference.path or reference.array_file or "")),
            reference.row,
            question.task,
        )
        if place in places:
            raise InputError(
                f"{where}: asks for task {question.task} of the same spectrum as {places[place]}; a run keeps one "
                "question a spectrum and task, so put the second into a file and a run of its own"
            )
        ids[question.id] = places[place] = where
        asked.append(Asked(question, file, where))
    if not asked:
        raise InputError(f"{path}: holds no question")
    return asked


def _rows(path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, fields) of each question."""
    if path.lower().endswith((".parquet", ".pq")):
        yield from _parquet(path)
        return
    if path.lower().endswith((".csv", ".tsv", ".ecsv", ".fits", ".vot")) and os.path.isfile(path):
        raise InputError(
            f"{path}: is a table, not a question file; make one of it: specvet data label-list {path} --out MINE"
        )
    yield from json_lines(path, "a question file")


def _parquet(path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                for row in batch.to_pylist():
                    yield f"{path} row {number}", row
                    number += 1
    except (OSError, pa.ArrowException) as e:
        raise InputError(f"{path}: damaged after row {number:,} ({e})") from None


def _columns(path: str) -> set[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return set(pq.read_schema(path).names)
    except (OSError, pa.ArrowException):
        return set()


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    known = ", ".join(SpectrumRef.model_fields if first["loc"][0] == "spectrum" else Question.model_fields)
    if first["type"] == "extra_forbidden":
        return f"{field}: there is no such field; known are {known}"
    if first["type"] == "missing":
        return f"{field} is missing"
    written = json.dumps(first["input"], default=str, ensure_ascii=False)
    if field == "answer":
        return f'answer: give "YES" or "NO", not {written}'
    if field == "spectrum":
        return 'spectrum: give either {"path": "a.fits"} or {"array_file": "x.npz", "row": 0}'
    if first["type"] == "string_type" and isinstance(first["input"], int | float):
        return f'{field}: write it in quotation marks: "{written}"'
    return f"{field}: {first['msg'].removeprefix('Value error, ')}" if field else str(first["msg"])
