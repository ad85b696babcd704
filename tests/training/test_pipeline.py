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
from specvet.evaluation.stages import read_stages
from specvet.policies.manner import NANO
from specvet.records import RunLockedError, file_hash
from specvet.training.config import ConfigError, GrpoConfig
from specvet.training.pipeline import Plan, nano, nano_stages, plan_of
from specvet.training.pipeline.running import Limits, PipelineFolder, StageError, run_stages
from specvet.training.pipeline.stages import Stage, chosen, expected_minutes, in_order
from specvet.training.profiles import resolve

PYTHON = (sys.executable, "-c", "import sys, pathlib; exec(sys.argv[1])")
"""A program whose command is Python."""


def stage(folder: Path, name: str, *needs: str, code: str = "", **more: Any) -> Stage:
    """A stage that writes its name into a file, and a line into `order`."""
    made = folder / name
    write = f"pathlib.Path({str(made)!r}).write_text('{name}'); open({str(folder / 'order')!r}, 'a').write('{name}\\n')"
    return Stage(name, (f"{code}\n{write}",), made, folder, needs, **more)


def ran(
    folder: Path, *stages: Stage, stop: threading.Event | None = None, at_once: int = 1, limits: Limits | None = None
) -> tuple[bool, list[str]]:
    """Whether all is done, and what was told."""
    heard: list[str] = []
    with PipelineFolder(folder) as pipeline:
        finished = run_stages(
            pipeline,
            stages,
            stop=stop or threading.Event(),
            told=lambda name, line: heard.append(f"{name}: {line}"),
            at_once=at_once,
            limits=limits or Limits(),
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


def test_what_does_not_need_a_stage_that_failed_runs_all_the_same(tmp_path: Path) -> None:
    broken = stage(tmp_path, "b", "a", code="sys.exit(3)")
    stages = [
        stage(tmp_path, "a"),
        broken,
        stage(tmp_path, "c", "b"),
        stage(tmp_path, "d", "c"),
        stage(tmp_path, "e", "a"),
    ]
    with pytest.raises(StageError, match=r"^b ended with exit code 3; see .*/b\.log$"):
        ran(tmp_path, *stages)
    assert order(tmp_path) == ["a", "e"]


WAITS = "import time; print('ready', flush=True); time.sleep(0 if pathlib.Path({!r}).exists() else 60)"
INTERRUPTED = "import signal; signal.signal(signal.SIGINT, lambda *_: sys.exit(130))"


def test_a_stage_over_its_limit_is_stopped_and_the_others_run(tmp_path: Path) -> None:
    flag = str(tmp_path / "flag")
    stages = [stage(tmp_path, "slow-1", code=f"{INTERRUPTED}\n{WAITS.format(flag)}"), stage(tmp_path, "b")]
    with pytest.raises(StageError, match=r"slow-1 was stopped after its 0\.005 minutes; the same command goes on"):
        ran(tmp_path, *stages, limits=Limits(stages={"slow": 0.005}))
    assert order(tmp_path) == ["b"]
    Path(flag).touch()
    assert ran(tmp_path, *stages)[0]
    assert Limits(stages={"slow": 1.0, "slow-1": 2.0}).of(stages[0]) == 2.0


def test_when_the_minutes_of_a_call_are_over_it_stops_and_the_next_goes_on(tmp_path: Path) -> None:
    flag = str(tmp_path / "flag")
    stages = [stage(tmp_path, "a", code=f"{INTERRUPTED}\n{WAITS.format(flag)}"), stage(tmp_path, "b", "a")]
    finished, heard = ran(tmp_path, *stages, limits=Limits(all=0.005))
    assert not finished
    assert "pipeline: its 0.005 minutes are over" in heard
    assert heard[-1] == "a: stopped"
    Path(flag).touch()
    assert ran(tmp_path, *stages)[0]


def test_how_long_all_takes_is_reckoned_as_stages_run(tmp_path: Path) -> None:
    def takes(name: str, minutes: float, *needs: str, **more: Any) -> Stage:
        return stage(tmp_path, name, *needs, gpu_minutes=minutes, **more)

    stages = [takes("a", 5, alone=True), takes("b", 2, "a"), takes("c", 3, "a"), takes("d", 1, "b", "c")]
    assert expected_minutes(stages, 1) == 11
    assert expected_minutes(stages, 2) == 9
    assert expected_minutes(stages[1:], 2) == 4


def test_where_a_stage_runs_makes_it_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nano, "cores", lambda: 16)
    here, there = (
        {s.name: (s.identity, s.line) for s in nano_stages(Plan(tmp_path, device=device, workers=n, at_once=n))}
        for device, n in (("cpu", 1), ("cuda:1", 4))
    )
    assert {name: of[0] for name, of in here.items()} == {name: of[0] for name, of in there.items()}
    assert "method.micro_tokens=65536" in there["grpo-0"][1]
    assert "method.micro_tokens=65536" not in here["grpo-0"][1]
    assert "grpo.processes=4" in there["grpo-0"][1]
    assert "grpo.processes=4" not in here["grpo-0"][1]
    assert there["eval-sft-0"][1][-2:] == ("--processes", "4")
    assert there["sft-0"][1][-5:] == ("--device", "cuda:1", "--workers", "4", "--no-compile")


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
    of_seeds = {f"{kind}-{seed}" for kind in ("sft", "grpo", "whole-sft", "whole-grpo") for seed in (0, 5)}
    asked = {"base", *(f"{kind}-{seed}" for kind in ("sft", "whole-sft", "whole-grpo") for seed in (0, 5))}
    asked |= {f"grpo-{seed}-e{epoch}" for seed in (0, 5) for epoch in (1, 3)}
    once = {"simvi", "base", "whole-data", "results", "trajectories", "release", "pack"}
    assert set(stages) == once | of_seeds | {f"eval-{model}" for model in asked}
    assert set(stages["results"].needs) == {f"eval-{model}" for model in asked}
    assert stages["grpo-5"].needs == ("sft-5", "simvi")
    assert stages["sft-5"].command[stages["sft-5"].command.index("--seed") + 1] == "5"
    assert stages["pack"].needs == ("release",)
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
    assert {name for name in usual if usual[name] != others[name]} == {"trajectories", "release", "pack"}
    longer = told(settings=("grpo.lr=1e-6",))
    assert {name for name in usual if usual[name] != longer[name]} == {
        *("grpo-0", "eval-grpo-0-e1", "eval-grpo-0-e3", "whole-grpo-0", "eval-whole-grpo-0", "results"),
    }


def test_settings_go_to_the_stages_that_they_name(tmp_path: Path) -> None:
    told = ("grpo.lr=1e-5", "sft.epochs=6", "sft.lr=5e-4", "method.vision=frozen", "base.batch=64")
    plan = Plan(tmp_path, seeds=(0,), settings=told)
    stages = {s.name: s.command for s in nano_stages(plan)}
    assert stages["grpo-0"][-4:] == ("--set", "grpo.lr=1e-5", "--set", "method.vision=frozen")
    assert stages["whole-grpo-0"][-2:] == ("--set", "grpo.budget.max_turns=1")
    for name in ("sft-0", "whole-sft-0"):
        at = stages[name].index("--epochs")
        assert stages[name][at : at + 6] == ("--epochs", "6", "--batch", "32", "--lr", "0.0005")
    assert stages["base"][-2:] == ("--batch", "64")
    assert "64" not in stages["release"]
    for wrong, says in (
        ("lr=1", r"--set lr=1: write it as STAGE\.SETTING=VALUE"),
        ("sft.kl=1", r"--set sft\.kl=1: of SFT there are sft\.epochs"),
        ("sft.lr=0", r"sft\.optimiser\.lr"),
        ("grpo.max_steps=3", r"grpo\.max_steps: evaluation needs whole epochs"),
    ):
        with pytest.raises(ConfigError, match=says):
            nano_stages(Plan(tmp_path, settings=(wrong,)))


def test_a_scale_sets_what_is_not_given(tmp_path: Path) -> None:
    tiny = plan_of("tiny", tmp_path, ("grpo.group=2",), seeds=(7,), base_seconds=None)
    assert (tiny.size, tiny.seeds, tiny.epochs, tiny.demonstrations) == ("tiny", (7,), 2, 0)
    assert tiny.settings.index("grpo.group=4") < tiny.settings.index("grpo.group=2")
    assert plan_of("full", tmp_path, epochs=1) == Plan(tmp_path, epochs=1)
    told = {s.name: s.command for s in nano_stages(tiny)}
    assert told["base"][-6:] == ("--shape", "mini", "--held-out", "16", "--vocabulary-documents", "200")
    assert set(told) >= {"eval-grpo-7-e1", "eval-grpo-7-e2", "results", "pack"}


def test_each_model_has_a_campaign_on_val_and_test_as_it_was_trained_to_be_asked(tmp_path: Path) -> None:
    stages = {s.name: s for s in nano_stages(Plan(tmp_path, seeds=(0, 1), epochs=2))}
    ((file, text),) = stages["eval-grpo-1-e2"].writes.items()
    campaign = parse_campaign(text, str(file))
    assert list(campaign.sets) == ["simvi-val", "simvi-test"]
    assert campaign.policies["grpo-1-e2"].model == "../seed-1/grpo/checkpoints/epoch-02/epoch-02-sampler"
    assert campaign.policies["grpo-1-e2"].settings == {"temperature": 0.0}
    assert campaign.pairs() == []
    ((file, text),) = stages["eval-whole-grpo-1"].writes.items()
    assert parse_campaign(text, str(file)).policies["whole-grpo-1"].settings["max_turns"] == 1
    assert stages["eval-sft-0"].needs == ("sft-0", "simvi")
    val = {s.name: s for s in nano_stages(Plan(tmp_path, seeds=(0,), parts=("val",)))}
    assert next(iter(val["eval-base"].writes.values())).count("bench_") == 1


def test_the_table_compares_each_stage_with_the_one_before_it_and_with_its_peer(tmp_path: Path) -> None:
    told = next(s for s in nano_stages(Plan(tmp_path, seeds=(0, 1))) if s.name == "results")
    ((file, text),) = told.writes.items()
    file.write_text(text)
    plan = read_stages(file)
    assert plan.stages["RL, 3 epochs"] == ("grpo-0-e3", "grpo-1-e3")
    assert [(c.of, c.over) for c in plan.differences] == [
        ("SFT", "base"),
        ("RL, 1 epoch", "SFT"),
        ("RL, 3 epochs", "SFT"),
        ("RL, 3 epochs", "whole view only, RL, 3 epochs"),
        ("SFT", "whole view only, SFT"),
    ]
    assert plan.runs["GRPO"] == ("seed-0/grpo", "seed-1/grpo")
    one = next(s for s in nano_stages(Plan(tmp_path, epochs=1)) if s.name == "results")
    assert "RL, 1 epoch" in next(iter(one.writes.values()))
