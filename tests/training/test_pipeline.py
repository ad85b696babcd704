"""Pipelines: the order of stages, what is done and not done again, and the stages of nano."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from specvet.evaluation.plan import parse_campaign
from specvet.policies.manner import NANO
from specvet.records import RunLockedError, file_hash
from specvet.training.config import ConfigError, GrpoConfig
from specvet.training.pipeline.nano import Plan, nano_stages
from specvet.training.pipeline.running import PipelineFolder, StageError, run_stages
from specvet.training.pipeline.stages import Stage, chosen, in_order
from specvet.training.profiles import resolve

PYTHON = (sys.executable, "-c", "import sys, pathlib; exec(sys.argv[1])")
"""A program whose command is Python."""


def stage(folder: Path, name: str, *needs: str, code: str = "", **more: Any) -> Stage:
    """A stage that writes its name into a file, and a line into `order`."""
    made = folder / name
    write = f"pathlib.Path({str(made)!r}).write_text('{name}'); open({str(folder / 'order')!r}, 'a').write('{name}\\n')"
    return Stage(name, (f"{code}\n{write}",), made, folder, needs, **more)


def ran(folder: Path, *stages: Stage, stop: threading.Event | None = None, at_once: int = 1) -> tuple[bool, list[str]]:
    """Whether all is done, and what was told."""
    heard: list[str] = []
    with PipelineFolder(folder) as pipeline:
        finished = run_stages(
            pipeline,
            stages,
            stop=stop or threading.Event(),
            told=lambda name, line: heard.append(f"{name}: {line}"),
            at_once=at_once,
            program=PYTHON,
        )
    return finished, heard


def order(folder: Path) -> list[str]:
    return (folder / "order").read_text().split()


def test_stages_run_after_those_they_need_and_not_again(tmp_path: Path) -> None:
    stages = [stage(tmp_path, "c", "a", "b"), stage(tmp_path, "b", "a"), stage(tmp_path, "a")]
    assert ran(tmp_path, *in_order(stages))[0]
    assert order(tmp_path) == ["a", "b", "c"]
    finished, heard = ran(tmp_path, *in_order(stages))
    assert finished
    assert heard == []
    kept = json.loads((tmp_path / "pipeline.json").read_text())["stages"]
    assert list(kept) == ["a", "b", "c"]
    assert kept["b"]["sha256"] == file_hash(tmp_path / "b")
    assert shlex.split(kept["a"]["command"])[0] == "specvet"


def test_a_stage_that_is_told_something_else_or_whose_work_is_gone_runs_again(tmp_path: Path) -> None:
    ran(tmp_path, stage(tmp_path, "a"), stage(tmp_path, "b"))
    (tmp_path / "a").unlink()
    ran(tmp_path, stage(tmp_path, "a"), stage(tmp_path, "b", code="pass"))
    assert order(tmp_path) == ["a", "b", "a", "b"]
    ran(tmp_path, stage(tmp_path, "a", writes={tmp_path / "told": "other"}), stage(tmp_path, "b", code="pass"))
    assert order(tmp_path) == ["a", "b", "a", "b", "a"]
    assert (tmp_path / "told").read_text() == "other"


def test_a_stage_that_fails_names_its_log_and_the_same_call_goes_on(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    broken = stage(tmp_path, "b", "a", code=f"print('no flag') if not pathlib.Path({str(flag)!r}).exists() else 0\n"
                   f"sys.exit(3) if not pathlib.Path({str(flag)!r}).exists() else 0")  # fmt: skip
    stages = [stage(tmp_path, "a"), broken, stage(tmp_path, "c", "b")]
    with pytest.raises(StageError, match=r"b ended with exit code 3; see .*logs/b\.log"):
        ran(tmp_path, *stages)
    assert "no flag" in (tmp_path / "logs" / "b.log").read_text()
    assert order(tmp_path) == ["a"]
    flag.touch()
    assert ran(tmp_path, *stages)[0]
    assert order(tmp_path) == ["a", "b", "c"]


def test_a_command_that_ends_well_and_makes_nothing_is_a_failure(tmp_path: Path) -> None:
    idle = Stage("idle", ("print('so')",), tmp_path / "nothing", tmp_path)
    with pytest.raises(StageError, match=r"idle ended without .*nothing"):
        ran(tmp_path, idle)


def meet(folder: Path, mine: str, other: str) -> str:
    """Code that waits until another stage is there too."""
    return (
        f"import time; pathlib.Path({str(folder / ('at-' + mine))!r}).touch()\n"
        f"while not pathlib.Path({str(folder / ('at-' + other))!r}).exists(): time.sleep(0.01)"
    )


def test_stages_run_side_by_side_unless_one_wants_to_be_alone(tmp_path: Path) -> None:
    both = [stage(tmp_path, a, code=meet(tmp_path, a, b)) for a, b in (("x", "y"), ("y", "x"))]
    alone = stage(tmp_path, "z", alone=True)
    finished, heard = ran(tmp_path, *both, alone, at_once=3)
    assert finished
    assert order(tmp_path)[2] == "z"
    begun = [line for line in heard if line.startswith("z: specvet")]
    assert heard.index(begun[0]) > max(i for i, line in enumerate(heard) if ": done" in line and line[0] in "xy")


def test_when_asked_to_stop_a_stage_is_interrupted_once_and_goes_on_later(tmp_path: Path) -> None:
    stop = threading.Event()
    polite = (
        "import signal, time\n"
        f"there = pathlib.Path({str(tmp_path / 'asked')!r})\n"
        "signal.signal(signal.SIGINT, lambda *_: (there.write_text('x' * (1 + len(there.read_text()) "
        "if there.exists() else 1)), sys.exit(130)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(0 if there.exists() else 30)"
    )
    stages = [stage(tmp_path, "a", code=polite), stage(tmp_path, "b", "a")]
    with PipelineFolder(tmp_path) as pipeline:
        finished = run_stages(
            pipeline, stages, stop=stop, told=lambda _, line: stop.set() if line == "ready" else None, program=PYTHON
        )
    assert not finished
    assert (tmp_path / "asked").read_text() == "x"
    assert ran(tmp_path, *stages)[0]
    assert order(tmp_path) == ["a", "b"]


def test_what_is_needed_must_be_done_or_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="b needs a, which is not done"):
        ran(tmp_path, stage(tmp_path, "b", "a"))
    ran(tmp_path, stage(tmp_path, "a"))
    assert ran(tmp_path, stage(tmp_path, "b", "a"))[0]


def test_one_process_at_a_time_and_a_damaged_record_is_named(tmp_path: Path) -> None:
    with PipelineFolder(tmp_path), pytest.raises(RunLockedError):
        PipelineFolder(tmp_path).__enter__()
    (tmp_path / "pipeline.json").write_text("{")
    with pytest.raises(ConfigError, match=r"pipeline\.json: is damaged"):
        ran(tmp_path, stage(tmp_path, "a"))


def test_orders_and_names_that_cannot_be_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the stage a needs b, which never are done"):
        in_order([stage(tmp_path, "a", "b"), stage(tmp_path, "b", "a")])
    with pytest.raises(ConfigError, match="two stages have one name"):
        in_order([stage(tmp_path, "a"), stage(tmp_path, "a")])
    stages = [stage(tmp_path, name) for name in ("sft-0", "sft-1", "eval")]
    assert [s.name for s in chosen(stages, ["sft", "eval"])] == ["sft-0", "sft-1", "eval"]
    assert [s.name for s in chosen(stages, ["sft-1"])] == ["sft-1"]
    with pytest.raises(ConfigError, match="--only grpo: there is no such stage; there are sft, sft-0, sft-1, eval"):
        chosen(stages, ["grpo"])


# --- nano


def test_the_profile_of_nano_asks_as_its_models_are_asked() -> None:
    told = resolve("grpo", "nano")
    loop = told.loop
    assert isinstance(loop, GrpoConfig)
    assert (loop.style, loop.size, loop.wording) == ("compact", NANO.size, NANO.wording)
    budget = loop.budget
    assert (budget.max_turns, budget.turn_tokens, budget.context) == (NANO.max_turns, NANO.turn_tokens, NANO.context)
    assert (told.method.kind, told.method.vision, loop.questions * loop.group) == ("full", "trained", 512)


def test_nano_goes_from_spectra_to_a_packed_model_and_each_seed_its_own_way(tmp_path: Path) -> None:
    stages = {s.name: s for s in nano_stages(Plan(tmp_path, seeds=(0, 5)))}
    assert set(stages) == {
        *("simvi", "base", "sft-0", "grpo-0", "sft-5", "grpo-5", "eval"),
        *("trajectories", "release", "release-grpo", "pack"),
    }
    assert stages["grpo-5"].needs == ("sft-5", "simvi")
    assert stages["sft-5"].command[stages["sft-5"].command.index("--seed") + 1] == "5"
    assert stages["pack"].needs == ("release-grpo",)
    few = {s.name: s for s in nano_stages(Plan(tmp_path, seeds=(3,), demonstrations=0))}
    assert few["pack"].needs == ("grpo-3",)
    assert "trajectories" not in few


def test_a_stage_is_the_same_wherever_the_folder_lies_and_however_it_is_named(tmp_path: Path) -> None:
    here, there = (
        {s.name: s.identity for s in nano_stages(Plan(out))} for out in (Path("runs/nano"), tmp_path / "moved")
    )
    assert here == there


def test_what_follows_a_stage_that_is_told_something_else_is_not_done_either(tmp_path: Path) -> None:
    def told(**more: Any) -> dict[str, str]:
        return {s.name: s.identity for s in nano_stages(Plan(tmp_path, seeds=(0,), **more))}

    usual, others = told(), told(demonstrations=5)
    assert {name for name in usual if usual[name] != others[name]} == {
        "trajectories",
        "release",
        "release-grpo",
        "pack",
    }
    longer = told(settings=("grpo.lr=1e-6",))
    assert {name for name in usual if usual[name] != longer[name]} == {"grpo-0", "eval", "release-grpo", "pack"}


def test_settings_go_to_the_stages_that_they_name(tmp_path: Path) -> None:
    told = ("grpo.lr=1e-5", "sft.epochs=6", "method.vision=frozen", "base.batch=64")
    plan = Plan(tmp_path, seeds=(0,), settings=told)
    stages = {s.name: s.command for s in nano_stages(plan)}
    assert stages["grpo-0"][-4:] == ("--set", "grpo.lr=1e-5", "--set", "method.vision=frozen")
    assert stages["sft-0"][-4:] == ("--set", "sft.epochs=6", "--set", "method.vision=frozen")
    assert stages["base"][-2:] == stages["release"][-2:] == ("--batch", "64")
    with pytest.raises(ConfigError, match=r"--set lr=1: write it as STAGE\.SETTING=VALUE"):
        nano_stages(Plan(tmp_path, settings=("lr=1",)))


def test_how_long_sft_is_decides_which_checkpoint_is_evaluated_and_grpo_has_whole_epochs(tmp_path: Path) -> None:
    stages = {s.name: s for s in nano_stages(Plan(tmp_path, seeds=(0,), epochs=2, settings=("sft.epochs=7",)))}
    assert stages["sft-0"].makes == tmp_path / "seed-0" / "sft" / "checkpoints" / "epoch-07" / "checkpoint.json"
    (text,) = stages["eval"].writes.values()
    assert "../seed-0/sft/checkpoints/epoch-07/epoch-07-sampler" in text
    assert "../seed-0/grpo/checkpoints/epoch-02/epoch-02-sampler" in text
    with pytest.raises(ConfigError, match=r"grpo\.max_steps: evaluation needs whole epochs"):
        nano_stages(Plan(tmp_path, settings=("grpo.max_steps=3",)))
    with pytest.raises(ConfigError, match=r"sft\.epoch: there is no such setting"):
        nano_stages(Plan(tmp_path, settings=("sft.epoch=3",)))


def test_the_campaign_compares_each_model_with_the_one_before_it(tmp_path: Path) -> None:
    told = next(s for s in nano_stages(Plan(tmp_path, seeds=(0, 1))) if s.name == "eval")
    ((file, text),) = told.writes.items()
    campaign = parse_campaign(text, str(file))
    assert list(campaign.policies) == ["base", "sft-0", "grpo-0-e1", "grpo-0-e3", "sft-1", "grpo-1-e1", "grpo-1-e3"]
    assert [(c.of, c.over) for c in campaign.comparisons or ()][:3] == [
        ("sft-0", "base"),
        ("grpo-0-e1", "sft-0"),
        ("grpo-0-e3", "sft-0"),
    ]
    assert campaign.settings.temperature == 0
