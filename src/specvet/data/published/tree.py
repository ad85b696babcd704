"""A local copy of a published repository: its own tree, or a snapshot in the cache of the Hugging Face libraries."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from specvet.data.errors import InputError

_REVISION = re.compile(r"[0-9a-f]{40}")


def found_in(folder: Path, dataset: str) -> list[Path]:
    """The files of a copy, sorted; hidden folders are left out, links are followed. Raises InputError."""
    return sorted(_files(root_of(folder, dataset)))


def root_of(folder: Path, dataset: str) -> Path:
    """Where the repository's own tree begins; of a cache, the snapshot of `main` or the only one. Raises InputError."""
    folder = folder.expanduser()
    if folder.is_file():
        raise InputError(f"{folder}: is a file; give the folder that holds the copy of {dataset}")
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give a copy of the data set {dataset}")
    cached = folder / f"datasets--{dataset.replace('/', '--')}"
    if cached.is_dir():
        folder = cached
    snapshots = folder / "snapshots"
    if not snapshots.is_dir():
        return folder
    there = sorted(path for path in snapshots.iterdir() if path.is_dir())
    main = folder / "refs" / "main"
    if main.is_file() and (named := snapshots / main.read_text(encoding="utf-8").strip()) in there:
        return named
    if len(there) != 1:
        names = ", ".join(path.name for path in there) or "none"
        raise InputError(f"{folder}: holds several snapshots ({names}); give the folder of one of them")
    return there[0]


def revision_of(folder: Path, dataset: str) -> str | None:
    """The revision that a snapshot's folder is named after; None of another copy."""
    name = root_of(folder, dataset).name
    return name if _REVISION.fullmatch(name) else None


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(here, name) for name in files if not name.startswith("."))
