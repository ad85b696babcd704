"""The stages of the model that is given away: the base model on many more demonstrations, GRPO, a folder.

trajectories  demonstrations in bulk                      OUT/trajectories
release       the base model imitates them                OUT/release/sft
release-grpo  and learns from SimVI's questions           OUT/release/grpo
pack          as a folder that can be given away          OUT/nano
"""

from __future__ import annotations

from pathlib import Path

from specvet.training.pipeline.nano import MANNER, Plan, grpo_stage
from specvet.training.pipeline.stages import Stage


def released(plan: Plan) -> list[Stage]:
    """Without demonstrations of its own, the first seed's model is packed."""
    first = plan.seeds[0]
    if not plan.demonstrations:
        return [_pack(plan, plan.out / f"seed-{first}" / "grpo", f"grpo-{first}")]
    folder, demonstrations = plan.out / "release", plan.out / "trajectories"
    file = demonstrations / "trajectories.jsonl"
    templates = ("--templates", plan.templates) if plan.templates else ()
    made = ("data", "trajectories", "--n", str(plan.demonstrations), "--out", str(demonstrations))
    learnt: tuple[str, ...] = ("train", "base", "--data", str(file), "--out", str(folder / "sft"))
    learnt += ("--from", str(plan.out / "base" / "model"), "--seconds", f"{plan.release_seconds:g}", *plan.options())
    return [
        Stage(
            "trajectories",
            (*made, *MANNER, *templates),
            file,
            plan.out,
            alone=True,
            core_minutes=plan.demonstrations * 0.06 / 60,
            disk_mb=plan.demonstrations * 0.02,
            machine=plan.alone(),
        ),
        Stage(
            "release",
            learnt,
            folder / "sft" / "model" / "specvet.json",
            plan.out,
            ("base", "trajectories"),
            alone=True,
            gpu_minutes=plan.release_seconds / 60 + 1,
            disk_mb=60,
            machine=("--device", plan.device, *plan.alone()),
        ),
        grpo_stage(plan, "release-grpo", "release", folder / "sft", folder / "grpo", first),
        _pack(plan, folder / "grpo", "release-grpo"),
    ]


def _pack(plan: Plan, run: Path, needs: str) -> Stage:
    made = plan.out / "nano"
    command = ("models", "pack", str(run), "--name", "nano", "--out", str(made))
    return Stage("pack", command, made / "specvet.json", plan.out, (needs,), disk_mb=25)
