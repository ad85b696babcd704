"""A run folder keeps what it is given, once, and says what it will not take."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from samples import decision, error, trajectory

from specvet.records import Decision, DuplicateDecisionError, RunError, RunFolder, RunMismatchError
from specvet.records.schema import Answer, EvidenceItem, Measurement, Verdict

CONFIG = {"policy": "test", "frame_mode": "careful", "budget": {"max_turns": 8}, "tasks": {"cv": "a" * 64}}


def rows(run: RunFolder) -> list[tuple[str, int, str]]:
    return [(d.file, d.row, d.task) for d in run.decisions()]


def test_a_decision_comes_back_as_it_was_recorded(tmp_path):
    made = decision("spec-Å.fits", 3)
    with RunFolder.open(tmp_path / "run") as run:
        run.record(made)
        assert list(run.decisions(with_trajectories=True)) == [made]
        assert list(run.decisions()) == [made.model_copy(update={"trajectory": None})]
        assert run.trajectory("spec-Å.fits", 3, "cv") == made.trajectory
    with RunFolder.read(tmp_path / "run") as run:
        assert list(run.decisions(with_trajectories=True)) == [made]
        assert run.trajectory("spec-Å.fits", 3, "cv") == made.trajectory


def test_a_decision_is_on_disk_when_record_returns(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision())
        with RunFolder.read(tmp_path / "run") as other:
            assert rows(other) == [("a.fits", 0, "cv")]


def test_what_is_not_forced_is_there_for_others_and_after_a_kill(tmp_path):
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[2]); from samples import decision\n"
        "from specvet.records import RunFolder\n"
        "run = RunFolder.open(sys.argv[1])\n"
        "run.record_many([decision(row=n) for n in range(3)], forced=False)\n"
        "assert run._db.execute('PRAGMA synchronous').fetchone() == (2,)\n"  # the next is forced again
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run"), os.path.dirname(__file__)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with RunFolder.open(tmp_path / "run") as run:
        assert rows(run) == [("a.fits", n, "cv") for n in range(3)]
        assert run.record_many([decision(row=2), decision(row=3)], forced=False) == 1


def test_numbers_that_json_has_no_words_for_come_back(tmp_path):
    nan, inf = float("nan"), float("inf")
    item = EvidenceItem(says="odd", measurement=Measurement(index="x", name="x", quality=nan), log_odds=-inf)
    made = decision().model_copy(update={"verdict": Verdict(answer=Answer.NO, reason="odd", evidence=(item,))})
    with RunFolder.open(tmp_path / "run") as run:
        run.record(made)
        (back,) = run.decisions()
    assert back.verdict.evidence[0].log_odds == -inf
    assert back.verdict.evidence[0].measurement.quality != back.verdict.evidence[0].measurement.quality


def test_a_second_decision_for_one_row_and_task_is_refused_and_the_first_stands(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision(says="first"))
        with pytest.raises(DuplicateDecisionError, match=r"a\.fits row 0, task cv: has a decision already"):
            run.record(decision(says="second"))
        assert run.record_many([decision(says="third"), decision(row=1)]) == 1
        assert [d.verdict.reason for d in run.decisions(with_trajectories=True)] == ["first", "Hα is broad"]
        assert run.count() == {"cv": {"YES": 2}}


def test_errors_of_one_file_differ_by_id(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        assert run.record_many([error(id="1"), error(id="2"), error(id="1")]) == 2
        assert [d.id for d in run.decisions()] == ["1", "2"]


def test_done_asks_the_database_and_iterates_in_order(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record_many([decision("b.fits"), decision("a.fits", 2), error()])
        done = run.done()
        assert ("b.fits", 0, "cv") in done
        assert ("./a.fits", 2, "cv") in done
        assert ("b.fits", 0, "wd") not in done
        assert "b.fits" not in done
        assert len(done) == 3
        assert list(done) == [("b.fits", 0, "cv"), ("a.fits", 2, "cv"), ("gone.fits", 0, "*")]
        assert done & {("b.fits", 0, "cv")} == {("b.fits", 0, "cv")}


def test_decisions_can_be_chosen_by_task_and_answer(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record_many([decision("a"), decision("a", task="wd"), error("b")])
        assert [d.task for d in run.decisions(tasks=["wd"])] == ["wd"]
        assert [d.file for d in run.decisions(answers=[Answer.ERROR])] == ["b"]
        assert [d.file for d in run.decisions(tasks=["cv"], answers=["YES", "NO"])] == ["a"]
        assert list(run.decisions(tasks=[])) == []


def test_more_decisions_than_a_page_come_in_order_and_once(tmp_path):
    made = [error(f"f{n}.fits") for n in range(2_345)]
    with RunFolder.open(tmp_path / "run") as run:
        run.record_many(made)
        assert list(run.decisions()) == made


def test_iterating_while_recording_sees_every_decision(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record_many([error(f"f{n}") for n in range(1_500)])
        seen = []
        for d in run.decisions():
            seen.append(d.file)
            if len(seen) == 10:
                run.record(decision("late"))
        assert seen[-1] == "late"
        assert len(seen) == 1_501


def test_trajectories_move_into_shards_and_are_found_in_either_place(tmp_path):
    made = [decision(f"f{n}.fits") if n % 3 else error(f"f{n}.fits") for n in range(20)]
    with RunFolder.open(tmp_path / "run", compact_at=5) as run:
        for d in made:
            run.record(d)
        assert len(list((run.path / "trajectories").iterdir())) == 2
        assert list(run.decisions(with_trajectories=True)) == made
        assert all(run.trajectory(d.file, 0, "cv") == d.trajectory for d in made)
    with RunFolder.read(tmp_path / "run") as run:
        assert len(list((run.path / "trajectories").iterdir())) == 3
        assert list(run.decisions(with_trajectories=True)) == made
        assert all(run.trajectory(d.file, 0, "cv") == d.trajectory for d in made)
        assert run.trajectory("f1.fits", 0, "wd") is None
        assert list(run.decisions(tasks=["cv"], with_trajectories=True)) == [d for d in made if d.trajectory]


def test_a_shard_is_zstd_with_flat_columns_and_the_whole_record(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision())
    path = tmp_path / "run" / "trajectories" / "part-00000.parquet"
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    (row,) = pq.read_table(path).to_pylist()
    assert (row["file"], row["task"], row["stop"], row["answer"], row["confidence"]) == (
        "a.fits",
        "cv",
        "answered",
        "YES",
        0.9,
    )
    assert row["windows"] == [[6400.0, 6700.0], [6400.0, 6700.0]]
    assert row["texts"] == ["Look at Hα.", "Hα is broad"]
    assert row["tool_calls"] == 1
    assert json.loads(row["json"]) == trajectory("a.fits").model_dump(mode="json")


def test_retrying_errors_removes_them_and_keeps_an_event(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record_many([decision("a"), error("b"), error("c")])
        assert run.retry(Answer.ERROR) == 2
        assert rows(run) == [("a", 0, "cv")]
        assert run.count() == {"cv": {"YES": 1}}
        assert [e.text for e in run.events() if e.kind == "retry"] == ["removed 2 ERROR rows to try them again"]
        run.record(error("b"))
        assert rows(run) == [("a", 0, "cv"), ("b", 0, "*")]


def test_config_yaml_holds_the_config_and_versions_and_is_written_once(tmp_path):
    with RunFolder.open(tmp_path / "run", config={**CONFIG, "out": str(tmp_path / "run"), "list": ("a", "b")}):
        pass
    path = tmp_path / "run" / "config.yaml"
    before = path.read_bytes()
    said = yaml.safe_load(before)
    assert said["kind"] == "vet"
    assert said["policy"] == "test"
    assert said["list"] == ["a", "b"]
    assert "out" not in said
    assert {"python", "specvet", "numpy"} <= set(said["versions"])
    with RunFolder.open(tmp_path / "run", config={**CONFIG, "tasks": {"wd": "b" * 64}}) as run:
        assert run.config == said
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"policy": "other"}, "policy = test, but now policy = other"),
        ({"frame_mode": "published"}, "frame_mode = careful, but now frame_mode = published"),
        ({"budget": {"max_turns": 4}}, r"budget\.max_turns = 8, but now budget\.max_turns = 4"),
        ({"tasks": {"cv": "b" * 64}}, "hash of task cv = aaaaaaaaaaaa, but now hash of task cv = bbbbbbbbbbbb"),
    ],
)
def test_other_settings_are_refused_with_both_values_and_the_fix(tmp_path, change, names):
    with RunFolder.open(tmp_path / "run", config=CONFIG):
        pass
    with pytest.raises(RunMismatchError, match=names) as caught:
        RunFolder.open(tmp_path / "run", config={**CONFIG, **change})
    assert "Give another --out" in str(caught.value)
    with RunFolder.open(tmp_path / "run", config=CONFIG):
        pass  # the refusal has left neither a lock nor a change behind


def test_a_new_task_may_join_and_is_held_to_from_then_on(tmp_path):
    with RunFolder.open(tmp_path / "run", config=CONFIG) as run:
        run.settle({"tasks": {"wd": "c" * 64}})
        with pytest.raises(RunMismatchError, match="task wd"):
            run.settle({"tasks": {"wd": "d" * 64}})
        assert run.receipt().task_hashes == {"cv": "a" * 64, "wd": "c" * 64}


def test_a_run_of_another_kind_is_refused(tmp_path):
    with RunFolder.open(tmp_path / "run", kind="eval"):
        pass
    with pytest.raises(RunError, match="of kind 'eval', not 'vet'"):
        RunFolder.open(tmp_path / "run")


def test_a_run_that_another_process_makes_just_now_is_no_strange_folder(tmp_path, monkeypatch):
    listing = Path.iterdir

    def made_meanwhile(folder):
        (folder / "run.lock").touch()
        return listing(folder)

    monkeypatch.setattr(Path, "iterdir", made_meanwhile)
    with RunFolder.open(tmp_path, shared=True) as run:
        assert run.kind == "vet"


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(RunError, match=r"holds other files \(thesis\.tex\)"):
        RunFolder.open(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_database_of_somebody_else_is_refused_and_left_alone(tmp_path):
    import sqlite3

    db = sqlite3.connect(tmp_path / "run.db")
    db.execute("CREATE TABLE mine(x)")
    db.close()
    before = (tmp_path / "run.db").read_bytes()
    for way in (RunFolder.open, RunFolder.read):
        with pytest.raises(RunError, match="not the database of a specvet run"):
            way(tmp_path)
    assert (tmp_path / "run.db").read_bytes() == before


def test_a_damaged_database_is_named(tmp_path):
    (tmp_path / "run.db").write_bytes(b"this is no database, but it is long enough to look" * 50)
    with pytest.raises(RunError, match=r"run\.db: .*damaged"):
        RunFolder.open(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunError, match="--out needs the name of a folder"):
            RunFolder.open(path)


def test_a_folder_that_is_no_run_cannot_be_read(tmp_path):
    with pytest.raises(RunError, match="not a specvet run"):
        RunFolder.read(tmp_path)


def test_an_empty_folder_becomes_a_run(tmp_path):
    with RunFolder.open(tmp_path):
        pass
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"config.yaml", "receipt.json", "run.db", "run.lock", "trajectories", "images", "tasks"}


def test_a_run_that_was_killed_before_its_first_table_can_be_opened(tmp_path):
    (tmp_path / "run.lock").touch()
    (tmp_path / "run.db").touch()
    with RunFolder.open(tmp_path) as run:
        run.record(decision())


def test_what_was_opened_to_read_cannot_be_written(tmp_path):
    with RunFolder.open(tmp_path / "run"):
        pass
    with RunFolder.read(tmp_path / "run") as run, pytest.raises(RunError, match="opened for reading"):
        run.record(decision())


def test_a_moved_run_reads_and_goes_on(tmp_path):
    with RunFolder.open(tmp_path / "here", compact_at=2) as run:
        sha = run.images.put(b"png")
        run.record_many([decision("a"), decision("b"), decision("c")])
    (tmp_path / "there").mkdir()
    shutil.move(tmp_path / "here", tmp_path / "there" / "run")
    with RunFolder.read(tmp_path / "there" / "run") as run:
        assert [d.trajectory is not None for d in run.decisions(with_trajectories=True)] == [True] * 3
        assert run.images.path(sha).read_bytes() == b"png"
    with RunFolder.open(tmp_path / "there" / "run") as run:
        run.record(decision("d"))
        assert len(list(run.decisions())) == 4


def test_nothing_in_a_run_holds_its_own_path(tmp_path):
    with RunFolder.open(tmp_path / "a-run-of-mine", config={"out": str(tmp_path / "a-run-of-mine")}) as run:
        run.record(decision())
    for path in (tmp_path / "a-run-of-mine").rglob("*"):
        assert path.is_dir() or b"a-run-of-mine" not in path.read_bytes(), path


def test_a_file_is_known_under_its_names_below_the_first_working_folder(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision("./data//a.fits"))
        assert [d.file for d in run.decisions()] == ["./data//a.fits"]
        assert ("data/a.fits", 0, "cv") in run.done()
        assert (str(first / "data" / "a.fits"), 0, "cv") in run.done()
    monkeypatch.chdir(second)
    with RunFolder.open(tmp_path / "run") as run:
        assert (str(first / "data" / "a.fits"), 0, "cv") in run.done()
        assert ("../first/data/a.fits", 0, "cv") in run.done()
        assert ("data/a.fits", 0, "cv") not in run.done()  # another file, though it is called the same from here
        assert (str(second / "data" / "a.fits"), 0, "cv") not in run.done()
        assert any(e.kind == "folder" and str(second) in e.text for e in run.events())


def test_leftovers_of_a_killed_process_are_removed_and_what_counts_stays(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision())
        sha = run.images.put(b"png")
    folder = tmp_path / "run"
    uncounted = folder / "trajectories" / "part-00001.parquet"
    stale = [folder / ".specvet-1.tmp", uncounted, folder / "images" / sha[:2] / ".specvet-2.tmp"]
    for path in stale:
        path.write_bytes(b"half")
    with RunFolder.open(folder) as run:
        assert not any(path.exists() for path in stale)
        assert run.trajectory("a.fits", 0, "cv") is not None


def test_closing_twice_is_closing_once(tmp_path):
    run = RunFolder.open(tmp_path / "run")
    run.close()
    run.close()


def test_a_run_is_one_plain_database_file_when_it_rests(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision())
    assert not list((tmp_path / "run").glob("run.db-*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights_is_refused(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(RunError, match="may not be written"):
        RunFolder.open(tmp_path / "locked" / "run")


def test_a_decision_that_is_no_text_is_refused_whole(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        with pytest.raises(ValueError, match="surrogates"):
            run.record_many([decision("a"), Decision(**{**decision("b").model_dump(), "id": "\ud800"})])
        assert rows(run) == []


def test_a_run_whose_database_is_gone_is_refused_and_its_trajectories_stay(tmp_path):
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision())
    shards = sorted((tmp_path / "run" / "trajectories").iterdir())
    assert shards
    for content in (None, b""):
        (tmp_path / "run" / "run.db").unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "run" / "run.db").write_bytes(content)
        with pytest.raises(RunError, match=r"no run\.db"):
            RunFolder.open(tmp_path / "run")
    assert sorted((tmp_path / "run" / "trajectories").iterdir()) == shards


@pytest.mark.parametrize("damage", ["gone", "cut", "garbage"])
def test_verdicts_do_not_hang_on_a_damaged_shard(tmp_path, damage):
    with RunFolder.open(tmp_path / "run") as run:
        run.record(decision())
    (shard,) = (tmp_path / "run" / "trajectories").glob("part-*.parquet")
    if damage == "gone":
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:200] if damage == "cut" else b"no parquet at all")
    reader = RunFolder.read(tmp_path / "run")
    with pytest.warns(UserWarning, match=r"part-00000\.parquet: cannot be read"):
        (found,) = reader.decisions(with_trajectories=True)
    assert found.verdict == decision().verdict
    assert found.trajectory is None
    reader.close()


def test_the_receipt_says_what_each_session_was_asked(tmp_path):
    for inputs, tasks in ((["a"], {"cv": "1" * 64}), (["a", "b"], {"cv": "1" * 64, "wd": "2" * 64})):
        with RunFolder.open(tmp_path / "run", config={"inputs": inputs, "tasks": tasks}):
            pass
    first, second = RunFolder.read(tmp_path / "run").receipt().sessions
    assert (first.asked["inputs"], list(first.asked["tasks"])) == (["a"], ["cv"])
    assert (second.asked["inputs"], list(second.asked["tasks"])) == (["a", "b"], ["cv", "wd"])
