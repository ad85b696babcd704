"""The stages of the model that is given away: the base model on many more demonstrations, as a folder.

trajectories  demonstrations in bulk                      OUT/trajectories
release       the base model imitates them                OUT/release/sft
pack          as a folder that can be given away          OUT/nano
"""

from __future__ import annotations

from pathlib import Path

from specvet.training.pipeline.nano import MANNER, Plan
from specvet.training.pipeline.stages import Stage

ASKED = ("--containers", "all", "--cross", "0.25", "--yes", "0.45", "--seed", "10")
"""How spectra are told in all ways that files are, and members of other classes are among those that are not meant."""
LEARNT = ("--batch", "128", "--lr", "0.001", "--repeats", "1", "--held-out", "256", "--seed", "1")
"""Chosen in results/nano/TRIALS.md."""


def released(plan: Plan) -> list[Stage]:
    """Without demonstrations of its own, the first seed's model is packed."""
    first = plan.seeds[0]
    if not plan.demonstrations:
        return [_pack(plan, plan.out / f"seed-{first}" / "grpo", f"grpo-{first}")]
    folder, demonstrations = plan.out / "release", plan.out / "trajectories"
    file = demonstrations / "trajectories.jsonl"
    templates = ("--templates", plan.templates, "--fold", "none") if plan.templates else ()
    made = ("data", "trajectories", "--n", str(plan.demonstrations), "--out", str(demonstrations))
    learnt: tuple[str, ...] = ("train", "base", "--data", str(file), "--out", str(folder / "sft"))
    learnt += ("--from", str(plan.out / "base" / "model"), "--epochs", str(plan.release_epochs), *LEARNT)
    return [
        Stage(
            "trajectories",
            (*made, *MANNER, *ASKED, *templates),
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
            gpu_minutes=plan.release_epochs * plan.demonstrations / 100_000 + 1,  # 1,400 to 2,100 a second on an H200
            disk_mb=60,
            machine=("--device", plan.device, *plan.alone()),
        ),
        _pack(plan, folder / "sft", "release"),
    ]


def _pack(plan: Plan, run: Path, needs: str) -> Stage:
    made = plan.out / "nano"
    command = ("models", "pack", str(run), "--name", "nano", "--out", str(made))
    return Stage("pack", command, made / "specvet.json", plan.out, (needs,), disk_mb=25)
