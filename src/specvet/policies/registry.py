"""Policies by the name people give on the command line."""

from __future__ import annotations

import difflib

from specvet.policies.base import Policy

POLICIES = {"line-indices": "measures lines and bands in the task's windows; transparent, no model, no download"}
"""Name → what it is, for lists and help."""


class UnknownPolicyError(ValueError):
    """A name that no policy has."""


def policy(name: str) -> Policy:
    """A new policy of that name. Raises UnknownPolicyError, which lists the known ones."""
    if name == "line-indices":
        from specvet.policies.line_indices import LineIndices

        return LineIndices()
    near = difflib.get_close_matches(name, POLICIES, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownPolicyError(f"there is no policy named {name!r}; {hint}known are: {', '.join(POLICIES)}")
