"""Attempts at problems: one problem, a group of branches, a `Solution` each; the tool is called in mid-turn.

    show → sample the first stretch of all branches at once → each goes its own way: (stretch → result)* → answer

As with `specvet.agent.rollout`, whose talk, seeds and ends these are: a prompt is the ledger as it stands, and a branch
is the same whatever runs beside it. The tool runs in threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import replace

from specvet.agent.ending import end_with
from specvet.agent.episode import Over, Start
from specvet.agent.problem_episode import Ask, Calculator, Compute, Given, ProblemBudget, ProblemEpisode, Put, Result
from specvet.agent.problem_talk import Piece, ProblemTalk, begin_problem
from specvet.agent.rollout import all_of
from specvet.agent.slots import Held, Slots, branches_of
from specvet.agent.talk import ModelPolicy, OverContextError, RequestCancelledError, Utterance
from specvet.agent.waiting import is_being_cancelled, within
from specvet.agent.workers import Workers
from specvet.chat import Conversation, Ledger, LedgerError
from specvet.chat.sympy_tags import STOPS, WORD_STOPS
from specvet.policies.tokens import SamplingParams, turn_seed
from specvet.records.schema import StopReason
from specvet.records.solutions import Solution

GRACE_S = 1.0
"""Seconds beyond a call's own that the tool is waited for: it should have ended the call itself."""

Ended = Callable[[Solution, Ledger | None], Awaitable[None] | None]
"""Hears of an attempt that is over; its ledger is None where the question fits no prompt."""


class Solver:
    """Attempts problems with one policy and one tool; any number of `group`s at a time on one event loop.

    `params` are those of every stretch; their `max_tokens`, `seed` and `stop` are replaced: by what the budget leaves,
    by `turn_seed` of seed, problem, branch and stretch, and by the format's stops.
    """

    def __init__(
        self,
        policy: ModelPolicy,
        tool: Callable[[], Calculator],
        budget: ProblemBudget | None = None,
        params: SamplingParams | None = None,
        *,
        concurrency: int = 64,
    ) -> None:
        """`tool` makes one for each attempt: `specvet.tools.sympy_tool.SympyTool`."""
        self.policy, self.tool, self.budget = policy, tool, budget or ProblemBudget()
        stops = STOPS if hasattr(policy, "sample") else WORD_STOPS
        self.params = replace(params or SamplingParams(self.budget.turn_tokens), stop=stops)
        self._slots = Slots(concurrency)
        self._hands = Workers(min(4, concurrency), "specvet-calculator")

    def close(self) -> None:
        """Let the threads end. Policy and tool stay open: they are their owners'."""
        self._hands.close()

    async def group(
        self,
        problem: str,
        opening: Conversation,
        n: int = 1,
        *,
        only: Collection[int] | None = None,
        ended: Ended | None = None,
    ) -> list[Solution]:
        """`n` attempts at the problem of that id, in the order of their branches; of these branches `only`.

        `ended` is told of each as soon as it is over. What a policy or the tool does wrong ends one branch with a stop
        reason. Raises PolicyError when it is fatal and what `ended` raises; branches that were not over are lost then.
        """
        branches = branches_of(n, only)
        async with self._slots.some(len(branches)) as slots:
            return await _Group(self, problem, opening, n, branches, slots, ended).run()


async def solve(
    problem: str,
    opening: Conversation,
    tool: Callable[[], Calculator],
    policy: ModelPolicy,
    n: int = 1,
    budget: ProblemBudget | None = None,
    params: SamplingParams | None = None,
) -> list[Solution]:
    """`n` attempts at one problem; see `Solver.group` for many problems."""
    solver = Solver(policy, tool, budget, params, concurrency=max(1, n))
    try:
        return await solver.group(problem, opening, n)
    finally:
        solver.close()


class _Group:
    """One problem on its way."""

    def __init__(
        self,
        solver: Solver,
        problem: str,
        opening: Conversation,
        n: int,
        branches: list[int],
        slots: Held,
        ended: Ended | None,
    ) -> None:
        self.all, self.problem, self.opening = solver, problem, opening
        self.n, self.branches, self.slots, self.ended = n, branches, slots, ended
        self.budget, self.params = solver.budget, solver.params
        self.start = Start.now()

    async def run(self) -> list[Solution]:
        episodes = [self._episode(branch) for branch in self.branches]
        try:
            talk = begin_problem(self.all.policy, self.opening, self.budget.context)
        except (OverContextError, LedgerError) as e:
            for episode in episodes:
                fits = isinstance(e, LedgerError)
                stop = StopReason.LEDGER if fits else StopReason.CONTEXT
                episode.stopped(stop, f"the question makes no prompt: {e}", "" if fits else "opening")
            return await all_of([self._branch(episode, None, None) for episode in episodes])
        talks = [talk.fork() for _ in self.branches]
        try:
            first = await self._first(talk)
            ways: Sequence[Coroutine[None, None, Solution]] = [
                self._branch(*each) for each in zip(episodes, talks, first, strict=True)
            ]
            return await all_of(ways)
        finally:
            for each in (*talks, talk):
                each.close()

    def _episode(self, branch: int) -> ProblemEpisode:
        policy = self.all.policy
        return ProblemEpisode(
            self.problem,
            policy=policy.name,
            budget=self.budget,
            sample=branch,
            group=self.n,
            start=self.start,
            thinking=bool(getattr(getattr(policy, "format", None), "thinking", False)),
        )

    async def _first(self, talk: ProblemTalk) -> list[Utterance | Exception]:
        """The first stretch of each branch; what stops the request stops them all."""
        params = replace(self.params, max_tokens=min(self.budget.turn_tokens, talk.room))
        asked = talk.first(self.branches, params, lambda b: turn_seed(self.params.seed, self.problem, b, 0))
        try:
            return await within(self.budget.max_seconds, asked)
        except asyncio.CancelledError as e:
            if is_being_cancelled():
                raise
            return [RequestCancelledError.of(e)] * len(self.branches)
        except Exception as e:
            return [e] * len(self.branches)

    async def _branch(
        self, episode: ProblemEpisode, talk: ProblemTalk | None, first: Utterance | Exception | None
    ) -> Solution:
        waiting = time.perf_counter()
        try:
            async with self.slots.one():
                episode.waited(time.perf_counter() - waiting)
                if talk is not None:
                    await self._through(episode, talk, first)
                solution = episode.record(None if talk is None else talk.kept)
                if self.ended is not None:
                    kept = self.ended(solution, None if talk is None else talk.ledger)
                    if kept is not None:
                        await kept
        finally:
            if talk is not None:
                talk.close()
        return solution

    async def _through(self, episode: ProblemEpisode, talk: ProblemTalk, waiting: Utterance | Exception | None) -> None:
        tool = self.all.tool()
        while True:
            match episode.step():
                case Over():
                    return
                case Ask(turn, seconds):
                    try:
                        said = waiting if waiting is not None else await self._next(episode, talk, turn, seconds)
                        waiting = None
                        if isinstance(said, Exception):
                            raise said
                        heard, tokens = talk.listen(said)
                        episode.heard(heard, tokens, said.limit)
                    except (Exception, asyncio.CancelledError) as e:
                        end_with(episode, e)
                case Compute(argument, seconds):
                    episode.computed(await self._computed(tool, argument, seconds))
                case Put() as put:
                    self._show(episode, talk, put)

    async def _next(self, episode: ProblemEpisode, talk: ProblemTalk, turn: int, seconds: float) -> Utterance:
        if talk.room < 1:
            raise OverContextError(f"{talk.ledger.n_tokens} of {talk.context} tokens")
        params = replace(
            self.params,
            max_tokens=min(self.budget.turn_tokens, talk.room),
            seed=turn_seed(self.params.seed, self.problem, episode.sample, turn),
        )
        return await within(seconds, talk.next(params))

    async def _computed(self, tool: Calculator, argument: str, seconds: float) -> Result:
        """What the tool gives. What it does wrong is an error for the model to see."""
        try:
            return await self.all._hands.run(lambda: tool.run(argument), seconds + GRACE_S)
        except MemoryError:
            raise
        except TimeoutError:
            return Given("error", "timeout", f"error: timeout: no result within {seconds:g} s", seconds + GRACE_S)
        except Exception as e:  # the promise never to raise is the tool's, and may be broken
            return Given("error", "internal", f"error: internal: the tool failed ({type(e).__name__})")

    def _show(self, episode: ProblemEpisode, talk: ProblemTalk, put: Put) -> None:
        missing: list[Piece] = [("harness", put.missing)] if put.missing else []
        try:
            talk.put([*missing, ("tool" if put.segment.kind == "tool" else "harness", put.segment.text)])
        except OverContextError as e:
            episode.stopped(StopReason.CONTEXT, f"a result does not fit into the context: {e}", "observation")
        except LedgerError as e:
            episode.stopped(StopReason.LEDGER, f"a result fits no ledger: {e}")
        else:
            episode.shown()
