"""Rollouts in several processes: the same trajectories, and an end that everybody hears of."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rollout_lab import QUESTION, Scripted, answer, gambler, look, task, timeless, turns, zoom

from specvet.agent import Engine, Rollouts
from specvet.agent.crew import Crew
from specvet.agent.rollout import all_of
from specvet.chat import Ledger
from specvet.policies.tokens import PolicyError, SamplingParams
from specvet.records.files import ImageStore
from specvet.records.schema import TrajectoryRecord
from specvet.tools import Observation, ZoomTool

QUESTIONS = [QUESTION.model_copy(update={"id": f"q{i}"}) for i in range(6)]


class Told(Scripted):
    """A gambler with methods that all processes are told to call."""

    def note(self, path: str) -> None:
        Path(path).joinpath(str(os.getpid())).write_text(f"{self.usage.requests}")

    def refuse(self) -> None:
        raise ValueError("no, never")


def opened() -> Scripted:
    return Told(gambler)


def failing(reason: str) -> Scripted:
    raise PolicyError(reason, fatal=True)


def stalled() -> Scripted:
    async def for_ever(_: Any) -> None:
        await asyncio.Event().wait()

    return Scripted(turns(answer()), before=for_ever)


class Broken(ZoomTool):
    def __call__(self, arguments: Any) -> Observation:
        raise RuntimeError("the tool is broken")


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew(Scripted(gambler), opened, (), 3) as made:
        yield made


async def together(rollouts: Any, n: int = 3, **more: Any) -> list[list[TrajectoryRecord]]:
    try:
        return await all_of([rollouts.group(q, task(), zoom(), n, **more) for q in QUESTIONS])
    finally:
        rollouts.close()


def test_three_processes_make_the_trajectories_of_one_and_their_pictures(crew: Crew, tmp_path: Path) -> None:
    params, told = SamplingParams(2048, seed=5), []
    before, images = crew.policy.usage.sampled_tokens, ImageStore(tmp_path / "three")
    rollouts = crew.rollouts(params=params, concurrency=9, keep_image=images.put)
    made = asyncio.run(together(rollouts, ended=lambda record, ledger: told.append((record, ledger))))
    alone = Rollouts(Scripted(gambler), params=params, keep_image=ImageStore(tmp_path / "one").put)
    expected = asyncio.run(together(alone))
    assert [[timeless(r) for r in group] for group in made] == [[timeless(r) for r in group] for group in expected]
    names = [sorted(p.name for p in (tmp_path / where).rglob("*.png")) for where in ("one", "three")]
    assert names[0] == names[1] != []
    assert len(told) == 18
    for record, ledger in told:
        assert ledger is not None
        assert ledger.to_dict() == Ledger.from_dict(record.ledger).to_dict()
        assert all(i.png == images.path(i.sha256).read_bytes() for i in ledger.images)
    # What the processes used is what this process's policy has used, and the tally is that of all.
    assert crew.policy.usage.sampled_tokens - before == sum(r.tokens.sampled or 0 for g in made for r in g)
    assert rollouts.tally.finished == 18
    assert rollouts.tally.running == crew.under_way == 0
    assert rollouts.tally.turns == alone.tally.turns


def test_a_store_that_cannot_be_sent_is_handed_the_pictures(crew: Crew) -> None:
    kept: list[bytes] = []

    def keep(png: bytes) -> str:
        kept.append(png)
        return ""

    made = asyncio.run(together(crew.rollouts(keep_image=keep), n=1))
    shown = {r.opening.image for (r,) in made}
    assert len(shown) == 1
    assert None not in shown
    assert kept

    def full(png: bytes) -> str:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(together(crew.rollouts(keep_image=full), n=1))


def test_only_the_branches_that_are_wanted_are_made_and_what_hears_of_them_may_end_the_group(crew: Crew) -> None:
    rollouts = crew.rollouts()

    def refuses(record: TrajectoryRecord) -> None:
        raise OSError(f"no room for {record.sample}")

    async def work() -> None:
        records = await rollouts.group(QUESTION, task(), zoom(), 4, only=[3, 1])
        assert [r.sample for r in records] == [1, 3]
        with pytest.raises(OSError, match="no room for"):
            await rollouts.group(QUESTION, task(), zoom(), 4, done=refuses)
        with pytest.raises(ValueError, match="give some of 0 to 1"):
            await rollouts.group(QUESTION, task(), zoom(), 2, only=[2])
        broken = Broken(zoom().spectrum, style="compact")
        records = await rollouts.group(QUESTION, task(), broken, 4)
        calls = [turn.observation.text for r in records for turn in r.turns if turn.observation is not None]
        assert calls
        assert all("The tool failed: the tool is broken" in text for text in calls)

    asyncio.run(work())
    rollouts.close()
    rollouts.close()


def test_none_begins_in_the_place_of_one_that_was_not_kept_yet() -> None:
    kept: list[str] = []
    started: list[str] = []

    def ended(record: TrajectoryRecord, _: Ledger | None) -> None:
        heard = now()
        while now() <= heard:  # to the next millisecond
            pass
        kept.append(now())
        started.append(record.started)

    with Crew(Scripted(gambler), opened, (), 1) as crew:
        asyncio.run(together(crew.rollouts(concurrency=1), n=1, ended=ended))
    assert len(kept) == len(QUESTIONS)
    assert all(a <= b for a, b in zip(kept, started[1:], strict=False)), (kept, started)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def test_a_tool_that_cannot_be_sent_fails_its_own_group_only(crew: Crew) -> None:
    class Local(ZoomTool):
        pass

    async def work() -> None:
        rollouts = crew.rollouts()
        with pytest.raises((AttributeError, TypeError, ValueError), match="Local"):
            await rollouts.group(QUESTION, task(), Local(zoom().spectrum, style="compact"))
        assert len(await rollouts.group(QUESTION, task(), zoom())) == 1
        rollouts.close()

    asyncio.run(work())


def test_each_policy_does_what_all_are_told(crew: Crew, tmp_path: Path) -> None:
    crew.everywhere("note", path=str(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == {str(pid) for pid in crew.pids}
    with pytest.raises(ValueError, match="no, never"):
        crew.everywhere("refuse")


def test_an_engine_rolls_out_in_the_processes_and_leaves_them_to_their_owner(crew: Crew) -> None:
    with Engine(crew.policy, crew=crew) as engine:
        futures = [engine.submit(q, task(), zoom(), 2) for q in QUESTIONS]
        assert [len(f.result(60)) for f in futures] == [2] * 6
        assert engine.tally.finished == 12
    assert len(asyncio.run(together(crew.rollouts(), n=1))) == 6


def test_what_keeps_a_policy_from_opening_is_raised_as_it_is() -> None:
    with pytest.raises(PolicyError, match="no such model") as told:
        Crew(Scripted(gambler), failing, ("no such model",), 1)
    assert told.value.fatal


def test_a_killed_process_fails_what_is_under_way_and_leaves_none_behind() -> None:
    crew = Crew(Scripted(turns(look())), stalled, (), 2)

    async def work() -> None:
        rollouts = crew.rollouts(concurrency=2)
        groups = [asyncio.create_task(rollouts.group(q, task(), zoom())) for q in QUESTIONS]
        while crew.under_way != 6:
            await asyncio.sleep(0)
        os.kill(crew.pids[0], signal.SIGKILL)
        for group in groups:
            with pytest.raises(PolicyError, match=r"rollout process 1 of 2 ended \(signal SIGKILL\)") as told:
                await group
            assert told.value.fatal
        with pytest.raises(PolicyError, match="SIGKILL"):
            await rollouts.group(QUESTION, task(), zoom())

    asyncio.run(work())
    pids = crew.pids
    crew.close()
    crew.close()
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(PolicyError, match="SIGKILL"):
        crew.rollouts()


CHILD = """
import asyncio, os, signal, sys
sys.path.insert(0, {here!r})
from rollout_lab import QUESTION, Scripted, look, task, turns, zoom
from test_crew import stalled
from specvet.agent.crew import Crew

async def work(crew):
    group = asyncio.ensure_future(crew.rollouts().group(QUESTION, task(), zoom(), 2))
    while not crew.under_way:
        await asyncio.sleep(0)
    print(*crew.pids, flush=True)
    await group

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background deaf to it
    with Crew(Scripted(turns(look())), stalled, (), 1) as crew:
        asyncio.run(work(crew))
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A command whose process never ends by itself, in a process group of its own, and the number of that process."""
    script = tmp_path / "command.py"
    script.write_text(CHILD.format(here=str(Path(__file__).parent)))
    child = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    try:
        yield child, [int(pid) for pid in child.stdout.readline().split()]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_ctrl_c_ends_a_command_and_all_its_processes(command: tuple[subprocess.Popen[str], list[int]]) -> None:
    child, pids = command
    os.killpg(child.pid, signal.SIGINT)  # as a terminal sends it, to all; only the parent minds
    _, said = child.communicate(timeout=60)
    assert len(pids) == 1, said
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert not any(alive(pid) for pid in pids)


def test_a_command_that_is_killed_leaves_no_process_behind(command: tuple[subprocess.Popen[str], list[int]]) -> None:
    child, pids = command
    watched = [os.pidfd_open(pid) for pid in pids]
    child.kill()
    child.communicate(timeout=60)
    assert all(select.select([fd], [], [], 60)[0] for fd in watched)
    for fd in watched:
        os.close(fd)


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
