"""The one object that a training loop tells everything: metrics go to trackers and alarms, all to whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specvet.training.watch.alarms import Alarm, Alarms
from specvet.training.watch.metrics import read_metrics
from specvet.training.watch.trackers import Trackers

if TYPE_CHECKING:
    from specvet.training.config import TrainConfig
    from specvet.training.run import TrainingRun, Watch

EVENT = "alarm"
"""The kind of an alarm among the events of `run.db`."""


class RunWatch:
    """A `specvet.training.run.Watch`: `shown` (progress bars, or nobody) sees all of it; trackers get the metrics;
    alarms become events of the run, messages, and notes at the trackers.
    """

    def __init__(self, shown: Watch, trackers: Trackers | None = None) -> None:
        self._shown = shown
        self._trackers = trackers or Trackers()
        self._alarms = Alarms()
        self._said: set[str] = set()
        self._run: TrainingRun | None = None

    @property
    def stopping(self) -> bool:
        return self._shown.stopping

    @stopping.setter
    def stopping(self, value: bool) -> None:
        self._shown.stopping = value

    def started(self, config: TrainConfig, run: TrainingRun) -> None:
        self._run = run
        kept = read_metrics(run.path) if (run.path / "metrics.jsonl").exists() else []
        for line in kept:
            self._alarms.check(line)  # what was said stays said
        self._said = {event.text for event in run.folder.events() if event.kind == EVENT}
        self._trackers.begin(kept)
        self._shown.started(config, run)

    def batch(self, n: int) -> None:
        self._shown.batch(n)

    def trajectory(self) -> None:
        self._shown.trajectory()

    def step(self, metrics: Mapping[str, Any]) -> None:
        self._trackers.log(metrics)
        self._shown.step(metrics)
        for alarm in self._alarms.check(metrics):
            self._raise(alarm)

    def message(self, text: str) -> None:
        self._shown.message(text)

    def close(self, error: BaseException | None = None) -> None:
        """`error` is what ended the run, if anything did: trackers show it as failed."""
        self._trackers.close(error)
        self._shown.close()

    def _raise(self, alarm: Alarm) -> None:
        text = f"step {alarm.step}: {alarm.name}: {alarm.text}"
        if self._run is not None and text not in self._said:  # a repeated step raises it a second time
            self._run.folder.event(EVENT, text)
            self._said.add(text)
        self._trackers.note(alarm.step, f"{alarm.name}: {alarm.text}")
        self._shown.message(f"alarm at {text}")
