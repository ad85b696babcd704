"""One writer a run. The lock belongs to the process, so the kernel frees it however the process ends."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path

from specvet.records.errors import RunError, RunLockedError

HELD: set[tuple[int, int]] = set()
"""(device, inode) of the locks of this process: POSIX locks do not exclude their own process, and closing any
descriptor of a locked file frees it."""


class FolderLock:
    """An exclusive lock on a folder, held from construction to `release`. Forked children do not inherit it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "run.lock"
        if self._path.exists() and identity(self._path) in HELD:
            raise RunLockedError(f"{folder}: this process has already opened this run")
        self._file = open(self._path, "a+", encoding="utf-8")  # noqa: SIM115 - held until release
        try:
            _lock(self._file.fileno())
        except OSError as e:
            self._file.seek(0)
            holder = self._file.read(200).strip()
            self._file.close()
            if e.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                raise RunError(f"{folder}: this file system offers no locks ({e.strerror}); put --out elsewhere") from e
            raise RunLockedError(
                f"{folder}: another process works on this run ({holder or 'unknown'}); wait until it ends, or stop it"
            ) from e
        HELD.add(identity(self._path))
        self._file.truncate(0)
        self._file.write(f"pid {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()

    def release(self) -> None:
        """Free the lock; the empty file stays, since removing it would open a race."""
        if self._file.closed:
            return
        HELD.discard(identity(self._path))
        try:
            self._file.truncate(0)
        finally:
            self._file.close()


def identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
