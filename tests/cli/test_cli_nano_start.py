"""`specvet train` from a plain model folder, and `specvet models pack` of what came of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from specvet.cli.main import main
from specvet.data.toy import Toy, make_toy
from specvet.policies.catalogue import read_manifest, verify_model, write_model_manifest
from specvet.policies.manner import NANO, manner_of
from specvet.records import file_hash

torch = pytest.importorskip("torch")

RECEIPT = {"stage": "base", "seconds": 3}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has made a model, as `specvet train base` does: its folder."""
    from specvet.policies.torch.tiny import save_tiny

    run = tmp_path_factory.mktemp("base")
    save_tiny(run / "model")
    write_model_manifest(
        run / "model", name="tiny-base", version="1", licence="Apache-2.0", manner=NANO, receipts=[RECEIPT]
    )
    return run


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy") / "data", sft_train=2, sft_val=2, rl_train=2, dev=2)


@pytest.fixture(scope="module")
def sft(base: Path, toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of SFT from that model, by the profile of nano."""
    out = tmp_path_factory.mktemp("sft") / "run"
    command = ["train", "sft", "--profile", "nano", "--from", str(base), "--data", toy.sft_train, "--device", "cpu"]
    command += ["--epochs", "1", "--set", "sft.max_tokens=8192", "--out", str(out), "--quiet"]
    assert main(command) == 0
    return out


def settings(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["train", *command, "--print-config", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_from_takes_a_model_folder_or_the_run_that_made_it(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for named in (base, base / "model"):
        told = settings(capsys, "sft", "--profile", "nano", "--from", str(named))
        assert told["model"]["name"] == str(base / "model")
        assert told["start"] is None
        assert told["method"]["vision"] == "trained"
    same = settings(capsys, "sft", "--profile", "nano", "--from", str(base), "--model", str(base / "model"))
    assert same["model"]["name"] == str(base / "model")


def test_from_and_model_that_name_two_models_are_refused(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "sft", "--profile", "nano", "--from", str(base), "--model", "other", "--print-config"]) == 2
    assert "is a model, and --model names another; give one of them" in capsys.readouterr().err


def test_nano_without_its_base_says_what_makes_one(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "sft", "--profile", "nano", "--data", toy.sft_train, "--out", str(tmp_path / "run")]
    for more in ([], ["--dry-run"]):
        assert main([*command, *more]) == 2
        assert "specvet train base --out runs/base makes it" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_was_trained_is_asked_as_its_base_and_grpo_goes_on_from_it(
    base: Path, sft: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sampler = sft / "checkpoints" / "epoch-01" / "epoch-01-sampler"
    assert manner_of(sampler) == NANO
    assert "files" not in json.loads((sampler / "specvet.json").read_text())
    told = settings(capsys, "grpo", "--profile", "nano", "--from", str(sft))
    assert (told["model"]["name"], told["start"]) == (str(base / "model"), str(sft / "checkpoints" / "epoch-01"))


def test_a_trained_model_is_packed_with_hashes_and_the_receipts_of_all_that_made_it(
    sft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from specvet.policies.options import ModelOptions
    from specvet.policies.torch.loading import load

    out = tmp_path / "packed"
    assert main(["models", "pack", str(sft), "--name", "mine", "--version", "2", "--out", str(out)]) == 0
    assert "receipts: base, sft" in capsys.readouterr().out
    manifest = read_manifest(out)
    assert (manifest.name, manifest.version, manifest.manner) == ("mine", "2", NANO)
    assert manifest.receipts[0] == RECEIPT
    assert manifest.receipts[1]["receipt_sha256"] == file_hash(sft / "receipt.json")
    assert verify_model(out).ok
    model, _ = load(ModelOptions(model=str(out), device="cpu", dtype="bfloat16"))
    trained, _ = load(
        ModelOptions(model=str(sft / "checkpoints" / "epoch-01" / "epoch-01-sampler"), device="cpu", dtype="bfloat16")
    )
    for name, weight in trained.module.state_dict().items():
        assert torch.equal(model.module.state_dict()[name], weight), name
    assert main(["models", "pack", str(sft), "--name", "mine", "--out", str(out)]) == 1
    assert "is not empty" in capsys.readouterr().err


def test_a_model_folder_is_packed_as_it_is_and_what_is_none_is_told(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(base / "model", copy)
    assert main(["models", "pack", str(copy), "--name", "again", "--out", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["receipts"] == [RECEIPT]
    assert main(["models", "pack", str(tmp_path), "--name", "x", "--out", str(tmp_path / "no")]) == 2
    assert "is neither a training run nor a checkpoint nor a model" in capsys.readouterr().err
