"""What a preparation writes: each file whole or not at all, known by size and hash, and written only where it differs.

A preparation that was interrupted is run again and finds most files as they should be. Its statistics are written last:
where they stand, with the settings that are asked for and all files of the right size, there is nothing to do.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from specvet.records import bytes_hash
from specvet.records.errors import naming_a_full_disk
from specvet.records.files import TEMPORARY, write_atomic
from specvet.records.hashing import file_hash
from specvet.records.lock import FolderLock


class Prepared(NamedTuple):
    """What a preparation did."""

    stats: dict[str, Any]
    """As in the statistics file."""
    made: bool
    """False where all of it was there already."""
    repaired: tuple[str, ...] = ()
    """Files that were missing or damaged, and are there again."""


class Outputs:
    """The files of one prepared set. `files` is the name of the list of them, `stats` of the statistics."""

    def __init__(self, folder: Path, files: str, stats: str) -> None:
        self.folder = folder
        self._files, self._stats = folder / files, folder / stats
        self._known: dict[str, tuple[int, str]] = {}
        self._folders: set[str] = set()
        self.repaired: list[str] = []
        self._before = self._listed()
        self._whole_before = self._stats.is_file()
        self._journal = self.folder / f".{files}.begun"
        """Paths that a preparation has written which has not ended; an interrupted one leaves it for the next."""
        self._journal_lines: FileIO | None = None

    # --- before

    def finished(self, settings: Mapping[str, Any], *, verify: bool = False) -> dict[str, Any] | None:
        """The statistics, where all has been written with these settings; None where something is to be done.

        Files are judged by their size, with `verify` by their hash.
        """
        stats = self._kept_stats()
        kept = stats.get("settings")
        if not isinstance(kept, dict) or not self._before:
            return None
        if any(kept.get(key) != value for key, value in settings.items()):
            return None
        if any(not self._is_whole(path, verify) for path in self._before):
            return None
        return stats

    def made_with(self) -> Mapping[str, Any]:
        """The settings of the preparation that is there; empty where there is none."""
        settings = self._kept_stats().get("settings")
        return settings if isinstance(settings, dict) else {}

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Hold the folder; what a killed process left half-written goes, and so do statistics that no longer hold."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(self.folder)
        try:
            self._stats.unlink(missing_ok=True)
            for left in self.folder.rglob(TEMPORARY):
                left.unlink(missing_ok=True)
            with open(self._journal, "ab", buffering=0) as self._journal_lines:
                yield
        finally:
            self._journal_lines = None
            lock.release()

    # --- while it is done

    def put(self, path: str, data: bytes) -> None:
        """A file of this content, relative to the folder; one that has it already is left alone."""
        self._known[path] = (len(data), bytes_hash(data))
        target = f"{self.folder}{os.sep}{path}"
        try:
            with open(target, "rb") as file:
                if file.read(len(data) + 1) == data:
                    return
        except OSError:
            pass
        if self._whole_before and self._before.get(path) == self._known[path]:
            self.repaired.append(path)
        elif path not in self._before and self._journal_lines is not None:
            self._journal_lines.write(f"{json.dumps(path)}\n".encode())
        folder = os.path.dirname(target)
        temporary = f"{folder}{os.sep}.specvet-{secrets.token_hex(8)}.tmp"
        with naming_a_full_disk(target):
            if folder not in self._folders:
                os.makedirs(folder, exist_ok=True)
                self._folders.add(folder)
            with open(temporary, "xb", buffering=0) as file:
                file.write(data)
            os.replace(temporary, target)

    def put_lines(self, path: str, lines: list[str]) -> None:
        """A file of lines; half a character, which a reject may name, is a question mark."""
        self.put(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))

    def has(self, path: str) -> bool:
        """Whether the file was put already."""
        return path in self._known

    def finish(self, stats: Mapping[str, Any]) -> None:
        """Write the list of files, remove what an earlier preparation left, and write the statistics, which end it."""
        write_atomic(self._files, json.dumps(self._known, sort_keys=True) + "\n")
        for path in (self._before.keys() | self._begun()) - self._known.keys():
            (self.folder / path).unlink(missing_ok=True)
        self._journal.unlink(missing_ok=True)
        write_atomic(self._stats, json.dumps(stats, indent=1, ensure_ascii=False) + "\n")

    # --- inside

    def _kept_stats(self) -> dict[str, Any]:
        try:
            stats = json.loads(self._stats.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stats if isinstance(stats, dict) else {}

    def _begun(self) -> set[str]:
        try:
            lines = self._journal.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return set()
        found = set()
        for line in lines[:-1]:  # the last is empty, or was cut
            try:
                path = json.loads(line)
            except ValueError:
                continue
            if isinstance(path, str) and _inside(path):
                found.add(path)
        return found

    def _listed(self) -> dict[str, tuple[int, str]]:
        try:
            listed = json.loads(self._files.read_text(encoding="utf-8"))
            return {path: (int(size), str(sha)) for path, (size, sha) in listed.items() if _inside(path)}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def _is_whole(self, path: str, verify: bool) -> bool:
        size, sha = self._before[path]
        file = self.folder / path
        try:
            return file.stat().st_size == size and (not verify or file_hash(file) == sha)
        except OSError:
            return False


def _inside(path: str) -> bool:
    return not os.path.isabs(path) and ".." not in Path(path).parts
