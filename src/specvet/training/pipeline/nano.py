"""The stages that make `nano`: from simulated spectra to a model folder with its manifest.

    simvi         the simulated benchmark, with demonstrations in terse words      OUT/simvi
    trajectories  more demonstrations, for the release alone                       OUT/trajectories
    base          a model that reads plots and knows no class                      OUT/base
    sft-S         it imitates SimVI's demonstrations            for each seed S    OUT/seed-S/sft
    grpo-S        it learns from rewards on SimVI's questions                      OUT/seed-S/grpo
    eval          all of these on SimVI's test questions, with paired differences  OUT/eval
    release       the base model on all demonstrations                             OUT/release/sft
    release-grpo  and on SimVI's questions                                         OUT/release/grpo
    pack          as a folder that can be given away                               OUT/nano

The seeds answer one question, how much of a gain is luck; the release is another model, from more demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from specvet.policies.manner import NANO
from specvet.training.config import ConfigError
from specvet.training.pipeline.stages import Stage, in_order
from specvet.training.profiles import parse_set, resolve

PROFILE = "nano"
MANNER = ("--voice", "terse", "--wording", NANO.wording, "--style", "compact", "--picture-size", str(NANO.size))
"""How demonstrations are shown and said, as options of `specvet data`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the pipeline is told."""

    out: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    size: Literal["full", "small", "tiny"] = "full"
    """Of SimVI."""
    templates: str | None = None
    """Folder of real spectra that seed some of the simulated ones."""
    base_seconds: float = 300.0
    demonstrations: int = 20_000
    """Of the release; 0 releases the first seed's model instead."""
    release_seconds: float = 240.0
    epochs: int = 3
    """Of GRPO."""
    device: str = "auto"
    workers: int | None = None
    settings: tuple[str, ...] = ()
    """More `--set` for the training stages, as `grpo.lr=1e-5`; each goes to the stage that it names. Of `base` they are
    options: `base.batch=64`."""


def nano_stages(plan: Plan) -> list[Stage]:
    """All stages, in an order in which they can run. Raises ConfigError."""
    _checked(plan)
    out, share = plan.out, {"full": 1.0, "small": 0.1, "tiny": 0.01}[plan.size]
    simvi, base = out / "simvi", out / "base"
    templates = ("--templates", plan.templates) if plan.templates else ()
    workers = ("--workers", str(plan.workers)) if plan.workers else ()
    learns = (*templates, *workers, "--device", plan.device, *_base_options(plan))
    stages = [
        Stage(
            "simvi",
            ("data", "simvi", "--out", str(simvi), "--size", plan.size, *MANNER, *templates, *workers),
            simvi / "rl" / "bench_test.jsonl",
            plan.out,
            alone=True,
            core_minutes=20 * share,
            disk_mb=2_600 * share,
        ),
        Stage(
            "base",
            ("train", "base", "--out", str(base), "--seconds", f"{plan.base_seconds:g}", *learns),
            base / "model" / "specvet.json",
            plan.out,
            alone=True,
            gpu_minutes=plan.base_seconds / 60 + 1,
            disk_mb=60,
        ),
    ]
    stages += [stage for seed in plan.seeds for stage in _of_seed(plan, seed, share)]
    stages += [_evaluation(plan, share), *_release(plan, share, templates, workers)]
    return in_order(stages)


def _of_seed(plan: Plan, seed: int, share: float) -> list[Stage]:
    """SFT and GRPO with one seed."""
    folder, demonstrations = plan.out / f"seed-{seed}", plan.out / "simvi" / "sft"
    sft: tuple[str, ...] = (
        "train",
        "sft",
        "--profile",
        PROFILE,
        "--from",
        str(plan.out / "base"),
        "--out",
        str(folder / "sft"),
    )
    sft += ("--data", str(demonstrations / "sft_train.jsonl"), "--validation", str(demonstrations / "sft_val.jsonl"))
    sft += ("--seed", str(seed), "--device", plan.device, *_sets(plan, "sft"))
    return [
        Stage(
            f"sft-{seed}",
            sft,
            _last_checkpoint(folder / "sft", _sft_epochs(plan)),
            plan.out,
            ("simvi", "base"),
            gpu_minutes=0.7 * share + 0.3,
            disk_mb=1_200,
        ),
        _grpo(plan, f"grpo-{seed}", f"sft-{seed}", folder / "sft", folder / "grpo", seed, share),
    ]


def _grpo(plan: Plan, name: str, needs: str, start: Path, out: Path, seed: int, share: float) -> Stage:
    questions = plan.out / "simvi" / "rl"
    command: tuple[str, ...] = ("train", "grpo", "--profile", PROFILE, "--from", str(start), "--out", str(out))
    command += ("--data", str(questions / "bench_rl_train.jsonl"), "--dev", str(questions / "bench_val.jsonl"))
    command += ("--epochs", str(plan.epochs), "--seed", str(seed), "--device", plan.device, *_sets(plan, "grpo"))
    return Stage(
        name,
        command,
        _last_checkpoint(out, plan.epochs),
        plan.out,
        (needs, "simvi"),
        gpu_minutes=(5.0 * plan.epochs + 1.0) * share + 0.5,
        disk_mb=200 * plan.epochs + 900 * plan.epochs * share,
    )


def _last_checkpoint(run: Path, epochs: int) -> Path:
    return run / "checkpoints" / f"epoch-{epochs:02d}" / "checkpoint.json"


def _sampler(run: Path, epoch: int) -> Path:
    name = f"epoch-{epoch:02d}"
    return run / "checkpoints" / name / f"{name}-sampler"


def _sft_epochs(plan: Plan) -> int:
    """After how many epochs SFT is over. Raises ConfigError for settings that are none."""
    return resolve("sft", PROFILE, dict(parse_set(text) for text in _texts(plan, "sft"))).loop.epochs


def _checked(plan: Plan) -> None:
    """Raises ConfigError for settings of GRPO that are none, and for those that say when it is over."""
    given = dict(parse_set(text) for text in _texts(plan, "grpo"))
    loop = resolve("grpo", PROFILE, given).loop
    if odd := [name for name in given if name in ("grpo.epochs", "grpo.max_steps")]:
        raise ConfigError(f"--set {odd[0]}: evaluation needs whole epochs of GRPO ({loop.epochs}); --epochs sets them")


def _sets(plan: Plan, stage: str) -> tuple[str, ...]:
    """The `--set` options of a stage: its own settings, and those of model and method."""
    return tuple(word for text in _texts(plan, stage) for word in ("--set", text))


def _texts(plan: Plan, stage: str) -> list[str]:
    return [text for text in plan.settings if text.partition(".")[0] in (stage, "model", "method")]


def _base_options(plan: Plan) -> tuple[str, ...]:
    """Options of `specvet train base` among the settings. Raises ConfigError."""
    options: list[str] = []
    for text in plan.settings:
        section, _, setting = text.partition(".")
        name, equals, value = setting.partition("=")
        if section not in ("base", "sft", "grpo", "model", "method") or not equals:
            raise ConfigError(f"--set {text}: write it as STAGE.SETTING=VALUE; stages are base, sft and grpo")
        options += [f"--{name.replace('_', '-')}", value] if section == "base" else []
    return tuple(options)


def _evaluation(plan: Plan, share: float) -> Stage:
    """The chapter's table: base, SFT, GRPO after 1 epoch and after all, greedy, each over the one before it."""
    folder = plan.out / "eval"
    policies: dict[str, dict[str, str]] = {"base": {"policy": "torch", "model": str(Path("..", "base", "model"))}}
    comparisons = []
    for seed in plan.seeds:
        run = Path("..", f"seed-{seed}")
        steps = {f"sft-{seed}": _sampler(run / "sft", _sft_epochs(plan))}
        steps |= {f"grpo-{seed}-e{epoch}": _sampler(run / "grpo", epoch) for epoch in sorted({1, plan.epochs})}
        policies |= {name: {"policy": "torch", "model": str(path)} for name, path in steps.items()}
        first, *later = steps
        comparisons += [{"of": first, "over": "base"}, *({"of": name, "over": first} for name in later)]
    campaign: dict[str, Any] = {
        "name": "nano",
        "about": "SIMULATED: base, SFT and GRPO of each seed on SimVI's test questions.",
        "sets": {
            "simvi-test": {"path": str(Path("..", "simvi", "rl", "bench_test.jsonl")), "facts": "../simvi/truth.csv"}
        },
        "policies": policies,
        "seeds": [42],
        "settings": {"temperature": 0.0, "concurrency": 512, "device": plan.device},
        "comparisons": comparisons,
    }
    file = folder / "campaign.yaml"
    return Stage(
        "eval",
        ("eval", "run", str(file), "--out", str(folder / "campaign")),
        folder / "campaign" / "metrics.json",
        plan.out,
        ("base", *(f"grpo-{seed}" for seed in plan.seeds)),
        alone=True,
        gpu_minutes=0.7 * len(policies) * share + 0.3 * len(policies),
        disk_mb=150 * len(policies) * share,
        writes={file: yaml.safe_dump(campaign, sort_keys=False, allow_unicode=True)},
    )


def _release(plan: Plan, share: float, templates: Sequence[str], workers: Sequence[str]) -> list[Stage]:
    """The model that is given away."""
    if not plan.demonstrations:
        run = plan.out / f"seed-{plan.seeds[0]}" / "grpo"
        return [_pack(plan, run, f"grpo-{plan.seeds[0]}")]
    folder, demonstrations = plan.out / "release", plan.out / "trajectories"
    made = ("data", "trajectories", "--n", str(plan.demonstrations), "--out", str(demonstrations))
    learnt: tuple[str, ...] = (
        "train",
        "base",
        "--data",
        str(demonstrations / "trajectories.jsonl"),
        "--out",
        str(folder / "sft"),
    )
    learnt += ("--from", str(plan.out / "base" / "model"), "--seconds", f"{plan.release_seconds:g}")
    return [
        Stage(
            "trajectories",
            (*made, *MANNER, *templates, *workers),
            demonstrations / "trajectories.jsonl",
            plan.out,
            alone=True,
            core_minutes=plan.demonstrations * 0.06 / 60,
            disk_mb=plan.demonstrations * 0.02,
        ),
        Stage(
            "release",
            (*learnt, *workers, "--device", plan.device, *_base_options(plan)),
            folder / "sft" / "model" / "specvet.json",
            plan.out,
            ("base", "trajectories"),
            alone=True,
            gpu_minutes=plan.release_seconds / 60 + 1,
            disk_mb=60,
        ),
        _grpo(plan, "release-grpo", "release", folder / "sft", folder / "grpo", plan.seeds[0], share),
        _pack(plan, folder / "grpo", "release-grpo"),
    ]


def _pack(plan: Plan, run: Path, needs: str) -> Stage:
    made = plan.out / "nano"
    return Stage(
        "pack",
        ("models", "pack", str(run), "--name", "nano", "--out", str(made)),
        made / "specvet.json",
        plan.out,
        (needs,),
        disk_mb=25,
    )
