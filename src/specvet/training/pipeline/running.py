"""Running stages: what is done is skipped, what is ready runs, several at a time where they do not need it alone.

    OUT/pipeline.json      each stage that is done: its command, when, how long it took, SHA-256 of what it made
    OUT/logs/STAGE.log     what the commands said

A stage is a process of its own, so that memory comes back, and a crash is one stage's. One that was interrupted goes on
when it is run again, since its command does.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from specvet.data.processes import cores
from specvet.records import file_hash, write_atomic
from specvet.records.lock import FolderLock
from specvet.training.config import ConfigError
from specvet.training.pipeline.stages import Stage

FILE = "pipeline.json"
POLL_S, READ_S = 0.05, 5.0
GRACE_S = 90.0
"""Between asking a stage to stop and ending it."""

Told = Callable[[str, str], None]
"""Hears of (stage, line)."""


class StageError(RuntimeError):
    """A stage whose command failed, or made nothing; the message names it and its log."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a stage that is done."""

    command: str
    identity: str
    """See `Stage.identity`."""
    makes: str
    sha256: str | None
    """Of what it made; None of a folder."""
    seconds: float
    ended: str
    """UTC, ISO 8601."""


class PipelineFolder:
    """The folder of a pipeline, as a context manager: one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path / FILE
        self._lock: FolderLock | None = None

    def __enter__(self) -> PipelineFolder:
        """Raises RunLockedError where another process is at it, OSError."""
        (self.path / "logs").mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def records(self) -> dict[str, Record]:
        """Of the stages that are done, by name. Raises ConfigError for a damaged file."""
        try:
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            return {name: Record(**of) for name, of in kept["stages"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ConfigError(f"{self._file}: is damaged ({e}); remove it, and every stage looks for itself") from None

    def done(self, stage: Stage) -> bool:
        """Whether this very stage is done, and what it made is there."""
        record = self.records().get(stage.name)
        return record is not None and record.identity == stage.identity and stage.makes.exists()

    def keep(self, stage: Stage, seconds: float) -> None:
        """A stage is done."""
        made = stage.makes
        record = Record(
            shlex.join(["specvet", *stage.line]),
            stage.identity,
            str(made),
            file_hash(made) if made.is_file() else None,
            round(seconds, 1),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        kept = {name: asdict(of) for name, of in (self.records() | {stage.name: record}).items()}
        write_atomic(self._file, json.dumps({"stages": kept}, indent=1, ensure_ascii=False) + "\n")

    def log(self, stage: Stage) -> Path:
        return self.path / "logs" / f"{stage.name}.log"


@dataclass(frozen=True, slots=True)
class Limits:
    """In minutes. What is over its limit is asked to stop as by Ctrl-C, and goes on when it is run again."""

    all: float | None = None
    """Of this call."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Of each stage, by name or kind; the name goes first."""

    def of(self, stage: Stage) -> float | None:
        return self.stages.get(stage.name, self.stages.get(stage.kind))


def run_stages(
    folder: PipelineFolder,
    stages: Sequence[Stage],
    *,
    stop: threading.Event,
    told: Told,
    at_once: int = 1,
    limits: Limits = Limits(),
    program: Sequence[str] = (sys.executable, "-m", "specvet"),
) -> bool:
    """Run those that are not done, in their order; whether all are done, False where `stop` was set or time was up.

    At most `at_once` run at a time and share the cores. `told` hears each line that they say, and where one begins and
    ends. When one fails, those that need it are not begun, and all others are. Raises StageError, ConfigError for a
    need that is neither done nor among them, OSError.
    """
    waiting = [stage for stage in stages if not folder.done(stage)]
    done = set(folder.records()) - {stage.name for stage in waiting}
    known = done | {stage.name for stage in waiting}
    for stage in waiting:
        if missing := [name for name in stage.needs if name not in known]:
            raise ConfigError(f"{stage.name} needs {', '.join(missing)}, which is not done; run that first")
    end = math.inf if limits.all is None else time.monotonic() + 60 * limits.all
    running: list[_Running] = []
    failed: dict[str, str] = {}
    try:
        while running or (not stop.is_set() and _could(waiting, failed)):
            for one in [one for one in running if one.over]:
                running.remove(one)
                if not (problem := one.problem()):
                    folder.keep(one.stage, one.seconds)
                    done.add(one.stage.name)
                    told(one.stage.name, f"done after {one.seconds / 60:.1f} min")
                elif stop.is_set():
                    told(one.stage.name, "stopped")
                else:
                    failed[one.stage.name] = problem
                    told(one.stage.name, f"failed after {one.seconds / 60:.1f} min")
            if time.monotonic() > end and not stop.is_set():
                told("pipeline", f"its {limits.all:g} minutes are over")
                stop.set()
            if stop.is_set():
                for one in running:
                    one.interrupt()
            elif (ready := _ready(waiting, running, done, at_once)) is not None:
                waiting.remove(ready)
                running.append(_Running(ready, folder.log(ready), program, told, at_once, limits.of(ready)))
                continue
            for one in running:
                one.limit()
            time.sleep(POLL_S)
    except BaseException:
        for one in running:
            one.kill()
        raise
    if failed:
        raise StageError("\n".join(failed.values()))
    return not waiting and not stop.is_set()


def _could(waiting: Sequence[Stage], failed: Collection[str]) -> bool:
    """Whether one of those that wait can still begin: none that it needs, or that these need, has failed."""
    lost = set(failed)
    for stage in waiting:  # in an order in which needs come first
        if lost & set(stage.needs):
            lost.add(stage.name)
    return any(stage.name not in lost for stage in waiting)


def _ready(waiting: Sequence[Stage], running: Sequence[_Running], done: set[str], at_once: int) -> Stage | None:
    """The next that can begin now."""
    if len(running) >= at_once or any(one.stage.alone for one in running):
        return None
    for stage in waiting:
        if done.issuperset(stage.needs):
            return None if stage.alone and running else stage
    return None


class _Running:
    """A stage under way: its process, and a thread that hands on what it says."""

    def __init__(
        self, stage: Stage, log: Path, program: Sequence[str], told: Told, at_once: int, limit: float | None
    ) -> None:
        self.stage, self._log, self._told, self._limit = stage, log, told, limit
        for path, text in stage.writes.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
        self._began = time.monotonic()
        self._interrupted: float | None = None
        told(stage.name, shlex.join(["specvet", *stage.line]))
        threads = max(1, cores() // (1 if stage.alone else at_once))
        self._process = subprocess.Popen(
            [*program, *stage.line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is this process's, which hands it on once
            env={"OMP_NUM_THREADS": str(threads)} | os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        self._reader = threading.Thread(target=self._read, name=f"stage-{stage.name}", daemon=True)
        self._reader.start()

    @property
    def over(self) -> bool:
        return self._process.poll() is not None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def problem(self) -> str:
        """What went wrong; empty where nothing did."""
        self._reader.join(READ_S)  # a process of its own that outlives it may keep the pipe open
        name = self.stage.name
        if self._process.returncode and self._interrupted is not None:
            return (
                f"{name} was stopped after its {self._limit or 0:g} minutes; the same command goes on; see {self._log}"
            )
        if self._process.returncode:
            return f"{name} ended with exit code {self._process.returncode}; see {self._log}"
        if not self.stage.makes.exists():
            return f"{name} ended without {self.stage.makes}; see {self._log}"
        return ""

    def interrupt(self) -> None:
        """Ask it once to stop, as Ctrl-C does; end it where it does not."""
        if self._interrupted is None:
            self._interrupted = time.monotonic()
            self._process.send_signal(signal.SIGINT)
        elif time.monotonic() - self._interrupted > GRACE_S and not self.over:
            self._told(self.stage.name, f"did not stop within {GRACE_S:g} s and was ended")
            self.kill()

    def limit(self) -> None:
        """Ask it to stop when its time is over."""
        if self._limit is not None and self.seconds > 60 * self._limit:
            self.interrupt()

    def kill(self) -> None:
        """End it and the processes that it has started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said, self._log.open("ab") as log:
            for line in said:
                log.write(line)
                log.flush()
                self._told(self.stage.name, line.decode("utf-8", "replace").rstrip())
