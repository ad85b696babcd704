"""Weights & Biases: a run of the project `specvet` (or `WANDB_PROJECT`); its files lie in `RUN/wandb`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from specvet.training.watch.metrics import Line
from specvet.training.watch.trackers import CLOSING_S, Opening, no_login, undisturbed, values_of


class WandB:
    """Steps rise: what comes of a step that the run has left behind is dropped, by us without a warning a value."""

    def __init__(self, run: Any, mode: str) -> None:
        self._run = run
        sync = shlex.join(["wandb", "sync", str(run.settings.sync_dir)])
        self.where = sync if mode == "offline" else str(run.url)
        self._step = int(run.step)  # of a run that goes on at the service: after the last step that it has

    def begin(self, kept: Sequence[Line]) -> None:
        for line in kept:
            self.log(int(line["step"]), values_of(line))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if step >= self._step:
            self._step = step
            self._run.log(dict(values), step=step)

    def note(self, step: int, text: str) -> None:
        if step >= self._step:
            self._run.log({"alarms": text}, step=step)
        self._run.alert(title=f"{self._run.name}: step {step}", text=text, level="WARN")

    def close(self, error: BaseException | None) -> None:
        with undisturbed():
            self._run.finish(exit_code=0 if error is None else 1)


def check(mode: str) -> None:
    """Raises TrackerError without a login where one is needed; connects to nothing."""
    import wandb

    with undisturbed():
        known = mode != "online" or wandb.login(prompt=False, verify=False)
    if not known:
        raise no_login("wandb", "WANDB_API_KEY")


def open_tracker(opening: Opening) -> WandB:
    """Raises what `wandb.init` raises where the service cannot be reached."""
    import wandb

    with undisturbed():
        run = wandb.init(
            mode=cast(Literal["online", "offline"], opening.mode),
            dir=str(opening.folder),
            project=os.environ.get("WANDB_PROJECT", "specvet"),
            name=opening.name,
            id=opening.id,
            resume="allow",
            config=dict(opening.config),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", init_timeout=30, finish_timeout=CLOSING_S),
        )
    return WandB(run, opening.mode)
