"""The session that works on a run now, and the receipt it keeps up to date."""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specvet.records.database import transaction
from specvet.records.files import write_atomic
from specvet.records.hashing import text_hash
from specvet.records.receipt import Inputs, Receipt, Session, versions
from specvet.records.settings import TASK, plain

Sums = Mapping[str, Mapping[str, int]]
"""Numbers by task and name."""


def added(many: Iterable[Sums]) -> dict[str, dict[str, int]]:
    """All of them, added up."""
    total: dict[str, dict[str, int]] = {}
    for sums in many:
        for task, numbers in sums.items():
            of_task = total.setdefault(task, {})
            for name, n in numbers.items():
                of_task[name] = of_task.get(name, 0) + n
    return total


class RunSession:
    """One process's work on a run: part of the receipt, which is rewritten every `receipt_every_s` and at the end."""

    def __init__(
        self,
        folder: Path,
        db: sqlite3.Connection,
        file: Path,
        receipt_every_s: float,
        asked: Mapping[str, Any],
    ) -> None:
        self._folder, self._db, self._file = folder, db, file
        self._every_s = receipt_every_s
        self._clock = time.perf_counter()
        here = platform.platform()
        self._session = Session(
            started=_now(), specvet=versions().get("specvet", ""), host_platform=here, asked=plain(asked)
        )
        before = db.execute("SELECT session FROM sessions ORDER BY n DESC LIMIT 1").fetchone()
        self._before = None if before is None else Session.model_validate_json(before[0])
        with transaction(db, file):
            cursor = db.execute("INSERT INTO sessions(session) VALUES (?)", (self._session.model_dump_json(),))
        self.n = int(cursor.lastrowid or 0)
        """Number of the session in its run, from 1."""
        self._next = time.perf_counter()
        self._write(closed=False)

    def changes(self, cwd: str, first_cwd: str, joined: bool = False) -> Iterator[tuple[str, str]]:
        """(kind, text) of what differs from earlier sessions without being able to make the run wrong by itself.

        `joined`: others are at work.
        """
        if self._before is None:
            return
        if joined:
            yield "joined", f"session {self.n}, beside others"
        else:
            ended = "" if self._before.ended else "; the one before did not end by itself"
            yield "resumed", f"session {self.n}{ended}"
        if self._before.specvet != self._session.specvet:
            yield "version", f"specvet {self._before.specvet} before, {self._session.specvet} now"
        if cwd != first_cwd:
            yield (
                "folder",
                f"working folder {first_cwd} at first, {cwd} now; relative paths start where one is now",
            )

    def decided(self, n: int, sums: Sums) -> None:
        """Count decisions, and what their trajectories sum up to; rewrite the receipt when it is due."""
        self._session = self._session.model_copy(update=self._with(n, sums))
        if time.perf_counter() >= self._next:
            self._write(closed=False)

    def _with(self, decided: int, sums: Sums) -> dict[str, Any]:
        update: dict[str, Any] = {"decided": self._session.decided + decided}
        return update | ({"sums": added([self._session.sums, sums])} if sums else {})

    def keep(self, db: sqlite3.Connection, decided: int, sums: Sums) -> None:
        """Write what a model has used, beside decisions and in their transaction: a kill loses neither alone.

        Without a model the row is written with the receipt only: it would cost as much as a decision.
        """
        if self._session.usage or sums:
            seconds = round(time.perf_counter() - self._clock, 3)
            update = self._with(decided, sums) | {"seconds": seconds}
            written = self._session.model_copy(update=update).model_dump_json()
            db.execute("UPDATE sessions SET session = ? WHERE n = ?", (written, self.n))

    def add(self, **amounts: int | float) -> None:
        """Add to fields of the `Session`: `add(skipped=3)`."""
        update = {name: getattr(self._session, name) + amount for name, amount in amounts.items()}
        self._session = self._session.model_copy(update=update)

    def tell(
        self, *, usage: Mapping[str, float] | None = None, probes: Iterable[Mapping[str, Any]] | None = None
    ) -> None:
        """Set what a model has used so far and how it stood the probes; None leaves what was said."""
        update: dict[str, Any] = {}
        if usage is not None:
            # What probes used stays told apart also where they ended the session, and nobody names it again.
            probed = {name: of for name, of in self._session.usage.items() if name.startswith("probes.")}
            used = probed | {name: round(float(amount), 6) for name, amount in usage.items()}
            update["usage"] = used
            for field, name in (("tokens_in", "prompt_tokens"), ("tokens_out", "sampled_tokens")):
                if name in used:
                    update[field] = int(used[name] - used.get(f"probes.{name}", 0.0))
            update["cost"] = used.get("cost", self._session.cost)
        if probes is not None:
            update["probes"] = tuple(plain(probe) for probe in probes)
        self._session = self._session.model_copy(update=update)

    def interrupt(self) -> None:
        """Note that somebody stopped it before it was through."""
        self._session = self._session.model_copy(update={"interrupted": True})

    def end(self) -> None:
        """Close the session and write the final receipt."""
        self._session = self._session.model_copy(update={"ended": _now()})
        self._write(closed=True)

    def _write(self, closed: bool) -> None:
        tick = time.perf_counter()
        self._session = self._session.model_copy(update={"seconds": round(tick - self._clock, 3)})
        with transaction(self._db, self._file) as db:
            db.execute("UPDATE sessions SET session = ? WHERE n = ?", (self._session.model_dump_json(), self.n))
        receipt = make_receipt(self._db, closed)
        write_atomic(self._folder / "receipt.json", receipt.model_dump_json(indent=2) + "\n")
        now = time.perf_counter()
        # Counting takes a second at a million rows: never more than 2% of the time goes into receipts.
        self._next = now + max(self._every_s, 50 * (now - tick))


def make_receipt(db: sqlite3.Connection, closed: bool = True) -> Receipt:
    """The receipt of a run, from its database; `closed` False leaves out what needs a pass over all inputs."""
    meta = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('kind', 'settings', 'created', 'training')"))
    settings = json.loads(meta["settings"])
    tasks = {k.removeprefix(TASK): str(v) for k, v in sorted(settings.items()) if k.startswith(TASK)}
    others = {k: v for k, v in sorted(settings.items()) if not k.startswith(TASK)}
    sessions = tuple(Session.model_validate_json(s) for (s,) in db.execute("SELECT session FROM sessions ORDER BY n"))
    answers: dict[str, dict[str, int]] = {}
    stops: dict[str, dict[str, int]] = {}
    decisions = 0
    grouped = "SELECT task, answer, stop, count(*) FROM decisions GROUP BY task, answer, stop"
    for task, answer, stop, n in db.execute(grouped):
        decisions += n
        for table, value in ((answers, answer), (stops, stop)):
            if value is not None:
                of_task = table.setdefault(task, {})
                of_task[value] = of_task.get(value, 0) + n
    usage: dict[str, float] = {}
    for session in sessions:
        for name, amount in session.usage.items():
            usage[name] = round(usage.get(name, 0.0) + amount, 6)
    inputs = _inputs(db) if closed else None
    seconds = sum(s.seconds for s in sessions)
    return Receipt(
        kind=meta["kind"],
        policy=others.get("policy"),
        settings=others,
        settings_hash=text_hash(json.dumps(others, sort_keys=True, ensure_ascii=False)),
        task_hashes=tasks,
        inputs=inputs,
        answers=answers,
        stops=stops,
        sums=added(s.sums for s in sessions),
        decisions=decisions,
        tokens_in=sum(s.tokens_in for s in sessions),
        tokens_out=sum(s.tokens_out for s in sessions),
        cost=sum(s.cost for s in sessions),
        usage=usage,
        probes=next((s.probes for s in reversed(sessions) if s.probes), ()),
        training=json.loads(meta.get("training", "{}")),
        started=meta["created"],
        ended=sessions[-1].ended if sessions else None,
        seconds=round(seconds, 3),
        spectra_per_second=round(inputs.spectra / seconds, 3) if inputs and seconds > 0 else None,
        versions=versions(),
        platform=platform.platform(),
        sessions=sessions,
    )


def _inputs(db: sqlite3.Connection) -> Inputs:
    digest = hashlib.sha256()
    distinct = "SELECT DISTINCT spectrum_hash FROM decisions WHERE spectrum_hash IS NOT NULL ORDER BY spectrum_hash"
    for (content,) in db.execute(distinct):
        digest.update(content)
    (files,) = db.execute("SELECT count(DISTINCT key) FROM decisions").fetchone()
    rows = "SELECT count(*) FROM (SELECT DISTINCT key, row FROM decisions WHERE task <> '*')"
    return Inputs(files=files, spectra=db.execute(rows).fetchone()[0], hash=digest.hexdigest())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
