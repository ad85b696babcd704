"""The `Scene`: what the branches of one question are shown, made off the event loop; the same window is drawn once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from specvet.agent.episode import MAX_PROBLEM
from specvet.agent.loop import called
from specvet.agent.stage import KeepImage, undrawn
from specvet.agent.timing import Timing
from specvet.agent.workers import Workers
from specvet.chat import Image
from specvet.policies import Call
from specvet.records.schema import ObservationRecord
from specvet.tools import Observation, Tool, one_line
from specvet.views import RenderPool, View

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation and its picture, where there is one and somebody looks."""

    observation: Observation
    image: Image | None = None


class Studio:
    """What draws for all questions of a run: processes where there is a pool, else threads, which do for the compact
    style on a machine of few cores.

    Calls of tools and compact drawings take a few milliseconds of Python each: few threads, so that they do not keep
    the event loop from the interpreter. Those that wait for the pool only wait.
    """

    def __init__(
        self,
        timing: Timing,
        *,
        draws: bool = True,
        pool: RenderPool | None = None,
        keep: KeepImage | None = None,
        threads: int = 2,
    ) -> None:
        """`draws`: the policy looks at pictures; `keep` stores those that were shown, in a thread of its own."""
        self._timing = timing
        self.draws = draws or keep is not None
        self.shows = draws
        self.keep = keep
        self._pool = pool
        self._hands = Workers(threads, "specvet-tool")
        self._waiting = Workers(pool.processes, "specvet-draw") if pool else None

    async def work(self, function: Callable[[], T], seconds: float | None = None) -> T:
        """What a short function returns, called in a thread."""

        def timed() -> T:
            with self._timing.part("host_s"):
                return function()

        return await self._hands.run(timed, seconds)

    async def drawn(self, view: View, deadline_s: float) -> Image:
        """The picture of a view. Raises TimeoutError, RenderError, ValueError."""
        pool, waiting = self._pool, self._waiting

        def waited() -> Image:
            assert pool is not None
            with self._timing.part("draw_s", time.perf_counter):
                return Image.of(pool.png(view, deadline_s))

        def drawn() -> Image:
            with self._timing.part("draw_s"):
                return Image.of(view.png)

        return await (self._hands.run(drawn, deadline_s) if waiting is None else waiting.run(waited))

    def close(self) -> None:
        """Let the threads end."""
        self._hands.close()
        if self._waiting:
            self._waiting.close()


class Scene:
    """What the branches of one question are shown."""

    def __init__(self, tool: Tool, studio: Studio) -> None:
        self._tool, self._studio = tool, studio
        self._drawing: dict[str, asyncio.Task[Image]] = {}
        self._storing: dict[str, asyncio.Task[str]] = {}
        self._kept: dict[str, str] = {}

    async def shown(self, observation: Observation) -> Seen:
        """The observation with its picture, or why it could not be drawn."""
        view = observation.view
        if view is None or not self._studio.draws:
            return Seen(observation)
        try:
            image = await self._picture(view)
        except MemoryError:
            raise
        except Exception as e:  # RenderError, TimeoutError, ValueError; or whatever a drawing of one's own raises
            return Seen(undrawn(e))
        return Seen(observation, image if self._studio.shows else None)

    async def answer(self, call: Call) -> Seen:
        """What a call gives. Never raises for what the tool does: too long and failing are observations."""
        deadline = self._tool.deadline_s
        try:
            observation = await self._studio.work(lambda: _hashed(called(self._tool, call)), deadline)
        except MemoryError:
            raise
        except TimeoutError:
            return Seen(Observation("deadline", f"The tool took longer than {deadline:g} s; ask for something else."))
        except Exception as e:  # the promise never to raise is the tool's, and may be broken
            return Seen(Observation("failed", f"The tool failed: {one_line(e, MAX_PROBLEM)}; ask for something else."))
        return await self.shown(observation)

    async def keep(self, observation: Observation) -> None:
        """Store the picture of what was shown. Raises what the store raises."""
        store, view = self._studio.keep, observation.view
        if store is None or view is None:
            return
        key = view.content_hash
        if key not in self._storing or self._storing[key].cancelled():
            image = await self._drawing[key]
            self._storing[key] = asyncio.ensure_future(self._studio.work(lambda: store(image.png)))
        self._kept[key] = await asyncio.shield(self._storing[key])

    def record(self, observation: Observation) -> ObservationRecord:
        """What is kept of an observation."""
        view = observation.view
        return observation.record(self._kept.get(view.content_hash) if view else None)

    async def _picture(self, view: View) -> Image:
        drawing = self._drawing.get(view.content_hash)
        if drawing is None or drawing.cancelled():
            drawing = asyncio.ensure_future(self._studio.drawn(view, self._tool.deadline_s))
            self._drawing[view.content_hash] = drawing
        return await asyncio.shield(drawing)  # a branch that is cancelled leaves it to the others


def _hashed(observation: Observation) -> Observation:
    """The observation, with the hash of its view computed."""
    if observation.view is not None:
        _ = observation.view.content_hash
    return observation
