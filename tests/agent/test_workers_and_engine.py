"""Threads that jobs cannot block, and the engine that programs without an event loop use."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from rollout_lab import QUESTION, Asked, Scripted, answer, gambler, look, rolled, task, timeless, turns, zoom

from specvet.agent import Engine
from specvet.agent.workers import Workers
from specvet.policies.tokens import PolicyError
from specvet.records.schema import StopReason


def test_jobs_return_and_raise_what_their_functions_do() -> None:
    async def scene() -> None:
        workers = Workers(2)
        assert await workers.run(lambda: 3) == 3
        with pytest.raises(KeyError, match="gone"):
            await workers.run(lambda: {}["gone"])
        assert threading.current_thread().name != await workers.run(lambda: threading.current_thread().name)
        workers.close()

    asyncio.run(scene())


def test_a_job_that_misses_its_deadline_is_left_behind_and_its_thread_replaced() -> None:
    gate = threading.Event()

    async def scene() -> None:
        workers = Workers(1)
        for _ in range(3):
            with pytest.raises(TimeoutError, match=r"not done within 0\.02 s"):
                await workers.run(lambda: gate.wait(30), 0.02)
        assert await workers.run(lambda: "here", 5.0) == "here"
        workers.close()

    try:
        asyncio.run(scene())
    finally:
        gate.set()


def test_a_deadline_counts_from_when_a_job_begins() -> None:
    gate = threading.Event()

    async def scene() -> None:
        workers = Workers(1)
        first = asyncio.create_task(workers.run(lambda: gate.wait(30)))
        second = asyncio.create_task(workers.run(lambda: "done", 0.05))
        await asyncio.sleep(0.1)
        assert not second.done()
        gate.set()
        assert await second == "done"
        assert await first
        workers.close()

    asyncio.run(scene())


def test_a_thread_that_never_returns_does_not_keep_the_program_from_ending() -> None:
    code = (
        "import asyncio, threading\n"
        "from specvet.agent.workers import Workers\n"
        "async def main():\n"
        "    try:\n"
        "        await Workers(1).run(threading.Event().wait, 0.01)\n"
        "    except TimeoutError:\n"
        "        print('late')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "late\n"


def test_an_engine_gives_what_the_event_loop_would() -> None:
    whole = [timeless(r) for r in rolled(gambler, n=4)]
    told: list[int] = []
    with Engine(Scripted(gambler)) as engine:
        future = engine.submit(QUESTION, task(), zoom(), 4, done=lambda r: told.append(r.sample))
        assert [timeless(r) for r in future.result(30)] == whole
        assert sorted(told) == [0, 1, 2, 3]
        assert engine.tally.finished == 4
        assert engine.tally.turns == sum(len(r["turns"]) for r in whole)
        alone = engine.ask(QUESTION, task(), zoom())
    assert timeless(alone) == whole[0] | {"group": 1}


def test_an_engine_closes_its_policy_and_cancels_what_is_under_way() -> None:
    closed = threading.Event()
    stalled = threading.Event()

    class Closing(Scripted):
        async def aclose(self) -> None:
            closed.set()

    async def stalls(asked: Asked) -> None:
        if asked.turn:
            stalled.set()
            await asyncio.Event().wait()

    policy = Closing(turns(look(), answer()), before=stalls)
    with Engine(policy) as engine:
        future = engine.submit(QUESTION, task(), zoom())
        assert stalled.wait(30)
    assert closed.is_set()
    assert future.cancelled()
    engine.close()  # twice is once


def test_what_is_fatal_is_raised_to_whoever_asked() -> None:
    async def refuses(_: Asked) -> None:
        raise PolicyError("log in first", fatal=True)

    with Engine(Scripted(turns(answer()), before=refuses)) as engine, pytest.raises(PolicyError, match="log in first"):
        engine.ask(QUESTION, task(), zoom())


def test_questions_from_several_threads_go_through_one_engine() -> None:
    with Engine(Scripted(gambler), concurrency=3) as engine:
        found: list[StopReason] = []
        threads = [
            threading.Thread(target=lambda: found.append(engine.ask(QUESTION, task(), zoom()).stop)) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(found) == 5
    assert len(set(found)) == 1
