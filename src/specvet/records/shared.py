"""Several processes at work on one run: who is there, and who has which entry in hand.

The lock file of a run is cut into bytes that the kernel locks for each process and frees however it ends. Byte 0 is
held together by all who share the run (one who does not share locks the whole file), byte 1 by one who does what must
be done alone, and byte `_SESSIONS + n` by session n while it lives. A lease is a row of the database that names a
session; it holds as long as that session's byte is locked, so that what a killed process had in hand is free at once,
without clocks and without waiting.
"""

from __future__ import annotations

import errno
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from specvet.records.database import transaction
from specvet.records.errors import RunError, RunLockedError
from specvet.records.lock import HELD, identity

_SHARED, _ALONE, _SESSIONS = 0, 1, 1_000
"""Bytes of the lock file; none of them needs to be there."""

PATIENCE_S = 60.0
"""How long one waits for another who begins or ends, and has the run for itself meanwhile."""

SAID = "shared\n"
"""What the lock file of a shared run holds, in place of the one process that works on it."""


class SharedLock:
    """A lock on a folder that others may hold too, from construction to `release`.

    `first` says that nobody else was at work; then the run is ours alone until `settle_in`.
    """

    def __init__(self, folder: Path, patience_s: float = PATIENCE_S) -> None:
        if sys.platform == "win32":
            raise RunError(f"{folder}: a run can be shared on Linux and macOS only; leave out --share")
        self._folder, self._path = folder, folder / "run.lock"
        if self._path.exists() and identity(self._path) in HELD:
            raise RunLockedError(f"{folder}: this process has already opened this run")
        self._file = open(self._path, "a+", encoding="utf-8")  # noqa: SIM115 - held until release
        self.first = False
        ends = time.monotonic() + patience_s
        try:
            while not (self._take_all() or self._lock(_SHARED, together=True)):
                holder = self._holder()
                if (holder and holder != SAID.strip()) or time.monotonic() > ends:
                    raise RunLockedError(
                        f"{folder}: another process works on this run and does not share it ({holder or 'unknown'}); "
                        "wait until it ends, or start both with --share"
                    )
                time.sleep(0.05)
        except BaseException:
            self._file.close()
            raise
        HELD.add(identity(self._path))
        if self.first:
            self._file.truncate(0)
            self._file.write(SAID)
            self._file.flush()

    def settle_in(self) -> None:
        """Let others in; byte 0 stays held, without a moment between."""
        import fcntl

        if self.first:
            fcntl.lockf(self._file, fcntl.LOCK_SH, 1, _SHARED)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 0, 1)

    def name(self, session: int) -> None:
        """Say that this process is that session, from now until it ends; to be said after `settle_in`."""
        if not self._lock(_SESSIONS + session):
            raise RunError(f"{self._folder}: session {session} is taken; is this the same run?")

    def lives(self, session: int) -> bool:
        """Whether the process of that session is there; of our own it is not to be asked."""
        import fcntl

        if not self._lock(_SESSIONS + session):
            return True
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _SESSIONS + session)
        return False

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Only one process at a time is in here."""
        import fcntl

        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _ALONE)
        try:
            yield
        finally:
            if not self._file.closed:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _ALONE)

    def is_last(self) -> bool:
        """Whether nobody else is at work; then nobody comes in until `release`."""
        return self._lock(_SHARED)

    def release(self) -> None:
        """Free everything; the file stays."""
        if not self._file.closed:
            HELD.discard(identity(self._path))
            self._file.close()

    def _holder(self) -> str:
        self._file.seek(0)
        return self._file.read(200).strip()

    def _take_all(self) -> bool:
        """The whole file at once, as one who does not share takes it."""
        self.first = self._lock(0, whole=True)
        return self.first

    def _lock(self, byte: int, *, together: bool = False, whole: bool = False) -> bool:
        import fcntl

        how = (fcntl.LOCK_SH if together else fcntl.LOCK_EX) | fcntl.LOCK_NB
        try:
            fcntl.lockf(self._file, how, 0 if whole else 1, byte)
        except OSError as e:
            if e.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                raise RunError(
                    f"{self._folder}: this file system offers no locks ({e.strerror}); put --out elsewhere"
                ) from e
            return False
        return True


class Leases:
    """The entries that this session has in hand, by a name that all processes give them alike."""

    def __init__(self, db: sqlite3.Connection, file: Path, lock: SharedLock, session: int) -> None:
        self._db, self._file, self._lock, self._session = db, file, lock, session
        self._over: list[str] = []

    def claim(self, names: Sequence[str]) -> frozenset[str]:
        """Those of the entries that are ours from now on: nobody's before, ours already, or of a session that is gone.

        Frees those that are over, in the same transaction.
        """
        living: dict[int, bool] = {self._session: True}
        granted: set[str] = set()
        # A lease that a power cut takes back is no loss: its holder is gone too.
        with transaction(self._db, self._file, forced=False) as db:
            self._free(db)
            for name in names:
                found = db.execute("SELECT session FROM leases WHERE name = ?", (name,)).fetchone()
                holder = None if found is None else int(found[0])
                if holder is not None and holder not in living:
                    living[holder] = self._lock.lives(holder)
                if holder is None or holder == self._session or not living[holder]:
                    db.execute("INSERT OR REPLACE INTO leases VALUES (?, ?)", (name, self._session))
                    granted.add(name)
        return frozenset(granted)

    def over(self, name: str) -> None:
        """An entry is done with; it is free for others from the next claim on."""
        self._over.append(name)

    def end(self) -> None:
        """Free all."""
        with transaction(self._db, self._file, forced=False) as db:
            db.execute("DELETE FROM leases WHERE session = ?", (self._session,))

    def flush(self) -> None:
        """Free now what is over."""
        if self._over:
            with transaction(self._db, self._file, forced=False) as db:
                self._free(db)

    def _free(self, db: sqlite3.Connection) -> None:
        db.executemany(
            "DELETE FROM leases WHERE name = ? AND session = ?", [(name, self._session) for name in self._over]
        )
        self._over.clear()
