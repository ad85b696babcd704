"""Profiles: the published values, what is overridden and how, and every way to write one wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from specvet.training.config import ConfigError, GrpoConfig, SftConfig
from specvet.training.profiles import (
    config_text,
    load_profile,
    parse_set,
    profile_names,
    read_config,
    resolve,
    resolve_again,
)

CHAPTER, PAPER = "qwen3.5-4b-chapter", "spec-o3-7b-paper"


def set_all(*texts: str) -> dict[str, Any]:
    return dict(parse_set(text) for text in texts)


def test_every_profile_loads_for_both_stages_and_says_where_its_numbers_are_from() -> None:
    names = profile_names()
    assert {CHAPTER, "qwen3.5-9b-chapter", "spec-o3-3b-paper", PAPER} <= set(names)
    for name in names:
        profile = load_profile(name)
        assert profile.profile == name
        assert profile.about
        assert profile.source or name in ("tiny", "nano")
        for stage in ("sft", "grpo"):
            told = resolve(stage, name)
            assert isinstance(told.loop, SftConfig if stage == "sft" else GrpoConfig)
            assert (told.profile, told.stage, told.backend) == (name, stage, "torch")


def test_the_chapter_has_the_values_of_its_commands() -> None:
    sft, grpo = resolve("sft", CHAPTER), resolve("grpo", CHAPTER)
    assert (sft.model.name, sft.model.revision) == ("Qwen/Qwen3.5-4B", "851bf6e806efd8d0a36b00ddf55e13ccb7b8cd0a")
    assert (sft.method.kind, sft.method.rank, sft.seed) == ("lora", 32, 42)
    assert isinstance(sft.loop, SftConfig)
    assert (sft.loop.epochs, sft.loop.batch) == (2, 4)
    assert (sft.loop.optimiser.lr, sft.loop.optimiser.schedule) == (2e-5, "constant")
    # PyTRIO 0.2.9's own AdamW, which the chapter leaves as it is.
    adam = sft.loop.optimiser
    assert (adam.beta1, adam.beta2, adam.eps, adam.weight_decay, adam.grad_clip_norm) == (0.9, 0.95, 1e-12, 0.0, 0.0)
    loop = grpo.loop
    assert isinstance(loop, GrpoConfig)
    assert (loop.epochs, loop.questions, loop.group, loop.optimiser.lr, loop.mini_batches) == (1, 8, 8, 1e-6, 1)
    assert (loop.loss, loop.clip, loop.kl, loop.entropy, loop.refill, loop.save_every) == (
        "ppo",
        (0.8, 1.2),
        0,
        0,
        0,
        100,
    )
    assert (loop.budget.max_turns, loop.budget.turn_tokens, loop.budget.context) == (8, 2_048, 16_384)
    assert (loop.temperature, loop.top_p, loop.dev_temperature) == (1.0, 1.0, 0.6)
    assert (loop.reward.variant, loop.reward.correct, loop.reward.bad_format) == ("chapter", 1.0, -0.2)
    nine = resolve("grpo", "qwen3.5-9b-chapter")
    assert (nine.model.name, nine.model.revision, nine.loop.epochs) == ("Qwen/Qwen3.5-9B", None, 3)


def test_the_paper_has_the_values_of_its_public_configuration() -> None:
    sft, grpo = resolve("sft", PAPER), resolve("grpo", PAPER)
    assert (sft.method.kind, sft.method.vision, sft.model.name) == ("full", "frozen", "Qwen/Qwen2.5-VL-7B-Instruct")
    assert isinstance(sft.loop, SftConfig)
    assert (sft.loop.epochs, sft.loop.batch, sft.loop.max_tokens) == (5, 4 * 8, 32_768)
    assert (sft.loop.optimiser.lr, sft.loop.optimiser.schedule, sft.loop.optimiser.warmup) == (2e-5, "cosine", 0.05)
    loop = grpo.loop
    assert isinstance(loop, GrpoConfig)
    assert (loop.epochs, loop.optimiser.lr, loop.questions, loop.group) == (3, 1e-6, 64, 8)
    assert loop.questions // loop.mini_batches == 32  # verl's ppo_mini_batch_size, in questions
    assert loop.budget.context == 2_048 + 32_768
    assert (loop.kl, loop.entropy, loop.reward.variant) == (0, 0, "paper")
    three, seven = (load_profile(f"spec-o3-{size}-paper").model_dump() for size in ("3b", "7b"))
    assert three["model"]["name"] == "Qwen/Qwen2.5-VL-3B-Instruct"
    assert three["sft"] | three["grpo"] == seven["sft"] | seven["grpo"]


def test_settings_are_overridden_by_name_and_typed_by_their_fields() -> None:
    told = resolve("grpo", CHAPTER, set_all("grpo.lr=2e-6", "grpo.clip=[0.8, 1.28]", "method.rank=8", "seed=7"))
    assert isinstance(told.loop, GrpoConfig)
    assert (told.loop.optimiser.lr, told.loop.clip, told.method.rank, told.seed) == (2e-6, (0.8, 1.28), 8, 7)
    assert told.loop.optimiser.eps == 1e-12  # the rest stays
    told = resolve("grpo", CHAPTER, set_all("grpo.max_turns=6", "grpo.dev=none", "model.device=cuda:1"))
    assert isinstance(told.loop, GrpoConfig)
    assert (told.loop.budget.max_turns, told.loop.dev, told.model.device) == (6, None, "cuda:1")
    assert resolve("sft", CHAPTER, {"sft.batch": 2, "model.revision": "abc"}).model.revision == "abc"


def test_another_model_takes_neither_revision_nor_tokenizer_of_the_profiles_own() -> None:
    told = resolve("sft", CHAPTER, {"model.name": "Qwen/Qwen3.5-9B"})
    assert (told.model.name, told.model.revision, told.model.format) == ("Qwen/Qwen3.5-9B", None, "qwen3_5")
    told = resolve("sft", CHAPTER, {"model.name": "mine", "model.tokenizer": "there"})
    assert told.model.tokenizer == "there"
    assert resolve("sft", CHAPTER, {"model.name": "Qwen/Qwen3.5-4B"}).model.revision


@pytest.mark.parametrize(
    ("stage", "text", "says"),
    [
        ("sft", "sft.lrr=1", "sft.lrr: there is no such setting; did you mean sft.optimiser.lr"),
        ("sft", "lr=1", "lr: there is no such setting; did you mean sft.optimiser.lr"),
        ("sft", "modl.name=x", "did you mean model.name? sections are model, method, sft"),
        ("sft", "grpo.lr=1", "grpo.lr: this is a run of sft, which has no settings of grpo"),
        ("sft", "sft.optimiser=1", "sft.optimiser: there is no such setting"),
        ("sft", "sft.lr=fast", "sft.optimiser.lr: must be a valid number, not 'fast'"),
        ("sft", "sft.lr=inf", "sft.optimiser.lr: must be a finite number"),
        ("sft", "sft.batch=4.5", "sft.batch: must be a valid integer, not '4.5'"),
        ("sft", "sft.epochs=0", "sft.epochs: must be greater than or equal to 1, not '0'"),
        ("sft", "seed=-1", "seed: must be greater than or equal to 0"),
        ("sft", "sft.epochs=null", "sft.epochs: must be a valid integer, not None"),
        ("sft", "batch", "--set batch: write it as SETTING=VALUE"),
        ("grpo", "grpo.group=1", "grpo.group: must be greater than or equal to 2"),
        ("grpo", "grpo.loss=pop", "grpo.loss: must be 'importance_sampling', 'ppo' or 'cispo', not 'pop'"),
        ("grpo", "grpo.clip=[1.1, 1.2]", "grpo.clip: [1.1, 1.2] must hold 1, as in [0.8, 1.2]"),
        ("grpo", "grpo.clip=[0.8", "grpo.clip line 1: is no YAML"),
        ("grpo", "grpo.clip=[0.8, 1.2, 2]", "grpo.clip: must have at most 2 items"),
        ("grpo", "grpo.questions=1000000001", "grpo.questions: must be less than or equal to 1000000000"),
        ("sft", f"seed={2**63}", f"seed: must be less than or equal to {2**63 - 1}"),
        ("grpo", "grpo.clip=0.8", "grpo.clip: must be a list, not '0.8'"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_what_to_write(stage: Any, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as e:
        resolve(stage, CHAPTER, set_all(text))
    assert says in str(e.value)


def test_one_setting_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sft\.lr: sft\.optimiser\.lr is set twice"):
        resolve("sft", CHAPTER, {"sft.optimiser.lr": 1, "sft.lr": 2})


def test_a_rank_has_no_place_where_all_weights_are_trained() -> None:
    with pytest.raises(ConfigError, match=r"method\.rank: this run trains all weights"):
        resolve("sft", PAPER, {"method.rank": 8})
    assert resolve("sft", PAPER, {"method.rank": 8, "method.kind": "lora"}).method.rank == 8
    with pytest.raises(ConfigError, match=r"method\.alpha"):
        resolve_again(resolve("sft", PAPER), {"method.alpha": 8})


def test_an_unknown_profile_lists_those_that_there_are_and_the_nearest() -> None:
    with pytest.raises(ConfigError) as e:
        load_profile("qwen3.5-4b-chaptr")
    assert "did you mean 'qwen3.5-4b-chapter'" in str(e.value)
    assert all(name in str(e.value) for name in profile_names())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"modle": {}}, "modle: there is no such setting; did you mean 'model'"),
        ({"sft": {"epoch": 1}}, "sft.epoch: there is no such setting; did you mean 'epochs'"),
        ({"grpo": {"budget": {"turns": 1}}}, "grpo.budget.turns: there is no such setting; did you mean 'max_turns'"),
        ({"sft": {"optimiser": {"lr": "fast"}}}, "sft.optimiser.lr: must be a valid number, not 'fast'"),
        ({"sft": 3}, "sft: must be a valid dictionary or instance of SftConfig, not 3"),
        ({"about": None}, "about: must be a valid string, not None"),
    ],
)
def test_a_profile_of_ones_own_that_is_written_wrongly_names_the_file_and_the_key(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"profile": "mine", "about": "a test"} | change))
    with pytest.raises(ConfigError) as e:
        load_profile(str(file))
    assert str(e.value).startswith(f"{file}: {says}")


def test_a_profile_file_that_is_none_says_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    for text, says in (
        ("a: [1", "line 1: is no YAML"),
        ("", "holds nothing"),
        ("- a", "holds no settings by name"),
        ("about: x", "profile is missing"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=says):
            load_profile(str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read: is no text"):
        load_profile(str(file))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_profile(str(tmp_path / "gone.yaml"))


def test_a_profile_of_ones_own_is_remembered_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("profile: mine\nabout: a test\nsft: {epochs: 9, optimiser: {lr: 1e-3}}\n")
    told = resolve("sft", str(file))
    assert (told.profile, told.loop.epochs, told.loop.optimiser.lr) == (str(file), 9, 1e-3)


@pytest.mark.parametrize("changes", ["schedule=cosine", "schedule=linear", "warmup=0.1"])
def test_a_refill_is_refused_with_a_rate_that_depends_on_the_length(changes: str) -> None:
    with pytest.raises(
        ConfigError, match=r"grpo\.refill: .*set optimiser.schedule to constant and optimiser.warmup to a"
    ):
        resolve("grpo", CHAPTER, set_all("grpo.refill=2", f"grpo.optimiser.{changes}"))
    assert resolve("grpo", CHAPTER, set_all("grpo.refill=2", "grpo.optimiser.warmup=5")).loop.refill == 2
    assert resolve("grpo", CHAPTER, set_all(f"grpo.optimiser.{changes}")).loop.refill == 0


@pytest.mark.parametrize("changes", ["temperature=0.7", "top_p=0.9"])
def test_a_kl_penalty_is_refused_where_tokens_are_not_drawn_from_what_is_recorded(changes: str) -> None:
    with pytest.raises(ConfigError, match=r"grpo\.kl: at temperature .* set both to 1, or kl to 0"):
        resolve("grpo", CHAPTER, set_all("grpo.kl=0.1", f"grpo.{changes}"))
    assert resolve("grpo", CHAPTER, set_all(f"grpo.{changes}")).loop.kl == 0


@pytest.mark.parametrize("stage", ["sft", "grpo"])
@pytest.mark.parametrize("name", profile_names())
def test_what_is_printed_reads_back_as_the_same(stage: Any, name: str) -> None:
    told = resolve(stage, name, {"seed": 3}, backend="trio", start="trio://run/weights/x")
    assert read_config("printed", config_text(told)) == told


def test_a_runs_config_file_repeats_it_and_can_be_changed(tmp_path: Path) -> None:
    told = resolve("grpo", CHAPTER, {"grpo.data": "q.jsonl"}, start="there")
    in_run = {"kind": "train", **told.model_dump(mode="json"), "versions": {"python": "3.11"}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(in_run))
    assert read_config(str(tmp_path)) == read_config(str(tmp_path / "config.yaml")) == told
    again = resolve_again(told, set_all("grpo.lr=3e-6"), backend="trio")
    assert (again.backend, again.start, again.loop.optimiser.lr) == ("trio", "there", 3e-6)
    assert resolve_again(told) == told


def test_a_file_that_is_no_runs_config_says_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for text, says in (
        ("kind: rollout", "is no configuration of a training run"),
        ("grpo: {}", "is a profile; give it as --profile"),
        ("stage: sft", "loop: holds nothing"),
        ("stage: sft\nloop: {epochss: 1}", "loop.epochss: there is no such setting; did you mean 'epochs'"),
        ("stage: sft\nloop: {}", "profile is missing"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=says):
            read_config(str(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "sft: {batch: 2}\ngrpo: {group: 4}\nsft: {epochs: 3}",
            "line 5: the key `sft` stands twice in one place, first in line 3",
        ),
        ("sft:\n  batch: 2\n  batch: 3", "line 5: the key `batch` stands twice in one place, first in line 4"),
        ("sft: {batch: true}", "sft.batch: must be a number, not True"),
        ("grpo: {clip: [true, 1.2]}", "grpo.clip: must be a number, not [True, 1.2]"),
        ("sft: 3", "sft: must be"),
    ],
)
def test_a_key_that_stands_twice_and_a_truth_value_for_a_number_are_refused(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"profile: mine\nabout: x\n{text}\n")
    with pytest.raises(ConfigError) as e:
        load_profile(str(file))
    assert says in str(e.value)


def test_a_rule_of_a_section_names_its_setting_and_not_the_whole_section(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("profile: mine\nabout: x\ngrpo: {clip: [1.1, 1.2], group: 4}\n")
    with pytest.raises(ConfigError) as e:
        load_profile(str(file))
    assert str(e.value) == f"{file}: grpo.clip: [1.1, 1.2] must hold 1, as in [0.8, 1.2]"
