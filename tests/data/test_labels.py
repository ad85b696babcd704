"""A person's labels: what several rows say together, and the set that is made of them."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from specvet.data.asking import load_questions
from specvet.data.demonstrations import read_demonstrations
from specvet.data.labels import Agreed, LabelRow, agreed, is_before
from specvet.data.labels_made import Made, Settings, make_labelled
from specvet.data.labels_objects import Sighting, objects_of
from specvet.data.questions import read_questions
from specvet.records.errors import RunError
from specvet.records.lock import FolderLock
from specvet.tasks import builtin_tasks

NAMES = {"cv": "cv", "CV": "cv", "wd": "wd"}


def row(file: str, answer: str, *, task: str = "cv", number: int | None = None, line: int = 2, **more: str) -> LabelRow:
    return LabelRow(f"t.csv line {line}", file, number, ((task, answer),), "", more)


def test_answers_are_read_as_people_write_them() -> None:
    written = ["YES", " no ", "Y", "false", "BORDERLINE", "UNSURE", "", "perhaps so"]
    found = agreed([row(f"{i}.fits", text) for i, text in enumerate(written)], NAMES)
    assert [label.answer for label in found.labels] == ["YES", "NO", "YES", "NO"]
    assert [(left.kind, left.answer) for left in found.left] == [
        ("no answer", "perhaps so"),
        ("set aside", "BORDERLINE"),
        ("set aside", "UNSURE"),
    ]
    assert found.empty == 1
    assert {label.label_source for label in found.labels} == {"user"}


def test_reviewers_who_agree_make_one_label_and_others_none() -> None:
    rows = [
        row("a.fits", "YES", reviewer="wang", line=2),
        row("a.fits", "YES", reviewer="li", line=3, object_id="A"),
        row("b.fits", "YES", reviewer="wang", line=4),
        row("b.fits", "NO", reviewer="li", line=5),
        row("c.fits", "NO", reviewer="li", line=6),
        row("c.fits", "UNSURE", reviewer="wang", line=7),
    ]
    found = agreed(rows, NAMES)
    assert [(label.file, label.answer, label.object_id, label.where) for label in found.labels] == [
        ("a.fits", "YES", "A", "t.csv line 2")
    ]
    assert [(left.kind, left.file) for left in found.left] == [("contradiction", "b.fits"), ("contradiction", "c.fits")]
    assert found.left[0].reason == "those who looked do not agree: wang says YES, li says NO"


def test_the_last_word_of_a_reviewer_counts() -> None:
    rows = [
        row("a.fits", "NO", reviewer="wang", time="2026-03-02"),
        row("a.fits", "YES", reviewer="wang", time="2026-03-01"),
    ]
    assert [label.answer for label in agreed(rows, NAMES).labels] == ["NO"]


@pytest.mark.parametrize(
    ("first", "second", "earlier"),
    [
        ("2026-03-01 9:00", "2026-03-01 10:00", True),
        ("2026-03-01T10:00:00Z", "2026-03-01T11:00:00+02:00", False),
        ("2026-03-01T11:00:00+02:00", "2026-03-01T10:00:00Z", True),
        ("2026-3-9", "2026-03-10T00:00", True),
        ("9:00", "10:00", True),
        ("2026-03-01", "2026-03-01 10:00", False),
        ("2026-03-01 10:00:00.25", "2026-03-01 10:00:00.5 UTC", True),
        ("2026-13-01", "2027-01-01", False),
        ("last week", "2026-03-01", False),
        ("", "2026-03-01", False),
        ("9:00", "2026-03-01", False),
    ],
)
def test_times_are_compared_as_times(first: str, second: str, earlier: bool) -> None:
    assert is_before(first, second) is earlier
    if earlier:
        assert not is_before(second, first)


def test_the_last_row_of_a_reviewer_counts_where_times_tell_nothing() -> None:
    for times in (("", ""), ("?", "2026-03-01"), ("2026-03-01", ""), ("2026-03-01", "2026-03-01")):
        rows = [row("a.fits", a, reviewer="wang", time=t) for a, t in zip(("NO", "YES"), times, strict=True)]
        assert [label.answer for label in agreed(rows, NAMES).labels] == ["YES"], times


def test_a_reviewer_is_one_person_however_the_name_is_written() -> None:
    rows = [
        row("a.fits", "NO", reviewer="Wang Li ", time="2026-03-01 9:00"),
        row("a.fits", "YES", reviewer=" wang  li", time="2026-03-01 10:00"),
    ]
    assert [label.answer for label in agreed(rows, NAMES).labels] == ["YES"]


def test_a_long_disagreement_is_told_briefly_with_both_sides() -> None:
    rows = [row("a.fits", "YES", line=i + 2) for i in range(500)] + [row("a.fits", "NO", line=900)]
    (left,) = agreed(rows, NAMES).left
    assert "t.csv line 900 says NO" in left.reason
    assert left.reason.endswith(", and 495 more")


def test_rows_without_a_reviewer_speak_for_themselves() -> None:
    assert len(agreed([row("a.fits", "YES"), row("./a.fits", "YES", task="CV", number=0)], NAMES).labels) == 1
    found = agreed([row("a.fits", "YES", line=2), row("a.fits", "NO", line=9)], NAMES)
    assert found.labels == []
    assert found.left[0].reason == "those who looked do not agree: t.csv line 2 says YES, t.csv line 9 says NO"


def test_unknown_tasks_and_rows_without_a_place_are_listed() -> None:
    nowhere = LabelRow("t.csv line 5", "x", None, (("cv", "YES"),), "no such file: x")
    found = agreed([row("a.fits", "YES", task="qso"), nowhere], NAMES)
    assert [(left.kind, left.task) for left in found.left] == [("unknown task", "qso"), ("no place", "cv")]


# The set --------------------------------------------------------------------------------------------------------------


def write_star(path: Path, heights: dict[float, float], seed: int = 0) -> None:
    """SIMULATED: a blue continuum with Gaussian lines of these heights, S/N 40, three columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    wavelength = np.arange(3800.0, 9000.0, 2.0)
    rng = np.random.default_rng(seed)
    shape = np.ones_like(wavelength)
    for at, height in heights.items():
        shape += height * np.exp(-0.5 * ((wavelength - at) / 14.0) ** 2)
    flux = shape * (wavelength / 6000.0) ** -1.0
    sigma = 0.025
    rows = np.stack([wavelength, flux + rng.normal(0.0, sigma, flux.size), np.full(flux.size, sigma)], axis=1)
    np.savetxt(path, rows, fmt="%.5f", header="wavelength flux error")


EMISSION = {6562.8: 1.6, 4861.3: 1.2, 4340.5: 1.0, 5875.6: 0.4, 6678.2: 0.3}
ABSORPTION = {6562.8: -0.5, 4861.3: -0.55, 4340.5: -0.55, 4101.7: -0.55}


@pytest.fixture
def spectra(tmp_path: Path) -> Path:
    folder = tmp_path / "spectra"
    for i in range(5):
        write_star(folder / f"cv{i}.txt", EMISSION, i)
        write_star(folder / f"star{i}.txt", ABSORPTION, 10 + i)
    (folder / "broken.fits").write_bytes(b"SIMPLE  =" + b"\0" * 100)
    return folder


def rows_of(folder: Path, **more: str) -> list[LabelRow]:
    files = sorted(p for p in folder.iterdir() if p.suffix == ".txt")
    return [row(str(p), "YES" if p.name.startswith("cv") else "NO", line=i + 2, **more) for i, p in enumerate(files)]


def made(out: Path, labels: Agreed, **settings: object) -> Made:
    return make_labelled(out, labels, builtin_tasks(), Settings(style="compact", **settings))  # type: ignore[arg-type]


def tree(folder: Path) -> dict[str, bytes]:
    left_out = ("run.lock", "made.jsonl")
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name not in left_out
    }


def test_labels_become_questions_and_demonstrations(spectra: Path, tmp_path: Path) -> None:
    labels = agreed([*rows_of(spectra), row(str(spectra / "broken.fits"), "YES", line=99)], NAMES)
    done = made(tmp_path / "set", labels, val_share=0.2)
    asked = read_questions(str(tmp_path / "set" / "questions.jsonl"))
    assert len(asked) == 10
    assert all(os.path.isfile(one.file) for one in asked)
    assert {one.question.name for one in asked} == {f"{kind}{i}.txt" for kind in ("cv", "star") for i in range(5)}
    assert {one.question.label_source for one in asked} == {"user"}
    parts = {part: read_questions(str(tmp_path / "set" / f"{part}.jsonl")) for part in ("train", "val")}
    assert {part: len(rows) for part, rows in parts.items()} == {"train": 8, "val": 2}
    assert {one.question.answer for one in parts["val"]} == {"YES", "NO"}
    assert len(load_questions(str(tmp_path / "set" / "train.jsonl"), style="compact").asked) == 8
    shown = [d for part in ("train", "val") for d in read_demonstrations(str(tmp_path / "set" / f"sft_{part}.jsonl"))]
    assert len(shown) == done.stats["drafts"] >= 9
    assert all(os.path.isfile(path) for d in shown for path in d.pictures)
    rejects = [json.loads(line) for line in (tmp_path / "set" / "rejects.jsonl").read_text().splitlines()]
    assert [r["kind"] for r in rejects][:1] == ["unreadable"]
    assert rejects[0]["where"] == "t.csv line 99"


def test_a_label_that_the_evidence_contradicts_stays_and_is_listed_to_be_looked_at_again(
    spectra: Path, tmp_path: Path
) -> None:
    wrong = row(str(spectra / "cv0.txt"), "NO", line=2)
    done = made(tmp_path / "set", agreed([wrong, *rows_of(spectra)[1:]], NAMES))
    (again,) = done.stats["look_again"]
    assert (again["where"], again["task"], again["answer"]) == ("t.csv line 2", "cv", "NO")
    assert again["reason"].startswith("evidence says YES (log-odds +")
    assert [left.where for left in done.again] == ["t.csv line 2"]
    asked = {one.question.name: one.question.answer for one in read_questions(str(tmp_path / "set" / "train.jsonl"))}
    assert len(asked) >= 8
    once_more = made(tmp_path / "set", agreed([wrong, *rows_of(spectra)[1:]], NAMES))
    assert (once_more.drafted_now, once_more.stats["look_again"]) == (0, done.stats["look_again"])


def test_nothing_is_done_twice(spectra: Path, tmp_path: Path) -> None:
    first = made(tmp_path / "set", agreed(rows_of(spectra), NAMES))
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "set").rglob("*") if p.is_file() and p.name != "run.lock"}
    again = made(tmp_path / "set", agreed(rows_of(spectra), NAMES))
    assert (first.drafted_now, again.drafted_now) == (10, 0)
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert again.stats == first.stats


def test_a_new_row_a_changed_label_and_a_lost_picture_are_all_that_is_made_anew(spectra: Path, tmp_path: Path) -> None:
    made(tmp_path / "set", agreed(rows_of(spectra)[:8], NAMES))
    more = made(tmp_path / "set", agreed(rows_of(spectra), NAMES))
    assert more.drafted_now == 2
    kept = tree(tmp_path / "set")
    next((tmp_path / "set" / "images").iterdir()).unlink()
    assert made(tmp_path / "set", agreed(rows_of(spectra), NAMES)).drafted_now == 1
    assert tree(tmp_path / "set") == kept


def test_a_stopped_set_goes_on_and_equals_one_that_never_stopped(spectra: Path, tmp_path: Path) -> None:
    labels = agreed(rows_of(spectra), NAMES)
    stop = threading.Event()

    def after_three(what: str, done: int, total: int) -> None:
        if what == "drafts" and done == 3:
            stop.set()

    settings = Settings(style="compact")
    part = make_labelled(tmp_path / "set", labels, builtin_tasks(), settings, told=after_three, stop=stop)
    assert (part.stopped, part.drafted_now, part.stats["complete"]) == (True, 3, False)
    with open(tmp_path / "set" / "made.jsonl", "ab") as journal:
        journal.write(b'{"key": "draft cut sho')  # as a kill leaves it
    rest = make_labelled(tmp_path / "set", labels, builtin_tasks(), settings)
    assert (rest.stopped, rest.drafted_now) == (False, 7)
    make_labelled(tmp_path / "whole", labels, builtin_tasks(), settings)
    assert tree(tmp_path / "set") == tree(tmp_path / "whole")


def test_a_set_with_copies_can_be_moved(spectra: Path, tmp_path: Path) -> None:
    write_star(spectra / "deeper" / "cv0.txt", EMISSION, 77)  # another file of the same name
    rows = [*rows_of(spectra), row(str(spectra / "deeper" / "cv0.txt"), "YES", line=50, name="cv0-deeper")]
    made(tmp_path / "set", agreed(rows, NAMES), copy=True, drafts=False)
    (tmp_path / "else").mkdir()
    shutil.move(tmp_path / "set", tmp_path / "else" / "moved")
    shutil.rmtree(spectra)
    questions = load_questions(str(tmp_path / "else" / "moved" / "questions.jsonl"))
    assert len(questions.asked) == 11
    assert questions.rejects == []
    hashes = {questions.pose(one).tool.spectrum.content_hash for one in questions.asked}
    assert len(hashes) == 11
    assert not (tmp_path / "else" / "moved" / "sft_train.jsonl").exists()


def test_one_object_is_on_one_side_of_the_split(spectra: Path, tmp_path: Path) -> None:
    rows = rows_of(spectra)
    same = [
        LabelRow(r.where, r.file, r.row, r.answers, "", {"object_id": f"star {i // 2}"}) for i, r in enumerate(rows)
    ]
    made(tmp_path / "set", agreed(same, NAMES), val_share=0.4, drafts=False)
    sides: dict[str, set[str]] = {}
    for one in read_questions(str(tmp_path / "set" / "questions.jsonl")):
        sides.setdefault(str(one.question.object_id), set()).add(str(one.question.split))
    assert all(len(side) == 1 for side in sides.values())
    assert {s for side in sides.values() for s in side} == {"train", "val"}


def test_files_of_several_targets_need_a_row_and_names_must_differ(spectra: Path, tmp_path: Path) -> None:
    wavelength = np.arange(4000.0, 9000.0, 2.0)
    many = spectra / "many.npz"
    np.savez(many, wavelength=wavelength, flux=np.ones((2, wavelength.size)), ivar=np.full((2, wavelength.size), 900.0))
    rows = [
        row(str(many), "NO", line=2),
        row(str(many), "NO", task="wd", number=1, line=3),
        row(str(many), "NO", task="wd", number=7, line=4),
        row(str(spectra / "cv0.txt"), "YES", line=5, name="x"),
        row(str(spectra / "cv1.txt"), "YES", line=6, name="x"),
    ]
    done = made(tmp_path / "set", agreed(rows, NAMES), drafts=False)
    reasons = {left.where: left.reason for left in done.left}
    assert reasons["t.csv line 2"] == "the file holds 2 targets; say which in a column row"
    assert reasons["t.csv line 4"] == "there is no row 7; the file holds 2, from 0"
    assert "is called 'x' too" in reasons["t.csv line 6"]
    names = [one.question.name for one in read_questions(str(tmp_path / "set" / "questions.jsonl"))]
    assert names == ["many.npz#1", "x"]


def test_every_row_that_does_not_say_which_target_it_means_is_listed(spectra: Path, tmp_path: Path) -> None:
    wavelength = np.arange(4000.0, 9000.0, 2.0)
    many = spectra / "many.npz"
    np.savez(many, wavelength=wavelength, flux=np.ones((2, wavelength.size)), ivar=np.full((2, wavelength.size), 900.0))
    rows = [
        row(str(many), "NO", line=2),
        row(str(many), "NO", line=3),
        row(str(many), "YES", line=4),
        row(str(many), "NO", number=0, line=5),
    ]
    done = made(tmp_path / "set", agreed(rows, NAMES), drafts=False)
    assert [(left.kind, left.where, left.row) for left in done.left] == [
        ("unreadable", f"t.csv line {line}", None) for line in (2, 3, 4)
    ]
    assert {left.reason for left in done.left} == {"the file holds 2 targets; say which in a column row"}
    (one,) = read_questions(str(tmp_path / "set" / "questions.jsonl"))
    assert (one.question.name, one.question.answer) == ("many.npz#0", "NO")


def seen(file: str, object_id: str = "", at: float | None = None, row: int = 0) -> Sighting:
    return Sighting(file, row, f"{file}#{row}", object_id, None if at is None else (at, 30.0))


@pytest.mark.parametrize(
    ("found", "objects"),
    [
        ([seen("a", "star1"), seen("a")], ["star1", "star1"]),  # one spectrum, asked two things
        ([seen("a", "star1", 10.0), seen("b", "", 10.0001)], ["star1", "star1"]),
        ([seen("a", "star1", 10.0), seen("b", "star2", 10.0001)], ["star1", "star2"]),
        ([seen("a", "star1"), seen("./a", "star0")], ["star0", "star0"]),
        ([seen("a", "star1"), seen("a"), seen("b", "star1")], ["star1"] * 3),
        ([seen("a", "", 10.0), seen("b", "", 10.0001), seen("c", "", 11.0)], ["a#0", "a#0", "c#0"]),
        ([seen("a", row=0), seen("a", row=1)], ["a#0", "a#1"]),
        ([seen("x", "b#0"), seen("b")], ["b#0", "b#0-2"]),
    ],
)
def test_one_spectrum_is_of_one_object(found: list[Sighting], objects: list[str]) -> None:
    assert objects_of(found) == objects


def test_a_spectrum_with_and_without_an_object_id_is_on_one_side_of_the_split(spectra: Path, tmp_path: Path) -> None:
    rows = [
        row(
            r.file,
            r.answers[0][1],
            task=task,
            line=2 * i + (task == "wd"),
            **({"object_id": f"s{i}"} if task == "cv" else {}),
        )
        for i, r in enumerate(rows_of(spectra))
        for task in ("cv", "wd")
    ]
    made(tmp_path / "set", agreed(rows, NAMES), val_share=0.4, drafts=False)
    sides: dict[str, set[str]] = {}
    for one in read_questions(str(tmp_path / "set" / "questions.jsonl")):
        sides.setdefault(str(one.question.spectrum.path), set()).add(str(one.question.split))
    assert len(sides) == 10
    assert all(len(side) == 1 for side in sides.values())


def test_a_folder_in_use_and_a_share_that_is_none_are_errors(spectra: Path, tmp_path: Path) -> None:
    labels = agreed(rows_of(spectra), NAMES)
    with pytest.raises(ValueError, match="val-share"):
        made(tmp_path / "set", labels, val_share=1.0)
    (tmp_path / "set").mkdir()
    lock = FolderLock(tmp_path / "set")
    try:
        with pytest.raises(RunError):
            made(tmp_path / "set", labels)
    finally:
        lock.release()
