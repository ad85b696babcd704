"""The `TrainingRun`: a run folder with metrics and checkpoints, and all that makes it go on after any kill.

    config.yaml  receipt.json  run.db  trajectories/  images/       as every run folder
    metrics.jsonl      one JSON object a line: `step`, `validation`, `dev`; never NaN
    rejects.jsonl      data that nothing is learnt from, and why
    checkpoints/NAME/  see `specvet.training.checkpoints`
    failed_batch.json  what was trained on when a loss or gradient was no number

Going on is opening the same folder with the same settings: training stands where the newest checkpoint stands, and
`metrics.jsonl` is cut back to it. What comes after is made again, from the same order, seeds and recorded trajectories,
so that it equals a run that never stopped. What a run costs is told twice: `metrics.jsonl` has each step once, as if it
had never stopped; the receipt has what every session really used.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from specvet.data.errors import Reject
from specvet.records import RunFolder, file_hash, text_hash, write_atomic
from specvet.records.errors import naming_a_full_disk
from specvet.records.settings import flat
from specvet.tasks import Task, task_text
from specvet.training.checkpoints import (
    FILE,
    Checkpoint,
    checkpoints,
    latest,
    remove_drafts,
    write_checkpoint,
)
from specvet.training.config import ConfigError, TrainConfig
from specvet.training.estimate import Price, cost
from specvet.training.identity import same_start
from specvet.training.order import Position
from specvet.training.profiles import load_profile
from specvet.training.trainer import NotFiniteError, Trainer
from specvet.training.used import Used

FREE = frozenset(
    {
        "profile",
        *(f"model.{name}" for name in ("device", "base_url", "timeout_s")),
        *(f"method.{name}" for name in ("gradient_checkpointing", "micro_tokens", "processes")),
        "start",
        *(f"loop.{name}" for name in ("data", "validation", "dev", "dev_temperature")),
        *(f"loop.{name}" for name in ("save_every", "save_epochs", "concurrency", "processes", "epochs", "max_steps")),
    }
)
"""Settings that may differ when a run goes on: where and how fast it is computed, how often it is saved, and how long
it is. Data and the checkpoint to begin from count by what they hold and not by where they lie. Where the learning rate
depends on the run's length (cosine, linear, a warm-up that is a share) the length must stay too."""

_LENGTH = {"loop.epochs", "loop.max_steps"}


class Watch(Protocol):
    """Whoever watches a run: bars, trackers, alarms. Called on the loop's own thread; must not block."""

    stopping: bool
    """Somebody wants it to end: it does after the step under way, with a checkpoint."""

    def started(self, config: TrainConfig, run: TrainingRun) -> None:
        """Before the first step of this session; `run.position` tells where it goes on from."""
        ...

    def batch(self, n: int) -> None:
        """A batch of `n` trajectories begins; again with more where groups are refilled."""
        ...

    def trajectory(self) -> None:
        """One of them is over, or was read back."""
        ...

    def step(self, metrics: Mapping[str, Any]) -> None:
        """A line of `metrics.jsonl`, of any kind."""
        ...

    def message(self, text: str) -> None:
        """Something for people."""
        ...

    def close(self) -> None:
        """Called by whoever made it."""
        ...


class Unwatched:
    """A `Watch` that nobody looks at."""

    stopping = False

    def started(self, config: TrainConfig, run: TrainingRun) -> None: ...
    def batch(self, n: int) -> None: ...
    def trajectory(self) -> None: ...
    def step(self, metrics: Mapping[str, Any]) -> None: ...
    def message(self, text: str) -> None: ...
    def close(self) -> None: ...


def tell(watch: Watch, trainer: Trainer) -> None:
    """Hand on what the trainer has to say."""
    while trainer.messages:
        watch.message(trainer.messages.pop(0))


class TrainingRun:
    """A training run on disk, made by `open`; a context manager."""

    def __init__(self, folder: RunFolder, config: TrainConfig, checkpoint: Checkpoint | None, price: Price | None):
        self.folder, self.config = folder, config
        self.checkpoint = checkpoint
        """The newest one; a run goes on from it."""
        self.used = Used()
        """What this session has used."""
        self._price = price
        self._rejected = 0
        self._saving = 0.0
        self._metrics = self.path / "metrics.jsonl"
        self._checkpoints = {c.name: _hash(c) for c in checkpoints(self.path)}
        self.lost = ""
        """What is missing of a run that goes on, for people; told once."""
        if checkpoint is not None and not self._metrics.exists():
            self.lost = (
                f"{self._metrics} is gone: the lines of the first {checkpoint.step} steps, and what they cost, are "
                "lost; the run goes on from its checkpoint"
            )
            folder.event("metrics", self.lost)
        self._lines = _cut_back(self._metrics, checkpoint.step if checkpoint else 0)
        spent = [line.get("cost") for line in self._lines if line["kind"] == "step"]
        self._cost: float | None = spent[-1] if spent else 0.0

    @classmethod
    def open(cls, path: str | os.PathLike[str], config: TrainConfig, price: Price | None = None) -> TrainingRun:
        """Create a run, or go on with it.

        Raises `RunMismatchError` for settings that differ from the run's (`FREE` ones may), CheckpointError for a
        damaged checkpoint, and as `RunFolder.open`.
        """
        folder = RunFolder.open(path, "train", config.model_dump(mode="json"))
        try:
            start = same_start(config.start, folder.config.get("start"), str(folder.settings.get("start")))
            folder.settle(settled(config) | {"start": start})
            remove_drafts(folder.path)
            return cls(folder, config, latest(folder.path), price)
        except BaseException:
            folder.close()
            raise

    def __enter__(self) -> TrainingRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.folder.note_session(interrupted=True)
        self.folder.__exit__(kind, error, trace)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def position(self) -> Position:
        """Where it goes on from: where the newest checkpoint stands."""
        return self.checkpoint.position if self.checkpoint else Position()

    def hold(self, data: Mapping[str, str]) -> None:
        """Hold data against those that the run was made with, by what they hold (`specvet.training.identity`): `data`,
        and `validation` or `dev`. Raises `RunMismatchError`."""
        self.folder.settle(data)

    def begin(self, trainer: Trainer, tasks: Iterable[Task] = ()) -> Position:
        """Hold what is trained against what the run was made with. Raises `RunMismatchError`."""
        of_tasks = {task.key: task for task in tasks}
        self.folder.settle(
            {
                "trainer": trainer.name,
                "trainer_fingerprint": trainer.fingerprint,
                "format": trainer.format.name,
                "vocabulary": trainer.format.vocabulary.fingerprint,
                "tasks": {key: text_hash(task.asked()) for key, task in of_tasks.items()},
            }
        )
        for key, task in of_tasks.items():
            write_atomic(self.path / "tasks" / f"{key}.yaml", task_text(task))
        self.used.trainer = trainer
        return self.position

    def reject(self, rejects: Sequence[Reject]) -> None:
        """List what nothing is learnt from in `rejects.jsonl`; the receipt counts it."""
        self._rejected = len(rejects)
        lines = [json.dumps(asdict(reject), ensure_ascii=False) for reject in rejects]
        write_atomic(self.path / "rejects.jsonl", "".join(f"{line}\n" for line in lines))

    # --- metrics

    def log(self, kind: str, at: Position, seconds: float, **numbers: Any) -> Mapping[str, Any]:
        """Write one line, with what has been used so far beside it in `run.db`; returns it."""
        line: dict[str, Any] = {"kind": kind, "step": at.step, "epoch": at.of_epoch, "seconds": round(seconds, 3)}
        line |= {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        line |= {name: round(n, 3) if name.startswith("seconds") else n for name, n in numbers.items()}
        if kind == "step":
            line["cost"] = self._spent({"trained_tokens": numbers.get("tokens", 0), **numbers})
            line["seconds_save"], self._saving = round(self._saving, 3), 0.0
        for part in ("rollout", "train") if "seconds_rollout" in numbers else ("train" if kind == "step" else kind,):
            self.used.spent(part, numbers.get(f"seconds_{part}", seconds))
        line = _without_nan(line)
        with naming_a_full_disk(self._metrics), self._metrics.open("ab") as file:
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._lines.append(line)
        self._note(at)
        return line

    def has(self, kind: str, at: Position) -> bool:
        """Whether there is a line of this kind at this step."""
        return any(line["kind"] == kind and line["step"] == at.step for line in self._lines)

    def _spent(self, numbers: Mapping[str, Any]) -> float | None:
        """The running total; None as soon as anything had no price."""
        spent = cost(numbers, self._price)
        self._cost = None if spent is None or self._cost is None else round(self._cost + spent, 6)
        return self._cost

    # --- checkpoints

    async def save(self, trainer: Trainer, at: Position) -> str:
        """Save the weights as the checkpoint of this position.

        Returns what to tell people: where it lies, and the command that begins from it.

        Raises DiskFullError and TrainerError; earlier checkpoints stay as they are.
        """
        started = time.perf_counter()
        self.checkpoint = await write_checkpoint(trainer, self.path, at, self.config)
        self._checkpoints[at.name] = _hash(self.checkpoint)
        seconds = time.perf_counter() - started
        self._saving += seconds
        self.used.spent("save", seconds)
        self._note(at)
        made = self.checkpoint
        there = f" (state {made.state}, sampler {made.sampler})" if "://" in made.state else ""
        return f"saved {made.folder}{there}; to go on from it: {next_command(self.config, made)}"

    def _note(self, at: Position) -> None:
        """How far it has come and what it has used, on disk and into the receipt."""
        self.folder.note_session(usage=self.used.numbers())
        self.folder.note_training(
            {
                **asdict(at),
                "checkpoints": self._checkpoints,
                "rejected": self._rejected,
                "cost": self._cost if self._price else None,
                "currency": self._price.currency if self._price else None,
            }
        )

    # --- what goes wrong

    @contextmanager
    def naming_the_batch(self, at: Position, ids: Sequence[str]) -> Iterator[None]:
        """A loss or gradient that is no number stops the run; the batch that gave it goes to `failed_batch.json`."""
        try:
            yield
        except NotFiniteError as e:
            file = self.path / "failed_batch.json"
            told = {"step": at.step + 1, "epoch": at.epoch + 1, "error": str(e), "ids": list(ids)}
            write_atomic(file, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
            back = f"the checkpoint {self.checkpoint.name} is intact" if self.checkpoint else "nothing was saved before"
            raise NotFiniteError(
                f"{e} (step {at.step + 1}; {file} lists the batch); {back}. A lower learning rate may help: begin "
                "again from an earlier checkpoint with --from and another --out"
            ) from e


def settled(config: TrainConfig) -> dict[str, Any]:
    """The settings that a run which goes on must share with its beginning, named as `--set` names them."""
    free = FREE - (_LENGTH if config.loop.optimiser.depends_on_length else set())
    kept = {name: value for name, value in flat(config.model_dump(mode="json")).items() if name not in free}
    return {re.sub(r"^loop\.", f"{config.stage}.", name): value for name, value in kept.items()}


def next_command(config: TrainConfig, checkpoint: Checkpoint) -> str:
    """The command that trains on from a checkpoint, in a run of its own: GRPO, with the settings at hand."""
    run = checkpoint.folder.parents[1]
    if config.stage == "grpo":
        parts = ["--config", str(run / "config.yaml"), "--from", str(checkpoint.folder), "--out", f"{run}-next"]
        return shlex.join(["specvet", "train", "grpo", *parts])
    parts = ["--profile", config.profile, "--backend", config.backend, "--from", str(checkpoint.folder)]
    parts += ["--base-url", config.model.base_url] if config.model.base_url else []
    with suppress(ConfigError):  # of a file that has gone
        theirs = load_profile(config.profile).grpo.data
        # Whoever has learnt from demonstrations of their own has questions of their own.
        named = theirs is not None and (theirs != "toy" or config.loop.data == "toy")
        parts += [] if named else ["--data", "QUESTIONS.jsonl"]
    return shlex.join(["specvet", "train", "grpo", *parts, "--out", f"{run}-grpo"])


def _cut_back(file: Path, step: int) -> list[dict[str, Any]]:
    """The lines up to a step; those after it, and half a line that a kill has left, are removed from the file."""
    if not file.exists():
        return []
    raw = file.read_bytes()
    whole = [line for text in raw.split(b"\n") if (line := _line(text)) is not None]
    kept = [line for line in whole if line["step"] <= step]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
    if text.encode() != raw:
        write_atomic(file, text)
    return kept


def _line(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) and "kind" in line else None


def _hash(checkpoint: Checkpoint) -> str:
    return file_hash(checkpoint.folder / FILE)


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nan(of) for name, of in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
