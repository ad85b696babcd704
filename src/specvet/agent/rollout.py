"""Multi-turn rollouts: one question, a group of branches, a `TrajectoryRecord` each.

    show → sample the first turn of all branches at once → each branch goes its own way: (act → observe)* → verdict

Turns, budgets and stop reasons are those of the `Episode`. A turn's prompt is the ledger as it stands: before each
request it is held against the one before, and the backend's count of it against the ledger's. An observation that does
not fit into the context ends the trajectory before it. Rendering and tools run off the event loop.

With a policy that draws sequence i of a request from the stream (seed, i), a branch is the same whatever runs beside
it, in whatever order, and when only some branches are made again. Results come in the order of branches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from specvet.agent.budget import DEFAULT_BUDGET, Budget
from specvet.agent.ending import end_with
from specvet.agent.episode import Ask, Episode, Execute, Over, Remind, Start
from specvet.agent.loop import content_hash, missing_data, task_hash
from specvet.agent.opening import conversation, observation_message
from specvet.agent.scene import Scene, Seen, Studio
from specvet.agent.slots import Held, Slots, branches_of
from specvet.agent.stage import KeepImage
from specvet.agent.talk import (
    ModelPolicy,
    OverContextError,
    RequestCancelledError,
    Talk,
    Utterance,
    begin,
)
from specvet.agent.timing import Timing
from specvet.agent.waiting import is_being_cancelled, within
from specvet.chat import Ledger, LedgerError
from specvet.policies import Answered, Call
from specvet.policies.tokens import SamplingParams, turn_seed
from specvet.records.schema import Question, StopReason, TrajectoryRecord, Verdict
from specvet.tasks import Task, Wording, reward
from specvet.tools import Observation, ZoomTool
from specvet.views import RenderPool

T = TypeVar("T")

Guard = Callable[[Task, Observation], Verdict | None]
"""What the program says itself of a spectrum, see `specvet.agent.guard`; None where a model is asked."""

Ended = Callable[[TrajectoryRecord, Ledger | None], Awaitable[None] | None]
"""Hears of a trajectory that is over; its ledger is None where nothing was shown. What it gives is waited for before
another trajectory takes the place of this one."""

EARNED = {
    StopReason.ANSWERED,
    StopReason.MAX_TURNS,
    StopReason.MALFORMED,
    StopReason.TRUNCATED,
    StopReason.CONTEXT,
    StopReason.IMAGE_IDS,
}
"""Ends that are the model's own doing; only these are rewarded. A server that stalls says nothing of a model."""


async def rollout_group(
    question: Question,
    task: Task,
    tool: ZoomTool,
    policy: ModelPolicy,
    n: int = 1,
    budget: Budget = DEFAULT_BUDGET,
    params: SamplingParams | None = None,
    *,
    pool: RenderPool | None = None,
    keep_image: KeepImage | None = None,
    only: Collection[int] | None = None,
    done: Callable[[TrajectoryRecord], None] | None = None,
    wording: Wording = "full",
) -> list[TrajectoryRecord]:
    """`n` trajectories about one question, in the order of their branches; see `Rollouts.group` for many questions."""
    rollouts = Rollouts(
        policy, budget, params, pool=pool, keep_image=keep_image, concurrency=max(1, n), wording=wording
    )
    try:
        return await rollouts.group(question, task, tool, n, only=only, done=done)
    finally:
        rollouts.close()


@dataclass(slots=True)
class Tally:
    """What has happened so far, for those who watch."""

    running: int = 0
    """Branches."""
    finished: int = 0
    turns: int = 0
    calls: int = 0
    sampled: int = 0
    """Tokens."""
    prompt: int = 0
    stops: dict[str, int] = field(default_factory=dict)


class Rollouts:
    """Rolls out questions with one policy; any number of `group`s at a time on one event loop.

    `params` are those of every turn; their `max_tokens` and `seed` are replaced a turn: by what the budget leaves, and
    by `turn_seed` of seed, question, branch and turn. At most `concurrency` branches run at a time. Questions are asked
    in `wording`, see `specvet.tasks.wording`; where `guard` gives a verdict they are not asked, see
    `specvet.agent.guard`.
    """

    def __init__(
        self,
        policy: ModelPolicy,
        budget: Budget = DEFAULT_BUDGET,
        params: SamplingParams | None = None,
        *,
        pool: RenderPool | None = None,
        keep_image: KeepImage | None = None,
        concurrency: int = 64,
        wording: Wording = "full",
        guard: Guard | None = None,
    ) -> None:
        self.policy, self.budget, self.wording, self.guard = policy, budget, wording, guard
        self.params = params or SamplingParams(budget.turn_tokens)
        self.tally = Tally()
        self._timing = Timing(policy.usage.notes)
        self._studio = Studio(self._timing, draws="images" in policy.capabilities, pool=pool, keep=keep_image)
        self._slots = Slots(concurrency)

    def close(self) -> None:
        """Let the threads end. The policy stays open: it is its owner's."""
        self._studio.close()

    async def group(
        self,
        question: Question,
        task: Task,
        tool: ZoomTool,
        n: int = 1,
        *,
        only: Collection[int] | None = None,
        done: Callable[[TrajectoryRecord], None] | None = None,
        ended: Ended | None = None,
    ) -> list[TrajectoryRecord]:
        """`n` trajectories about one question, in the order of their branches; of these branches `only`, where given.

        `done` is told of each as soon as it is over; so is `ended`, of the ledger with its pictures too. What a policy
        or a tool does wrong ends one branch with a stop reason, not the others. Raises PolicyError when it is fatal and
        what `done`, `ended` and the image store raise; then branches that were not over are lost.
        """
        branches = branches_of(n, only)
        self._timing.loop()
        async with self._slots.some(len(branches)) as slots:

            def over(record: TrajectoryRecord, ledger: Ledger | None) -> Awaitable[None] | None:
                if done is not None:
                    done(record)
                return None if ended is None else ended(record, ledger)

            return await _Group(self, question, task, tool, n, branches, slots, over).run()


class _Group:
    """One question on its way."""

    def __init__(
        self,
        rollouts: Rollouts,
        question: Question,
        task: Task,
        tool: ZoomTool,
        n: int,
        branches: list[int],
        slots: Held,
        ended: Ended,
    ) -> None:
        self.all, self.question, self.task, self.tool = rollouts, question, task, tool
        self.n, self.branches, self.slots, self.ended = n, branches, slots, ended
        self.scene = Scene(tool, rollouts._studio)
        self.budget, self.params = rollouts.budget, rollouts.params

    async def run(self) -> list[TrajectoryRecord]:
        start = Start.now()
        studio = self.all._studio
        opening, missing, ruled, hashes = await studio.work(self._prepared)
        seen = await self.scene.shown(opening)
        root = Episode(
            self.question,
            self.task,
            self.tool,
            seen.observation,
            policy=self.all.policy.name,
            task_hash=hashes[0],
            spectrum_hash=hashes[1],
            budget=self.budget,
            missing=missing,
            ruled=ruled,
            group=self.n,
            start=start,
        )
        step = root.step()
        talk = await self._begun(root, seen) if isinstance(step, Ask) else None
        if not isinstance(step, Ask) or talk is None:
            await self.scene.keep(seen.observation)
            return await all_of([self._branch(root.branch(branch), None, None) for branch in self.branches])
        talks = [talk.fork() for _ in self.branches]
        try:
            first = await self._first(step, talk)
            ways = zip(self.branches, talks, first, strict=True)
            return await all_of([self._branch(root.branch(branch), t, said) for branch, t, said in ways])
        finally:
            for each in (*talks, talk):  # also those that never got under way
                each.close()

    def _prepared(self) -> tuple[Observation, str, Verdict | None, tuple[str, str]]:
        opening = self.tool.opening()
        if opening.view is not None:
            _ = opening.view.content_hash
        missing, guard = missing_data(self.task, opening), self.all.guard
        ruled = guard(self.task, opening) if guard is not None and not missing else None
        return opening, missing, ruled, (task_hash(self.task), content_hash(self.tool.spectrum))

    async def _begun(self, root: Episode, seen: Seen) -> Talk | None:
        """The first prompt; None where it cannot be made, and the episode is over."""
        turns, wording = self.budget.max_turns, self.all.wording
        said = conversation(self.question, self.task, self.tool, seen.observation, seen.image, turns, wording)
        policy = self.all.policy
        try:
            talk = await self.all._studio.work(lambda: begin(policy, said, self.budget.context))
        except OverContextError as e:
            root.stopped(StopReason.CONTEXT, f"the question does not fit into the context: {e}", "opening")
            return None
        except LedgerError as e:
            root.stopped(StopReason.LEDGER, f"the first prompt cannot be made: {e}")
            return None
        await self.scene.keep(seen.observation)
        return talk

    async def _first(self, step: Ask, talk: Talk) -> list[Utterance | Exception]:
        """The first turn of each branch; what stops the request stops them all, each in its own record."""
        limit = min(self.budget.turn_tokens, talk.room)
        params = replace(self.params, max_tokens=limit)
        seed, id = self.params.seed, self.question.id
        try:
            return await within(
                step.seconds, talk.first(self.branches, params, lambda branch: turn_seed(seed, id, branch, 0))
            )
        except asyncio.CancelledError as e:
            if is_being_cancelled():
                raise
            return [RequestCancelledError.of(e)] * len(self.branches)
        except Exception as e:
            return [e] * len(self.branches)

    async def _branch(
        self, episode: Episode, talk: Talk | None, first: Utterance | Exception | None
    ) -> TrajectoryRecord:
        tally = self.all.tally
        tally.running += 1
        waiting = time.perf_counter()
        try:
            async with self.slots.one():
                episode.waited(time.perf_counter() - waiting)
                if talk is not None:
                    await self._through(episode, talk, first)
                record = await self.all._studio.work(lambda: self._record(episode, talk))
                tally.finished += 1
                tally.stops[record.stop] = tally.stops.get(record.stop, 0) + 1
                self.all._timing.loop()
                kept = self.ended(record, None if talk is None else talk.ledger)
                if kept is not None:
                    await kept
        finally:
            tally.running -= 1
            if talk is not None:
                talk.close()
        return record

    async def _through(self, episode: Episode, talk: Talk, waiting: Utterance | Exception | None) -> None:
        while True:
            match episode.step():
                case Over():
                    return
                case Ask(turn, seconds):
                    try:
                        said = waiting if waiting is not None else await self._next(episode, talk, turn, seconds)
                        waiting = None
                        self._heard(episode, talk, said)
                    except (Exception, asyncio.CancelledError) as e:
                        end_with(episode, e)
                case Execute(call):
                    self.all.tally.calls += 1
                    seen = await self._timed(episode, self.scene.answer(call))
                    if seen is not None:
                        await self._show(episode, talk, seen)
                case Remind(observation):
                    await self._show(episode, talk, Seen(observation))

    async def _next(self, episode: Episode, talk: Talk, turn: int, seconds: float) -> Utterance:
        params = replace(
            self.params,
            max_tokens=min(self.budget.turn_tokens, talk.room),
            seed=turn_seed(self.params.seed, self.question.id, episode.sample, turn),
        )
        return await within(seconds, talk.next(params))

    def _heard(self, episode: Episode, talk: Talk, said: Utterance | Exception) -> None:
        if isinstance(said, Exception):
            raise said
        heard = talk.hear(said)
        tally = self.all.tally
        tally.turns += 1
        tally.sampled += heard.tokens.sampled or 0
        tally.prompt += heard.tokens.prompt or 0
        episode.acted(heard.action, heard.tokens, said.limit)

    async def _timed(self, episode: Episode, answer: Awaitable[Seen]) -> Seen | None:
        """What a tool gives, or None when the trajectory's own time ends first, and the episode with it."""
        try:
            return await within(max(0.0, episode.seconds_left), answer)
        except TimeoutError:
            episode.out_of_time()
            return None

    async def _show(self, episode: Episode, talk: Talk, seen: Seen) -> None:
        message = observation_message(seen.observation, seen.image)
        try:
            # In a thread: a tokenizer lets go of the interpreter at each of its calls, and on the loop every one of
            # them would wait for it behind the threads that draw.
            await self.all._studio.work(lambda: talk.show(message))
        except OverContextError as e:
            reason = f"what came back does not fit into the context: {e}"
            episode.stopped(StopReason.CONTEXT, reason, "observation", _unshown(e))
            return
        except LedgerError as e:
            episode.stopped(StopReason.LEDGER, f"what came back fits no ledger: {e}")
            return
        await self.scene.keep(seen.observation)
        episode.observed(seen.observation)

    def _record(self, episode: Episode, talk: Talk | None) -> TrajectoryRecord:
        record = episode.record(self.scene.record, None if talk is None else talk.kept())
        truth = self.question.answer
        if truth is None or talk is None or episode.stop not in EARNED:
            return record
        actions = [turn.action for turn in episode.trajectory.turns]
        well = bool(actions) and isinstance(actions[-1], Answered) and all(isinstance(a, Call) for a in actions[:-1])
        calls = getattr(getattr(self.all.policy, "format", None), "calls", None)
        parts = reward(talk.turns(), truth, self.task.reward, calls=calls, format_ok=well)
        kept = {"score": parts.score, "correct": float(parts.correct), "format_ok": float(parts.format_ok)}
        return record.model_copy(update={"reward": kept})


async def all_of(ways: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all; the first that raises has the others cancelled, and is raised when they have ended."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()  # those that are done do not mind
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    return [task.result() for task in tasks]


def _unshown(error: OverContextError) -> Observation:
    return Observation("over_context", f"What came back did not fit into the context ({error}) and was not shown.")
