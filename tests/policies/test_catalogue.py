"""Model folders: what the manifest holds, and what a check of it finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specvet.policies.catalogue import (
    ModelError,
    find_model,
    models,
    read_manifest,
    verify_model,
    write_model_manifest,
)
from specvet.policies.manner import NANO, manner_of
from specvet.policies.tokens import PolicyError
from specvet.records import bytes_hash

RECEIPT = {"stage": "sft", "file": "results/sft/receipt.json", "sha256": "0" * 64}


def made(folder: Path, **more: object) -> Path:
    """Files as a model folder has them; what they hold does not matter to a manifest."""
    (folder / "parts").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "parts" / "model.safetensors").write_bytes(b"weights")
    (folder / ".gitattributes").write_text("hidden")
    told = {"name": "mine", "version": "1.2", "manner": NANO, "licence": "Apache-2.0", "receipts": [RECEIPT]}
    write_model_manifest(folder, **told | more)  # type: ignore[arg-type]
    return folder


def test_a_manifest_names_every_file_with_its_hash_and_reads_back(tmp_path: Path) -> None:
    folder = made(tmp_path / "m")
    manifest = read_manifest(folder)
    assert manifest.files == {"config.json": bytes_hash(b"{}"), "parts/model.safetensors": bytes_hash(b"weights")}
    assert (manifest.name, manifest.version, manifest.licence) == ("mine", "1.2", "Apache-2.0")
    assert manifest.receipts == (RECEIPT,)
    assert manifest.manner == manner_of(folder) == NANO
    assert set(json.loads((folder / "specvet.json").read_text())) == {
        "schema_version", "name", "version", "licence", "manner", "receipts", "files",
    }  # fmt: skip


def test_a_manner_that_training_wrote_stays_when_the_manifest_is_written(tmp_path: Path) -> None:
    (tmp_path / "specvet.json").write_text(json.dumps({"manner": {"wording": "short", "max_turns": 3}}))
    (tmp_path / "config.json").write_text("{}")
    manifest = write_model_manifest(tmp_path, name="mine", version="1", licence="MIT")
    assert manifest.manner is not None
    assert (manifest.manner.wording, manifest.manner.max_turns) == ("short", 3)


def test_a_model_without_a_manner_is_asked_as_the_published_ones(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_model_manifest(tmp_path, name="theirs", version="1", licence="MIT")
    assert manner_of(tmp_path) is None
    (tmp_path / "specvet.json").write_text('{"manner": null}')
    assert manner_of(tmp_path) is None
    (tmp_path / "specvet.json").write_text('{"manner": "terse"}')
    with pytest.raises(PolicyError, match="says nothing that can be read"):
        manner_of(tmp_path)


def test_a_check_names_what_is_altered_missing_and_unlisted(tmp_path: Path) -> None:
    folder = made(tmp_path / "m")
    assert verify_model(folder).ok
    (folder / "config.json").write_text("{} ")
    (folder / "parts" / "model.safetensors").rename(folder / "parts" / "other.safetensors")
    found = verify_model(folder)
    assert not found.ok
    assert found.altered == ("config.json",)
    assert found.missing == ("parts/model.safetensors",)
    assert found.unlisted == ("parts/other.safetensors",)


def test_the_hash_of_a_model_does_not_change_with_its_card(tmp_path: Path) -> None:
    before = read_manifest(made(tmp_path / "m")).digest
    (tmp_path / "m" / "README.md").write_text("A card.")
    after = write_model_manifest(tmp_path / "m", name="mine", version="1.2", licence="Apache-2.0")
    assert "README.md" in after.files
    assert after.digest == before
    (tmp_path / "m" / "config.json").write_text("{1}")
    assert write_model_manifest(tmp_path / "m", name="mine", version="1.2", licence="MIT").digest != before


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("files", {"../a": "0" * 64}, "no path inside"),
        ("files", {"/a": "0" * 64}, "no path inside"),
        ("files", {"a\\b": "0" * 64}, "no path inside"),
        ("files", {"C:a": "0" * 64}, "no path inside"),
        ("files", {"a//b": "0" * 64}, "no path inside"),
        ("files", {"a\x1b[2J": "0" * 64}, "no path inside"),
        ("files", {"a": "xyz"}, "no SHA-256"),
        ("name", "../up", "is not up to 100 letters"),
        ("name", "", "is not up to 100 letters"),
        ("name", "n" * 101, "is not up to 100 letters"),
        ("licence", "MIT\x1b[2J", "licence: .* is not one line of text"),
        ("source", "here\nlicence   MIT", "source: .* is not one line of text"),
        ("schema_version", 2, "this specvet reads 1"),
        ("surprise", 1, "Extra inputs"),
    ],
)
def test_a_manifest_that_cannot_be_true_is_refused(tmp_path: Path, field: str, value: object, said: str) -> None:
    folder = made(tmp_path / "m")
    told = json.loads((folder / "specvet.json").read_text())
    (folder / "specvet.json").write_text(json.dumps(told | {field: value}))
    with pytest.raises(ModelError, match=said):
        read_manifest(folder)


def test_a_folder_without_files_or_with_a_name_that_cannot_be_one_gets_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no files"):
        write_model_manifest(tmp_path, name="mine", version="1", licence="MIT")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="name: '/mine' is not up to 100 letters"):
        write_model_manifest(tmp_path, name="/mine", version="1", licence="MIT")
    assert not (tmp_path / "specvet.json").exists()


def test_models_are_found_by_the_name_of_their_folder_and_damaged_ones_are_told(tmp_path: Path) -> None:
    made(tmp_path / "one")
    made(tmp_path / "two", version="2")
    (tmp_path / "broken").mkdir()
    made(tmp_path / ".partial-three")
    found, refused = models(tmp_path)
    fetched = [m for m in found if not m.packaged]
    assert [(m.name, m.manifest.version) for m in fetched] == [("one", "1.2"), ("two", "2")]
    assert fetched[0].size == sum(
        (tmp_path / "one" / f).stat().st_size for f in ("config.json", "parts/model.safetensors", "specvet.json")
    )
    assert list(refused) == [str(tmp_path / "broken")]
    assert find_model("two", tmp_path) == tmp_path / "two"
    assert find_model(tmp_path / "one", tmp_path) == tmp_path / "one"
    with pytest.raises(ModelError, match=r"three: neither a model that is here \(.*one, two\) nor a folder"):
        find_model("three", tmp_path)
