"""The loop for policies that measure: show the whole spectrum, let it call tools, stop for a stated reason.

    check what the task requires → show → (act → observe)* → verdict

Turns, budgets and stop reasons are those of the `Episode`. Nothing here raises for what a policy or a tool does: it
becomes a stop reason.
"""

from __future__ import annotations

from functools import lru_cache

from specvet.agent.budget import DEFAULT_BUDGET, Budget
from specvet.agent.episode import MAX_PROBLEM, Ask, Episode, Execute, Over, Remind, Start
from specvet.agent.requirements import missing_requirement
from specvet.agent.stage import KeepImage, Stage
from specvet.policies import Action, Answered, Call, Malformed, Policy, Truncated
from specvet.records import text_hash
from specvet.records.schema import Question, StopReason, TrajectoryRecord
from specvet.spectra import Spectrum
from specvet.tasks import Task
from specvet.tools import Observation, Tool, ZoomTool, one_line
from specvet.views import RenderPool


def run_agent(
    question: Question,
    task: Task,
    tool: ZoomTool,
    policy: Policy,
    budget: Budget = DEFAULT_BUDGET,
    pool: RenderPool | None = None,
    keep_image: KeepImage | None = None,
) -> TrajectoryRecord:
    """Let `policy` answer `question` about the tool's spectrum.

    Views are drawn in `pool` (off this thread, with the tool's deadline) when the policy looks at images or
    `keep_image` is given; else they stay undrawn and only their hashes are kept. What `keep_image` raises is raised.
    """
    start = Start.now()
    draws = "images" in policy.capabilities or keep_image is not None
    stage = Stage(draws, pool, keep_image, tool.deadline_s)
    seen = opening_of(tool)
    episode = Episode(
        question,
        task,
        tool,
        stage.shown(seen),
        policy=policy.name,
        task_hash=task_hash(task),
        spectrum_hash=content_hash(tool.spectrum),
        budget=budget,
        missing=missing_data(task, seen),
        start=start,
    )
    while True:
        match episode.step():
            case Ask():
                try:
                    episode.acted(_action(policy.act(episode.trajectory)))
                except MemoryError:  # not this spectrum's fault
                    raise
                except Exception as e:  # whatever a policy does wrong belongs to this spectrum, not to the whole list
                    episode.stopped(StopReason.POLICY_ERROR, policy_failure(e))
            case Execute(call):
                episode.observed(stage.shown(called(tool, call)))
            case Remind(observation):
                episode.observed(observation)
            case Over():
                return episode.record(stage.record)


def task_hash(task: Task) -> str:
    """SHA-256 of everything that a task says of spectra; verdicts of one run must share it."""
    return text_hash(task.asked())


# Several tasks in a row ask about one spectrum, through one tool. Both are found by identity, and never change.


@lru_cache(maxsize=2)
def opening_of(tool: ZoomTool) -> Observation:
    """The whole spectrum, undrawn."""
    return tool.opening()


@lru_cache(maxsize=2)
def content_hash(spectrum: Spectrum) -> str:
    """The hash of a spectrum's data."""
    return spectrum.content_hash


def called(tool: Tool, call: Call) -> Observation:
    """What a call gives, undrawn."""
    if call.tool != tool.name:
        asked = one_line(call.tool)
        return Observation("unknown_tool", f"Error: there is no tool named {asked!r}; the one tool is {tool.name!r}.")
    return tool(call.arguments)


def missing_data(task: Task, opening: Observation) -> str:
    """Why the spectrum cannot answer the task; empty when it can."""
    return missing_requirement(task.requires, opening.data) if opening.ok else opening.text


def policy_failure(error: BaseException) -> str:
    """What a policy did wrong, in words."""
    return f"the policy failed: {type(error).__name__}: {one_line(error, MAX_PROBLEM)}"


def _action(given: object) -> Action:
    """What a policy gave, if it is an action: policies written elsewhere need not have met a type checker."""
    if isinstance(given, Answered | Malformed | Call | Truncated):
        return given
    raise TypeError(f"it gave a {type(given).__name__} instead of an action")
