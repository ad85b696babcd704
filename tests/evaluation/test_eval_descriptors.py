"""Model descriptors: a slug stands for the same weights for ever, wherever they lie."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from specvet.data.errors import InputError
from specvet.evaluation.descriptors import Descriptor, describe, keep_descriptor, read_descriptor
from specvet.evaluation.plan import PolicyPlan
from specvet.evaluation.verify.files import check_descriptor
from specvet.policies.catalogue import write_model_manifest
from specvet.records import bytes_hash


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "sft"
    (folder / "nested").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"weights")
    (folder / "nested" / "config.json").write_bytes(b"{}")
    return folder


def told(folder: Path, slug: str = "sft", label: str = "", **plan: Any) -> Descriptor:
    return describe(slug, PolicyPlan(**plan), label or slug, folder)


def test_a_descriptor_holds_the_hash_of_every_file(tmp_path: Path, model: Path) -> None:
    (model / "__pycache__").mkdir()
    (model / "__pycache__" / "x.pyc").write_bytes(b"")
    made = told(tmp_path, model="models/sft", source="run 7", label="SFT", format="qwen3_5", trained_on=("cv",))
    assert made.files == {"nested/config.json": bytes_hash(b"{}"), "weights.bin": bytes_hash(b"weights")}
    assert (made.model, made.source, made.label, made.trained_on) == ("models/sft", "run 7", "SFT", ("cv",))
    assert made.options == {"format": "qwen3_5"}
    assert Descriptor.model_validate_json(made.model_dump_json()) == made
    assert Descriptor.model_validate_json(made.model_dump_json()).fingerprint == made.fingerprint


def test_a_model_stays_the_same_when_its_card_is_written_and_is_another_when_its_weights_change(
    tmp_path: Path, model: Path
) -> None:
    write_model_manifest(model, name="sft", version="1", licence="MIT")
    asked = keep_descriptor(tmp_path / "policies", told(tmp_path, model="models/sft"))
    (tmp_path / "cells" / "sft--val").mkdir(parents=True)
    (model / "README.md").write_text("# what it measured\n")
    (model / "failures.png").write_bytes(b"png")
    write_model_manifest(model, name="sft", version="1", licence="MIT")
    assert keep_descriptor(tmp_path / "policies", told(tmp_path, model="models/sft")) == asked
    assert [check.state for check in check_descriptor(tmp_path, asked)] == ["ok"]
    (model / "nested" / "README.md").write_text("data of the model")  # no card
    with pytest.raises(InputError, match=r"other files: nested/README.md"):
        keep_descriptor(tmp_path / "policies", told(tmp_path, model="models/sft"))


def test_the_same_weights_elsewhere_are_the_same_model(tmp_path: Path, model: Path) -> None:
    here = told(tmp_path, model="models/sft").fingerprint
    away = tmp_path / ".cache" / "hub" / "sft"  # a folder whose own path holds a name that is left out below it
    shutil.copytree(model, away)
    assert told(tmp_path, model=str(away), label="Another label", source="elsewhere").fingerprint == here
    assert told(tmp_path / "deep" / "down", model="../../models/sft").fingerprint == here
    (tmp_path / "linked").symlink_to(model)
    assert told(tmp_path, model="linked").fingerprint == here


@pytest.mark.parametrize("change", ["content", "name", "more", "policy", "format", "adapter"])
def test_whatever_decides_makes_another_model(tmp_path: Path, model: Path, change: str) -> None:
    plan: dict[str, Any] = {"model": "models/sft"}
    before = told(tmp_path, **plan).fingerprint
    if change == "content":
        (model / "weights.bin").write_bytes(b"weightz")
    elif change == "name":
        (model / "weights.bin").rename(model / "weights-1.bin")
    elif change == "more":
        (model / "more.bin").write_bytes(b"")
    elif change == "policy":
        plan["policy"] = "trees"
    elif change == "format":
        plan["format"] = "qwen3_vl"
    else:
        (tmp_path / "lora").mkdir()
        (tmp_path / "lora" / "adapter.bin").write_bytes(b"")
        plan["adapter"] = "lora"
    assert told(tmp_path, **plan).fingerprint != before


def test_an_adapter_of_another_hub_model_is_another_model(tmp_path: Path, model: Path) -> None:
    one, other, later = (
        told(tmp_path, model=name, adapter="models/sft", revision=revision).fingerprint
        for name, revision in (("owner/base", "1"), ("owner/other", "1"), ("owner/base", "2"))
    )
    assert len({one, other, later}) == 3


def test_a_hub_id_and_a_servers_name_count_with_their_revision_and_not_with_their_address(tmp_path: Path) -> None:
    def fingerprint(**plan: Any) -> str:
        return told(tmp_path, **{"policy": "openai", "model": "spec-o3", "base_url": "http://a/v1", **plan}).fingerprint

    assert fingerprint(base_url="http://b/v1") == fingerprint()
    assert fingerprint(revision="2026-01") != fingerprint()
    assert fingerprint(model="spec-o4") != fingerprint()
    assert fingerprint(tools="text") != fingerprint()


def test_a_folder_of_a_servers_models_name_is_not_taken_for_it(tmp_path: Path, model: Path) -> None:
    for policy in ("openai", "trio", "tinker"):
        plan = {"policy": policy, "model": "models/sft", "base_url": "http://a/v1"}
        here, away = told(tmp_path, **plan), told(tmp_path / "elsewhere", **plan)
        assert here.files == away.files == {}
        assert here.fingerprint == away.fingerprint


def test_a_folder_that_is_written_as_one_and_missing_is_named(tmp_path: Path) -> None:
    for given in ("./gone", str(tmp_path / "gone"), "../gone"):
        with pytest.raises(InputError, match=r"policies\.sft\.model: .*gone: no such folder"):
            told(tmp_path, model=given)
    assert told(tmp_path, model="owner/gone").files == {}  # a hub id
    for kind in ("trees", "majority", "cnn"):
        with pytest.raises(InputError, match=f"policies.sft: {kind} needs the folder that `specvet train specialist`"):
            told(tmp_path, policy=kind)


def asked(campaign: Path) -> Path:
    """The `policies/` of a campaign in which the policy `sft` has a cell."""
    (campaign / "cells" / "sft--q--s42--01234567").mkdir(parents=True)
    return campaign / "policies"


def test_a_kept_slug_stands_for_its_weights(tmp_path: Path, model: Path) -> None:
    kept = asked(tmp_path)
    first = keep_descriptor(kept, told(tmp_path, model="models/sft"))
    assert read_descriptor(kept, "sft") == first
    shutil.copytree(model, tmp_path / "away")
    assert keep_descriptor(kept, told(tmp_path, model="away")) == first  # moved
    before = (kept / "sft.json").read_bytes()
    (model / "weights.bin").write_bytes(b"weightz")
    with pytest.raises(InputError, match=r"sft is no longer the one .*other files: weights\.bin.*another name"):
        keep_descriptor(kept, told(tmp_path, model="models/sft"))
    shutil.rmtree(model)
    with pytest.raises(InputError, match=r"other files: nested/config\.json, weights\.bin"):
        keep_descriptor(kept, told(tmp_path, model="models/sft"))
    assert (kept / "sft.json").read_bytes() == before


def test_a_kept_slug_stands_for_its_revision(tmp_path: Path) -> None:
    kept = asked(tmp_path)
    keep_descriptor(kept, told(tmp_path, model="owner/sft", revision="1"))
    with pytest.raises(InputError, match="revision: 1 then, 2 now"):
        keep_descriptor(kept, told(tmp_path, model="owner/sft", revision="2"))


def test_what_was_said_of_a_policy_stands_and_need_not_be_said_again(tmp_path: Path) -> None:
    said: dict[str, Any] = {"label": "SFT", "source": "run 7", "trained_on": ("cv",)}
    kept = asked(tmp_path)
    first = keep_descriptor(kept, told(tmp_path, model="owner/sft", **said))
    assert keep_descriptor(kept, told(tmp_path, model="owner/sft")) == first
    for change in ({"label": "RL"}, {"source": "run 8"}, {"trained_on": ("cv", "wd")}):
        with pytest.raises(
            InputError, match=rf"policies\.sft\.{next(iter(change))}: .* when this campaign first asked it"
        ):
            keep_descriptor(kept, told(tmp_path, model="owner/sft", **{**said, **change}))
