"""Dry runs: what is counted equals what training would see, and what is assumed is said and used."""

from __future__ import annotations

from pathlib import Path

import pytest

from specvet.agent.opening import conversation
from specvet.chat import Image, chat_format
from specvet.chat.tiny import tiny_vocabulary, write_tiny
from specvet.data.asking import Questions, load_questions
from specvet.data.toy import Toy, make_toy
from specvet.training.config import (
    BudgetConfig,
    ConfigError,
    GrpoConfig,
    MethodConfig,
    ModelConfig,
    SftConfig,
    TrainConfig,
)
from specvet.training.dry import Assumptions, Lengths, assumptions, dry_grpo, dry_sft
from specvet.training.estimate import Price
from specvet.training.inputs import check_named, grpo_data, sft_data
from specvet.training.opening import chat_format_of, model_options, trainer_options

FORMAT = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
PRICE = Price(backend="b", model="m", currency="USD", prefill=1.0, sample=4.0, train=3.0, source="me", date="2026-09")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy") / "data", sft_train=6, sft_val=2, rl_train=6, dev=2)


@pytest.fixture(scope="module")
def questions(toy: Toy) -> Questions:
    return load_questions(toy.rl_train, style="compact")


def test_sft_counts_what_its_datums_hold(toy: Toy, tmp_path: Path) -> None:
    config = SftConfig(data=toy.sft_train, validation=toy.sft_val, epochs=3, batch=4)
    train, validation, rejects = sft_data(config, FORMAT, tmp_path)
    told = dry_sft(config, train, rejects, validation, PRICE, Assumptions(train_rate=100.0))
    datums = [row.datum() for row in train]
    total = sum(d.n_tokens for d in datums)
    assert (told.demonstrations.n, told.demonstrations.total) == (6, total)
    assert told.demonstrations.longest == max(d.n_tokens for d in datums)
    assert told.active_tokens == sum(d.n_learnt for d in datums)
    assert told.images == sum(len(d.images) for d in datums) == 12
    assert (told.steps_per_epoch, told.steps) == (2, 6)
    assert told.validation is not None
    assert told.validation.n == 2
    assert told.estimate.usage == {"trained_tokens": 3 * total}
    assert told.estimate.cost == pytest.approx(3 * total / 1e6 * 3.0)
    assert told.estimate.seconds == pytest.approx(3 * total / 100)
    assert told.estimate.priced == "me (2026-09)"
    assert told.as_dict()["demonstrations"]["total"] == total


def test_sft_lists_what_is_too_long_and_prices_nothing_without_a_price(toy: Toy, tmp_path: Path) -> None:
    config = SftConfig(data=toy.sft_train)
    train, _, _ = sft_data(config, FORMAT, tmp_path)
    lengths = sorted({row.n_tokens for row in train})
    cut = config.model_copy(update={"max_tokens": lengths[-1]})
    assert sft_data(cut, FORMAT, tmp_path)[2] == []
    demonstrations = Path(toy.sft_train).read_text().splitlines()
    longer = Path(toy.folder / "longer.jsonl")
    longer.write_text("\n".join([*demonstrations[:2], demonstrations[2].replace("Look closer.", "Look closer. " * 40)]))
    train, _, rejects = sft_data(cut.model_copy(update={"data": str(longer)}), FORMAT, tmp_path)
    told = dry_sft(cut, train, rejects)
    assert told.demonstrations.n == 2
    assert [(r.where, r.n_tokens is not None and r.n_tokens > lengths[-1]) for r in told.rejects] == [
        (f"{longer} line 3", True)
    ]
    assert (told.estimate.cost, told.estimate.cost_range, told.estimate.currency, told.estimate.seconds) == (None,) * 4
    assert told.as_dict()["rejects"][0]["where"] == f"{longer} line 3"


def test_grpo_counts_the_first_prompts_and_multiplies_what_was_assumed(questions: Questions) -> None:
    config = GrpoConfig(
        style="compact", epochs=2, questions=4, group=3, save_every=1, budget=BudgetConfig(max_turns=3, context=4_096)
    )
    assumed = Assumptions(turns=3, sampled=10, observed=100, trained=0.5, train_rate=1e3, sample_rate=10.0)
    told = dry_grpo(config, questions, FORMAT, dev=2, price=PRICE, assumed=assumed)
    lengths = []
    for asked in questions.asked:  # the first prompt as a rollout makes it
        posed = questions.pose(asked)
        opening = posed.tool.opening()
        assert opening.view is not None
        said = conversation(posed.question, posed.task, posed.tool, opening, Image.of(opening.view.png), 3)
        ledger = FORMAT.new_ledger()
        ledger.append(FORMAT.opening(said.messages, said.tools))
        lengths.append(ledger.n_tokens)
    assert told.openings == Lengths.of(lengths)
    assert told.by_task == {"toy": 6}
    assert (told.too_long, told.rejects, told.not_asked) == ([], [], 0)
    assert (told.steps_per_epoch, told.steps, told.trajectories) == (2, 4, 6 * 3 * 2)
    assert told.dev_trajectories == 2 * (1 + 4)
    first = told.openings.mean
    # Prompts before turns 2 and 3: the first one, and what was said and shown since.
    later = 2 * first + (10 + 100) + 2 * (10 + 100)
    whole = first + 3 * 10 + 2 * 100 - 1
    used = told.estimate.usage
    assert used["prompt_tokens"] == used["prefilled_tokens"] == round(36 * (first / 3 + later) + 10 * (first + later))
    assert used["sampled_tokens"] == (36 + 10) * 30
    assert used["trained_tokens"] == round(36 * whole * 0.5)
    assert told.trajectory == round(whole)
    assert told.estimate.cost == pytest.approx(
        (used["prefilled_tokens"] * 1.0 + used["sampled_tokens"] * 4.0 + used["trained_tokens"] * 3.0) / 1e6
    )
    assert told.estimate.seconds == pytest.approx(used["trained_tokens"] / 1e3 + used["sampled_tokens"] / 10.0)


def test_grpo_takes_from_the_budget_and_the_data_what_was_not_said(questions: Questions) -> None:
    config = GrpoConfig(
        style="compact",
        questions=4,
        group=2,
        max_steps=1,
        budget=BudgetConfig(max_turns=3, turn_tokens=48, context=1_024),
    )
    told = dry_grpo(config, questions, FORMAT, assumed=Assumptions(cached=0.25))
    assert (told.assumed.turns, told.assumed.sampled) == (3, 48)
    assert told.assumed.observed is not None
    # A zoom of the compact style is 308 x 224 pixels: 88 tokens of Qwen2.5-VL, and the published sentence around it.
    assert 88 + 20 < told.assumed.observed < 88 + 200
    assert (told.steps, told.trajectories, told.dev_trajectories) == (1, 8, 0)
    assert len(told.too_long) == 6  # the first prompt alone has more than 1,024 tokens of the tiny vocabulary
    assert told.too_long[0].n_tokens == told.openings.longest
    used = told.estimate.usage
    assert used["cached_tokens"] == pytest.approx(used["prompt_tokens"] / 4, abs=1)
    assert told.estimate.seconds is None
    wide = GrpoConfig(budget=BudgetConfig(max_turns=8, turn_tokens=2_048))
    told = dry_grpo(wide, questions, FORMAT, assumed=Assumptions(observed=0))
    assert (told.assumed.turns, told.assumed.sampled, told.assumed.observed) == (5.4, 200, 0)


def test_the_published_style_is_drawn_in_other_processes_and_counts_what_it_draws(toy: Toy) -> None:
    counted: list[int] = []
    asked = load_questions(toy.rl_train)
    told = dry_grpo(GrpoConfig(), asked, FORMAT, assumed=Assumptions(observed=0), processes=1, counted=counted.append)
    assert counted == [1, 2, 3, 4, 5, 6]
    opening = asked.pose(asked.asked[0]).tool.opening()
    assert opening.view is not None
    image = Image.of(opening.view.png)
    small = dry_grpo(
        GrpoConfig(), load_questions(toy.rl_train, style="compact"), FORMAT, assumed=Assumptions(observed=0)
    )
    more = FORMAT.geometry.n_tokens(image.width, image.height) - FORMAT.geometry.n_tokens(448, 280)
    assert told.openings.median - small.openings.median == more


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("turn=5", "--assume turn: there is no such setting; did you mean 'turns'"),
        ("turns=0", "--assume turns: must be greater than or equal to 1"),
        ("turns", "--assume turns: write it as NAME=VALUE"),
        ("cached=2", "--assume cached: must be less than or equal to 1"),
    ],
)
def test_an_assumption_that_cannot_be_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as e:
        assumptions([text])
    assert says in str(e.value)
    assert assumptions(["turns=5", "train_rate = 1e3"]) == Assumptions(turns=5, train_rate=1e3)


def test_lengths_are_of_the_sorted_middle_and_of_19_in_20() -> None:
    assert Lengths.of([3]) == Lengths(1, 3, 3.0, 3, 3, 3)
    assert Lengths.of([*range(100, 0, -1)]) == Lengths(100, 5050, 50.5, 50, 95, 100)


def test_data_that_are_not_named_or_not_there_are_told_first(toy: Toy, tmp_path: Path) -> None:
    for config, says in (
        (SftConfig(), "sft.data: what shall be learnt\\? Give --data FILE"),
        (GrpoConfig(), "grpo.data: what shall be asked\\? Give --data FILE"),
        (SftConfig(data=str(tmp_path / "gone.jsonl")), "gone.jsonl: no such file"),
        (GrpoConfig(data="toy", dev=str(tmp_path / "gone.jsonl")), "gone.jsonl: no such file"),
    ):
        with pytest.raises(ValueError, match=says):
            check_named(config)
    with pytest.raises(ConfigError, match=r"grpo\.style: "):
        grpo_data(GrpoConfig(data=toy.rl_train, style="nice"), tmp_path)


def test_the_chat_format_needs_a_tokenizer_and_no_weights(tmp_path: Path) -> None:
    def config(**model: object) -> TrainConfig:
        told = {
            "stage": "sft",
            "profile": "p",
            "model": ModelConfig(**model),
            "method": MethodConfig(),
            "loop": SftConfig(),
        }  # type: ignore[arg-type]
        return TrainConfig.model_validate(told)

    write_tiny("qwen3_5", tmp_path / "qwen3_5")
    (tmp_path / "qwen3_5" / "config.json").write_text('{"model_type": "qwen3_5"}')
    format = chat_format_of(config(name=str(tmp_path / "qwen3_5")))
    assert (format.name, format.geometry.patch) == ("qwen3_5", 16)
    assert chat_format_of(config(format="qwen3_vl")).name == "qwen3_vl"
    assert chat_format_of(config()).name == "qwen2_5_vl"
    settings = tmp_path / "qwen3_5" / "preprocessor_config.json"
    settings.write_text('{"patch_size": 14, "merge_size": 2, "min_pixels": 784, "max_pixels": 78400}')
    assert chat_format_of(config(name=str(tmp_path / "qwen3_5"))).geometry.max_pixels == 78_400
    settings.write_text('{"patch_size": "x"}')
    with pytest.raises(ConfigError, match=r"preprocessor_config\.json: these are no settings of an image processor"):
        chat_format_of(config(name=str(tmp_path / "qwen3_5")))
    with pytest.raises(RuntimeError, match="needs the tokenizer of 'nobody/has-it'"):
        chat_format_of(config(name="nobody/has-it", format="qwen3_5"))


def test_a_config_becomes_what_opens_its_trainer() -> None:
    loop = GrpoConfig(concurrency=7, budget=BudgetConfig(context=999))
    made = {
        "stage": "grpo",
        "profile": "p",
        "model": ModelConfig(name="m", device="cpu"),
        "method": MethodConfig(rank=8),
    }
    config = TrainConfig.model_validate(made | {"loop": loop, "seed": 5})
    options = trainer_options(config, state="there", reference_state="before", with_optimizer=True, name="run")
    assert (options.state, options.reference_state, options.with_optimizer) == ("there", "before", True)
    assert options.lora is not None
    assert (options.lora.rank, options.seed, options.branches, options.name) == (8, 5, 7, "run")
    model = options.model
    assert (model.model, model.device, model.branches, model.context, model.adapter) == ("m", "cpu", 7, 999, None)
    full = config.model_copy(update={"method": MethodConfig(kind="full"), "loop": SftConfig(max_tokens=55)})
    assert trainer_options(full).lora is None
    assert (model_options(full).branches, model_options(full).context) == (1, 55)
