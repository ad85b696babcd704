"""The run folder: every decision on disk before the next begins, and a resumed run that equals an uninterrupted one.

    config.yaml   receipt.json   run.db   trajectories/part-*.parquet   images/ab/<sha256>.png   run.lock

Nothing in the folder holds the folder's own path, so it can be moved, also in the middle of a run. A file is known by
`RunFolder.key`: its path as written, normalised; a path below the working folder of the run's first session counts
as relative to it. So a run goes on after its data and itself have moved together, and `./a.fits` and `a.fits` are one
file. Links are not followed: two names of one file are two files, as the user wrote them.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

from specvet.records import database, shards
from specvet.records.decision import Decision
from specvet.records.errors import DiskFullError, DuplicateDecisionError, RunError, naming_a_full_disk
from specvet.records.files import write_atomic
from specvet.records.lock import FolderLock
from specvet.records.run_reader import COLUMNS, elsewhere
from specvet.records.session import RunSession, added
from specvet.records.settings import config_text, decisive, settle
from specvet.records.setup import claim_folder, remove_leftovers
from specvet.records.shared import Leases, SharedLock
from specvet.records.undoing import Undoing, now


class RunFolder(Undoing):
    """A run on disk. Made by `open` (one writer at a time, or several that share it; a context manager) or `read` (any
    number, any time).

    Use one object from one thread at a time.
    """

    def __init__(
        self, path: Path, db: sqlite3.Connection, lock: FolderLock | SharedLock | None = None, compact_at: int = 2_000
    ) -> None:
        super().__init__(path, db)
        self._file = path / "run.db"
        self._lock = lock
        self._closed = False
        self._shared = lock if isinstance(lock, SharedLock) else None
        self.leases: Leases | None = None
        """What others are not to begin, where several processes share the run."""
        self._compact_at = compact_at
        self._session: RunSession | None = None
        self._marks: list[tuple[str, str, str, int]] = []
        self._states: dict[str, tuple[int, int]] = {}
        self._pending = 0
        self._counts: Counter[tuple[str, str]] = Counter()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        kind: str = "vet",
        config: Mapping[str, Any] | None = None,
        *,
        compact_at: int = 2_000,
        receipt_every_s: float = 60.0,
        shared: bool = False,
    ) -> RunFolder:
        """Create the run, or go on with it.

        The keys `policy`, `frame_mode`, `budget` and `tasks` (key → hash) of `config` are held against what the run
        was made with (`RunMismatchError`); new tasks join. `config.yaml` keeps the `config` of the first session,
        without its `out`.

        `shared` lets other processes that say so too work on it at the same time; each begins what it has a lease of.

        Raises `RunError` for a folder that is no run or cannot be written, `RunLockedError` when another process works
        on it, `DiskFullError`.
        """
        folder = Path(path)
        lock = claim_folder(folder, shared)
        try:
            db = database.connect(folder / "run.db")
            run = cls(folder, db, lock, compact_at)
            try:
                run._begin(kind, dict(config or {}), receipt_every_s)
            except BaseException:
                db.close()
                raise
        except BaseException:
            lock.release()
            raise
        return run

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Open a run to read it: while another process writes, after it was moved, on media that cannot be written."""
        folder = Path(path)
        if not (folder / "run.db").is_file():
            raise RunError(f"{folder}: not a specvet run (it holds no run.db); give the folder that --out named")
        return cls(folder, database.connect_to_read(folder / "run.db"))

    def _begin(self, kind: str, config: dict[str, Any], receipt_every_s: float) -> None:
        created = now()
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = ""
        stored = self._meta("kind")
        if stored is None:
            config.pop("out", None)
            first = {
                "kind": kind,
                "created": created,
                "cwd": cwd,
                "config": config_text(kind, config),
                "settings": "{}",
            }
            with database.transaction(self._db, self._file) as db:
                db.executemany("INSERT INTO meta VALUES (?, ?)", first.items())
        elif stored != kind:
            raise RunError(f"{self.path}: this is a run of kind {stored!r}, not {kind!r}; give another --out")
        self._cwd = self._meta("cwd") or ""
        self._elsewhere = elsewhere(self._cwd)
        self.settle(decisive(config))
        with naming_a_full_disk(self.path):
            for name in ("trajectories", "images", "tasks"):
                (self.path / name).mkdir(exist_ok=True)
        if not (self.path / "config.yaml").exists():
            write_atomic(self.path / "config.yaml", self._meta("config") or "")
        alone = self._shared is None or self._shared.first
        if alone:
            parts = {part for (part,) in self._db.execute("SELECT part FROM shards")}
            remove_leftovers(self.path, parts)
        self._pending = self._db.execute("SELECT count(*) FROM pending").fetchone()[0]
        self._counts.update(super()._tally())
        self._session = RunSession(self.path, self._db, self._file, receipt_every_s, config)
        if self._shared is not None:
            self._db.execute("PRAGMA busy_timeout = 120000")  # ms: many may wait for the disk
            self._shared.settle_in()
            self._shared.name(self._session.n)
            self.leases = Leases(self._db, self._file, self._shared, self._session.n)
        for kind_of_event, text in self._session.changes(cwd, self._cwd, joined=not alone):
            self.event(kind_of_event, text)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except DiskFullError:
            if error is None:
                raise

    def close(self) -> None:
        """Move the last trajectories into a shard, write the receipt, free the run. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with nullcontext() if self._shared is None else self._shared.alone():
            last = self._shared is None or self._shared.is_last()
            try:
                if self._session is not None:
                    self._flush_marks()
                    if self.leases is not None:
                        self.leases.end()
                    if last:
                        self._compact_all()
                    self._session.end()
            finally:
                if self._session is not None and last:
                    database.rest(self._db)
                self._db.close()
                if self._lock is not None:
                    self._lock.release()

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Hold settings that can change a verdict against those of the run; keep the new ones.

        Raises `RunMismatchError` for the first that differs. Nested mappings count by dotted name: `budget.max_turns`.
        """
        if settle(self.path, self.kind, self.settings, settings) is None:
            return
        with database.transaction(self._db, self._file) as db:
            added = settle(self.path, self.kind, self.settings, settings)  # others may have settled it meanwhile
            if added is not None:
                text = json.dumps(added, sort_keys=True)
                db.execute("UPDATE meta SET value = ? WHERE key = 'settings'", (text,))

    # --- writing

    def record(self, decision: Decision) -> None:
        """Put one decision on disk before returning.

        Raises `DuplicateDecisionError` for a second of one (file, row, task, sample): the first stands.
        """
        if not self.record_many([decision]):
            what = f"{decision.file} row {decision.row}, task {decision.task}"
            what += f", sample {decision.sample}" if decision.sample else ""
            raise DuplicateDecisionError(f"{self.path}: {what}: has a decision already; the first stands")

    def record_many(self, decisions: Sequence[Decision], *, forced: bool = True) -> int:
        """Put decisions on disk in one transaction; those whose (file, row, task, sample) is there are ignored.

        Without `forced` they survive the end of the process, and a power cut only from some seconds later on, or from
        the next that is forced: for those that can be made again, and come by hundreds a second.

        Returns how many were new. Where the task is `*` the id counts too, since that is all in which the list rows of
        one unreadable file differ.
        """
        session = self._writing
        rows = [self._as_row(d) for d in decisions]
        new: list[Decision] = []
        trajectories = 0
        with database.transaction(self._db, self._file, forced=forced) as db:
            for decision, (values, trajectory) in zip(decisions, rows, strict=True):
                cursor = db.execute(
                    "INSERT INTO decisions(key, file, row, task, id, answer, stop, spectrum_hash, rest, sample) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    values,
                )
                if not cursor.rowcount:
                    continue
                new.append(decision)
                if trajectory is not None:
                    db.execute("INSERT INTO pending VALUES (?, ?)", (cursor.lastrowid, trajectory))
                    trajectories += 1
            self._insert_marks()
            sums = added({d.task: t.sums} for d in new if (t := d.trajectory) is not None and t.tokens is not None)
            session.keep(db, len(new), sums)
        self._marks.clear()
        self._states.clear()
        self._pending += trajectories
        self._counts.update((d.task, str(d.verdict.answer)) for d in new)
        session.decided(len(new), sums)
        if self._pending >= self._compact_at:
            self.compact()
        return len(new)

    def mark_finished(self, file: str, selection: str, tasks: Iterable[str], rows: int) -> None:
        """Note that every row of a file (or of a selection in it) has been vetted, so that a resume need not open it.

        Written with the next decision or at close; when it is lost the file is only opened once more.
        """
        self._marks.append((self.key(file), selection, " ".join(sorted(tasks)), rows))
        if len(self._marks) >= 500:
            self._flush_marks()

    def note_state(self, file: str, state: tuple[int, int]) -> None:
        """Note the size in bytes and the time of change (ns) of a file that is being decided; the first note stands.

        Written with the next decision.
        """
        self._states.setdefault(self.key(file), state)

    def noted_state(self, file: str) -> tuple[int, int] | None:
        """What `note_state` was told of a file when its first row was decided; None where it was told nothing."""
        key = self.key(file)
        found = self._db.execute("SELECT size, changed FROM files WHERE key = ?", (key,)).fetchone()
        return (found[0], found[1]) if found else self._states.get(key)

    def finished(self, file: str, selection: str, tasks: Iterable[str]) -> tuple[int, bool] | None:
        """(rows, whether in this session) where `mark_finished` has covered all of `tasks`, else None."""
        key, wanted = self.key(file), set(tasks)
        for marked, chosen, done, rows in reversed(self._marks):
            if (marked, chosen) == (key, selection) and wanted <= set(done.split()):
                return rows, True
        sql = "SELECT tasks, rows, session FROM finished WHERE key = ? AND selection = ?"
        found = self._db.execute(sql, (key, selection)).fetchone()
        if found is None or not wanted <= set(found[0].split()):
            return None
        return found[1], found[2] == self._writing.n

    def event(self, kind: str, text: str) -> None:
        """Note something that happened."""
        with database.transaction(self._db, self._file) as db:
            db.execute("INSERT INTO events(at, kind, text) VALUES (?, ?, ?)", (now(), kind, text))

    def note_training(self, told: Mapping[str, Any]) -> None:
        """Put on disk how far training has come, and what this session has used; both stand in the receipt.

        Replaces what was told before.
        """
        session = self._writing
        with database.transaction(self._db, self._file) as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('training', ?)", (json.dumps(told, sort_keys=True),))
            session.keep(db, 0, {})
        session.decided(0, {})

    def note_session(
        self,
        *,
        skipped: int = 0,
        duplicates: int = 0,
        interrupted: bool = False,
        tokens_in: int = 0,
        tokens_out: int = 0,
        cost: float = 0.0,
        usage: Mapping[str, float] | None = None,
        probes: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Add to what the receipt says of this session; `cost` in US dollars.

        `usage` and `probes` are not added up but replace what was said of them before, see `Session`.
        """
        session = self._writing
        session.add(skipped=skipped, duplicates=duplicates, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost)
        session.tell(usage=usage, probes=probes)
        if interrupted:
            session.interrupt()

    def compact(self) -> None:
        """Move the trajectories that wait in `run.db` into shards of `compact_at`, in order."""
        if self._shared is None:
            self._compact_all()
            return
        with self._shared.alone():
            if self._db.execute("SELECT count(*) FROM pending").fetchone()[0] >= self._compact_at:
                self._compact_all()
        self._pending = 0  # another moves those that have come since, or the last who leaves

    def _compact_all(self) -> None:
        if self._shared is not None:
            self._pending = self._db.execute("SELECT count(*) FROM pending").fetchone()[0]
        folder = self.path / "trajectories"
        while self._pending:
            rows = self._db.execute(
                f"SELECT {COLUMNS} FROM pending p JOIN decisions d ON d.n = p.n ORDER BY p.n LIMIT ?",
                (self._compact_at,),
            ).fetchall()
            if not rows:
                self._pending = 0
                return
            (part,) = self._db.execute("SELECT coalesce(max(part) + 1, 0) FROM shards").fetchone()
            moving = [(n, id, file or key, row, task, text) for n, key, file, row, task, id, _, _, _, text in rows]
            # On disk first, then counted, in one transaction: a kill in between leaves a file that does not count.
            shards.write_shard(shards.shard_path(folder, part), moving)
            with database.transaction(self._db, self._file) as db:
                db.execute("INSERT INTO shards VALUES (?, ?)", (part, len(moving)))
                db.executemany("UPDATE decisions SET shard = ? WHERE n = ?", [(part, m[0]) for m in moving])
                db.execute("DELETE FROM pending WHERE n <= ?", (moving[-1][0],))
            self._pending -= len(moving)

    # --- inside

    def _tally(self) -> Mapping[tuple[str, str], int]:
        return self._counts if self._session is not None and self._shared is None else super()._tally()

    def _not_alone(self) -> str:
        return "" if self._shared is None or self._shared.first else "other processes work on this run"

    @property
    def _writing(self) -> RunSession:
        if self._session is None:
            raise RunError(f"{self.path}: opened for reading; open it with RunFolder.open to write")
        return self._session

    def _as_row(self, d: Decision) -> tuple[tuple[Any, ...], str | None]:
        key, t = self.key(d.file), d.trajectory
        written = None if key == d.file else d.file
        rest = d.model_dump_json(exclude={"file", "row", "task", "id", "sample", "trajectory"}, exclude_defaults=True)
        content = bytes.fromhex(t.spectrum_hash) if t is not None and t.spectrum_hash else None
        stop = None if t is None else str(t.stop)
        values = (key, written, d.row, d.task, d.id, str(d.verdict.answer), stop, content, rest, d.sample)
        return values, None if t is None else t.model_dump_json()

    def _insert_marks(self) -> None:
        states = [(key, *state) for key, state in self._states.items()]
        self._db.executemany("INSERT OR IGNORE INTO files VALUES (?, ?, ?)", states)
        for key, selection, tasks, rows in self._marks:
            before = self._db.execute(
                "SELECT tasks FROM finished WHERE key = ? AND selection = ?", (key, selection)
            ).fetchone()
            merged = " ".join(sorted({*tasks.split(), *(before[0].split() if before else ())}))
            mark = (key, selection, merged, rows, self._writing.n)
            self._db.execute("INSERT OR REPLACE INTO finished VALUES (?, ?, ?, ?, ?)", mark)

    def _flush_marks(self) -> None:
        if self._marks:
            with database.transaction(self._db, self._file):
                self._insert_marks()
            self._marks.clear()
            self._states.clear()
