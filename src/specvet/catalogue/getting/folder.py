"""The folder that spectra are got into: what is known of each, on disk before the next begins.

DIR/get.csv             one row a spectrum asked for, in the order of asking: a list that `specvet vet` takes
DIR/sas/dr17/…          files as the survey's own archive lays them out
DIR/.get/journal.jsonl  what became of each ask, as it happened; get.csv is made of it
DIR/.get/parts/         files that are on their way; a killed command leaves them
DIR/.get/wrong/         files that turned out to be another object's
"""

from __future__ import annotations

import csv
import io
import json
import os
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from specvet.catalogue.getting.asks import Ask
from specvet.data.labels_files import read_journal
from specvet.records import file_hash, write_atomic
from specvet.records.files import sync_folder
from specvet.records.lock import FolderLock

LIST = "get.csv"
COLUMNS = ("file", "row", "id", "asked", "survey", "release", "bytes", "sha256", "address", "when", "problem")
"""Of get.csv. `file` is relative to it, and empty where the spectrum is not there; `problem` then says why."""


@dataclass(frozen=True, slots=True)
class Got:
    """What became of one ask."""

    key: str
    id: str
    asked: str
    survey: str
    release: str = ""
    file: str = ""
    """Below the folder; empty where it is not there."""
    row: int = 0
    bytes: int = 0
    sha256: str = ""
    address: str = ""
    """Where it came from, without a token; empty for a file that lay there."""
    when: str = ""
    """UTC, ISO 8601."""
    problem: str = ""
    """Why it is not there; of one that is there, what else a person should know."""
    kind: str = ""
    """Of the problem, see `line.Kind`."""
    number: int = 0
    """The place in get.csv."""

    @property
    def there(self) -> bool:
        return bool(self.file)


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def not_got(ask: Ask, kind: str, problem: str) -> Got:
    """The record of an ask that failed."""
    return Got(ask.key, ask.id, ask.asked, ask.survey, ask.release, when=now(), problem=problem, kind=kind)


class Folder:
    """A folder of spectra, held by one process at a time. To be closed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises RunLockedError where another process holds it, OSError where it cannot be made."""
        self.path = Path(path)
        self._inner = self.path / ".get"
        for folder in (self._inner / "parts", self._inner / "wrong"):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self._inner)
        for left in (self._inner / "parts").iterdir():  # of a command that was killed
            left.unlink(missing_ok=True)
        journal = self._inner / "journal.jsonl"
        names = {f.name for f in fields(Got)}
        self.known: dict[str, Got] = {}
        """By `Ask.key`, what is known from this session and those before."""
        for key, entry in read_journal(journal).items():
            if names >= entry.keys():  # else it was forgotten
                self.known[key] = Got(**entry)
        self._last = max((got.number for got in self.known.values()), default=0)
        self._places: dict[str, int] = {}
        self._journal = open(journal, "a", encoding="utf-8")  # noqa: SIM115 - held until close
        self._writing = threading.Lock()

    def close(self) -> None:
        """Let it go; get.csv is `write_list`'s."""
        self._journal.close()
        self._lock.release()

    def record(self, found: Iterable[Got]) -> list[Got]:
        """Keep what became of asks; on disk when this returns. They get their places in the list."""
        with self._writing:
            placed = []
            for got in found:
                before = self.known.get(got.key)
                number = before.number if before else self._place(got.key)
                placed.append(Got(**(asdict(got) | {"number": number})))
                self.known[got.key] = placed[-1]
                self._journal.write(json.dumps(asdict(placed[-1]), ensure_ascii=False) + "\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
        return placed

    def note_problems(self, survey: str, problems: Iterable[tuple[str, str]]) -> list[Got]:
        """Rows of the list for what could not be understood, in place of those of earlier sessions."""
        start = f"{survey} ? "
        for key in [key for key in self.known if key.startswith(start)]:
            self.forget(key)
        return self.record(
            Got(f"{start}{asked}", "", asked, survey, when=now(), problem=problem, kind="not understood")
            for asked, problem in problems
        )

    def forget(self, key: str) -> None:
        """Take an ask out of the list: others have taken its place."""
        with self._writing:
            if self.known.pop(key, None) is not None:
                self._journal.write(json.dumps({"key": key, "forgotten": True}) + "\n")
                self._journal.flush()

    def expect(self, keys: Iterable[str]) -> None:
        """Give asks that are new their places in the list, in this order."""
        with self._writing:
            for key in keys:
                if key not in self.known:
                    self._place(key)

    def _place(self, key: str) -> int:
        return self._places.setdefault(key, self._last + len(self._places) + 1)

    def part(self, name: str) -> Path:
        """Where a file lies while it is on its way; `name` is any text."""
        return self._inner / "parts" / f"{abs(hash(name)):x}-{threading.get_ident():x}.part"

    def put(self, part: Path, place: str) -> None:
        """Give a file that is complete, and the right one, its name below the folder."""
        target = self.path / PurePosixPath(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
        sync_folder(target.parent)

    def put_aside(self, part: Path, name: str) -> str:
        """Keep a file that is another object's, and say where."""
        target = self._inner / "wrong" / f"{PurePosixPath(name).name}.wrong"
        os.replace(part, target)
        return target.relative_to(self.path).as_posix()

    def same(self, got: Got) -> bool:
        """Whether the file of a record is there, byte for byte."""
        file = self.path / PurePosixPath(got.file)
        try:
            return bool(got.file) and file.stat().st_size == got.bytes and file_hash(file) == got.sha256
        except OSError:
            return False

    def write_list(self) -> Path:
        """Write get.csv: all that was ever asked for here, in the order of asking."""
        known = sorted(self.known.values(), key=lambda got: got.number)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for got in known:
            numbers = (got.row, got.bytes) if got.there else ("", "")
            values = asdict(got) | {"row": numbers[0], "bytes": numbers[1], "problem": " ".join(got.problem.split())}
            writer.writerow([values[name] for name in COLUMNS])
        write_atomic(self.path / LIST, text.getvalue())
        return self.path / LIST
