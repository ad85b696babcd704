"""Question sets: spread limits, facts, what may change and what may not."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.data.errors import InputError
from specvet.evaluation.plan import Recipe, SetPlan
from specvet.evaluation.sets import QuestionSet, facts_hash, keep_set, load_set, questions_hash, read_set


def write(folder: Path, n: dict[str, int] | None = None, **changed: Any) -> Path:
    """A question file: so many questions of each task, one after another."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for task, count in (n or {"cv": 6, "wd": 3, "ss": 1}).items():
        for i in range(count):
            place = {"path": f"s/{task}{i}.txt"} if i % 2 else {"array_file": "all.npz", "row": i}
            told = {
                "id": f"{task}-{i}",
                "task": task,
                "spectrum": place,
                "name": f"{task}{i}",
                "answer": ("YES", "NO")[i % 2],
            }
            lines.append(told | changed)
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return file


def load(file: Path, facts: str | None = None, **chosen: Any) -> QuestionSet:
    told = None
    if facts is not None:
        told = str(file.parent / "facts.csv")
        Path(told).write_text(facts, encoding="utf-8")
    return load_set("mine", SetPlan(path="questions.jsonl", **chosen), str(file), told)


def ids(found: QuestionSet) -> list[str]:
    return [q.question.id for q in found.questions]


@pytest.mark.parametrize(
    ("limit", "counts"),
    [
        (1, {"cv": 1}),
        (2, {"cv": 1, "wd": 1}),
        (5, {"cv": 3, "ss": 1, "wd": 1}),
        (9, {"cv": 5, "wd": 3, "ss": 1}),
        (10, {"cv": 6, "wd": 3, "ss": 1}),
        (99, {"cv": 6, "wd": 3, "ss": 1}),
    ],
)
def test_a_limit_takes_of_every_task_its_share(tmp_path: Path, limit: int, counts: dict[str, int]) -> None:
    found = load(write(tmp_path), limit=limit)
    assert Counter(q.question.task for q in found.questions) == counts
    assert found.record.questions == len(found.questions) == min(limit, 10)
    everything = ids(load(write(tmp_path)))
    assert ids(found) == [id for id in everything if id in ids(found)]  # in their order, each once
    assert set(found.tasks) == set(counts) == set(found.record.tasks)


@pytest.mark.parametrize("limit", [3, 10, 37, 100, 299])
def test_a_limit_is_spread_evenly_over_each_tasks_questions(tmp_path: Path, limit: int) -> None:
    found = load(write(tmp_path, {"cv": 200, "wd": 100}), limit=limit)
    assert len(found.questions) == limit
    for task, n in (("cv", 200), ("wd", 100)):
        places = [int(q.question.id.partition("-")[2]) for q in found.questions if q.question.task == task]
        assert abs(len(places) - limit * n / 300) < 1
        gaps = np.diff([*places, n + places[0]])
        assert gaps.max() - gaps.min() <= 1


def test_chosen_tasks_are_asked_and_one_that_nobody_asks_about_is_named(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert {q.question.task for q in load(file, tasks=("wd", "ss")).questions} == {"wd", "ss"}
    with pytest.raises(InputError, match="holds no question about gm; its questions are about cv, ss, wd"):
        load(file, tasks=("wd", "gm"))


def test_a_question_without_an_answer_or_of_an_unknown_task_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"questions\.jsonl line 1: the question cv-0 has no answer to be measured by"):
        load(write(tmp_path, answer=None))
    with pytest.raises(InputError, match="line 1: asks about the task 'nova', which is not built in"):
        load(write(tmp_path, {"nova": 1}))


def test_facts_are_found_by_name_path_or_file_name(tmp_path: Path) -> None:
    file = write(tmp_path, {"cv": 2})
    by_name = load(file, "name,kind,snr,colour\ncv0,CV,12.5,blue\ncv1,M dwarf,,red\nelse,CV,1,\n")
    assert [dict(q.facts) for q in by_name.questions] == [{"kind": "CV", "snr": "12.5"}, {"kind": "M dwarf"}]
    assert [dict(q.facts) for q in load(file, "path,survey\ns/cv1.txt,SDSS\n").questions] == [{}, {"survey": "SDSS"}]
    assert [dict(q.facts) for q in load(file, "name,survey\ncv1.txt,SDSS\n").questions] == [{}, {"survey": "SDSS"}]
    assert [dict(q.facts) for q in load(file).questions] == [{}, {}]
    assert dict(load(file, "name,kind\ncv1,CV\ncv1,CV\n").questions[1].facts) == {
        "kind": "CV"
    }  # twice the same is once


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ("id,kind\ncv0,CV\n", "facts need a column name"),
        ("", "facts need a column name"),
        ("name,kind\nother,CV\n", "tells nothing of any spectrum"),
        ("name,kind\ncv0,CV\ncv0,WD\n", "row 3: tells another thing of cv0"),
        ("name,snr\ncv0,high\n", "row 2: snr: 'high' is no number"),
        ("name,snr\ncv0,nan\n", "row 2: snr: 'nan' is no number"),
    ],
)
def test_facts_that_cannot_be_used_are_named(tmp_path: Path, facts: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        load(write(tmp_path), facts)
    assert "facts.csv" in str(error.value)
    assert problem in str(error.value)


def test_a_facts_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.csv: cannot be read as CSV"):
        load_set("mine", SetPlan(path="questions.jsonl"), str(write(tmp_path)), str(tmp_path / "gone.csv"))


def test_a_kept_set_reads_back_equal_and_its_hashes_hold(tmp_path: Path) -> None:
    found = load(write(tmp_path), "name,kind\ncv0,Käfer\n", unseen=("wd",), reference="LAMOST")
    keep_set(tmp_path / "sets", found)
    back = read_set(tmp_path / "sets", "mine")
    assert back.record == found.record
    assert [(q.question, dict(q.facts)) for q in back.questions] == [
        (q.question, dict(q.facts)) for q in found.questions
    ]
    assert questions_hash(q.question for q in back.questions) == found.record.questions_sha256
    assert facts_hash(q.facts for q in back.questions) == found.record.facts_sha256
    assert (back.record.unseen, back.record.reference, back.record.origin) == (
        ("wd",),
        "LAMOST",
        {"path": "questions.jsonl"},
    )
    before = {p.name: p.read_bytes() for p in (tmp_path / "sets").iterdir()}
    keep_set(tmp_path / "sets", found)
    assert {p.name: p.read_bytes() for p in (tmp_path / "sets").iterdir()} == before


def test_another_folder_makes_no_other_set(tmp_path: Path) -> None:
    one = load(write(tmp_path / "here"))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    other = load(tmp_path / "there" / "questions.jsonl")
    assert other.record == one.record
    assert other.questions[0].file != one.questions[0].file


def test_other_questions_or_tasks_under_a_kept_name_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path)
    keep_set(tmp_path / "sets", load(file))
    before = {p.name: p.read_bytes() for p in (tmp_path / "sets").iterdir()}
    cases: list[tuple[QuestionSet, str]] = [(load(file, limit=9), "10 questions then, 9 now")]
    write(tmp_path, name="renamed")
    cases.append((load(file), "other questions"))
    write(tmp_path)
    from specvet.tasks import builtin_tasks, task_text

    changed = task_text(builtin_tasks()["wd"]).replace("white dwarf", "white star")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "wd.yaml").write_text(changed, encoding="utf-8")
    cases.append((load(file), "another task wd"))
    for found, problem in cases:
        with pytest.raises(InputError, match=f"the set mine is no longer the one .*{problem}.*give it another name"):
            keep_set(tmp_path / "sets", found)
    assert {p.name: p.read_bytes() for p in (tmp_path / "sets").iterdir()} == before


def test_facts_and_what_counts_as_unseen_may_change_since_no_row_rests_on_them(tmp_path: Path) -> None:
    file = write(tmp_path)
    keep_set(tmp_path / "sets", load(file))
    changed = load(file, "name,kind\ncv0,CV\n", unseen=("ss",))
    assert changed.record.fingerprint == read_set(tmp_path / "sets", "mine").record.fingerprint
    keep_set(tmp_path / "sets", changed)
    back = read_set(tmp_path / "sets", "mine")
    assert back.record == changed.record
    assert dict(back.questions[0].facts) == {"kind": "CV"}


def test_what_a_recipe_said_when_the_rows_were_made_stands(tmp_path: Path) -> None:
    file, plan = write(tmp_path), SetPlan(recipe=Recipe(simvi="tiny"))
    first = load_set("mine", plan, str(file), about={"specvet": "1"})
    assert first.record.origin["recipe"]["simvi"] == "tiny"
    keep_set(tmp_path / "sets", first)
    keep_set(tmp_path / "sets", load_set("mine", plan, str(file), about={"specvet": "2"}))
    assert read_set(tmp_path / "sets", "mine").record.about == {"specvet": "1"}
