"""A pipeline: the stages from nothing to a model and its numbers, each one of the program's own commands, run in the
order of what they need, side by side where they can, and not again once they are done."""

from __future__ import annotations

from specvet.training.pipeline.evaluating import measured
from specvet.training.pipeline.nano import Plan, plan_of, trained
from specvet.training.pipeline.releasing import released
from specvet.training.pipeline.stages import Stage, in_order

__all__ = ["Plan", "Stage", "nano_stages", "plan_of"]


def nano_stages(plan: Plan) -> list[Stage]:
    """All stages of `specvet pipeline nano`, in an order in which they can run. Raises ConfigError."""
    made = trained(plan)
    return in_order([*made.stages, *measured(plan, made), *released(plan)])
