"""Events in PostgreSQL, for a team: `--store postgresql://USER@HOST/DATABASE` (extra `postgres`).

One connection, opened again when the server closed it. Two tables, `specvet_review_events` and `specvet_review_meta`,
in the first schema of the search path: a database, or a schema (`?options=-csearch_path%3DNAME`), holds one review. A
trigger refuses to change or remove events.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from specvet.review.events import Event, now
from specvet.review.store import LAYOUT, StoreError, T, Writing, body_of, event_of

if TYPE_CHECKING:
    import psycopg

_SCHEMA = """
CREATE TABLE IF NOT EXISTS specvet_review_meta(key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS specvet_review_events(
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, at text NOT NULL, kind text NOT NULL,
  reviewer text NOT NULL, item text NOT NULL, task text NOT NULL, verdict text, body jsonb NOT NULL,
  UNIQUE(reviewer, key));
CREATE OR REPLACE FUNCTION specvet_review_stays() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'events are never changed or removed'; END $$;
DROP TRIGGER IF EXISTS specvet_review_stays ON specvet_review_events;
CREATE TRIGGER specvet_review_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON specvet_review_events
  EXECUTE FUNCTION specvet_review_stays();
"""

_LOCK = 0x53505652
"""Number of the advisory lock that whoever makes the tables holds."""


class PostgresStore:
    """Events in two tables of a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise StoreError("--store postgresql://…: needs psycopg; pip install 'specvet[postgres]'") from None
        self.readonly = False
        self._errors = psycopg.Error
        self._url = url
        self.name = re.sub(r"(password=)[^&]*", r"\1…", re.sub(r"(//[^:/@]*):[^@/]*@", r"\1:…@", url))
        self._lock = threading.RLock()
        self._db: psycopg.Connection[Any] | None = None
        with self._lock, self._saying():
            db = self._connected()
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                made = db.execute("SELECT to_regclass('specvet_review_events')").fetchone()
                if made is None or made[0] is None:
                    db.execute(_SCHEMA)
                    for key, value in (("secret", secrets.token_hex(32)), ("layout", str(LAYOUT)), ("created", now())):
                        db.execute(
                            "INSERT INTO specvet_review_meta VALUES (%s, %s) ON CONFLICT DO NOTHING", (key, value)
                        )
            meta = dict(db.execute("SELECT key, value FROM specvet_review_meta").fetchall())
        if int(meta["layout"]) > LAYOUT:
            raise StoreError(f"{self.name}: made by a newer specvet (layout {meta['layout']}); update specvet")
        self._secret = bytes.fromhex(meta["secret"])

    @property
    def secret(self) -> bytes:
        return self._secret

    def since(self, n: int) -> list[Event]:
        with self._lock, self._saying():
            try:
                return _since(self._connected(), n)
            except self._errors:
                if self._db is not None and not self._db.broken:
                    raise
                return _since(self._connected(), n)  # the server was started again: nothing was under way, so once more

    def write(self, do: Callable[[Writing], T]) -> T:
        with self._lock, self._saying():
            db = self._connected()
            try:
                db.execute("SELECT 1")
            except self._errors:
                db = self._connected()
            with db.transaction():
                # Held to the commit, so that numbers become visible in their order; reading goes on.
                db.execute("LOCK TABLE specvet_review_events IN SHARE ROW EXCLUSIVE MODE")
                return do(_Writing(db))

    def close(self) -> None:
        with self._lock, suppress(self._errors):
            if self._db is not None:
                self._db.close()

    def _connected(self) -> psycopg.Connection[Any]:
        import psycopg

        if self._db is None or self._db.closed:
            self._db = psycopg.connect(
                self._url, autocommit=True, connect_timeout=10, application_name="specvet review"
            )
            self._db.execute("SET synchronous_commit = on")
        return self._db

    @contextmanager
    def _saying(self) -> Iterator[None]:
        try:
            yield
        except self._errors as e:
            what = " ".join(str(e).split()) or type(e).__name__
            raise StoreError(f"{self.name}: {what}; is the server up, and may this user make tables there?") from e


class _Writing:
    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self._db = db

    def since(self, n: int) -> list[Event]:
        return _since(self._db, n)

    def insert(self, event: Event) -> Event:
        made = event.model_copy(update={"at": now()})
        values = (made.key, made.at, made.kind, made.reviewer, made.item, made.task, made.verdict, body_of(made))
        sql = (
            "INSERT INTO specvet_review_events(key, at, kind, reviewer, item, task, verdict, body) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING n"
        )
        row = self._db.execute(sql, values).fetchone()
        assert row is not None
        return made.model_copy(update={"n": int(row[0])})


def _since(db: psycopg.Connection[Any], n: int) -> list[Event]:
    rows = db.execute("SELECT n, body::text FROM specvet_review_events WHERE n > %s ORDER BY n", (n,)).fetchall()
    return [event_of(*row) for row in rows]
