"""Policies: whoever acts next. In comes a `Trajectory`; out comes an `Action`."""

from specvet.policies.base import Action, Answered, Call, Capability, Malformed, Policy, Trajectory, Turn
from specvet.policies.registry import POLICIES, UnknownPolicyError, policy

__all__ = [
    "POLICIES",
    "Action",
    "Answered",
    "Call",
    "Capability",
    "Malformed",
    "Policy",
    "Trajectory",
    "Turn",
    "UnknownPolicyError",
    "policy",
]
