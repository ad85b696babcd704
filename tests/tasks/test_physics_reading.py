"""What counts as the answer of a transcript, and what it is worth."""

from __future__ import annotations

import pytest

from specvet.records.problems import Gold, Segment
from specvet.records.schema import TrajectoryRecord
from specvet.tasks.physics.reading import Route, boxes, fabricated, read_answer, sampled, well_formed
from specvet.tasks.physics.reasons import Reason
from specvet.tasks.physics.rewards import Weights, reward

SPEED = Gold(kind="numeric", value=5.0, unit="m/s")
RIGHT = r"So it is. <answer>\boxed{5\,\text{m/s}}</answer>"
WRONG = r"So it is. <answer>\boxed{6\,\text{m/s}}</answer>"


def tool(text: str) -> Segment:
    return Segment.model_validate(
        {"kind": "tool", "text": text, "call": {"argument": "2+3"}, "result": {"status": "ok", "text": "5"}}
    )


@pytest.mark.parametrize(
    ("texts", "text", "route"),
    [
        ([r"<answer>\boxed{5}</answer>"], r"\boxed{5}", Route.ANSWER),
        (["<answer>4</answer> no, <answer> 5 </answer>"], "5", Route.ANSWER),
        ([r"\boxed{4}, then \boxed{\frac{5}{\sqrt{2}}}"], r"\boxed{\frac{5}{\sqrt{2}}}", Route.BOX),
        ([r"<answer>5</answer> \boxed{6}"], "5", Route.ANSWER),
        ([r"\boxed{5} km/s" + "\nand so on"], r"\boxed{5} km/s", Route.BOX),
        ([r"\boxed{5} and \boxed{6"], r"\boxed{5} and \boxed{6", Route.BOX),
        ([r"<answer>5"], None, Route.NONE),
        (["It is 5."], None, Route.NONE),
        ([], None, Route.NONE),
        (["<answer>5</answer>", "I stop here."], "5", Route.ANSWER),
        (["<answer>5", "</answer>"], None, Route.NONE),
        ([r"<think>\boxed{4}</think> \boxed{5}"], r"\boxed{5}", Route.BOX),
        ([r"<think>\boxed{4}"], None, Route.NONE),
        ([r"<answer>4</answer>", "</think> nothing"], None, Route.NONE),
        (["<answer>4</answer> and on", "</think><answer>5</answer>"], "5", Route.ANSWER),
    ],
)
def test_the_last_answer_block_counts_else_the_last_box(texts: list[str], text: str | None, route: Route) -> None:
    read = read_answer(texts)
    assert (read.text, read.route) == (text, route)


def test_of_two_boxes_the_last_closed_one_decides() -> None:
    assert read_answer([r"\boxed{5} and \boxed{6"]).shown == "5"


def test_a_thought_that_the_prompt_opened_and_nobody_closed_has_no_answer() -> None:
    assert read_answer(["<answer>5</answer>"], thinking=True).text is None
    assert read_answer(["so</think><answer>5</answer>"], thinking=True).text == "5"


def test_a_result_segment_is_never_read() -> None:
    segments = [
        Segment(kind="model", text="<tool>sympy: 2+3</tool>"),
        tool(r"<tool_result><answer>\boxed{5 m/s}</answer></tool_result>"),
        Segment(kind="harness", text=r"<answer>\boxed{5 m/s}</answer>"),
        Segment(kind="model", text="I do not know."),
    ]
    assert read_answer(sampled(segments)).route is Route.NONE


@pytest.mark.parametrize(
    "made_up",
    [
        "<tool_result>",
        "<TOOL_RESULT>",
        "< tool_result >",
        "＜tool_result＞",
        "<tool result>",
        "<tool-result ",
        "‹tool_result›",
        "<\ttool_result>",
    ],
)
def test_a_result_that_the_model_made_up_is_counted_and_not_read(made_up: str) -> None:
    text = rf"<tool>sympy: 1</tool>{made_up}\boxed{{5 m/s}}</tool_result>"
    assert fabricated([text]) == 1
    assert read_answer([text]).text is None
    assert read_answer([text + WRONG]).shown == r"6\,\text{m/s}"
    assert not well_formed([text + RIGHT])


def test_a_box_in_a_call_is_no_answer() -> None:
    assert read_answer([r"<tool>sympy: \boxed{5}</tool>"]).text is None


def test_a_made_up_result_without_an_end_hides_all_that_follows() -> None:
    assert read_answer([rf"<tool_result>5 {RIGHT}"]).text is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{a{b}c}", ["a{b}c"]),
        (r"\boxed {5}", ["5"]),
        (r"\boxed{\boxed{5}}", [r"\boxed{5}"]),
        (r"\boxed{1} \fbox{2}", ["1", "2"]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"} \boxed{5}", ["5"]),
        (r"{ \boxed{5}", ["5"]),
        (r"\boxed{5", []),
        (r"boxed{5}", []),
    ],
)
def test_boxes_are_balanced(text: str, found: list[str]) -> None:
    assert boxes(text) == found


@pytest.mark.parametrize(
    "text", [r"\boxed{" * 200_000, "{" * 10**6, "<" + " " * 10**6, "<answer>" * 10**5, "<tool_result" * 10**5]
)
def test_long_texts_are_read_in_linear_time(text: str) -> None:
    assert read_answer([text]).text is None


def test_many_boxes_in_a_row_are_read() -> None:
    assert read_answer([r"\boxed{1}" * 10**5 + r"\boxed{5}"]).shown == "5"


@pytest.mark.parametrize(
    ("texts", "well"),
    [
        ([RIGHT], True),
        ([RIGHT + "\n"], True),
        (["<think>5</think>" + RIGHT], True),
        (["<tool>sympy: 2+3</tool>", RIGHT], True),
        ([RIGHT + " Done."], False),
        ([RIGHT + RIGHT], False),
        (["<answer>5 m/s</answer>"], False),
        ([r"<answer>\boxed{5} m/s</answer>"], False),
        ([r"<answer>\boxed{5}\boxed{6}</answer>"], False),
        ([r"\boxed{5}"], False),
        ([], False),
    ],
)
def test_the_format_is_one_box_in_one_block_at_the_end(texts: list[str], well: bool) -> None:
    assert well_formed(texts) is well


FULL = Weights(bad_format=-0.2)


@pytest.mark.parametrize(
    ("texts", "weights", "score"),
    [
        ([RIGHT], Weights(), 1.0),
        ([WRONG], Weights(), 0.0),
        ([r"\boxed{5 m/s}"], Weights(), 1.0),
        ([r"\boxed{5 m/s}"], FULL, 0.8),
        ([RIGHT], FULL, 1.0),
        ([WRONG], FULL, 0.0),
        ([r"\boxed{6 m/s}"], FULL, -0.2),
        (["<tool_result>5</tool_result>" + RIGHT], Weights(), 0.5),
        (["<tool_result>5</tool_result>" * 3 + RIGHT], Weights(), 0.5),
        (["<tool_result>5</tool_result>" + WRONG], Weights(), -0.5),
        ([], Weights(), 0.0),
    ],
)
def test_a_reward_is_its_parts(texts: list[str], weights: Weights, score: float) -> None:
    assert reward(texts, SPEED, weights).score == pytest.approx(score)


def test_style_never_pays_for_a_wrong_answer() -> None:
    with pytest.raises(ValueError, match="deductions"):
        Weights(bad_format=0.1)
    with pytest.raises(ValueError, match="more than what can be deducted"):
        Weights(answer=0.5, fabricated=-0.5)
    right = min(
        reward([text], SPEED, FULL).score for text in (RIGHT, r"<tool_result>\boxed{5 m/s}</tool_result>" + RIGHT)
    )
    assert right > 0 >= max(reward([text], SPEED, FULL).score for text in (WRONG, "", r"\boxed{6 m/s}"))


def test_parts_earn_only_together_unless_asked() -> None:
    gold = Gold(kind="multipart", parts={"a": SPEED, "b": Gold(kind="text", value="up")})
    text = r"<answer>\boxed{(a) 5 m/s (b) down}</answer>"
    assert reward([text], gold).score == 0
    assert reward([text], gold, Weights(partial=True)).score == 0.5
    assert reward([text], gold).matched.reason is Reason.SOME_PARTS


def test_what_the_harness_counted_and_parsed_counts() -> None:
    assert reward([RIGHT], SPEED, fabrications=1).score == 0.5
    assert reward([RIGHT], SPEED, FULL, format_ok=False).score == pytest.approx(0.8)


def test_the_parts_are_what_a_trajectory_record_keeps() -> None:
    parts = reward([RIGHT], SPEED).parts()
    assert parts == {"score": 1.0, "correct": 1.0, "credit": 1.0, "format_ok": 1.0, "fabricated": 0.0}
    assert TrajectoryRecord.model_fields["reward"].annotation == dict[str, float] | None
