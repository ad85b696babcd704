"""`specvet data suite` as a user meets it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from specvet.cli.main import main
from specvet.data.suites.building import make_suite
from specvet.records import file_hash


def test_a_suite_is_written_whatever_the_number_of_workers_and_the_next_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "suite", "cross-task", "--n", "5", "--out", "MY SUITE", "--workers", "2"]) == 0
    done = capsys.readouterr()
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == "MY SUITE: cross-task, 5 questions about 5 SIMULATED objects; made"
    assert lines[-1] == (
        "Next: specvet eval run 'MY SUITE/questions.jsonl' --facts 'MY SUITE/facts.csv' --policy line-indices --out RUN"
    )
    folders = tmp_path / "MY SUITE", make_suite(tmp_path / "again", "cross-task", 5, workers=1).folder
    files = [{p.relative_to(f): file_hash(p) for p in f.rglob("*") if p.is_file()} for f in folders]
    assert files[0] == files[1]
    assert main(shlex.split(lines[-1])[2:]) == 0
    assert "4/5" in capsys.readouterr().out


def test_as_json_and_what_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "suite")
    command = ["data", "suite", "cross-survey", "--n", "2", "--out", out, "--workers", "1", "--json", "--quiet"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["simulated"], told["made"], told["objects"], told["questions"]) == (True, True, 2, 6)
    assert main([*command, "--seed", "1"]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert main(["data", "suite", "cross-sky", "--out", out]) == 2
