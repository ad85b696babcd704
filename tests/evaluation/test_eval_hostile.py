"""Mistakes of users and folders of strangers, by their kinds."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import write_questions

from specvet.cli.main import main
from specvet.data.errors import InputError
from specvet.evaluation.descriptors import Descriptor, describe, keep_descriptor
from specvet.evaluation.plan import PolicyPlan, SetPlan, parse_campaign
from specvet.evaluation.plots import figure_bytes
from specvet.evaluation.plots.page import Page
from specvet.evaluation.publishing import publish
from specvet.evaluation.rebasing import joined, rebased
from specvet.policies.specialists import CARD, SpecialistError, read_card
from specvet.policies.specialists.forest import Forest, forests_bytes, read_forests

PLAIN = "name: n\nsets: {q: {path: q.jsonl}}\npolicies: {a: {policy: line-indices}}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (PLAIN.replace("indices}", 'indices, label: "\\e[31mred"}'), "policies.a.label: "),
        (PLAIN.replace("indices}", 'indices, label: "a\\u202eb"}'), "policies.a.label: "),
        (PLAIN.replace("indices}", 'indices, label: "two\\nlines"}'), "policies.a.label: "),
        (PLAIN.replace("line-indices}", "openai, base_url: 'http://me:secret@host/v1'}"), "base_url: names a user"),
        (PLAIN.replace("indices}", "indices, model: x}"), "policies.a: line-indices was not trained"),
        (PLAIN + "seeds: [-1]\n", "seeds.0: "),
        (PLAIN + "seeds: [yes]\n", "seeds.0: "),
        (PLAIN + "seeds: [99999999999999999999]\n", "seeds.0: "),
        (PLAIN.replace("name: n", "name: 5"), "name: give a text, in quotes"),
        (PLAIN.replace("path: q.jsonl", "recipe: {suite: cross-task, part: test}"), "recipe: part: a suite has none"),
        (PLAIN.replace("path: q.jsonl", "recipe: {simvi: tiny, n: 5}"), "recipe: n: a simvi has none"),
        (PLAIN.replace("path: q.jsonl", "recipe: {simvi: tiny, style: odd}"), "style 'odd' is unknown"),
        ("a: " + "[" * 1_000, "nested too deeply"),
    ],
)
def test_what_no_campaign_can_mean_is_refused_before_anything_is_asked(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=r"^c\.yaml: ") as told:
        parse_campaign(text, "c.yaml")
    assert problem in str(told.value)
    assert str(told.value).isprintable()


def test_a_strangers_descriptor_cannot_paint_on_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stand on one line"):
        Descriptor(slug="a", policy="torch", label="\x1b[2J")


def test_a_linked_question_file_keeps_its_spectra_beside_the_link(tmp_path: Path) -> None:
    """As in a hub's cache, where the link lies among the files, and what it leads to among nameless others."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "set").mkdir()
    (tmp_path / "blobs" / "0af3").write_text("")
    (tmp_path / "set" / "q.jsonl").symlink_to("../blobs/0af3")
    moved = rebased(parse_campaign(PLAIN, "c.yaml"), tmp_path / "set", tmp_path / "E")
    assert moved.sets["q"].path == "../set/q.jsonl"


def test_a_file_that_is_missing_is_named_by_its_field_and_where_it_should_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text("")
    Path("in").mkdir()
    Path("in/c.yaml").write_text(PLAIN)
    assert main(["eval", "run", "in/c.yaml", "--out", "E"]) == 2
    assert "sets.q.path: in/q.jsonl: no such file" in capsys.readouterr().err
    assert main(["eval", "run", "q.jsonl", "--policy", "line-indices", "--facts", "f.csv", "--out", "F"]) == 2
    assert "sets.q.facts: f.csv: no such file" in capsys.readouterr().err
    asked = str(write_questions(tmp_path / "asked", 1))
    assert main(["eval", "run", asked, "--policy", "trees", "--model", "gone", "--out", "G"]) == 2
    assert "gone: no such folder" in capsys.readouterr().err
    for option in (["--tools", "text"], ["--tool-images", "user"], ["--set", "x"]):
        assert main(["eval", "run", "in/c.yaml", "--out", "E", *option]) == 2
        assert f"{option[0]}: write it into the campaign file" in capsys.readouterr().err


def test_what_was_told_of_a_set_stands_when_a_policy_joins() -> None:
    there = parse_campaign(PLAIN.replace("q.jsonl", "q.jsonl, facts: f.csv, unseen: [cv], reference: SDSS"), "c.yaml")
    policies = {"b": PolicyPlan(policy="line-indices")}
    after = joined(there, "n", policies, {"q": SetPlan(path="q.jsonl")}, None).sets["q"]
    assert (after.facts, after.unseen, after.reference) == ("f.csv", ("cv",), "SDSS")
    told = joined(there, "n", policies, {"q": SetPlan(path="q.jsonl", facts="g.csv")}, None).sets["q"]
    assert told.facts == "g.csv"
    assert joined(there, "n", policies, {"q": SetPlan(path="other.jsonl")}, None).sets["q"].facts is None


def test_a_name_is_taken_only_once_something_was_asked(tmp_path: Path) -> None:
    kept = tmp_path / "policies"
    wrong, right = (describe("m", PolicyPlan(model=name), "m", tmp_path) for name in ("owner/typo", "owner/model"))
    keep_descriptor(kept, wrong)
    assert keep_descriptor(kept, right).model == "owner/model"
    (tmp_path / "cells" / "m--q--s42--01234567").mkdir(parents=True)
    with pytest.raises(InputError, match="give the new one another name"):
        keep_descriptor(kept, wrong)


def test_one_file_joins_twice_under_two_names_and_each_set_says_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_questions(Path("in"), 4)
    command = ["eval", "run", "in/questions.jsonl", "--policy", "line-indices", "--out", "E", "--quiet"]
    assert main([*command, "--limit", "1"]) == 0
    assert main([*command, "--limit", "2"]) == 2
    assert "--set" in capsys.readouterr().err
    assert main([*command, "--limit", "2", "--set", "two"]) == 0
    assert sorted(p.stem for p in Path("E/sets").glob("*.json")) == ["questions", "two"]
    (tmp_path / "E" / "manifest.json").unlink()
    assert main(["eval", "compare", "E", "--of", "a", "--over", "b"]) == 2
    assert "no cell of this campaign is finished" in capsys.readouterr().err


def test_private_folders_are_found_in_the_questions_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_questions(Path("in"), 1)
    told = json.loads(file.read_text())
    told["spectrum"]["path"] = str(Path("in", told["spectrum"]["path"]).absolute())
    file.write_text(json.dumps(told) + "\n")
    assert main(["eval", "run", str(file), "--policy", "line-indices", "--out", "E", "--quiet"]) == 0
    shutil.move("E/manifest.json", "whole.json")
    manifest = json.loads(Path("whole.json").read_text())
    manifest["files"] = {name: sha for name, sha in manifest["files"].items() if name.startswith("sets/")}
    Path("E/manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"questions\.parquet: names the folder"):
        publish(Path("E"), Path("out"))


def test_letters_that_the_typeface_lacks_are_drawn_without_a_warning() -> None:
    page = Page(4.0, 1.0, "日本語 🚀", ["العربية"], [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert figure_bytes(page.figure, "png").startswith(b"\x89PNG")


def _card(folder: Path, **changes: Any) -> Path:
    task = {"task_hash": "0", "questions": 4, "yes": 1}
    data = {"file_sha256": "0", "spectra_sha256": "0", "questions": 4, "objects": 4}
    card = {"kind": "majority", "tasks": {"cv": task}, "frame": "careful", "training": data, "versions": {}}
    folder.mkdir(exist_ok=True)
    (folder / CARD).write_text(json.dumps(card | changes))
    return folder


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kind": "trees"}, "trees names trees.npz"),
        ({"kind": "cnn", "files": {"trees.npz": "0"}}, "cnn names cnn.safetensors"),
        ({"files": {"../x": "0"}}, "majority names no file"),
        ({"tasks": {"cv": {"task_hash": "0", "questions": 1, "yes": 9}}}, "more are YES"),
        ({"temperature": float("inf")}, "temperature: "),
        ({"temperature": float("nan")}, "temperature: "),
    ],
)
def test_a_card_that_does_not_fit_its_kind_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecialistError, match=problem):
        read_card(_card(tmp_path / "s", **changes))


def test_weights_that_are_no_trees_are_told_whatever_they_are(tmp_path: Path) -> None:
    assert read_card(_card(tmp_path / "s")).kind == "majority"
    file = tmp_path / "trees.npz"
    for content in (b"", b"PK\x03\x04" + os.urandom(100), b"\x93NUMPY", b"text"):
        file.write_bytes(content)
        with pytest.raises(SpecialistError, match="cannot be read as trees"):
            read_forests(file, {"cv": None}, 3)
    with file.open("wb") as f:
        np.save(f, np.zeros(3))
    with pytest.raises(SpecialistError, match="cannot be read as trees"):
        read_forests(file, {"cv": None}, 3)


@pytest.mark.parametrize(
    "changes", [{"value": np.array([np.nan])}, {"baseline": np.array(np.inf)}, {"baseline": np.zeros(2)}]
)
def test_trees_whose_log_odds_are_no_numbers_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    nodes = np.zeros(1, np.int32)
    fields = {"baseline": np.array(0.0), "roots": nodes, "feature": np.zeros(1, np.int16), "threshold": np.zeros(1)}
    fields |= {"missing_left": np.zeros(1, bool), "left": nodes, "right": nodes, "value": np.zeros(1)}
    file = tmp_path / "trees.npz"
    file.write_bytes(forests_bytes({"cv": Forest(**fields)}))
    assert read_forests(file, {"cv": None}, 3)["cv"].log_odds(np.zeros((1, 3))) == 0.0
    file.write_bytes(forests_bytes({"cv": Forest(**(fields | changes))}))
    with pytest.raises(SpecialistError, match="no finite numbers"):
        read_forests(file, {"cv": None}, 3)
