"""The model card: its numbers are those of the campaigns and receipts, its failures are wrong answers."""

from __future__ import annotations

import io
import json
import shutil
import struct
from pathlib import Path

import pytest
import yaml
from PIL import Image

from specvet.cli.main import main
from specvet.data.errors import InputError
from specvet.evaluation.failures import failures
from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.model_card import read_words, write_model_card
from specvet.policies.catalogue import ModelError, read_manifest, verify_model, write_model_manifest
from specvet.policies.manner import NANO
from specvet.records import file_hash

WORDS = {
    "policy": "gambler",
    "summary": "It guesses.",
    "uses": ["To show what a card holds."],
    "training_data": ["Nothing."],
    "recipe": ["None."],
    "limits": ["It looks at\n nothing."],
}
RECEIPT = {
    "kind": "sft", "seconds": 90.0, "training": {"step": 160}, "usage": {"trained_tokens": 12_345.0},
    "versions": {"specvet": "0.1.0", "torch": "2.11.0"},
}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder of two tensors, 70 numbers in bfloat16."""
    folder = tmp_path / "guesser"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "BF16", "shape": [6, 10], "data_offsets": [0, 120]},
            "b": {"dtype": "BF16", "shape": [10], "data_offsets": [120, 140]},
        }
    ).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(140))
    write_model_manifest(folder, name="guesser", version="1.0", licence="Apache-2.0", manner=NANO)
    return folder


@pytest.fixture
def results(example: CampaignFolder, tmp_path: Path) -> Path:
    """The campaign with a receipt of training and words beside it; its questions lie where it looks for them."""
    folder = tmp_path / "results"
    shutil.copytree(example.path, folder / "campaign")
    shutil.copytree(example.path.parent / "input", folder / "input")
    (folder / "sft").mkdir()
    (folder / "sft" / "receipt.json").write_text(json.dumps(RECEIPT))
    (folder / "card.yaml").write_text(yaml.safe_dump(WORDS))
    return folder


def test_a_card_has_the_numbers_of_the_campaign_and_the_receipts(
    model: Path, results: Path, example: CampaignFolder
) -> None:
    before = read_manifest(model)
    manifest = write_model_card(model, results)
    text = (model / "README.md").read_text(encoding="utf-8")
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    assert yaml.safe_load(front)["license"] == "apache-2.0"
    assert body.strip().startswith("# guesser 1.0\n\nIt guesses.")
    assert "| weights | 0.00 million, BF16, 0.0 MB in 1 file |" in body
    assert f"| hash | `{before.digest}` |" in body
    sha = file_hash(results / "sft" / "receipt.json")[:16]
    assert f"| `sft/receipt.json` | sft | 160 | 12,345 | 1.5 | 0.1.0 | 2.11.0 | `{sha}` |" in body
    cells = [c for c in example.current() if c.record.policy == "gambler"]
    right = sum(c.metrics()["headline"]["correct"]["k"] for c in cells) / len(cells)
    row = next(line for line in body.splitlines() if line.startswith("| Gambler | 42, 43 |"))
    assert f"| {right:.1f} ± " in row
    simulated, real = body.partition("## Results on SIMULATED spectra")[2].split("## Results on real spectra")
    assert "### examples\n\n14 questions about " in simulated
    assert real.strip().startswith("Not measured.")
    assert "- It looks at nothing." in body
    for heading in ("What it is for", "What it learnt from", "Where it fails", "Limits", "Licence"):
        assert f"\n## {heading}\n" in body
    # The card is among the files of the model, and changes neither its hash nor what is told of it.
    assert verify_model(model).ok
    assert {"README.md", "failures.png"} <= set(manifest.files)
    assert (manifest.digest, manifest.manner, manifest.version) == (before.digest, NANO, "1.0")


def test_failures_are_wrong_answers_task_by_task_and_are_drawn_by_number(
    model: Path, results: Path, example: CampaignFolder
) -> None:
    cell = next(c for c in example.current() if c.record.policy == "gambler")
    wrong = [o for o in cell.outcomes() if not o.right]
    found = failures(cell, 4, "strict/1")
    assert len(found) == min(4, len(wrong))
    assert all(not f.outcome.right and f.decision.task == f.outcome.task for f in found)
    tasks = sorted({o.task for o in wrong})
    assert [f.outcome.task for f in found[: len(tasks)]] == tasks[:4]
    write_model_card(model, results)
    body = (model / "README.md").read_text(encoding="utf-8")
    shown = min(12, len(wrong))
    assert f"{shown} of its {len(wrong)} errors" in body
    with Image.open(io.BytesIO((model / "failures.png").read_bytes())) as sheet:
        assert sheet.size == (3 * 460 + 12, -(-shown // 3) * 336 + 12)
    assert "(SIMULATED)" in body


def test_without_spectra_the_card_has_no_picture_and_an_old_one_goes(model: Path, results: Path) -> None:
    write_model_card(model, results)
    assert (model / "failures.png").is_file()
    shutil.rmtree(results / "input")
    write_model_card(model, results)
    assert not (model / "failures.png").exists()
    assert "failures.png" not in (model / "README.md").read_text(encoding="utf-8")
    assert verify_model(model).ok


def test_what_a_card_needs_and_is_not_there_is_said(
    model: Path, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (results / "card.yaml").write_text(yaml.safe_dump(WORDS | {"policy": "nobody"}))
    with pytest.raises(InputError, match="no campaign there has measured 'nobody'"):
        write_model_card(model, results)
    (results / "card.yaml").write_text(yaml.safe_dump({k: v for k, v in WORDS.items() if k != "limits"}))
    with pytest.raises(InputError, match=r"card\.yaml: limits: is missing"):
        read_words(results / "card.yaml")
    (results / "card.yaml").write_text(yaml.safe_dump(WORDS))
    (results / "sft" / "receipt.json").unlink()
    with pytest.raises(InputError, match="holds no receipt of a training run"):
        write_model_card(model, results)
    with pytest.raises(ModelError, match="has no manifest"):
        write_model_card(tmp_path, results)
    assert main(["models", "card", str(model), "--results", str(tmp_path / "nothing")]) == 2
    assert "a card needs its words" in capsys.readouterr().err
