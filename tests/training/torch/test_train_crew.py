"""A trainer whose rollouts run in other processes; what they say and learn is in `test_torch_loops`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from train_lab import batch, options, run

sys.path.append(str(Path(__file__).parents[2] / "agent"))  # the lab of rollouts: a question, a task, a spectrum

from rollout_lab import QUESTION, Scripted, look, task, turns, zoom
from test_crew import stalled

from specvet.agent.crew import Crew
from specvet.training.torch.sharded import ShardedTrainer
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import TrainerError


def test_weights_stay_as_they_are_while_trajectories_are_under_way() -> None:
    trainer = TorchTrainer.open(options("qwen2_5_vl", None))

    async def work() -> None:
        with Crew(Scripted(turns(look())), stalled, (), 1) as crew:
            trainer._crew = crew
            under_way = asyncio.create_task(crew.rollouts().group(QUESTION, task(), zoom(), 2))
            while not crew.under_way:
                await asyncio.sleep(0)
            with pytest.raises(TrainerError, match="2 trajectories are under way; weights may change between batches"):
                trainer.forward(batch(trainer)[:1])
            under_way.cancel()

    run(work, trainer)


def test_a_sharded_model_samples_in_its_own_processes() -> None:
    with pytest.raises(TrainerError, match=r"set grpo\.processes to 1"):
        ShardedTrainer.open(options(processes=2, rollout_processes=2))
