"""`specvet data trajectories` from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specvet.cli.main import main

TERSE = ["--voice", "terse", "--wording", "short", "--picture-size", "tiny", "--workers", "1", "--no-zoom"]


def test_demonstrations_are_made_told_and_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["data", "trajectories", "--n", "2", "--out", str(tmp_path / "set"), *TERSE, "--kinds", "a_star"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "2 SIMULATED demonstrations; made" in said
    assert "0 answer YES" in said
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["simulated"]
    assert not told["made"]
    assert told["stats"]["demonstrations"] == 2
    assert (tmp_path / "set" / "trajectories.jsonl").read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--kinds", "nova"], "no kind 'nova'"),
        (["--surveys", "gaia"], "known are lamost"),
        (["--snr", "low"], "give two numbers"),
        (["--picture-size", "huge"], "unknown"),
        (["--style", "reference"], "size"),
    ],
)
def test_a_wrong_command_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    assert main(["data", "trajectories", "--n", "2", "--out", str(tmp_path / "set"), *TERSE, *options]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "set").exists()
