"""Taking decisions back: those that are no answers, and trajectories that cannot be used any more."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specvet.records import database
from specvet.records.errors import RunError
from specvet.records.run_reader import RunReader
from specvet.records.schema import Answer


class Undoing(RunReader):
    """The half of a `RunFolder` that removes."""

    _db: sqlite3.Connection
    _file: Path
    _pending: int
    _counts: Counter[tuple[str, str]]

    def _not_alone(self) -> str:
        """Why nothing may be removed now; empty where it may."""
        return ""

    def retry(self, answer: Answer) -> int:
        """Remove the rows with this answer (ERROR or FAILED), so that a rerun makes them again.

        Returns how many, and keeps an event. Raises `ValueError` for an answer that somebody gave: it stands.
        """
        if answer not in (Answer.ERROR, Answer.FAILED):
            raise ValueError(f"{answer} is a verdict and stands; only ERROR and FAILED rows can be tried again")
        if why := self._not_alone():
            raise RunError(f"{self.path}: {why}; try {answer} rows again when they have ended")
        with database.transaction(self._db, self._file) as db:
            chosen = "SELECT {} FROM decisions WHERE answer = ?"
            db.execute(f"DELETE FROM finished WHERE key IN ({chosen.format('key')})", (answer,))
            pending = db.execute(f"DELETE FROM pending WHERE n IN ({chosen.format('n')})", (answer,)).rowcount
            removed = int(db.execute("DELETE FROM decisions WHERE answer = ?", (answer,)).rowcount)
            db.execute("DELETE FROM files WHERE key NOT IN (SELECT key FROM decisions)")
            text = f"removed {removed} {answer} rows to try them again"
            db.execute("INSERT INTO events(at, kind, text) VALUES (?, 'retry', ?)", (now(), text))
        self._pending -= pending
        for task, given in [k for k in self._counts if k[1] == answer]:
            del self._counts[task, given]
        return removed

    def withdraw(self, file: str, row: int, task: str, samples: Iterable[int], why: str) -> None:
        """Remove samples of one question whose trajectories cannot be used any more, so that they are made again.

        Keeps an event that says `why`.
        """
        key, chosen = self.key(file), sorted(samples)
        where = f"key = ? AND row = ? AND task = ? AND sample IN ({', '.join('?' * len(chosen))})"
        text = f"{file} row {row}, task {task}, samples {', '.join(map(str, chosen))}: {why}"
        self._withdraw(where, [key, row, task, *chosen], text)

    def withdraw_question(self, id: str, why: str) -> None:
        """The same for all samples of a question of a question file, by its id, wherever its spectrum lies now."""
        self._withdraw("id = ?", [id], f"{id}: {why}")

    def _withdraw(self, where: str, values: list[Any], text: str) -> None:
        with database.transaction(self._db, self._file) as db:
            answers = db.execute(f"SELECT task, answer FROM decisions WHERE {where}", values).fetchall()
            pending = f"DELETE FROM pending WHERE n IN (SELECT n FROM decisions WHERE {where})"
            self._pending -= db.execute(pending, values).rowcount
            db.execute(f"DELETE FROM decisions WHERE {where}", values)
            db.execute("INSERT INTO events(at, kind, text) VALUES (?, 'withdrawn', ?)", (now(), text))
        self._counts.subtract((of_task, given) for of_task, given in answers)


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
