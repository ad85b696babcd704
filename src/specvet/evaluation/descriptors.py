"""Model descriptors: what exactly was asked. A slug, once asked, stands for these very weights for ever.

A descriptor holds the slug, path or hub id, revision, source, label and the SHA-256 of every file that decides. Where
the files lie counts for nothing: the same weights in another folder are the same model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from specvet.data.errors import InputError
from specvet.evaluation.plan import MEASURING, Label, Part, PolicyPlan, read_part
from specvet.policies import POLICIES
from specvet.policies.catalogue import CARD, PICTURE
from specvet.policies.manner import FILE
from specvet.policies.registry import model_folder
from specvet.records import file_hash, text_hash, write_atomic

RUN_HERE = ("torch", "embedded", *MEASURING)
"""Policies whose model can be a folder; elsewhere it is a server's name, whatever lies beside the campaign file."""
_STATED = ("label", "source", "trained_on")
"""What a descriptor says beside what decides. It stands too; what is not said any more is not taken back."""
_ADAPTER = "adapter/"
_LEFT_OUT = (".git", "__pycache__", ".cache")
_WORDS = (CARD, PICTURE, FILE)
"""What a model folder says of itself: the card is written from what campaigns measured, and how a model is asked stands
in the settings of each."""


class Descriptor(Part):
    """Who is asked, in full."""

    slug: str
    policy: str
    label: Label
    model: str | None = None
    """As written: a folder, hub id or a server's name."""
    adapter: str | None = None
    revision: str | None = None
    source: str | None = None
    base_url: str | tuple[str, ...] | None = None
    """For the record; a server may move, and others may share its work."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Chat format, tokenizer and how a server is told of tools."""
    trained_on: tuple[str, ...] | None = None
    files: dict[str, str] = Field(default_factory=dict)
    """Path below the model's folder → SHA-256; those of an adapter under `adapter/`. Empty for what is not here."""

    @property
    def fingerprint(self) -> str:
        """Of what decides: policy, weights, format. Neither label, source nor place."""
        adapted = any(path.startswith(_ADAPTER) for path in self.files)
        own = any(not path.startswith(_ADAPTER) for path in self.files)
        told = {
            "policy": self.policy,
            "model": None if own else self.model,
            "adapter": None if adapted else self.adapter,
            "revision": None if own else self.revision,
            "options": self.options,
            "files": self.files,
        }
        return text_hash(json.dumps(told, sort_keys=True))


def describe(slug: str, plan: PolicyPlan, label: str, folder: Path) -> Descriptor:
    """The descriptor of a plan whose paths start in `folder`; hashes its files. Raises InputError."""
    if plan.policy not in POLICIES:
        raise InputError(
            f"policies.{slug}: there is no policy {plan.policy!r}; known are {', '.join(sorted(POLICIES))}"
        )
    files: dict[str, str] = {}
    for name, given, prefix in (("model", plan.model, ""), ("adapter", plan.adapter, _ADAPTER)):
        place = located(given, folder) if plan.policy in RUN_HERE else None
        if place is None and name == "model":
            place = model_folder(plan.policy, given)  # one that goes by a name: packaged, or fetched
        if place is not None:
            files |= {prefix + path: sha for path, sha in file_hashes(place).items()}
        elif given is not None and given.startswith((".", "/", "~")) and plan.policy in RUN_HERE:
            raise InputError(f"policies.{slug}.{name}: {given}: no such folder (paths start at the campaign file)")
    if plan.policy in MEASURING and plan.policy != "line-indices" and not files:
        absent = "" if plan.model is None else f"{plan.model}: no such folder (paths start at the campaign file); "
        raise InputError(
            f"policies.{slug}: {absent}{plan.policy} needs the folder that `specvet train specialist` wrote, as model"
        )
    options = {
        name: value
        for name in ("format", "tokenizer", "tools", "tool_images")
        if (value := getattr(plan, name)) != PolicyPlan.model_fields[name].default
    }
    return Descriptor(
        slug=slug,
        policy=plan.policy,
        label=label,
        model=plan.model,
        adapter=plan.adapter,
        revision=plan.revision,
        source=plan.source,
        base_url=plan.base_url,
        options=options,
        trained_on=plan.trained_on,
        files=files,
    )


def located(given: str | None, folder: Path) -> Path | None:
    """The folder or file of a model that is here; None for a hub id, an address or a server's name."""
    if given is None or "://" in given:
        return None
    place = (folder / Path(given).expanduser()).resolve()
    return place if place.exists() else None


def keep_descriptor(folder: Path, descriptor: Descriptor) -> Descriptor:
    """Write a descriptor into `folder` (the campaign's `policies/`), or hold it against the one there.

    Returns the one that stands. Raises InputError where the slug stands for something else already, or where something
    else is said of it. One of whom nothing was ever asked (a model that could not be opened) gives way.
    """
    place = folder / f"{descriptor.slug}.json"
    begun = any((folder.parent / "cells").glob(f"{descriptor.slug}--*"))
    if place.is_file() and begun:
        kept = read_part(Descriptor, place)
        if kept.fingerprint != descriptor.fingerprint:
            raise InputError(
                f"the policy {descriptor.slug} is no longer the one that this campaign asked"
                f" ({_difference(kept, descriptor)}); give the new one another name, and its rows stay"
            )
        for name in _STATED:
            then, now = getattr(kept, name), getattr(descriptor, name)
            if now != then and now not in (None, descriptor.slug):
                raise InputError(
                    f"policies.{descriptor.slug}.{name}: {now} now, and {then} when this campaign first asked it; "
                    "results rest on what was said then: put that back, or give the policy another name"
                )
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(place, descriptor.model_dump_json(indent=1) + "\n")
    return descriptor


def read_descriptor(folder: Path, slug: str) -> Descriptor:
    """One that `keep_descriptor` wrote. Raises OSError, InputError."""
    return read_part(Descriptor, folder / f"{slug}.json")


def _difference(then: Descriptor, now: Descriptor) -> str:
    changed = [
        name for name in sorted(then.files.keys() | now.files.keys()) if then.files.get(name) != now.files.get(name)
    ]
    if changed:
        return f"other files: {', '.join(changed[:3])}" + (" …" if len(changed) > 3 else "")
    before: Mapping[str, Any] = then.model_dump()
    after: Mapping[str, Any] = now.model_dump()
    fields = [name for name in ("policy", "model", "adapter", "revision", "options") if before[name] != after[name]]
    return "; ".join(f"{name}: {before[name]} then, {after[name]} now" for name in fields) or "other content"


def file_hashes(place: Path) -> dict[str, str]:
    """SHA-256 of a file, or of every file below a folder but its words about itself, by its path there."""
    if place.is_file():
        return {place.name: file_hash(place)}
    files = sorted(p for p in place.rglob("*") if p.is_file() and not set(p.relative_to(place).parts) & set(_LEFT_OUT))
    names = {p.relative_to(place).as_posix(): p for p in files}
    return {name: file_hash(p) for name, p in names.items() if name not in _WORDS}
