"""The set of what has been decided, without holding it in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Set

_PAGE = 10_000


class Done(Set[tuple[str, int, str]]):
    """(file, row, task) of every decision of a run; each question goes to the index of the database."""

    def __init__(self, db: sqlite3.Connection, key: Callable[[str], str]) -> None:
        self._db, self._key = db, key

    def __contains__(self, item: object) -> bool:
        if not (isinstance(item, tuple) and len(item) == 3):
            return False
        file, row, task = item
        sql = "SELECT 1 FROM decisions WHERE key = ? AND row = ? AND task = ? LIMIT 1"
        return self._db.execute(sql, (self._key(str(file)), row, task)).fetchone() is not None

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM decisions").fetchone()[0])

    def __iter__(self) -> Iterator[tuple[str, int, str]]:
        last = 0
        sql = "SELECT n, coalesce(file, key), row, task FROM decisions WHERE n > ? ORDER BY n LIMIT ?"
        while page := self._db.execute(sql, (last, _PAGE)).fetchall():
            yield from ((file, row, task) for _, file, row, task in page)
            last = page[-1][0]

    @classmethod
    def _from_iterable(cls, it: Iterable[tuple[str, int, str]]) -> Set[tuple[str, int, str]]:  # type: ignore[override]
        return frozenset(it)
