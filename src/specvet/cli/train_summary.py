"""What `specvet train` says at its end: how it went, where the weights are, what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.cli.console import console
from specvet.cli.progress import duration

if TYPE_CHECKING:
    from specvet.records.receipt import Receipt
    from specvet.training.checkpoints import Checkpoint
    from specvet.training.config import GrpoConfig, TrainConfig
    from specvet.training.watch.metrics import Figures

_SHOWN = (
    ("reward_mean", "reward"),
    ("accuracy", "right answers"),
    ("format", "good format"),
    ("calls_mean", "calls a trajectory"),
    ("loss", "loss"),
    ("validation/loss", "validation loss"),
    ("dev/accuracy", "dev: right answers"),
    ("dev/macro_f1", "dev: macro F1"),
    ("dev/format", "dev: good format"),
)
"""Metrics of the table, where there are any."""

NO_UPDATE = (
    "No update was made, and the weights are as they were: all rewards of every group were equal, or no datum could be "
    "made (`groups_equal`, `datums_refused` and `stops` in metrics.jsonl)."
)

_USED = (
    ("prefilled_tokens", "prefilled"),
    ("cached_tokens", "cached"),
    ("sampled_tokens", "sampled"),
    ("trained_tokens", "trained"),
)


def print_training(folder: Path, config: TrainConfig, finished: bool) -> None:
    """Print what the run holds now, sessions before this one included; what to type next, once it is `finished`."""
    from rich import box
    from rich.table import Table

    found = _Found(folder, config)
    out = console()
    out.print()
    model = config.model.name or "a tiny random model"
    how = f"LoRA of rank {config.method.rank}" if config.method.kind == "lora" else "all weights"
    out.print(
        f"{config.stage} of {model} ({how}) on {config.backend}, as {config.profile} says", style="bold", soft_wrap=True
    )
    took = duration(found.seconds) if found.seconds >= 1 else "under 1 s"
    out.print(f"{count_of(found.steps, 'step')} (epoch {found.epoch:g}), {took} in them\n")
    if found.metrics:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for word in ("", "first", "last", "best"):
            table.add_column(word, justify="right" if word else "left", no_wrap=True)
        for name, word in _SHOWN:
            if name in found.metrics:
                table.add_row(word, *_figures(found.metrics[name]))
        out.print(table)
    if not found.updates and found.steps and config.stage == "grpo":
        out.print(f"\n{NO_UPDATE}", style="yellow", soft_wrap=True)
    if found.used:
        told = ", ".join(f"{count_text(n)} {word}" for word, n in found.used.items())
        out.print(f"\nTokens: {told}.", soft_wrap=True)
    if found.cost is not None:
        out.print(f"Cost: {found.cost:,.2f} {found.currency}, by the price table.", soft_wrap=True)
    if found.rejected:
        left = f"{count_of(found.rejected, 'row')} {'was' if found.rejected == 1 else 'were'} left out"
        out.print(f"{left}: {folder / 'rejects.jsonl'}", style="yellow", soft_wrap=True)
    if not found.checkpoints:
        out.print(f"\nNo checkpoint was saved yet; the run is in {folder}.", soft_wrap=True)
        return
    names = [c.name for c in found.checkpoints]
    shown = ", ".join(names if len(names) <= 4 else [*names[:2], "…", *names[-2:]])
    out.print(
        f"\nCheckpoints in {found.checkpoints[-1].folder.parent}: {shown}.{' Next:' if finished else ''}",
        soft_wrap=True,
    )
    for command in found.commands if finished else ():
        out.print(f"  {command}", soft_wrap=True)


def json_training(folder: Path, config: TrainConfig, code: int) -> dict[str, Any]:
    """The one object of `--json`."""
    found = _Found(folder, config)
    last = found.checkpoints[-1] if found.checkpoints else None
    return {
        "run": str(folder),
        "stage": config.stage,
        "profile": config.profile,
        "backend": config.backend,
        "model": config.model.name,
        "steps": found.steps,
        "epoch": found.epoch,
        "updates": last.update if last else 0,
        "metrics": found.metrics,
        "usage": found.usage,
        "cost": found.cost,
        "currency": found.currency,
        "rejected": found.rejected,
        "checkpoints": [c.name for c in found.checkpoints],
        "state": last.where(last.state) if last else None,
        "sampler": last.where(last.sampler) if last else None,
        "next": found.commands,
        "finished": code == 0,
        "exit_code": code,
    }


class _Found:
    """What a run folder says of itself."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        from specvet.records import RunFolder
        from specvet.training.checkpoints import checkpoints
        from specvet.training.run import next_command
        from specvet.training.watch import MetricsError, summary

        with RunFolder.read(folder) as run:
            receipt: Receipt = run.receipt()
        told = receipt.training
        self.checkpoints = checkpoints(folder)
        self.usage = receipt.usage
        self.used = {word: n for name, word in _USED if (n := receipt.usage.get(name))}
        self.cost, self.currency = told.get("cost"), told.get("currency")
        self.updates = int(told.get("update", 0))
        self.rejected = int(told.get("rejected", 0))
        self.metrics: dict[str, Figures] = {}
        self.steps, self.epoch, self.seconds = 0, 0.0, 0.0
        try:
            found = summary(folder)
        except MetricsError:  # stopped before the first step
            pass
        else:
            self.metrics, self.steps, self.epoch = found["metrics"], found["steps"], found["epoch"]
            self.seconds = found["seconds"]
        self.commands: list[str] = []
        if self.checkpoints:
            last = self.checkpoints[-1]
            self.commands = [next_command(config, last), _sampling(config, last)][:: 1 if config.stage == "sft" else -1]
            self.commands.append(shlex.join(["specvet", "train", "plot", str(folder)]))


def _sampling(config: TrainConfig, checkpoint: Checkpoint) -> str:
    """The command that lets the trained model answer; of adapters of a tiny random model, which lies in no folder, the
    one that makes a folder of both."""
    weights, model, run = checkpoint.where(checkpoint.sampler), config.model, checkpoint.folder.parents[1]
    here, whole = config.backend == "torch", config.method.kind == "full"
    if here and not whole and model.name is None:
        merged = ["--adapter", str(checkpoint.folder), "--out", f"{run}-merged"]
        return shlex.join(["specvet", "models", "merge", *merged])
    parts = ["--policy", config.backend]
    if here and whole:  # a folder with all that belongs to the model
        told = {"--model": weights, "--format": model.format}
    else:
        revision = model.revision if here else None
        told = {"--model": model.name, "--adapter": weights, "--revision": revision, "--format": model.format}
        told |= {"--tokenizer": model.tokenizer, "--base-url": model.base_url}
    parts += [part for option, value in told.items() if value for part in (option, value)]
    return rollout_command(parts, run, config)


def rollout_command(model: list[str], run: Path | None, config: TrainConfig | None) -> str:
    """The command with which a model (its options) answers questions as `run` asked its own, or as its profile's
    GRPO would: the same figures, the same budget, and the dev set where there is one."""
    asked = _asking(config) if config else None
    if config is None or asked is None or run is None:
        return shlex.join(["specvet", "rollout", "QUESTIONS", *model])
    dev = run / "data" / "dev.jsonl" if asked.dev == "toy" else Path(asked.dev or "")
    told = {
        "--style": asked.style,
        "--size": asked.size,
        "--wording": asked.wording,
        "--title": asked.title,
        "--temperature": f"{asked.temperature:g}",
        "--top-p": f"{asked.top_p:g}",
        "--max-turns": str(asked.budget.max_turns),
        "--max-malformed": str(asked.budget.max_malformed),
        "--max-tokens": str(asked.budget.turn_tokens),
        "--context": str(asked.budget.context),
        "--max-seconds": f"{asked.budget.max_seconds:g}",
    }
    own = [part for option, value in told.items() if value and value != _ROLLOUT[option] for part in (option, value)]
    return shlex.join(["specvet", "rollout", str(dev) if dev.is_file() else "QUESTIONS", *model, *own])


_ROLLOUT = {
    "--style": "reference",
    "--size": None,
    "--wording": "full",
    "--title": "plain",
    "--temperature": "1",
    "--top-p": "1",
    "--max-turns": "8",
    "--max-malformed": "0",
    "--max-tokens": "2048",
    "--context": "16384",
    "--max-seconds": "600",
}
"""What `specvet rollout` does by itself."""


def _asking(config: TrainConfig) -> GrpoConfig | None:
    """How the run asks; of SFT, how its profile would. None where the profile has gone."""
    from specvet.training.config import ConfigError, GrpoConfig
    from specvet.training.profiles import load_profile

    if isinstance(config.loop, GrpoConfig):
        return config.loop
    try:
        return load_profile(config.profile).grpo
    except ConfigError:
        return None


def count_of(n: int, what: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def count_text(n: float) -> str:
    """`4,096`, `2.31 M`."""
    return f"{n:,.0f}" if n < 1e5 else f"{n / 1e6:,.2f} M"


def _figures(of: Figures) -> tuple[str, str, str]:
    best = "" if of["best"] is None else f"{of['best']:.3f} at step {of['best_step']:,}"
    return f"{of['first']:.3f}", f"{of['last']:.3f}", best
