"""The simulated suites: what they ask, of whom, and that nothing but the spectrum tells the answer."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from specvet.agent import run_agent
from specvet.data.asking import load_questions
from specvet.data.errors import InputError
from specvet.data.questions import read_questions
from specvet.data.simulate import kinds
from specvet.data.simulate.kinds import KINDS, TASKS
from specvet.data.simulate.observing import observe, spectrum
from specvet.data.simvi.making import as_published
from specvet.data.suites.building import SuiteFolder, make_suite
from specvet.data.suites.classes import CLASSES, task_of
from specvet.data.suites.making import make_block, see, shown
from specvet.data.suites.plan import SUITES, Suite, plan
from specvet.policies import policy
from specvet.records import file_hash
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import read
from specvet.tasks import builtin_tasks
from specvet.tools import ZoomTool


@pytest.fixture(scope="module")
def cross_survey(tmp_path_factory: pytest.TempPathFactory) -> SuiteFolder:
    return make_suite(tmp_path_factory.mktemp("suites") / "survey", "cross-survey", 12, seed=1, workers=1)


@pytest.fixture(scope="module")
def cross_task(tmp_path_factory: pytest.TempPathFactory) -> SuiteFolder:
    return make_suite(tmp_path_factory.mktemp("suites") / "task", "cross-task", 16, seed=1, workers=1)


def facts(made: SuiteFolder) -> list[dict[str, str]]:
    with open(made.facts, encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def hashes(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): file_hash(p) for p in folder.rglob("*") if p.is_file()}


def test_every_question_can_be_asked_and_the_three_surveys_see_the_same_objects(cross_survey: SuiteFolder) -> None:
    questions = load_questions(str(cross_survey.path), style="compact")
    assert (len(questions.asked), questions.rejects) == (36, [])
    assert set(questions.tasks) == set(TASKS)
    layouts = Counter((tool.spectrum.survey, tool.spectrum.layout) for tool in map(_tool_of(questions), range(36)))
    assert layouts == {("LAMOST", "lamost-lrs-table"): 12, ("SDSS", "sdss-spec"): 12, ("DESI", "desi-coadd"): 12}
    by_object: dict[str, list[Question]] = {}
    for one in questions.asked:
        by_object.setdefault(str(one.question.object_id), []).append(one.question)
    assert len(by_object) == 12
    for asked in by_object.values():
        assert len({q.name for q in asked}) == 3
        assert len({(q.task, q.answer) for q in asked}) == 1


def _tool_of(questions):  # type: ignore[no-untyped-def]
    return lambda i: questions.pose(questions.asked[i]).tool


def test_a_file_holds_the_object_that_its_question_names(cross_survey: SuiteFolder) -> None:
    rows = {(row.task, f"SIMULATED-{row.number:06d}"): row for row in plan("cross-survey", 12, 1)}
    asked = read_questions(str(cross_survey.path))
    for one in asked[-6:]:  # two objects, the second in row 1 of its DESI file
        row = rows[one.question.task, str(one.question.object_id)]
        (seen,) = [o for o in see(row, 1) if o.name == one.question.name]
        found = next(s for s in read(one.file) if s.row == one.question.spectrum.row)
        assert np.array_equal(found.flux, shown(row, seen).flux, equal_nan=True)
    assert [one.question.spectrum.row for one in asked[-6:]] == [0, 0, 0, 0, 0, 1]


def test_what_is_bright_for_one_survey_is_bright_for_the_others(cross_survey: SuiteFolder) -> None:
    snr = {(row["object_id"], row["survey"]): float(row["snr"]) for row in facts(cross_survey)}
    names = sorted({name for name, _ in snr})
    table = np.array([[snr[name, survey] for survey in ("LAMOST", "SDSS", "DESI")] for name in names])
    ranks = table.argsort(axis=0).argsort(axis=0)
    assert np.corrcoef(ranks.T).min() > 0.6
    assert np.median(table[:, 0]) > np.median(table[:, 2])


def test_the_facts_know_every_spectrum_and_agree_with_the_answers(
    cross_survey: SuiteFolder, cross_task: SuiteFolder
) -> None:
    for made in (cross_survey, cross_task):
        told = {row["name"]: row for row in facts(made)}
        asked = [one.question for one in read_questions(str(made.path))]
        assert {q.name for q in asked} == told.keys()
        for q in asked:
            row = told[str(q.name)]
            assert (row["task"], row["answer"], row["object_id"]) == (q.task, q.answer, q.object_id)
            member = row["kind"] in CLASSES[q.task].members if made is cross_task else q.task in KINDS[row["kind"]].yes
            assert member == (q.answer == "YES")


def test_names_ids_and_paths_tell_the_survey_and_the_task_and_nothing_else(
    cross_survey: SuiteFolder, cross_task: SuiteFolder
) -> None:
    pattern = {
        "cross-survey": r"spectra/(lamost/spec-N-SIMULATEDN_spN-N|sdss/spec-SIMULATED-N-N-N"
        r"|desi/coadd-SIMULATED-N-N)\.fits",
        "cross-task": r"spectra/SIMULATED-lamost-N-N\.npz",
    }
    for made in (cross_survey, cross_task):
        for one in read_questions(str(made.path)):
            q, place = one.question, one.question.spectrum.path or one.question.spectrum.array_file
            assert re.fullmatch(pattern[made.suite], re.sub(r"\d+", "N", str(place)))
            assert re.fullmatch(rf"SIMULATED-(lamost|sdss|desi)-\d{{7}}-0-{q.task}", q.id)
            assert (q.label_source, q.split, q.prompt) == ("simulated", None, None)
        of_task = [row for row in facts(made) if row["task"] == "cc" or row["task"] == "md"]
        numbers = [int(row["object_id"].rpartition("-")[2]) for row in of_task]
        assert numbers == sorted(numbers)  # numbered by place, before it is drawn what they are
        for text in (made.folder / "README.md").read_text("utf-8"), (made.folder / "made.json").read_text("utf-8"):
            assert "SIMULATED" in text


def test_objects_of_suites_and_of_simvi_never_share_a_number() -> None:
    numbers = {suite: {row.number for row in plan(suite, 1_000, 0)} for suite in SUITES}
    assert all(len(found) == 1_000 for found in numbers.values())
    assert not numbers["cross-survey"] & numbers["cross-task"]
    assert min(min(found) for found in numbers.values()) >= 4_000_000  # SimVI's end before


@pytest.mark.parametrize("suite", list(SUITES))
def test_a_sixth_are_members_and_the_others_mostly_hard(suite: Suite) -> None:
    rows = plan(suite, 5_003, 0)
    assert len(rows) == 5_003
    assert [sum(row.task == task for row in rows) for task in SUITES[suite]] == [1001, 1001, 1001, 1000, 1000]
    for task in SUITES[suite]:
        of_task = [row for row in rows if row.task == task]
        assert sum(row.answer == "YES" for row in of_task) == 170
        negatives = [row.kind for row in of_task if row.answer == "NO"]
        hard = CLASSES[task].confusers if suite == "cross-task" else {k for k, v in KINDS.items() if task in v.confuses}
        assert sum(kind in hard for kind in negatives) / len(negatives) > 0.85
        assert len(set(negatives)) > 25
    assert plan(suite, 5_003, 0) == rows
    assert plan(suite, 5_003, 1) != rows


def test_no_class_of_cross_task_is_asked_by_a_built_in_task_and_every_kind_is_known() -> None:
    names = {name.casefold() for task in builtin_tasks().values() for name in (task.key, task.name, *task.aliases)}
    for key, asked in CLASSES.items():
        task = task_of(key)
        assert task.key == key
        assert not names & {name.casefold() for name in (task.key, task.name, *task.aliases)}
        mentioned = {*asked.members, *asked.confusers, *asked.unclear}
        assert mentioned <= KINDS.keys()
        assert not asked.members.keys() & {*asked.confusers, *asked.unclear}
        assert not asked.confusers.keys() & set(asked.unclear)
        assert len(task.windows) >= 5
        assert len(task.sources) >= 6
        assert all("vacuum" in text or "as observed" in text for text in [task.guidance])
        policy("line-indices").check(task)  # type: ignore[attr-defined]


def test_the_task_files_lie_beside_the_questions(cross_task: SuiteFolder) -> None:
    questions = load_questions(str(cross_task.path), style="compact")
    assert (len(questions.asked), questions.rejects) == (16, [])
    assert dict(questions.tasks) == {key: task_of(key) for key in CLASSES}


def test_a_redshift_is_not_told_where_it_would_be_the_answer(cross_task: SuiteFolder) -> None:
    told: dict[bool, list[float]] = {True: [], False: []}
    for one in read_questions(str(cross_task.path)):
        (found,) = read(one.file)
        assert (found.medium, found.ivar, found.pipeline_class) == ("vacuum", None, "")
        told[one.question.task == "qso"].append(found.redshift.value or 0.0)
    assert told[True] == [0.0] * len(told[True])
    assert sum(z != 0.0 for z in told[False]) > len(told[False]) / 2


def test_an_object_that_experts_would_call_either_is_made_anew() -> None:
    rows = [row for row in plan("cross-task", 2_000, 3) if row.task == "qso" and row.kind == "galaxy.emission"]
    subtypes = {one.source.subtype for row in rows[:6] for one in see(row, 3)}
    assert "Seyfert 1" not in subtypes
    assert len(subtypes) > 1


def test_equal_calls_write_equal_files_whoever_makes_them(cross_task: SuiteFolder, tmp_path: Path) -> None:
    again = make_suite(tmp_path / "again", "cross-task", 16, seed=1, workers=1)
    assert hashes(again.folder) == hashes(cross_task.folder)
    rows = [row for row in plan("cross-task", 16, 1) if row.task == "sd"]
    alone = make_block(rows[1:2], 1, tmp_path / "alone")
    asked = {one.question.id: one.question for one in read_questions(str(cross_task.path))}
    assert [made.question for made in alone] == [asked[made.question.id] for made in alone]
    file = str(alone[0].question.spectrum.array_file)
    assert file_hash(tmp_path / "alone" / file) == file_hash(cross_task.folder / file)
    other = make_block(rows[1:2], 2, tmp_path / "other")
    assert file_hash(tmp_path / "other" / str(other[0].question.spectrum.array_file)) != file_hash(
        cross_task.folder / file
    )


def test_a_suite_that_is_there_is_left_alone_and_another_folder_never_overwritten(
    cross_task: SuiteFolder, tmp_path: Path
) -> None:
    before = cross_task.path.stat().st_mtime_ns
    found = make_suite(cross_task.folder, "cross-task", 16, seed=1)
    assert (found.made, found.questions, found.yes) == (False, 16, cross_task.yes)
    assert cross_task.path.stat().st_mtime_ns == before
    with pytest.raises(InputError, match="holds something else"):
        make_suite(cross_task.folder, "cross-task", 17, seed=1)
    with pytest.raises(InputError, match="there is no suite 'cross'; known are cross-survey, cross-task"):
        make_suite(tmp_path / "x", "cross")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="n = 0"):
        make_suite(tmp_path / "x", "cross-task", 0)
    assert not (tmp_path / "x").exists()
    assert json.loads((cross_task.folder / "made.json").read_text("utf-8"))["simulated"] is True


@pytest.mark.parametrize(
    ("task", "kind", "answer"),
    [
        ("md", "m_dwarf.active", "YES"),
        ("md", "gm.giant", "NO"),
        ("be", "be_star", "YES"),
        ("be", "b_star", "NO"),
        ("sd", "sdo", "YES"),
        ("sd", "wd.DA", "NO"),
        ("tts", "t_tauri", "YES"),
        ("tts", "m_dwarf.active", "NO"),
        ("qso", "qso", "UNSURE"),
    ],
)
def test_line_indices_tells_bright_members_from_their_usual_confusers(task: str, kind: str, answer: str) -> None:
    said = []
    for number in range(3):
        rng = np.random.default_rng([77, number])
        seen = as_published(spectrum(observe(kinds.make(kind, rng), "lamost", rng, snr=60.0)))
        question = Question(id="q", task=task, spectrum=SpectrumRef(path="a"))
        record = run_agent(question, task_of(task), ZoomTool(seen, style="compact"), policy("line-indices"))  # type: ignore[arg-type]
        said.append(str(record.verdict.answer))
    assert Counter(said)[answer] >= 2
