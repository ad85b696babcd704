"""Budgets are met exactly: a token below, at and above each limit; and time, of tools, requests and trajectories."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from rollout_lab import (
    FORMAT,
    QUESTION,
    Asked,
    Scripted,
    answer,
    gambler,
    ledger_of,
    look,
    one,
    rolled,
    said,
    task,
    turns,
    zoom,
)

from specvet.agent import Budget, rollout_group
from specvet.policies.tokens import ContextLengthError
from specvet.records.schema import Answer, StopReason
from specvet.tools import Observation, ZoomTool
from specvet.views import REFERENCE_STYLE, RenderPool, View

WHOLE = one(turns(look(), answer()))
"""What the two turns take when nothing limits them."""
OPENING = WHOLE.turns[0].tokens.prompt
SEEN = WHOLE.turns[1].tokens.prompt
"""Tokens of the first and the second prompt."""


# Context


@pytest.mark.parametrize("spare", [-1, 0])
def test_an_opening_that_leaves_no_token_to_answer_with_ends_the_trajectory_before_it(spare: int) -> None:
    policy = Scripted(turns(look(), answer()))
    (record,) = rolled(policy, budget=Budget(context=OPENING + spare))
    assert (record.stop, record.stop_detail, record.verdict.answer) == (StopReason.CONTEXT, "opening", Answer.FAILED)
    assert policy.requests == []
    assert record.turns == ()
    assert record.ledger is None


def test_an_opening_that_leaves_one_token_is_asked_for_one_token() -> None:
    policy = Scripted(turns(look(), answer()))
    (record,) = rolled(policy, budget=Budget(context=OPENING + 1))
    assert [p.max_tokens for _, _, p in policy.requests] == [1]
    assert (record.stop, record.turns[0].action.kind) == (StopReason.CONTEXT, "truncated")
    assert record.tokens.total == OPENING + 1


@pytest.mark.parametrize("spare", [-1, 0])
def test_a_limit_inside_an_observation_ends_the_trajectory_before_it_and_its_picture_is_not_kept(spare: int) -> None:
    kept: list[bytes] = []
    policy = Scripted(turns(look(), answer()))
    (record,) = rolled(
        policy, budget=Budget(context=SEEN + spare), keep_image=lambda png: kept.append(png) or f"picture {len(kept)}"
    )
    assert (record.stop, record.stop_detail) == (StopReason.CONTEXT, "observation")
    assert len(kept) == 1  # the opening alone
    (turn,) = record.turns
    assert turn.action.kind == "call"
    assert turn.observation.kind == "over_context"
    assert (turn.observation.window, turn.observation.view_hash, turn.observation.image) == (None, None, None)
    ledger = ledger_of(record)
    assert ledger.n_tokens == OPENING + len(look())
    assert len(ledger.images) == 1
    assert (record.calls.executed, record.calls.succeeded) == (1, 0)
    assert record.reward == {"score": -0.2, "correct": 0.0, "format_ok": 0.0}


def test_an_observation_that_leaves_one_token_is_shown() -> None:
    (record,) = rolled(Scripted(turns(look(), answer())), budget=Budget(context=SEEN + 1))
    assert record.turns[0].observation.kind == "view"
    assert len(ledger_of(record).images) == 2
    assert (record.stop, len(record.turns)) == (StopReason.CONTEXT, 2)


@pytest.mark.parametrize(("spare", "stop"), [(-1, StopReason.CONTEXT), (0, StopReason.ANSWERED)])
def test_an_answer_may_use_the_context_up_to_its_last_token(spare: int, stop: StopReason) -> None:
    policy = Scripted(turns(look(), answer()))
    (record,) = rolled(policy, budget=Budget(context=SEEN + len(answer()) + spare))
    assert record.stop is stop
    assert policy.requests[1][2].max_tokens == len(answer()) + spare


def test_what_a_policy_itself_can_hold_counts_when_it_is_less() -> None:
    policy = Scripted(turns(look(), answer()), context=SEEN)
    assert rolled(policy)[0].stop is StopReason.CONTEXT
    policy = Scripted(turns(look(), answer()), context=SEEN + 500)
    assert rolled(policy)[0].stop is StopReason.ANSWERED
    assert policy.requests[1][2].max_tokens == 500


def test_a_backend_whose_context_is_smaller_than_it_says_is_a_context_stop() -> None:
    async def refuses(asked: Asked) -> None:
        if asked.turn:
            raise ContextLengthError("the conversation does not fit")

    record = one(Scripted(turns(look(), answer()), before=refuses))
    assert (record.stop, record.stop_detail) == (StopReason.CONTEXT, "backend")


# Tokens a turn


@pytest.mark.parametrize(
    ("spare", "stop"), [(-1, StopReason.TRUNCATED), (0, StopReason.ANSWERED), (1, StopReason.ANSWERED)]
)
def test_a_turn_may_use_its_tokens_up_to_the_last(spare: int, stop: StopReason) -> None:
    policy = Scripted(turns(answer()))
    (record,) = rolled(policy, budget=Budget(turn_tokens=len(answer()) + spare))
    assert record.stop is stop
    assert [p.max_tokens for _, _, p in policy.requests] == [len(answer()) + spare]


@pytest.mark.parametrize(
    ("words", "detail"), [("still thinking, on and on", "open_thought"), ("done\n</think>\n\nbut then", "")]
)
def test_a_truncated_turn_says_whether_it_was_still_thinking(words: str, detail: str) -> None:
    ids = said(words * 50, end=False)
    record = one(turns(ids), budget=Budget(turn_tokens=len(FORMAT.vocabulary.encode(words))))
    assert (record.stop, record.stop_detail, record.turns[0].action.kind) == (StopReason.TRUNCATED, detail, "truncated")
    assert record.verdict.reason.startswith("a turn of more than ")
    assert ledger_of(record).sampled[0].stop == "length"


def test_the_limit_of_a_turn_is_what_is_left_of_the_context_when_that_is_less() -> None:
    policy = Scripted(gambler)
    budget = Budget(turn_tokens=300, context=OPENING + 700)
    records = rolled(policy, n=16, budget=budget)
    for tokens, _, params in policy.requests:
        assert params.max_tokens == min(300, budget.context - tokens)
    for record in records:
        assert record.tokens.total <= budget.context
        assert all(t.tokens.sampled <= 300 for t in record.turns)
    assert {StopReason.CONTEXT, StopReason.ANSWERED} <= {r.stop for r in records}


# Malformed turns


def test_reminders_are_the_users_and_say_what_was_wrong_and_how_to_answer() -> None:
    bad = said("I cannot decide.\n</think>\n\nPerhaps.")
    record = one(turns(bad, bad, answer()), budget=Budget(max_malformed=2))
    assert (record.stop, record.malformed) == (StopReason.ANSWERED, {"nothing": 2})
    text = FORMAT.vocabulary.decode(ledger_of(record).ids().tolist())
    assert text.count("<|im_start|>user\nThat was neither a tool call nor an answer: ") == 2
    assert text.count(r"Answer with <answer>\boxed{YES}") == 3  # the question's own, and two reminders
    assert record.reward == {"score": 0.8, "correct": 1.0, "format_ok": 0.0}
    over = one(turns(bad), budget=Budget(max_malformed=2))
    assert (over.stop, over.stop_detail, len(over.turns)) == (StopReason.MALFORMED, "nothing", 3)


def test_a_malformed_last_turn_is_not_reminded() -> None:
    bad = said("Hm.\n</think>\n\nPerhaps.")
    record = one(turns(bad), budget=Budget(max_turns=2, max_malformed=9))
    assert (record.stop, len(record.turns)) == (StopReason.MAX_TURNS, 2)
    assert ledger_of(record).segments[-1].ids == tuple(bad)


# Time


class Slow(ZoomTool):
    """Waits for `gate` before it answers a zoom."""

    gate = threading.Event()

    def __call__(self, arguments: Any) -> Observation:
        self.gate.wait(30)
        return super().__call__(arguments)


@contextmanager
def slow_tool(deadline_s: float) -> Iterator[ZoomTool]:
    Slow.gate.clear()
    try:
        yield Slow(zoom().spectrum, style="compact", deadline_s=deadline_s)
    finally:
        Slow.gate.set()


def test_a_sleeping_tool_is_an_observation_and_the_trajectory_goes_on() -> None:
    with slow_tool(0.05) as tool:
        record = one(turns(look(), answer()), tool=tool)
    assert record.stop is StopReason.ANSWERED
    seen = record.turns[0].observation
    assert (seen.kind, seen.text) == ("deadline", "The tool took longer than 0.05 s; ask for something else.")
    assert "took longer than" in FORMAT.vocabulary.decode(ledger_of(record).ids().tolist())


def test_as_many_sleeping_calls_as_there_are_threads_and_more_do_not_stop_the_others() -> None:
    with slow_tool(0.02) as tool:
        records = rolled(turns(look(), look(6000, 6300), answer()), n=8, tool=tool)
    assert [r.stop for r in records] == [StopReason.ANSWERED] * 8
    assert all([t.observation.kind for t in r.turns[:2]] == ["deadline"] * 2 for r in records)


def test_a_trajectorys_time_ends_it_while_a_tool_works() -> None:
    with slow_tool(30.0) as tool:
        record = one(turns(look(), answer()), tool=tool, budget=Budget(max_seconds=0.3))
    assert (record.stop, record.verdict.reason) == (StopReason.OUT_OF_TIME, "no answer within 0.3 s")
    assert record.turns[0].observation is None


@pytest.mark.parametrize("turn", [0, 1])
def test_a_stalled_policy_is_out_of_time(turn: int) -> None:
    async def stalls(asked: Asked) -> None:
        if asked.turn == turn:
            await asyncio.Event().wait()

    records = rolled(Scripted(turns(look(), answer()), before=stalls), n=3, budget=Budget(max_seconds=0.4))
    assert {(r.stop, len(r.turns)) for r in records} == {(StopReason.OUT_OF_TIME, turn)}
    assert all(r.reward is None for r in records)


def test_no_time_at_all_asks_nobody() -> None:
    policy = Scripted(turns(answer()))
    assert rolled(policy, budget=Budget(max_seconds=0.0))[0].stop is StopReason.OUT_OF_TIME
    assert policy.requests == []


def draw_never(view: View) -> bytes:
    if view.window is not None:
        time.sleep(60)
    return view.png


def draw_nothing(view: View) -> bytes:
    raise RuntimeError(f"no ink for {view.title}")


def reference(deadline_s: float = 30.0) -> ZoomTool:
    return zoom(style=REFERENCE_STYLE, deadline_s=deadline_s)


def test_a_drawing_that_takes_too_long_is_an_observation_and_the_loop_goes_on() -> None:
    with RenderPool(draw=draw_never) as pool:
        records = rolled(turns(look(), answer()), n=4, tool=reference(0.5), pool=pool)
    assert [r.stop for r in records] == [StopReason.ANSWERED] * 4
    assert {r.turns[0].observation.kind for r in records} == {"deadline"}
    assert all(len(ledger_of(r).images) == 1 for r in records)


def test_a_spectrum_that_cannot_be_drawn_fails_and_nobody_is_asked() -> None:
    policy = Scripted(turns(answer()))
    with RenderPool(draw=draw_nothing) as pool:
        records = rolled(policy, n=2, tool=reference(), pool=pool)
    assert {(r.verdict.answer, r.stop) for r in records} == {(Answer.FAILED, StopReason.NOT_ASKED)}
    assert "no ink for Spectrum: x.fits" in records[0].verdict.reason
    assert policy.requests == []


def test_a_tool_that_raises_is_an_observation() -> None:
    class Broken(ZoomTool):
        def __call__(self, arguments: Any) -> Observation:
            raise ZeroDivisionError("in the tool")

    record = one(turns(look(), answer()), tool=Broken(zoom().spectrum, style="compact"))
    assert record.stop is StopReason.ANSWERED
    assert (record.turns[0].observation.kind, record.calls.succeeded) == ("failed", 0)
    assert "ZeroDivisionError" not in record.turns[0].observation.text  # what a model can use: what went wrong
    assert "in the tool" in record.turns[0].observation.text


def test_the_event_loop_goes_on_while_a_tool_sleeps() -> None:
    async def scene(tool: ZoomTool) -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        await rollout_group(QUESTION, task(), tool, Scripted(turns(look(), answer())))
        ticking.cancel()
        return ticks

    with slow_tool(0.3) as tool:
        assert asyncio.run(scene(tool)) > 20
