"""A trainer's rollouts in several processes: they sample with the very weights that are trained, step after step."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from train_lab import batch, options, rollouts, run

sys.path.append(str(Path(__file__).parents[2] / "agent"))  # the lab of rollouts: a question, a task, a spectrum

from rollout_lab import QUESTION, task, zoom

from specvet.agent import Budget
from specvet.agent.crew_rollouts import rollouts_with
from specvet.agent.rollout import all_of
from specvet.chat import Ledger, rl_datum
from specvet.policies.tokens import SamplingParams
from specvet.training.torch import trainer as trainer_module
from specvet.training.torch.sharded import ShardedTrainer
from specvet.training.torch.sharing import CrewPolicy, open_crew
from specvet.training.torch.trainer import TorchTrainer
from specvet.training.trainer import Adam, Loss, TrainerError

BUDGET = Budget(max_turns=2, turn_tokens=6)
QUESTIONS = [QUESTION.model_copy(update={"id": f"q{i}"}) for i in range(4)]


async def rolled_out(trainer: TorchTrainer, seed: int) -> list[Ledger]:
    """Four questions, two trajectories each, as training rolls them out."""
    made: dict[tuple[str, int], Ledger] = {}
    hands = rollouts_with(trainer.sampler(), BUDGET, SamplingParams(6, seed=seed), concurrency=8)

    async def one(question: object) -> None:
        def ended(record: object, ledger: Ledger | None) -> None:
            assert ledger is not None
            made[record.question.id, record.sample] = ledger  # type: ignore[attr-defined]

        await hands.group(question, task(), zoom(size=(224, 168)), 2, ended=ended)  # type: ignore[arg-type]

    try:
        await all_of([one(q) for q in QUESTIONS])
    finally:
        hands.close()
    return [made[key] for key in sorted(made)]


def drift(trainer: TorchTrainer, ledgers: list[Ledger]) -> float:
    """How far the trainer's log-probs are from those of sampling, at most."""
    datums = [rl_datum(ledger, 1.0) for ledger in ledgers]
    step = trainer.forward(datums, Loss("ppo")).result(60)
    return max(float(np.abs(v - d.logprobs)[d.weights > 0].max()) for v, d in zip(step.logprobs, datums, strict=True))


def test_processes_with_copies_of_all_weights_sample_as_one_does_before_a_step_and_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights that are shared, here of a LoRA, sample in a whole run: see `test_torch_loops`."""
    monkeypatch.setattr(trainer_module, "open_crew", partial(open_crew, shared=False))
    alone = TorchTrainer.open(options("qwen2_5_vl", None, vision="trained"))
    several = TorchTrainer.open(options("qwen2_5_vl", None, vision="trained", rollout_processes=2))

    async def work() -> None:
        before: list[Ledger] = []
        for seed in (1, 2):
            ours, theirs = await rolled_out(several, seed), await rolled_out(alone, seed)
            assert [x.ids().tolist() for x in ours] == [x.ids().tolist() for x in theirs]
            for x, y in zip(ours, theirs, strict=True):
                for said, other in zip(x.sampled, y.sampled, strict=True):
                    np.testing.assert_allclose(said.logprobs, other.logprobs, atol=1e-4)
            assert drift(several, ours) < 5e-4
            if before:
                assert drift(several, before) > 0.5  # the step was a large one
            before = ours
            for trainer in (several, alone):
                trainer.forward_backward(rollouts(batch(trainer)), Loss("ppo")).result(60)
                trainer.optim_step(Adam(0.05)).result(60)
        policy = several.sampler()
        assert isinstance(policy, CrewPolicy)
        assert policy.crew is not None
        under_way = asyncio.create_task(rolled_out(several, 3))
        while not policy.crew.under_way:
            await asyncio.sleep(0)
        with pytest.raises(TrainerError, match="are under way; weights may change between batches only"):
            several.forward([rl_datum(before[0], 1.0)])
        await under_way
        await rolled_out(alone, 3)
        assert policy.usage.sampled_tokens == alone.sampler().usage.sampled_tokens

    run(work, alone, several)


def test_a_sharded_model_samples_in_its_own_processes() -> None:
    with pytest.raises(TrainerError, match=r"set grpo\.processes to 1"):
        ShardedTrainer.open(options(processes=2, rollout_processes=2))
