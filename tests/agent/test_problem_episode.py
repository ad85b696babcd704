"""Attempts at problems: the tool is called in the middle of a turn, and everything that can go wrong has its reason."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from problem_lab import INSTRUCT, QUESTION, THINKING, Products, Speaker, one, solved

from specvet.agent.problem_episode import NOTICE, Given, ProblemBudget
from specvet.agent.problem_rollout import Solver
from specvet.chat import Ledger, SampledSegment, TextSegment, rl_datum
from specvet.chat.datum import check_weights
from specvet.chat.sympy_tags import STOPS
from specvet.policies.tokens import ContextLengthError, PolicyError, SamplingParams
from specvet.records.schema import StopReason
from specvet.records.solutions import Solution
from specvet.tasks.physics.reading import fabricated, sampled

CALL = "So <tool>sympy: 2*3 + 1</tool>"
ANSWER = " which gives <answer>\\boxed{7}</answer>"


def texts(solution: Solution) -> list[tuple[str, str]]:
    return [(s.kind, s.text) for s in solution.segments]


@pytest.mark.parametrize("format", [INSTRUCT, THINKING], ids=["instruct", "thinking"])
@pytest.mark.parametrize("honours", [True, False])
def test_a_call_is_answered_in_the_middle_of_a_turn_and_the_same_ids_go_on(format: object, honours: bool) -> None:
    thought = "" if format is INSTRUCT else "</think>"
    policy = Speaker([CALL, f"{thought}{ANSWER}"], format, honours=honours)  # type: ignore[arg-type]
    solution = one(policy)
    assert texts(solution) == [
        ("model", CALL),
        ("tool", "<tool_result>7</tool_result>"),
        ("model", f"{thought}{ANSWER}"),
    ]
    assert (solution.stop, solution.answer, solution.route) == (StopReason.ANSWERED, "\\boxed{7}", "answer")
    assert solution.segments[1].call is not None
    assert solution.segments[1].call.argument == "2*3 + 1"
    assert (solution.calls.made, solution.calls.executed, solution.calls.succeeded) == (1, 1, 1)
    assert all(params.stop == STOPS for params in policy.params)


def test_only_what_was_sampled_carries_weight_and_log_probs() -> None:
    policy = Speaker([CALL, ANSWER])
    solution = one(policy)
    assert solution.ledger is not None
    ledger = Ledger.from_dict(solution.ledger)
    datum = rl_datum(ledger, 0.5)
    check_weights(datum, ledger)
    learnt = datum.targets[datum.weights > 0].tolist()
    assert learnt == [i for said in policy.said for i in said]
    assert datum.logprobs is not None
    assert (datum.logprobs[datum.weights == 0] == 0).all()
    assert [s.stop for s in ledger.sampled] == ["stop", "stop"]


def test_what_was_sampled_is_never_encoded_again() -> None:
    """A spelling that encoding would not choose stays as it was sampled."""
    odd = [i for b in CALL.encode() for i in INSTRUCT.vocabulary.encode(chr(b))]
    assert odd != INSTRUCT.vocabulary.encode(CALL)
    solution = one(Speaker([odd, ANSWER]))
    assert solution.ledger is not None
    assert Ledger.from_dict(solution.ledger).sampled[0].ids == tuple(odd)
    assert solution.stop == StopReason.ANSWERED


def test_a_stop_text_that_a_service_keeps_to_itself_is_completed_by_the_program() -> None:
    solution = one(Speaker([CALL, ANSWER], drops=True))
    assert texts(solution)[:3] == [
        ("model", CALL.removesuffix("</tool>")),
        ("harness", "</tool>"),
        ("tool", "<tool_result>7</tool_result>"),
    ]
    assert (solution.stop, solution.answer) == (StopReason.ANSWERED, "\\boxed{7}")


@pytest.mark.parametrize("honours", [True, False])
def test_a_result_of_the_models_own_is_cut_noticed_once_and_ends_the_second_time(honours: bool) -> None:
    made_up = "It is <tool_result>8</tool_result> so <answer>\\boxed{8}</answer>"
    policy = Speaker(["Well, " + made_up, made_up], honours=honours)
    solution = one(policy)
    assert texts(solution) == [("model", "Well, It is "), ("harness", NOTICE), ("model", "It is ")]
    assert (solution.stop, solution.answer) == (StopReason.FABRICATED_RESULT, None)
    assert solution.calls.fabricated == 2
    assert fabricated(sampled(solution.segments)) == 0


def test_after_a_notice_the_model_can_still_answer() -> None:
    solution = one(Speaker(["< TOOL_RESULT>8", CALL, ANSWER]))
    assert [kind for kind, _ in texts(solution)] == ["harness", "model", "tool", "model"]
    assert (solution.stop, solution.calls.fabricated, solution.answer) == (StopReason.ANSWERED, 1, "\\boxed{7}")


def test_a_call_with_a_made_up_result_behind_it_is_run_and_the_made_up_one_is_not_used() -> None:
    wild = CALL + "<tool_result>8</tool_result> hence <answer>\\boxed{8}</answer>"
    solution = one(Speaker([wild, ANSWER], honours=False))
    assert texts(solution)[:2] == [("model", CALL), ("tool", "<tool_result>7</tool_result>")]
    assert (solution.answer, solution.calls.fabricated) == ("\\boxed{7}", 1)
    twice = one(Speaker([wild], honours=False))
    assert (twice.stop, twice.calls.executed, twice.calls.fabricated) == (StopReason.FABRICATED_RESULT, 1, 2)


def test_calls_beyond_the_limit_are_not_executed() -> None:
    tools: list[Products] = []

    def tool() -> Products:
        tools.append(Products())
        return tools[-1]

    calls = [f"<tool>sympy: {k}*2</tool>" for k in range(9)]
    solution = one(Speaker(calls), ProblemBudget(max_calls=3), tool)
    assert (solution.stop, solution.calls.made, solution.calls.executed) == (StopReason.MAX_CALLS, 4, 3)
    assert tools[0].asked == ["0*2", "1*2", "2*2"]
    none = one(Speaker(calls), ProblemBudget(max_calls=0), tool)
    assert (none.stop, none.calls.executed) == (StopReason.MAX_CALLS, 0)


def test_a_repeated_call_counts_and_is_not_computed_again() -> None:
    solution = one(Speaker([CALL, CALL, ANSWER]))
    assert (solution.calls.made, solution.calls.executed, solution.calls.repeated) == (2, 1, 1)
    assert [t for k, t in texts(solution) if k == "tool"] == ["<tool_result>7</tool_result>"] * 2


def test_a_call_after_the_tools_seconds_is_not_executed() -> None:
    calls = [f"<tool>sympy: {k}*2</tool>" for k in range(9)]
    solution = one(Speaker(calls), ProblemBudget(tool_seconds=20), lambda: Products(seconds=12))
    assert (solution.stop, solution.calls.executed, solution.calls.seconds) == (StopReason.TOOL_BUDGET, 2, 24)


def test_malformed_calls_are_answered_with_what_is_wrong_and_end_when_they_go_on() -> None:
    solution = one(Speaker(["<tool>maple: 1</tool>", CALL, ANSWER]))
    assert texts(solution)[1][1].startswith("<tool_result>error: syntax: a call is [tool]sympy: EXPRESSION[/tool]")
    assert (solution.stop, solution.calls.malformed, solution.calls.made) == (StopReason.ANSWERED, 1, 1)
    endless = one(Speaker(["x</tool>"]))
    assert (endless.stop, endless.calls.malformed) == (StopReason.MALFORMED_CALL, 3)


def test_an_error_of_the_tool_is_a_result() -> None:
    solution = one(Speaker(["<tool>sympy: two</tool>", ANSWER]))
    assert solution.segments[1].result is not None
    assert solution.segments[1].result.status == "error"
    assert (solution.calls.errors, solution.calls.succeeded) == ({"syntax": 1}, 0)


class Broken:
    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def run(self, argument: str) -> Given:
        if self.seconds:
            time.sleep(self.seconds)
        raise RuntimeError("/secret/path")


def test_a_tool_that_raises_is_an_internal_error_without_its_words() -> None:
    solution = one(Speaker([CALL, ANSWER]), tool=Broken)
    assert texts(solution)[1][1] == "<tool_result>error: internal: the tool failed (RuntimeError)</tool_result>"
    assert solution.stop == StopReason.ANSWERED


def test_a_tool_that_does_not_come_back_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specvet.agent.problem_rollout.GRACE_S", 0.05)
    solution = one(Speaker([CALL, ANSWER]), ProblemBudget(call_seconds=0.05), lambda: Broken(0.5))
    assert solution.calls.errors == {"timeout": 1}
    assert solution.stop == StopReason.ANSWERED


@pytest.mark.parametrize(
    ("said", "answer", "route"),
    [
        ("thus \\boxed{7}END", "\\boxed{7}", "box"),
        ("thus <answer>7</answer>END", "7", "answer"),
        ("no moreEND", None, None),
        ("<answer>7END", None, None),
    ],
)
def test_a_turn_that_ends_has_an_answer_or_none(said: str, answer: str | None, route: str | None) -> None:
    solution = one(Speaker([said]))
    assert (solution.answer, solution.route) == (answer, route)
    assert solution.stop == (StopReason.NO_ANSWER if answer is None else StopReason.ANSWERED)


def test_an_answer_is_never_read_from_a_result_or_across_one() -> None:
    class Box(Products):
        def run(self, argument: str) -> Given:
            return Given("ok", "", "<answer>\\boxed{8}</answer> \\boxed{9}")

    assert one(Speaker(["<tool>sympy: 1</tool>", "endEND"]), tool=Box).stop == StopReason.NO_ANSWER
    assert one(Speaker(["\\boxed{ <tool>sympy: 1</tool>", "}END"])).stop == StopReason.NO_ANSWER


def test_an_answer_inside_a_thought_does_not_end_it_and_not_for_ever() -> None:
    inside = "I shall write <answer>\\boxed{…}</answer>"
    policy = Speaker([inside, CALL, f"</think>{ANSWER}"], THINKING)
    solution = one(policy)
    assert (solution.stop, solution.answer) == (StopReason.ANSWERED, "\\boxed{7}")
    assert [k for k, _ in texts(solution)] == ["model", "model", "tool", "model"]
    endless = one(Speaker([inside], THINKING))
    assert (endless.stop, endless.stop_detail) == (StopReason.NO_ANSWER, "idle")


def test_limits_of_tokens_end_an_attempt() -> None:
    long = "and so on " * 60
    assert one(Speaker([long]), ProblemBudget(turn_tokens=50)).stop == StopReason.TRUNCATED
    opening = sum(s.n_tokens for s in INSTRUCT.opening(QUESTION.messages))
    assert one(Speaker([long]), ProblemBudget(context=opening + 60)).stop == StopReason.CONTEXT
    tight = one(Speaker([CALL]), ProblemBudget(context=opening + len(INSTRUCT.vocabulary.encode(CALL)) + 5))
    assert (tight.stop, tight.stop_detail) == (StopReason.CONTEXT, "observation")
    none = one(Speaker([CALL]), ProblemBudget(context=opening))
    assert (none.stop, none.stop_detail, none.ledger) == (StopReason.CONTEXT, "opening", None)


def test_ids_that_no_turn_may_hold_end_it_and_stay_out_of_the_ledger() -> None:
    pad, start = (INSTRUCT.vocabulary.need(t) for t in ("<|image_pad|>", "<|im_start|>"))
    words = INSTRUCT.vocabulary.encode("Hm ")
    picture = one(Speaker([[*words, pad]]))
    assert (picture.stop, texts(picture)) == (StopReason.IMAGE_IDS, [("model", "Hm ")])
    control = one(Speaker([[*words, start, *words]]))
    assert (control.stop, control.stop_detail) == (StopReason.MALFORMED, "control_ids")


def test_what_a_policy_does_wrong_ends_the_attempt_with_a_reason() -> None:
    def raising(error: Exception) -> Speaker:
        async def before(k: int) -> None:
            if k == 1:
                raise error

        return Speaker([CALL, ANSWER], before=before)

    assert one(raising(PolicyError("no"))).stop == StopReason.POLICY_ERROR
    assert one(raising(ContextLengthError("long"))).stop == StopReason.CONTEXT
    assert one(raising(TimeoutError("slow"))).stop == StopReason.OUT_OF_TIME
    with pytest.raises(PolicyError, match="login"):
        one(raising(PolicyError("login", fatal=True)))

    async def stalls(k: int) -> None:
        await asyncio.sleep(60)

    slow = one(Speaker([CALL], before=stalls), ProblemBudget(max_seconds=0.1))
    assert slow.stop == StopReason.OUT_OF_TIME


def test_branches_of_a_group_go_their_own_ways_with_tools_of_their_own() -> None:
    def say(ledger: Ledger) -> str:
        answered = any(isinstance(s, TextSegment) and s.role == "tool" for s in ledger)
        return ANSWER if answered else CALL

    policy = Speaker([say])
    heard: list[int] = []

    async def work() -> list[Solution]:
        solver = Solver(policy, Products, concurrency=2)
        try:
            return await solver.group("p", QUESTION, 3, ended=lambda s, ledger: heard.append(s.sample))
        finally:
            solver.close()

    solutions = asyncio.run(work())
    assert [s.sample for s in solutions] == [0, 1, 2]
    assert sorted(heard) == [0, 1, 2]
    assert all((s.stop, s.calls.executed, s.group) == (StopReason.ANSWERED, 1, 3) for s in solutions)
    assert len({p.seed for p in policy.params}) == 6
    assert policy.released == 4


def test_the_real_tool_computes_in_the_middle_of_a_turn() -> None:
    pytest.importorskip("sympy", reason="specvet[physics] brings SymPy")
    from specvet.tools.sympy_tool import SympyTool

    calls = ["<tool>sympy: solve(2*x + 3 == 7, x)</tool>", "<tool>sympy: __import__('os')</tool>", ANSWER]
    solution = one(Speaker(calls), tool=SympyTool)
    results = [s.result for s in solution.segments if s.result is not None]
    assert [r.status for r in results] == ["ok", "error"]
    assert results[0].text == "[2]"
    assert results[1].text.startswith("error: ")
    assert solution.stop == StopReason.ANSWERED


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_5"])
def test_a_real_engine_goes_on_from_its_cache_and_its_log_probs_are_those_of_the_whole_ledger(family: str) -> None:
    """Random weights call nothing by themselves: a stop text that they do say stands for the call's end."""
    pytest.importorskip("torch")
    from specvet.policies.options import ModelOptions
    from specvet.policies.torch import open_policy

    policy = open_policy(ModelOptions(format=family, seed=3, context=4096, device="cpu", dtype="float32"))
    params = SamplingParams(32, temperature=1.0, seed=1)
    (solution,) = solved(policy, ProblemBudget(turn_tokens=32, context=2048), params=params)
    assert solution.stop in (StopReason.TRUNCATED, StopReason.NO_ANSWER, StopReason.MALFORMED, StopReason.IMAGE_IDS)

    async def begun() -> tuple[Ledger, np.ndarray]:
        ledger = policy.format.new_ledger()
        ledger.append(policy.format.opening(QUESTION.messages))
        from specvet.chat.sympy_tags import put_in, result_text

        for turn in range(3):
            (said,) = (await policy.sample(ledger, 1, replace(params, max_tokens=9, seed=turn, stop=STOPS))).sequences
            ledger.append_sampled(said.ids, said.logprobs, said.stop)
            ledger.append([put_in(result_text(str(turn)), "tool", policy.format)])
        whole = policy.recomputed_logprobs(ledger)
        await policy.aclose()
        return ledger, whole

    ledger, whole = asyncio.run(begun())
    kept = np.concatenate([s.logprobs for s in ledger if isinstance(s, SampledSegment) and s.logprobs is not None])
    np.testing.assert_allclose(kept, whole, atol=3e-4)


def test_solutions_are_read_back_as_they_were_kept(tmp_path: Path) -> None:
    solution = one(Speaker([CALL, ANSWER]))
    file = tmp_path / "solution.json"
    file.write_text(solution.model_dump_json())
    assert Solution.model_validate_json(file.read_text()) == solution
