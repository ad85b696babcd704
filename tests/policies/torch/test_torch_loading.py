"""Opening models: folders, adapters, options, and what is said when something does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_lab import FAMILIES, GREEDY, observe, opening, run, say, small_pictures, stock_logprobs

from specvet.chat import ImageError, Ledger
from specvet.chat.formats import FAMILIES as FORMATS
from specvet.policies.options import ModelOptions
from specvet.policies.tokens import PolicyError
from specvet.policies.torch import open_policy
from specvet.policies.torch.loading import load
from specvet.policies.torch.tiny import save_tiny, tiny_model


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {family: save_tiny(root / family, family, seed=3) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_says_what_it_said_before_it_was_saved(family: str, folders: dict[str, Path]) -> None:
    saved = small_pictures(ModelOptions(model=str(folders[family])))
    random = small_pictures(ModelOptions(format=family, seed=3))

    async def work() -> None:
        ledger = opening(saved)
        assert (await saved.sample(ledger, 1, GREEDY)).sequences[0].ids == (
            await random.sample(ledger, 1, GREEDY)
        ).sequences[0].ids
        assert saved.format.name == family

    run(work, saved, random)


@pytest.mark.parametrize("family", FAMILIES)
def test_stock_classes_load_a_saved_model_with_its_processor(family: str, folders: dict[str, Path]) -> None:
    import transformers
    from PIL import Image as Pillow

    model = transformers.AutoModelForImageTextToText.from_pretrained(folders[family])
    processor = transformers.AutoProcessor.from_pretrained(folders[family])
    shown = [{"type": "image", "image": Pillow.new("RGB", (224, 224))}, {"type": "text", "text": "Hα?"}]
    given = processor.apply_chat_template(
        [{"role": "user", "content": shown}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    assert model.generate(**given, max_new_tokens=2).shape[1] == given["input_ids"].shape[1] + 2


def test_all_formats_have_a_tiny_model_that_a_seed_repeats() -> None:
    for name in FORMATS:
        one, same, other = (tiny_model(name, seed).lm_head.weight for seed in (1, 1, 2))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
    with pytest.raises(PolicyError, match="no chat format 'gpt'; known are qwen2_5_vl"):
        tiny_model("gpt")


def test_the_fingerprint_tells_weights_dtype_and_format_apart_and_nothing_else(folders: dict[str, Path]) -> None:
    def fingerprint(**options: Any) -> str:
        policy = open_policy(ModelOptions(**options))

        async def work() -> str:
            return policy.fingerprint

        return run(work, policy)

    folder = str(folders["qwen3_vl"])
    base = fingerprint(model=folder)
    assert base == fingerprint(model=folder, branches=3, context=999)
    others = {
        fingerprint(model=folder, dtype="bfloat16"),
        fingerprint(model=folder, format="qwen3_vl_thinking"),
        fingerprint(model=str(folders["qwen2_5_vl"])),
        fingerprint(format="qwen3_vl", seed=1),
        fingerprint(format="qwen3_vl", seed=2),
    }
    assert len(others | {base}) == 6


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_is_used_once_in_every_turn_as_stock_peft_uses_it(
    family: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    import peft
    import transformers

    base = transformers.AutoModelForImageTextToText.from_pretrained(folders[family])
    targets = r".*(language_model|visual).*(q_proj|v_proj|gate_proj|qkv|in_proj_qkv|out_proj|linear_fc1)"
    wrapped = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=32, target_modules=targets))
    torch.manual_seed(0)
    for name, weight in wrapped.named_parameters():
        if "lora_B" in name:  # zero at first, so that a fresh adapter does nothing
            torch.nn.init.normal_(weight, std=0.05)
    wrapped.save_pretrained(tmp_path)
    wrapped.eval()
    options = {"model": str(folders[family])}
    policy = small_pictures(ModelOptions(**options, adapter=str(tmp_path)))
    plain = small_pictures(ModelOptions(**options))

    async def work() -> None:
        ledger = opening(policy)
        for turn in range(2):
            say(ledger, (await policy.sample(ledger, 1, GREEDY)).sequences[0])
            observe(policy, ledger, seed=turn)
        said = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
        assert said == pytest.approx(stock_logprobs(policy, ledger, wrapped), abs=1e-4)
        assert np.abs(said - stock_logprobs(plain, ledger)).max() > 0.1
        assert policy.fingerprint != plain.fingerprint

    run(work, policy, plain)


def test_an_adapter_of_another_model_is_refused_not_half_used(folders: dict[str, Path], tmp_path: Path) -> None:
    import peft

    for name, family in (("other", "qwen3_5"), ("own", "qwen2_5_vl")):
        wrapped = peft.get_peft_model(tiny_model(family), peft.LoraConfig(r=2, target_modules=["gate_proj"]))
        wrapped.save_pretrained(tmp_path / name)
    weights = load_file(tmp_path / "own" / "adapter_model.safetensors")
    weights.pop(next(iter(weights)))
    save_file(weights, tmp_path / "own" / "adapter_model.safetensors")
    folder = str(folders["qwen2_5_vl"])
    for name, reason in (("other", "trained on another model|does not fit"), ("own", "1 places stay empty")):
        with pytest.raises(PolicyError, match=reason):
            load(ModelOptions(model=folder, adapter=str(tmp_path / name)))
    with pytest.raises(PolicyError, match="no LoRA adapter"):
        load(ModelOptions(model=folder, adapter=str(tmp_path)))
    with pytest.raises(PolicyError, match="name it with --model"):
        load(ModelOptions(adapter=str(tmp_path / "own")))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"device": "cuda:77"}, "no device 'cuda:77' here"),
        ({"dtype": "int4"}, "no dtype 'int4'; known are auto, float32"),
        ({"model": "/nowhere/model"}, "neither a model folder nor a hub id"),
        ({"branches": 0}, "at least one sequence"),
        ({"format": "llama"}, "no chat format 'llama'"),
        ({"device": "meta"}, "no device 'meta' here"),
        ({"base_url": "http://x/v1"}, "--base-url is of a server"),
        ({"revision": "main"}, "--revision is of a hub id"),
        ({"revision": "main", "model": "."}, "--revision is of a hub id"),
        ({"tokenizer": "/nowhere"}, "--tokenizer needs a --model"),
    ],
)
def test_options_that_cannot_be_had_say_what_can(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PolicyError, match=reason) as caught:
        open_policy(ModelOptions(**options))
    assert caught.value.fatal


def test_a_hub_id_that_cannot_be_had_says_what_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PolicyError, match=r"nobody/no-such-model: cannot be had from the hub .* name a folder"):
        load(ModelOptions(model="nobody/no-such-model"))


def test_a_folder_that_lacks_something_says_what(folders: dict[str, Path], tmp_path: Path) -> None:
    def broken(change: str, **config: Any) -> str:
        folder = tmp_path / change
        folder.mkdir()
        for path in folders["qwen2_5_vl"].iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        if config:
            told = json.loads((folder / "config.json").read_text()) | config
            (folder / "config.json").write_text(json.dumps(told))
        return str(folder)

    (tmp_path / "empty").mkdir()
    with pytest.raises(PolicyError, match=r"config\.json is missing"):
        load(ModelOptions(model=str(tmp_path / "empty")))
    with pytest.raises(
        PolicyError, match="is a qwen2_5_omni model; the torch policy runs qwen2_5_vl, qwen3_vl, qwen3_5"
    ):
        load(ModelOptions(model=broken("type", model_type="qwen2_5_omni")))
    with pytest.raises(PolicyError, match="the format qwen3_5 is not for qwen2_5_vl models"):
        load(ModelOptions(model=broken("format"), format="qwen3_5"))
    lacking = broken("weights")
    weights = load_file(Path(lacking) / "model.safetensors")
    weights = {k: v for k, v in weights.items() if "layers.1.mlp" not in k}
    save_file(weights, Path(lacking) / "model.safetensors", {"format": "pt"})
    with pytest.raises(PolicyError, match="3 weights are missing"):
        load(ModelOptions(model=lacking))
    no_tokenizer = broken("tokenizer")
    (Path(no_tokenizer) / "tokenizer.json").unlink()
    with pytest.raises(PolicyError, match="holds no tokenizer"):
        load(ModelOptions(model=no_tokenizer))
    no_weights = broken("nothing")
    (Path(no_weights) / "model.safetensors").unlink()
    with pytest.raises(PolicyError, match="cannot be loaded"):
        load(ModelOptions(model=no_weights))


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A model folder to break."""
    for path in folders["qwen2_5_vl"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def changed(file: Path, **settings: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize(
    "weights",
    [
        b"",
        b"\xff" * 5000,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 100\n",
        (1000).to_bytes(8, "little") + b"{",
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_damaged_weights_are_said_whatever_their_reader_raises(copied: Path, name: str, weights: bytes) -> None:
    (copied / "model.safetensors").unlink()
    (copied / name).write_bytes(weights)
    with pytest.raises(PolicyError, match="the model cannot be loaded"):
        load(ModelOptions(model=str(copied)))


@pytest.mark.parametrize("config", ["", "{", "null", "[]", "{}", '{"model_type": "no_such_vl"}', "\x00"])
def test_a_config_that_cannot_be_read_is_said(copied: Path, config: str) -> None:
    (copied / "config.json").write_text(config)
    with pytest.raises(PolicyError, match=r"its config\.json is of no model that can be run"):
        load(ModelOptions(model=str(copied)))


def test_a_models_own_code_is_neither_run_nor_asked_about(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> str:
        raise AssertionError("the user was asked")

    monkeypatch.setattr("builtins.input", asked)
    changed(copied / "config.json", model_type="own_vl", auto_map={"AutoConfig": "own.Config"})
    (copied / "own.py").write_text("raise SystemExit('run')")
    with pytest.raises(PolicyError, match="contains custom code"):
        load(ModelOptions(model=str(copied)))


@pytest.mark.parametrize("method", ["bitsandbytes", "gptq", "awq", "compressed-tensors"])
def test_a_quantised_model_without_its_package_is_said(copied: Path, method: str) -> None:
    changed(copied / "config.json", quantization_config={"quant_method": method, "load_in_4bit": True, "bits": 4})
    with pytest.raises(PolicyError, match="the model cannot be loaded"):
        load(ModelOptions(model=str(copied)))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"image_mean": [0.5, 0.5]}, "three finite numbers"),
        ({"image_mean": "abc"}, "no number"),
        ({"image_std": [0.5, 0, 0.5]}, "three finite numbers"),
        ({"rescale_factor": None}, "no number"),
        ({"rescale_factor": float("nan")}, "three finite numbers"),
        ({"resample": 2}, "bicubic"),
        ({"do_resize": False}, "do_resize false"),
        ({"patch_size": 16}, "do not belong together"),
        ({"size": 5}, "must be objects"),
        ({"image_processor": [1]}, "must be objects"),
    ],
)
def test_pixel_rules_that_are_none_are_said(copied: Path, settings: dict[str, Any], reason: str) -> None:
    changed(copied / "preprocessor_config.json", **settings)
    with pytest.raises((PolicyError, ImageError), match=reason):
        load(ModelOptions(model=str(copied)))


def test_a_folder_without_pixel_rules_is_refused_since_no_default_is_right_for_all(copied: Path) -> None:
    (copied / "preprocessor_config.json").unlink()
    with pytest.raises(PolicyError, match=r"no preprocessor_config\.json"):
        load(ModelOptions(model=str(copied)))


def test_a_tokenizer_of_another_family_is_refused(copied: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(PolicyError, match="do not belong together"):
        load(ModelOptions(model=str(copied), tokenizer=str(folders["qwen3_5"])))
    changed(copied / "config.json", image_token_id=7)
    with pytest.raises(PolicyError, match=r"<\|image_pad\|> as the id \d+, the model's config\.json as 7"):
        load(ModelOptions(model=str(copied)))


@pytest.mark.parametrize(
    "config",
    [
        {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4},
        {"peft_type": "LORA", "alora_invocation_tokens": [1, 2]},
        {"peft_type": "IA3"},
    ],
)
def test_an_adapter_that_is_no_plain_lora_is_refused_not_ignored(
    copied: Path, tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("adapter")
    (folder / "adapter_config.json").write_text(json.dumps({"task_type": "CAUSAL_LM", **config}))
    save_file({"x": torch.zeros(1)}, folder / "adapter_model.safetensors")
    with pytest.raises(PolicyError, match="not plain LoRA"):
        load(ModelOptions(model=str(copied), adapter=str(folder)))


def test_what_decides_beside_the_weights_is_in_the_fingerprint(copied: Path) -> None:
    import peft

    adapter = copied / "adapter"
    peft.get_peft_model(tiny_model("qwen2_5_vl"), peft.LoraConfig(r=2, target_modules=["v_proj"])).save_pretrained(
        adapter
    )

    def fingerprint() -> str:
        policy = open_policy(ModelOptions(model=str(copied), adapter=str(adapter)))

        async def work() -> str:
            return policy.fingerprint

        return run(work, policy)

    prints = {fingerprint()}
    changed(adapter / "adapter_config.json", lora_alpha=99)
    prints.add(fingerprint())
    changed(copied / "preprocessor_config.json", image_mean=[0.5, 0.5, 0.5])
    prints.add(fingerprint())
    told = json.loads((copied / "config.json").read_text())
    changed(copied / "config.json", text_config=told["text_config"] | {"rms_norm_eps": 1e-3})
    prints.add(fingerprint())
    assert len(prints) == 4


def test_picture_sizes_come_from_the_models_folder(folders: dict[str, Path], tmp_path: Path) -> None:
    for path in folders["qwen2_5_vl"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    settings = json.loads((tmp_path / "preprocessor_config.json").read_text())
    settings |= {
        "size": {"shortest_edge": 3136, "longest_edge": 50_176},
        "image_mean": [0.5] * 3,
        "image_std": [0.25] * 3,
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    model, format = load(ModelOptions(model=str(tmp_path)))
    assert format.geometry.max_pixels == 50_176
    assert model.vision.rule.std == (0.25, 0.25, 0.25)
    model.close()


def test_neither_the_command_line_nor_the_policy_imports_what_training_images_lack() -> None:
    code = "\n".join(
        [
            "import sys",
            "import specvet.policies.torch, specvet.policies",
            "assert not {'torch', 'transformers', 'peft'} & set(sys.modules)",
            "for name in [n for n in sys.modules if n.startswith('specvet')]: del sys.modules[name]",
            "for name in ('pydantic', 'astropy'): sys.modules[name] = None",
            "import specvet.policies.torch.policy",
        ]
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_ledger_of_another_vocabulary_is_refused(folders: dict[str, Path]) -> None:
    policy = open_policy(ModelOptions(model=str(folders["qwen2_5_vl"])))
    assert isinstance(policy.format.new_ledger(), Ledger)
    with pytest.raises(Exception, match="is not of this model's format"):
        run(lambda: policy.sample(Ledger("qwen2_5_vl", "other"), 1, GREEDY), policy)
