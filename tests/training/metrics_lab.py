"""Lines of metrics as a run writes them, simulated: plausible curves, and the collapses that alarms look for."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Line = dict[str, Any]


def grpo_line(step: int, **changed: Any) -> Line:
    """One quiet step of 8 × 8."""
    line: Line = {
        "kind": "step",
        "step": step,
        "epoch": 1,
        "seconds": 60.0,
        "time": "2026-01-01T00:00:00.000+00:00",
        "update": step,
        "loss": 0.01,
        "lr": 1e-6,
        "grad_norm": 0.4,
        "reward_mean": 0.6,
        "reward_std": 0.45,
        "accuracy": 0.62,
        "format": 0.98,
        "calls_mean": 2.1,
        "zero_call_share": 0.05,
        "turns_mean": 3.1,
        "tokens_mean": 2900.0,
        "sampled_mean": 640.0,
        "groups": 8,
        "groups_equal": 3,
        "groups_refilled": 0,
        "trajectories": 64,
        "trajectories_unrewarded": 0,
        "datums": 40,
        "datums_refused": 0,
        "ratio_mean": 1.0,
        "clip_share": 0.01,
        "drift_mean": 0.012,
        "drift_max": 0.6,
        "kl_reference": None,
        "entropy": 0.4,
        "looping_share": 0.0,
        "stops": {"answered": 62, "turn_length": 2},
        "seconds_rollout": 40.0,
        "seconds_train": 18.0,
        "seconds_save": 0.0,
        "tokens_per_second": 3100.0,
        "trajectories_per_second": 1.07,
        "cost": None,
    }
    return line | changed


def sft_line(step: int, **changed: Any) -> Line:
    line: Line = {
        "kind": "step",
        "step": step,
        "epoch": 1,
        "seconds": 2.0,
        "time": "2026-01-01T00:00:00.000+00:00",
        "loss": 1.0,
        "lr": 2e-5,
        "grad_norm": 1.0,
        "tokens": 11_000,
        "active_tokens": 2_400,
        "images": 12,
        "demonstrations": 4,
        "tokens_per_second": 5500.0,
        "cost": None,
    }
    return line | changed


def sft_run(n: int, seed: int = 0, epochs: int = 2) -> list[Line]:
    """A cold start: the loss falls from 1.6 to 0.35, with a validation at the end of each epoch."""
    rng = np.random.default_rng(seed)
    lines: list[Line] = []
    per_epoch = math.ceil(n / epochs)
    for step in range(1, n + 1):
        u = step / n
        loss = 0.34 + 1.25 * math.exp(-7 * u) - 0.05 * u + 0.05 * rng.standard_normal() * (1 - 0.6 * u)
        warm = min(1.0, step / (0.05 * n))
        lr = 2e-5 * warm * (0.5 + 0.5 * math.cos(math.pi * u))
        tokens = int(rng.normal(11_000, 1_500))
        seconds = tokens / rng.normal(5_400, 250)
        norm = 0.5 + 2.5 * math.exp(-9 * u) + 0.15 * abs(rng.standard_normal())
        at: Line = {"epoch": (step - 1) // per_epoch + 1, "lr": lr, "seconds": round(seconds, 3)}
        rate = round(tokens / seconds, 1)
        lines.append(sft_line(step, loss=loss, grad_norm=norm, tokens=tokens, tokens_per_second=rate, **at))
        if step % per_epoch == 0 or step == n:
            held_out = 0.36 + 1.25 * math.exp(-7 * u)
            head = {"kind": "validation", "step": step, "epoch": at["epoch"], "seconds": 20.0, "time": ""}
            lines.append(head | {"loss": held_out, "active_tokens": 40_000, "demonstrations": 64})
    return lines


def grpo_run(n: int, seed: int = 0, *, speed: float = 1.0, collapse_at: int | None = None) -> list[Line]:
    """Rewards that rise from 0.45 to 0.8 with a dev evaluation every 25 steps; from `collapse_at` the model stops to
    call the tool, then begins to loop, and format and reward follow."""
    rng = np.random.default_rng(seed)
    lines: list[Line] = []
    cost = 0.0
    for step in range(1, n + 1):
        u = 1 - math.exp(-2.2 * speed * step / n)
        gone = 0.0 if collapse_at is None else 1 / (1 + math.exp(-(step - collapse_at) / 2.5))
        late = 0.0 if collapse_at is None else 1 / (1 + math.exp(-(step - collapse_at - 12) / 2.5))
        accuracy = float(np.clip(0.5 + 0.36 * u - 0.3 * late + 0.055 * rng.standard_normal(), 0, 1))
        form = float(np.clip(0.93 + 0.06 * u - 0.45 * late + 0.012 * rng.standard_normal(), 0, 1))
        zero = float(np.clip(0.06 + 0.03 * u + 0.88 * gone + 0.03 * abs(rng.standard_normal()), 0, 1))
        calls = (2.6 - 0.5 * u) * (1 - zero) + 0.05 * rng.standard_normal()
        equal = int(np.clip(rng.binomial(8, 0.25 + 0.35 * u), 0, 8))
        sampled = 620 + 60 * u - 330 * gone + 900 * late + 25 * rng.standard_normal()
        rollout, train = rng.normal(38, 3) - 8 * gone + 25 * late, rng.normal(17, 1)
        save = 6.0 if step % 50 == 0 else 0.0
        seconds = rollout + train + save
        cost += 0.031 + 0.002 * rng.standard_normal()
        cut = rng.binomial(64, 0.02 + 0.4 * late)
        stops = {"answered": 64 - cut - 1, "turn_length": int(cut), "malformed": 1}
        lines.append(
            grpo_line(
                step,
                epoch=1 + (step - 1) * 2 // n,
                seconds=seconds,
                loss=None if equal == 8 else 0.004 * rng.standard_normal(),
                grad_norm=0.35 + 0.05 * abs(rng.standard_normal()) + 2 * late,
                reward_mean=accuracy - 0.2 * (1 - form),
                reward_std=math.sqrt(accuracy * (1 - accuracy)) + 0.02 * rng.random(),
                accuracy=accuracy,
                format=form,
                calls_mean=calls,
                zero_call_share=zero,
                turns_mean=calls + 1,
                tokens_mean=1_500 + 560 * calls + sampled,
                sampled_mean=sampled,
                groups_equal=equal,
                groups_refilled=int(rng.binomial(equal, 0.3)),
                datums=8 * (8 - equal),
                ratio_mean=1 + 0.004 * rng.standard_normal(),
                clip_share=0.012 + 0.006 * rng.random() + 0.1 * late,
                drift_mean=0.013 + 0.002 * rng.random(),
                drift_max=0.5 + 0.4 * rng.random(),
                kl_reference=0.035 * u + 0.002 * rng.random() + 0.3 * late,
                entropy=0.46 - 0.22 * u - 0.16 * gone + 0.015 * rng.standard_normal(),
                looping_share=float(np.clip(0.004 * rng.random() + 0.5 * late, 0, 1)),
                stops=stops,
                seconds_rollout=rollout,
                seconds_train=train,
                seconds_save=save,
                tokens_per_second=180_000 / seconds,
                trajectories_per_second=64 / seconds,
                cost=cost,
            )
        )
        if step % 25 == 0 or step == n:
            right = float(np.clip(0.55 + 0.32 * u - 0.25 * late, 0, 1))
            head = {"kind": "dev", "step": step, "epoch": lines[-1]["epoch"], "seconds": 90.0, "time": ""}
            held_out = {"accuracy": right, "format": min(form + 0.01, 1.0), "reward_mean": right - 0.01}
            lines.append(head | held_out | {"calls_mean": calls, "macro_f1": right - 0.03, "questions": 256})
    return lines


def write_run(folder: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """A folder that holds these lines as its `metrics.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    return folder
