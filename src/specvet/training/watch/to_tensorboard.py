"""TensorBoard: event files in `RUN/tensorboard`, written with its own writer, which needs no torch."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from specvet.training.watch.metrics import Line
from specvet.training.watch.trackers import Opening, values_of


class TensorBoard:
    """Scalars by name, alarms and the config as text. Every call is on disk when it returns."""

    def __init__(self, opening: Opening) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = opening.folder / "tensorboard"
        self.where = shlex.join(["tensorboard", "--logdir", str(folder)])
        self._config = opening.config
        self._goes_on = any(folder.glob("events.out.tfevents.*"))
        self._writer = EventFileWriter(str(folder))

    def begin(self, kept: Sequence[Line]) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        last = int(kept[-1]["step"]) if kept else -1
        # At the second and later starts readers drop what earlier files say of this step and those after it. Of the
        # steps before, these files have everything.
        self._write(last + 1 if self._goes_on else 0, session_log=SessionLog(status=SessionLog.START))
        if not self._goes_on:
            for line in kept:
                self._scalars(int(line["step"]), values_of(line))
        if not self._goes_on or not kept:
            import yaml

            text = yaml.safe_dump(dict(self._config), sort_keys=False, allow_unicode=True)
            self._text(0, "config", "".join(f"    {line}\n" for line in text.splitlines()))
        self._writer.flush()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._scalars(step, values)
        self._writer.flush()

    def note(self, step: int, text: str) -> None:
        self._text(step, "alarms", text)
        self._writer.flush()

    def close(self, error: BaseException | None) -> None:
        self._writer.close()

    def _scalars(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        found = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step, summary=Summary(value=found))

    def _text(self, step: int, name: str, text: str) -> None:
        from tensorboard.plugins.text.summary_v2 import text_pb

        self._write(step, summary=text_pb(f"{name}/text_summary", text))

    def _write(self, step: int, **what: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, **what))


def check(mode: str) -> None:
    """Nothing but the package is needed."""
    import tensorboard  # noqa: F401


def open_tracker(opening: Opening) -> TensorBoard:
    """Raises OSError for a folder that cannot be written."""
    return TensorBoard(opening)
