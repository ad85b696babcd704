"""The three readings of turns: what holds for any text, and that none takes longer than reading it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specvet.chat import AnswerTurn
from specvet.chat.formats import chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.tasks.answers import lenient_answer, strict_answer, strict_format
from specvet.tasks.rewards import paper_reading
from specvet.tasks.turns import Answer, Call, Fault, read_call, read_turn

FORMAT = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
CALL = '<tool_call>{"name": "x", "arguments": {}}</tool_call>'

TAGS = ("<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>")
WORDS = (
    r"\boxed{YES}",
    r"\boxed{NO}",
    r"\boxed{",
    "YES",
    "NO",
    "yes",
    "}",
    " ",
    "\n",
    "ok",
    ", ",
    CALL,
    "<|im_end|>",
    "é",
)
SCRAPS = st.lists(st.sampled_from((*TAGS, *WORDS)) | st.text(max_size=3), max_size=12).map("".join)
WELL_FORMED = st.tuples(SCRAPS, SCRAPS, st.sampled_from(("YES", "NO")), SCRAPS).map(
    lambda p: f"<think>{p[0]}</think><answer>{p[1]}\\boxed{{{p[2]}}}{p[3]}</answer>"
)
TURNS = SCRAPS | WELL_FORMED | SCRAPS.map(lambda s: f"<think>look</think>{s}")


@settings(deadline=None)
@given(st.lists(TURNS, max_size=3))
@example(["<think>a</think><answer>\\boxed{YES}</answer>"])
def test_strict_format_means_one_answer_for_everybody(turns: list[str]) -> None:
    if strict_format(turns):
        assert strict_answer(turns) == lenient_answer(turns)
        act = read_turn(turns[-1]).act
        assert isinstance(act, Answer)
        assert act.word == strict_answer(turns)


@settings(deadline=None)
@given(TURNS)
def test_the_parser_calls_a_turn_an_answer_exactly_where_its_format_is_strict(text: str) -> None:
    parsed = FORMAT.parse_text(text)
    surrogates = any("\ud800" <= c <= "\udfff" for c in text)
    if not text.endswith(("<|im_end|>", "<|endoftext|>")) and not surrogates:
        assert isinstance(parsed, AnswerTurn) == strict_format([text], "json")
    if isinstance(parsed, AnswerTurn) and not text.endswith("<|im_end|>"):
        assert parsed.answer == strict_answer([text])


@settings(deadline=None)
@given(TURNS)
def test_a_strict_answer_is_lenient_unless_the_body_says_both(text: str) -> None:
    strict, lenient = strict_answer([text]), lenient_answer([text])
    if strict is not None:
        assert lenient in (strict, None)
        body = text.rpartition("</think>")[2]
        if lenient is None:
            assert body.count(r"\boxed") > 1


@settings(deadline=None)
@given(SCRAPS, SCRAPS, TURNS)
def test_no_thought_changes_an_answer(one: str, other: str, body: str) -> None:
    if "<|im_end|>" in one + other:
        return
    turns = [f"<think>{thought}</think>{body}" for thought in (one, other)]
    assert strict_answer(turns[:1]) == strict_answer(turns[1:])
    assert lenient_answer(turns[:1]) == lenient_answer(turns[1:])


@settings(deadline=None)
@given(SCRAPS)
def test_a_turn_that_never_stops_thinking_has_no_answer(text: str) -> None:
    turns = [f"<think>{text.replace('</think>', '')}"]
    assert strict_answer(turns) is None
    assert lenient_answer(turns) is None
    assert not strict_format(turns)


@settings(deadline=None)
@given(st.lists(TURNS, min_size=1, max_size=3), TURNS)
def test_only_the_last_turn_answers(before: list[str], last: str) -> None:
    assert strict_answer([*before, last]) == strict_answer([last])
    assert lenient_answer([*before, last]) == lenient_answer([last])


def test_no_turns_are_no_answer() -> None:
    assert not strict_format([])
    assert strict_answer([]) is None
    assert lenient_answer([]) is None


def test_both_dialects_are_calls_unless_one_is_named() -> None:
    json_call = f"<think>a</think>{CALL}"
    xml_call = "<think>a</think><tool_call><function=x></function></tool_call>"
    answer = "<think>a</think><answer>\\boxed{NO}</answer>"
    assert strict_format([json_call, xml_call, answer])
    assert not strict_format([json_call, xml_call, answer], "json")
    assert not strict_format([json_call, xml_call, answer], "xml")
    assert strict_format([xml_call, answer], "xml")


HOSTILE = {
    "answers opened": "<answer>" * 70_000,
    "answers closed": "</answer>" * 70_000,
    "answers opened, then closed": "<answer>" * 50_000 + "</answer>" * 50_000,
    "boxes opened": "\\boxed{" * 70_000,
    "boxes and blanks": "\\boxed " * 70_000,
    "one box and blanks": "\\boxed" + " " * 400_000,
    "a box of blanks": "<answer>\\boxed{" + " " * 400_000 + "YES" + " " * 400_000 + "x",
    "empty boxes": "<answer>" + "\\boxed{}" * 70_000 + "</answer>",
    "blanks": " " * 400_000,
    "blanks and a word": " \n" * 250_000 + "YES" + " \t" * 250_000 + "x",
    "words": "YES NO " * 70_000,
    "calls opened": "<tool_call>" * 50_000,
    "calls closed": "</tool_call>" * 50_000,
    "calls": CALL * 5_000,
    "answers in a call": "<tool_call>" + "<answer>" * 70_000,
    "calls and answers": "<tool_call><answer>" * 50_000,
    "thoughts opened": "<think>" * 70_000,
    "thoughts closed": "</think>" * 70_000,
    "braces": "<tool_call>{" + "{" * 400_000 + "</tool_call>",
    "lists": '<tool_call>{"name": "x", "arguments": {"a": ' + "[" * 200_000 + "]" * 200_000 + "}}</tool_call>",
    "quotes": "<tool_call>{" + '\\"' * 200_000 + "</tool_call>",
    "digits": '<tool_call>{"name": "x", "arguments": {"a": ' + "1" * 400_000 + "}}</tool_call>",
    "functions": "<tool_call>" + "<function=x>" * 50_000 + "</function></tool_call>",
    "parameters": "<tool_call><function=x>" + "<parameter=a>" * 50_000 + "</function></tool_call>",
    "many parameters": "<tool_call><function=x>"
    + "".join(f"<parameter=a{i}>[</parameter>" for i in range(10_000))
    + "</function></tool_call>",
    "blanks in a function": "<tool_call><function=x>" + " " * 400_000 + "</function></tool_call>",
    "a long name": "<tool_call><function=" + "x" * 400_000 + "></function></tool_call>",
    "angles": "<" * 400_000,
    "bars": "<|" * 200_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_megabytes_are_read_at_once_and_answer_nothing(name: str) -> None:
    for text in (HOSTILE[name], "<think>look</think>" + HOSTILE[name], "<think>\n" + HOSTILE[name]):
        assert strict_answer([text]) is None
        assert lenient_answer([text]) is None
        assert not strict_format([text])
        assert isinstance(paper_reading(text)[0], str)
        for dialect in ("json", "xml"):
            assert isinstance(read_turn(text, dialect).act, Fault | Call)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("[6400, 6700]", [6400, 6700]),
        ("[6400.5,\n 6700]", [6400.5, 6700]),
        ("Hα region", "Hα region"),
        ("12", 12),
        ("-1.5e3", -1500.0),
        ("true", True),
        ("null", None),
        ('"12"', "12"),
        ('{"a": [1]}', {"a": [1]}),
        ("{'a': 1}", "{'a': 1}"),
        ("[6400, 6700", "[6400, 6700"),
        ("NaN", "NaN"),
        ("[Infinity, 1]", "[Infinity, 1]"),
        ("", ""),
        ("one\n\n  two ", "one\n\n  two "),
        ("\nfirst line empty", "\nfirst line empty"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
        ("</think", "</think"),
    ],
)
def test_a_parameters_value_is_json_where_it_is_json_else_its_words(value: str, read: object) -> None:
    call = read_call(f"<function=x>\n<parameter=a>\n{value}\n</parameter>\n</function>", "xml")
    assert call == Call("x", {"a": read})
    assert isinstance(call, Call)
    assert type(call.arguments["a"]) is type(read)


@pytest.mark.parametrize(
    "value", ["[" * 50 + "]" * 50, '{"a": 1, "a": 2}', '"\\udfff"', "1e999", "9" * 5000, "<function=y>"]
)
def test_a_parameters_value_that_nobody_should_meet_is_a_fault(value: str) -> None:
    call = read_call(f"<function=x><parameter=a>{value}</parameter></function>", "xml")
    assert isinstance(call, Fault)
    assert call.kind == "bad_call"


def test_what_is_wrong_is_said_in_one_short_line() -> None:
    for content in ("{", "[]", '{"name": "x"}', "<function=x>", f"<function=x><parameter={'a' * 200}>", "x" * 10_000):
        for dialect in ("json", "xml"):
            fault = read_call(content, dialect)
            assert isinstance(fault, Fault)
            assert len(fault.detail) < 160
            assert "\n" not in fault.detail


def test_rewards_and_the_parser_import_nothing_that_training_images_lack() -> None:
    code = (
        "import sys, specvet.tasks.rewards, specvet.tasks.answers, specvet.chat.parsing, specvet.chat.datum;"
        "print([m for m in ('pydantic', 'astropy', 'torch', 'transformers', 'yaml', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
