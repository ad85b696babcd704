"""`specvet data simulate` as a user meets it: what it writes, what it says to do next, and what it refuses."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from cli_lab import Specvet

from specvet import read
from specvet.cli.main import main
from specvet.data.questions import read_questions
from specvet.data.simulate.kinds import TASKS


def test_a_survey_is_written_and_the_next_command_runs(specvet: Specvet, tmp_path: Path) -> None:
    command = ("data", "simulate", "--n", 8, "--survey", "all", "--kinds", "cc,g_star", "--out", "MY SIM")
    done = specvet(*command, "--workers", 1)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    n = len(read_questions(str(tmp_path / "MY SIM" / "questions.jsonl"))) // len(TASKS)
    assert lines[0] == f"MY SIM: {n} SIMULATED spectra of 8 objects; made"
    assert lines[-1] == "Next: specvet vet 'MY SIM/truth.csv' --task all --out RUN"
    vetted = specvet(*shlex.split(lines[-1])[2:], "--out", "RUN", "--json")
    assert vetted.returncode == 0
    summary = json.loads(vetted.stdout)
    assert sum(summary["counts"]["cv"].values()) == n
    assert summary["errors"] == 0
    repeated = specvet(*command)
    assert repeated.stdout.splitlines()[0] == f"MY SIM: {n} SIMULATED spectra of 8 objects; was made already"


def test_options_reach_the_files(specvet: Specvet, tmp_path: Path) -> None:
    options = ("--kinds", "g_star", "--snr", "30-30", "--release", "DR7", "--tasks", "wd", "--seed", 3)
    done = specvet("data", "simulate", "--n", 3, "--out", "SIM", "--workers", 1, "--json", "--quiet", *options)
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert summary["objects"] == 3
    assert summary["yes"] == dict.fromkeys(TASKS, 0)
    assert summary["simulated"] is summary["made"] is summary["finished"] is True
    asked = read_questions(str(tmp_path / "SIM" / "questions.jsonl"))
    assert {one.question.task for one in asked} == {"wd"}
    for one in asked:
        (spectrum,) = read(one.file)
        assert spectrum.layout == "lamost-lrs-image"
        assert spectrum.release == "SIMULATED DR7"
        assert 15.0 < (spectrum.snr or 0.0) < 45.0
    settings = json.loads((tmp_path / "SIM" / "simulated.json").read_text())
    assert (settings["seed"], settings["snr"], settings["kinds"]) == (3, [30.0, 30.0], {"g_star": 10.0})


def test_quiet_says_nothing(specvet: Specvet) -> None:
    done = specvet("data", "simulate", "--n", 1, "--out", "SIM", "--kinds", "g_star", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kinds", "cat"), "specvet: there is no kind 'cat'; known are cv (cv.quiescence, cv.double_peaked,"),
        (("--kinds", ","), "specvet: --kinds ',' names nothing; give names with commas between"),
        (("--snr", "good"), "specvet: --snr good: give two numbers, as in --snr 5-50"),
        (("--snr", "50-5"), "specvet: S/N from 50 to 5: give two positive numbers, as in 5-50"),
        (("--tasks", "cv,toy"), "specvet: there is no answer to the task 'toy'; known are cc, cv, gm, ss, wd"),
        (("--release", "dr1"), "specvet: the layout of LAMOST dr1 is not written; there are dr2, dr3,"),
        (("--templates", "nowhere"), "specvet: nowhere: has no manifest.csv; give a folder with one"),
        (("--out", "full"), "specvet: full: holds something else than a simulated survey; name a new folder"),
    ],
)
def test_what_cannot_be_is_said_with_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    assert main(["data", "simulate", "--n", "1", "--out", "SIM", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said)
    assert not Path("SIM").exists()


def test_a_place_that_cannot_be_written_is_another_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(["data", "simulate", "--n", "1", "--out", "file/SIM"]) == 4
    assert capsys.readouterr().err.startswith("specvet: file/SIM")
