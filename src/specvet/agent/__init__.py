"""The agent: a policy, a tool and a budget make trajectories. In comes a question; out come `TrajectoryRecord`s.

`run_agent` is for policies that measure, `rollout_group`, `Rollouts` and `Engine` for models; `Episode` holds what they
share. What is for models is loaded when it is first used: measuring needs no tokenizer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from specvet.agent.budget import Budget
from specvet.agent.loop import run_agent, task_hash
from specvet.agent.requirements import covered_fraction, missing_requirement

if TYPE_CHECKING:
    from specvet.agent.engine import Engine
    from specvet.agent.rollout import Rollouts, rollout_group

__all__ = [
    "Budget",
    "Engine",
    "Rollouts",
    "covered_fraction",
    "missing_requirement",
    "rollout_group",
    "run_agent",
    "task_hash",
]

_HOME = {"Engine": "engine", "Rollouts": "rollout", "rollout_group": "rollout"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"specvet.agent.{_HOME[name]}"), name)
    raise AttributeError(f"module 'specvet.agent' has no attribute {name!r}")
