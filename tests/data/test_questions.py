"""Question files: what they hold, what is wrong with them, in words that name the line and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specvet.data.errors import InputError
from specvet.data.questions import is_question_file, read_questions
from specvet.records.schema import Question, SpectrumRef

FIRST = {"id": "q1", "task": "cv", "spectrum": {"path": "spectra/a.fits", "row": 2}, "answer": "YES"}
SECOND = {
    "id": "q2",
    "task": "wd",
    "spectrum": {"array_file": "train.npz", "row": 17},
    "prompt": "<image>\nIs it white?",
    "split": "dev",
    "object_id": "Gaia DR3 1",
    "label_source": "Simbad",
}


def jsonl(path: Path, *lines: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), "utf-8")
    return str(path)


def test_questions_are_read_in_order_with_paths_relative_to_the_file(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "set" / "q.jsonl", FIRST, "", SECOND)
    first, second = read_questions(path)
    assert first.question == Question(**{**FIRST, "spectrum": SpectrumRef(path="spectra/a.fits", row=2)})
    assert first.file == str(tmp_path / "set" / "spectra" / "a.fits")
    assert second.file == str(tmp_path / "set" / "train.npz")
    assert (second.question.prompt, second.question.object_id) == ("<image>\nIs it white?", "Gaia DR3 1")


def test_a_parquet_file_holds_the_same_questions(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    asked = [Question.model_validate(fields) for fields in (FIRST, SECOND)]
    path = tmp_path / "q.parquet"
    pq.write_table(pa.Table.from_pylist([q.model_dump() for q in asked]), path)
    assert is_question_file(str(path))
    assert [a.question for a in read_questions(str(path))] == asked


def test_what_is_a_question_file_is_told_by_its_content(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    assert is_question_file(jsonl(tmp_path / "q.jsonl", FIRST))
    assert is_question_file(jsonl(tmp_path / "q.json", FIRST))
    for name, lines in (("broken", ["{"]), ("no_id", [{"path": "a.fits"}]), ("blank", ["", FIRST]), ("empty", [])):
        assert is_question_file(jsonl(tmp_path / f"{name}.jsonl", *lines))
    assert not is_question_file(jsonl(tmp_path / "broken.json", "{"))
    assert not is_question_file(jsonl(tmp_path / "list.json", {"path": "a.fits"}))
    assert not is_question_file(jsonl(tmp_path / "q.csv", FIRST))
    assert not is_question_file(str(tmp_path / "gone.jsonl"))
    assert not is_question_file(str(tmp_path))
    pq.write_table(pa.Table.from_pylist([{"path": "a.fits"}]), tmp_path / "list.parquet")
    assert not is_question_file(str(tmp_path / "list.parquet"))
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    assert not is_question_file(str(tmp_path / "damaged.parquet"))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["{"], r"q\.jsonl line 1: is no JSON"),
        ([FIRST, "[]"], "line 2: holds a list, not an object"),
        ([{**FIRST, "task": None}], "line 1: task is missing"),
        ([{**FIRST, "tsak": "cv"}], "line 1: tsak: there is no such field; known are id, task, spectrum, name"),
        ([{**FIRST, "spectrum": {"path": "a", "hdu": 1}}], "spectrum.hdu: there .* known are path, array_file, row$"),
        (
            [{**FIRST, "spectrum": {"path": "a", "row": -1}}],
            "line 1: spectrum.row: Input should be greater than or equal",
        ),
        ([{**FIRST, "spectrum": {"path": "a", "row": 2**63}}], "line 1: spectrum.row: Input should be less than"),
        ([{**FIRST, "spectrum": {"path": "a", "row": 2**70}}], "line 1: spectrum.row: Input should be less than"),
        ([FIRST, {**FIRST, "id": "\ud800"}], "line 2: holds half a character"),
        ([{**FIRST, "prompt": "see \udcff"}], "line 1: holds half a character"),
        ([{**FIRST, "spectrum": {"path": "\udcff"}}], "line 1: holds half a character"),
        ([{**FIRST, "answer": "MAYBE"}], r'line 1: answer: give "YES" or "NO", not "MAYBE"$'),
        ([{**FIRST, "id": 7}], r'line 1: id: write it in quotation marks: "7"$'),
        ([{"task": "cv", "spectrum": {"path": "a"}}], "line 1: id is missing"),
        (["", {"task": "cv", "spectrum": {"path": "a"}}], "line 2: id is missing"),
        *(
            ([{**FIRST, "spectrum": given}], r'spectrum: give either {"path": "a.fits"} or {"array_file": ')
            for given in ({}, {"path": "a", "array_file": "b"}, "a.fits", 5)
        ),
        ([FIRST, SECOND, FIRST], r"line 3: the id 'q1' stands at .*line 1 already"),
        ([FIRST, {**FIRST, "id": "other"}], "line 2: asks for task cv of the same spectrum as .*line 1"),
        ([""], "holds no question"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_field(tmp_path: Path, lines: list[Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_questions(jsonl(tmp_path / "q.jsonl", *lines))


def test_yes_and_no_may_be_written_small(tmp_path: Path) -> None:
    lines = [{**FIRST, "answer": answer, "id": answer, "task": answer} for answer in ("yes", "No", "YES")]
    assert [a.question.answer for a in read_questions(jsonl(tmp_path / "q.jsonl", *lines))] == ["YES", "NO", "YES"]


def test_half_characters_may_stand_in_pairs_and_backslashes_before_ud_are_text(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(
        '{"id": "\\ud83d\\ude00 \\\\ud800", "task": "cv", "spectrum": {"path": "a", "row": null, "array_file": null}}'
    )
    (asked,) = read_questions(str(tmp_path / "q.jsonl"))
    assert asked.question.id == "\U0001f600 \\ud800"
    assert asked.question.spectrum == SpectrumRef(path="a")


def test_a_relative_and_an_absolute_path_of_one_spectrum_are_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for other in (str(tmp_path / "a"), f"../{tmp_path.name}/a", "./a"):
        lines = [{**FIRST, "spectrum": {"path": path}, "id": path} for path in ("a", other)]
        for name in (jsonl(tmp_path / "q.jsonl", *lines), "q.jsonl"):
            with pytest.raises(InputError, match=r"line 2: asks for task cv of the same spectrum as .*line 1"):
                read_questions(name)


def test_bytes_that_are_no_text_and_a_cut_parquet_file_are_told(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "q.jsonl").write_bytes(b'{"id": "\xff"}')
    with pytest.raises(InputError, match=r"q\.jsonl: cannot be read"):
        read_questions(str(tmp_path / "q.jsonl"))
    path = tmp_path / "q.parquet"
    pq.write_table(pa.Table.from_pylist([FIRST] * 5000), path, compression="none")
    content = bytearray(path.read_bytes())
    content[40:400] = b"\xff" * 360
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"q\.parquet"):
        read_questions(str(path))
