"""The data that a run's settings name: files, or the toy set, which is made in the run folder when it is first used."""

from __future__ import annotations

from pathlib import Path

from specvet.chat import ChatFormat
from specvet.data.asking import Questions, load_questions
from specvet.data.demonstrations import SftRow, load_sft
from specvet.data.errors import InputError, Reject
from specvet.data.toy import Toy, make_toy
from specvet.records.errors import naming_a_full_disk
from specvet.training.config import ConfigError, GrpoConfig, SftConfig
from specvet.views import check_style, picture_size

TOY = "toy"


def check_named(config: SftConfig | GrpoConfig) -> None:
    """Whether the data are named and there, told before anything is opened. Raises ConfigError, InputError."""
    stage, held = ("sft", config.validation) if isinstance(config, SftConfig) else ("grpo", config.dev)
    if config.data is None:
        what = "learnt" if stage == "sft" else "asked"
        raise ConfigError(f"{stage}.data: what shall be {what}? Give --data FILE, or --data toy for a simulated set")
    if isinstance(config, GrpoConfig):
        try:
            check_style(config.style, picture_size(config.size))
        except ValueError as e:
            raise ConfigError(f"grpo.style: {e}") from None
    for path in (config.data, held):
        if path not in (None, TOY) and not Path(path).is_file():
            raise InputError(f"{path}: no such file")


def uses_toy(config: SftConfig | GrpoConfig) -> bool:
    """Whether any of the data are the toy set."""
    return TOY in (config.data, config.validation if isinstance(config, SftConfig) else config.dev)


def sft_data(
    config: SftConfig, format: ChatFormat, folder: str | Path
) -> tuple[list[SftRow], list[SftRow], list[Reject]]:
    """(training, validation, rejects of both); `folder` is where a toy set is made, in its `data/`.

    Raises ConfigError where no data are named, InputError for files that cannot be used.
    """
    check_named(config)
    assert config.data is not None
    toy = _toy(folder) if uses_toy(config) else None
    train, rejects = load_sft(toy.sft_train if toy and config.data == TOY else config.data, format, config.max_tokens)
    if config.validation is None:
        return train, [], rejects
    held = toy.sft_val if toy and config.validation == TOY else config.validation
    validation, more = load_sft(held, format, config.max_tokens)
    return train, validation, rejects + more


def grpo_data(config: GrpoConfig, folder: str | Path) -> tuple[Questions, Questions | None]:
    """The questions to learn from and those to be measured by; as `sft_data`."""
    check_named(config)
    assert config.data is not None
    toy = _toy(folder) if uses_toy(config) else None

    def load(path: str) -> Questions:
        return load_questions(path, style=config.style, size=picture_size(config.size), title=config.title)

    train = load(toy.rl_train if toy and config.data == TOY else config.data)
    if config.dev is None:
        return train, None
    return train, load(toy.dev if toy and config.dev == TOY else config.dev)


def _toy(folder: str | Path) -> Toy:
    try:
        with naming_a_full_disk(Path(folder) / "data"):
            return make_toy(Path(folder) / "data")
    except FileExistsError as e:
        raise ConfigError(str(e)) from None
