"""Which model decided: the name that people know it by and a hash of its files, as a run keeps them in its config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from specvet.policies.catalogue import ModelError, files_digest, files_of, folder_named, read_manifest
from specvet.policies.registry import MODELS, RUN_HERE, SPECIALISTS, model_folder
from specvet.records import file_hash

ADAPTER = "adapter/"
"""Before the files of an adapter, among those of its model."""

_UNNAMED = {"torch": "tiny, random weights"}
"""What a policy opens where no model is named."""


def model_identity(policy: str, model: str | None = None, adapter: str | None = None) -> dict[str, str]:
    """`{"name": "nano 1.0", "sha256": "…"}` of a model as a command names it; empty for a policy without one.

    The hash is that of `specvet models`: over the names and hashes of all files but the card, those of an adapter with
    `adapter/` before them. It is left out for what is not on this machine: a server's model, a hub id. A name is that
    of the manifest with its version, else the folder's, else as given; no name tells where a folder lies. Raises
    OSError.
    """
    if policy not in (*MODELS, *SPECIALISTS):
        return {}
    folders = {"": _folder(policy, model), ADAPTER: folder_named(adapter) if adapter and policy in RUN_HERE else None}
    names = [_name(folder, given) for folder, given in zip(folders.values(), (model, adapter), strict=True)]
    told = {"name": " + ".join(name for name in names if name) or _UNNAMED.get(policy, policy)}
    complete = all(folder or not given for folder, given in zip(folders.values(), (model, adapter), strict=True))
    files = {p + name: file_hash(f / name) for p, f in folders.items() if f is not None for name in files_of(f)}
    return told | ({"sha256": files_digest(files)} if complete and files else {})


def described_identity(descriptor: Mapping[str, object]) -> dict[str, str]:
    """The same of a campaign's descriptor, as a cell's config holds it."""
    files = descriptor.get("files")
    told = {"name": str(descriptor.get("slug") or "")}
    return told | ({"sha256": files_digest(files)} if isinstance(files, Mapping) and files else {})


def _folder(policy: str, model: str | None) -> Path | None:
    if policy in RUN_HERE:
        return model_folder(policy, model)
    return folder_named(model) if model and policy in SPECIALISTS else None


def _name(folder: Path | None, given: str | None) -> str:
    if folder is None:
        return given or ""
    try:
        manifest = read_manifest(folder)
    except ModelError:
        return folder.resolve().name
    return f"{manifest.name} {manifest.version}"
