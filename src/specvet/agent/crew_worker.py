"""What a process of a `Crew` runs: a policy of its own and an event loop, on which groups are rolled out as they come.

Messages come in order and are obeyed in order, so a call that says that weights have changed lies between the groups of
before and those of after. A process whose parent is gone ends; Ctrl-C is for the parent.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from specvet.agent.budget import Budget
from specvet.agent.rollout import Guard, Rollouts
from specvet.agent.stage import KeepImage
from specvet.agent.talk import ModelPolicy
from specvet.chat import Ledger
from specvet.policies.tokens import SamplingParams, usage_numbers
from specvet.records import bytes_hash
from specvet.records.schema import Question, TrajectoryRecord
from specvet.tasks import Task, Wording
from specvet.tools import ZoomTool


@dataclass(frozen=True, slots=True)
class Begin:
    """From now on groups of this number are rolled out so."""

    number: int
    budget: Budget
    params: SamplingParams
    concurrency: int
    wording: Wording
    guard: Guard | None
    keep: KeepImage | None
    """Stores pictures from here; with `hands_over`, they are sent to the parent instead."""
    hands_over: bool


@dataclass(frozen=True, slots=True)
class End:
    """No group of this number comes any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Roll:
    """Roll out a group, with the settings of `rollouts`."""

    number: int
    rollouts: int
    question: Question
    task: Task
    tool: ZoomTool
    n: int
    only: list[int]
    ledgers: bool
    """Whether somebody wants ledgers with their pictures."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A trajectory of this group was kept by whoever asked."""

    number: int
    sample: int


@dataclass(frozen=True, slots=True)
class CallOff:
    """Nobody waits for this group any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Do:
    """Call a method of the policy."""

    number: int
    name: str
    arguments: dict[str, Any]


def serve(pipe: Connection, threads: int) -> None:
    """The process: first it is sent what makes its policy, then messages, and at last None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # before anything imports torch
    code = 0
    try:
        make, arguments = pipe.recv()
        policy = make(*arguments)
        # What the libraries hold need not be looked through again and again.
        gc.collect()
        gc.freeze()
        pipe.send(("open",))
        asyncio.run(_Worker(pipe, policy).run())
    except EOFError:
        pass
    except BaseException as e:
        code = 1
        with suppress(OSError):
            pipe.send(("failed", carried(e)))
    os._exit(code)  # at once: threads of libraries may wait for each other


class _Worker:
    def __init__(self, pipe: Connection, policy: ModelPolicy) -> None:
        self._pipe, self._policy = pipe, policy
        self._sending = threading.Lock()
        self._rollouts: dict[int, Rollouts] = {}
        self._groups: dict[int, asyncio.Task[None]] = {}
        self._unkept: dict[tuple[int, int], asyncio.Future[None]] = {}
        self._over = asyncio.Event()
        self._broken: BaseException | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop,), name="messages", daemon=True).start()
        await self._over.wait()
        for task in self._groups.values():
            task.cancel()
        await asyncio.gather(*self._groups.values(), return_exceptions=True)
        for rollouts in self._rollouts.values():
            rollouts.close()
        await self._policy.aclose()
        if self._broken is not None:
            raise self._broken

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop has ended
            try:
                while (message := self._pipe.recv()) is not None:
                    loop.call_soon_threadsafe(self._obey, message)
            except (EOFError, OSError):
                pass
            except BaseException as e:  # what was sent cannot be read here
                self._broken = e
            loop.call_soon_threadsafe(self._over.set)

    def _obey(self, message: Any) -> None:
        match message:
            case Begin(number=number):
                self._rollouts[number] = Rollouts(
                    self._policy,
                    message.budget,
                    message.params,
                    keep_image=self._handing_over(number) if message.hands_over else message.keep,
                    concurrency=message.concurrency,
                    wording=message.wording,
                    guard=message.guard,
                )
            case End(number):
                self._rollouts.pop(number).close()
            case Roll():
                self._groups[message.number] = asyncio.create_task(self._roll(message))
            case Kept(number, sample):
                if (kept := self._unkept.pop((number, sample), None)) is not None and not kept.done():
                    kept.set_result(None)
            case CallOff(number):
                if number in self._groups:
                    self._groups[number].cancel()
            case Do(number, name, arguments):
                try:
                    getattr(self._policy, name)(**arguments)
                    error = None
                except Exception as e:
                    error = carried(e)
                self._send("did", number, error)

    async def _roll(self, roll: Roll) -> None:
        loop = asyncio.get_running_loop()

        def ended(record: TrajectoryRecord, ledger: Ledger | None) -> asyncio.Future[None]:
            kept = self._unkept[roll.number, record.sample] = loop.create_future()
            self._send("record", roll.number, record, ledger if roll.ledgers else None, self._used())
            return kept

        error: BaseException | None = None
        try:
            rollouts = self._rollouts[roll.rollouts]
            await rollouts.group(roll.question, roll.task, roll.tool, roll.n, only=roll.only, ended=ended)
        except asyncio.CancelledError:
            pass
        except BaseException as e:  # handed to whoever waits
            error = carried(e)
        del self._groups[roll.number]
        for branch in roll.only:
            self._unkept.pop((roll.number, branch), None)
        self._send("over", roll.number, error, self._used())

    def _handing_over(self, number: int) -> Callable[[bytes], str]:
        sent: set[str] = set()

        def keep(png: bytes) -> str:
            sha = bytes_hash(png)
            if sha not in sent:
                sent.add(sha)
                self._send("picture", number, png)
            return sha

        return keep

    def _used(self) -> dict[str, float]:
        return usage_numbers(self._policy.usage)

    def _send(self, *message: Any) -> None:
        with self._sending, suppress(OSError):  # the parent is gone, and so is this process soon
            self._pipe.send(message)


def carried(error: BaseException) -> BaseException:
    """An error as it can be sent: itself, or where that is not possible a RuntimeError with all that it said."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    error.add_note("".join(traceback.format_exception(error)).rstrip())  # the way to it lies in another process
    return error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
