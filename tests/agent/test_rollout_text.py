"""Rollouts with a server that gives words: the same turns and ends, a ledger of words, a context known afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from rollout_lab import FORMAT, QUESTION, ledger_of, task, timeless, zoom

from specvet.agent import Budget, rollout_group
from specvet.agent.talk import MAX_COUNT
from specvet.chat import AnswerTurn, CallTurn, MalformedTurn, Message, ParsedTurn, TruncatedTurn, WordsSegment
from specvet.chat.datum import sft_datum
from specvet.chat.ledger import LedgerError
from specvet.policies import Capability
from specvet.policies.text import Replies, Reply
from specvet.policies.tokens import PolicyError, SamplingParams, Usage
from specvet.records import Decision, RunFolder
from specvet.records.schema import Answer, StopReason, TrajectoryRecord
from specvet.tools import TOOL_NAME

LOOK = CallTurn(TOOL_NAME, {"wavelength_range": [6400, 6700]}, "Look.")
YES = AnswerTurn("YES", "since it is so", "Seen.")


def words(turn: ParsedTurn) -> str:
    match turn:
        case CallTurn():
            return f"<think>{turn.reasoning}</think>\n<tool_call>\n" + '{"name": "…"}' + "\n</tool_call>"
        case AnswerTurn():
            return f"<think>{turn.reasoning}</think>\n<answer>\\boxed{{{turn.answer}}} {turn.explanation}</answer>"
        case _:
            return turn.text


@dataclass
class Talker:
    """A `TextPolicy` that says what a script tells it."""

    script: Callable[[int, tuple[int, int]], ParsedTurn]
    """(turn, stream) → turn."""
    capabilities: frozenset[Capability] = frozenset({"n", "images"})
    context: int | None = None
    counts: bool = True
    name: str = "talker"
    fingerprint: str = "talker-1"
    usage: Usage = field(default_factory=Usage)
    requests: list[tuple[list[Message], int, SamplingParams]] = field(default_factory=list)
    replies: int | None = None

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], n: int, params: SamplingParams
    ) -> Replies:
        self.requests.append((list(messages), n, params))
        assert [t["function"]["name"] for t in tools] == [TOOL_NAME]
        await asyncio.sleep(0)
        made = []
        for i in range(n if self.replies is None else self.replies):
            turn = self.script(sum(m.role == "assistant" for m in messages), (params.seed, i))
            stop = "length" if isinstance(turn, TruncatedTurn) else "end"
            made.append(
                Reply(turn, Message("assistant", (words(turn),)), words(turn), stop, 50 if self.counts else None)
            )
        return Replies(tuple(made), 1000 * len(messages) if self.counts else None)

    async def aclose(self) -> None:
        pass


def script(*turns: ParsedTurn) -> Callable[[int, tuple[int, int]], ParsedTurn]:
    return lambda turn, _: turns[min(turn, len(turns) - 1)]


def rolled(policy: Talker, n: int = 1, budget: Budget | None = None, **more: Any) -> list[TrajectoryRecord]:
    records = asyncio.run(rollout_group(QUESTION, task(), zoom(), policy, n, budget or Budget(), **more))
    for record in records:
        assert TrajectoryRecord.model_validate_json(record.model_dump_json()) == record
    return records


def test_a_look_and_an_answer_in_words() -> None:
    policy = Talker(script(LOOK, YES))
    first, second = rolled(policy, n=2)
    assert [n for _, n, _ in policy.requests] == [2, 1, 1]
    assert (first.stop, first.verdict.answer, first.verdict.reason) == (
        StopReason.ANSWERED,
        Answer.YES,
        "since it is so",
    )
    roles = [(m.role, len(m.images)) for m in policy.requests[1][0]]
    assert roles == [("system", 0), ("user", 1), ("assistant", 0), ("tool", 1)]
    ledger = ledger_of(first)
    assert ledger.kind == "text"
    assert [s.role for s in ledger] == ["system", "user", "user", "assistant", "tool", "tool", "assistant"]
    assert [s.text for s in ledger if isinstance(s, WordsSegment)][-1] == words(YES)
    with pytest.raises(LedgerError, match="words only"):
        sft_datum(ledger)
    assert (first.tokens.prompt, first.tokens.sampled, first.tokens.total) == (2000 + 4000, 100, 4050)
    assert first.reward == {"score": 1.0, "correct": 1.0, "format_ok": 1.0}
    assert timeless(first) | {"sample": 1} == timeless(second)


def test_a_server_without_n_is_asked_once_a_branch_and_one_that_lies_about_it_is_typed() -> None:
    policy = Talker(script(YES), capabilities=frozenset({"images"}))
    assert [r.stop for r in rolled(policy, n=3)] == [StopReason.ANSWERED] * 3
    assert [n for _, n, _ in policy.requests] == [1, 1, 1]
    assert len({p.seed for _, _, p in policy.requests}) == 3
    (record,) = rolled(Talker(script(YES), replies=0))
    assert (record.stop, record.verdict.reason) == (StopReason.LEDGER, "the server gave 0 replies, 1 were asked for")


def test_malformed_and_truncated_replies_are_typed_and_reminders_come_from_the_user() -> None:
    policy = Talker(script(MalformedTurn("many_calls", "two calls in one turn", "two"), YES))
    (record,) = rolled(policy, budget=Budget(max_malformed=1))
    assert (record.stop, record.malformed) == (StopReason.ANSWERED, {"many_calls": 1})
    (*_, reminder) = policy.requests[1][0]
    assert reminder.role == "user"
    assert reminder.text.startswith("That was neither a tool call nor an answer: two calls in one turn.")
    (record,) = rolled(Talker(script(TruncatedTurn("on and on", True))))
    assert (record.stop, record.stop_detail) == (StopReason.TRUNCATED, "open_thought")


def test_the_context_is_what_the_server_counted_and_what_is_left_limits_the_turn() -> None:
    policy = Talker(script(LOOK), context=4_400)
    (record,) = rolled(policy)
    # Prompts of 2,000 and 4,000 tokens; 2,350 and 350 are left for the turns after them.
    assert [p.max_tokens for _, _, p in policy.requests] == [2048, 2048, 350]
    assert record.stop is StopReason.CONTEXT
    assert len(record.turns) == 3
    assert record.turns[-1].observation.kind == "over_context"


def test_a_server_that_counts_nothing_is_limited_by_turns_alone() -> None:
    policy = Talker(script(LOOK), counts=False)
    (record,) = rolled(policy, budget=Budget(max_turns=4, context=100, turn_tokens=30))
    assert (record.stop, len(record.turns)) == (StopReason.MAX_TURNS, 4)
    assert {p.max_tokens for _, _, p in policy.requests} == {30}
    assert record.turns[0].tokens.prompt is None


@dataclass
class Liar(Talker):
    """Says that it counted whatever it likes."""

    said_prompt: Any = 1_000
    said_sampled: Any = 50

    async def reply(self, *asked: Any) -> Replies:
        replies = (await super().reply(*asked)).replies
        return Replies(tuple(replace(r, sampled_tokens=self.said_sampled) for r in replies), self.said_prompt)


@pytest.mark.parametrize("lie", [-1, -(2**40), 2**31, 2**40, 2**70, 1.5, "7", True])
@pytest.mark.parametrize("where", ["said_prompt", "said_sampled"])
def test_counts_that_cannot_be_are_left_out_and_the_trajectory_can_be_kept(
    tmp_path: Path, lie: Any, where: str
) -> None:
    (record,) = rolled(Liar(script(LOOK, YES), **{where: lie}), budget=Budget(context=2**62))
    assert record.stop is StopReason.ANSWERED
    told = [(t.tokens.prompt, t.tokens.sampled) for t in record.turns]
    assert told == [(None, 50) if where == "said_prompt" else (1_000, None)] * 2
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:  # closing moves it into a shard
        run.record(Decision(file="x", row=0, task="t", id="q", verdict=record.verdict, trajectory=record))
    with RunFolder.read(tmp_path / "run") as run:
        assert run.trajectory("x", 0, "t") == record


def test_the_largest_counts_that_are_believed_can_be_kept(tmp_path: Path) -> None:
    most = MAX_COUNT
    (record,) = rolled(Liar(script(LOOK), said_prompt=most, said_sampled=most), budget=Budget(4, context=2**62))
    assert record.tokens.sampled == 4 * most
    with RunFolder.open(tmp_path / "run", kind="rollout") as run:
        run.record(Decision(file="x", row=0, task="t", id="q", verdict=record.verdict, trajectory=record))
    with RunFolder.read(tmp_path / "run") as run:
        assert run.trajectory("x", 0, "t") == record


def test_words_that_utf8_cannot_hold_are_kept_as_far_as_they_can_be() -> None:
    odd = AnswerTurn("NO", "half \ud800 a letter", "")
    (record,) = rolled(Talker(script(odd)))
    assert record.verdict.reason == "half ? a letter"


def test_errors_of_a_server_are_typed() -> None:
    def refuses(turn: int, stream: tuple[int, int]) -> ParsedTurn:
        raise PolicyError("the server says 400: too many pictures")

    (record,) = rolled(Talker(refuses))
    assert (record.stop, record.stop_detail) == (StopReason.POLICY_ERROR, "PolicyError")
    assert "too many pictures" in record.verdict.reason
    assert FORMAT.name not in str(record.ledger)
