"""SwanLab: a run of the project `specvet` (or SWANLAB_PROJECT__NAME); its files lie in `RUN/swanlab`.

Its `local` mode knows no ids: there a run that goes on becomes a further experiment of the dashboard, which holds all
steps from the first.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from specvet.training.watch.metrics import Line
from specvet.training.watch.trackers import (
    CLOSING_S,
    Opening,
    TrackerError,
    installed,
    no_login,
    undisturbed,
    values_of,
)

T = TypeVar("T")


class SwanLab:
    """Steps of which SwanLab has a value already are dropped by its client."""

    def __init__(self, run: Any, opening: Opening) -> None:
        self._run = run
        self._sync = shlex.join(["swanlab", "sync", str(run.dir)])
        watch = shlex.join(["swanlab", "watch", str(opening.folder / "swanlab")])
        self.where = {"offline": self._sync, "local": watch}.get(opening.mode) or str(run.url)

    def begin(self, kept: Sequence[Line]) -> None:
        for line in kept:
            self.log(int(line["step"]), values_of(line))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def note(self, step: int, text: str) -> None:
        self._run.log_text(key="alarms", data=text, step=step)

    def close(self, error: BaseException | None) -> None:
        def finish() -> None:
            if error is None:
                self._run.finish()
            else:
                state = "aborted" if isinstance(error, KeyboardInterrupt) else "crashed"
                self._run.finish(state=state, error=f"{type(error).__name__}: {error}")

        try:
            _apart(finish, CLOSING_S)
        except TimeoutError as e:
            raise TrackerError(f"not everything was sent within {CLOSING_S:.0f} s; later: {self._sync}") from e


def check(mode: str) -> None:
    """Raises TrackerError without a login where one is needed and, for `local`, without the dashboard."""
    import swanlab

    if mode == "local" and not installed("swanboard"):
        raise TrackerError("swanlab:local needs SwanLab's dashboard: pip install 'swanlab[dashboard]'")
    if mode == "online" and swanlab.Settings().api_key is None:
        raise no_login("swanlab", "SWANLAB_API_KEY")


def open_tracker(opening: Opening) -> SwanLab:
    """Raises what `swanlab.init` raises where the service cannot be reached."""
    import swanlab

    _hush()
    settings = swanlab.Settings(interactive=False, terminal=swanlab.Settings.Terminal(proxy_type="none"))

    def init() -> Any:
        return swanlab.init(
            mode=opening.mode,
            log_dir=str(opening.folder / "swanlab"),
            project=settings.project.name or "specvet",
            name=opening.name,
            id=opening.id,
            resume="allow",
            config=dict(opening.config),
            settings=settings,
        )

    return SwanLab(_apart(init), opening)


def _apart(do: Callable[[], T], limit_s: float | None = None) -> T:
    """Do something in a thread of its own: SwanLab takes over Ctrl-C only on the main thread, and `finish` waits for an
    unreachable service without end. Raises TimeoutError after `limit_s`; the thread is then left to itself.
    """
    got: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            got.append(do())
        except BaseException as e:
            failed.append(e)

    thread = threading.Thread(target=work, name="swanlab", daemon=True)
    with undisturbed():
        thread.start()
        thread.join(limit_s)
    if failed:
        raise failed[0]
    if not got:
        raise TimeoutError(f"not done after {limit_s} s")
    return got[0]


def _hush() -> None:
    """Keep its background threads from printing warnings into progress bars; they go to its log file all the same."""
    with suppress(ImportError, AttributeError):  # the console is not among what it exports
        from swanlab.sdk.internal.pkg import console

        console.c.quiet = True
