"""`specvet pipeline` as it is typed, and whether its stages are commands that there are."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from specvet.cli.main import app, main
from specvet.training.pipeline import Plan, nano_stages


@cache
def commands() -> Any:
    return get_command(app)


def parsed(command: tuple[str, ...]) -> dict[str, Any]:
    """What a command line is understood as, without running it. Raises a usage error."""
    found: Any = commands()
    left = list(command)
    while hasattr(found, "commands"):
        found = found.commands[left.pop(0)]
    context = found.make_context("specvet", left)
    return dict(context.params)


@pytest.mark.parametrize("templates", [None, "TEMPLATES"])
def test_every_stage_of_nano_is_a_command_that_specvet_takes(tmp_path: Path, templates: str | None) -> None:
    stages = {s.name: parsed(s.line) for s in nano_stages(Plan(tmp_path, templates=templates, workers=2))}
    assert stages["simvi"]["voice"] == "terse"
    assert stages["trajectories"]["templates"] == templates
    assert stages["base"]["seconds"] == 300
    assert stages["release"]["start"] == str(tmp_path / "base" / "model")
    assert stages["grpo-2"]["start"] == str(tmp_path / "seed-2" / "sft")
    assert stages["grpo-2"]["dev"] is None
    assert stages["whole-sft-1"]["data"] == str(tmp_path / "simvi" / "sft" / "whole_train.jsonl")
    assert stages["eval-grpo-0-e1"]["concurrency"] == 512
    assert stages["results"]["what"] == str(tmp_path / "stages.yaml")
    assert stages["pack"]["name"] == "nano"


def test_a_dry_run_prints_the_plan_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pipeline", "nano", "--out", str(tmp_path / "out"), "--dry-run", "--seeds", "1,4", "--parallel", "2"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "26 of 26 stages to run, at most 2 at a time" in out
    assert "specvet train grpo --profile nano --from" in out
    assert main([*command, "--json", "--only", "grpo"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [stage["name"] for stage in told["stages"]] == ["grpo-1", "grpo-4"]
    assert all(stage["gpu_minutes"] > 0 and not stage["done"] for stage in told["stages"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seeds", "0,x"], "--seeds 0,x: whole numbers with commas"),
        (["--seeds", "1,1"], "each once"),
        (["--parts", "val,dev"], "--parts val,dev: val, test, or both"),
        (["--limit", "grpo=soon"], "--limit grpo=soon: write it as STAGE=MINUTES"),
        (["--limit", "grop=3"], "--limit grop=3: write it as STAGE=MINUTES"),
        (["--only", "sftt"], "--only sftt: there is no such stage"),
        (["--only", "pack"], "pack needs release, which is not done"),
    ],
)
def test_what_is_typed_wrong_is_told(
    tmp_path: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "nano", "--out", str(tmp_path), *options, "--quiet"]) == 2
    assert says in capsys.readouterr().err
