"""Trackers: where metrics go besides `metrics.jsonl`. SwanLab, Weights & Biases and TensorBoard, each by its name.

    tensorboard        event files in RUN/tensorboard
    swanlab, wandb     to the service (the same as swanlab:online, wandb:online)
    …:offline          files below the run folder, for `swanlab sync` or `wandb sync`
    …:disabled         nowhere
    swanlab:local      a dashboard on this machine

What cannot start says so at once, with the command that helps. What fails later is told once and then left alone:
training never stops for it, since `metrics.jsonl` has everything. A run that goes on stays one run at its tracker,
under the id in `RUN/trackers.json`: it sends what is left of the earlier steps again, and trackers drop what they have.
"""

from __future__ import annotations

import difflib
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

from specvet.records import write_atomic
from specvet.training.watch.metrics import Line, numbers

FILE = "trackers.json"
CLOSING_S = 60.0
"""How long the end of a run waits for a service to take what has not been sent yet."""

MODES: dict[str, tuple[str, ...]] = {
    "swanlab": ("online", "local", "offline", "disabled"),
    "wandb": ("online", "offline", "disabled"),
    "tensorboard": (),
}
"""Trackers and their modes; the first is taken where none is given."""

_ELSEWHERE = "metrics.jsonl has everything in any case"


class TrackerError(RuntimeError):
    """A tracker that was asked for and cannot start. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a tracker is told when it starts."""

    folder: Path
    """The run's."""
    config: Mapping[str, Any]
    name: str
    """What people will see."""
    id: str
    """The same for every session of a run; empty where a tracker has no ids."""
    mode: str
    """`online`, `local` or `offline`; empty where a tracker has no modes."""


class Tracker(Protocol):
    """One place that metrics go to. Any method may raise: it is then told nothing more."""

    where: str
    """Where a person finds it, and the command to look at it."""

    def begin(self, kept: Sequence[Line]) -> None:
        """The run begins, or goes on after the lines that are `kept`; what was told of later steps is over."""
        ...

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Values of one step, by name; several calls may share a step."""
        ...

    def note(self, step: int, text: str) -> None:
        """Something in words."""
        ...

    def close(self, error: BaseException | None) -> None:
        """The session is over; `error` is what ended it, if anything did."""
        ...


def open_trackers(
    wanted: Sequence[str],
    run_folder: str | os.PathLike[str],
    config: Mapping[str, Any],
    name: str | None = None,
    *,
    say: Callable[[str], None] | None = None,
) -> Trackers:
    """Start the trackers that are `wanted`, as `swanlab:offline` or `tensorboard`, for a run folder that exists.

    `config` is sent once; `name` is what people see (None: the folder's name); `say` gets messages (None: stderr).
    Raises TrackerError for a name that is none, a package that is missing, a missing login, an unreachable service.
    """
    folder = Path(run_folder)
    told = say or _to_stderr
    opened: list[tuple[str, Tracker]] = []
    try:
        for tracker, mode in check_trackers(wanted):
            opening = Opening(folder, config, name or folder.resolve().name, _id_of(folder, tracker), mode)
            with _explained(tracker, mode):
                opened.append((tracker, _module(tracker).open_tracker(opening)))
            told(f"{tracker}: {opened[-1][1].where}")
    except BaseException as e:
        Trackers(opened, told).close(e)
        raise
    return Trackers(opened, told)


def check_trackers(wanted: Sequence[str]) -> list[tuple[str, str]]:
    """(name, mode) of what is `wanted`, without those that are disabled; connects to nothing.

    Raises TrackerError for a name or mode that is none, for a package or a login that is missing.
    """
    found = _asked_for(wanted)
    for tracker, mode in found:
        if not installed(tracker):
            raise TrackerError(f"{tracker} is not installed: pip install 'specvet[{tracker}]'; {_ELSEWHERE}")
        with _explained(tracker, mode):
            _module(tracker).check(mode)
    return found


class Trackers:
    """All trackers of one session."""

    def __init__(self, opened: Sequence[tuple[str, Tracker]] = (), say: Callable[[str], None] | None = None) -> None:
        self._live = dict(opened)
        self._say = say or _to_stderr

    @property
    def live(self) -> tuple[str, ...]:
        """Names of those that are still told something."""
        return tuple(self._live)

    def begin(self, kept: Sequence[Line]) -> None:
        """See `Tracker.begin`."""
        self._each(lambda tracker: tracker.begin(kept))

    def log(self, line: Line | Mapping[str, Any]) -> None:
        """A line of `metrics.jsonl`."""
        step, values = int(line["step"]), values_of(line)
        self._each(lambda tracker: tracker.log(step, values))

    def note(self, step: int, text: str) -> None:
        """See `Tracker.note`."""
        self._each(lambda tracker: tracker.note(step, text))

    def close(self, error: BaseException | None = None) -> None:
        """See `Tracker.close`. Takes a minute at the most; safe to call twice."""
        self._each(lambda tracker: tracker.close(error))
        self._live.clear()

    def _each(self, tell: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._live.items()):
            try:
                tell(tracker)
            except Exception as e:
                del self._live[name]
                self._say(f"{name}: {_one_line(e)}; it is told nothing more in this session, {_ELSEWHERE}")


def values_of(line: Mapping[str, Any]) -> dict[str, float]:
    """A line's numbers as trackers name them: `loss`, `stops/answered`, and `dev/accuracy` of a `dev` line."""
    kind = line.get("kind", "step")
    prefix = "" if kind == "step" else f"{kind}/"
    return numbers({name: value for name, value in line.items() if name != "step"}, prefix)


def _asked_for(wanted: Sequence[str]) -> list[tuple[str, str]]:
    """(name, mode) of each, without those that are disabled."""
    found: dict[str, str] = {}
    for text in wanted:
        name, colon, mode = text.strip().partition(":")
        if name not in MODES:
            close = difflib.get_close_matches(name, MODES, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise TrackerError(f"there is no tracker {name!r}; there are {', '.join(MODES)}{hint}")
        modes = MODES[name]
        if colon and mode not in modes:
            known = f"{name} knows {', '.join(modes)}" if modes else f"{name} has no modes"
            raise TrackerError(f"{text}: there is no mode {mode!r}; {known}")
        if name in found:
            raise TrackerError(f"the tracker {name} is asked for twice")
        found[name] = mode or (modes[0] if modes else "")
    return [(name, mode) for name, mode in found.items() if mode != "disabled"]


def installed(package: str) -> bool:
    """Whether it can be imported; a folder of its name beside the program (an earlier run leaves `wandb/`) is none."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None


def no_login(tracker: str, variable: str) -> TrackerError:
    """What to do without an API key."""
    return TrackerError(
        f"{tracker}: no API key was found. Run `{tracker} login` in a shell (or set {variable}), or ask for "
        f"{tracker}:offline and send the run later with `{tracker} sync`; {_ELSEWHERE}"
    )


def _module(tracker: str) -> Any:
    return import_module(f"specvet.training.watch.to_{tracker}")


@contextmanager
def _explained(tracker: str, mode: str) -> Iterator[None]:
    """Whatever goes wrong becomes a TrackerError."""
    try:
        yield
    except TrackerError:
        raise
    except Exception as e:
        offline = f"; {tracker}:offline needs no service" if mode == "online" else ""
        raise TrackerError(f"{tracker} could not start: {_one_line(e)}{offline}; {_ELSEWHERE}") from e


def _id_of(folder: Path, tracker: str) -> str:
    """The run's id at a tracker, where it has such; the first session makes it up."""
    if not MODES[tracker]:
        return ""
    file = folder / FILE
    ids: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if tracker not in ids:
        ids[tracker] = secrets.token_hex(8)
        write_atomic(file, json.dumps(ids, indent=2) + "\n")
    return ids[tracker]


@contextmanager
def undisturbed() -> Iterator[StringIO]:
    """Keep an SDK from printing (what it prints is handed over) and from leaving hooks behind in the process.

    They take over Ctrl-C, `sys.exit` and unhandled exceptions to mark a run as failed. Here a run's end is told to them
    (`Tracker.close`), and Ctrl-C is the program's own: it ends training with a checkpoint.
    """
    hook, leave = sys.excepthook, sys.exit
    main = threading.current_thread() is threading.main_thread()
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)} if main else {}
    printed = StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            yield printed
    finally:
        sys.excepthook, sys.exit = hook, leave
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:297] + "…"


def _to_stderr(text: str) -> None:
    print(f"specvet: {text}", file=sys.stderr)
