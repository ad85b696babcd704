"""A receipt says what was done, honestly."""

from __future__ import annotations

import json

from samples import decision, error

from specvet.records import Receipt, RunFolder


def read(path) -> Receipt:
    return Receipt.model_validate_json(path.read_text(encoding="utf-8"))


def test_the_receipt_of_a_closed_run_counts_everything(tmp_path):
    settings = {"policy": "test", "frame_mode": "careful", "budget": {"max_turns": 8}, "tasks": {"cv": "a" * 64}}
    with RunFolder.open(tmp_path, config=settings) as run:
        run.record_many([decision("a"), decision("a", 1), decision("a", task="wd"), error("b")])
        run.note_session(skipped=2, duplicates=1, tokens_in=10, tokens_out=3, cost=0.5)
    receipt = read(tmp_path / "receipt.json")
    assert receipt.policy == "test"
    assert receipt.settings == {"policy": "test", "frame_mode": "careful", "budget.max_turns": 8}
    assert receipt.answers == {"cv": {"YES": 2}, "wd": {"YES": 1}, "*": {"ERROR": 1}}
    assert receipt.stops == {"cv": {"answered": 2}, "wd": {"answered": 1}}
    assert receipt.decisions == 4
    assert receipt.inputs is not None
    assert (receipt.inputs.files, receipt.inputs.spectra) == (2, 2)
    assert (receipt.tokens_in, receipt.tokens_out, receipt.cost) == (10, 3, 0.5)
    assert receipt.ended is not None
    assert receipt.started <= receipt.ended
    assert receipt.seconds > 0
    assert receipt.spectra_per_second is not None
    assert {"python", "specvet", "numpy", "astropy", "matplotlib"} <= set(receipt.versions)
    assert receipt.platform
    (session,) = receipt.sessions
    assert (session.decided, session.skipped, session.duplicates, session.interrupted) == (4, 2, 1, False)


def test_each_resume_adds_a_session_and_keeps_the_others(tmp_path):
    for n in range(3):
        with RunFolder.open(tmp_path) as run:
            run.record(decision(f"f{n}"))
    receipt = read(tmp_path / "receipt.json")
    assert [s.decided for s in receipt.sessions] == [1, 1, 1]
    assert receipt.decisions == 3
    assert receipt.started <= receipt.sessions[0].started


def test_an_open_run_has_a_receipt_that_says_so(tmp_path):
    with RunFolder.open(tmp_path, receipt_every_s=0.0) as run:
        run.record(decision())
        receipt = read(tmp_path / "receipt.json")
    assert receipt.ended is None
    assert receipt.inputs is None
    assert receipt.tokens_in == 0


def test_the_hash_of_the_inputs_depends_on_spectra_not_on_names_or_order(tmp_path):
    made = [decision("a"), decision("b"), decision("c")]
    renamed = [d.model_copy(update={"file": f"moved/{d.file}"}) for d in reversed(made)]
    hashes = []
    for name, batch in (("one", made), ("two", renamed), ("three", made[:2])):
        with RunFolder.open(tmp_path / name) as run:
            run.record_many(batch)
        inputs = read(tmp_path / name / "receipt.json").inputs
        assert inputs is not None
        hashes.append(inputs.hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_receipt_is_json_that_reads_back_and_can_be_asked_of_a_run(tmp_path):
    with RunFolder.open(tmp_path) as run:
        run.record(decision())
    with RunFolder.read(tmp_path) as run:
        assert run.receipt() == read(tmp_path / "receipt.json")
    assert json.loads((tmp_path / "receipt.json").read_text())["kind"] == "vet"
