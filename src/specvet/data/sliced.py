"""Sets in bulk: made in slices by several processes, so that an interrupted call goes on and equal calls write equally.

    FOLDER/SETTINGS.json     written first; a folder of other settings is refused
    FOLDER/.slices/00000.json …   what is known of each finished slice, until all of them are

A slice that is there is not made again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specvet import __version__
from specvet.data.errors import InputError
from specvet.data.processes import cores, in_any_order
from specvet.records import write_atomic
from specvet.records.files import TEMPORARY
from specvet.records.lock import FolderLock

SLICES, STATS = ".slices", "stats.json"

Progress = Callable[[str, int, int], None]
"""What is done, how many of how many."""


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of a set of `n`, `size` in each but the last."""

    folder: Path
    n: int
    size: int

    @property
    def count(self) -> int:
        return -(-self.n // self.size)

    def numbers(self, i: int) -> range:
        """Of slice `i`."""
        return range(i * self.size, min((i + 1) * self.size, self.n))

    def file(self, i: int) -> Path:
        """What is known of slice `i`; there once it is finished."""
        return self.folder / SLICES / f"{i:05d}.json"

    def keep(self, i: int, told: Mapping[str, Any]) -> None:
        """Slice `i` is finished."""
        write_atomic(self.file(i), json.dumps(told, ensure_ascii=False))

    def told(self) -> list[dict[str, Any]]:
        """What is known of each, in order."""
        return [json.loads(self.file(i).read_text(encoding="utf-8")) for i in range(self.count)]

    def make(
        self,
        work: Callable[[int], int],
        what: str,
        workers: int | None,
        progress: Progress,
        stop: threading.Event | None,
    ) -> bool:
        """Make the slices that are missing; False where it was stopped before the last. Raises what `work` raises."""
        for left in self.folder.rglob(TEMPORARY):  # of a process that was killed
            left.unlink(missing_ok=True)
        (self.folder / SLICES).mkdir(exist_ok=True)
        missing = [i for i in range(self.count) if not self.file(i).is_file()]
        done = self.n - sum(len(self.numbers(i)) for i in missing)
        progress(what, done, self.n)
        for i in in_any_order(work, missing, min(workers or cores(), len(missing)), stop or threading.Event()):
            done += len(self.numbers(i))
            progress(what, done, self.n)
        return done == self.n


@dataclass(frozen=True, slots=True)
class Made:
    """A set in its folder."""

    path: Path
    """Its main file, written last."""
    stats: Mapping[str, Any]
    """As in `stats.json`; empty where not all are made."""
    made: bool
    """Whether this call did anything."""
    finished: bool
    """False where it was asked to stop."""

    @property
    def folder(self) -> Path:
        return self.path.parent


def make_set(
    slices: Slices,
    lines: str,
    what: str,
    prepare: Callable[[], None],
    work: Callable[[int], int],
    finish: Callable[[Slices], dict[str, Any]],
    *,
    workers: int | None,
    progress: Progress,
    stop: threading.Event | None,
) -> Made:
    """Make the slices, then by `finish` the set of them: it writes `stats.json`, which it returns, and `lines` last.

    The folder is there (`begin`). Raises RunLockedError where another process is at it, and what the parts raise.
    """
    path = slices.folder / lines
    lock = FolderLock(slices.folder)
    try:
        if path.is_file():
            return Made(path, json.loads((slices.folder / STATS).read_text(encoding="utf-8")), False, True)
        prepare()
        if not slices.make(work, what, workers, progress, stop):
            return Made(path, {}, True, False)
        stats = finish(slices)
    finally:
        lock.release()
    return Made(path, stats, True, True)


def begin(folder: Path, receipt: str, wanted: Mapping[str, Any], since: Mapping[str, Any], what: str) -> None:
    """Make the folder with its settings, or see that it is one of these settings.

    `since` has the values of settings that a folder, or `wanted`, need not name. Raises InputError.
    """
    wanted = json.loads(json.dumps(wanted))
    file = folder / receipt
    if file.is_file():
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InputError(f"{file}: is damaged; remove the folder, or choose another")
        usual = json.loads(json.dumps(since))
        found, asked = usual | found, usual | wanted
        if other := [key for key, value in asked.items() if found.get(key) != value]:
            raise InputError(
                f"{folder}: was begun with another {other[0]} ({found.get(other[0])}, not {asked[other[0]]}); "
                "choose another folder, or remove it"
            )
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not empty and holds no {what}; choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps({**wanted, "specvet": __version__}, indent=1) + "\n")
