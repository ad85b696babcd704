"""Models that loop, forge, flood and repeat, and backends that lie: each has a typed end, and all of it is counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rollout_lab import FORMAT, Scripted, answer, ledger_of, look, one, rolled, said, turns

from specvet.agent import Budget
from specvet.agent.talk import repeated
from specvet.chat import ToolCall
from specvet.chat.messages import assistant
from specvet.policies.tokens import Samples
from specvet.policies.tokens import Sequence as Sampled
from specvet.records.schema import Answer, StopReason
from specvet.tools import TOOL_NAME

PAD = FORMAT.vocabulary.need("<|image_pad|>")


def called(name: str, arguments: dict[str, Any]) -> list[int]:
    return FORMAT.demonstration(assistant("", "Call.", [ToolCall(name, arguments)]))


# What a model does


def test_a_model_that_loops_on_one_token_is_truncated_and_the_loop_is_counted() -> None:
    (token,) = FORMAT.vocabulary.encode("x")
    record = one(turns([token] * 5000), budget=Budget(turn_tokens=500))
    assert (record.stop, record.stop_detail) == (StopReason.TRUNCATED, "open_thought")
    assert record.turns[0].tokens.repeated == 1.0
    assert record.tokens.looping == 1
    assert record.verdict.answer is Answer.FAILED


def test_a_loop_that_ends_is_counted_and_does_not_stop_the_trajectory() -> None:
    thought = "the line, " * 200
    record = one(turns(look(thought=thought), answer()))
    assert (record.stop, record.tokens.looping) == (StopReason.ANSWERED, 1)
    assert record.turns[0].tokens.repeated > 0.1
    assert record.turns[1].tokens.repeated is None  # too short to tell


def test_the_commonest_four_tokens_tell_loops_from_reasoning() -> None:
    assert repeated([1] * 64) == 1.0
    assert repeated([1] * 63) is None
    assert repeated([1, 2] * 100) == pytest.approx(0.5, abs=0.01)
    assert repeated(list(range(10)) * 50) == pytest.approx(0.1, abs=0.01)
    assert repeated(list(range(500))) == pytest.approx(1 / 497, abs=1e-4)
    prose = "Hα is broad and in emission, He II shows at 4686, and the continuum rises to the blue; so a disc it is. "
    assert repeated((prose + "No molecular band is seen, and the Balmer jump is filled in.").split() * 1) is None
    assert repeated(FORMAT.vocabulary.encode(prose * 1 + "No molecular band is seen, the jump is filled in.")) < 0.1


def test_a_model_that_never_closes_its_thought_is_malformed() -> None:
    record = one(turns(said("and on it goes")))
    assert (record.stop, record.malformed) == (StopReason.MALFORMED, {"unclosed_thinking": 1})


def test_ids_that_stand_for_pictures_end_the_trajectory_whatever_reminders_are_left() -> None:
    forged = [*FORMAT.vocabulary.encode("Look:\n</think>\n\n"), PAD, PAD, FORMAT.stop_ids[0]]
    policy = Scripted(turns(forged, answer()))
    (record,) = rolled(policy, budget=Budget(max_malformed=5))
    assert (record.stop, record.stop_detail, record.malformed) == (StopReason.IMAGE_IDS, "image_ids", {"image_ids": 1})
    assert len(policy.requests) == 1  # such a prompt would count pictures that are not there
    assert PAD in ledger_of(record).sampled[0].ids
    assert record.reward == {"score": -0.2, "correct": 0.0, "format_ok": 0.0}


def test_control_ids_inside_a_turn_are_malformed_and_can_be_reminded() -> None:
    start = FORMAT.vocabulary.need("<|im_start|>")
    record = one(turns([start, *answer()], answer("NO")), budget=Budget(max_malformed=1))
    assert (record.stop, record.malformed) == (StopReason.ANSWERED, {"control_ids": 1})
    assert record.verdict.answer is Answer.NO


def test_an_unknown_tool_is_answered_and_counted() -> None:
    record = one(turns(called("telescope", {"point": "up"}), answer()))
    assert record.stop is StopReason.ANSWERED
    assert record.turns[0].observation.kind == "unknown_tool"
    assert TOOL_NAME in record.turns[0].observation.text
    assert (record.calls.made, record.calls.executed, record.calls.unknown_tool) == (1, 0, 1)


def test_forty_arguments_are_ignored_but_for_those_that_the_tool_knows_and_counted() -> None:
    extra = {f"option_{i}": i for i in range(39)}
    record = one(turns(called(TOOL_NAME, {"wavelength_range": [6400, 6700], **extra}), answer()))
    assert record.turns[0].observation.window == (6400.0, 6700.0)
    assert record.calls.extra_arguments == 39
    assert len(record.turns[0].action.arguments) == 40


def test_the_same_window_eight_times_is_counted_as_seven_repeats() -> None:
    record = one(turns(look()), budget=Budget(max_turns=9))
    assert (record.stop, record.calls.made, record.calls.repeated) == (StopReason.MAX_TURNS, 9, 7)
    ledger = ledger_of(record)
    assert len({i.sha256 for i in ledger.images[1:]}) == 1
    other = one(turns(look(), look(6000, 6300), look(), answer()))
    assert other.calls.repeated == 1


def test_a_call_that_fails_twice_in_the_same_way_is_a_repeat_and_no_success() -> None:
    record = one(turns(look(1, 2), look(1, 2), look(2, 1), answer()))
    assert [t.observation.kind for t in record.turns[:3]] == ["bad_range"] * 3
    assert (record.calls.executed, record.calls.succeeded, record.calls.repeated) == (3, 0, 1)


def test_two_calls_in_one_turn_are_malformed_by_kind() -> None:
    two = FORMAT.demonstration(assistant("", "Two.", [ToolCall(TOOL_NAME, {"wavelength_range": [1, 2]})] * 2))
    assert one(turns(two)).malformed == {"many_calls": 1}


# What a backend does


def lying(change: Callable[[Samples], Samples], turn: int = 1) -> Scripted:
    """Tells the truth until that turn."""
    count = 0

    def changed(samples: Samples) -> Samples:
        nonlocal count
        count += 1
        return change(samples) if count == turn + 1 else samples

    return Scripted(turns(look(), answer()), change=changed)


def with_sequence(**fields: Any) -> Callable[[Samples], Samples]:
    def change(samples: Samples) -> Samples:
        sequence = samples.sequences[0]
        new = {k: v(sequence) if callable(v) else v for k, v in fields.items()}
        return replace(samples, sequences=(replace(sequence, **new),))

    return change


@pytest.mark.parametrize("off", [-1, 1, -196])
@pytest.mark.parametrize("turn", [0, 1])
def test_a_prompt_that_is_counted_otherwise_is_token_drift(off: int, turn: int) -> None:
    record = one(lying(lambda s: replace(s, prompt_tokens=s.prompt_tokens + off), turn))
    counted = record.ledger and ledger_of(record).n_tokens
    assert record.stop is StopReason.TOKEN_DRIFT
    assert record.stop_detail == f"{counted + off} for {counted}"
    assert len(record.turns) == turn  # what was sampled on another prompt is not kept
    assert record.reward is None


def test_a_backend_that_counts_nothing_is_believed() -> None:
    assert one(lying(lambda s: replace(s, prompt_tokens=None))).stop is StopReason.ANSWERED


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (with_sequence(logprobs=lambda s: s.logprobs[:-1]), "each token needs exactly one"),
        (with_sequence(logprobs=lambda s: np.append(s.logprobs, 0.0)), "each token needs exactly one"),
        (with_sequence(logprobs=lambda s: np.full(len(s.ids), math.nan)), "not finite"),
        (with_sequence(logprobs=lambda s: np.full(len(s.ids), -math.inf)), "not finite"),
        (with_sequence(logprobs=lambda s: np.full(len(s.ids), 3.0)), "above 0"),
        (with_sequence(ids=(), logprobs=np.zeros(0)), "without tokens"),
        (with_sequence(ids=lambda s: (-1, *s.ids[1:])), "the token id -1"),
        (with_sequence(stop="eos"), "stopped for 'eos', where one of end, length, stop is expected"),
        (lambda s: replace(s, sequences=()), "0 sequences, 1 were asked for"),
        (lambda s: replace(s, sequences=s.sequences * 2), "2 sequences, 1 were asked for"),
        (
            with_sequence(ids=(1,) * 2049, logprobs=np.zeros(2049, dtype=np.float32)),
            "sampled 2049 tokens, 2048 were allowed",
        ),
    ],
)
def test_what_fits_no_ledger_is_typed_and_the_ledger_stays_true(change: Any, says: str) -> None:
    record = one(lying(change))
    assert (record.stop, record.verdict.answer) == (StopReason.LEDGER, Answer.FAILED)
    assert says in record.verdict.reason
    assert len(record.turns) == 1
    assert [s.ids for s in ledger_of(record).sampled] == [tuple(look())]
    assert record.reward is None


@pytest.mark.parametrize("given", [np.array, lambda ids: tuple(map(np.int64, ids)), list])
def test_ids_may_be_whole_numbers_of_any_sort(given: Callable[[Any], Any]) -> None:
    change = with_sequence(ids=lambda s: given(s.ids))
    record = one(Scripted(turns(look(), answer()), change=change))
    assert (record.stop, record.verdict.answer) == (StopReason.ANSWERED, Answer.YES)
    assert [list(s.ids) for s in ledger_of(record).sampled] == [look(), answer()]
    assert record.turns[0].tokens.sampled == len(look())


@pytest.mark.parametrize("cached", [-1, 1.5, "many", True, 10**6, 2**70])
def test_a_count_of_cached_tokens_that_cannot_be_is_left_out(cached: Any) -> None:
    record = one(Scripted(turns(look(), answer()), change=lambda s: replace(s, cached_tokens=cached)))
    assert record.stop is StopReason.ANSWERED
    assert [t.tokens.cached for t in record.turns] == [None, None]
    assert record.tokens.cached == 0


def test_a_group_with_one_bad_sequence_loses_that_branch_only() -> None:
    def change(samples: Samples) -> Samples:
        first, second, *rest = samples.sequences
        return replace(samples, sequences=(first, Sampled(second.ids, second.logprobs[:-1], "end"), *rest))

    stops = [r.stop for r in rolled(Scripted(turns(answer()), change=change), n=3)]
    assert stops == [StopReason.ANSWERED, StopReason.LEDGER, StopReason.ANSWERED]


def test_an_id_that_no_token_has_is_malformed() -> None:
    record = one(turns([FORMAT.vocabulary.size + 7, FORMAT.stop_ids[0]]))
    assert (record.stop, record.malformed) == (StopReason.MALFORMED, {"not_text": 1})


def test_every_sort_of_end_is_one_of_the_schema() -> None:
    """What the episodes above end with, each by a word of its own; the last line is of `test_problem_episode`."""
    assert {s.value for s in StopReason} == {
        "answered", "not_asked", "max_turns", "malformed", "truncated", "context", "image_ids", "token_drift",
        "ledger", "out_of_time", "policy_error", "unreadable",
        "max_calls", "tool_budget", "fabricated_result", "malformed_call", "no_answer",
    }  # fmt: skip
