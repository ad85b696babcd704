"""Loops take a trainer's results in every shape that an SDK gives them: values, futures, coroutines, and both."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from menu_lab import MenuTrainer
from run_lab import config, demonstrations, grpo_loop, lines, timeless_lines, toy_questions, trained, weights

from specvet.training.config import OptimiserConfig, SftConfig
from specvet.training.trainer import Step

METHODS = ("forward", "forward_backward", "optim_step", "reference", "save_state", "save_sampler", "sampler", "aclose")


def future(value: Any) -> concurrent.futures.Future[Any]:
    """Done later, in a thread, as an SDK's own loop does it."""
    made: concurrent.futures.Future[Any] = concurrent.futures.Future()
    threading.Thread(target=made.set_result, args=(value,)).start()
    return made


async def coroutine(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def coroutine_of_a_future(value: Any) -> concurrent.futures.Future[Any]:
    await asyncio.sleep(0)
    return future(value)


SHAPES: dict[str, Callable[[Any], Any]] = {
    "value": lambda value: value,
    "future": future,
    "coroutine": coroutine,
    "coroutine of a future": coroutine_of_a_future,
}


def finished(made: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that waits for nothing returns."""
    with pytest.raises(StopIteration) as stopped:
        made.send(None)
    return stopped.value.value


def shaped(wrap: Callable[[Any], Any]) -> type[MenuTrainer]:
    """The menu's trainer with all its results in one shape."""

    def method(name: str) -> Callable[..., Any]:
        plain = getattr(MenuTrainer, name)

        def called(self: MenuTrainer, *given: Any) -> Any:
            value = plain(self, *given)
            return wrap(finished(value) if inspect.iscoroutine(value) else value)

        return called

    return type("Shaped", (MenuTrainer,), {name: method(name) for name in METHODS})


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """(a folder with an SFT and a GRPO run, and what each was trained on)."""
    folder = tmp_path_factory.mktemp("plain")
    told, _ = demonstrations(folder / "train.jsonl", "look yes", "no", "yes")
    questions = toy_questions(folder / "toy", 2)
    trained(folder / "sft", SFT, told, told[:1])
    trained(folder / "grpo", GRPO, questions)
    return folder, told, questions


SFT = config(SftConfig(epochs=1, batch=2, optimiser=OptimiserConfig(lr=0.1)))
GRPO = config(grpo_loop(epochs=1, kl=0.1))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_is_the_same_whatever_its_trainers_results_are(
    shape: str, plain: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    folder, told, questions = plain
    made = shaped(SHAPES[shape])
    trained(tmp_path / "sft", SFT, told, told[:1], made=made)
    trained(tmp_path / "grpo", GRPO, questions, made=made)
    for stage in ("sft", "grpo"):
        assert timeless_lines(tmp_path / stage) == timeless_lines(folder / stage)
        assert weights(tmp_path / stage) == weights(folder / stage)
    assert any(line["loss"] is not None for line in lines(tmp_path / "grpo"))


def test_a_step_prints_without_its_arrays():
    step = Step(0.5, (np.zeros(4096, np.float32),), 4096)
    assert repr(step) == "Step(loss=0.5, n_active=4096, entropy=None, notes={})"
