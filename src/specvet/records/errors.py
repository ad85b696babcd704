"""What goes wrong with a run folder. Each message names the folder or file, what is wrong and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


class DiskFullError(OSError):
    """Nothing more can be written: the disk is full, a quota is reached, or a file may not grow."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.problem = (
            f"{path}: the disk is full or a quota is reached; free some space and run the same command again, "
            "it goes on where it stopped"
        )
        super().__init__(errno.ENOSPC, self.problem)

    def __str__(self) -> str:
        return self.problem


class RunError(RuntimeError):
    """A folder that cannot be used as a run."""


class RunLockedError(RunError):
    """Another process works on the run."""


class RunMismatchError(RunError):
    """The run was made with other settings, so that its verdicts and new ones must not share a table.

    `why` says so of a run that holds something else than verdicts.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        key: str,
        then: object,
        now: object,
        why: str = "verdicts made in different ways must not share a table",
    ) -> None:
        super().__init__(
            f"{path}: this run was made with {key} = {then}, but now {key} = {now}; {why}. "
            "Give another --out, or the old setting."
        )
        self.key = key
        self.then = then
        self.now = now


class DuplicateDecisionError(RunError):
    """A second decision for one spectrum and task; the first stands."""


@contextmanager
def naming_a_full_disk(path: str | PathLike[str]) -> Iterator[None]:
    """Turn the operating system's ways to say "full" into a `DiskFullError` that names `path`."""
    try:
        yield
    except DiskFullError:
        raise
    except OSError as e:
        if e.errno in _FULL:
            raise DiskFullError(path) from e
        raise
