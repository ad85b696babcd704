"""`RunWatch` over a real training run: alarms on disk, said once, whatever is repeated; everything handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metrics_lab import Line, grpo_line
from run_lab import config, grpo_loop

from specvet.records import RunFolder
from specvet.training.config import TrainConfig
from specvet.training.order import Position
from specvet.training.run import TrainingRun, Unwatched
from specvet.training.watch import Trackers
from specvet.training.watch.watch import EVENT, RunWatch


class Shown(Unwatched):
    """Remembers what it was told, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.texts: list[str] = []

    def started(self, config: TrainConfig, run: TrainingRun) -> None:
        self.told.append(("started", run.position.step))

    def batch(self, n: int) -> None:
        self.told.append(("batch", n))

    def trajectory(self) -> None:
        self.told.append("trajectory")

    def step(self, metrics: Mapping[str, Any]) -> None:
        self.told.append(("step", metrics["step"]))

    def message(self, text: str) -> None:
        self.texts.append(text)

    def close(self) -> None:
        self.told.append("closed")


class Kept:
    """A tracker in memory."""

    where = "here"

    def __init__(self) -> None:
        self.began: list[int] = []
        self.steps: list[int] = []
        self.notes: list[tuple[int, str]] = []
        self.error: BaseException | None = None

    def begin(self, kept: Sequence[Line]) -> None:
        self.began = [line["step"] for line in kept]

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.steps.append(step)

    def note(self, step: int, text: str) -> None:
        self.notes.append((step, text))

    def close(self, error: BaseException | None) -> None:
        self.error = error


def a_session(folder: Path, looping: Sequence[float]) -> tuple[Shown, Kept]:
    """Open the run, make its next steps with these shares of looping trajectories."""
    shown, kept = Shown(), Kept()
    settings = config(grpo_loop())
    with TrainingRun.open(folder, settings) as run:
        watch = RunWatch(shown, Trackers([("memory", kept)]))
        watch.started(settings, run)
        for step, share in enumerate(looping, run.position.step + 1):
            told = {k: v for k, v in grpo_line(step, looping_share=share).items() if k not in OF_THE_RUN}
            watch.step(run.log("step", Position(step=step), 1.0, **told))
        watch.close()
    return shown, kept


OF_THE_RUN = ("kind", "step", "epoch", "seconds", "time", "cost", "seconds_save")


def alarms_of(folder: Path) -> list[str]:
    with RunFolder.read(folder) as run:
        return [event.text for event in run.events() if event.kind == EVENT]


def test_an_alarm_becomes_an_event_a_message_and_a_note(tmp_path: Path) -> None:
    shown, kept = a_session(tmp_path / "run", [*[0.0] * 5, 0.2, 0.3, 0.4, 0.4])
    (text,) = alarms_of(tmp_path / "run")
    assert text.startswith("step 7: looping: 17% of the trajectories of the last 3 steps repeat the same tokens")
    assert shown.texts == [f"alarm at {text}"]
    assert kept.notes == [(7, text.removeprefix("step 7: "))]
    assert kept.steps == [*range(1, 10)]
    assert shown.told == [("started", 0), *(("step", s) for s in range(1, 10)), "closed"]


def test_steps_that_are_repeated_after_a_kill_leave_one_event(tmp_path: Path) -> None:
    a_session(tmp_path / "run", [*[0.0] * 5, 0.2, 0.3, 0.4])
    shown, kept = a_session(tmp_path / "run", [*[0.0] * 5, 0.2, 0.3, 0.4, 0.0])  # nothing was saved: all of it again
    assert len(alarms_of(tmp_path / "run")) == 1
    assert len(shown.texts) == len(kept.notes) == 1  # but this session's people and trackers are told
    assert kept.began == []


def test_loops_end_where_whoever_shows_them_wants_it_and_trackers_learn_why_it_ended() -> None:
    shown, kept = Shown(), Kept()
    watch = RunWatch(shown, Trackers([("memory", kept)]))
    assert watch.stopping is False
    shown.stopping = True
    assert watch.stopping is True
    watch.stopping = False
    assert shown.stopping is False
    watch.batch(16)
    watch.trajectory()
    watch.message("saved")
    error = RuntimeError("out of memory")
    watch.close(error)
    assert kept.error is error
    assert shown.told == [("batch", 16), "trajectory", "closed"]
    assert shown.texts == ["saved"]


def test_a_watch_fits_the_protocol_of_the_loops() -> None:
    from specvet.training.run import Watch

    watch: Watch = RunWatch(Unwatched())
    assert watch.stopping is False
