"""What cannot be read or decided is a row that says why, and never the end of the batch."""

from __future__ import annotations

import os

import numpy as np
import pytest
import runner_lab as lab

from specvet.data import files
from specvet.policies import Answered, Call, Malformed
from specvet.records import DiskFullError, RunFolder
from specvet.records.schema import Answer, StopReason, Verdict
from specvet.vetting import runner
from specvet.vetting.items import Item
from specvet.vetting.runner import vet


def test_whatever_cannot_be_vetted_becomes_an_error_row_with_one_line_of_reason(tmp_path):
    many, good = lab.write_rows(tmp_path / "many.npz", 2), lab.write_spectra(tmp_path / "data", 1)[0]
    (tmp_path / "noise.fits").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "empty.fits").touch()
    items = [
        Item(str(tmp_path / "gone.fits"), id="GONE"),
        Item(str(tmp_path / "noise.fits")),
        Item(str(tmp_path / "empty.fits")),
        Item(str(tmp_path)),
        Item("list.csv line 17", problem="list.csv line 17:\nthe path is empty"),
        Item(many, row=7, id="seven"),
        Item(many, row=-1),
        Item(many, row=10**30, id="huge"),
        Item(many, ids=(("targetid", "12345"),)),
        Item(many, row=1, z=-5.0),
        Item(good),
    ]
    with RunFolder.open(tmp_path / "run") as run:
        summary = vet(items, lab.TASKS, lab.Steady(), run)
        made = list(run.decisions())
    errors = [d for d in made if d.verdict.answer is Answer.ERROR]
    assert len(errors) == summary.errors == 10
    assert all(d.task == "*" and d.verdict.reason and "\n" not in d.verdict.reason for d in errors)
    assert [(d.row, d.id) for d in errors[:1] + errors[5:]] == [
        (0, "GONE"),
        (7, "seven"),
        (-1, ""),
        (0, "huge"),
        (0, "targetid=12345"),
        (1, ""),
    ]
    assert "there is no row 7; the file holds 2 targets, rows 0 to 1" in errors[5].verdict.reason
    assert "no target of this file has targetid=12345; the file holds targetid=39627000" in errors[8].verdict.reason
    assert "a redshift must be a finite number above -1" in errors[9].verdict.reason
    assert [(d.file, d.task) for d in made[-2:]] == [(good, "cv"), (good, "wd")]


def test_list_rows_of_one_missing_file_each_get_their_error(tmp_path):
    items = [Item("gone.fits", row=n, id=f"T{n}") for n in range(3)]
    items += [Item("gone.fits", ids=(("targetid", str(n)),)) for n in range(3)]
    with RunFolder.open(tmp_path / "run") as run:
        assert vet(items, lab.TASKS, lab.Steady(), run).errors == 6
        assert [d.id for d in run.decisions()] == ["T0", "T1", "T2", "targetid=0", "targetid=1", "targetid=2"]
    with RunFolder.open(tmp_path / "run") as run:
        assert vet(items, lab.TASKS, lab.Steady(), run).skipped == 6


def test_a_reader_or_policy_that_breaks_never_stops_the_batch(tmp_path, monkeypatch):
    names = lab.write_spectra(tmp_path / "data", 4)
    read = files.read

    def broken(file):
        if file == names[1]:
            raise ZeroDivisionError("in the reader")
        return read(file)

    def odd(trajectory):
        if names[2] in trajectory.question.id:
            raise RuntimeError("in the policy")

    monkeypatch.setattr(files, "read", broken)
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), lab.TASKS[:1], lab.Counting(odd), run)
        made = {d.file: d.verdict for d in run.decisions()}
    assert made[names[1]].answer is Answer.ERROR
    assert made[names[1]].reason == "ZeroDivisionError: in the reader"
    assert made[names[2]].answer is Answer.FAILED
    assert "RuntimeError: in the policy" in made[names[2]].reason
    assert made[names[3]].answer in (Answer.YES, Answer.NO)


def test_an_exception_in_the_loop_itself_becomes_a_failed_row(tmp_path, monkeypatch):
    names = lab.write_spectra(tmp_path / "data", 2)
    monkeypatch.setattr(runner, "run_agent", lambda *_: 1 / 0)
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), lab.TASKS[:1], lab.Steady(), run)
        assert [d.verdict.reason for d in run.decisions()] == [
            "deciding failed: ZeroDivisionError: division by zero"
        ] * 2


def test_words_that_are_no_text_fail_their_row_only(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 2)

    def half_a_character(trajectory):
        if names[0] in trajectory.question.id:
            return Answered(Verdict(answer=Answer.YES, confidence=0.9, reason="\ud83d"))
        return None

    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), lab.TASKS[:1], lab.Counting(half_a_character), run)
        first, second = run.decisions()
    assert first.verdict.answer is Answer.FAILED
    assert "surrogates not allowed" in first.verdict.reason
    assert second.verdict.answer in (Answer.YES, Answer.NO)


def test_malformed_and_endless_policies_are_failed_rows(tmp_path):
    name = lab.write_spectra(tmp_path / "data", 1)

    class Endless(lab.Steady):
        def act(self, trajectory):
            if trajectory.task.key == "wd":
                return Malformed("neither")
            return Call("spectral_visualization_tool", {"wavelength_range": [6400, 6700]})

    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(name), lab.TASKS, Endless(), run)
        made = list(run.decisions(with_trajectories=True))
    assert [d.verdict.answer for d in made] == [Answer.FAILED] * 2
    assert [d.trajectory and d.trajectory.stop for d in made] == [StopReason.MAX_TURNS, StopReason.MALFORMED]


def test_a_full_disk_ends_the_batch(tmp_path, monkeypatch):
    names = lab.write_spectra(tmp_path / "data", 3)

    def full(*_):
        raise DiskFullError("images")

    monkeypatch.setattr(runner, "run_agent", full)
    with RunFolder.open(tmp_path / "run") as run:
        with pytest.raises(DiskFullError):
            vet(lab.files_of(names), lab.TASKS, lab.Steady(), run)
        assert list(run.decisions()) == []


def test_errors_are_tried_again_when_asked_only(tmp_path):
    good = lab.write_spectra(tmp_path / "data", 2)
    items = lab.files_of([good[0], str(tmp_path / "late" / "s0000.txt")])
    with RunFolder.open(tmp_path / "run") as run:
        assert vet(items, lab.TASKS, lab.Steady(), run).errors == 1
    lab.write_spectra(tmp_path / "late", 1)
    with RunFolder.open(tmp_path / "run") as run:
        assert vet(items, lab.TASKS, lab.Steady(), run).decided == 0
        assert run.retry(Answer.ERROR) == 1
        summary = vet(items, lab.TASKS, lab.Steady(), run)
        assert (summary.decided, summary.errors) == (2, 0)


def test_a_file_that_was_vetted_and_is_gone_stays_vetted(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 1)
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), lab.TASKS, lab.Steady(), run)
    with RunFolder.open(tmp_path / "run") as run:
        summary = vet([Item(names[0], problem="no such file")], lab.TASKS, lab.Steady(), run)
        assert (summary.errors, summary.skipped) == (0, 2)


def test_no_data_is_decided_without_asking_the_policy(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 1)
    policy = lab.Counting()
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), [lab.task("cv", min_snr=1e6)], policy, run)
        (made,) = run.decisions()
    assert made.verdict.answer is Answer.NO_DATA
    assert policy.asked == []


def test_a_file_name_that_is_no_utf_8_is_vetted_under_a_name_that_can_be_kept(tmp_path):
    name = lab.write_spectra(tmp_path / "data", 1)[0]
    odd = os.fsencode(str(tmp_path)) + b"/\xe9toile.txt"
    os.rename(name, odd)
    with RunFolder.open(tmp_path / "run") as run:
        vet([Item(os.fsdecode(odd))], lab.TASKS[:1], lab.Steady(), run)
        (made,) = run.decisions()
    assert made.file == f"{tmp_path}/\\xe9toile.txt"
    assert made.verdict.answer in (Answer.YES, Answer.NO)


def test_a_spectrum_without_a_number_in_it_is_a_row_like_others(tmp_path):
    wavelength = np.linspace(4000, 7000, 50)
    np.savez(tmp_path / "nan.npz", wavelength=wavelength, flux=np.full(50, np.nan))
    with RunFolder.open(tmp_path / "run") as run:
        vet([Item(str(tmp_path / "nan.npz"))], lab.TASKS[:1], lab.Steady(), run)
        (made,) = run.decisions()
    assert made.verdict.answer in (Answer.NO_DATA, Answer.ERROR)
