"""`specvet train`: cold-start SFT, multi-turn GRPO, plots of both, and specialists to measure them beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli import models, train_base, train_plot, train_specialist
from specvet.cli import train_options as options
from specvet.cli.console import print_json

if TYPE_CHECKING:
    from specvet.training.config import TrainConfig

app = typer.Typer(help="Train a vision-language model to look and zoom.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def sft(
    *,
    profile: options.ProfileName = None,
    config: options.ConfigFile = None,
    backend: options.Backend = None,
    start: options.From = None,
    out: options.Out = None,
    data: options.Data = None,
    validation: Annotated[
        str | None, typer.Option("--validation", metavar="FILE", help="Demonstrations for the loss after each epoch.")
    ] = None,
    model: models.Model = None,
    revision: models.Revision = None,
    format: models.Format = None,
    tokenizer: models.Tokenizer = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    base_url: models.BaseUrl = None,
    epochs: options.Epochs = None,
    batch: Annotated[int | None, typer.Option("--batch", metavar="N", help="Demonstrations an update.")] = None,
    lr: options.Rate = None,
    rank: options.Rank = None,
    seed: options.Seed = None,
    save_every: options.SaveEvery = None,
    set: options.Set = None,
    tracker: options.Tracker = None,
    prices: options.Prices = None,
    assume: options.Assume = None,
    print_config: options.PrintConfig = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Teach a model by demonstrations: whole conversations, of which every assistant turn is learnt.

    The same command goes on where a run stopped. At the end of each epoch weights are saved, to sample with and to
    train on from.

    \b
      specvet train sft --profile tiny --out runs/sft
      specvet train sft --profile qwen3.5-4b-chapter --data sft_train.jsonl --validation sft_val.jsonl --dry-run

    \b
    Exit codes:
      0    trained
      1    training failed, or the backend stopped it
      2    the command is wrong, or model, data or backend cannot be opened
      4    the disk is full, or the run folder cannot be written
      130  interrupted; the same command goes on
    """
    given = _model_settings(model, revision, format, tokenizer, device, dtype, base_url, rank, seed) | {
        "sft.data": data,
        "sft.validation": validation,
        "sft.epochs": epochs,
        "sft.batch": batch,
        "sft.optimiser.lr": lr,
        "sft.save_every": save_every,
    }
    told = options.resolved("sft", profile, config, backend, start, given, set, out, quiet)
    return _act(told, out, tracker, prices, assume, print_config, dry_run, True, json, quiet)


@app.command()
def grpo(
    *,
    profile: options.ProfileName = None,
    config: options.ConfigFile = None,
    backend: options.Backend = None,
    start: options.From = None,
    out: options.Out = None,
    data: options.Data = None,
    dev: Annotated[
        str | None, typer.Option("--dev", metavar="FILE", help="Questions that are asked at each checkpoint.")
    ] = None,
    model: models.Model = None,
    revision: models.Revision = None,
    format: models.Format = None,
    tokenizer: models.Tokenizer = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    base_url: models.BaseUrl = None,
    epochs: options.Epochs = None,
    questions: Annotated[int | None, typer.Option("--questions", metavar="N", help="A rollout batch.")] = None,
    group: Annotated[int | None, typer.Option("--group", metavar="N", help="Trajectories of each question.")] = None,
    lr: options.Rate = None,
    rank: options.Rank = None,
    seed: options.Seed = None,
    save_every: options.SaveEvery = None,
    set: options.Set = None,
    tracker: options.Tracker = None,
    probes: Annotated[
        bool, typer.Option("--probes/--no-probes", help="Check first that pictures reach the model, and more.")
    ] = True,
    prices: options.Prices = None,
    assume: options.Assume = None,
    print_config: options.PrintConfig = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Let a model answer questions in groups, and teach it what set the better answers apart (GRPO).

    Questions are those of `specvet rollout`, with answers. The same command goes on where a run stopped.

    \b
      specvet train grpo --profile tiny --from runs/sft --out runs/grpo
      specvet train grpo --profile qwen3.5-4b-chapter --from runs/sft --data rl_train.jsonl --dev dev.jsonl --dry-run

    \b
    Exit codes:
      0    trained
      1    training failed, the backend stopped it, or a probe failed
      2    the command is wrong, or model, data or backend cannot be opened
      4    the disk is full, or the run folder cannot be written
      130  interrupted; the same command goes on
    """
    given = _model_settings(model, revision, format, tokenizer, device, dtype, base_url, rank, seed) | {
        "grpo.data": data,
        "grpo.dev": dev,
        "grpo.epochs": epochs,
        "grpo.questions": questions,
        "grpo.group": group,
        "grpo.optimiser.lr": lr,
        "grpo.save_every": save_every,
    }
    told = options.resolved("grpo", profile, config, backend, start, given, set, out, quiet)
    return _act(told, out, tracker, prices, assume, print_config, dry_run, probes, json, quiet)


def _model_settings(
    model: str | None,
    revision: str | None,
    format: str | None,
    tokenizer: str | None,
    device: str | None,
    dtype: str | None,
    base_url: str | None,
    rank: int | None,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "model.name": model,
        "model.revision": revision,
        "model.format": format,
        "model.tokenizer": tokenizer,
        "model.device": device,
        "model.dtype": dtype,
        "model.base_url": base_url,
        "method.rank": rank,
        "seed": seed,
    }


def _act(
    config: TrainConfig,
    out: str | None,
    trackers: list[str] | None,
    prices: str | None,
    assume: list[str] | None,
    print_config: bool,
    dry_run: bool,
    probes: bool,
    json: bool,
    quiet: bool,
) -> int:
    """Print, count or train."""
    if print_config:
        from specvet.training.profiles import config_text

        if json:
            print_json(config.model_dump(mode="json"))
        else:
            print(config_text(config), end="")
        return 0
    if dry_run:
        from specvet.cli.train_dry import dry

        return dry(config, prices, assume or [], json, quiet)
    from specvet.cli.train_run import run

    return run(config, out, trackers or [], prices, probes, json, quiet)


app.command()(train_base.base)
app.command()(train_plot.plot)
app.command()(train_specialist.specialist)
