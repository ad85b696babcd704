"""`specvet train specialist`, and asking what it trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_lab import Specvet, write_star

from specvet.cli.eval_tables import print_campaign
from specvet.cli.main import main
from specvet.data.toy import make_toy
from specvet.evaluation.folder import open_campaign


def test_trees_are_trained_once_and_asked_like_any_policy(
    specvet: Specvet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = make_toy(tmp_path / "toy", sft_train=2, sft_val=2, rl_train=40, dev=8)
    train = ("train", "specialist", "--kind", "trees", "--questions", toy.rl_train, "--out", "trees")
    done = specvet(*train, "--validation", toy.dev)
    assert done.returncode == 0, done.stderr
    assert "trees on 40 questions" in done.stdout
    assert ["toy", "40", "20", "50.0", "%"] in [line.split() for line in done.stdout.splitlines()]
    assert "use it: --policy trees --model trees" in done.stdout
    assert sorted(p.name for p in (tmp_path / "trees").iterdir()) == ["receipt.json", "specialist.json", "trees.npz"]

    trees = ("--policy", "trees", "--model", "trees")
    monkeypatch.chdir(tmp_path)
    assert main(["rollout", toy.dev, *trees, "--out", "run", "--no-images", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stops"] == {"answered": 8}

    write_star(tmp_path / "star.txt")
    task = tmp_path / "toy" / "tasks" / "toy.yaml"
    assert main(["vet", "star.txt", "--task", str(task), *trees, "--out", "v", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["policy"] == "trees"
    assert sum(told["counts"]["toy"].values()) == 1
    receipt = json.loads((tmp_path / "v" / "receipt.json").read_text())
    assert receipt["settings"]["policy_fingerprint"]


def test_a_specialist_without_its_folder_and_an_unknown_kind_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_star(tmp_path / "star.txt")
    assert main(["vet", "star.txt", "--task", "cv", "--policy", "majority"]) == 2
    assert "majority needs --model, the folder that `specvet train specialist` wrote" in capsys.readouterr().err
    assert main(["train", "specialist", "--kind", "oracle", "--questions", "q.jsonl", "--out", "o"]) == 2
    assert "--kind oracle: choose majority, trees or cnn" in capsys.readouterr().err


def test_trees_of_too_few_questions_are_told_to_be_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = make_toy(tmp_path / "toy", sft_train=2, sft_val=2, rl_train=20, dev=8)
    monkeypatch.chdir(tmp_path)
    train = ["train", "specialist", "--kind", "trees", "--questions", toy.rl_train, "--validation", toy.dev, "--json"]
    assert main([*train, "--out", "few"]) == 0
    told = capsys.readouterr()
    assert "of toy the trees are constants, which say the same of every spectrum" in told.err
    assert "A split takes 30 questions of a task at least" in told.err
    assert json.loads(told.out)["settings"]["constant"] == ["toy"]
    assert json.loads((tmp_path / "few" / "specialist.json").read_text())["settings"]["constant"] == ["toy"]
    assert json.loads((tmp_path / "few" / "receipt.json").read_text())["constant"] == ["toy"]


def test_questions_that_it_was_trained_on_are_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = Path(make_toy(tmp_path / "toy", sft_train=2, sft_val=2, rl_train=2, dev=8).dev)
    monkeypatch.chdir(tmp_path)
    half = dev.with_name("half.jsonl")
    half.write_text("\n".join(dev.read_text().splitlines()[:4]) + "\n")
    train = ["train", "specialist", "--kind", "majority", "--questions", str(half), "--out"]
    assert main([*train, "m"]) == 0
    assert main([*train, "old"]) == 0
    receipt = json.loads((tmp_path / "old" / "receipt.json").read_text())
    assert [len(mark) for mark in receipt.pop("spectra")] == [16] * 4
    (tmp_path / "old" / "receipt.json").write_text(json.dumps(receipt))  # as folders were that told none

    for name in ("m", "old"):
        run = ["eval", "run", "toy/dev.jsonl", "--policy", "majority", "--model", name, "--out", "E", "--quiet"]
        assert main(run) == 0
    capsys.readouterr()
    print_campaign(tmp_path / "E")
    said = capsys.readouterr().out
    assert "4 of 8 questions of dev are about spectra that m was trained on or stopped by" in said
    assert "that old was trained on" not in said
    seen = {cell.record.policy: cell.metrics()["seen_in_training"] for cell in open_campaign(tmp_path / "E").current()}
    assert seen == {"m": 4, "old": None}
    assert main(["eval", "verify", "E", "--inputs", "skip"]) == 0
    (cell,) = (tmp_path / "E" / "cells").glob("m--*")
    numbers = json.loads((cell / "metrics.json").read_text())
    (cell / "metrics.json").write_text(json.dumps(numbers | {"seen_in_training": 0}))
    assert main(["eval", "verify", "E", "--inputs", "skip"]) == 1
    assert "seen_in_training: 0 is recorded, the rows give 4" in " ".join(capsys.readouterr().out.split())
