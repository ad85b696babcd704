"""The loop every policy goes through: show the whole spectrum, let it call tools, stop for a stated reason.

    check what the task requires → show → (act → observe)* → verdict

At most `max_turns` turns (8 as published); a call in the last is not executed and the trajectory fails, since a model
that never answers has not answered. Nothing here raises for what a policy or a tool does: it becomes a stop reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from specvet.agent.requirements import missing_requirement
from specvet.policies import Action, Answered, Call, Malformed, Policy, Trajectory, Turn
from specvet.records import text_hash
from specvet.records.schema import (
    Answer,
    Measurement,
    ObservationRecord,
    Question,
    StopReason,
    TrajectoryRecord,
    TurnRecord,
    Verdict,
)
from specvet.spectra import Spectrum
from specvet.tasks import Task
from specvet.tools import Observation, ZoomTool, one_line
from specvet.views import RenderError, RenderPool, RenderTimeout

KeepImage = Callable[[bytes], str]
"""Stores a PNG and returns its SHA-256."""


MAX_PROBLEM = 500
"""Characters of what went wrong that are kept."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What one trajectory may use."""

    max_turns: int = 8
    max_malformed: int = 0
    """Malformed turns that are answered with a reminder before the trajectory fails."""
    max_seconds: float = 600.0


def run_agent(
    question: Question,
    task: Task,
    tool: ZoomTool,
    policy: Policy,
    budget: Budget = Budget(),
    pool: RenderPool | None = None,
    keep_image: KeepImage | None = None,
) -> TrajectoryRecord:
    """Let `policy` answer `question` about the tool's spectrum.

    Views are drawn in `pool` (off this thread, with the tool's deadline) when the policy looks at images or
    `keep_image` is given; else they stay undrawn and only their hashes are kept. What `keep_image` raises is raised.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    stage = _Stage(policy, pool, keep_image, tool.deadline_s)
    seen = _opening(tool)
    verdict, stop = _no_data(task, seen), StopReason.NOT_ASKED
    opening = stage.shown(seen)
    if verdict is None and not opening.ok:
        verdict = _failed(f"the spectrum could not be shown: {opening.text}")
        stop = StopReason.OUT_OF_TIME if opening.kind == "deadline" else StopReason.NOT_ASKED
    trajectory = Trajectory(question, task, opening, max_turns=budget.max_turns)
    measurements: tuple[Measurement, ...] = ()
    malformed = 0
    while verdict is None:
        if not trajectory.turns_left:
            verdict, stop = _failed(f"no answer within {budget.max_turns} turns"), StopReason.MAX_TURNS
            break
        if time.perf_counter() - clock > budget.max_seconds:
            verdict, stop = _failed(f"no answer within {budget.max_seconds:.0f} s"), StopReason.OUT_OF_TIME
            break
        tick = time.perf_counter()
        try:
            action = _action(policy.act(trajectory))
        except MemoryError:  # not this spectrum's fault
            raise
        except Exception as e:  # whatever a policy does wrong belongs to this spectrum, not to the whole list
            said = one_line(e, MAX_PROBLEM)
            verdict, stop = _failed(f"the policy failed: {type(e).__name__}: {said}"), StopReason.POLICY_ERROR
            break
        observation: Observation | None = None
        if isinstance(action, Answered):
            verdict, stop, measurements = action.verdict, StopReason.ANSWERED, action.measurements
        elif isinstance(action, Malformed):
            malformed += 1
            problem = one_line(action.problem, MAX_PROBLEM)
            observation = Observation("malformed", f"That was neither a tool call nor an answer: {problem}.")
            if malformed > budget.max_malformed:
                verdict, stop = _failed(f"malformed turn: {problem}"), StopReason.MALFORMED
        elif trajectory.turns_left == 1:
            observation = Observation("not_executed", "No turns are left for a tool call.")
        else:
            observation = stage.shown(_called(tool, action))
        trajectory.turns.append(Turn(action, observation, time.perf_counter() - tick))
    return TrajectoryRecord(
        question=question,
        policy=policy.name,
        task_hash=task_hash(task),
        spectrum_hash=_content_hash(tool.spectrum),
        opening=stage.record(opening),
        turns=tuple(
            TurnRecord(
                action=t.action.record(),
                observation=stage.record(t.observation) if t.observation else None,
                seconds=round(t.seconds, 6),
            )
            for t in trajectory.turns
        ),
        stop=stop,
        verdict=verdict,
        measurements=measurements,
        seconds=round(time.perf_counter() - clock, 6),
        started=started.isoformat(timespec="milliseconds"),
    )


def task_hash(task: Task) -> str:
    """SHA-256 of everything a task says; verdicts of one run must share it."""
    return text_hash(task.model_dump_json())


# Several tasks in a row ask about one spectrum, through one tool. Both are found by identity, and never change.


@lru_cache(maxsize=2)
def _opening(tool: ZoomTool) -> Observation:
    return tool.opening()


@lru_cache(maxsize=2)
def _content_hash(spectrum: Spectrum) -> str:
    return spectrum.content_hash


def _action(given: object) -> Action:
    """What a policy gave, if it is an action: policies written elsewhere need not have met a type checker."""
    if isinstance(given, Answered | Malformed | Call):
        return given
    raise TypeError(f"it gave a {type(given).__name__} instead of an action")


def _called(tool: ZoomTool, call: Call) -> Observation:
    if call.tool != tool.name:
        asked = one_line(call.tool)
        return Observation("unknown_tool", f"Error: there is no tool named {asked!r}; the one tool is {tool.name!r}.")
    return tool(call.arguments)


def _no_data(task: Task, opening: Observation) -> Verdict | None:
    missing = opening.text if not opening.ok else missing_requirement(task.requires, opening.data)
    return Verdict(answer=Answer.NO_DATA, reason=missing) if missing else None


def _failed(reason: str) -> Verdict:
    return Verdict(answer=Answer.FAILED, reason=reason)


class _Stage:
    """Draws views for those who look at them, and remembers which picture was kept under which hash."""

    def __init__(self, policy: Policy, pool: RenderPool | None, keep: KeepImage | None, deadline_s: float) -> None:
        self._draw = "images" in policy.capabilities or keep is not None
        self._pool, self._keep, self._deadline_s = pool, keep, deadline_s
        self._kept: dict[str, str] = {}

    def shown(self, observation: Observation) -> Observation:
        view = observation.view
        if view is None or not self._draw:
            return observation
        try:
            png = self._pool.png(view, self._deadline_s) if self._pool else view.png
        except RenderTimeout:
            return Observation("deadline", "Drawing took too long and was stopped; ask for another range.")
        except (RenderError, ValueError) as e:
            problem = one_line(e, MAX_PROBLEM)
            return Observation("not_drawn", f"Drawing failed: {problem}; ask for another range.")
        if self._keep:
            self._kept[view.content_hash] = self._keep(png)
        return observation

    def record(self, observation: Observation) -> ObservationRecord:
        view = observation.view
        return observation.record(self._kept.get(view.content_hash) if view else None)
