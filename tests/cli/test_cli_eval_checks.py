"""`specvet eval status`, `verify`, `rescore` on a small finished campaign (SIMULATED spectra): texts and exit codes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_lab import Specvet

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))

from made import make_campaign
from verify_lab import change_json, copied, published, rehash

from specvet.cli.main import main
from specvet.records import RunFolder, file_hash

TEXT = """
name: told
policies:
  gambler: {policy: torch, model: gambler, revision: "1", label: Gambler}
sets:
  examples: {path: questions.jsonl, facts: facts.csv}
settings: {style: compact, concurrency: 4}
replicates: 0
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told") / "campaign"
    make_campaign(folder, TEXT, 5)
    return folder


@pytest.fixture
def campaign(finished: Path, tmp_path: Path) -> Path:
    return copied(finished, tmp_path)


def only_cell(campaign: Path) -> Path:
    (place,) = (campaign / "cells").iterdir()
    return place


def json_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_status_tells_a_complete_campaign_in_words_and_json(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "status", str(finished), "--fail-if-incomplete"]) == 0
    told = capsys.readouterr().out
    assert "1 of 1 cells complete; 5 of 5 rows." in told
    assert main(["eval", "status", str(finished), "--watch", "--json"]) == 0
    found = json_of(capsys)
    assert (found["complete"], found["rows"], found["questions"], found["seconds_left"]) == (True, 5, 5, 0.0)
    assert found["cells"][0]["folder"] == only_cell(finished).name


def test_status_reads_a_run_that_this_process_is_writing(campaign: Path, specvet: Specvet) -> None:
    place = only_cell(campaign)
    (place / "cell.json").unlink()
    with RunFolder.open(place, "eval") as run:
        run.event("test", "somebody is writing")
        found = specvet("eval", "status", campaign, "--json", "--fail-if-incomplete")
    assert found.returncode == 1, found.stderr
    cell = json.loads(found.stdout)["cells"][0]
    assert (cell["rows"], cell["sealed"], cell["problem"]) == (5, False, "")


def test_status_of_a_campaign_that_has_hardly_begun_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "run.lock").touch()
    assert main(["eval", "status", str(folder)]) == 0
    assert "no cell has begun" in capsys.readouterr().out
    assert main(["eval", "status", str(folder), "--json", "--fail-if-incomplete"]) == 1
    assert json_of(capsys)["cells"] == []
    (folder / "campaign.yaml").write_text(TEXT, encoding="utf-8")
    assert main(["eval", "status", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "not begun" in told
    assert "0 of 1 cells complete; 0 rows." in told
    assert main(["eval", "status", str(tmp_path / "nowhere")]) == 2
    assert "is no campaign" in capsys.readouterr().err


def test_verify_says_what_holds_and_under_which_manifest(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha = file_hash(finished / "manifest.json")
    assert main(["eval", "verify", str(finished), "--manifest", sha[:16]]) == 0
    told = capsys.readouterr().out
    assert "holds:" in told
    assert sha in told
    assert main(["eval", "verify", str(finished), "--inputs", "skip", "--manifest", "0" * 64, "--quiet"]) == 1
    told = capsys.readouterr().out
    assert told.startswith(f"FAILED manifest.json has the SHA-256 {sha}")
    assert main(["eval", "verify", str(finished), "--inputs", "perhaps"]) == 2
    assert "--inputs perhaps: give one of try, skip, require" in capsys.readouterr().err
    assert main(["eval", "verify", str(finished), "--inputs", "skip", "--manifest", "abc"]) == 2
    capsys.readouterr()
    assert main(["eval", "verify", str(tmp_path)]) == 2
    assert "is no campaign" in capsys.readouterr().err


def test_verify_tells_where_a_result_does_not_hold_and_what_is_not_here(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published(campaign)
    shutil.rmtree(campaign.parent / "input")
    assert main(["eval", "verify", str(campaign)]) == 0
    told = capsys.readouterr().out
    assert "Not here: inputs, sets/examples: the question file ../input/questions.jsonl is not here" in told
    assert "1 could not be made" in told
    assert main(["eval", "verify", str(campaign), "--inputs", "require", "--json"]) == 1
    found = json_of(capsys)
    assert [c["name"] for c in found["checks"] if c["state"] == "failed"] == ["inputs"]
    change_json(only_cell(campaign) / "metrics.json", lambda fields: fields["answers"].update(YES=99))
    rehash(campaign)
    assert main(["eval", "verify", str(campaign)]) == 1
    told = capsys.readouterr().out
    assert f"FAILED numbers, {only_cell(campaign).name}/metrics.json: answers.YES: 99 is recorded" in told
    assert "does not hold: 1 checks failed" in told


def test_rescore_shows_both_rules_side_by_side(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "rescore", str(campaign), "--rule", "lenient"]) == 0
    told = capsys.readouterr().out
    assert "strict/1" in told
    assert "lenient/1" in told
    assert "metrics.lenient-1.json" in told
    assert main(["eval", "rescore", str(campaign), "--rule", "chapter", "--json"]) == 0
    found = json_of(capsys)
    assert (found["before"]["rule"], found["after"]["rule"]) == ("strict/1", "chapter/1")
    assert found["files"][-1] == "metrics.chapter-1.json"
    assert main(["eval", "verify", str(campaign), "--inputs", "skip"]) == 0
    capsys.readouterr()
    assert main(["eval", "rescore", str(campaign)]) == 2
    assert "--rule is missing; there are strict/1" in capsys.readouterr().err
    assert main(["eval", "rescore", str(campaign), "--rule", "kind"]) == 2
    assert "there is no rule 'kind'" in capsys.readouterr().err
