"""Where events are kept: one append-only table, in SQLite or PostgreSQL.

An event is durable before `insert`'s transaction returns. Whoever writes holds the table alone for that moment and
sees every earlier event first, so numbers rise in the order in which events become visible, whoever else writes.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import ValidationError

from specvet.records.database import connect_to_read, naming_trouble, transaction
from specvet.records.errors import RunError
from specvet.review.events import Event, now

APPLICATION_ID = 0x53505652
"""`SPVR`, in the header of the file."""

LAYOUT = 1

_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events(
  n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL, reviewer TEXT NOT NULL,
  item TEXT NOT NULL, task TEXT NOT NULL, verdict TEXT, body TEXT NOT NULL, UNIQUE(reviewer, key));
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT raise(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT raise(ABORT, 'events are never removed'); END;
"""


class StoreError(RuntimeError):
    """A store that cannot be opened or written; the message says what to do."""


class Writing(Protocol):
    """The store while one writer holds it."""

    def since(self, n: int) -> list[Event]:
        """Events with a greater number, oldest first."""
        ...

    def insert(self, event: Event) -> Event:
        """Add an event; returned with its number and time."""
        ...


class Store(Protocol):
    """What keeps events. Any thread may use it."""

    name: str
    """For people: the file, or the address without a password."""

    readonly: bool
    """Whether it can be read alone: nothing can be decided."""

    def since(self, n: int) -> list[Event]:
        """Events with a number greater than `n`, oldest first."""
        ...

    def write(self, do: Callable[[Writing], T]) -> T:
        """Let `do` look and insert while nobody else writes; on disk when this returns. Raises what `do` raises."""
        ...

    @property
    def secret(self) -> bytes:
        """Random, made with the store: signs the cookies, so that a server that starts again knows its reviewers."""
        ...

    def close(self) -> None: ...


def open_store(where: str | os.PathLike[str]) -> Store:
    """The store at a file, or at `postgresql://…`; made where there is none. Raises `StoreError`."""
    text = os.fspath(where)
    if text.startswith(("postgresql://", "postgres://")):
        from specvet.review.postgres import PostgresStore

        return PostgresStore(text)
    if "://" in text:
        raise StoreError(f"--store {text.split('://')[0]}://…: give a file, or postgresql://USER@HOST/DATABASE")
    return SqliteStore(Path(text))


def body_of(event: Event) -> str:
    """All of an event but its number, as JSON."""
    return event.model_dump_json(exclude={"n"}, exclude_defaults=True)


def event_of(n: int, body: str) -> Event:
    """Raises `StoreError` for what is no event."""
    try:
        return Event.model_validate_json(body).model_copy(update={"n": n})
    except ValidationError as e:
        what = e.errors(include_url=False)[0]["msg"]
        raise StoreError(f"event {n} of the store cannot be read ({what}); restore it from a copy") from None


class SqliteStore:
    """Events in a file: WAL, every commit forced to disk. One that cannot be written, as on a DVD, is read."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.readonly = False
        self._path = path
        self._lock = threading.RLock()
        if path.is_dir():
            raise StoreError(f"{path}: is a folder; name a file for --store, such as {path / 'review.db'}")
        if not path.parent.is_dir():
            raise StoreError(f"{path}: there is no folder {path.parent}; make it first")
        try:
            with naming_trouble(path):
                try:
                    self._db = _opened(path)
                except sqlite3.OperationalError as e:
                    if (e.sqlite_errorcode & 0xFF) not in _UNWRITABLE or not path.is_file():
                        raise
                    self._db, self.readonly = connect_to_read(path, _check), True
                row = self._db.execute("SELECT value FROM meta WHERE key = 'secret'").fetchone()
        except RunError as e:
            raise StoreError(f"{e} (or give another --store)") from e
        self._secret = bytes.fromhex(row[0])
        self._file = _identity(path)

    @property
    def secret(self) -> bytes:
        return self._secret

    def since(self, n: int) -> list[Event]:
        with self._lock, naming_trouble(self._path):
            rows = self._db.execute("SELECT n, body FROM events WHERE n > ? ORDER BY n", (n,)).fetchall()
        return [event_of(*row) for row in rows]

    def write(self, do: Callable[[Writing], T]) -> T:
        if self.readonly:
            raise StoreError(
                f"{self._path}: can only be read; copy it where it can be written, and give that to --store"
            )
        if _identity(self._path) != self._file:
            raise StoreError(f"{self._path}: was moved, removed or replaced since it was opened; put it back")
        with self._lock, transaction(self._db, self._path):
            return do(self)

    def insert(self, event: Event) -> Event:
        made = event.model_copy(update={"at": now()})
        values = (made.key, made.at, made.kind, made.reviewer, made.item, made.task, made.verdict, body_of(made))
        sql = "INSERT INTO events(key, at, kind, reviewer, item, task, verdict, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        return made.model_copy(update={"n": self._db.execute(sql, values).lastrowid})

    def close(self) -> None:
        with self._lock, suppress(sqlite3.Error):
            if not self.readonly:
                self._db.execute("PRAGMA optimize")
            self._db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file lies there: one that was removed is written to without an error, and lost when it is closed."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        with _alone(db):
            if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in _statements(_SCHEMA):
                    db.execute(statement)
                first = {"secret": secrets.token_hex(32), "created": now()}
                db.executemany("INSERT INTO meta VALUES (?, ?)", first.items())
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {LAYOUT}")
        _check(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path}: not a store of reviews; give another --store")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > LAYOUT:
        raise StoreError(f"{path}: made by a newer specvet (layout {version}); update specvet")


@contextmanager
def _alone(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, of which a trigger holds semicolons of its own."""
    waiting = ""
    for line in script.strip().splitlines():
        waiting += line + "\n"
        if sqlite3.complete_statement(waiting):
            yield waiting
            waiting = ""
