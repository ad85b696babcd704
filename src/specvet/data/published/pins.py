"""Pins: at which revision a published set is taken, and the size and SHA-256 of each of its files.

`pins.json` in this package holds them by data set. The first download that somebody has verified writes its own beside
what it got; committed as `pins.json`, it holds every later download and every local copy to the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from specvet.data.errors import InputError
from specvet.records import write_atomic
from specvet.records.hashing import file_hash

HOW = "to pin this revision, put what stands under `pin` into src/specvet/data/published/pins.json and commit it"

_REVISION = re.compile(r"[0-9a-f]{40}")
_UNSAFE = re.compile(r"[\x00-\x1f\\:]")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a file before it is there."""

    size: int
    sha256: str | None = None
    git: str | None = None
    """SHA-1 of the git blob, of a file that the hub keeps in git itself."""

    def problem_of(self, file: Path) -> str:
        """What is wrong with a file that should be this; empty where nothing is."""
        size = file.stat().st_size
        if size != self.size:
            return f"has {size:,} bytes, {self.size:,} expected"
        if self.sha256 is not None and (found := file_hash(file)) != self.sha256:
            return f"has the SHA-256 {found[:12]}…, {self.sha256[:12]}… expected"
        if self.sha256 is None and self.git is not None and _git_hash(file) != self.git:
            return "is of the right size, but of another content"
        return ""


@dataclass(frozen=True, slots=True)
class Pin:
    """A data set at a revision."""

    revision: str
    files: Mapping[str, Known]
    """By path in the repository."""


def pin_of(dataset: str) -> Pin | None:
    """The package's pin of a data set; None where nobody has verified a download yet."""
    fields = _pins().get(dataset)
    return None if fields is None else read_pin(fields)


def read_pin(fields: Mapping[str, Any]) -> Pin:
    """A pin as files hold it."""
    files = {path: Known(int(own["size"]), str(own["sha256"])) for path, own in fields["files"].items()}
    return checked(Pin(str(fields["revision"]), files), "a pin")


def checked(pin: Pin, what: str) -> Pin:
    """The same, if its files stay inside the folder that they are put in. Raises InputError, which names the entry."""
    if not _REVISION.fullmatch(pin.revision):
        raise InputError(f"{what}: {pin.revision!r} is no revision (40 hexadecimal digits)")
    for path, known in pin.files.items():
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or _UNSAFE.search(path) or known.size < 0:
            raise InputError(
                f"{what}: {path!r} ({known.size:,} bytes) is no file inside a data set; nothing was written"
            )
    return pin


def write_pin(path: Path, dataset: str, revision: str, folder: Path, files: list[str]) -> None:
    """Write the pin of what a folder holds, with the words what to do with it."""
    own = {name: {"size": (folder / name).stat().st_size, "sha256": file_hash(folder / name)} for name in sorted(files)}
    content = {"what_to_do": HOW, "pin": {dataset: {"revision": revision, "files": own}}}
    write_atomic(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def check_copy(
    files: list[Path], root: Path, dataset: str, pin: Pin, wanted: Callable[[str], bool] = lambda _: False
) -> None:
    """Hold a local copy to a pin, whatever folder its files lie in: each to its size and hash, and those that are
    `wanted` (by path) to being there. Raises InputError, which names the first that differs or is missing."""
    by_name: dict[str, list[str]] = {}
    for path in pin.files:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    found: set[str] = set()
    for file in files:
        path = file.relative_to(root).as_posix()
        if path not in pin.files:
            same_name = by_name.get(file.name, [])
            if len(same_name) != 1:
                continue  # no file of the data set
            path = same_name[0]
        found.add(path)
        if problem := pin.files[path].problem_of(file):
            raise InputError(
                f"{file}: {problem} by the pin of {dataset} at {pin.revision}; get this file again at that revision, "
                "or name the revision that you mean with --revision"
            )
    if missing := sorted(path for path in pin.files if wanted(path) and path not in found):
        raise InputError(
            f"{root}: lacks {', '.join(missing[:5])}{' and more' if len(missing) > 5 else ''} of {dataset} at "
            f"{pin.revision} ({len(missing):,} of its files); get these too, or go on with what is there: --partial"
        )


def _pins() -> dict[str, Any]:
    text = resources.files("specvet.data.published").joinpath("pins.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _git_hash(file: Path) -> str:
    digest = hashlib.sha1(f"blob {file.stat().st_size}\0".encode(), usedforsecurity=False)
    with open(file, "rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
