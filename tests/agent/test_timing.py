"""Where seconds go: measured by part, on the clocks of threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from rollout_lab import QUESTION, Scripted, gambler, task, zoom

from specvet.agent import Rollouts
from specvet.agent.timing import Timing


def ticking() -> Iterator[float]:
    yield from (10.0, 12.5, 20.0, 21.0)


def test_a_part_adds_what_went_by_within_it_also_where_it_ends_badly() -> None:
    notes = {"decode_s": 1.0}
    timing, ticks = Timing(notes), ticking()
    with timing.part("draw_s", lambda: next(ticks)):
        pass
    try:
        with timing.part("draw_s", lambda: next(ticks)):
            raise ValueError
    except ValueError:
        pass
    assert notes == {"decode_s": 1.0, "draw_s": 3.5}


def test_the_loop_counts_from_its_first_call_on() -> None:
    notes: dict[str, float] = {}
    timing = Timing(notes)
    timing.loop()
    assert notes == {}
    sum(range(1000))
    timing.loop()
    assert notes["host_s"] > 0


def test_no_second_is_lost_where_many_threads_add() -> None:
    notes: dict[str, float] = {}
    timing = Timing(notes)

    def work() -> None:
        for _ in range(500):
            with timing.part("draw_s", iter((1.0, 2.0)).__next__):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notes["draw_s"] == 2000.0


def test_rollouts_tell_what_drawing_and_the_host_took() -> None:
    policy = Scripted(gambler)
    rollouts = Rollouts(policy)
    asyncio.run(rollouts.group(QUESTION, task(), zoom(), 2))
    rollouts.close()
    assert policy.usage.notes["draw_s"] > 0
    assert policy.usage.notes["host_s"] > 0
