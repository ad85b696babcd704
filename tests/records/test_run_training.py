"""What a training run asks of a run folder: samples read back together, withdrawn, and how far it has come."""

from __future__ import annotations

import json

import pytest
from samples import trajectory
from test_run_samples import sampled

from specvet.records import RunFolder, RunMismatchError


def test_samples_of_a_question_are_read_back_from_wherever_they_lie(tmp_path):
    made = [sampled("a.fits", n) for n in range(6)]
    with RunFolder.open(tmp_path / "run", "train", compact_at=4) as run:
        run.record_many(made[:4])  # moved into a shard
        run.record_many(made[4:])
        run.record_many([sampled("b.fits", 2), sampled("a.fits", 2, row=1)])
        found = run.trajectories("a.fits", 0, "cv", range(1, 9))
        assert sorted(found) == [1, 2, 3, 4, 5]
        assert [found[n] for n in sorted(found)] == [d.trajectory for d in made[1:]]
        assert run.trajectories("a.fits", 0, "wd", range(9)) == {}


def test_a_damaged_shard_costs_its_trajectories_and_a_warning(tmp_path):
    with RunFolder.open(tmp_path / "run", "train", compact_at=1) as run:
        run.record(sampled("a.fits", 0))
        (tmp_path / "run" / "trajectories" / "part-00000.parquet").write_bytes(b"PAR1")
        with pytest.warns(UserWarning, match="part-00000.parquet: cannot be read"):
            assert run.trajectories("a.fits", 0, "cv", [0]) == {}


@pytest.mark.parametrize("compact_at", [1, 100])
def test_withdrawn_samples_are_gone_can_be_made_again_and_leave_an_event(tmp_path, compact_at):
    with RunFolder.open(tmp_path / "run", "train", compact_at=compact_at) as run:
        run.record_many([sampled("a.fits", n) for n in range(4)])
        run.withdraw("a.fits", 0, "cv", [1, 3], "the picture is gone")
        assert run.samples("a.fits", 0, "cv") == {0, 2}
        assert run.count() == {"cv": {"YES": 2}}
        assert sorted(run.trajectories("a.fits", 0, "cv", range(4))) == [0, 2]
        again = sampled("a.fits", 1)
        other = again.model_copy(update={"trajectory": trajectory("a.fits", says="another")})
        run.record(other)
        assert run.trajectories("a.fits", 0, "cv", [1])[1].turns[-1].action.text == "another"
        (event,) = [e for e in run.events() if e.kind == "withdrawn"]
        assert event.text == "a.fits row 0, task cv, samples 1, 3: the picture is gone"
    with RunFolder.open(tmp_path / "run", "train") as run:
        assert run.samples("a.fits", 0, "cv") == {0, 1, 2}


def test_how_far_training_has_come_and_what_it_used_is_on_disk_at_once(tmp_path):
    with RunFolder.open(tmp_path / "run", "train") as run:
        run.note_session(usage={"trained_tokens": 1_000})
        run.note_training({"step": 3, "checkpoints": {"epoch-01": "ab"}})
        with RunFolder.read(tmp_path / "run") as other:
            told = other.receipt()
        assert told.training == {"step": 3, "checkpoints": {"epoch-01": "ab"}}
        assert told.sessions[0].usage == {"trained_tokens": 1_000.0}
        run.note_training({"step": 4})
    assert json.loads((tmp_path / "run" / "receipt.json").read_text())["training"] == {"step": 4}


def test_a_training_run_says_in_its_own_words_why_it_does_not_go_on(tmp_path):
    with RunFolder.open(tmp_path / "run", "train") as run:
        run.settle({"loop": {"lr": 1e-5}})
        with pytest.raises(RunMismatchError, match=r"loop.lr = 2e-05; a run that goes on must equal one that never"):
            run.settle({"loop": {"lr": 2e-5}})
