"""The loop: budgets, stop reasons, records; whatever a policy does, a record comes out."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from specvet.agent import Budget, run_agent, task_hash
from specvet.policies import Action, Answered, Call, Capability, Malformed, Trajectory, Truncated, policy
from specvet.records.schema import Answer, Measurement, Question, SpectrumRef, StopReason, TrajectoryRecord, Verdict
from specvet.spectra import Spectrum
from specvet.tasks import Coverage, KeyWindow, Requires, Task, builtin_tasks
from specvet.tools import TOOL_NAME, ZoomTool
from specvet.views import RenderPool, View

QUESTION = Question(id="q", task="t", spectrum=SpectrumRef(path="x.fits"), answer="YES")
YES = Answered(Verdict(answer=Answer.YES, confidence=0.9, p_yes=0.9, reason="seen"))
LOOK = Call(TOOL_NAME, {"wavelength_range": [6400, 6700], "label": "Hα"}, text="Look.")


def task(**requires: Any) -> Task:
    return Task(
        key="t",
        name="thing",
        question="Is it?",
        include=("it",),
        exclude=(),
        guidance="Look.",
        windows=(KeyWindow(key="ha", name="Hα", range=(6400.0, 6700.0), why="Hα"),),
        requires=Requires(**requires),
        sources=("a test",),
    )


def spectrum(snr: float = 20.0) -> Spectrum:
    w = np.arange(4000.0, 8000.0, 2.0)
    return Spectrum(w, 10 + np.sin(w / 50), np.full(w.size, (snr / 10) ** 2), medium="air", file="x.fits")


class Scripted:
    """Does what a function of the trajectory, or a list, says."""

    name = "scripted"

    def __init__(self, acts: Callable[[Trajectory], Any] | list[Any], images: bool = False) -> None:
        self.acts = acts
        self.capabilities: frozenset[Capability] = frozenset({"images"} if images else ())
        self.seen: list[Trajectory] = []

    def act(self, trajectory: Trajectory) -> Action:
        self.seen.append(trajectory)
        return self.acts(trajectory) if callable(self.acts) else self.acts[len(trajectory.turns)]  # type: ignore[no-any-return]

    def check(self, task: Task) -> None: ...


def run(
    acts: Any,
    s: Spectrum | None = None,
    t: Task | None = None,
    images: bool = False,
    deadline_s: float = 30.0,
    **more: Any,
) -> Any:
    tool = ZoomTool(s or spectrum(), deadline_s=deadline_s)
    record = run_agent(QUESTION, t or task(), tool, Scripted(acts, images), **more)
    assert TrajectoryRecord.model_validate_json(record.model_dump_json()) == record  # all of it can be kept
    return record


def test_look_then_answer() -> None:
    m = Measurement(index="ha", name="Hα EW", value=-12.0, error=1.0)
    record = run([LOOK, Answered(YES.verdict, (m,), "It is.")])
    assert (record.stop, record.verdict, record.measurements) == (StopReason.ANSWERED, YES.verdict, (m,))
    assert record.tool_calls == 1
    look, answer = record.turns
    assert (look.action.kind, look.action.tool, look.action.text) == ("call", TOOL_NAME, "Look.")
    assert look.action.arguments == {"wavelength_range": [6400, 6700], "label": "Hα"}
    assert look.observation.window == (6400.0, 6700.0)
    assert look.observation.n_points == 151
    assert look.observation.image is None
    assert (answer.action.kind, answer.action.text, answer.observation) == ("answer", "It is.", None)
    assert record.opening.n_points == 2000
    assert record.spectrum_hash == spectrum().content_hash
    assert (record.policy, record.task_hash) == ("scripted", task_hash(task()))


@pytest.mark.parametrize("turns", [1, 2, 8])
def test_a_call_in_the_last_turn_is_not_executed_and_the_trajectory_fails(turns: int) -> None:
    record = run(lambda _: LOOK, budget=Budget(max_turns=turns))
    assert (record.verdict.answer, record.stop) == (Answer.FAILED, StopReason.MAX_TURNS)
    assert record.verdict.reason == f"no answer within {turns} turns"
    assert [t.observation.kind for t in record.turns] == ["view"] * (turns - 1) + ["not_executed"]
    assert record.turns[-1].observation.window is None


def test_eight_turns_are_the_default_and_an_answer_in_the_eighth_counts() -> None:
    record = run([LOOK] * 7 + [YES])
    assert (record.stop, len(record.turns), record.tool_calls) == (StopReason.ANSWERED, 8, 7)


def test_a_policy_sees_how_many_turns_are_left_and_no_label() -> None:
    left: list[int] = []
    run(lambda t: left.append(t.turns_left) or (YES if t.turns_left == 1 else LOOK), budget=Budget(max_turns=3))
    assert left == [3, 2, 1]


def test_no_turns_at_all_fail_at_once() -> None:
    assert run(lambda _: YES, budget=Budget(max_turns=0)).stop is StopReason.MAX_TURNS


def test_a_malformed_turn_fails_and_the_reason_is_kept() -> None:
    record = run([Malformed("no JSON in the tool call", "<tool_call>{")])
    assert (record.verdict.answer, record.stop) == (Answer.FAILED, StopReason.MALFORMED)
    assert record.verdict.reason == "malformed turn: no JSON in the tool call"
    assert record.verdict.confidence is None
    assert record.turns[0].action.text == "no JSON in the tool call: <tool_call>{"


def test_malformed_turns_within_the_budget_are_answered_and_cost_turns() -> None:
    record = run([Malformed("a"), Malformed("b"), YES], budget=Budget(max_malformed=2))
    assert record.stop is StopReason.ANSWERED
    assert [t.observation.kind for t in record.turns[:2]] == ["malformed"] * 2
    assert run([Malformed("a")] * 3, budget=Budget(max_malformed=2)).stop is StopReason.MALFORMED


@pytest.mark.parametrize("error", [RuntimeError("out of\nmemory " + "x" * 9000), KeyError("ha"), ValueError("\ud800")])
def test_what_a_policy_raises_is_this_spectrums_failure(error: Exception) -> None:
    def acts(_: Trajectory) -> Action:
        raise error

    record = run(acts)
    assert (record.verdict.answer, record.stop) == (Answer.FAILED, StopReason.POLICY_ERROR)
    assert record.verdict.reason.startswith(f"the policy failed: {type(error).__name__}: ")
    assert len(record.verdict.reason.splitlines()) == 1
    assert len(record.verdict.reason) < 600


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_is_not_the_policys_fault_is_raised(error: type[BaseException]) -> None:
    def acts(_: Trajectory) -> Action:
        raise error

    with pytest.raises(error):
        run(acts)


@pytest.mark.parametrize("made", [None, "YES", {"answer": "YES"}, YES.verdict])
def test_what_is_no_action_is_a_policy_error(made: Any) -> None:
    record = run([made])
    assert (record.verdict.answer, record.stop) == (Answer.FAILED, StopReason.POLICY_ERROR)
    assert type(made).__name__ in record.verdict.reason


def test_time_runs_out_between_turns() -> None:
    record = run(lambda _: LOOK, budget=Budget(max_seconds=-1.0))
    assert (record.verdict.answer, record.stop) == (Answer.FAILED, StopReason.OUT_OF_TIME)
    assert record.turns == ()


@pytest.mark.parametrize("name", ["zoom", "", "x" * 5000, "two\nlines", "\ud800", None])
def test_an_unknown_tool_is_answered_and_the_trajectory_goes_on(name: Any) -> None:
    record = run([Call(name, {"wavelength_range": [1, 2]}), YES])
    assert record.stop is StopReason.ANSWERED
    seen = record.turns[0].observation
    assert seen.kind == "unknown_tool"
    assert TOOL_NAME in seen.text
    assert len(seen.text) < 300
    assert len(seen.text.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"wavelength_range": [6700, 6400]},
        {"wavelength_range": [math.nan, math.inf]},
        {"wavelength_range": np.array([6400.0, 6700.0]), "label": np.str_("Hα")},
        {"wavelength_range": [6400, 6700], "label": "\ud800", 3: {4, 5}},
        {"wavelength_range": [10**5000, 1]},
        None,
        "[6400, 6700]",
        [6400, 6700],
    ],
)
def test_odd_arguments_are_answered_and_kept(arguments: Any) -> None:
    record = run([Call(TOOL_NAME, arguments), YES])
    assert record.stop is StopReason.ANSWERED
    assert record.turns[0].observation.text


def test_numbers_that_are_not_finite_are_kept_as_words() -> None:
    record = run([Call(TOOL_NAME, {"wavelength_range": (1.0, -math.inf)}), YES])
    assert record.turns[0].action.arguments == {"wavelength_range": [1.0, "-Infinity"]}


def test_calls_are_counted_and_nothing_is_said_of_tokens() -> None:
    zoom_out = Call(TOOL_NAME, {"wavelength_range": [4000, 8000], "colour": "red"})
    record = run([LOOK, LOOK, Call("telescope", {}), zoom_out, Call(TOOL_NAME, {"wavelength_range": [1, 2]}), YES])
    assert record.calls.model_dump() == {
        "made": 5, "executed": 4, "succeeded": 3, "repeated": 1, "unknown_tool": 1, "extra_arguments": 1
    }  # fmt: skip
    assert (record.tokens, record.ledger, record.sample, record.group) == (None, None, 0, 1)
    assert all(t.tokens is None for t in record.turns)


def test_a_truncated_turn_of_a_policy_ends_the_trajectory() -> None:
    record = run([Truncated("on and on", open_thought=True)])
    assert (record.stop, record.stop_detail) == (StopReason.TRUNCATED, "open_thought")
    assert (record.turns[0].action.kind, record.turns[0].action.text) == ("truncated", "on and on")


# NO_DATA: before anybody is asked


@pytest.mark.parametrize(
    ("requires", "says"),
    [
        ({"coverage": (Coverage(range=(8100.0, 8700.0), why="Ca II triplet"),)},
         ["good pixels do not cover 8100-8700 Å (Ca II triplet), which the task needs; "
          "data reach from 4000 to 7998 Å"]),
        ({"coverage": (Coverage(range=(6400.0, 6700.0)), Coverage(range=(7900.0, 8200.0))), "at_least": 2},
         ["good pixels cover 1 of 2 ranges, the task needs both; not 7900-8200 Å; data reach"]),
        ({"coverage": tuple(Coverage(range=(x, x + 50.0)) for x in (8100.0, 8200.0, 8300.0, 8400.0)), "at_least": 2},
         ["cover none of 4 ranges, the task needs at least 2; not 8100-8150 Å", "8300-8350 Å; and 1 more;"]),
        ({"min_snr": 30.0}, ["S/N 20", "asks for 30"]),
    ],
)  # fmt: skip
def test_what_the_task_needs_and_is_not_there_is_no_data_with_the_reason(requires: Any, says: list[str]) -> None:
    policy = Scripted([YES])
    record = run_agent(QUESTION, task(**requires), ZoomTool(spectrum(20.0)), policy)
    assert (record.verdict.answer, record.stop) == (Answer.NO_DATA, StopReason.NOT_ASKED)
    assert all(s in record.verdict.reason for s in says), record.verdict.reason
    assert policy.seen == []
    assert record.turns == ()
    assert record.opening is not None
    assert record.opening.n_points == 2000


def test_what_the_task_needs_and_is_there_is_asked() -> None:
    requires = {"coverage": (Coverage(range=(6400.0, 6700.0)), Coverage(range=(8900.0, 9000.0))), "min_snr": 15.0}
    assert run([YES], t=task(**requires)).stop is StopReason.ANSWERED


@pytest.mark.parametrize("flux", [math.nan, math.inf])
def test_a_spectrum_without_points_is_no_data(flux: float) -> None:
    w = np.arange(4000.0, 4100.0)
    for s in (Spectrum(w, np.full(100, flux)), Spectrum(w[:4], np.ones(4)), Spectrum(np.empty(0), np.empty(0))):
        record = run([YES], s)
        assert record.verdict.answer is Answer.NO_DATA
        assert "nothing to show" in record.verdict.reason


# Pictures


def test_pictures_are_kept_only_when_asked_and_drawn_only_for_those_who_look() -> None:
    drawn: list[bool] = []

    def acts(t: Trajectory) -> Action:
        views = [t.opening.view, *(turn.observation.view for turn in t.turns if turn.observation)]
        drawn.extend(v.drawn for v in views if v)
        return YES if t.turns else LOOK

    record = run(acts)
    assert not any(drawn)
    assert record.opening.image is None
    assert record.turns[0].observation.image is None
    drawn.clear()
    record = run(acts, images=True)
    assert all(drawn)
    assert record.opening.image is None
    kept: dict[str, bytes] = {}

    def keep(png: bytes) -> str:
        name = hashlib.sha256(png).hexdigest()
        kept[name] = png
        return name

    record = run(acts, keep_image=keep)
    assert {record.opening.image, record.turns[0].observation.image} == kept.keys()
    assert all(png.startswith(b"\x89PNG") for png in kept.values())


def test_a_full_disk_while_keeping_pictures_is_raised() -> None:
    def keep(_: bytes) -> str:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        run([YES], keep_image=keep)


def draw_zooms_never(view: View) -> bytes:
    if view.window is not None:
        time.sleep(60)
    return b"\x89PNG full"


def draw_nothing(view: View) -> bytes:
    raise RuntimeError(f"no ink for {view.title}")


def test_a_drawing_that_takes_too_long_is_an_observation_and_the_loop_goes_on() -> None:
    with RenderPool(deadline_s=60.0, draw=draw_zooms_never) as pool:
        record = run([LOOK, YES], images=True, pool=pool, deadline_s=0.3)  # the tool's own deadline counts
    assert record.stop is StopReason.ANSWERED
    seen = record.turns[0].observation
    assert (seen.kind, seen.window, seen.view_hash) == ("deadline", None, None)
    assert "too long" in seen.text


def test_a_spectrum_that_cannot_be_drawn_fails_and_is_not_called_no_data() -> None:
    with RenderPool(draw=draw_nothing) as pool:
        record = run([YES], images=True, pool=pool)
    assert record.verdict.answer is Answer.FAILED
    assert "no ink for Spectrum" in record.verdict.reason
    assert record.opening.kind == "not_drawn"


# The same again


def test_two_runs_differ_in_nothing_but_time() -> None:
    t = builtin_tasks()["cv"]
    records = [run_agent(QUESTION, t, ZoomTool(spectrum()), policy("line-indices")) for _ in range(2)]
    times = {"seconds": 0.0, "started": ""}
    bare = [
        r.model_copy(update={**times, "turns": tuple(x.model_copy(update={"seconds": 0.0}) for x in r.turns)})
        for r in records
    ]
    assert bare[0] == bare[1]
    assert bare[0].tool_calls > 0


def test_the_tasks_hash_follows_its_words() -> None:
    assert task_hash(task()) == task_hash(task())
    assert task_hash(task()) != task_hash(task(min_snr=1.0))
