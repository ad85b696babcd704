"""Demonstrations without their looks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specvet.chat import ToolCall
from specvet.cli.data import app
from specvet.data.at_once import at_once
from specvet.data.demonstrations import Demonstration, Picture, Said, read_demonstrations, write_demonstrations
from specvet.data.errors import InputError


def _looked() -> Demonstration:
    return Demonstration(
        "cv-0",
        (
            Said("system", ("You vet spectra by eye.",)),
            Said("user", (Picture("images/a.png"), "\nFull spectrum.\n\nIs it one? You have 8 turns.")),
            Said("assistant", (), "Blue. Next Hα.", (ToolCall("zoom", {"wavelength_range": [6400, 6700]}),)),
            Said("tool", (Picture("images/b.png"), "Generated.")),
            Said("assistant", ("<answer>\\boxed{YES} Hα, EW −40 Å.</answer>",), "Hα, EW −40 Å. Enough."),
        ),
        object_id="star 1",
    )


def test_the_question_and_the_answer_stay_and_the_looks_go() -> None:
    short = at_once(_looked())
    assert [m.role for m in short.messages] == ["system", "user", "assistant"]
    assert short.messages[1].content == (
        Picture("images/a.png"),
        "\nFull spectrum.\n\nIs it one? You have 1 turn.",
    )
    assert short.messages[2] == Said("assistant", ("<answer>\\boxed{YES} Hα, EW −40 Å.</answer>",), "Enough.")
    assert (short.id, short.object_id) == ("cv-0", "star 1")


def test_one_that_ends_with_a_call_is_refused() -> None:
    whole = _looked()
    cut = Demonstration("cv-0", whole.messages[:3], where="a.jsonl:1")
    with pytest.raises(InputError, match=r"a\.jsonl:1: does not begin with a question and end with an answer"):
        at_once(cut)


def test_the_command_writes_beside_the_file_only(tmp_path: Path) -> None:
    write_demonstrations(str(tmp_path / "a.jsonl"), [_looked()])
    run = CliRunner().invoke(app, ["at-once", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "b.jsonl"), "--json"])
    assert run.exit_code == 0
    assert json.loads(run.stdout)["demonstrations"] == 1
    assert [one.messages[-1].reasoning for one in read_demonstrations(str(tmp_path / "b.jsonl"))] == ["Enough."]
    (tmp_path / "else").mkdir()
    refused = CliRunner().invoke(
        app, ["at-once", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "else" / "b.jsonl")]
    )
    assert refused.exit_code != 0
    assert not (tmp_path / "else" / "b.jsonl").exists()
