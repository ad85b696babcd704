"""A campaign's models, asked as their own folders say: what is in `specvet.json` joins each policy's settings."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.cli.asking import in_words, own_manner
from specvet.cli.failure import USAGE, failing

if TYPE_CHECKING:
    from specvet.evaluation.plan import Campaign, PolicyPlan
    from specvet.policies.manner import Manner

_NAMES = {
    "wording": "wording",
    "style": "style",
    "size": "size",
    "max_turns": "max_turns",
    "turn_tokens": "max_tokens",
    "context": "context",
}
"""A `Manner`'s field → that of `RunSettings`."""


def with_manners(campaign: Campaign, folder: Path, said: Collection[str] = ()) -> tuple[Campaign, list[str]]:
    """The campaign with what each model's folder says in the model's settings, and a line for each such model.

    A policy's own `settings` go before what its folder says, and that before the settings of the campaign, except those
    in `said` (by name), which the command line gives for all. `folder` is where the campaign's paths start.
    """
    from specvet.evaluation.descriptors import located
    from specvet.evaluation.rebasing import checked

    policies, told = dict(campaign.policies), []
    for slug, plan in campaign.policies.items():
        here = located(plan.model, folder)
        own = own_manner(plan.policy, plan.model if here is None else os.path.relpath(here))
        if own is None:
            continue
        policies[slug] = plan.model_copy(update={"settings": _joined(plan, own, said)})
        told.append(f"{campaign.label(slug)} is asked as its folder says, where nothing else is said: {in_words(own)}")
    return (checked(campaign.model_dump() | {"policies": policies}) if told else campaign), told


def _joined(plan: PolicyPlan, own: Manner, said: Collection[str]) -> dict[str, Any]:
    from specvet.policies.manner import settled

    given = {field: plan.settings.get(name) for field, name in _NAMES.items()}
    with failing(USAGE, ValueError):
        manner = settled(own, given)
    joined = {name: getattr(manner, field) for field, name in _NAMES.items() if name not in said}
    return plan.settings | joined
