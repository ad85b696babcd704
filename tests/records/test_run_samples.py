"""Several trajectories of one question in a run; ledgers that read back bit for bit; runs of earlier layouts."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import decision, error, trajectory

from specvet.records import Decision, DuplicateDecisionError, RunFolder
from specvet.records.schema import CallCounts, Question, SpectrumRef, StopReason, TokenCounts, TurnTokens

LOGPROBS = np.array([-0.1, -1e-30, -7.1234567, -3.4e38, -0.0, -88.72284], dtype=np.float32)


def shortest(values: np.ndarray[Any, Any]) -> list[float]:
    return [float(str(v)) for v in values]


def ledger(seed: int) -> dict[str, Any]:
    """As `specvet.chat.Ledger.to_dict` gives it."""
    luck = np.random.default_rng(seed)
    turns = []
    for n in (len(LOGPROBS), 40):
        ids = luck.integers(0, 250_000, n).tolist()
        values = LOGPROBS if n == len(LOGPROBS) else -luck.random(n).astype(np.float32)
        turns.append({"sampled": ids, "logprobs": shortest(values), "stop": "end", "text": "é", "lengths": [1] * n})
    turns[1]["logprobs"] = None if seed % 3 == 0 else turns[1]["logprobs"]
    picture = {"role": "user", "sha256": "ab" * 32, "width": 448, "height": 280, "rows": 10, "columns": 16, "pad_id": 7}
    segments = [
        {"role": "system", "ids": [1, 2, 3]},
        {"image": picture},
        turns[0],
        {"role": "tool", "ids": [5]},
        turns[1],
    ]
    return {"version": 1, "kind": "tokens", "format": "qwen3_5", "vocabulary": "ef" * 32, "segments": segments}


def sampled(file: str, sample: int, row: int = 0) -> Decision:
    """A decision with a ledger."""
    made = trajectory(file, row)
    turns = tuple(t.model_copy(update={"tokens": TurnTokens(prompt=9, sampled=6, repeated=0.25)}) for t in made.turns)
    more = {
        "sample": sample,
        "group": 4,
        "turns": turns,
        "ledger": ledger(sample),
        "calls": CallCounts(made=1, executed=1, succeeded=1),
        "tokens": TokenCounts(prompt=18, sampled=46, images=160, total=210),
        "reward": {"score": 0.8, "correct": 1.0, "format_ok": 0.0},
        "stop_detail": "open_thought",
    }
    record = made.model_copy(update=more)
    return Decision(
        file=file, row=row, task="cv", id=f"q {file}", sample=sample, verdict=made.verdict, trajectory=record
    )


def test_samples_of_one_question_stand_beside_each_other_and_each_is_there_once(tmp_path: Path) -> None:
    made = [sampled("a.fits", n) for n in (2, 0, 3)]
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        assert run.record_many(made) == 3
        assert run.samples("a.fits", 0, "cv") == {0, 2, 3}
        assert run.samples("./a.fits", 0, "cv") == {0, 2, 3}
        assert run.samples("a.fits", 1, "cv") == run.samples("a.fits", 0, "wd") == frozenset()
        with pytest.raises(DuplicateDecisionError, match=r"a\.fits row 0, task cv, sample 2: has a decision already"):
            run.record(sampled("a.fits", 2))
        assert run.record_many([sampled("a.fits", 1), sampled("a.fits", 3)]) == 1
        assert [d.sample for d in run.decisions()] == [2, 0, 3, 1]
        assert run.count() == {"cv": {"YES": 4}}
    receipt = json.loads((tmp_path / "run" / "receipt.json").read_text())
    assert receipt["inputs"]["spectra"] == 1
    assert receipt["decisions"] == 4


@pytest.mark.parametrize("compact_at", [1, 3, 2_000])
def test_a_trajectory_with_a_ledger_reads_back_bit_for_bit_wherever_it_lies(tmp_path: Path, compact_at: int) -> None:
    made = [sampled("a.fits", n) for n in range(4)] + [decision("b.fits"), error()] + [sampled("c.fits", 0)]
    with RunFolder.open(tmp_path / "run", kind="rollout", compact_at=compact_at) as run:
        for one in made:
            run.record(one)
        assert list(run.decisions(with_trajectories=True)) == made
        assert all(run.trajectory(d.file, d.row, d.task, d.sample) == d.trajectory for d in made)
    with RunFolder.read(tmp_path / "run") as run:
        assert list(run.decisions(with_trajectories=True)) == made
        found = run.trajectory("a.fits", 0, "cv", 1)
        assert run.trajectory("a.fits", 0, "cv", 4) is None
    assert found is not None
    assert found.ledger is not None
    said = [np.array(s["logprobs"], dtype=np.float32) for s in found.ledger["segments"] if "sampled" in s]
    assert said[0].tobytes() == LOGPROBS.tobytes()


def test_a_shard_has_the_tokens_in_columns_and_not_twice(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        run.record_many([sampled("a.fits", 1), decision("b.fits"), sampled("a.fits", 3)])
    table = pq.read_table(tmp_path / "run" / "trajectories" / "part-00000.parquet")
    assert str(table.schema.field("sampled_ids").type).startswith("list<element: list<element: int32>>")
    assert str(table.schema.field("logprobs").type).startswith("list<element: list<element: float>>")
    first, none, third = table.to_pylist()
    expected = ledger(1)
    assert first["sampled_ids"] == [s["sampled"] for s in expected["segments"] if "sampled" in s]
    assert np.array(first["logprobs"][0], dtype=np.float32).tobytes() == LOGPROBS.tobytes()
    assert (first["n_tokens"], first["n_sampled"], first["n_images"], first["sample"]) == (210, 46, 1, 1)
    assert [none[name] for name in ("sampled_ids", "logprobs", "n_tokens", "n_sampled", "n_images", "sample")] == [
        *[None] * 5,
        0,
    ]
    assert third["logprobs"][1] is None  # a demonstration
    kept = [s for s in json.loads(first["json"])["ledger"]["segments"] if "sampled" in s]
    assert [(s["sampled"], s["logprobs"], s["text"]) for s in kept] == [(None, None, "é")] * 2


# Runs of earlier layouts


def as_layout(path: Path, layout: int) -> None:
    """Turn a run of today into one of an earlier layout, as its specvet left it."""
    db = sqlite3.connect(path / "run.db")
    if layout <= 2:
        db.executescript(
            "DROP INDEX one_decision; ALTER TABLE decisions DROP COLUMN sample;"
            "CREATE UNIQUE INDEX one_decision ON decisions(key, row, task, CASE task WHEN '*' THEN id ELSE '' END);"
        )
        new = ("sample", "group", "stop_detail", "calls", "tokens", "ledger")
        for n, text in db.execute("SELECT n, trajectory FROM pending").fetchall():
            old = {k: v for k, v in json.loads(text).items() if k not in new}
            for turn in old["turns"]:
                del turn["tokens"], turn["action"]["malformed"]
            db.execute("UPDATE pending SET trajectory = ? WHERE n = ?", (json.dumps(old), n))
    if layout == 1:
        db.execute("DROP TABLE files")
    if layout <= 3:
        db.execute("DROP TABLE leases")
    db.execute(f"PRAGMA user_version = {layout}")
    db.commit()
    db.close()


def left_waiting(path: Path, made: list[Decision]) -> None:
    """A run whose process was killed: its trajectories wait in the database."""
    with RunFolder.open(path) as run:
        run.record_many(made)
        for name in ("run.db", "run.db-wal"):
            if (path / name).exists():
                shutil.copy(path / name, path / f"{name}.copy")
    shutil.rmtree(path / "trajectories")
    for name in ("run.db", "run.db-wal"):
        (path / name).unlink(missing_ok=True)
        if (path / f"{name}.copy").exists():
            (path / f"{name}.copy").rename(path / name)


@pytest.mark.parametrize("layout", [1, 2, 3])
def test_a_run_of_an_earlier_layout_is_read_as_it_is_and_goes_on_when_written(tmp_path: Path, layout: int) -> None:
    path, made = tmp_path / "run", [decision("a.fits"), error(), decision("b.fits", 1)]
    left_waiting(path, made)
    as_layout(path, layout)
    before = (path / "run.db").read_bytes()
    with RunFolder.read(path) as run:
        assert list(run.decisions(with_trajectories=True)) == made
        assert run.trajectory("a.fits", 0, "cv") == made[0].trajectory
        assert run.trajectory("a.fits", 0, "cv", 1) is None
        assert run.samples("a.fits", 0, "cv") == {0}
    assert (path / "run.db").read_bytes() == before
    with RunFolder.open(path, compact_at=2) as run:
        assert list(run.decisions(with_trajectories=True)) == made
        with pytest.raises(DuplicateDecisionError):
            run.record(decision("a.fits"))
        run.record(sampled("a.fits", 1))
        assert run.samples("a.fits", 0, "cv") == {0, 1}
    with RunFolder.read(path) as run:
        assert list(run.decisions(with_trajectories=True)) == [*made, sampled("a.fits", 1)]
    db = sqlite3.connect(path / "run.db")
    assert db.execute("PRAGMA user_version").fetchone() == (4,)
    db.close()


def test_shards_of_an_earlier_layout_are_read_beside_new_ones(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path, made = tmp_path / "run", [decision("a.fits"), decision("b.fits")]
    with RunFolder.open(path) as run:
        run.record_many(made)
    shard = path / "trajectories" / "part-00000.parquet"
    table = pq.read_table(shard)
    pq.write_table(table.drop(["sample", "sampled_ids", "logprobs", "n_tokens", "n_sampled", "n_images"]), shard)
    as_layout(path, 2)
    with RunFolder.open(path) as run:
        run.record(sampled("a.fits", 1))
    with RunFolder.read(path) as run:
        assert list(run.decisions(with_trajectories=True)) == [*made, sampled("a.fits", 1)]


# What the receipt says of a model


def test_usage_and_probes_are_told_for_each_session_and_summed_or_the_last(tmp_path: Path) -> None:
    probes = [{"name": "swap_image", "ok": True, "value": 1.5, "bound": 0.001}]
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        run.note_session(usage={"prompt_tokens": 100, "sampled_tokens": 7, "notes.n_not_honoured": 1}, probes=probes)
        run.note_session(usage={"prompt_tokens": 300, "sampled_tokens": 20, "cost": 0.5, "notes.n_not_honoured": 1})
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        run.note_session(usage={"prompt_tokens": 40, "sampled_tokens": 5, "cost": 0.25})
    with RunFolder.read(tmp_path / "run") as run:
        receipt = run.receipt()
    assert receipt.usage == {"prompt_tokens": 340, "sampled_tokens": 25, "cost": 0.75, "notes.n_not_honoured": 1}
    assert (receipt.tokens_in, receipt.tokens_out, receipt.cost) == (340, 25, 0.75)
    assert list(receipt.probes) == probes
    assert [s.tokens_in for s in receipt.sessions] == [300, 40]


def test_what_a_model_has_used_is_on_disk_with_the_trajectory_and_no_kill_loses_it(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        for n in range(3):
            run.note_session(usage={"prompt_tokens": 100 * (n + 1), "sampled_tokens": 7 * (n + 1)})
            run.record(sampled("a.fits", n))
            with RunFolder.read(tmp_path / "run") as now:  # what a process killed here leaves
                receipt = now.receipt()
            assert (receipt.tokens_in, receipt.tokens_out) == (100 * (n + 1), 7 * (n + 1))
            assert receipt.sessions[0].decided == receipt.decisions == n + 1
            assert receipt.ended is None
            sums = receipt.sums[sampled("a.fits", 0).task]
            assert (sums["trajectories"], sums["calls.made"], sums["tokens.images"]) == (n + 1, n + 1, 160 * (n + 1))
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        run.record(sampled("a.fits", 3))
        run.record_many([sampled("a.fits", 3), decision("b.fits")])  # one that is there, and one without a model
    with RunFolder.read(tmp_path / "run") as run:
        receipt = run.receipt()
        records = [t for d in run.decisions(with_trajectories=True) if (t := d.trajectory) is not None and t.tokens]
    (sums,) = receipt.sums.values()
    assert sums["trajectories"] == len(records) == 4
    assert sums["turns"] == sum(len(t.turns) for t in records)
    assert sums["tokens.sampled"] == sum(t.tokens.sampled for t in records if t.tokens)


def test_what_probes_used_stands_apart(tmp_path: Path) -> None:
    used = {"prompt_tokens": 100, "sampled_tokens": 7, "probes.prompt_tokens": 90, "probes.sampled_tokens": 6}
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        run.note_session(usage=used)
    with RunFolder.read(tmp_path / "run") as run:
        receipt = run.receipt()
    assert (receipt.tokens_in, receipt.tokens_out) == (10, 1)
    assert receipt.usage == used


def test_what_failed_probes_used_is_not_told_as_that_of_trajectories(tmp_path: Path) -> None:
    used = {"prompt_tokens": 60, "sampled_tokens": 18}
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        run.note_session(usage=used | {f"probes.{name}": n for name, n in used.items()})
        run.note_session(usage=used)  # as a batch says at its end, when its probes have ended it
    with RunFolder.read(tmp_path / "run") as run:
        receipt = run.receipt()
    assert (receipt.tokens_in, receipt.tokens_out) == (0, 0)
    assert receipt.usage["probes.sampled_tokens"] == 18


def test_malformed_turns_are_counted_by_kind() -> None:
    made = trajectory("a.fits")
    bad = [
        made.turns[0].model_copy(
            update={"action": made.turns[0].action.model_copy(update={"kind": "malformed", **more})}
        )
        for more in ({"malformed": "bad_call"}, {"malformed": "bad_call"}, {})
    ]
    record = made.model_copy(update={"turns": tuple(bad), "stop": StopReason.MALFORMED})
    assert record.malformed == {"bad_call": 2, "malformed": 1}
    assert (record.sums["malformed.bad_call"], record.sums["turns"]) == (2, 3)
    assert made.malformed == {}


def test_a_question_is_one_place_and_one_label() -> None:
    reference = SpectrumRef(array_file="train.npz", row=3)
    question = Question(id="q", task="cv", spectrum=reference, answer="NO")
    assert Question.model_validate_json(question.model_dump_json()) == question
    with pytest.raises(ValueError, match="exactly one of path and array_file"):
        SpectrumRef(path="a", array_file="b")
