"""The golden table: parser, strict format, both answers and the default reward, one row a case."""

from __future__ import annotations

from typing import Any

import pytest
from golden_turns_lab import MEGABYTE, WORD, golden_turns

from specvet.chat import AnswerTurn, CallTurn, MalformedTurn, ParsedTurn, TruncatedTurn, Vocabulary
from specvet.chat.formats import chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.tasks.answers import lenient_answer, strict_answer, strict_format
from specvet.tasks.rewards import reward

CASES = golden_turns()
FORMATS = {"json": ("qwen2_5_vl", "qwen3_vl"), "xml": ("qwen3_5",)}
each_case = pytest.mark.parametrize("case", CASES, ids=[c["case"] for c in CASES])


def named(turn: ParsedTurn) -> str:
    match turn:
        case AnswerTurn():
            return turn.answer
        case CallTurn():
            return "call"
        case MalformedTurn():
            return turn.kind
        case TruncatedTurn():
            return "truncated"


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    """As `encode`, which takes seconds for a megabyte."""
    before, many, after = text.partition(MEGABYTE)
    words = vocabulary.encode(WORD) * (len(many) // len(WORD))
    return [*vocabulary.encode(before), *words, *vocabulary.encode(after)]


def test_the_table_holds_at_least_sixty_cases_each_with_its_reason() -> None:
    assert len(CASES) >= 60
    assert len({c["case"] for c in CASES}) == len(CASES)
    assert all(c["why"] for c in CASES)


@each_case
def test_the_text_functions_read_every_case_as_the_table_says(case: dict[str, Any]) -> None:
    turns = case["turns"]
    assert strict_format(turns, case["calls"]) is case["strict_format"]
    assert strict_answer(turns) == case["strict_answer"]
    assert lenient_answer(turns) == case["lenient_answer"]


@each_case
def test_the_parser_reads_every_case_as_the_table_says_from_text_and_from_ids(case: dict[str, Any]) -> None:
    turn = case["turns"][-1]
    ended = case.get("ended", True)
    for name in FORMATS[case["calls"]]:
        format = chat_format(name, tiny_vocabulary(name))
        said = turn.removeprefix(format.prefix)
        assert format.prefix + said == turn
        assert named(format.parse_text(said, "end" if ended else "length")) == case["parse"]
        end = [format.stop_ids[0]] if ended else []
        ids = [*ids_of(said, format.vocabulary), *end]
        assert named(format.parse(ids, "end" if ended else "length")) == case["parse"]
        assert format.turn_text(ids) == turn


@each_case
def test_the_default_reward_is_as_the_table_says(case: dict[str, Any]) -> None:
    format_ok = None if case.get("ended", True) else False
    for truth, score in zip(("YES", "NO"), case["default"], strict=True):
        given = reward(case["turns"], truth, calls=case["calls"], format_ok=format_ok)
        assert given.score == score
        assert given.correct == (case["lenient_answer"] == truth)
        assert given.predicted == (case["lenient_answer"] or "")
        assert given.format_ok is (case["strict_format"] if format_ok is None else format_ok)


@pytest.mark.parametrize("case", [c for c in CASES if c["strict_format"]], ids=lambda c: c["case"])
def test_well_formed_means_the_same_answer_for_everybody(case: dict[str, Any]) -> None:
    assert case["strict_answer"] == case["lenient_answer"] is not None
    assert case["parse"] in (case["strict_answer"], "truncated")
