"""Files that are either there in full or not at all, and pictures stored under their own hash."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from os import PathLike
from pathlib import Path

from specvet.records.errors import naming_a_full_disk
from specvet.records.hashing import bytes_hash

TEMPORARY = ".specvet-*.tmp"
"""Names of files that a killed process may leave behind; safe to remove."""


def write_atomic(path: str | PathLike[str], data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path` so that a crash leaves the old file or the new one, never a part.

    Raises `DiskFullError` on a full disk, and other `OSError`s under the name `path`. The temporary file lies in the
    same folder and is removed when something fails.
    """
    target = Path(path)
    temporary = target.with_name(f".specvet-{secrets.token_hex(8)}.tmp")
    content = data.encode("utf-8") if isinstance(data, str) else data
    with naming_a_full_disk(target):
        try:
            with open(temporary, "xb") as f:
                f.write(content)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, target)
        except OSError as e:
            temporary.unlink(missing_ok=True)
            raise OSError(e.errno, e.strerror, str(target)) from e
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ImageStore:
    """PNG files under their SHA-256: `ab/<sha256>.png`. The same picture is stored once."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, sha: str) -> Path:
        """Where the picture lies or would lie."""
        return self.folder / sha[:2] / f"{sha}.png"

    def put(self, png: bytes) -> str:
        """Store `png` unless it is there; return its SHA-256.

        It is not forced to disk, which would take ten times as long as to draw it: after a power cut the last pictures
        may be missing or cut short. Their names, which are their hashes, tell; the record says what they showed, and
        storing them again repairs them.
        """
        sha = bytes_hash(png)
        # Plain text for paths: a run keeps ten pictures a spectrum, and `Path` would take as long as writing them.
        folder = f"{self.folder}{os.sep}{sha[:2]}"
        path = f"{folder}{os.sep}{sha}.png"
        try:
            if os.stat(path).st_size == len(png):
                return sha
        except OSError:
            pass
        temporary = f"{folder}{os.sep}.specvet-{secrets.token_hex(8)}.tmp"
        with naming_a_full_disk(path):
            try:
                os.makedirs(folder, exist_ok=True)
                with open(temporary, "xb") as f:
                    f.write(png)
                os.replace(temporary, path)
            except BaseException as e:
                with suppress(OSError):
                    os.unlink(temporary)
                if isinstance(e, OSError):
                    raise OSError(e.errno, e.strerror, path) from e
                raise
        return sha
