"""Opening a model folder: what is missing, damaged, of another shape or not to be had is said, with what to do."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from embedded_lab import altered, options
from safetensors.torch import load_file, save_file

from specvet.policies import open_policy
from specvet.policies.catalogue import PACKAGED, write_model_manifest
from specvet.policies.embedded import building
from specvet.policies.embedded.loading import load
from specvet.policies.embedded.weights import _published, read_tensors
from specvet.policies.manner import NANO, manner_of
from specvet.policies.options import ModelOptions
from specvet.policies.registry import policy_for
from specvet.policies.tokens import PolicyError


def test_the_graphs_in_the_package_are_what_the_builder_makes(tmp_path: Path) -> None:
    made = building.write_graphs(tmp_path)
    assert (
        sorted(f.name for f in made)
        == sorted(f.name for f in building.FOLDER.iterdir())
        == [
            "text.onnx",
            "vision.onnx",
        ]
    )
    for file in made:
        assert file.read_bytes() == (building.FOLDER / file.name).read_bytes(), "run the builder"
        assert file.stat().st_size < 20_000


def test_weights_are_read_bit_for_bit_as_the_safetensors_library_reads_them(nano_folder: Path, tmp_path: Path) -> None:
    files = sorted(nano_folder.glob("*.safetensors"))
    assert len(files) == 2
    mine = read_tensors(files)
    assert len(mine) == 128
    assert sum(v.size for v in mine.values()) == 11_777_920
    for file in files:
        assert file.stat().st_size <= 15_000_000
        for name, tensor in load_file(file).items():
            assert tensor.dtype == torch.bfloat16
            np.testing.assert_array_equal(mine[name], tensor.float().numpy())
    other = {"a": torch.randn(3, 4), "b": torch.randn(5).half(), "c": torch.zeros(0, 2), "d": torch.tensor(2.5)}
    save_file({f"model.visual.{name}": t for name, t in other.items()}, tmp_path / "x.safetensors", {"format": "pt"})
    found = read_tensors([tmp_path / "x.safetensors"])
    assert {name: v.shape for name, v in found.items()} == {
        "visual.a": (3, 4), "visual.b": (5,), "visual.c": (0, 2), "visual.d": (),
    }  # fmt: skip
    for name, tensor in other.items():
        np.testing.assert_array_equal(found[f"visual.{name}"], tensor.float().numpy())


def test_a_damaged_file_of_weights_is_named(tmp_path: Path) -> None:
    sound = tmp_path / "sound.safetensors"
    save_file({"a": torch.ones(4, 4)}, sound)
    data = sound.read_bytes()
    header = json.dumps({"a": {"dtype": "I8", "shape": [2], "data_offsets": [0, 2]}}).encode()
    for i, damaged in enumerate(
        (
            b"",
            data[:7],
            data[:-1],
            data[:60],
            struct.pack("<Q", 2**60) + data[8:],
            data[:8] + b"[" + data[9:],
            data[:8] + b"\xff" + data[9:],
            struct.pack("<Q", len(header)) + header + b"ab",
            struct.pack("<Q", 2) + b"[]",
        )
    ):
        file = tmp_path / f"damaged{i}.safetensors"
        file.write_bytes(damaged)
        with pytest.raises(PolicyError, match=rf"damaged{i}\.safetensors: not a sound safetensors file"):
            read_tensors([file])


def test_the_folder_says_how_the_model_is_asked(nano_folder: Path) -> None:
    assert manner_of(nano_folder) == NANO


def test_without_a_packaged_model_the_error_says_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specvet.policies.embedded.loading.PACKAGED", Path("/nowhere"))
    with pytest.raises(
        PolicyError, match=r"no packaged model \(/nowhere/nano is missing\): name a folder with --model"
    ):
        open_policy("embedded", ModelOptions())
    assert PACKAGED.parts[-3:] == ("policies", "embedded", "models")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"base_url": "http://x"}, "--base-url is of a server"),
        ({"revision": "main"}, "--revision is of a hub id"),
        ({"adapter": "x"}, "merge it first"),
        ({"device": "cuda"}, "runs on the processor; --policy torch has GPUs"),
        ({"dtype": "bfloat16"}, "computes in float32, not bfloat16"),
        ({"branches": 0}, "0 branches"),
        ({"branches": 10**8}, r"no memory for 200,000,000 rows of 1,024 tokens .* smaller --concurrency"),
        ({"branches": 10**17}, "no memory for"),
        ({"format": "qwen3_vl"}, "the format qwen3_vl is not for qwen2_5_vl models"),
        ({"format": "x"}, "there is no chat format 'x'"),
        ({"model": "nowhere/at-all"}, "neither a model that is here"),
        ({"model": "x" * 5_000}, "neither a model that is here"),
        ({"model": "~nobody-of-that-name/x"}, "neither a model that is here"),
    ],
)
def test_an_option_that_it_cannot_use_is_refused(nano_folder: Path, more: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=says) as caught:
        load(options(nano_folder, **more))
    assert caught.value.fatal


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "qwen3_vl"}, "a qwen3_vl model"),
        ({"vision_config.fullatt_block_indexes": [1]}, "vision layers that attend to windows"),
        (
            {"text_config.rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "mrope_section": [8, 12, 12]}},
            "yarn",
        ),
        ({"text_config.layer_types": ["sliding_attention"]}, "layers of sliding_attention"),
        ({"tie_word_embeddings": False}, "embeddings that are not tied"),
        ({"text_config.max_position_embeddings": -5}, "config.json: -5 positions"),
        ({"text_config.max_position_embeddings": 10**12}, "config.json: 1,000,000,000,000 positions"),
        ({"text_config.num_hidden_layers": 4}, "not of nano's shape"),
        ({"text_config.rms_norm_eps": 1e-6}, "not of nano's shape"),
        ({"text_config.hidden_size": "wide"}, "not of a Qwen2.5-VL that can be read"),
        ({"image_token_id": 5}, "they do not belong together"),
        ({"vision_config": None}, "not of a Qwen2.5-VL that can be read"),
    ],
)
def test_a_model_of_another_shape_is_refused_with_what_it_is(
    nano_folder: Path, tmp_path: Path, config: dict[str, Any], says: str
) -> None:
    folder = altered(nano_folder, tmp_path / "other", config=config)
    with pytest.raises(PolicyError, match=says):
        load(options(folder))


def test_who_runs_a_folder_is_told_by_its_shape(nano_folder: Path, tmp_path: Path) -> None:
    assert policy_for(nano_folder) == "embedded"
    larger = altered(nano_folder, tmp_path / "larger", config={"text_config.num_hidden_layers": 6})
    assert policy_for(larger) == "torch"
    assert policy_for(tmp_path / "nowhere") == "torch"
    (larger / "config.json").write_text("[")
    assert policy_for(larger) == "torch"


def test_tensors_are_read_when_they_are_asked_for_and_rows_take_memory_as_they_are_filled(nano_folder: Path) -> None:
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("the system does not tell what memory a process holds")
    script = f"""
from specvet.policies.embedded.loading import load
from specvet.policies.options import ModelOptions
import numpy as np, onnxruntime
def held():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:")) / 1024
before = held()
model = load(ModelOptions(model={str(nano_folder)!r}, context=4096, branches=16))[0]
opened = held()
for length in (100, 300):
    model.step(np.arange(16), np.full(16, length), np.full(16, length))
    for row in range(16):
        model.copy(row, 16 + row, length)
print(opened - before, held() - opened)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    opened, filled = map(float, done.stdout.split())
    # 47 MB of weights, arranged anew and once more by the runtime; rows of 4096 tokens would be 640 MB in all.
    assert opened < 140
    assert filled < 100


def test_a_file_that_is_not_as_the_manifest_says_is_named(nano_folder: Path, tmp_path: Path) -> None:
    folder = altered(nano_folder, tmp_path / "released")
    write_model_manifest(folder, name="nano", version="1", licence="Apache-2.0", manner=NANO)
    before = load(options(folder))[2]
    weights = sorted(folder.glob("*.safetensors"))[1]
    data = bytearray(weights.read_bytes())
    data[-100] ^= 1
    weights.write_bytes(data)
    with pytest.raises(PolicyError, match=rf"{weights.name} not as specvet.json says: damaged or changed"):
        load(options(folder))
    (folder / "specvet.json").unlink()
    assert load(options(folder))[2] != before  # the fingerprint tells them apart
    weights.unlink()
    with pytest.raises(PolicyError, match=r"the weights \S+ are missing"):
        load(options(folder))


def test_a_manifest_whose_files_are_no_names_and_hashes_is_refused(nano_folder: Path, tmp_path: Path) -> None:
    folder = altered(nano_folder, tmp_path / "odd", specvet={"files": ["config.json"]})
    with pytest.raises(PolicyError, match=r"specvet\.json: 'files' is not an object of names and hashes"):
        load(options(folder))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "preprocessor_config.json"])
def test_a_folder_without_one_of_its_files_or_with_a_broken_one_says_which(
    nano_folder: Path, tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(nano_folder, tmp_path / "part"))
    for broken in ("{", "[" * 200_000):
        (folder / name).write_text(broken)
        with pytest.raises(PolicyError, match=name):
            load(options(folder))
    (folder / name).unlink()
    with pytest.raises(PolicyError, match=rf"{name}.*missing"):
        load(options(folder))


def _with_nan(tensors: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    """With one value of one tensor that is no number; names are published ones."""
    (full,) = (n for n in tensors if _published(n) == name)
    changed = tensors[full].clone()
    changed.view(-1)[7] = float("nan")
    return tensors | {full: changed}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t | {"model.norm.weight": torch.full((384,), float("nan"))}, "norm.weight are not all finite"),
        # Both towers have layers of one name where the graphs take them.
        (lambda t: _with_nan(t, "model.layers.1.self_attn.k_proj.weight"), "layers.1.self_attn.k_proj.weight are not"),
        (lambda t: _with_nan(t, "visual.blocks.1.attn.qkv.bias"), "blocks.1.attn.qkv.bias are not all finite"),
        (lambda t: t | {"model.norm.weight": torch.ones(383)}, r"have the shape \(383,\), config.json says \(384,\)"),
        (lambda t: {k: v for k, v in t.items() if k != "visual.merger.ln_q.weight"}, "ln_q.weight are missing"),
    ],
)
def test_weights_that_do_not_fit_are_named(nano_folder: Path, tmp_path: Path, change: Any, says: str) -> None:
    folder = Path(shutil.copytree(nano_folder, tmp_path / "changed"))
    tensors: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        tensors |= load_file(file)
        file.unlink()
    save_file(change(tensors), folder / "model.safetensors")
    with pytest.raises(PolicyError, match=says):
        load(options(folder))


def test_it_opens_and_samples_without_torch_and_what_comes_with_it(nano_folder: Path) -> None:
    script = f"""
import asyncio, sys
from specvet.chat.messages import user
from specvet.policies import open_policy
from specvet.policies.options import ModelOptions
from specvet.policies.registry import policy_for
from specvet.policies.tokens import SamplingParams
policy = open_policy("embedded", ModelOptions(model={str(nano_folder)!r}))
ledger = policy.format.new_ledger()
ledger.append(policy.format.opening([user("Hα?")]))
samples = asyncio.run(policy.sample(ledger, 1, SamplingParams(3, 0.0)))
assert len(samples.sequences[0].ids) == 3
asyncio.run(policy.aclose())
print(sorted({{"torch", "transformers", "onnx", "safetensors"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
