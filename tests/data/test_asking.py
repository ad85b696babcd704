"""From a question file to what a rollout takes: tasks, spectra, and what cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.data import asking
from specvet.data.asking import load_questions, tasks_of
from specvet.data.errors import InputError
from specvet.data.files import SelectionError, SpectrumFiles
from specvet.data.questions import read_questions
from specvet.spectra import SpectrumReadError
from specvet.tasks import builtin_tasks, task_text

WAVELENGTH = np.arange(4000.0, 8000.0, 4.0)


def write(folder: Path, *questions: dict[str, Any]) -> str:
    """The question file, beside an NPZ file of three rows and a text file."""
    folder.mkdir(parents=True, exist_ok=True)
    flux = np.random.default_rng(1).normal(10.0, 0.1, (3, WAVELENGTH.size))
    flux[2] = np.nan
    np.savez(folder / "rows.npz", wavelength=WAVELENGTH, flux=flux)
    np.savetxt(folder / "star.txt", np.column_stack([WAVELENGTH, flux[0]]), fmt="%.5f")
    (folder / "broken.fits").write_bytes(b"SIMPLE  =                    T")
    path = folder / "q.jsonl"
    path.write_text("".join(f"{json.dumps(q)}\n" for q in questions), encoding="utf-8")
    return str(path)


def asks(id: str, task: str = "cv", answer: str | None = "YES", **place: Any) -> dict[str, Any]:
    return {"id": id, "task": task, "answer": answer, "spectrum": place or {"array_file": "rows.npz", "row": 1}}


def test_rows_of_array_files_and_files_of_their_own_are_asked_about(tmp_path: Path) -> None:
    path = write(tmp_path, asks("row"), asks("file", "wd", "NO", path="star.txt"))
    questions = load_questions(path, style="compact")
    assert not questions.rejects
    row, file = (questions.pose(asked) for asked in questions.asked)
    assert (row.question.id, row.task.key, row.tool.spectrum.row) == ("row", "cv", 1)
    assert (file.question.answer, file.task.key, file.tool.spectrum.n_pix) == ("NO", "wd", WAVELENGTH.size)
    assert row.tool.opening().view.size == (448, 280)
    assert questions.tasks == {key: builtin_tasks()[key] for key in ("cv", "wd")}
    assert load_questions(path).pose(questions.asked[0]).tool.opening().view.title == "Spectrum"
    assert load_questions(path, title="file").pose(questions.asked[1]).tool.opening().view.title == "Spectrum: star.txt"


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (asks("b", answer=None, path="star.txt"), "line 2: the question b has no answer, which rewards need"),
        (
            asks("b", "nova", path="star.txt"),
            r"line 2: asks about the task 'nova', .*there are cv, .* tasks/nova\.yaml",
        ),
        (asks("b", "../cv", path="star.txt"), r"line 2: asks about the task '\.\./cv', which is not built in"),
    ],
)
def test_a_question_that_cannot_be_learnt_from_is_an_error_with_its_line(
    tmp_path: Path, question: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        load_questions(write(tmp_path, asks("a"), question))


def test_what_cannot_be_read_or_shown_is_listed_and_the_rest_is_asked(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        asks("good"),
        asks("gone", path="gone.fits"),
        asks("broken", path="broken.fits"),
        asks("no row", array_file="rows.npz", row=9),
        asks("blank", array_file="rows.npz", row=2),
    )
    questions = load_questions(path, style="compact")
    assert [asked.question.id for asked in questions.asked] == ["good"]
    assert [(r.id, r.where) for r in questions.rejects] == [
        (id, f"{path} line {n}") for n, id in enumerate(("gone", "broken", "no row", "blank"), start=2)
    ]
    gone, broken, row, blank = (r.reason for r in questions.rejects)
    assert "gone.fits" in gone
    assert "broken.fits" in broken
    assert row.endswith("rows.npz: there is no row 9; the file holds 3 targets, rows 0 to 2")
    assert blank.endswith("rows.npz row 2: The spectrum holds fewer than 5 finite points; there is nothing to show.")


def test_a_file_of_which_nothing_can_be_asked_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of its 2 questions can be asked; the first: .*gone\.fits"):
        load_questions(write(tmp_path, asks("a", path="gone.fits"), asks("b", path="broken.fits")))


def test_a_spectrum_that_goes_later_is_an_error_that_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "KEPT_BYTES", 0)
    questions = load_questions(write(tmp_path, asks("a", path="star.txt"), *_fillers(tmp_path)))
    (tmp_path / "star.txt").unlink()
    with pytest.raises(InputError, match=r"q\.jsonl line 1: .*star\.txt"):
        questions.pose(questions.asked[0])


def test_small_files_are_read_once_however_many_there_are(tmp_path: Path) -> None:
    questions = load_questions(write(tmp_path, asks("a", path="star.txt"), *_fillers(tmp_path)))
    (tmp_path / "star.txt").unlink()
    assert questions.pose(questions.asked[0]).question.id == "a"


def test_of_files_no_more_bytes_are_kept_than_said(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{name}.npz") for name in "abcd"]
    for file in files:
        np.savez(file, wavelength=np.linspace(4000.0, 5000.0, 50), flux=np.ones(50))
    size = sum(a.nbytes for a in (SpectrumFiles().row(files[0], 0).wavelength, SpectrumFiles().row(files[0], 0).flux))
    kept = SpectrumFiles(kept=1, kept_bytes=3 * size)
    for file in files:
        kept.spectra(file)
    assert [kept.has(file) for file in files] == [False, True, True, True]


def _fillers(folder: Path) -> list[dict[str, Any]]:
    """Questions about more files than are kept open."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(4):
        np.savetxt(folder / f"f{i}.txt", np.column_stack([WAVELENGTH, WAVELENGTH]), fmt="%.3f")
    return [asks(f"f{i}", path=f"f{i}.txt") for i in range(4)]


def test_a_task_may_stand_beside_the_questions_and_comes_before_a_built_in_one(tmp_path: Path) -> None:
    path = write(tmp_path, asks("a", "mine"), asks("b", "wd", path="star.txt"))
    mine, wd = (builtin_tasks()["cv"].model_copy(update={"key": key, "question": "Mine?"}) for key in ("mine", "wd"))
    (tmp_path / "tasks").mkdir()
    for task in (mine, wd):
        (tmp_path / "tasks" / f"{task.key}.yaml").write_text(task_text(task), encoding="utf-8")
    assert load_questions(path).tasks == {"mine": mine, "wd": wd}
    given = wd.model_copy(update={"question": "Given?"})
    assert load_questions(path, [given]).tasks == {"mine": mine, "wd": given}
    (tmp_path / "tasks" / "mine.yaml").write_text(task_text(wd), encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml: holds the task 'wd', where .*line 1 asks for 'mine'"):
        tasks_of(read_questions(path), path)
    (tmp_path / "tasks" / "mine.yaml").write_text("key: mine\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml: .* is missing"):
        load_questions(path)


def test_a_file_is_read_once_for_all_that_asks_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.data import files

    write(tmp_path)
    read, names = files.read, []
    monkeypatch.setattr(files, "read", lambda name: names.append(name) or read(name))
    kept = SpectrumFiles(kept=2)
    rows, star, gone = (str(tmp_path / name) for name in ("rows.npz", "star.txt", "gone.txt"))
    for _ in range(2):
        assert kept.row(rows, 1).row == 1
        assert kept.row(rows, 0).row == 0
        with pytest.raises((SpectrumReadError, OSError)):
            kept.spectra(gone)
    assert names == [rows, gone]
    assert kept.row(star, 0).n_pix == WAVELENGTH.size  # one too many, so the one unused longest goes
    assert (kept.has(rows), kept.has(gone), kept.has(star)) == (False, True, True)
    with pytest.raises(SelectionError, match="there is no row 3"):
        kept.row(rows, 3)
