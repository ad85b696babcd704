"""`run.db`: the SQLite database of a run, how it is laid out and opened.

| table | holds |
|---|---|
| `meta` | kind, time and working folder of creation, config and settings as JSON |
| `decisions` | one row per (file, row, task, sample); `rest` holds the other fields of the `Decision` as JSON |
| `pending` | trajectories as JSON, until they are moved into a shard |
| `shards` | the shards that count: `trajectories/part-00000.parquet` is part 0 |
| `finished` | files (or selections of targets in them) of which every row has been vetted, for which tasks |
| `files` | size in bytes and time of change (ns) of each file when its first row was decided |
| `leases` | list entries that a process has in hand, where several share the run, see `shared.py` |
| `sessions` | one row per process that worked on the run |
| `events` | what happened and when |

`key` is the file as `RunFolder.key` normalises it, `file` how the user wrote it where that differs.
Unreadable files have the task `*`. Two list rows that ask for different targets of one unreadable file have the same
(file, row), so there the id counts too.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from specvet.records.errors import DiskFullError, RunError

APPLICATION_ID = 0x53505654
"""`SPVT`, in the header of the file."""

DATABASE_VERSION = 4
"""2 has the table `files`, 3 the column `sample`, 4 the table `leases`: a run of an earlier version is brought up to
date when it is opened for writing, and read as it is."""

_FILES = "CREATE TABLE files(key TEXT PRIMARY KEY, size INTEGER NOT NULL, changed INTEGER NOT NULL) WITHOUT ROWID;"

_LEASES = "CREATE TABLE leases(name TEXT PRIMARY KEY, session INTEGER NOT NULL) WITHOUT ROWID;"

_SAMPLE = "sample INTEGER NOT NULL DEFAULT 0"
"""Last of its table, since that is where SQLite adds a column."""

_ONE_DECISION = (
    "CREATE UNIQUE INDEX one_decision ON decisions(key, row, task, CASE task WHEN '*' THEN id ELSE '' END, sample);"
)

_UPGRADES = {
    1: _FILES,
    2: f"ALTER TABLE decisions ADD COLUMN {_SAMPLE}; DROP INDEX one_decision; {_ONE_DECISION}",
    3: _LEASES,
}
"""What a run of each earlier version lacks of the next."""

_SCHEMA = f"""
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE decisions(
  n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, file TEXT, row INTEGER NOT NULL, task TEXT NOT NULL,
  id TEXT NOT NULL, answer TEXT NOT NULL, stop TEXT, spectrum_hash BLOB, shard INTEGER, rest TEXT NOT NULL,
  {_SAMPLE});
{_ONE_DECISION}
CREATE TABLE pending(n INTEGER PRIMARY KEY, trajectory TEXT NOT NULL);
CREATE TABLE shards(part INTEGER PRIMARY KEY, trajectories INTEGER NOT NULL);
CREATE TABLE finished(
  key TEXT, selection TEXT, tasks TEXT NOT NULL, rows INTEGER NOT NULL, session INTEGER NOT NULL,
  PRIMARY KEY(key, selection)) WITHOUT ROWID;
{_FILES}
{_LEASES}
CREATE TABLE sessions(n INTEGER PRIMARY KEY, session TEXT NOT NULL);
CREATE TABLE events(n INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
"""

_FULL_CODES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,  # EDQUOT and EFBIG; SQLite reports only ENOSPC as "full"
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
}


def connect(path: Path) -> sqlite3.Connection:
    """Open `run.db` for writing, create it where it is missing: WAL, each commit on disk before it returns."""
    with naming_trouble(path):
        db = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        try:
            new = not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            version = DATABASE_VERSION if new else _check(db, path)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA journal_size_limit = 16777216")
            db.execute("PRAGMA cache_size = -32768")  # KiB: the index of a million paths outgrows the usual 2 MB
            if new:
                script = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {DATABASE_VERSION};"
                db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {script} COMMIT;")
            elif version < DATABASE_VERSION:
                lacking = " ".join(_UPGRADES[v] for v in range(version, DATABASE_VERSION))
                db.executescript(f"BEGIN IMMEDIATE; {lacking} PRAGMA user_version = {DATABASE_VERSION}; COMMIT;")
        except BaseException:
            db.close()
            raise
        return db


def connect_to_read(
    path: Path, check: Callable[[sqlite3.Connection, Path], object] | None = None
) -> sqlite3.Connection:
    """Open `run.db` for reading, also while another process writes, and on media that cannot be written.

    `check` raises where the file is not the database that is wanted; by default that of a run.
    """
    uri = path.absolute().as_uri()
    with naming_trouble(path):
        for options in ("mode=ro", "mode=ro&immutable=1"):
            db = sqlite3.connect(
                f"{uri}?{options}", uri=True, isolation_level=None, timeout=30.0, check_same_thread=False
            )
            try:
                (check or _check)(db, path)
                return db
            except sqlite3.OperationalError:
                db.close()
                journal = path.with_name(path.name + "-wal")
                # Without its journal a database is complete only when the last writer closed it.
                if "immutable" in options or (journal.exists() and journal.stat().st_size):
                    raise
            except BaseException:
                db.close()
                raise
    raise AssertionError("unreachable")  # pragma: no cover


@contextmanager
def transaction(db: sqlite3.Connection, path: Path, *, forced: bool = True) -> Iterator[sqlite3.Connection]:
    """All or nothing, and forced to disk at the end.

    Without `forced` it is the system that writes it to disk, within seconds: a process that is killed loses nothing, a
    power cut may lose the last transactions, and never a part of one. The next that is forced forces them too.
    """
    with naming_trouble(path):
        if not forced:
            db.execute("PRAGMA synchronous = NORMAL")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        finally:
            if not forced:
                db.execute("PRAGMA synchronous = FULL")


@contextmanager
def naming_trouble(path: Path) -> Iterator[None]:
    """SQLite's errors as `DiskFullError` or `RunError`, under the name of the file."""
    try:
        yield
    except sqlite3.DatabaseError as e:
        code = getattr(e, "sqlite_errorcode", None)
        if code in _FULL_CODES or (code == sqlite3.SQLITE_CANTOPEN and not _room(path)):
            raise DiskFullError(path) from e
        raise RunError(f"{path}: {e}; {_advice(code)}") from e


def _check(db: sqlite3.Connection, path: Path) -> int:
    """The version of the database, when it is one that we know. Raises `RunError`."""
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise RunError(f"{path}: not the database of a specvet run; give another --out")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > DATABASE_VERSION:
        raise RunError(
            f"{path}: made by a newer specvet (layout {version}, this one knows {DATABASE_VERSION}); update specvet"
        )
    return version


def _room(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free >= 65536
    except OSError:
        return True


def _advice(code: int | None) -> str:
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return "is the folder readable, and writable where it must be? To read from read-only media, copy it first"
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program holds the database; close it and run the same command again"
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "the database is damaged; restore it from a copy, or give another --out"
    return "check the disk (space, quota, health), then run the same command again"


def rest(db: sqlite3.Connection) -> None:
    """Leave a closed run as one plain file, readable on media that cannot be written; not while others read it."""
    with suppress(sqlite3.DatabaseError):
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA journal_mode = DELETE")
