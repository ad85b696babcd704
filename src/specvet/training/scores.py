"""What a recorded trajectory is worth: the reward of `specvet.tasks.rewards`, by the run's own variant and weights.

A record's own `reward` is that of its task's file; a training run chooses for itself, so this reads the turns again,
from the ids that were sampled.
"""

from __future__ import annotations

from specvet.agent.rollout import EARNED
from specvet.chat import ChatFormat, Ledger
from specvet.records.schema import TrajectoryRecord
from specvet.tasks.rewards import Reward, Weights, reward
from specvet.training.config import RewardConfig


def score(
    record: TrajectoryRecord, format: ChatFormat, rule: RewardConfig, ledger: Ledger | None = None
) -> Reward | None:
    """The reward of a trajectory; `ledger` is its own, where it need not be read from the record.

    None where the question has no answer, nothing was sampled, or it ended through no doing of the model's
    (`specvet.agent.rollout.EARNED`): a server that stalls says nothing of a model.
    """
    truth = record.question.answer
    if ledger is None and record.ledger:
        ledger = Ledger.from_dict(record.ledger)
    said = ledger.sampled if ledger is not None else ()
    if truth is None or not said or record.stop not in EARNED:
        return None
    turns = [format.turn_text(turn.ids) for turn in said]
    weights = Weights(rule.correct, rule.bad_format)
    return reward(turns, truth, rule.variant, weights, calls=format.calls, format_ok=well_formed(record))


def well_formed(record: TrajectoryRecord) -> bool:
    """Whether every turn was a call but the last, which was an answer, as the parser read them on the ids."""
    kinds = [turn.action.kind for turn in record.turns]
    return bool(kinds) and kinds[-1] == "answer" and all(kind == "call" for kind in kinds[:-1])
