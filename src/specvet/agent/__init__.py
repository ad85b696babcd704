"""The agent: a policy, a tool and a budget make a trajectory. In comes a question; out comes a `TrajectoryRecord`."""

from specvet.agent.loop import Budget, run_agent, task_hash
from specvet.agent.requirements import covered_fraction, missing_requirement

__all__ = ["Budget", "covered_fraction", "missing_requirement", "run_agent", "task_hash"]
