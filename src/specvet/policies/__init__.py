"""Policies: whoever acts next. In comes a `Trajectory`; out comes an `Action`.

The names below are loaded when they are first used: `specvet.policies.tokens` and `specvet.policies.torch` run in
training images that lack pydantic and astropy, which trajectories need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specvet.policies.base import Action, Answered, Call, Capability, Malformed, Policy, Trajectory, Truncated, Turn
    from specvet.policies.registry import (
        MODELS,
        PACKAGED_MODEL,
        POLICIES,
        SPECIALISTS,
        UnknownPolicyError,
        default_policy,
        open_policy,
        policy,
    )

__all__ = [
    "MODELS",
    "PACKAGED_MODEL",
    "POLICIES",
    "SPECIALISTS",
    "Action",
    "Answered",
    "Call",
    "Capability",
    "Malformed",
    "Policy",
    "Trajectory",
    "Truncated",
    "Turn",
    "UnknownPolicyError",
    "default_policy",
    "open_policy",
    "policy",
]

_REGISTRY = (
    "MODELS",
    "PACKAGED_MODEL",
    "POLICIES",
    "SPECIALISTS",
    "UnknownPolicyError",
    "default_policy",
    "open_policy",
    "policy",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"specvet.policies.{'registry' if name in _REGISTRY else 'base'}"), name)
    raise AttributeError(f"module 'specvet.policies' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
