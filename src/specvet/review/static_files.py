"""The page's own files, read once from the package: what a request names is looked up in a table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "txt": "text/plain; charset=utf-8",
    "json": "application/json",
    "woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    body: bytes
    kind: str
    etag: str


def static_files() -> dict[str, StaticFile]:
    """By path below `static/`, as in `vendor/uPlot.js`."""
    found: dict[str, StaticFile] = {}
    _collect(files("specvet.review") / "static", "", found)
    return found


def _collect(folder: Traversable, below: str, found: dict[str, StaticFile]) -> None:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            _collect(entry, f"{below}{entry.name}/", found)
        elif kind := _KINDS.get(entry.name.rpartition(".")[2]):
            body = entry.read_bytes()
            found[below + entry.name] = StaticFile(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
