"""Answers on disk, each under the hash of its request, so that nothing is asked twice, whatever happens in between."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from specvet.records.files import write_atomic
from specvet.records.hashing import text_hash


@dataclass(frozen=True, slots=True)
class Request:
    """All that decides an answer."""

    catalogue: str
    address: str
    parameters: tuple[tuple[str, str], ...]
    """As they are sent: (name, value)."""
    upload: str = ""
    """The list of places, a VOTable."""

    @property
    def hash(self) -> str:
        """SHA-256 of address, parameters and list."""
        return text_hash(json.dumps([self.address, self.parameters, self.upload]))


class Cache:
    """A folder of answers: `gaia-1f…c0.vot.gz` as the service sent it, and beside it `.json` with what was asked when.

    Removing a file, or the folder, makes it be asked again.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def get(self, request: Request) -> bytes | None:
        """The body of an answer that was kept; None where there is none, or where it lost bytes."""
        try:
            return gzip.decompress(self._path(request).read_bytes())
        except (OSError, EOFError, zlib.error):
            return None

    def put(self, request: Request, body: bytes, places: int, rows: int) -> None:
        """Keep an answer that was checked. Raises `OSError` where the folder cannot be written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(request)
        about = {
            "catalogue": request.catalogue,
            "address": request.address,
            "asked_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "places": places,
            "rows": rows,
            "parameters": dict(request.parameters),
        }
        write_atomic(path.with_name(f"{path.name.removesuffix('.vot.gz')}.json"), json.dumps(about, indent=1))
        write_atomic(path, gzip.compress(body, 6, mtime=0))

    def _path(self, request: Request) -> Path:
        return self.folder / f"{request.catalogue}-{request.hash[:40]}.vot.gz"
