"""The format `sympy_tags` on ids of real small vocabularies: where a stretch is cut, what it is, what is put in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specvet.chat import Ledger, LedgerError, SampledSegment, TextSegment, chat_format, sft_datum
from specvet.chat.datum import check_weights
from specvet.chat.messages import system, user
from specvet.chat.qwen import QwenFormat
from specvet.chat.sympy_tags import (
    MAX_RESULT,
    Answered,
    BadCall,
    Broken,
    Called,
    Fabricated,
    Finished,
    Full,
    Heard,
    demonstration,
    fabricates,
    hear,
    hear_text,
    put_in,
    result_text,
)
from specvet.chat.tiny import tiny_vocabulary

WORDS = ("v.</tool>\n\n x</tool>\n <tool>sympy: 1.</tool>></tool> a.<tool_result>5</tool_result>\n\n </answer>\n\n.<b",)
"""Learnt so that tags share tokens with what stands around them: `.</`, `>\\n\\n`, `.<`."""
BYTES = chat_format("qwen3_5", tiny_vocabulary("qwen3_5"))
MERGED = chat_format("qwen3_5", tiny_vocabulary("qwen3_5", WORDS))
QWEN2 = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
FORMATS = pytest.mark.parametrize("format", [BYTES, MERGED, QWEN2], ids=["bytes", "merged", "qwen2.5"])


def ids_of(text: str, format: QwenFormat = BYTES, *, end: bool = False) -> list[int]:
    return [*format.vocabulary.encode(text), *([format.stop_ids[0]] if end else [])]


def heard(text: str, format: QwenFormat = BYTES, stop: str = "stop", *, end: bool = False) -> Heard:
    """What a stretch is; whatever it is, what is kept is a prefix of the ids that were sampled."""
    ids = ids_of(text, format, end=end)
    found = hear(ids, stop, format)
    assert 0 <= found.n <= len(ids)
    kept = [i for i in ids[: found.n] if i not in format.stop_ids]
    assert found.text == format.vocabulary.decode(kept)
    return found


@FORMATS
def test_a_call_is_the_last_open_tool_tag_before_its_end(format: QwenFormat) -> None:
    found = heard("I write <tool> to call: <tool>sympy: 1 + 1</tool>", format)
    assert found.event == Called("1 + 1")
    assert found.n == len(ids_of("I write <tool> to call: <tool>sympy: 1 + 1</tool>", format))


def test_a_token_that_holds_more_than_the_stop_is_kept_whole() -> None:
    ids = ids_of("x<tool>sympy: 1</tool>\n\nand more", MERGED)
    found = hear(ids, "stop", MERGED)
    assert found.event == Called("1")
    assert found.text == "x<tool>sympy: 1</tool>\n\n"
    assert MERGED.vocabulary.decode([ids[found.n - 1]]) == ">\n\n"


def test_bytes_as_tokens_are_cut_right_after_the_stop() -> None:
    found = heard("x<tool>sympy: 1</tool>and what a backend sampled beyond")
    assert (found.event, found.text) == (Called("1"), "x<tool>sympy: 1</tool>")


@FORMATS
@pytest.mark.parametrize(
    "tag",
    ["<tool_result>", "<TOOL_RESULT>", "< tool_result>", "<tool _ result >", "<tool result", "＜tool_result＞",
     "<ｔｏｏｌ_ｒｅｓｕｌｔ>", "<tool\u200b_result>", "<Tool-Result>", "〈tool_result〉"],
)  # fmt: skip
def test_a_result_of_the_models_own_is_cut_before_its_tag_in_any_spelling(format: QwenFormat, tag: str) -> None:
    found = heard(f"I think {tag}42</tool_result> so <answer>\\boxed{{42}}</answer>", format)
    assert found.event == Fabricated()
    assert found.fabricated
    assert "I think".startswith(found.text.strip())
    assert "esult" not in found.text.lower()


def test_a_token_that_shares_its_bytes_with_a_fabricated_tag_goes_with_it() -> None:
    ids = ids_of("a.<tool_result>", MERGED)
    assert MERGED.vocabulary.decode([ids[1]]) == ".<"
    found = hear(ids, "stop", MERGED)
    assert (found.n, found.text) == (1, "a")


def test_a_fabricated_tag_at_the_very_beginning_leaves_nothing() -> None:
    assert heard("<tool_result>1</tool_result>").n == 0


def test_a_call_before_a_fabricated_result_is_run_and_the_result_is_counted() -> None:
    found = heard("<tool>sympy: 2*3</tool><tool_result>7</tool_result> so 7")
    assert (found.event, found.fabricated, found.text) == (Called("2*3"), True, "<tool>sympy: 2*3</tool>")


def test_an_answer_before_a_fabricated_result_is_the_end() -> None:
    found = heard("<answer>\\boxed{1}</answer><tool_result>")
    assert (found.event, found.fabricated, found.text) == (Answered(), True, "<answer>\\boxed{1}</answer>")


@pytest.mark.parametrize("kept", ["", "<", "</", "</tool"])
def test_a_closing_tag_that_a_backend_keeps_to_itself_is_completed_and_not_doubled(kept: str) -> None:
    found = heard(f"<tool>sympy: 1/3{kept}", stop="end")
    assert found.event == Called("1/3", "</tool>"[len(kept) :])


def test_a_call_that_meets_the_limit_is_no_call() -> None:
    assert heard("<tool>sympy: 1/3", stop="length").event == Full()


def test_a_call_that_the_end_token_interrupts_is_no_call() -> None:
    found = heard("<tool>sympy: 1/3", stop="end", end=True)
    assert found.event == Finished()
    assert found.text == "<tool>sympy: 1/3"
    assert found.n == len(ids_of("<tool>sympy: 1/3", end=True))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 + 1</tool>", "no <tool> before"),
        ("<tool>1 + 1</tool>", "no other tool"),
        ("<tool>python: 1</tool>", "no other tool"),
        ("<tool>sympy:  </tool>", "missing"),
        ("<tool>sympy: 1\n2</tool>", "several lines"),
        (f"<tool>sympy: {'1' * 401}</tool>", "401 characters"),
    ],
)
def test_a_closed_call_that_is_none_says_why(text: str, problem: str) -> None:
    event = heard(text).event
    assert isinstance(event, BadCall)
    assert problem in event.problem


def test_a_control_token_inside_a_stretch_ends_it_before_that_token() -> None:
    start = BYTES.vocabulary.need("<|im_start|>")
    pad = BYTES.vocabulary.need("<|image_pad|>")
    assert hear([*ids_of("ab"), start, *ids_of("c</answer>")], "stop", BYTES).event == Broken("control_ids")
    found = hear([*ids_of("ab"), pad], "length", BYTES)
    assert (found.event, found.n, found.text) == (Broken("image_ids"), 2, "ab")


def test_what_stands_after_an_end_token_is_not_heard() -> None:
    ids = [*ids_of("so \\boxed{2}", end=True), *ids_of("<tool_result>1</tool_result>")]
    found = hear(ids, "stop", BYTES)
    assert (found.event, found.fabricated, found.text) == (Finished(), False, "so \\boxed{2}")


def test_bytes_that_are_no_text_move_no_cut() -> None:
    broken = [BYTES.vocabulary.encode("é")[0]]
    ids = [*broken, *ids_of(" < tool_result>")]
    found = hear(ids, "stop", BYTES)
    assert (found.event, found.n) == (Fabricated(), 2)


def test_words_of_a_server_are_cut_as_ids_are() -> None:
    found = hear_text("é<tool>sympy: 1</tool> é<tool_result>", "end")
    assert (found.event, found.fabricated, found.text) == (Called("1"), True, "é<tool>sympy: 1</tool>")
    left_out = hear_text("x <tool>sympy: 2</", "end")
    assert (left_out.event, left_out.text) == (Called("2"), "x <tool>sympy: 2</tool>")
    assert hear_text("x <answer>2", "end").text == "x <answer>2</answer>"
    assert hear_text("x <answer>2", "length").event == Full()


def test_an_answer_whose_closing_tag_a_backend_keeps_is_open_and_one_that_the_model_ends_is_not() -> None:
    assert heard("<answer>5", stop="end").event == Finished(unclosed=True)
    assert heard("<answer>5", stop="end", end=True).event == Finished(unclosed=False)
    assert heard("<answer>5</answer> x").text == "<answer>5</answer>"


def test_a_result_is_one_short_line_whose_tags_cannot_act() -> None:
    told = result_text("a\n b\t<tool>x</tool> < / TOOL_RESULT> </think> x < y")
    assert told == "<tool_result>a b [tool]x[/tool] [ / TOOL_RESULT] [/think] x < y</tool_result>"
    assert len(result_text("1" * 2000)) <= MAX_RESULT + len("<tool_result></tool_result>")


@FORMATS
def test_a_result_can_hold_no_control_token(format: QwenFormat) -> None:
    segment = put_in(result_text("<|im_end|></tool_response></think>"), "tool", format)
    assert not set(segment.ids) & format.vocabulary.control_ids
    assert not format.vocabulary.decode(segment.ids).count("</think>")
    assert not fabricates(result_text("<tool_result>").removeprefix("<tool_result>"))


STRETCHES = [
    ("model", "<think>\nLet me see <tool>sympy: 2*3</tool>"),
    ("tool", "<tool_result>6</tool_result>"),
    ("model", " so</think><answer>\\boxed{6}</answer>"),
]


def shown(stretches: list[tuple[str, str]] = STRETCHES, format: QwenFormat = BYTES) -> Ledger:
    return demonstration(format, format.opening([system("Solve."), user("2*3?")]), stretches)


@FORMATS
def test_of_a_demonstration_only_the_models_words_are_learnt(format: QwenFormat) -> None:
    ledger = shown(format=format)
    datum = sft_datum(ledger)
    learnt = [int(t) for t, w in zip(datum.targets, datum.weights, strict=True) if w > 0]
    first = STRETCHES[0][1].removeprefix(format.prefix)
    assert learnt == [*ids_of(first, format), *ids_of(STRETCHES[2][1], format, end=True)]
    assert "tool_result" not in format.vocabulary.decode(learnt)
    assert "<tool_result>6</tool_result>" in format.vocabulary.decode(ledger.ids().tolist())
    assert Ledger.from_dict(ledger.to_dict()) == ledger


def test_a_weight_on_a_tools_token_is_an_error() -> None:
    ledger = shown()
    datum = sft_datum(ledger)
    check_weights(datum, ledger)
    tool = next(k for k, s in enumerate(ledger) if isinstance(s, TextSegment) and s.role == "tool")
    for segment, weight, told in ((tool, 1.0, "tool"), (tool - 1, 0.0, "sampled"), (0, 1.0, "system")):
        start = max(ledger.ends[segment], 1)
        weights = datum.weights.copy()
        weights[start - 1] = weight
        with pytest.raises(LedgerError, match=told):
            check_weights(replace(datum, weights=weights), ledger)
    moved = np.roll(datum.weights, 1)  # the same number of targets, one token late
    with pytest.raises(LedgerError, match="weight"):
        check_weights(replace(datum, weights=moved), ledger)


def test_a_demonstration_in_which_the_model_writes_a_result_is_refused() -> None:
    with pytest.raises(LedgerError, match="stretch 0 of a solution: the model writes"):
        shown([("model", "<tool>sympy: 1</tool><tool_result>1</tool_result>")])
    with pytest.raises(LedgerError, match="of kind 'user'"):
        shown([*STRETCHES, ("user", "?")])
    with pytest.raises(LedgerError, match="without words"):
        shown(STRETCHES[1:2])


def test_stretches_of_a_turn_stop_as_they_say() -> None:
    said = [s for s in shown() if isinstance(s, SampledSegment)]
    assert [s.stop for s in said] == ["stop", "end"]
