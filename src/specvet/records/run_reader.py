"""What can be asked of a run: its decisions, trajectories, counts and events."""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from specvet.records import shards
from specvet.records.decision import Decision
from specvet.records.done import Done
from specvet.records.files import ImageStore
from specvet.records.receipt import Receipt, Session
from specvet.records.schema import TrajectoryRecord
from specvet.records.session import make_receipt

_PAGE = 1_000
"""Decisions fetched at once: an iteration never holds a lock while its caller works."""

COLUMNS = "d.n, d.key, d.file, d.row, d.task, d.id, d.sample, d.rest, d.shard, p.trajectory"


class Event(NamedTuple):
    """Something that happened to the run."""

    at: str
    """UTC, ISO 8601."""
    kind: str
    text: str


def elsewhere(first: str) -> str:
    """The working folder, where it is another than the run's first, and that one still exists.

    Relative paths then start here and not there. Where the first is gone, the run and its files were moved together.
    """
    try:
        here = os.getcwd()
        return here if first and os.path.isdir(first) and not os.path.samefile(first, here) else ""
    except OSError:
        return ""


class RunReader:
    """The reading half of a `RunFolder`."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path = path
        self.images = ImageStore(path / "images")
        self._db = db
        self._cwd = self._meta("cwd") or ""
        self._elsewhere = elsewhere(self._cwd)
        # A run of an older layout that is only read knows no samples: each of its decisions is the first.
        knows = db.execute("SELECT count(*) FROM pragma_table_info('decisions') WHERE name = 'sample'").fetchone()[0]
        self._sample = "d.sample" if knows else "0"

    @property
    def kind(self) -> str:
        """`vet`, `rollout`, `eval` or `train`."""
        return self._meta("kind") or ""

    @property
    def config(self) -> dict[str, Any]:
        """As resolved for the first session, with versions: what `config.yaml` says."""
        import yaml

        return yaml.safe_load(self._meta("config") or "") or {}

    @property
    def settings(self) -> dict[str, Any]:
        """What a session that goes on is held against, by dotted name."""
        found: dict[str, Any] = json.loads(self._meta("settings") or "{}")
        return found

    def key(self, file: str) -> str:
        """The name by which the run knows a file, see the head of this module."""
        if not file:
            return ""
        path = os.path.normpath(file)
        if self._elsewhere and not os.path.isabs(path):
            path = os.path.normpath(os.path.join(self._elsewhere, path))
        return self._below(path)

    def own_key(self, file: str) -> str:
        """The same for a file as this run's own decisions name it, whatever the working folder is."""
        return self._below(os.path.normpath(file)) if file else ""

    def done(self) -> Done:
        """The (file, row, task) that have a decision, as a set that asks the database."""
        return Done(self._db, self.key)

    def found(self, file: str, row: int) -> dict[tuple[str, str], int]:
        """(task, id) → number of the decision, for each decision about one row of a file; numbers rise in time."""
        sql = "SELECT task, id, n FROM decisions WHERE key = ? AND row = ?"
        return {(task, id): n for task, id, n in self._db.execute(sql, (self.key(file), row))}

    def samples(self, file: str, row: int, task: str) -> frozenset[int]:
        """Which samples of one question have been decided."""
        sql = f"SELECT {self._sample} FROM decisions d WHERE key = ? AND row = ? AND task = ?"
        return frozenset(n for (n,) in self._db.execute(sql, (self.key(file), row, task)))

    def frame_of(self, file: str, row: int | None) -> tuple[str, float | None] | None:
        """(frame in words, z taken out) of a decision about a file, or about one row of it; None without any."""
        where, values = ("key = ?", [self.key(file)]) if row is None else ("key = ? AND row = ?", [self.key(file), row])
        sql = f"SELECT rest FROM decisions WHERE {where} AND task <> '*' LIMIT 1"
        found = self._db.execute(sql, values).fetchone()
        if found is None:
            return None
        rest = json.loads(found[0])
        z = rest.get("z")
        return rest.get("frame", ""), None if z is None else float(z)

    def last_number(self) -> int:
        """The number of the newest decision; 0 without any."""
        return int(self._db.execute("SELECT coalesce(max(n), 0) FROM decisions").fetchone()[0])

    def decisions(
        self, tasks: Iterable[str] | None = None, answers: Iterable[str] | None = None, with_trajectories: bool = False
    ) -> Iterator[Decision]:
        """Decisions in the order they were made; `trajectory` is None unless asked for.

        ERROR rows of unreadable files have the task `*`: they come when `tasks` is None or names it.
        """
        where, values = "d.n > ?", list[Any]()
        for column, wanted in (("task", tasks), ("answer", answers)):
            if wanted is not None:
                chosen = [str(w) for w in wanted]
                where += f" AND d.{column} IN ({', '.join('?' * len(chosen))})"
                values += chosen
        waiting = "LEFT JOIN pending p ON p.n = d.n" if with_trajectories else ""
        columns = COLUMNS.replace("d.sample", self._sample)
        columns = columns if with_trajectories else columns.replace("p.trajectory", "NULL")
        sql = f"SELECT {columns} FROM decisions d {waiting} WHERE {where} ORDER BY d.n LIMIT {_PAGE}"
        part, last = -1, 0
        moved: Iterator[tuple[int, str]] = iter(())
        while page := self._db.execute(sql, [last, *values]).fetchall():
            for n, key, file, row, task, id, sample, rest, shard, waiting_text in page:
                text = waiting_text
                if with_trajectories and shard is not None:
                    if shard != part:
                        part, moved = shard, self._readable(shard)
                    text = next((t for number, t in moved if number == n), None)
                name = key if file is None else file
                yield _decision(rest, text, file=name, row=row, task=task, id=id, sample=sample)
            last = page[-1][0]

    def first_decisions(self) -> Iterator[Decision]:
        """The first decision about each (file, row), whatever the task, without its trajectory: who asks what was
        observed need not read what was said for every task."""
        columns = f"n, key, file, row, task, id, {self._sample}, rest"
        sql = f"SELECT {columns} FROM decisions d WHERE n > ? ORDER BY n LIMIT ?"
        seen, last = set[tuple[str, int]](), 0
        while page := self._db.execute(sql, (last, _PAGE)).fetchall():
            for _, key, file, row, task, id, sample, rest in page:
                if (key, row) not in seen:
                    seen.add((key, row))
                    name = key if file is None else file
                    yield _decision(rest, None, file=name, row=row, task=task, id=id, sample=sample)
            last = page[-1][0]

    def trajectory(self, file: str, row: int, task: str, sample: int = 0) -> TrajectoryRecord | None:
        """The trajectory behind a decision, wherever it lies; None without one."""
        return self._trajectory(self.key(file), row, task, sample)

    def trajectory_of(self, decision: Decision) -> TrajectoryRecord | None:
        """The trajectory of one of this run's own decisions, whatever the working folder is; None without one."""
        return self._trajectory(self.own_key(decision.file), decision.row, decision.task, decision.sample)

    def decision(self, file: str, row: int, tasks: Iterable[str], sample: int = 0) -> Decision | None:
        """The first decision about one row of a file for one of `tasks`, with its trajectory; None without one.

        `file` as the run's own decisions name it, whatever the working folder is.
        """
        key = self._below(os.path.normpath(file)) if file else ""
        chosen = list(tasks)
        sql = (
            f"SELECT d.file, d.task, d.id, d.rest FROM decisions d WHERE d.key = ? AND d.row = ? "
            f"AND {self._sample} = ? AND d.task IN ({', '.join('?' * len(chosen))}) ORDER BY d.n LIMIT 1"
        )
        found = self._db.execute(sql, (key, row, sample, *chosen)).fetchone()
        if found is None:
            return None
        name, task, id, rest = found
        decision = _decision(rest, None, file=name or key, row=row, task=task, id=id, sample=sample)
        return decision.model_copy(update={"trajectory": self._trajectory(key, row, task, sample)})

    def _trajectory(self, key: str, row: int, task: str, sample: int) -> TrajectoryRecord | None:
        sql = (
            "SELECT d.n, d.shard, p.trajectory FROM decisions d LEFT JOIN pending p ON p.n = d.n "
            f"WHERE d.key = ? AND d.row = ? AND d.task = ? AND {self._sample} = ?"
        )
        found = self._db.execute(sql, (key, row, task, sample)).fetchone()
        if found is None:
            return None
        n, shard, text = found
        if text is None and shard is not None:
            text = shards.read_from_shard(self._shard(shard), n)
        return None if text is None else TrajectoryRecord.model_validate_json(text)

    def trajectories(self, file: str, row: int, task: str, samples: Iterable[int]) -> dict[int, TrajectoryRecord]:
        """Those of some samples of one question that are there, by sample; one of a damaged shard is not."""
        wanted = sorted(samples)
        sql = (
            "SELECT d.sample, d.n, d.shard, p.trajectory FROM decisions d LEFT JOIN pending p ON p.n = d.n WHERE "
            f"d.key = ? AND d.row = ? AND d.task = ? AND d.sample IN ({', '.join('?' * len(wanted))})"
        )
        texts: dict[int, str] = {}
        moved: dict[int, dict[int, int]] = {}
        for sample, n, part, text in self._db.execute(sql, (self.key(file), row, task, *wanted)):
            if text is not None:
                texts[sample] = text
            elif part is not None:
                moved.setdefault(part, {})[n] = sample
        for part, numbers in moved.items():
            try:
                found = shards.read_some(self._shard(part), numbers)
            except (OSError, ValueError, KeyError) as e:
                warnings.warn(f"{self._shard(part)}: cannot be read ({e}); its trajectories are left out", stacklevel=2)
                continue
            texts |= {numbers[n]: text for n, text in found.items()}
        return {sample: TrajectoryRecord.model_validate_json(text) for sample, text in texts.items()}

    def newest_ends(self, at_most: int = 1_000) -> list[float]:
        """When the newest trajectories were over, in seconds since 1970, newest decision first; for those who watch."""
        begun = "json_extract(p.trajectory, '$.started'), json_extract(p.trajectory, '$.seconds')"
        sql = f"SELECT {begun}, d.shard FROM decisions d LEFT JOIN pending p ON p.n = d.n ORDER BY d.n DESC LIMIT ?"
        found = self._db.execute(sql, (at_most,)).fetchall()
        timed = [(started, seconds) for started, seconds, _ in found if started is not None]
        for part in sorted({part for _, _, part in found if part is not None}, reverse=True):
            if len(timed) < at_most:
                timed += reversed(shards.read_times(self._shard(part)))
        return [datetime.fromisoformat(started).timestamp() + float(seconds) for started, seconds in timed[:at_most]]

    def count(self) -> dict[str, dict[str, int]]:
        """Decisions by task and answer; unreadable files under the task `*`."""
        out: dict[str, dict[str, int]] = {}
        for (task, answer), n in sorted(self._tally().items()):
            out.setdefault(task, {})[answer] = n
        return out

    def events(self) -> Iterator[Event]:
        """What happened, oldest first."""
        yield from (Event(*e) for e in self._db.execute("SELECT at, kind, text FROM events ORDER BY n").fetchall())

    def sessions(self) -> tuple[Session, ...]:
        """Who worked on it, oldest first."""
        found = self._db.execute("SELECT session FROM sessions ORDER BY n").fetchall()
        return tuple(Session.model_validate_json(text) for (text,) in found)

    def receipt(self) -> Receipt:
        """What makes the run checkable, as of now; reads the whole table of decisions."""
        return make_receipt(self._db)

    def _readable(self, part: int) -> Iterator[tuple[int, str]]:
        """What a shard holds, as far as it can be read; verdicts stand in `run.db` and do not hang on it."""
        try:
            yield from shards.read_shard(self._shard(part))
        except (OSError, ValueError, KeyError) as e:  # pyarrow's errors are ValueErrors
            warnings.warn(f"{self._shard(part)}: cannot be read ({e}); its trajectories are left out", stacklevel=2)

    def _shard(self, part: int) -> Path:
        return shards.shard_path(self.path / "trajectories", part)

    def _below(self, path: str) -> str:
        """A normalised path as the run knows it: relative to its first session's working folder where it can be."""
        below = self._cwd.rstrip(os.sep) + os.sep
        return path[len(below) :] if self._cwd and path.startswith(below) else path

    def _meta(self, key: str) -> str | None:
        found = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def _tally(self) -> Mapping[tuple[str, str], int]:
        sql = "SELECT task, answer, count(*) FROM decisions GROUP BY task, answer"
        return {(task, answer): n for task, answer, n in self._db.execute(sql)}


def _decision(rest: str, trajectory: str | None, **identity: Any) -> Decision:
    fields = {**json.loads(rest), **identity}
    if trajectory is not None:
        fields["trajectory"] = TrajectoryRecord.model_validate_json(trajectory)
    return Decision.model_validate(fields)
