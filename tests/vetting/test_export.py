"""A run as a table: the same columns in CSV and Parquet, identifiers as text, nulls as nulls, whole or not at all."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specvet import __version__
from specvet.records import Decision, DiskFullError, RunError, RunFolder
from specvet.records.schema import (
    ActionRecord,
    Answer,
    EvidenceItem,
    Measurement,
    ObservationRecord,
    Question,
    SpectrumRef,
    StopReason,
    TrajectoryRecord,
    TurnRecord,
    Verdict,
)
from specvet.vetting.columns import COLUMNS
from specvet.vetting.export import ExportError, export

NASTY = 'a "quoted", comma;\nand = a new line, Hα −1 Å'


def trajectory(file: str, task: str, verdict: Verdict) -> TrajectoryRecord:
    zoom = ActionRecord(kind="call", tool="spectral_visualization_tool", arguments={"wavelength_range": [6400, 6700]})
    seen = ObservationRecord(kind="view", text="", window=(6400.0, 6700.0), n_points=100)
    return TrajectoryRecord(
        question=Question(id=f"{file}#0/{task}", task=task, spectrum=SpectrumRef(path=file)),
        policy="line-indices",
        task_hash="0" * 64,
        spectrum_hash="ab" * 32,
        opening=None,
        turns=(
            TurnRecord(action=zoom, observation=seen, seconds=0.1),
            TurnRecord(action=ActionRecord(kind="answer"), seconds=0.1),
        ),
        stop=StopReason.ANSWERED,
        verdict=verdict,
        seconds=0.2,
        started="2026-01-01T00:00:00Z",
    )


def decision(file: str, id: str, task: str, answer: Answer, **rest: Any) -> Decision:
    measured = Measurement(index="halpha", name="Hα EW", value=-23.14, error=0.82, unit="Å", window=(6540.0, 6590.0))
    evidence = (
        (EvidenceItem(says="Hα in emission", measurement=measured, log_odds=2.0),) if answer == Answer.YES else ()
    )
    confidence = 0.97 if answer in (Answer.YES, Answer.NO) else None
    verdict = Verdict(answer=answer, confidence=confidence, p_yes=confidence, reason=NASTY, evidence=evidence)
    return Decision(
        file=file, row=0, task=task, id=id, verdict=verdict, trajectory=trajectory(file, task, verdict), **rest
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    unreadable = Verdict(answer=Answer.ERROR, reason="empty file")
    with RunFolder.open(tmp_path / "RUN", config={"policy": "line-indices"}) as folder:
        folder.record(
            decision(
                "a.fits", "0042", "cv", Answer.YES, survey="LAMOST", n_pix=3900, wave_min=3700.0, warnings=("x", "y")
            )
        )
        folder.record(decision("a.fits", "0042", "wd", Answer.NO))
        folder.record(decision("b.fits", "39627612345678901", "cv", Answer.NO_DATA))
        folder.record(Decision(file="c.fits", row=0, task="*", id="", verdict=unreadable))
    return tmp_path / "RUN"


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def test_csv_and_parquet_hold_the_same_rows_and_columns(run: Path, tmp_path: Path) -> None:
    assert export(run, tmp_path / "out.csv") == export(run, tmp_path / "out.parquet") == 4
    from_csv = csv_rows(tmp_path / "out.csv")
    table = pq.read_table(tmp_path / "out.parquet")
    assert list(from_csv[0]) == table.schema.names == list(COLUMNS)
    for text, row in zip(from_csv, table.to_pylist(), strict=True):
        assert text == {k: "" if v is None else v if isinstance(v, str) else repr(v) for k, v in row.items()}


def test_a_row_says_what_was_decided_and_why(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "out.parquet")
    first, _, _, unreadable = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert first == dict.fromkeys(COLUMNS) | {
        "file": "a.fits",
        "row": 0,
        "id": "0042",
        "task": "cv",
        "answer": "YES",
        "confidence": 0.97,
        "reason": NASTY,
        "p_yes": 0.97,
        "log_odds": 2.0,
        "evidence": "Hα in emission (Hα EW = -23.1 ± 0.82 Å, 6540-6590 Å)",
        "windows": "6400-6700",
        "n_calls": 1,
        "stop": "answered",
        "survey": "LAMOST",
        "n_pix": 3900,
        "wave_min": 3700.0,
        "warnings": "x; y",
        "policy": "line-indices",
        "model": "line-indices",
        "task_hash": "0" * 12,
        "specvet": __version__,
        "decided": "2026-01-01T00:00:00Z",
        "object": "a.fits:0",
    }
    known = {k: v for k, v in unreadable.items() if v is not None}
    assert known == {
        "file": "c.fits",
        "row": 0,
        "task": "*",
        "answer": "ERROR",
        "reason": "empty file",
        "stop": "unreadable",
        "specvet": __version__,
        "object": "c.fits:0",
    }


def test_identifiers_are_strings_and_keep_every_digit(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "out.parquet")
    export(run, tmp_path / "out.csv")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("id").type == pa.string()
    assert table["id"].to_pylist() == ["0042", "0042", "39627612345678901", None]
    assert '"a.fits",0,"0042","cv","YES",0.97,' in (tmp_path / "out.csv").read_text()
    assert '"c.fits",0,,"*","ERROR",,' in (tmp_path / "out.csv").read_text()


def test_tasks_and_answers_can_be_chosen_and_unreadable_files_belong_to_every_task(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    export(run, out, tasks=["wd"])
    assert [(r["file"], r["task"]) for r in csv_rows(out)] == [("a.fits", "wd"), ("c.fits", "*")]
    export(run, out, tasks=["cv"], answers=["YES"])
    assert [(r["file"], r["answer"]) for r in csv_rows(out)] == [("a.fits", "YES")]
    assert export(run, out, answers=["FAILED"]) == 0
    assert out.read_text() == ",".join(COLUMNS) + "\n"


def test_the_format_can_be_said_against_the_suffix(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "table", "parquet")
    assert pq.read_table(tmp_path / "table").num_rows == 4


def test_what_cannot_be_written_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"name it \.csv, \.parquet, \.fits, \.vot or \.ecsv"):
        export(run, tmp_path / "out.xlsx")
    with pytest.raises(ExportError, match="is a folder"):
        export(run, tmp_path, "csv")
    with pytest.raises(ExportError, match="there is no folder"):
        export(run, tmp_path / "no" / "out.csv")
    with pytest.raises(ExportError, match="only csv"):
        export(run, "-", "parquet")
    with pytest.raises(RunError, match="not a specvet run"):
        export(tmp_path, tmp_path / "out.csv")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    run: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    out = tmp_path / name
    out.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="the disk is full"):
        export(run, out)
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["RUN", name]
