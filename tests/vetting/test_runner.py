"""The batch runner: one decision for each spectrum and task, whatever the list holds."""

from __future__ import annotations

import threading
import tracemalloc
from itertools import pairwise

import pytest
import runner_lab as lab

from specvet.data import files
from specvet.records import RunFolder, RunMismatchError
from specvet.records.schema import StopReason
from specvet.vetting import runner
from specvet.vetting.items import Item
from specvet.vetting.runner import vet
from specvet.vetting.watch import Progress


def reads(monkeypatch) -> list[str]:
    """The files that the runner opens from now on."""
    opened: list[str] = []
    read = files.read

    def noted(file):
        opened.append(file)
        return read(file)

    monkeypatch.setattr(files, "read", noted)
    return opened


def test_every_spectrum_gets_one_decision_a_task_in_the_order_of_the_list(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 3)
    with RunFolder.open(tmp_path / "run") as run:
        summary = vet(lab.files_of(names), lab.TASKS, lab.Steady(), run)
        made = list(run.decisions(with_trajectories=True))
    assert [(d.file, d.row, d.task) for d in made] == [(n, 0, t) for n in names for t in ("cv", "wd")]
    assert all(d.trajectory and d.trajectory.stop is StopReason.ANSWERED for d in made)
    assert made[0].layout == "text"
    assert made[0].n_pix == 300
    assert (made[0].wave_min, made[0].wave_max) == (4000.0, 7000.0)
    assert summary.decided == 6
    assert sum(summary.counts["cv"].values()) == 3
    assert (summary.errors, summary.skipped, summary.duplicates, summary.interrupted) == (0, 0, 0, False)


def test_a_file_of_many_targets_is_read_once_for_all_rows_and_tasks(tmp_path, monkeypatch):
    file = lab.write_rows(tmp_path / "many.npz", 5)
    opened = reads(monkeypatch)
    with RunFolder.open(tmp_path / "run") as run:
        vet([Item(file, row=3), Item(file, row=1), Item(file)], lab.TASKS, lab.Steady(), run)
        rows = [d.row for d in run.decisions(tasks=["cv"])]
    assert opened == [file]
    assert rows == [3, 1, 0, 2, 4]


def test_a_resume_opens_no_file_that_is_done(tmp_path, monkeypatch):
    names = [*lab.write_spectra(tmp_path / "data", 3), lab.write_rows(tmp_path / "many.npz", 4)]
    items = [*lab.files_of(names), Item(names[-1], row=2), Item("gone.fits")]
    with RunFolder.open(tmp_path / "run") as run:
        first = vet(items, lab.TASKS, lab.Steady(), run)
    opened = reads(monkeypatch)
    with RunFolder.open(tmp_path / "run") as run:
        policy = lab.Counting()
        second = vet(items, lab.TASKS, policy, run)
    assert opened == []
    assert policy.asked == []
    assert first.decided == 15
    assert second.decided == 0
    assert second.skipped == 14 + 2 + 1  # the row that is listed twice was met twice
    assert (first.duplicates, second.duplicates) == (1, 0)


def test_new_tasks_and_new_files_may_join_a_run(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 3)
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names[:2]), lab.TASKS[:1], lab.Steady(), run)
    with RunFolder.open(tmp_path / "run") as run:
        summary = vet(lab.files_of(names), lab.TASKS, lab.Steady(), run)
        assert summary.decided == 4
        assert summary.skipped == 2
        assert {(d.file, d.task) for d in run.decisions()} == {(n, t) for n in names for t in ("cv", "wd")}
    with RunFolder.open(tmp_path / "run") as run:
        assert vet(lab.files_of(names), lab.TASKS[:1], lab.Steady(), run).skipped == 3


def test_a_run_made_with_other_settings_is_refused_by_name(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 1)
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), lab.TASKS, lab.Steady(), run)
        with pytest.raises(RunMismatchError, match="frame_mode = careful, but now frame_mode = published"):
            vet(lab.files_of(names), lab.TASKS, lab.Steady(), run, frame_mode="published")
        with pytest.raises(RunMismatchError, match="hash of task cv"):
            vet(lab.files_of(names), [lab.task("cv", guidance="Look twice.")], lab.Steady(), run)
        with pytest.raises(RunMismatchError, match=r"budget\.max_turns"):
            vet(lab.files_of(names), lab.TASKS, lab.Steady(), run, budget=runner.Budget(max_turns=3))


def test_targets_are_found_by_identifier(tmp_path):
    file = lab.write_rows(tmp_path / "many.npz", 5)
    with RunFolder.open(tmp_path / "run") as run:
        vet([Item(file, ids=(("targetid", "39627003"),), id="mine")], lab.TASKS, lab.Steady(), run)
        assert [(d.row, d.id) for d in run.decisions(tasks=["cv"])] == [(3, "mine")]


def test_what_the_user_says_goes_before_what_the_file_says(tmp_path):
    name = lab.write_spectra(tmp_path / "data", 1)[0]
    with RunFolder.open(tmp_path / "run") as run:
        vet([Item(name, id="J1234+5678", ra=12.5, dec=-3.25, z=0.001)], lab.TASKS[:1], lab.Steady(), run)
        (made,) = run.decisions()
    assert (made.id, made.ra, made.dec, made.z) == ("J1234+5678", 12.5, -3.25, 0.001)
    assert made.frame == "rest frame (z = 0.001000 given by the user)"


def test_a_spectrum_that_comes_twice_is_vetted_once_and_counted(tmp_path):
    name = lab.write_spectra(tmp_path / "data", 1)[0]
    folder, base = name.rsplit("/", 1)
    many = lab.write_rows(tmp_path / "many.npz", 3)
    items = [Item(name), Item(name), Item(f"{folder}/./{base}"), Item(many, row=1), Item(many, row=1), Item(many)]
    items += [Item("gone.fits"), Item("gone.fits"), Item("gone.fits", row=0)]
    with RunFolder.open(tmp_path / "run") as run:
        policy = lab.Counting()
        summary = vet(items, lab.TASKS[:1], policy, run)
    assert len(policy.asked) == 4
    assert summary.duplicates == 2 + 1 + 1 + 2
    assert summary.decided == 5


def test_a_link_is_a_file_of_its_own(tmp_path):
    name = lab.write_spectra(tmp_path / "data", 1)[0]
    (tmp_path / "link.txt").symlink_to(name)
    with RunFolder.open(tmp_path / "run") as run:
        summary = vet([Item(name), Item(str(tmp_path / "link.txt"))], lab.TASKS[:1], lab.Steady(), run)
    assert (summary.decided, summary.duplicates) == (2, 0)


def test_stopping_finishes_the_trajectory_in_flight_and_a_resume_equals_one_run(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 4)
    items = [*lab.files_of(names[:2]), Item("gone.fits"), *lab.files_of(names[2:])]
    with RunFolder.open(tmp_path / "whole") as run:
        vet(items, lab.TASKS, lab.Steady(), run)
    stop = threading.Event()

    def at_the_third(trajectory):
        if len(policy.asked) == 3:
            stop.set()

    policy = lab.Counting(at_the_third)
    with RunFolder.open(tmp_path / "run") as run:
        summary = vet(items, lab.TASKS, policy, run, stop=stop)
        assert summary.interrupted
        assert summary.decided == 3
        assert [(d.file, d.task) for d in run.decisions()] == [(names[0], "cv"), (names[0], "wd"), (names[1], "cv")]
    with RunFolder.open(tmp_path / "run") as run:
        assert not vet(items, lab.TASKS, lab.Steady(), run).interrupted
        assert [s.interrupted for s in run.receipt().sessions] == [True, False]
    assert lab.results(tmp_path / "run") == lab.results(tmp_path / "whole")


def test_a_stop_between_missing_files_keeps_those_that_were_met(tmp_path):
    stop = threading.Event()

    def items():
        yield from (Item(f"gone{n}.fits") for n in range(7))
        stop.set()
        yield Item("after.fits")

    with RunFolder.open(tmp_path / "run") as run:
        assert vet(items(), lab.TASKS, lab.Steady(), run, stop=stop).interrupted
        assert len(list(run.decisions())) == 7


def test_a_keyboard_interrupt_passes_and_leaves_what_was_decided(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 3)

    def at_the_second(trajectory):
        if len(policy.asked) == 2:
            raise KeyboardInterrupt

    policy = lab.Counting(at_the_second)
    with pytest.raises(KeyboardInterrupt), RunFolder.open(tmp_path / "run") as run:
        vet([Item("gone.fits"), *lab.files_of(names)], lab.TASKS[:1], policy, run)
    assert [d["file"] for d in lab.results(tmp_path / "run")] == ["gone.fits", names[0]]
    with RunFolder.read(tmp_path / "run") as run:
        assert run.receipt().sessions[0].interrupted


def test_progress_tells_items_and_decisions(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 2)
    told: list[Progress] = []
    with RunFolder.open(tmp_path / "run") as run:
        vet([*lab.files_of(names), Item("gone.fits")], lab.TASKS, lab.Steady(), run, progress=told.append, total=3)
    assert [p.decided for p in told] == [1, 2, 2, 3, 4, 4, 5]
    assert (told[-1].items, told[-1].total, told[-1].errors, told[-1].file) == (3, 3, 1, "gone.fits")
    assert all(a.seconds <= b.seconds for a, b in pairwise(told))


def test_pictures_are_kept_when_asked_for(tmp_path):
    names = lab.write_spectra(tmp_path / "data", 1)
    with RunFolder.open(tmp_path / "run") as run:
        vet(lab.files_of(names), lab.TASKS, lab.Steady(), run, images=True)
        made = list(run.decisions(with_trajectories=True))
        shown = [
            o.image for d in made if d.trajectory for o in (d.trajectory.opening, d.trajectory.turns[0].observation)
        ]
        assert all(sha and run.images.path(sha).read_bytes().startswith(b"\x89PNG") for sha in shown)
    assert len(list((tmp_path / "run" / "images").rglob("*.png"))) == 2  # two tasks saw the same two pictures


def test_twenty_thousand_missing_files_are_recorded_in_flat_memory(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        vet((Item(f"warm-up/{n}.fits") for n in range(1_000)), lab.TASKS, lab.Steady(), run)
        tracemalloc.start()
        try:
            summary = vet((Item(f"data/{n}.fits", id=str(n)) for n in range(20_000)), lab.TASKS, lab.Steady(), run)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert summary.errors == summary.decided == 20_000
    assert peak < 8e6


def test_the_same_list_gives_the_same_table_twice(tmp_path):
    items = lab.files_of([*lab.write_spectra(tmp_path / "data", 3), lab.write_rows(tmp_path / "many.npz", 3)])
    for name in ("one", "two"):
        with RunFolder.open(tmp_path / name) as run:
            vet(items, lab.TASKS, lab.Steady(), run)
    assert lab.results(tmp_path / "one") == lab.results(tmp_path / "two")


def test_tasks_must_be_given_and_differ(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        for tasks in ([], [lab.TASKS[0], lab.TASKS[0]]):
            with pytest.raises(ValueError, match="give at least one, each once"):
                vet([], tasks, lab.Steady(), run)
