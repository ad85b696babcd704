"""The numbers of a GRPO step for `metrics.jsonl`; `specvet.training.watch.metrics` says what each of them means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from specvet.chat import Datum
from specvet.records.schema import TurnRecord
from specvet.training.batches import Group


def of_rollouts(groups: Sequence[Group], prefilled: int) -> dict[str, Any]:
    """What came of the questions, and how the model behaved.

    Rewards, accuracy and format are over the trajectories that have a reward; calls and turns over those that were
    asked at all. Groups that teach nothing count like all others. The first prompt of a group counts as often as it is
    sent: once for all its branches, or for as many as the policy samples at a time.

    `prefilled` is what the policy says it computed of all prompts. Where some were read back from an earlier session,
    it was not asked for those, and what their records say is taken instead.
    """
    members = [member for group in groups for member in group.members]
    rewards = [m.reward for m in members if m.reward is not None]
    asked = [m.record for m in members if m.record.turns]
    tokens = [r.tokens for r in asked if r.tokens is not None]
    turns = [turn.tokens for group in groups for turn in _prompted(group) if turn.tokens is not None]
    prompt = sum(t.prompt or 0 for t in turns)
    if any(member.read_back for member in members):
        prefilled = prompt - sum(t.cached or 0 for t in turns)
    prefilled = min(prefilled, prompt)
    return {
        "reward_mean": _mean([r.score for r in rewards]),
        "reward_std": float(np.std([r.score for r in rewards])) if rewards else None,
        "accuracy": _mean([r.correct for r in rewards]),
        "format": _mean([r.format_ok for r in rewards]),
        "calls_mean": _mean([r.tool_calls for r in asked]),
        "zero_call_share": _mean([r.tool_calls == 0 for r in asked]),
        "turns_mean": _mean([len(r.turns) for r in asked]),
        "tokens_mean": _mean([t.total for t in tokens]),
        "sampled_mean": _mean([t.sampled for t in tokens]),
        "looping_share": _mean([t.looping > 0 for t in tokens]),
        "stops": dict(sorted(Counter(str(m.record.stop) for m in members).items())),
        "groups": len(groups),
        "groups_equal": sum(g.advantages is None for g in groups),
        "groups_refilled": sum(g.refilled for g in groups),
        "trajectories": len(members),
        "trajectories_unrewarded": len(members) - len(rewards),
        "prompt_tokens": prompt,
        "cached_tokens": prompt - prefilled,
        "prefilled_tokens": prefilled,
        "sampled_tokens": sum(t.sampled for t in tokens),
    }


def of_datums(datums: Sequence[Datum], refused: int) -> dict[str, Any]:
    """What was trained on."""
    return {
        "datums": len(datums),
        "datums_refused": refused,
        "trained_tokens": sum(d.n_tokens for d in datums),
        "active_tokens": sum(d.n_learnt for d in datums),
        "images": sum(len(d.images) for d in datums),
    }


def rates(groups: Sequence[Group], seconds: float) -> dict[str, Any]:
    """Trajectories a second, and their positions; None where some were read back, which takes no time."""
    members = [member for group in groups for member in group.members]
    if any(member.read_back for member in members):
        return {"tokens_per_second": None, "trajectories_per_second": None}
    positions = sum(member.ledger.n_tokens for member in members if member.ledger is not None)
    return {"tokens_per_second": positions / seconds, "trajectories_per_second": len(members) / seconds}


def _prompted(group: Group) -> list[TurnRecord]:
    """The turns of a group that a prompt was sent for."""
    turns = [member.record.turns for member in group.members if member.record.turns]
    return [of[0] for of in turns[: group.first_prompts]] + [turn for of in turns for turn in of[1:]]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
