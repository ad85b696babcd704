"""The options of `specvet train sft` and `grpo`, and how they become a `TrainConfig`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from specvet.cli.console import say
from specvet.cli.failure import USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.training.config import TrainConfig

ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME|FILE", help="Whose settings; a name that does not exist lists those that do."
    ),
]
ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Settings of an earlier run (its config.yaml, - for stdin) instead."),
]
Backend = Annotated[
    str | None, typer.Option("--backend", metavar="NAME", help="Who trains: torch (the default), trio or tinker.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RUN|CHECKPOINT|MODEL|ADDRESS",
        help="Weights to begin from: of an earlier run, or of a model folder (as --model).",
    ),
]
Out = Annotated[str | None, typer.Option("--out", metavar="RUN", help="Run folder; by default runs/ and the time.")]
Data = Annotated[
    str | None, typer.Option("--data", metavar="FILE", help="What to learn from; toy makes a simulated set.")
]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="How often the data are gone through.")]
Rate = Annotated[float | None, typer.Option("--lr", metavar="RATE", help="Learning rate.")]
Rank = Annotated[int | None, typer.Option("--rank", metavar="N", help="Of the LoRA adapters.")]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Of data order, sampling and new adapters.")]
SaveEvery = Annotated[
    int | None, typer.Option("--save-every", metavar="N", help="Steps between checkpoints, besides ends of epochs.")
]
Device = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:1, …")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="auto, float32, bfloat16 or float16.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SETTING=VALUE", help="Any setting that --print-config shows, as grpo.clip=[0.8,1.28]."
    ),
]
Tracker = Annotated[
    list[str] | None,
    typer.Option(
        "--tracker", metavar="NAME[:MODE]", help="Also log to swanlab (:online, :local, …), wandb, tensorboard."
    ),
]
PrintConfig = Annotated[
    bool, typer.Option("--print-config", help="Print all settings as YAML, for --config, and do nothing.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count tokens on the data, estimate use and cost, and train nothing.")
]
Assume = Annotated[
    list[str] | None,
    typer.Option("--assume", metavar="NAME=VALUE", help="Of a dry run: turns, sampled, observed, train_rate, …"),
]
Prices = Annotated[
    str | None, typer.Option("--prices", metavar="FILE", help="Prices of your own (YAML), see training/prices.yaml.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")]


def resolved(
    stage: Literal["sft", "grpo"],
    profile: str | None,
    config: str | None,
    backend: str | None,
    start: str | None,
    given: dict[str, Any],
    sets: list[str] | None,
    out: str | None = None,
    quiet: bool = False,
) -> TrainConfig:
    """What a run is told by its profile, or by an earlier run's settings, and by the options that were `given`.

    Reads the profile and the checkpoint that `start` names, and nothing else. A stage that begins from a checkpoint
    trains the model of that checkpoint, unless another is named. Where `out` is a run that goes on, `start` may name
    the run that it began from: the checkpoint stays the one that it was then. Where data are given, a toy set to be
    measured by that nobody has asked for is left out, and that is said.
    """
    from specvet.training.checkpoints import CheckpointError
    from specvet.training.config import ConfigError
    from specvet.training.profiles import parse_set, profile_names, read_config, resolve, resolve_again

    with failing(USAGE, ConfigError, CheckpointError):
        overrides = {name: value for name, value in given.items() if value is not None}
        for text in sets or ():
            name, value = parse_set(text)
            if name in overrides:
                raise ConfigError(f"--set {text}: there is an option for it, which says {overrides[name]}; give one")
            overrides[name] = value
        if (profile is None) == (config is None):
            told = "give one of them" if profile else f"profiles are {', '.join(profile_names())}"
            raise ConfigError(f"--profile or --config: which settings? {told}")
        if start is not None:
            given_start = start
            start, trainer, of_start = _begun(start, out)
            if start is None and overrides.get("model.name", of_start["model.name"]) != of_start["model.name"]:
                raise ConfigError(f"--from {given_start}: is a model, and --model names another; give one of them")
            backend = backend or trainer
            overrides = {k: v for k, v in of_start.items() if not _named(k, overrides)} | overrides
        if config is None:
            assert profile is not None
            made = resolve(stage, profile, overrides, backend=backend, start=start)
            if held := _foreign_toy(made, overrides, profile, quiet):
                made = resolve(stage, profile, overrides | {held: None}, backend=backend, start=start)
            return made
        found = read_config(config, _stdin() if config == "-" else None)
        if found.stage != stage:
            raise ConfigError(f"{config}: holds settings of {found.stage}; use specvet train {found.stage}")
        made = resolve_again(found, overrides, backend=backend, start=start)
        if held := _foreign_toy(made, overrides, config, quiet):
            made = resolve_again(found, overrides | {held: None}, backend=backend, start=start)
        return made


def _foreign_toy(told: TrainConfig, overrides: dict[str, Any], source: str, quiet: bool) -> str | None:
    """The setting that would have a model measured by the toy set while it learns from other data that were given."""
    name = "validation" if told.stage == "sft" else "dev"
    setting, data = f"{told.stage}.{name}", overrides.get(f"{told.stage}.data")
    if data in (None, "toy") or setting in overrides or getattr(told.loop, name) != "toy":
        return None
    if not quiet:
        say(
            f"--data is not the toy set, so that of {source} to be measured by is left out; --{name} FILE names another"
        )
    return setting


_OF_START = {
    "model": ("name", "revision", "format", "tokenizer", "base_url"),
    "method": ("kind", "rank", "alpha", "vision"),
}
"""What a checkpoint decides, since its weights are of no other shape and lie nowhere else."""


def _begun(given: str, out: str | None) -> tuple[str | None, str | None, dict[str, Any]]:
    """The checkpoint (or address) that `--from` names, its files not yet read, who made it, and what it decides.

    A model folder, or a run that made one, is no checkpoint: it is the model that is trained.
    """
    from specvet.training.checkpoints import FILE, SCHEMES, checkpoints, made_model, read_checkpoint, resolve_start

    folder = Path(given)
    if (run := _that_began(given, out)) is not None:
        assert run.start is not None
        return run.start, run.backend, _decided(run.model_dump(include={"model", "method"}))
    if given.startswith(SCHEMES):
        return given, given.partition("://")[0], {}
    if (model := made_model(folder)) is not None:
        return None, None, {"model.name": str(model)}
    if (folder / FILE).is_file():
        found = read_checkpoint(folder, verify=False)
    elif saved := checkpoints(folder):
        found = saved[-1]
    else:
        resolve_start(given)  # says what is wrong
        raise AssertionError
    return str(found.folder), found.trainer.get("name"), _decided(found.trainer)


def _decided(told: dict[str, Any]) -> dict[str, Any]:
    """Settings that a checkpoint decides, by name, of the `model` and `method` that it was made with."""
    found = {
        f"{section}.{name}": told[section][name]
        for section, names in _OF_START.items()
        for name in names
        if name in told.get(section, {})
    }
    if found.get("method.kind") == "full":
        found = {name: value for name, value in found.items() if name not in ("method.rank", "method.alpha")}
    return found


def _that_began(given: str, out: str | None) -> TrainConfig | None:
    """The settings of the run in `out`, where it is there and began from what `given` names."""
    from specvet.training.config import ConfigError
    from specvet.training.identity import start_of_run
    from specvet.training.profiles import read_config

    if out is None or not (Path(out) / "run.db").is_file():
        return None
    with suppress(ConfigError):  # of another kind of run, which opening it will tell
        run = read_config(out)
        return run if start_of_run(given, run.start) else None
    return None


def _named(setting: str, overrides: dict[str, Any]) -> bool:
    """Whether somebody chose this otherwise; another model has neither the revision nor the format of this one."""
    return setting in overrides or (setting.startswith("model.") and "model.name" in overrides)


def _stdin() -> str:
    if sys.stdin.isatty():
        raise CommandError("--config -: nothing is piped in; specvet train … --print-config prints settings", USAGE)
    return sys.stdin.read()
