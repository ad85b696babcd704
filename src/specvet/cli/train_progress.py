"""How far training has come: bars on a terminal, else a line now and then; always on stderr."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specvet.cli.console import say
from specvet.cli.progress import Shown, bars, duration, rate_text, shown

if TYPE_CHECKING:
    from specvet.training.config import TrainConfig
    from specvet.training.run import TrainingRun

_STOPPING = "finishing the step under way, then saving; Ctrl-C again aborts it"


@dataclass(slots=True)
class TrainProgress:
    """How far a run has come."""

    stage: str
    rows: int
    """Demonstrations, or questions, of an epoch."""
    epochs: int
    steps: int
    """Of all epochs."""
    group: int = 1
    """Trajectories of each question."""
    questions: int = 0
    """Of a rollout batch; 0: no step ends the run before its epochs do."""
    step: int = 0
    done: int = 0
    """Steps of SFT, trajectories of GRPO; what was there when this session began included."""
    before: int = 0
    """Of them, those that were."""
    batch: int = 0
    """Trajectories of the batch under way."""
    batch_done: int = 0
    dev: int = 0
    """Dev questions that are answered; of none once all are."""
    dev_total: int = 0
    note: str = ""
    """What the last step gave."""
    seconds: float = 0.0
    """Of this session."""

    @property
    def total(self) -> int:
        if self.stage == "sft":
            return self.steps
        if not self.questions:
            return self.rows * self.epochs * self.group
        epochs, steps = divmod(self.steps, -(-self.rows // self.questions))
        return (epochs * self.rows + steps * self.questions) * self.group


def shown_training(quiet: bool, stage: str) -> AbstractContextManager[Shown[TrainProgress]]:
    """How far training has come: a bar of steps (SFT), or one of trajectories and one of the batch (GRPO)."""

    @contextmanager
    def barred() -> Iterator[_Bars]:
        with bars() as made:
            yield _Bars(made, stage)

    return shown(quiet, barred, training_line, _STOPPING)


class _Bars:
    def __init__(self, bars: Any, stage: str) -> None:
        self._bars = bars
        self._stage = stage
        self._all: Any = None
        self._batch = bars.add_task("step", total=None, note="", visible=False) if stage == "grpo" else None
        self._stopping = False

    def __call__(self, progress: TrainProgress) -> None:
        p = progress
        note = "saving after this step; Ctrl-C again aborts it" if self._stopping else p.note
        if self._all is None:  # here, since a rate is counted from what a bar begins with
            word = "steps" if self._stage == "sft" else "trajectories"
            self._all = self._bars.add_task(word, total=p.total, completed=p.before, note="")
        self._bars.update(self._all, completed=p.done, total=max(p.total, p.done), note=note)
        if self._batch is not None:
            told = f"step {min(p.step + 1, p.steps):,} of {p.steps:,}"
            done, total = p.batch_done, p.batch
            if p.dev_total:
                told, done, total = f"dev questions, step {p.step:,}", p.dev, p.dev_total
            self._bars.update(self._batch, description=told, completed=done, total=total or None, visible=bool(total))

    def stopping(self) -> None:
        self._stopping = True
        if self._all is not None:
            self._bars.update(self._all, description="stopping", note="saving after this step; Ctrl-C again aborts it")


def training_line(p: TrainProgress) -> str:
    """`768 of 24,864 trajectories done (step 12 of 389), 2.31 a second, reward 0.612, about 2 h 54 min left`."""
    what = "steps" if p.stage == "sft" else "trajectories"
    parts = [f"{p.done:,} of {p.total:,} {what} done"]
    if p.stage == "grpo":
        parts[0] += f" (step {min(p.step + 1, p.steps):,} of {p.steps:,})"
    if p.dev_total:
        parts.append(f"{p.dev:,} of {p.dev_total:,} dev questions answered")
    rate = (p.done - p.before) / p.seconds if p.seconds > 0 else 0.0
    if rate:
        parts.append(f"{rate_text(rate)} a second")
    if p.note:
        parts.append(p.note)
    if rate and p.done < p.total:
        parts.append(f"about {duration((p.total - p.done) / rate)} left")
    return ", ".join(parts)


class Watched:
    """A `specvet.training.run.Watch` that shows how far it has come, and hears Ctrl-C (`stop`)."""

    def __init__(
        self, progress: TrainProgress, shown: Shown[TrainProgress], stop: threading.Event, quiet: bool = False
    ) -> None:
        self._progress, self._shown, self._stop, self._quiet = progress, shown, stop, quiet
        self._clock = time.perf_counter()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    @stopping.setter
    def stopping(self, value: bool) -> None:
        (self._stop.set if value else self._stop.clear)()

    def started(self, config: TrainConfig, run: TrainingRun) -> None:
        p, at = self._progress, run.position
        p.step = at.step
        p.done = p.before = at.step if p.stage == "sft" else (at.epoch * p.rows + at.cursor) * p.group
        self._clock = time.perf_counter()
        self._tell()

    def batch(self, n: int) -> None:
        p = self._progress
        p.batch = p.batch + n if p.batch_done else n  # more of the same batch, where it is refilled
        self._tell()

    def trajectory(self) -> None:
        self._progress.batch_done += 1
        self._progress.done += 1
        self._tell()

    def step(self, metrics: Mapping[str, Any]) -> None:
        p = self._progress
        if metrics.get("kind") == "step":
            p.step = int(metrics["step"])
            p.batch = p.batch_done = 0
            if p.stage == "sft":
                p.done = p.step
        p.note = note(metrics) or p.note
        self._tell()

    def dev(self, done: int, total: int) -> None:
        """So many of the dev questions are answered."""
        self._progress.dev, self._progress.dev_total = done, total if done < total else 0
        self._tell()

    def message(self, text: str) -> None:
        if not self._quiet:
            say(text)

    def close(self) -> None:
        pass

    def _tell(self) -> None:
        self._progress.seconds = time.perf_counter() - self._clock
        self._shown(self._progress)


_NOTED = {
    "step": (("reward_mean", "reward"), ("accuracy", "right"), ("loss", "loss")),
    "validation": (("loss", "validation loss"),),
    "dev": (("accuracy", "dev right"), ("macro_f1", "dev macro F1")),
}


def note(metrics: Mapping[str, Any]) -> str:
    """`reward 0.612, right 0.703, loss -0.004` of a line of metrics."""
    named = _NOTED.get(str(metrics.get("kind")), ())
    return ", ".join(f"{word} {metrics[name]:.3f}" for name, word in named if metrics.get(name) is not None)
