"""The `Episode`: what has happened in one trajectory, what comes next, and the record of it.

    step() → Ask      then `acted` or `stopped`
           → Execute  then `observed` or `stopped`
           → Remind   then `observed` or `stopped`
           → Over     then `record`

It does nothing itself, so that the loop for policies that measure (`specvet.agent.loop`) and the one for models
(`specvet.agent.rollout`) share one definition of turns, budgets and stop reasons. At most `max_turns` turns; a call in
the last is not executed and the trajectory fails, since a model that never answers has not answered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from specvet.agent.budget import Budget
from specvet.policies import Action, Answered, Call, Malformed, Trajectory, Truncated, Turn
from specvet.records.schema import (
    Answer,
    CallCounts,
    Measurement,
    ObservationRecord,
    Question,
    StopReason,
    TokenCounts,
    TrajectoryRecord,
    TurnRecord,
    TurnTokens,
    Verdict,
)
from specvet.tasks import Task
from specvet.tools import Observation, Tool, one_line

MAX_PROBLEM = 500
"""Characters of what went wrong that are kept."""

LOOPING = 0.1
"""Share of the commonest four tokens in a row from which on a turn counts as looping: a loop of ten tokens or fewer.
Prose stays below 0.05."""

IMAGE_IDS = "image_ids"
"""The kind of malformed turn that no reminder mends, since its ids would count as pictures in every later prompt."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the policy for its next action."""

    turn: int
    """From 0."""
    seconds: float
    """That are left."""


@dataclass(frozen=True, slots=True)
class Execute:
    """Hand the call to the tool and show what comes back."""

    call: Call


@dataclass(frozen=True, slots=True)
class Remind:
    """Show the policy what was wrong with its turn."""

    observation: Observation


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing comes next."""


Step = Ask | Execute | Remind | Over


@dataclass(frozen=True, slots=True)
class Start:
    """When a trajectory began."""

    at: str
    """UTC, ISO 8601."""
    clock: float
    """Seconds of `time.perf_counter`."""

    @classmethod
    def now(cls) -> Start:
        return cls(datetime.now(UTC).isoformat(timespec="milliseconds"), time.perf_counter())


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of the words between program and model."""

    ledger: dict[str, Any]
    total: int = 0
    """Tokens."""
    images: int = 0
    """Of them, those of pictures."""


class Episode:
    """One trajectory, or one branch of it. `opening` is the whole spectrum as it was shown (or why it was not)."""

    def __init__(
        self,
        question: Question,
        task: Task,
        tool: Tool,
        opening: Observation,
        *,
        policy: str,
        task_hash: str,
        spectrum_hash: str | None,
        budget: Budget,
        missing: str = "",
        ruled: Verdict | None = None,
        group: int = 1,
        start: Start | None = None,
    ) -> None:
        """`missing` says why the spectrum cannot answer the task, `ruled` is what the program says itself; with either
        the policy is not asked."""
        self.start = start or Start.now()
        self.trajectory = Trajectory(question, task, opening, max_turns=budget.max_turns)
        self.verdict: Verdict | None = None
        self.stop = StopReason.NOT_ASKED
        self.stop_detail = ""
        self.sample, self.group = 0, group
        self._budget, self._policy = budget, policy
        self._hashes = task_hash, spectrum_hash
        self._known_arguments = _argument_names(tool)
        self._tool = tool.name
        self._measurements: tuple[Measurement, ...] = ()
        self._spent: list[TurnTokens | None] = []
        self._malformed = 0
        self._open: tuple[Action, float] | None = None
        self._next: Execute | Remind | None = None
        self._tick = self.start.clock
        self._timed = -1
        """The turn that `_tick` is the beginning of."""
        self._waited = 0.0
        if missing:
            self.verdict = Verdict(answer=Answer.NO_DATA, reason=missing)
        elif not opening.ok:
            late = opening.kind == "deadline"
            stop = StopReason.OUT_OF_TIME if late else StopReason.NOT_ASKED
            self.stopped(stop, f"the spectrum could not be shown: {opening.text}")
        elif ruled is not None:
            self.verdict = ruled

    def branch(self, sample: int) -> Episode:
        """This episode, not yet begun, as the branch number `sample`."""
        other = object.__new__(Episode)
        other.__dict__.update(self.__dict__)
        other.trajectory = replace(self.trajectory, turns=list(self.trajectory.turns))
        other._spent = list(self._spent)
        other.sample = sample
        return other

    @property
    def seconds_left(self) -> float:
        return self._budget.max_seconds - (time.perf_counter() - self.start.clock - self._waited)

    def waited(self, seconds: float) -> None:
        """So long it was kept from going on by others of its group, which does not count against its own time."""
        self._waited += seconds
        self._tick += seconds

    def step(self) -> Step:
        """What comes next."""
        if self._next is not None:
            return self._next
        if self.verdict is not None:
            return Over()
        if not self.trajectory.turns_left:
            self.stopped(StopReason.MAX_TURNS, f"no answer within {self._budget.max_turns} turns")
            return Over()
        seconds = self.seconds_left
        if seconds <= 0:
            self.out_of_time()
            return Over()
        turn = len(self.trajectory.turns)
        if self._timed != turn:  # a branch's first turn began with the request that it shares
            self._timed, self._tick = turn, time.perf_counter()
        return Ask(turn, seconds)

    def acted(self, action: Action, tokens: TurnTokens | None = None, limit: int | None = None) -> None:
        """The policy has acted; `tokens` is what the turn took, `limit` the tokens that it was allowed."""
        self._open = action, self._tick
        self._spent.append(tokens)
        if isinstance(action, Answered):
            self.verdict, self.stop, self._measurements = action.verdict, StopReason.ANSWERED, action.measurements
            self._close(None)
        elif isinstance(action, Truncated):
            detail = "open_thought" if action.open_thought else ""
            if limit is not None and limit < self._budget.turn_tokens:
                self.stopped(StopReason.CONTEXT, f"no answer within {self._budget.context} tokens", detail)
            else:
                self.stopped(StopReason.TRUNCATED, f"a turn of more than {self._budget.turn_tokens} tokens", detail)
        elif isinstance(action, Malformed):
            self._remind(action)
        elif self.trajectory.turns_left == 1:
            self._close(Observation("not_executed", "No turns are left for a tool call."))
        else:
            self._next = Execute(action)

    def _remind(self, action: Malformed) -> None:
        self._malformed += 1
        problem = one_line(action.problem, MAX_PROBLEM)
        observation = Observation("malformed", f"That was neither a tool call nor an answer: {problem}.")
        last = self._malformed > self._budget.max_malformed
        if action.kind == IMAGE_IDS:
            self.stopped(StopReason.IMAGE_IDS, f"malformed turn: {problem}", IMAGE_IDS, observation)
        elif last:
            self.stopped(StopReason.MALFORMED, f"malformed turn: {problem}", action.kind or "", observation)
        elif self.trajectory.turns_left == 1:
            self._close(observation)
        else:
            self._next = Remind(observation)

    def observed(self, observation: Observation) -> None:
        """The policy has been shown what came back."""
        self._next = None
        self._close(observation)

    def stopped(self, stop: StopReason, reason: str, detail: str = "", observation: Observation | None = None) -> None:
        """The trajectory ends without an answer. A turn that was under way is kept, with `observation`."""
        self.verdict = Verdict(answer=Answer.FAILED, reason=reason)
        self.stop, self.stop_detail, self._next = stop, detail, None
        if self._open is not None:
            self._close(observation)

    def out_of_time(self) -> None:
        """The trajectory's seconds are over."""
        self.stopped(StopReason.OUT_OF_TIME, f"no answer within {self._budget.max_seconds:g} s")

    def _close(self, observation: Observation | None) -> None:
        assert self._open is not None
        action, tick = self._open
        self._open = None
        self.trajectory.turns.append(Turn(action, observation, time.perf_counter() - tick))

    def record(
        self, keep: Callable[[Observation], ObservationRecord] = Observation.record, kept: Kept | None = None
    ) -> TrajectoryRecord:
        """What is kept of it. `keep` turns an observation into its record, `kept` is the ledger of a model."""
        assert self.verdict is not None
        opening, turns = self.trajectory.opening, self.trajectory.turns
        records = tuple(
            TurnRecord(
                action=turn.action.record(),
                observation=keep(turn.observation) if turn.observation else None,
                seconds=round(turn.seconds, 6),
                tokens=tokens,
            )
            for turn, tokens in zip(turns, self._spent, strict=True)
        )
        task_hash, spectrum_hash = self._hashes
        return TrajectoryRecord(
            question=self.trajectory.question,
            policy=self._policy,
            task_hash=task_hash,
            spectrum_hash=spectrum_hash,
            opening=keep(opening),
            turns=records,
            stop=self.stop,
            stop_detail=self.stop_detail,
            verdict=self.verdict,
            measurements=self._measurements,
            seconds=round(time.perf_counter() - self.start.clock, 6),
            started=self.start.at,
            sample=self.sample,
            group=self.group,
            calls=count_calls(records, self._tool, self._known_arguments),
            tokens=None if kept is None else self._tokens(kept),
            ledger=None if kept is None else kept.ledger,
        )

    def _tokens(self, kept: Kept) -> TokenCounts:
        spent = [t for t in self._spent if t is not None]
        return TokenCounts(
            prompt=sum(t.prompt or 0 for t in spent),
            cached=sum(t.cached or 0 for t in spent),
            sampled=sum(t.sampled or 0 for t in spent),
            images=kept.images,
            total=kept.total,
            looping=sum((t.repeated or 0.0) >= LOOPING for t in spent),
        )


def count_calls(turns: Iterable[TurnRecord], tool: str, arguments: Collection[str]) -> CallCounts:
    """The calls of a trajectory, whose one tool has this name and knows these arguments."""
    made = executed = succeeded = repeated = unknown = extra = 0
    seen: set[str] = set()
    for record in turns:
        action, observation = record.action, record.observation
        if action.kind != "call":
            continue
        made += 1
        if action.tool != tool:
            unknown += 1
        else:
            extra += len((action.arguments or {}).keys() - set(arguments))
            executed += observation is not None and observation.kind != "not_executed"
        if observation is None or observation.kind == "not_executed":
            continue
        succeeded += observation.kind == "view"
        same = observation.view_hash or f"{observation.kind} {json.dumps(action.arguments, sort_keys=True)}"
        repeated += same in seen
        seen.add(same)
    return CallCounts(
        made=made,
        executed=executed,
        succeeded=succeeded,
        repeated=repeated,
        unknown_tool=unknown,
        extra_arguments=extra,
    )


def _argument_names(tool: Tool) -> frozenset[str]:
    function: dict[str, Any] = tool.schema().get("function", {})
    return frozenset(function.get("parameters", {}).get("properties", {}))
