"""Measuring the spectra of a run again, in several processes, and keeping each measurement as it is made.

    decisions → chunks → workers (`looks.Measuring`) → RUN/triage/measured.db → the same decisions, in their order

A run of 100,000 rows takes an hour to measure, so what was measured is never measured again: a command that was killed
goes on where it stopped, and sorting a run a second time reads what is there. A measurement is kept under its row, task
and sample, when its trajectory was begun, and a hash of all that it was made with, so that a row that was asked anew,
or other indices, are measured anew. Spectra that cannot be read, or are others than the policy saw, are tried again
each time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specvet.records import Decision, RunFolder
    from specvet.vetting.triage.looks import Measuring

FOLDER, FILE = "triage", "measured.db"
AT_ONCE = 16
"""Decisions that go to a worker together."""
AHEAD = 3
"""Chunks under way for each worker."""
KEEP_S = 1.0
"""How long a measurement may wait for others before it is on disk."""

UNMEASURED = "their spectra are gone, cannot be read, or have changed since the policy saw them"

Key = tuple[str, int, str, int, str]
"""File, row, task, sample, and when the trajectory was begun."""
Found = Mapping[str, float]


def key_of(decision: Decision) -> Key:
    begun = "" if decision.trajectory is None else decision.trajectory.started
    return decision.file, decision.row, decision.task, decision.sample, begun


class Remeasuring:
    """Features of a run's decisions as `looks.Measuring` finds them: pass the decisions `through`, then call it."""

    def __init__(self, run: RunFolder, *, indices: bool = True, claims: bool = True, processes: int = 1) -> None:
        self._run = run
        self._asked = (str(run.path), indices, claims)
        self._processes = processes
        self._look: Measuring | None = None
        self._found: dict[Key, Found] = {}
        self._kept = Kept(Path(run.path), _what(run, indices, claims))
        self.measured = 0
        """Decisions measured by this session; the others were measured before."""
        self.unreadable = 0
        """Decisions whose spectrum is gone, cannot be read, or is another than the policy saw."""

    def __call__(self, decision: Decision) -> Found:
        return self._found.pop(key_of(decision), {})

    def through(self, decisions: Iterable[Decision]) -> Generator[Decision, None, None]:
        """The decisions in their order, each once what is measured of it is known.

        What was measured is kept also where it is closed early. Raises OSError where a worker dies.
        """
        under_way: deque[tuple[list[Decision], Future[Measured] | None]] = deque()
        left = iter(decisions)
        with ExitStack() as stack:
            stack.callback(self._kept.close)
            pool = None
            try:
                while chunk := list(islice(left, AT_ONCE)):
                    new = [d for d in chunk if not self._known(d)]
                    if self._processes > 1 and new and pool is None:
                        from specvet.data.processes import worker_pool

                        pool = stack.enter_context(worker_pool(self._processes))
                    if pool is None:
                        if new:
                            self._take(_measured(self._looking(), new))
                        yield from chunk
                        continue
                    under_way.append((chunk, pool.submit(measured, self._asked, new) if new else None))
                    if len(under_way) >= AHEAD * self._processes:
                        yield from self._next(under_way)
                while under_way:
                    yield from self._next(under_way)
            except BrokenProcessPool as e:
                message = "a worker process died (out of memory?); the same command goes on, fewer processes need less"
                raise OSError(message) from e

    def _looking(self) -> Measuring:
        """What measures in this process."""
        from specvet.vetting.triage.looks import Measuring

        if self._look is None:
            _, indices, claims = self._asked
            self._look = Measuring(self._run, indices=indices, claims=claims)
        return self._look

    def _known(self, decision: Decision) -> bool:
        """Whether nothing is to be measured."""
        _, indices, claims = self._asked
        trajectory = decision.trajectory
        if trajectory is None:
            return True
        if not (indices and not decision.verdict.evidence) and not (claims and trajectory.ledger is not None):
            return True
        found = self._kept.found(key_of(decision))
        if found is None:
            return False
        self._found[key_of(decision)] = found
        return True

    def _next(self, under_way: deque[tuple[list[Decision], Future[Measured] | None]]) -> list[Decision]:
        chunk, future = under_way.popleft()
        if future is not None:
            self._take(future.result())
        return chunk

    def _take(self, made: Measured) -> None:
        found, unreadable = made
        self.unreadable += unreadable
        self.measured += len(found)
        for key, features in found:
            self._found[key] = features
            self._kept.keep(key, features)


Measured = tuple[list[tuple[Key, Found]], int]
"""What was found, by decision, and of how many nothing could be."""

_worker: list[Measuring] = []
"""In a worker, which is of one session alone: what measures, and remembers the last spectrum."""


def measured(asked: tuple[str, bool, bool], decisions: Sequence[Decision]) -> Measured:
    """In a worker: measure some decisions of a run (path, indices, claims)."""
    from specvet.records import RunFolder
    from specvet.vetting.triage.looks import Measuring

    if not _worker:
        path, indices, claims = asked
        with RunFolder.read(path) as run:
            _worker.append(Measuring(run, indices=indices, claims=claims))
    return _measured(_worker[0], decisions)


def _measured(look: Measuring, decisions: Sequence[Decision]) -> Measured:
    """Measure some decisions; of those whose spectrum is gone nothing is found."""
    found: list[tuple[Key, Found]] = []
    for decision in decisions:
        features = look(decision)
        if look.readable:
            found.append((key_of(decision), dict(features)))
    return found, len(decisions) - len(found)


def _what(run: RunFolder, indices: bool, claims: bool) -> str:
    """Hash of all but the spectra that a measurement depends on."""
    from specvet import __version__
    from specvet.policies.line_indices import LineIndices
    from specvet.records import text_hash
    from specvet.tasks import task_text
    from specvet.vetting.report.run import definitions

    tasks = {key: task_text(task) for key, task in definitions(run).items()}
    mode = run.settings.get("frame_mode", "careful")
    return text_hash(json.dumps([__version__, LineIndices().fingerprint, tasks, mode, indices, claims]))


class Kept:
    """Measurements on disk. Where the run's folder cannot be written they are kept for this session alone; what is
    damaged is measured anew."""

    def __init__(self, run: Path, what: str) -> None:
        self._what, self._waiting = what, list[tuple[str | int, ...]]()
        self._file = run / FOLDER / FILE
        self._since = time.monotonic()
        try:
            (run / FOLDER).mkdir(exist_ok=True)
            self._db = self._sound(self._file)
        except (OSError, sqlite3.Error):
            self._db = self._opened(Path(":memory:"))

    @classmethod
    def _sound(cls, file: Path) -> sqlite3.Connection:
        """Made anew where it is damaged or another file; nothing is lost that cannot be measured."""
        try:
            return cls._opened(file)
        except sqlite3.OperationalError:  # locked, read-only, full: nothing is wrong with the file
            raise
        except sqlite3.DatabaseError:
            for part in file.parent.glob(f"{FILE}*"):
                part.unlink()
            return cls._opened(file)

    @staticmethod
    def _opened(file: Path) -> sqlite3.Connection:
        db = sqlite3.connect(file, timeout=60.0, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(
                "CREATE TABLE IF NOT EXISTS measured (what TEXT, file TEXT, row INTEGER, task TEXT, sample INTEGER, "
                "begun TEXT, features TEXT, PRIMARY KEY (file, row, task, sample, what)) WITHOUT ROWID"
            )
            if (said := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(said)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def found(self, key: Key) -> Found | None:
        *place, begun = key
        sql = "SELECT begun, features FROM measured WHERE file = ? AND row = ? AND task = ? AND sample = ? AND what = ?"
        row = self._db.execute(sql, (*place, self._what)).fetchone()
        return None if row is None or row[0] != begun else dict(json.loads(row[1]))

    def keep(self, key: Key, features: Found) -> None:
        self._waiting.append((self._what, *key, json.dumps(features)))
        if time.monotonic() - self._since >= KEEP_S:
            self.flush()

    def flush(self) -> None:
        """Onto the disk, all that waits."""
        self._since = time.monotonic()
        if not self._waiting:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO measured VALUES (?, ?, ?, ?, ?, ?, ?)", self._waiting)
            self._db.execute("COMMIT")
        except sqlite3.Error as e:
            raise OSError(f"{self._file}: measurements cannot be kept ({e}); the same command goes on") from e
        self._waiting.clear()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._db.close()
