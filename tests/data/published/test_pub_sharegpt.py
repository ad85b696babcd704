"""One published conversation as a demonstration: what is read, what stays as text, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from published_lab import (
    BROKEN,
    QUESTIONS,
    SYSTEM,
    TOOL,
    coldstart_rows,
    messages,
    picture,
    rows_of,
    write_conversations,
)

from specvet.chat import Image, ToolCall, chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.demonstrations import Picture, problem_of
from specvet.data.published.sharegpt import RowError, Trajectory, trajectory
from specvet.data.published.toolblock import tool_block, without_tool_block
from specvet.data.published.writing import sharegpt_text

CALL = json.dumps({"name": "spectral_visualization_tool", "arguments": {"wavelength_range": [6400, 6700]}})
MARK = "<|vision_start|><|image_pad|><|vision_end|>"


def row(*turns: tuple[str, str], shown: int = 1, **fields: Any) -> dict[str, Any]:
    """A published row of these turns behind system and question."""
    told = [("system", SYSTEM + tool_block([TOOL])), ("human", f"<image>\n{QUESTIONS['cv']}"), *turns]
    return {
        "conversations": [{"from": who, "value": value} for who, value in told],
        "images": [f"images/lf_cv_0_{i}.png" for i in range(shown)],
        "sample_index": 0,
        "source_name": "spec-1.fits.gz",
        "ground_truth": "YES",
    } | fields


ANSWER = ("gpt", r"<think>Seen.</think><answer>\boxed{YES} It is.</answer>")
LOOK = ("gpt", f"<think>Look.</think>\n<tool_call>\n{CALL}\n</tool_call>")


def made(published: dict[str, Any]) -> Trajectory:
    found = trajectory(published, "id", "object")
    assert problem_of(found.demonstration) == ""
    return found


def rendered(found: Trajectory) -> str:
    """What our Qwen2.5-VL format makes of it."""
    image = Image.of(picture(0))
    format = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
    spoken = found.demonstration.spoken(lambda _: image)
    return format.text(spoken, found.demonstration.tools, generation=False)


def published_text(published: dict[str, Any]) -> str:
    """What the published training made of a row whose turns have their tags."""
    roles = {"system": "system", "human": "user", "gpt": "assistant"}
    turns = [(roles[turn["from"]], turn["value"]) for turn in published["conversations"]]
    return "".join(f"<|im_start|>{role}\n{text.replace('<image>', MARK)}<|im_end|>\n" for role, text in turns)


def test_our_rendering_for_qwen2_5_is_the_published_text(tmp_path: Any) -> None:
    rows = rows_of(write_conversations(tmp_path, 20))
    assert {len(r["images"]) for r in rows} == set(range(1, 11))
    whole = [r for i, r in enumerate(rows) if i % 5 != 2]  # without broken symbols
    assert len(whole) == 16
    for published in whole:
        assert rendered(made(published)) == published_text(published)


def test_the_other_formats_write_the_same_conversation_in_their_own_words(tmp_path: Any) -> None:
    found = made(rows_of(write_conversations(tmp_path, 4))[3])
    image = Image.of(picture(0))
    for name in ("qwen3_vl", "qwen3_vl_thinking", "qwen3_5"):
        format = chat_format(name, tiny_vocabulary(name))
        text = format.text(found.demonstration.spoken(lambda _: image), found.demonstration.tools, generation=False)
        assert text.count("<|image_pad|>") == 2
        assert "Look 0." in text
        assert text.count("# Tools") == 1


def test_thoughts_calls_answers_and_tool_replies_are_taken_out_of_their_tags() -> None:
    reply = ("human", "<tool_response>\n<image>Generated.\n</tool_response>")
    found = made(row(LOOK, reply, ANSWER, shown=2))
    system, question, look, seen, answer = found.demonstration.messages
    assert (system.role, system.content) == ("system", (SYSTEM,))
    assert question.content == (Picture("images/lf_cv_0_0.png"), f"\n{QUESTIONS['cv']}")
    assert (look.reasoning, look.content) == ("Look.", ())
    assert look.calls == (ToolCall("spectral_visualization_tool", {"wavelength_range": [6400, 6700]}),)
    assert (seen.role, seen.content) == ("tool", (Picture("images/lf_cv_0_1.png"), "Generated."))
    assert (answer.reasoning, answer.content) == ("Seen.", (r"<answer>\boxed{YES} It is.</answer>",))
    assert found.demonstration.tools == (TOOL,)
    assert (found.task, found.ground_truth, found.answer, found.kept_as_text) == ("cv", "YES", "YES", 0)


@pytest.mark.parametrize("who", ["human", "tool", "observation", "function_response"])
@pytest.mark.parametrize("value", ["<image>Generated.", "<tool_response>\n<image>Generated.\n</tool_response>"])
def test_a_turn_behind_a_call_is_the_tool_s_whoever_is_said_to_speak(who: str, value: str) -> None:
    seen = made(row(LOOK, (who, value), ANSWER, shown=2)).demonstration.messages[3]
    assert (seen.role, seen.content) == ("tool", (Picture("images/lf_cv_0_1.png"), "Generated."))


def test_a_turn_behind_a_turn_without_a_call_is_the_user_s() -> None:
    reminder = made(row(("gpt", "<think>Hm.</think>Well"), ("human", "Answer, please."), ANSWER)).demonstration
    assert [m.role for m in reminder.messages[3:]] == ["user", "assistant"]


@pytest.mark.parametrize(
    "text",
    [
        '<think>Look.</think>\n<tool_call>\n{"name": "spectral_visualization_tool", "argum\n</tool_call>',
        f"<think>Look.</think>\n<tool_call>\n{CALL}",
    ],
)
def test_a_call_that_cannot_be_read_stays_as_text_and_the_tool_may_answer_it(text: str) -> None:
    found = made(row(("gpt", text), ("human", "<tool_response>\nError\n</tool_response>"), ANSWER))
    turn = found.demonstration.messages[2]
    assert (turn.reasoning, turn.content, turn.calls) == ("Look.", (text.removeprefix("<think>Look.</think>"),), ())
    assert found.kept_as_text == 1
    assert rendered(found).count(text) == 1


def test_a_thought_that_never_ends_stays_as_text() -> None:
    found = made(row(("gpt", r"<think>Seen. <answer>\boxed{YES}</answer>")))
    assert found.demonstration.messages[-1].content == (r"<think>Seen. <answer>\boxed{YES}</answer>",)
    assert (found.kept_as_text, found.answer) == (1, "YES")


@pytest.mark.parametrize(
    ("published", "reason"),
    [
        (row(ANSWER, shown=2), "more pictures than <image> marks"),
        (row(ANSWER, shown=0), "more <image> marks than pictures"),
        (row(ANSWER, images=["../a.png"]), "a picture outside the data set's folder"),
        (row(("narrator", "x"), ANSWER), "a turn without a known speaker or without text"),
        ({"conversations": [], "source_name": "a"}, "no conversations"),
        (row(ANSWER, source_name=""), "no source_name"),
        (row(ANSWER, images="a.png"), "images is no list of paths"),
    ],
)
def test_a_row_that_cannot_be_used_says_why(published: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowError, match=reason):
        trajectory(published, "id", None)


def test_texts_are_repaired_and_every_change_says_where(tmp_path: Any) -> None:
    published = rows_of(write_conversations(tmp_path, 13))
    found = [made(r) for r in published]
    assert "Hα at 6563 Å is broad (300 km s⁻¹)." in found[2].demonstration.messages[2].reasoning
    assert found[7].demonstration.messages[2].calls[0].arguments["label"] == "Hβ"
    assert "for Hβ." in str(found[7].demonstration.messages[3].content[1])
    assert found[7].answer == "NO"
    assert "It doesn’t fit." in str(found[7].demonstration.messages[-1].content[0])
    assert "Hβ (4861 Å) and H�, both" in found[12].demonstration.messages[2].reasoning
    assert found[12].unresolved == sum(m.role == "assistant" for m in found[12].demonstration.messages)
    for r, t in zip(published, found, strict=True):
        for cleaned in t.changes:
            value = r["conversations"][cleaned.message]["value"]
            assert value[cleaned.change.offset :].startswith(cleaned.change.before)
    assert not found[0].changes


def test_texts_that_json_spells_in_escapes_are_repaired_and_numbers_are_not() -> None:
    labelled = CALL.replace("6700]", r'6700.50], "label": "H\u00ce\u00b1"')
    call = ("gpt", f"<think>Look.</think>\n<tool_call>\n{labelled}\n</tool_call>")
    found = made(row(call, ("human", "<image>"), ANSWER, shown=2))
    assert found.demonstration.messages[2].calls[0].arguments == {"wavelength_range": [6400, 6700.5], "label": "Hα"}
    assert [c.change.after for c in found.changes] == ["α"]


def test_names_are_never_repaired() -> None:
    assert made(row(ANSWER, source_name="HÎ±.fits")).demonstration.name == "HÎ±.fits"


def test_the_tool_block_is_read_as_it_is_written() -> None:
    assert without_tool_block(SYSTEM + tool_block([TOOL, TOOL]))[:2] == (SYSTEM, (TOOL, TOOL))
    assert without_tool_block(SYSTEM)[:2] == (SYSTEM, ())
    assert without_tool_block(SYSTEM + tool_block([TOOL]) + "\n\nBe brief.")[:2] == (f"{SYSTEM}\n\nBe brief.", (TOOL,))
    spread = SYSTEM + tool_block([TOOL]).replace(json.dumps(TOOL), json.dumps(TOOL, indent=2))
    assert without_tool_block(spread)[:2] == (SYSTEM, (TOOL,))
    damaged = SYSTEM + tool_block([TOOL]).replace('{"type"', '{"type')
    assert without_tool_block(damaged)[:2] == (damaged, ())


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Is it a cataclysmic variable, no white dwarf?", "cv"),
        ("Is it an S-type star?", "ss"),
        ("Is it an M-type giant?", "gm"),
        ("Is it a Carbon star?", "cc"),
        ("Is it?", "unknown"),
    ],
)
def test_the_task_is_what_pictures_are_named_after_or_what_the_question_names_first(text: str, task: str) -> None:
    published = row(ANSWER, shown=1)
    published["images"] = ["images/a.png"]
    published["conversations"][1]["value"] = f"<image>{text}"
    assert trajectory(published, "id", None).task == task


def test_the_writer_spells_messages_as_the_reader_reads_them() -> None:
    said = messages(3, "wd", "NO", looks=2, words=BROKEN[0])
    texts = [sharegpt_text(m) for m in said]
    assert texts[1] == f"<image>\n{QUESTIONS['wd']}"
    assert texts[3].startswith("<tool_response>\n<image>Generated spectral")
    assert len(list(coldstart_rows(3))) == 3
