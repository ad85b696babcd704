"""What tests of training runs share: tiny configs, a small toy set, and what two equal runs have in common."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from menu_lab import FORMAT, MenuPolicy, MenuTrainer

from specvet.chat import ToolCall
from specvet.data.asking import Questions, load_questions
from specvet.data.demonstrations import Demonstration, Said, SftRow, load_sft, write_demonstrations
from specvet.data.errors import Reject
from specvet.data.toy import make_toy
from specvet.records import RunFolder
from specvet.tools import TOOL_NAME
from specvet.training import checkpoints
from specvet.training.checkpoints import weights_of
from specvet.training.config import (
    BudgetConfig,
    GrpoConfig,
    MethodConfig,
    ModelConfig,
    OptimiserConfig,
    SftConfig,
    TrainConfig,
)
from specvet.training.estimate import Price
from specvet.training.grpo import grpo
from specvet.training.run import TrainingRun, Unwatched
from specvet.training.sft import sft

OF_TIME = ("time", "tokens_per_second", "trajectories_per_second", "cached_tokens", "prefilled_tokens")
"""What of a line differs between equal runs, besides all `seconds…`: times, and what a cache happened to hold."""


def config(loop: SftConfig | GrpoConfig, **more: Any) -> TrainConfig:
    stage = "sft" if isinstance(loop, SftConfig) else "grpo"
    made = {"stage": stage, "profile": "test", "model": ModelConfig(), "method": MethodConfig(), "loop": loop}
    return TrainConfig.model_validate(made | more)


def grpo_loop(**more: Any) -> GrpoConfig:
    made = {
        "style": "compact",
        "epochs": 2,
        "questions": 2,
        "group": 3,
        "optimiser": OptimiserConfig(lr=0.05),
        "budget": BudgetConfig(max_turns=3, turn_tokens=200),
        "save_every": 2,
    }
    return GrpoConfig.model_validate(made | more)


def toy_questions(folder: Path, n: int = 4) -> Questions:
    toy = make_toy(folder, sft_train=2, sft_val=2, rl_train=n, dev=2)
    return load_questions(toy.rl_train, style="compact")


TURNS = {
    "look": Said("assistant", (), "Look.", (ToolCall(TOOL_NAME, {"wavelength_range": [6400, 6700]}),)),
    "yes": Said("assistant", ("<answer>\\boxed{YES} so it seems.</answer>",), "Seen."),
    "no": Said("assistant", ("<answer>\\boxed{NO} so it seems.</answer>",), "Seen."),
}
"""Turns of the menu (`menu_lab.LOOK`, `YES`, `NO`) as demonstrations have them."""


def demonstrations(file: Path, *told: str, max_tokens: int = 16_384) -> tuple[list[SftRow], list[Reject]]:
    """A file of demonstrations, read; each is told by its turns: `look yes`."""
    made = []
    for i, turns in enumerate(told):
        messages = [Said("user", (f"Question {i}?",))]
        for turn in turns.split():
            messages += [TURNS[turn], Said("tool", ("Seen.",))]
        made.append(Demonstration(f"d{i}", tuple(messages[:-1])))
    write_demonstrations(str(file), made)
    return load_sft(str(file), FORMAT, max_tokens)


def lines(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if kind is None or line["kind"] == kind]


def timeless_lines(run: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in x.items() if k not in OF_TIME and not k.startswith("seconds")} for x in lines(run)]


def timeless_trajectories(run: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """By question and sample, without times and what a cache happened to hold."""
    found = {}
    with RunFolder.read(run) as folder:
        for decision in folder.decisions(with_trajectories=True):
            assert decision.trajectory is not None
            record = decision.trajectory.model_dump(mode="json", exclude={"seconds", "started", "tokens"})
            for turn in record["turns"]:
                del turn["seconds"], turn["tokens"]
            found[decision.id, decision.sample] = record
    return found


def receipt(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "receipt.json").read_text()))


class Killed(BaseException):
    """What ends a process without its leave."""


class Fuse:
    """Kills at the `n`th time that `what` happens; counts all that does."""

    def __init__(self, what: str = "", n: int = 0) -> None:
        self.what, self.n = what, n
        self.happened: Counter[str] = Counter()
        self.blown = False

    def __call__(self, name: str) -> None:
        self.check()
        self.happened[name] += 1
        self.blown = name == self.what and self.happened[name] == self.n
        self.check()

    def check(self) -> None:
        """What is dead does nothing more, in no task."""
        if self.blown:
            raise Killed(f"{self.what} {self.n}")

    def after(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            self.check()
            result = function(*given, **named)
            self(name)
            return result

        return called


class Seen(Unwatched):
    """A watch that remembers, and that asks to stop after so many steps."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.lines: list[Mapping[str, Any]] = []
        self.messages: list[str] = []
        self.batches: list[int] = []
        self.trajectories = 0
        self.began: list[int] = []
        self._stop_after = stop_after

    @property
    def stopping(self) -> bool:  # type: ignore[override]
        return self._stop_after is not None and len(self.lines) >= self._stop_after

    def started(self, config: TrainConfig, run: TrainingRun) -> None:
        self.began.append(run.position.step)

    def batch(self, n: int) -> None:
        self.batches.append(n)

    def trajectory(self) -> None:
        self.trajectories += 1

    def step(self, metrics: Mapping[str, Any]) -> None:
        self.lines.append(metrics)

    def message(self, text: str) -> None:
        self.messages.append(text)


async def count_evaluations(policy: MenuPolicy, step: int) -> Mapping[str, float]:
    """A dev evaluation that can be told from another one: what the policy would do."""
    return {"accuracy": float(policy.weights[2]), "questions": 1}


def trained(
    out: Path,
    config: TrainConfig,
    *data: Any,
    fuse: Fuse | None = None,
    watch: Any = None,
    evaluate: Any = None,
    made: Callable[[str | None], MenuTrainer] = MenuTrainer,
    price: Price | None = None,
) -> MenuTrainer:
    """One session of a run with the menu's trainer: from where it stands to its end, or until the fuse blows.

    A blown fuse leaves the run as `kill -9` does: nothing is closed, moved or written any more.
    """
    fuse = fuse or Fuse()
    run = TrainingRun.open(out, config, price)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "log", fuse.after("logged", run.log))
        patched.setattr(run.folder, "record_many", fuse.after("recorded", run.folder.record_many))
        patched.setattr(checkpoints, "_put_in_place", fuse.after("placed", checkpoints._put_in_place))
        trainer = made(weights_of(config, run.checkpoint)["state"])
        trainer.before = fuse
        try:
            if isinstance(config.loop, SftConfig):
                run.reject(data[2] if len(data) > 2 else [])
                asyncio.run(sft(config, trainer, data[0], data[1], run, watch))
            else:
                asyncio.run(grpo(config, trainer, *data, run, watch, evaluate))
        except Killed:
            run.folder._db.close()
            assert run.folder._lock is not None
            run.folder._lock.release()
            raise
        except BaseException as e:
            run.__exit__(type(e), e, None)
            raise
    run.__exit__(None, None, None)
    return trainer


def weights(run: Path) -> dict[str, dict[str, list[float]]]:
    """All numbers of all states that a run saved, by checkpoint."""
    found = {}
    for folder in sorted((run / "checkpoints").iterdir()):
        with np.load(folder / f"{folder.name}-state" / "menu.npz") as kept:
            found[folder.name] = {name: kept[name].tolist() for name in kept.files}
    return found


def assert_same_run(one: Path, other: Path) -> None:
    """Metrics, weights and trajectories, to the last bit."""
    assert timeless_lines(one) == timeless_lines(other)
    assert weights(one) == weights(other)
    assert timeless_trajectories(one) == timeless_trajectories(other)
    assert not [name for name in os.listdir(one / "checkpoints") if name.startswith(".")]
