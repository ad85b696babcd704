"""The trainers on the two services when something goes wrong: cut lines, stalls, failures, a loss that is no number."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest
from service_lab import GRADIENT, HERE, KEY, ONE, STEP, Services, demonstrations, learn, ledgers, run

from specvet.chat import Datum, rl_datum
from specvet.training.remote import RemoteTrainer
from specvet.training.trainer import CROSS_ENTROPY, Loss, NotFiniteError, TrainerError


def test_a_line_that_is_cut_takes_nothing_twice(
    there: Services, trainer: RemoteTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = demonstrations(there.format, ONE)
    other = there.open()
    learn(other, batch)
    run(trainer.forward(batch, CROSS_ENTROPY))  # so that the run is there
    for work in (lambda: trainer.forward_backward(batch, CROSS_ENTROPY), lambda: trainer.optim_step(STEP)):
        there.faults.training_drops = 1
        run(work())
        assert there.faults.training_drops == 0
    assert run(trainer.forward(batch, CROSS_ENTROPY)).loss == run(other.forward(batch, CROSS_ENTROPY)).loss
    run(other.aclose())


@pytest.mark.parametrize("method", ["forward_backward", "optim_step"])
def test_a_service_that_goes_away_in_a_step_ends_the_session(there: Services, method: str) -> None:
    trainer = there.open()
    batch = demonstrations(there.format, ONE)
    state = run(trainer.save_state("before", HERE))
    run(trainer.forward_backward(batch, CROSS_ENTROPY))
    there.faults.training_drops, trainer.deadline_s = 1000, 0.5
    with pytest.raises(TrainerError, match=rf"The state {state} is intact: run the same command again"):
        run(trainer.optim_step(STEP) if method == "optim_step" else trainer.forward_backward(batch, CROSS_ENTROPY))
    there.faults.training_drops = 0
    for work in (lambda: trainer.optim_step(STEP), lambda: trainer.save_state("after", HERE)):
        with pytest.raises(TrainerError, match=r"session of training is over.*nobody knows whether.*again"):
            run(work())
    assert not [a for a in there.service.saved if a.endswith("run-a-after")]
    run(trainer.aclose())


def test_a_service_that_stalls_is_given_up(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    there.faults.training_stalls, trainer.deadline_s = True, 0.5
    with pytest.raises(TrainerError, match=r"a gradient took longer than 0\.5 s.*Nothing was saved yet"):
        run(trainer.forward_backward(batch, CROSS_ENTROPY))
    assert trainer.usage.batches == trainer.usage.trained_tokens == 0


def test_validation_that_stalls_does_not_end_the_session(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    run(trainer.forward_backward(batch, CROSS_ENTROPY))
    there.faults.training_stalls, trainer.deadline_s = True, 0.5
    with pytest.raises(TrainerError, match="a forward pass took longer"):
        run(trainer.forward(batch, CROSS_ENTROPY))
    there.faults.training_stalls, trainer.deadline_s = False, 30.0
    assert run(trainer.optim_step(STEP)).grad_norm is not None


def test_work_that_fails_at_the_service_is_told(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    run(trainer.forward_backward(batch, CROSS_ENTROPY))
    there.faults.training_fails = f"worker died holding {KEY}"
    with pytest.raises(TrainerError, match=r"worker died holding.*the service failed") as caught:
        run(trainer.optim_step(STEP))
    assert KEY not in str(caught.value)
    with pytest.raises(TrainerError, match="an optimiser step failed and nobody knows"):
        run(trainer.save_state("after", HERE))


def test_a_passing_failure_is_retried_by_the_sdk(there: Services, trainer: RemoteTrainer) -> None:
    there.faults.training_statuses = [500]
    assert math.isfinite(run(trainer.forward_backward(demonstrations(there.format, ONE), CROSS_ENTROPY)).loss)
    assert there.faults.training_statuses == []


def test_a_loss_that_is_no_number_takes_no_step(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    there.faults.training_loss_factor = math.nan
    with pytest.raises(NotFiniteError, match=r"no step was taken with it, nothing was saved yet: run the same"):
        run(trainer.forward_backward(batch, CROSS_ENTROPY))
    there.faults.training_loss_factor = 1.0
    with pytest.raises(TrainerError, match="a gradient that is no number waits at the service"):
        run(trainer.optim_step(STEP))
    assert there.asked("step") == []


def test_a_gradient_that_is_answered_without_log_probs_ends_the_session(
    there: Services, trainer: RemoteTrainer
) -> None:
    there.faults.training_loses_logprobs = True
    with pytest.raises(TrainerError, match="the service gave no log-probs for a datum"):
        run(trainer.forward_backward(demonstrations(there.format, ONE), CROSS_ENTROPY))
    with pytest.raises(TrainerError, match="session of training is over, since a gradient was answered with something"):
        run(trainer.save_state("after", HERE))


def test_a_service_that_weighs_otherwise_is_noticed(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    fair = run(trainer.forward(batch, CROSS_ENTROPY))
    there.faults.training_loss_factor = 3.0
    for _ in range(2):
        odd = run(trainer.forward(batch, CROSS_ENTROPY))
    assert odd.loss == fair.loss  # computed here
    assert odd.notes["service_loss"] == pytest.approx(3 * fair.loss)
    assert trainer.usage.notes == {"batches_whose_loss_differs": 2}
    assert len(trainer.messages) == 1


def group(there: Services, trainer: RemoteTrainer) -> list[Datum]:
    """Trajectories of 3, 12 and 4 tokens at ratio 1, whose gains and losses nearly cancel, as a group's do."""
    now = run(trainer.forward(demonstrations(there.format), CROSS_ENTROPY)).logprobs
    made = [rl_datum(one, a) for one, a in zip(ledgers(there.format), (1.1, 0.1, -0.9), strict=True)]
    return [replace(datum, logprobs=p) for datum, p in zip(made, now, strict=True)]


@pytest.mark.parametrize("factor", [2.06, -1.0, 0.0])
def test_a_policy_loss_near_0_that_a_service_has_otherwise_is_noticed(
    there: Services, trainer: RemoteTrainer, factor: float
) -> None:
    batch = group(there, trainer)
    fair = run(trainer.forward(batch, Loss("ppo")))
    assert fair.loss == pytest.approx(-(3 * 1.1 + 12 * 0.1 - 4 * 0.9) / 19, abs=1e-5)  # -0.047, each token 0.43
    assert trainer.usage.notes == {}
    there.faults.training_loss_factor = factor
    odd = run(trainer.forward(batch, Loss("ppo")))
    assert odd.notes["service_loss"] == pytest.approx(factor * fair.loss, abs=1e-6)
    assert trainer.usage.notes == {"batches_whose_loss_differs": 1}


def test_a_step_that_is_cancelled_ends_the_session(there: Services, trainer: RemoteTrainer) -> None:
    batch = demonstrations(there.format, ONE)
    run(trainer.forward(batch, CROSS_ENTROPY))  # so that the run is there
    there.faults.training_stalls = True

    async def work() -> None:
        task = asyncio.ensure_future(trainer.forward_backward(batch, CROSS_ENTROPY))
        while not there.service.asked[-1][0].endswith(GRADIENT[there.name]):
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TrainerError, match="a gradient was interrupted"):
            await trainer.save_state("x", HERE)

    run(work())
