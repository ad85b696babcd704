"""Campaigns as commands make them: of one policy and one set, joined to those that are there, with paths that hold."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specvet.data.errors import InputError
from specvet.evaluation.descriptors import RUN_HERE
from specvet.evaluation.plan import Campaign, PolicyPlan, Recipe, SetPlan, problem

_RECIPE = re.compile(r"(simvi|suite):([a-z-]+)(?::([a-z]+|\d+))?(?::seed=(\d+))?")


def set_of(what: str, **chosen: Any) -> tuple[str, SetPlan]:
    """(slug, plan) of `simvi:small:val`, `suite:cross-survey:300`, or a question file. Raises InputError."""
    if what.startswith(("simvi:", "suite:")):
        found = _RECIPE.fullmatch(what)
        if found is None:
            raise InputError(
                f"{what}: give simvi:SIZE:PART or suite:NAME:N, as in simvi:small:val, suite:cross-survey:300"
            )
        kind, name, more, seed = found.groups()
        told: dict[str, Any] = {kind: name, "seed": int(seed or 0)}
        if more is not None:
            told["n" if kind == "suite" else "part"] = int(more) if kind == "suite" and more.isdigit() else more
        try:
            recipe = Recipe.model_validate(told)
        except ValidationError as e:
            raise InputError(f"{what}: {problem(e)}") from None
        slug = "-".join([kind] * (kind == "simvi") + [name] + [str(more or recipe.part)] * (kind == "simvi"))
        slug += f"-{recipe.n}" * (kind == "suite") + f"-seed{recipe.seed}" * bool(recipe.seed)
        return slug, SetPlan(recipe=recipe, **chosen)
    if not Path(what).is_file():
        raise InputError(f"{what}: no such question file")
    return slugged(Path(what).stem), SetPlan(path=what, **chosen)


def slugged(text: str) -> str:
    """A text as a name for files."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:60] or "unnamed"


def rebased(campaign: Campaign, base: Path, folder: Path) -> Campaign:
    """The same campaign with its paths, which start in `base`, starting in `folder`."""

    def moved(path: str | None, surely: bool = False) -> str | None:
        """`surely` a path; else perhaps a hub's name, which it is where there is no such file."""
        if path is None or "://" in path:
            return path
        place = base / Path(path).expanduser()
        if not surely and not place.exists():
            return path
        # A link stays a link: spectra lie beside it, and not beside what it leads to (as in a hub's cache).
        return Path(os.path.relpath(place.parent.resolve() / place.name, folder.resolve())).as_posix()

    policies = {
        slug: plan.model_copy(update={name: moved(getattr(plan, name)) for name in _paths(plan)})
        for slug, plan in campaign.policies.items()
    }
    sets = {
        slug: plan.model_copy(update={"path": moved(plan.path, True), "facts": moved(plan.facts, True)})
        for slug, plan in campaign.sets.items()
    }
    return campaign.model_copy(update={"policies": policies, "sets": sets})


def _paths(plan: PolicyPlan) -> tuple[str, ...]:
    """Fields that may be paths: the model of a server is its name, whatever lies beside it."""
    return ("model", "adapter", "tokenizer") if plan.policy in RUN_HERE else ("tokenizer",)


def joined(there: Campaign | None, name: str, policies: Mapping[str, PolicyPlan], sets: Mapping[str, SetPlan],
           seeds: tuple[int, ...] | None) -> Campaign:  # fmt: skip
    """One policy and set as a campaign, beside those of the campaign that is there. Raises InputError.

    What is told of a set that is there already, and not told anew, stands: its facts, what is unseen, the reference.
    """
    fields: dict[str, Any] = {} if there is None else there.model_dump(exclude={"policies", "sets"})
    fields = {"name": name, **fields, "policies": {**(there.policies if there else {}), **policies}}
    known = there.sets if there else {}
    fields["sets"] = {**known, **{slug: _told(known.get(slug), plan) for slug, plan in sets.items()}}
    if seeds:
        fields["seeds"] = tuple(dict.fromkeys((*(there.seeds if there else ()), *seeds)))
    return checked(fields)


def _told(there: SetPlan | None, plan: SetPlan) -> SetPlan:
    if there is None or (there.path, there.recipe) != (plan.path, plan.recipe):
        return plan
    names = ("facts", "unseen", "reference")
    return plan.model_copy(update={name: getattr(plan, name) or getattr(there, name) for name in names})


def checked(fields: Mapping[str, Any]) -> Campaign:
    """A campaign of its fields. Raises InputError."""
    try:
        return Campaign.model_validate(dict(fields))
    except ValidationError as e:
        raise InputError(problem(e)) from None
