"""What `metrics.jsonl` holds: its names, their units and meanings; reading it; and a run's figures in short.

One JSON object a line, each with `kind`, `step`, `epoch`, `seconds` and `time`. A killed run may leave half a line at
the end, and a resumed one repeats the steps after its last checkpoint: `read_metrics` gives each step once, as it was
made last.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

Line = dict[str, Any]
"""One line of `metrics.jsonl`."""

KINDS = ("step", "validation", "dev")
"""Of lines: an update of SFT or a rollout step of GRPO; the loss on held-out demonstrations; the answers to held-out
questions."""

FILE = "metrics.jsonl"

METRICS: dict[str, tuple[str, str]] = {
    # of every line
    "step": ("", "updates of SFT, rollout steps of GRPO, counted from 1"),
    "epoch": ("", "passes over the data, counted from 1"),
    "seconds": ("s", "wall time of the step"),
    # of both loops
    "loss": ("nats/token", "mean over the batch's active tokens; of GRPO the policy's, null where no update was made"),
    "lr": ("", "learning rate of the step"),
    "grad_norm": ("", "norm of the gradient before clipping; null where the backend does not tell"),
    "active_tokens": ("tokens", "positions that carried weight"),
    "images": ("", "pictures in what was trained on"),
    "tokens_per_second": ("tokens/s", "positions of the batch by the seconds of the step"),
    # of SFT
    "tokens": ("tokens", "positions of the batch, pictures included"),
    "demonstrations": ("", "demonstrations of the batch, or of the validation set"),
    # of GRPO: what came of the questions
    "update": ("", "optimiser steps so far"),
    "reward_mean": ("", "mean reward of the trajectories that have one"),
    "reward_std": ("", "standard deviation of these rewards"),
    "accuracy": ("share", "trajectories whose answer is right"),
    "format": ("share", "trajectories of good format"),
    "macro_f1": ("", "mean over the tasks of F1"),
    "questions": ("", "questions that were asked"),
    # … how the model behaved
    "calls_mean": ("calls", "tool calls a trajectory"),
    "zero_call_share": ("share", "trajectories that never called the tool"),
    "turns_mean": ("turns", "assistant turns a trajectory"),
    "tokens_mean": ("tokens", "length of a trajectory, observations and pictures included"),
    "sampled_mean": ("tokens", "sampled tokens a trajectory"),
    "looping_share": ("share", "trajectories that repeat the same tokens over and over"),
    "entropy": ("nats", "mean over the sampled positions; null where the backend does not tell"),
    "stops": ("", "trajectories by the reason why they ended"),
    # … what was learnt from
    "groups": ("", "groups of the step, one a question"),
    "groups_equal": ("", "groups whose rewards were all equal: nothing is learnt from them"),
    "groups_refilled": ("", "groups rolled out in place of such"),
    "trajectories": ("", "trajectories of the step"),
    "trajectories_unrewarded": ("", "trajectories without a reward: ended by an error, not by the model"),
    "datums": ("", "trajectories that were trained on"),
    "datums_refused": ("", "trajectories that could not be trained on: too long, or without log-probs"),
    # … how far the policy moved
    "ratio_mean": ("", "mean of exp(log-prob now − log-prob when sampled) over the active tokens"),
    "clip_share": ("share", "active tokens whose ratio lay outside the clip range"),
    "drift_mean": ("nats", "mean |log-prob of the trainer − of the sampler| before the update"),
    "drift_max": ("nats", "the largest such difference"),
    "kl_reference": ("nats", "distance to the weights that the run began from; null when off"),
    # … and what it took
    "prompt_tokens": ("tokens", "tokens of all prompts"),
    "cached_tokens": ("tokens", "of them, those that were not computed again"),
    "prefilled_tokens": ("tokens", "of them, those that were"),
    "sampled_tokens": ("tokens", "tokens that were sampled"),
    "trained_tokens": ("tokens", "positions that were trained on, pictures included"),
    "seconds_rollout": ("s", "in rollouts"),
    "seconds_train": ("s", "in forward, backward and the update"),
    "seconds_save": ("s", "in saving"),
    "trajectories_per_second": ("1/s", "trajectories by the seconds of the step"),
    "cost": ("", "so far, in the currency of the price table; null where the model has no price"),
}
"""Name → (unit, meaning). A share is a number from 0 to 1."""

BETTER: dict[str, Literal["higher", "lower"]] = {
    "reward_mean": "higher",
    "accuracy": "higher",
    "format": "higher",
    "macro_f1": "higher",
    "loss": "lower",
}
"""Names that have a best value. The `loss` of GRPO has none: it is no measure of how good the policy is."""

_LABELS = ("kind", "step", "epoch", "update", "time", "lr")
"""Of a line, what says where it stands and not how it went."""


class MetricsError(ValueError):
    """A path that holds no metrics; the message says what to do."""


def metrics_file(path: str | os.PathLike[str]) -> Path:
    """The `metrics.jsonl` of a run folder, or the file itself. Raises MetricsError where there is none."""
    given = Path(path)
    file = given / FILE if given.is_dir() else given
    if not file.is_file():
        what = f"it holds no {FILE}" if given.is_dir() else "there is no such file or folder"
        raise MetricsError(f"{given}: {what}; give the folder that `specvet train … --out` named")
    return file


def read_metrics(path: str | os.PathLike[str]) -> list[Line]:
    """The lines of a run's `metrics.jsonl` (or of that file) in the order of their steps, each step once.

    A last line that a kill cut short is left out; one in the middle that cannot be read is warned of. NaN becomes None.
    Raises MetricsError where there is no file.
    """
    file = metrics_file(path)
    lines: list[Line] = []
    texts = file.read_bytes().split(b"\n")
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        line = _read(text)
        if line is not None:
            lines.append(line)
        elif number < len(texts):
            warnings.warn(f"{file}:{number}: not a line of metrics; it is left out", stacklevel=2)
    return each_once(lines)


def each_once(lines: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Lines as they were written → each (kind, step) as it was made last, in the order of their steps.

    A `step` line that goes back begins a resumed session, which makes all later steps again: what an earlier session
    wrote of them is over.
    """
    kept: dict[tuple[str, int], Line] = {}
    last = -1
    for line in lines:
        kind, step = str(line["kind"]), int(line["step"])
        if kind == "step":
            if step <= last:
                kept = {key: k for key, k in kept.items() if key[1] <= step}
            last = step
        kept[kind, step] = dict(line)
    return sorted(kept.values(), key=lambda line: (int(line["step"]), KINDS.index(line["kind"])))


def _read(text: bytes) -> Line | None:
    try:
        line = json.loads(text, parse_constant=lambda _: None)
    except ValueError:  # UnicodeDecodeError and JSONDecodeError are such
        return None
    if not isinstance(line, dict) or line.get("kind") not in KINDS:
        return None
    step = line.get("step")
    return line if isinstance(step, int) and not isinstance(step, bool) else None


def numbers(line: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """What of a line is a finite number, nested ones as `stops/answered`."""
    found: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, Mapping):
            found.update(numbers(value, f"{prefix}{name}/"))
        elif isinstance(value, int | float) and math.isfinite(value):
            found[prefix + name] = float(value)
    return found


def stage_of(lines: Iterable[Mapping[str, Any]]) -> Literal["sft", "grpo"] | None:
    """Which loop wrote these lines; None before its first step."""
    for line in lines:
        if line["kind"] == "step":
            return "grpo" if "reward_mean" in line else "sft"
        if line["kind"] == "dev":
            return "grpo"
    return None


class Figures(TypedDict):
    """How one metric went."""

    first: float
    last: float
    best: float | None
    """None where none is better than another."""
    best_step: int | None


class Summary(TypedDict):
    """A run in short."""

    stage: Literal["sft", "grpo"] | None
    steps: int
    """The last step's number; 0 without one."""
    epoch: float
    seconds: float
    """In all steps that stand."""
    metrics: dict[str, Figures]
    """By name; those of `validation` and `dev` lines as `dev/accuracy`."""


def summary(path: str | os.PathLike[str]) -> Summary:
    """First, last and best values of what a run (or `metrics.jsonl`) measured. Raises MetricsError."""
    return summarised(read_metrics(path))


def summarised(lines: Iterable[Mapping[str, Any]]) -> Summary:
    """As `summary`, of lines that were read."""
    lines = list(lines)
    stage = stage_of(lines)
    seen: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        prefix = "" if line["kind"] == "step" else f"{line['kind']}/"
        told = {name: value for name, value in line.items() if name not in _LABELS}
        for name, value in numbers(told).items():
            seen.setdefault(prefix + name, []).append((int(line["step"]), value))
    steps = [line for line in lines if line["kind"] == "step"]
    last = numbers(steps[-1]) if steps else {}
    return Summary(
        stage=stage,
        steps=int(last.get("step", 0)),
        epoch=last.get("epoch", 0.0),
        seconds=math.fsum(numbers(line).get("seconds", 0.0) for line in steps),
        metrics={name: _figures(name, values, stage) for name, values in seen.items()},
    )


def _figures(name: str, values: list[tuple[int, float]], stage: str | None) -> Figures:
    (_, first), (_, last) = values[0], values[-1]
    better = None if name == "loss" and stage == "grpo" else BETTER.get(name.rpartition("/")[2])
    if better is None:
        return Figures(first=first, last=last, best=None, best_step=None)
    # The earliest of equals: what came later did not improve on it.
    step, best = (max if better == "higher" else min)(values, key=lambda v: v[1])
    return Figures(first=first, last=last, best=best, best_step=step)
