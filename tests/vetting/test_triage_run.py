"""`specvet triage` over run folders: calibrated by labels, sorted, exported, reported, and checked by an audit."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from runner_lab import Steady
from triage_lab import decision, exact, write_run

from specvet.cli.main import main
from specvet.records import RunFolder
from specvet.records.schema import Answer
from specvet.review.source import of_run
from specvet.tasks import load_task, task_text
from specvet.vetting import vet, write_report
from specvet.vetting.items import Item
from specvet.vetting.triage import Settings, TriageError, read_about, read_told, sort_run, write_triage
from specvet.vetting.triage.cases import cases_of
from specvet.vetting.triage.looks import Measuring, RunIndices
from specvet.vetting.triage.run import audit_of, calibrate_run
from specvet.vetting.triage.truths import Truth


def test_a_labelled_run_is_calibrated_and_another_sorted_by_it_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled = write_run(tmp_path / "L", 600, 160, tasks=("cv",))
    listed = write_run(tmp_path / "R", 600, 12, seed=9, tasks=("cv",), answered=False)
    c = tmp_path / "c.json"
    assert main(["triage", "calibrate", str(labelled), "--out", str(c), "--no-measure", "--quiet"]) == 0
    assert main(["triage", str(listed), "--calibration", str(c), "--audit", "0.1"]) == 0
    told = capsys.readouterr().out
    assert "at most 2.00% of the true objects of the task are lost, with 95% confidence, from 160 labelled" in told
    assert "x fewer looks than all" in told
    about = read_about(listed)
    assert about is not None
    rows = pq.read_table(listed / "triage" / "rows.parquet").to_pylist()
    assert about["looks"] == sum(row["band"] == "look" or row["audit"] for row in rows)
    assert about["calibration"]["cases"] == 600
    assert len(rows) == about["rows"] == 600
    lost = [row["file"] for row in rows if row["band"] == "reject" and int(row["file"][1:6]) < 12]
    assert len(lost) <= 2
    assert about["looks"] < 350
    prevalence = about["tasks"]["cv"]["prevalence"]
    assert prevalence["low"] <= 0.02 <= prevalence["high"]


def test_labels_of_a_table_are_matched_by_file_row_and_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "R", 200, 40, answered=False)
    lines = ["file,task,answer", *(f"s{i:05d}.fits,CV,{'YES' if i < 40 else 'NO'}" for i in range(150))]
    for i in range(200):
        Path(f"s{i:05d}.fits").touch()
    Path("labels.csv").write_text("\n".join([*lines, "s00000.fits,wd,NO", "s00199.fits,cv,UNSURE"]), encoding="utf-8")
    assert (
        main(["triage", "calibrate", "R", "--labels", "labels.csv", "--out", "c.json", "--no-measure", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["labels"]["file"] == "labels.csv"
    assert [found["labels"][n] for n in ("used", "unasked", "unlabelled")] == [150, 1, 50]
    assert found["measured"]["cv"]["members"] == 40


def test_a_calibration_of_another_policy_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "R", 10, 2, answered=False)
    exact().write(tmp_path / "c.json")
    assert main(["triage", str(run), "--calibration", str(tmp_path / "c.json")]) == 2
    assert "decided by steady, and the calibration is of line-indices" in capsys.readouterr().err
    assert not (run / "triage").exists()


def test_a_prevalence_of_a_task_that_the_run_lacks_is_told_of(tmp_path: Path) -> None:
    write_run(tmp_path / "R", 20, 4, answered=False)
    with RunFolder.read(tmp_path / "R") as run:
        found = sort_run(run, exact(policy="steady"), Settings(prevalence={"vc": 0.2, "*": 0.1}))
    assert "a prevalence is given for vc, of which this run holds no case" in found.notices


def test_other_settings_than_the_calibrated_ones_are_told_of(tmp_path: Path) -> None:
    write_run(tmp_path / "R", 10, 2, answered=False)
    calibration = exact(policy="steady", settings={"frame_mode": "observed"})
    with RunFolder.read(tmp_path / "R") as run:
        found = sort_run(run, calibration, Settings(prevalence={"*": 0.2}))
    assert found.notices == ["frame_mode was observed, here it is None when the policy was calibrated"]


@pytest.mark.parametrize("wrong", [["--prevalence", "1.5"], ["--max-lost", "0"], ["--calibration", "nowhere.json"]])
def test_what_makes_no_sense_is_said(tmp_path: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "R", 5, 1, answered=False)
    assert main(["triage", str(run), *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err


def test_a_run_without_labels_cannot_be_calibrated(tmp_path: Path) -> None:
    write_run(tmp_path / "R", 10, 2, answered=False)
    with RunFolder.read(tmp_path / "R") as run, pytest.raises(TriageError, match="give labels with --labels"):
        calibrate_run(run, measure=False)


def test_exports_and_reports_show_probability_and_band(tmp_path: Path) -> None:
    write_run(tmp_path / "R", 30, 6, answered=False)
    with RunFolder.read(tmp_path / "R") as run:
        calibration = exact(policy="steady")
        settings = Settings(prevalence={"*": 0.2}, audit=0.5)
        write_triage(run, sort_run(run, calibration, settings), settings, calibration, None)
    with RunFolder.open(tmp_path / "R", config={"policy": "steady"}) as run:
        run.record(decision("later.fits", "cv", Answer.YES, 0.9))
    assert main(["export", str(tmp_path / "R"), "--out", str(tmp_path / "t.csv")]) == 0
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    told = read_told(tmp_path / "R")
    for row in rows[:-1]:
        one = told[row["file"], int(row["row"]), row["task"]]
        assert (float(row["probability"]), row["band"]) == (one.probability, one.band)
        assert row["audit"] == ("yes" if one.audit else "no")
    assert [rows[-1][name] for name in ("file", "probability", "band", "audit")] == ["later.fits", "", "", ""]
    (tmp_path / "R" / "tasks").mkdir(exist_ok=True)
    (tmp_path / "R" / "tasks" / "cv.yaml").write_text(task_text(load_task("cv")), encoding="utf-8")
    listing = of_run(tmp_path / "R")
    assert listing.verdicts["cv"].band_word(len(listing) - 1) is None
    assert listing.notices == ["1 answers are newer than the triage of this run; run specvet triage again"]
    page = write_report(tmp_path / "R", tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count("triage: <b>") == 30
    assert "triage: <b>reject, probability" in page


def test_a_damaged_table_of_triage_is_said_by_whoever_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "R", 3, 1, answered=False)
    (tmp_path / "R" / "triage").mkdir()
    (tmp_path / "R" / "triage" / "rows.parquet").write_bytes(b"PAR1")
    assert main(["export", str(tmp_path / "R"), "--out", str(tmp_path / "t.csv")]) == 2
    assert "run specvet triage again" in capsys.readouterr().err


def test_the_audit_says_how_many_true_objects_are_left_among_the_rejected(tmp_path: Path) -> None:
    write_run(tmp_path / "R", 1_000, 10, answered=False)
    with RunFolder.read(tmp_path / "R") as run:
        with pytest.raises(TriageError, match="was not sorted yet"):
            audit_of(run, {})
        calibration, settings = exact(policy="steady"), Settings(prevalence={"*": 0.01}, audit=0.2)
        write_triage(run, sort_run(run, calibration, settings), settings, calibration, None)
        drawn = [place for place, told in read_told(run.path).items() if told.audit]
        truths = {place: Truth(i == 0) for i, place in enumerate(drawn[:100])}
        found = audit_of(run, truths)["cv"]
    assert (found.drawn, found.checked, found.found) == (len(drawn), 100, 1)
    assert found.share_at_most == pytest.approx(0.0466, abs=1e-4)  # one-sided 95 % bound of 1 of 100


def test_a_models_spectra_are_measured_as_line_indices_measures_them(tmp_path: Path) -> None:
    from specvet.policies.line_indices import LineIndices

    wavelength = np.arange(3_800.0, 8_500.0, 1.5)
    rng = np.random.default_rng(0)
    files = []
    for i, peak in enumerate((3.0, 0.0)):
        flux = 1.0 + 0.02 * rng.normal(size=wavelength.size)
        for line in (6562.8, 4861.3, 4340.5):
            flux += peak * np.exp(-0.5 * ((wavelength - line) / 8.0) ** 2)
        files.append(str(tmp_path / f"{i}.txt"))
        np.savetxt(files[-1], np.column_stack([wavelength, flux]), fmt="%.6f")
    tasks = [load_task("cv")]
    for name, policy in (("M", Steady()), ("I", LineIndices())):
        with RunFolder.open(tmp_path / name, config={"policy": policy.name}) as run:
            vet([Item(file) for file in files], tasks, policy, run)
    with RunFolder.read(tmp_path / "M") as model, RunFolder.read(tmp_path / "I") as indices:
        decisions = list(model.decisions(with_trajectories=True))
        measured = [c.features for c in cases_of(decisions, Measuring(model))]
        joined = [c.features for c in cases_of(decisions, RunIndices(indices, model))]
        own = [c.features for c in cases_of(indices.decisions(with_trajectories=True))]
    for name in ("index", "index_sn"):
        assert [f[name] for f in measured] == [f[name] for f in joined] == [f[name] for f in own]
    assert measured[0]["index"] > 3 > -3 > measured[1]["index"]
    Path(files[0]).unlink()
    with RunFolder.read(tmp_path / "M") as model:
        look = Measuring(model)
        gone = [c.features for c in cases_of(model.decisions(with_trajectories=True), look)]
    assert ("index" in gone[0], "index" in gone[1]) == (False, True)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"flags": 1}', '{"flags": [{}]}'])
def test_flags_that_cannot_be_read_are_told_and_not_passed_over(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "R", 10, 2, answered=False)
    (run / "blank").mkdir()
    (run / "blank" / "blank.json").write_text(text, encoding="utf-8")
    assert main(["triage", str(run)]) == 2
    told = capsys.readouterr().err
    assert "blank.json: cannot be read" in told
    assert "run specvet triage blank again" in told


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tasks": 3}'])
def test_a_damaged_triage_json_is_told_by_who_reads_it(tmp_path: Path, text: str) -> None:
    write_run(tmp_path / "R", 10, 2, answered=False)
    assert main(["triage", str(tmp_path / "R"), "--quiet"]) == 0
    (tmp_path / "R" / "triage" / "triage.json").write_text(text, encoding="utf-8")
    with pytest.raises(TriageError, match=r"triage\.json: cannot be read .*; run specvet triage again"):
        read_about(tmp_path / "R")


def test_a_task_that_the_calibration_does_not_know_is_told_of(tmp_path: Path) -> None:
    write_run(tmp_path / "R", 20, 4, tasks=("cv", "wd"), answered=False)
    with RunFolder.read(tmp_path / "R") as run:
        found = sort_run(run, exact(policy="steady"), Settings(prevalence={"cv": 0.1}))
    assert found.notices == ["the calibration knows nothing of wd: nothing is promised, and all is looked at"]
    assert {row.band for row in found.rows if row.case.task == "wd"} == {"look"}


def test_a_policy_that_says_the_same_of_everything_cannot_be_calibrated(tmp_path: Path) -> None:
    rows = [decision(f"s{i}.fits", "cv", Answer.YES, 0.9, i < 20) for i in range(60)]
    with RunFolder.open(tmp_path / "R", kind="rollout", config={"policy": "steady"}) as run:
        run.record_many(rows)
    with RunFolder.read(tmp_path / "R") as run, pytest.raises(TriageError, match="says the same of every labelled"):
        calibrate_run(run, measure=False)
