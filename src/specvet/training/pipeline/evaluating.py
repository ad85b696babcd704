"""The stages that measure what was trained: a campaign for each model, and the table over all of them.

Each model has a campaign of its own, so that many are asked at a time, and one that is late keeps none waiting.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from specvet.training.pipeline.nano import Model, Plan, Trained
from specvet.training.pipeline.stages import Stage

CONCURRENCY = 512
"""Trajectories at a time, for a GPU."""


def measured(plan: Plan, made: Trained) -> list[Stage]:
    """A stage for each model, and `results`."""
    stages = [_asked(plan, model) for models in made.models.values() for model in models]
    return [*stages, _results(plan, made, [stage.name for stage in stages])]


def _asked(plan: Plan, model: Model) -> Stage:
    folder = plan.out / "eval"
    settings: dict[str, Any] = {"temperature": 0.0} | ({"max_turns": model.turns} if model.turns else {})
    campaign = {
        "name": model.name,
        "about": "SIMULATED questions; the likeliest token each time.",
        "sets": {
            f"simvi-{part}": {"path": f"../simvi/rl/bench_{part}.jsonl", "facts": "../simvi/truth.csv"}
            for part in plan.parts
        },
        "policies": {
            model.name: {"policy": "torch", "model": os.path.relpath(model.folder, folder), "settings": settings}
        },
        "comparisons": [],
    }
    file = folder / f"{model.name}.yaml"
    return Stage(
        f"eval-{model.name}",
        ("eval", "run", str(file), "--out", str(folder / model.name)),
        folder / model.name / "metrics.json",
        plan.out,
        (model.needs, "simvi"),
        gpu_minutes=model.gpu_minutes * plan.share * len(plan.parts) / 2 + 0.4,
        disk_mb=150 * plan.share,
        writes={file: _yaml(campaign)},
        machine=(
            *("--device", plan.device, "--concurrency", str(CONCURRENCY)),
            *(("--processes", str(plan.rollers)) if plan.rollers > 1 else ()),
        ),
    )


def _results(plan: Plan, made: Trained, needs: list[str]) -> Stage:
    """What `specvet eval stages` is told: rows, differences, and the runs whose curves are drawn."""
    _, sft, *trained, whole_sft, whole = made.models
    first, last = trained[0], trained[-1]
    pairs = [(sft, "base"), *((row, sft) for row in trained), (last, whole), (sft, whole_sft)]
    seeds = [f"seed-{seed}" for seed in plan.seeds]
    told = {
        "name": "nano",
        "about": "SIMULATED: what each step of training brought, on questions of SimVI that nothing was trained on.",
        "campaigns": "eval",
        "sets": [f"simvi-{part}" for part in plan.parts],
        "seeds": list(plan.seeds),
        "stages": {row: [model.name for model in models] for row, models in made.models.items()},
        "differences": [{"of": of, "over": over} for of, over in pairs],
        "conduct": list(dict.fromkeys((sft, first, last))),
        "runs": {
            "base": ["base"],
            "SFT": [f"{seed}/sft" for seed in seeds],
            "GRPO": [f"{seed}/grpo" for seed in seeds],
            "SFT, whole view only": [f"{seed}/whole-sft" for seed in seeds],
            "GRPO, whole view only": [f"{seed}/whole-grpo" for seed in seeds],
        },
    }
    file, folder = plan.out / "stages.yaml", plan.out / "results"
    return Stage(
        "results",
        ("eval", "stages", str(file), "--out", str(folder)),
        folder / "stages.json",
        plan.out,
        tuple(needs),
        core_minutes=1.0,
        disk_mb=5,
        writes={Path(file): _yaml(told)},
    )


def _yaml(what: dict[str, Any]) -> str:
    return str(yaml.safe_dump(what, sort_keys=False, allow_unicode=True))
