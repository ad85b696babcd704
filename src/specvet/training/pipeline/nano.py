"""The stages that make `nano`: from simulated spectra to the table of what each step of training brought.

    simvi           the simulated benchmark, with demonstrations in terse words       OUT/simvi
    base            a model that reads plots and knows no class                       OUT/base
    sft-S           it imitates SimVI's demonstrations              for each seed S   OUT/seed-S/sft
    grpo-S          it learns from rewards on SimVI's questions                       OUT/seed-S/grpo
    whole-data      the demonstrations again, answered from the whole view            OUT/simvi/sft/whole_train.jsonl
    whole-sft-S     a peer that imitates those                                        OUT/seed-S/whole-sft
    whole-grpo-S    and learns from the same questions with one turn                  OUT/seed-S/whole-grpo
    eval-MODEL      each of them on SimVI's val and test questions (`evaluating`)     OUT/eval/MODEL
    results         tables, figures, and what they rest on                            OUT/results
    release, pack   another model, from more demonstrations (`releasing`)             OUT/nano

What the peers lack to the others is what looking closer is worth; the seeds say how much of a gain is luck.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from specvet.data.processes import cores
from specvet.policies.manner import NANO
from specvet.training.config import ConfigError, SftConfig
from specvet.training.pipeline.stages import Stage
from specvet.training.profiles import parse_set, resolve

PROFILE = "nano"
MANNER = ("--voice", "terse", "--wording", NANO.wording, "--style", "compact", "--picture-size", str(NANO.size))
"""How demonstrations are shown and said, as options of `specvet data`."""
SECTIONS = ("base", "sft", "grpo", "model", "method")
OF_SFT = ("sft.epochs", "sft.batch", "sft.lr", "sft.optimiser.lr")
"""Settings that SFT takes: it is run by `train base`, whose processes make its batches."""
SHARED_MICRO_TOKENS = 65_536
"""Some 9 GB of activations of `nano`, of which six runs fit beside each other."""
MOST_ROLLERS = 8
WHOLE_TURNS = "grpo.budget.max_turns=1"

Part = Literal["val", "test"]
Scale = Literal["full", "tiny"]


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
    epochs: int = 3
    """Of GRPO."""
    parts: tuple[Part, ...] = ("val", "test")
    """Of SimVI, that the models are measured on."""
    demonstrations: int = 72_000
    """Of the release; 0 releases the first seed's model instead."""
    release_epochs: int = 4
    """Of those."""
    device: str = "auto"
    workers: int | None = None
    """Processes that simulate or make batches in a stage; None: those that the cores allow."""
    at_once: int = 1
    """Stages at a time, which share the cores."""
    settings: tuple[str, ...] = ()
    """More `--set` for the training stages, as `grpo.lr=1e-5`; each goes to the stage that it names. Of `base` they are
    options: `base.batch=64`."""

    @property
    def share(self) -> float:
        """Of the published size."""
        return {"full": 1.0, "small": 0.1, "tiny": 0.01}[self.size]

    @property
    def stops(self) -> tuple[int, ...]:
        """Epochs of GRPO after which a model is measured."""
        return tuple(sorted({1, self.epochs}))

    def texts(self, *sections: str) -> list[str]:
        """The settings of these sections."""
        return [text for text in self.settings if text.partition(".")[0] in sections]

    def options(self) -> tuple[str, ...]:
        """Those of `base`, as options of `specvet train base`."""
        split = [text.partition(".")[2].partition("=") for text in self.texts("base")]
        return tuple(word for name, _, value in split for word in (f"--{name.replace('_', '-')}", value))

    def sharing(self) -> tuple[str, ...]:
        """Where a stage runs that others may run beside."""
        workers = self.workers or max(1, cores() // self.at_once)
        return ("--device", self.device, "--workers", str(workers))

    @property
    def rollers(self) -> int:
        """Processes that ask one model, beside the other stages: on a GPU a small model answers faster than one process
        can act on. `workers` does not count: it says how many make data."""
        return max(1, min(MOST_ROLLERS, cores() // self.at_once)) if self.device.startswith("cuda") else 1

    def alone(self) -> tuple[str, ...]:
        """How many processes a stage has that nothing runs beside."""
        return ("--workers", str(self.workers)) if self.workers else ()


SCALES: Mapping[Scale, Mapping[str, Any]] = {
    "full": {},
    "tiny": {
        "size": "tiny",
        "seeds": (0, 1),
        "base_seconds": 30.0,
        "epochs": 2,
        "demonstrations": 0,
        "settings": (
            *("base.batch=8", "base.shape=mini", "base.held_out=16", "base.vocabulary_documents=200"),
            *("sft.epochs=80", "sft.batch=4", "sft.lr=5e-3"),
            *("grpo.questions=15", "grpo.group=4", "grpo.lr=1e-3", "grpo.budget.turn_tokens=96"),
        ),
    },
}
"""What a scale sets; `tiny` is a rehearsal of every stage on two cores, whose numbers mean nothing."""


def plan_of(scale: Scale, out: Path, settings: Iterable[str] = (), **given: Any) -> Plan:
    """The plan at that scale, with what is `given` (and not None) in place of what the scale sets; its settings come
    before `settings`, so that the latter stand."""
    told = {**SCALES[scale], **{name: value for name, value in given.items() if value is not None}}
    return Plan(out, **{**told, "settings": (*SCALES[scale].get("settings", ()), *settings)})


@dataclass(frozen=True, slots=True)
class Model:
    """One that is measured."""

    name: str
    folder: Path
    needs: str
    """Name of the stage that makes it."""
    turns: int | None = None
    """As many as it was trained with, where its folder does not say so."""
    gpu_minutes: float = 1.0
    """Of asking it everything, at full size."""


@dataclass(slots=True)
class Trained:
    """The training stages, and the models that come of them."""

    stages: list[Stage] = field(default_factory=list)
    models: dict[str, list[Model]] = field(default_factory=dict)
    """Row of the table → its models, a seed each; one that all seeds share stands there alone."""


def trained(plan: Plan) -> Trained:
    """From nothing to the models of every seed. Raises ConfigError."""
    loop = _checked(plan)
    out, base = plan.out, plan.out / "base"
    templates = ("--templates", plan.templates) if plan.templates else ()
    simvi = ("data", "simvi", "--out", str(out / "simvi"), "--size", plan.size, *MANNER, *templates)
    learnt = ("train", "base", "--out", str(base), "--seconds", f"{plan.base_seconds:g}", *templates, *plan.options())
    demonstrations = out / "simvi" / "sft" / "sft_train.jsonl"
    whole = demonstrations.with_name("whole_train.jsonl")
    at_once = ("data", "at-once", str(demonstrations), "--out", str(whole))
    made = Trained(
        [
            Stage(
                "simvi",
                simvi,
                out / "simvi" / "rl" / "bench_test.jsonl",
                out,
                alone=True,
                core_minutes=20 * plan.share,
                disk_mb=2_600 * plan.share,
                machine=plan.alone(),
            ),
            Stage(
                "base",
                learnt,
                base / "model" / "specvet.json",
                out,
                alone=True,
                gpu_minutes=plan.base_seconds / 60 + 1,
                disk_mb=60,
                machine=("--device", plan.device, *plan.alone()),
            ),
            Stage("whole-data", at_once, whole, out, ("simvi",), disk_mb=1),
        ],
        {"base": [Model("base", base / "model", "base", gpu_minutes=3.0)]},
    )
    folders = [(seed, out / f"seed-{seed}") for seed in plan.seeds]
    last, whole_set = plan.epochs, (WHOLE_TURNS,)
    for seed, folder in folders:
        made.stages.append(_sft(plan, loop, f"sft-{seed}", demonstrations, "simvi", folder / "sft", seed))
        add(made, "SFT", Model(f"sft-{seed}", folder / "sft" / "model", f"sft-{seed}", gpu_minutes=2.0))
    for seed, folder in folders:
        made.stages.append(_sft(plan, loop, f"whole-sft-{seed}", whole, "whole-data", folder / "whole-sft", seed))
    for seed, folder in folders:
        made.stages.append(grpo_stage(plan, f"grpo-{seed}", f"sft-{seed}", folder / "sft", folder / "grpo", seed))
        for epoch in plan.stops:
            name = f"grpo-{seed}-e{epoch}"
            model = Model(name, _sampler(folder / "grpo", epoch), f"grpo-{seed}", gpu_minutes=2.0)
            add(made, f"RL, {epoch} epoch{'s' * (epoch > 1)}", model)
    for seed, folder in folders:
        name, start, run = f"whole-grpo-{seed}", folder / "whole-sft", folder / "whole-grpo"
        made.stages.append(grpo_stage(plan, name, f"whole-sft-{seed}", start, run, seed, whole_set))
        peer = Model(f"whole-sft-{seed}", start / "model", f"whole-sft-{seed}", 1)
        add(made, "whole view only, SFT", peer)
        add(made, f"whole view only, RL, {last} epoch{'s' * (last > 1)}", Model(name, _sampler(run, last), name, 1))
    return made


def add(made: Trained, row: str, model: Model) -> None:
    made.models.setdefault(row, []).append(model)


def _sft(plan: Plan, loop: SftConfig, name: str, data: Path, needs: str, out: Path, seed: int) -> Stage:
    """Imitation, by the loop of base training: the same loss on the same weights, fed by processes of its own."""
    command: tuple[str, ...] = ("train", "base", "--data", str(data), "--from", str(plan.out / "base" / "model"))
    command += ("--out", str(out))
    command += ("--epochs", str(loop.epochs), "--batch", str(loop.batch), "--lr", f"{loop.optimiser.lr:g}")
    command += ("--repeats", "1", "--held-out", "0", "--seed", str(seed))
    return Stage(
        name,
        command,
        out / "model" / "specvet.json",
        plan.out,
        (needs, "base"),
        gpu_minutes=0.05 * loop.epochs * plan.share + 0.4,
        disk_mb=60,
        machine=(*plan.sharing(), "--no-compile"),  # compiling takes as long as it saves
    )


def grpo_stage(
    plan: Plan, name: str, needs: str, start: Path, out: Path, seed: int, more: tuple[str, ...] = ()
) -> Stage:
    """GRPO on SimVI's questions from the run `start`; `more` are settings of its own."""
    questions = plan.out / "simvi" / "rl" / "bench_rl_train.jsonl"
    command: tuple[str, ...] = ("train", "grpo", "--profile", PROFILE, "--from", str(start), "--out", str(out))
    command += ("--data", str(questions), "--epochs", str(plan.epochs), "--seed", str(seed))
    command += tuple(word for text in (*plan.texts("grpo", "model", "method"), *more) for word in ("--set", text))
    minutes = 2.0 if WHOLE_TURNS in more else 5.0
    return Stage(
        name,
        command,
        out / "checkpoints" / f"epoch-{plan.epochs:02d}" / "checkpoint.json",
        plan.out,
        (needs, "simvi"),
        gpu_minutes=minutes * plan.epochs * plan.share + 0.5,
        disk_mb=200 * plan.epochs + 900 * plan.epochs * plan.share,
        machine=("--device", plan.device, *_micro(plan), *_rollers(plan)),
    )


def _rollers(plan: Plan) -> tuple[str, ...]:
    given = any(text.startswith("grpo.processes=") for text in plan.settings)
    return () if given or plan.rollers == 1 else ("--set", f"grpo.processes={plan.rollers}")


def _micro(plan: Plan) -> tuple[str, ...]:
    """Smaller micro-batches where several stages share one GPU's memory."""
    given = any(text.startswith("method.micro_tokens=") for text in plan.settings)
    return () if given or plan.at_once == 1 else ("--set", f"method.micro_tokens={SHARED_MICRO_TOKENS}")


def _sampler(run: Path, epoch: int) -> Path:
    name = f"epoch-{epoch:02d}"
    return run / "checkpoints" / name / f"{name}-sampler"


def _checked(plan: Plan) -> SftConfig:
    """The settings of SFT. Raises ConfigError for those that no stage takes, and that say when GRPO is over."""
    for text in plan.settings:
        section, _, setting = text.partition(".")
        if section not in SECTIONS or "=" not in setting:
            raise ConfigError(f"--set {text}: write it as STAGE.SETTING=VALUE; stages are base, sft and grpo")
        name = text.partition("=")[0].strip()
        if section == "sft" and name not in OF_SFT:
            raise ConfigError(f"--set {text}: of SFT there are {', '.join(OF_SFT)}")
    loop = resolve("sft", PROFILE, dict(parse_set(text) for text in plan.texts("sft"))).loop
    assert isinstance(loop, SftConfig)
    given = dict(parse_set(text) for text in plan.texts("grpo"))
    resolve("grpo", PROFILE, given)
    if odd := [name for name in given if name in ("grpo.epochs", "grpo.max_steps")]:
        raise ConfigError(f"--set {odd[0]}: evaluation needs whole epochs of GRPO; --epochs sets them")
    return loop
