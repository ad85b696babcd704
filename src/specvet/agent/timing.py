"""Where a run's seconds go: they stand among the policy's `usage.notes`, and so in the receipt.

| note | seconds |
|---|---|
| `read_s` | of reading files, by who feeds the rollouts |
| `draw_s` | of drawing; where processes draw, of waiting for each picture |
| `host_s` | processor time of the event loop and of the threads that call tools, make prompts and records |
| `prefill_s`, `vision_s`, `decode_s` | of an engine on this machine, `vision_s` as a part of `prefill_s` |
| `idle_s` | in which that engine had nothing to do: the host was too slow, or there was nothing left |

Each is summed over what goes on at the same time, so together they may be more than went by.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager


class Timing:
    """Adds to notes; any thread may."""

    def __init__(self, notes: MutableMapping[str, float]) -> None:
        self._notes = notes
        self._lock = threading.Lock()
        self._last: float | None = None

    @contextmanager
    def part(self, name: str, clock: Callable[[], float] = time.thread_time) -> Iterator[None]:
        """What happens within counts as this part."""
        began = clock()
        try:
            yield
        finally:
            self._add(name, clock() - began)

    def loop(self) -> None:
        """What the calling thread, always the same, has done since it last called this was the event loop's work."""
        now = time.thread_time()
        if self._last is not None:
            self._add("host_s", now - self._last)
        self._last = now

    def _add(self, name: str, seconds: float) -> None:
        with self._lock:
            self._notes[name] = self._notes.get(name, 0.0) + seconds
