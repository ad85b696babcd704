"""Parsing of sampled ids: what only ids can tell, and that demonstrations come back as they were.

What texts are is in the golden table (tests/tasks/golden_turns.jsonl).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator

import pytest
from conversation_lab import FORMATS
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabulary_lab import real_vocabulary

from specvet.chat import AnswerTurn, CallTurn, MalformedTurn, ToolCall, TruncatedTurn, Vocabulary
from specvet.chat.formats import chat_format
from specvet.chat.messages import assistant
from specvet.chat.parsing import parse_answer, well_formed
from specvet.chat.qwen import QwenFormat
from specvet.chat.tiny import tiny_vocabulary
from specvet.chat.vocabulary import ORDINARY_TAGS, PICTURE_TOKENS

each_format = pytest.mark.parametrize("name", FORMATS)


def tiny(name: str) -> QwenFormat:
    return chat_format(name, tiny_vocabulary(name))


def letters(text: str) -> list[int]:
    """Ids that spell a text byte by byte; in the tiny vocabularies a byte's id is its number."""
    return list(text.encode())


def opened(format: QwenFormat) -> list[int]:
    """The ids that open a turn's thought, unless the prefix does."""
    return format.vocabulary.encode("" if format.prefix else "<think>")


def answer_ids(format: QwenFormat, thought: list[int], words: list[int] = []) -> list[int]:  # noqa: B006
    encode = format.vocabulary.encode
    box = encode(r"<answer>\boxed{YES} ok ")
    close = encode("</think>")
    return [*opened(format), *thought, *close, *box, *words, *encode("</answer>"), format.stop_ids[0]]


def malformed(turn: object) -> str:
    assert isinstance(turn, MalformedTurn), turn
    assert turn.detail
    return turn.kind


@each_format
def test_a_turn_ends_with_an_end_token_of_its_format_or_is_truncated(name: str) -> None:
    format = tiny(name)
    whole = answer_ids(format, letters("look"))
    for end in format.stop_ids:
        for stop in ("end", "length"):  # an end token at the limit is an end token
            turn = format.parse([*whole[:-1], end], stop)
            assert turn == AnswerTurn("YES", "ok", "look")
    for cut in range(len(whole)):
        turn = format.parse(whole[:cut], "length")
        assert isinstance(turn, TruncatedTurn)
        assert turn.text == format.prefix + format.vocabulary.decode(whole[:cut])
    for stop in ("end", "length"):
        assert format.parse([], stop) == TruncatedTurn(format.prefix, open_thought=bool(format.prefix))


@each_format
def test_a_service_may_keep_the_end_token_to_itself_and_say_so(name: str) -> None:
    format = tiny(name)
    whole = answer_ids(format, letters("look"))
    assert format.parse(whole[:-1], "end") == AnswerTurn("YES", "ok", "look")
    assert malformed(format.parse(whole[:-2], "end")) == "bad_answer"


@each_format
def test_a_truncated_turn_says_whether_it_was_still_thinking(name: str) -> None:
    format = tiny(name)
    thinking = [*opened(format), *letters("look é")[:-1]]  # cut inside a character too
    turn = format.parse(thinking, "length")
    assert turn == TruncatedTurn(f"{format.prefix or '<think>'}look \ufffd", open_thought=True)
    turn = format.parse([*thinking, *format.vocabulary.encode("</think>"), *letters("so")], "length")
    assert isinstance(turn, TruncatedTurn)
    assert not turn.open_thought


@each_format
@pytest.mark.parametrize("token", PICTURE_TOKENS)
def test_ids_of_pictures_are_no_words_of_a_turn(name: str, token: str) -> None:
    format = tiny(name)
    spoken = format.vocabulary.need(token)
    assert malformed(format.parse(answer_ids(format, [spoken]), "end")) == "image_ids"
    assert malformed(format.parse(answer_ids(format, [], [spoken]), "end")) == "image_ids"
    assert malformed(format.parse([spoken] * 50 + [format.stop_ids[0]], "end")) == "image_ids"
    assert isinstance(format.parse([spoken] * 50, "length"), TruncatedTurn)


@each_format
def test_other_control_ids_inside_a_turn_are_told_whatever_they_are(name: str) -> None:
    format = tiny(name)
    others = format.vocabulary.control_ids - format.vocabulary.picture_ids
    assert set(format.stop_ids) <= others
    assert len(others) >= 8
    for spoken in others:
        turn = format.parse(answer_ids(format, [spoken]), "end")
        assert malformed(turn) == "control_ids"
        assert isinstance(turn, MalformedTurn)
        assert format.vocabulary.decode([spoken]) in turn.text


@each_format
def test_a_tag_in_letters_is_no_tag_where_the_vocabulary_has_an_id_for_it(name: str) -> None:
    format = tiny(name)
    tags = [*ORDINARY_TAGS, *(format.vocabulary.decode([i]) for i in format.vocabulary.control_ids)]
    known = [t for t in tags if format.vocabulary.id(t) is not None]
    assert {"<tool_call>", "<|image_pad|>", "<|im_end|>"} <= set(known)
    for tag in known:
        for ids in (answer_ids(format, letters(tag)), answer_ids(format, [], letters(tag))):
            assert malformed(format.parse(ids, "end")) == "spelled_tag"


def test_a_call_in_letters_is_not_carried_out_and_one_in_ids_is() -> None:
    format = tiny("qwen2_5_vl")
    text = '<think>look</think><tool_call>{"name": "look", "arguments": {}}</tool_call>'
    end = format.stop_ids[0]
    assert malformed(format.parse([*letters(text), end], "end")) == "spelled_tag"
    assert format.parse([*format.vocabulary.encode(text), end], "end") == CallTurn("look", {}, "look")


def test_tags_without_an_id_are_spelled_in_any_way() -> None:
    format = tiny("qwen2_5_vl")
    assert format.vocabulary.id("<think>") is None
    text = r"<think>look</think><answer>\boxed{NO} so</answer>"
    spelled = [*letters(text), format.stop_ids[0]]
    assert format.parse(spelled, "end") == AnswerTurn("NO", "so", "look")
    assert spelled != [*format.vocabulary.encode(text), format.stop_ids[0]]


@each_format
def test_bytes_that_are_no_text_are_told(name: str) -> None:
    format = tiny(name)
    for broken in ([0xFF], [0xCE], [0xB1], [0xF0, 0x9F], [0xED, 0xA0, 0x80], [0xC0, 0xAF]):
        assert malformed(format.parse(answer_ids(format, broken), "end")) == "not_text"
        assert malformed(format.parse(answer_ids(format, [], broken), "end")) == "not_text"
    assert format.parse(answer_ids(format, letters("α🌟")), "end") == AnswerTurn("YES", "ok", "α🌟")


@each_format
def test_an_id_that_no_token_has_is_no_text(name: str) -> None:
    format = tiny(name)
    for unknown in (format.vocabulary.size, 2**31 - 1):
        turn = format.parse(answer_ids(format, [unknown]), "end")
        assert malformed(turn) == "not_text"
        assert isinstance(turn, MalformedTurn)
        assert str(unknown) in turn.detail


def test_a_character_cut_by_a_tag_is_no_text() -> None:
    format = tiny("qwen3_vl")
    close = format.vocabulary.need("</think>")
    ids = [*opened(format), 0xCE, close, 0xB1, format.stop_ids[0]]
    assert malformed(format.parse(ids, "end")) == "not_text"


@each_format
def test_a_model_that_loops_on_one_token_is_truncated_or_malformed(name: str) -> None:
    format = tiny(name)
    for looped in range(format.vocabulary.size):
        turn = format.parse([looped] * 300, "length")
        ended = looped in format.stop_ids
        assert malformed(turn) == "control_ids" if ended else isinstance(turn, TruncatedTurn)
        assert isinstance(format.parse([*[looped] * 300, format.stop_ids[0]], "end"), MalformedTurn)


@settings(deadline=None)
@given(st.sampled_from(FORMATS), st.data())
def test_no_ids_break_the_parser_and_what_it_tells_can_be_kept(name: str, data: st.DataObject) -> None:
    format = tiny(name)
    scraps = [
        format.vocabulary.encode(t) for t in ("<think>", "</think>", r"<answer>\boxed{YES}</answer>", "<tool_call>")
    ]
    piece = st.integers(0, format.vocabulary.size + 3).map(lambda i: [i]) | st.sampled_from(scraps)
    ids = [i for ids in data.draw(st.lists(piece, max_size=12)) for i in ids]
    if data.draw(st.booleans()):
        ids.append(format.stop_ids[0])
    turn = format.parse(ids, "length")
    assert isinstance(turn, TruncatedTurn) == (not ids or ids[-1] not in format.stop_ids)
    if data.draw(st.booleans()):
        turn = format.parse(ids, "end")
    if isinstance(turn, MalformedTurn | TruncatedTurn):
        turn.text.encode()
        assert turn.text == format.turn_text(ids)


def values(leaf: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3), max_leaves=6
    )


WORD = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cn"], exclude_characters="<>|"), max_size=12
).map(lambda text: unicodedata.normalize("NFC", text))
"""Words as Qwen's tokenizers keep them: in Unicode's normal form C."""
NUMBER = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = values(NUMBER | st.booleans() | st.none() | WORD)
NAME = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
THOUGHT = WORD.map(str.strip)
"""The official templates strip all of Unicode's spaces from a thought, not only the four of ASCII."""


def is_plain_in_xml(value: object) -> bool:
    """Whether the template's bare writing can be told: not `12` as a text, nor True and None, which become words."""
    if value is None or isinstance(value, bool):
        return False
    if not isinstance(value, str):
        return True
    try:
        json.loads(value)
    except ValueError:
        return True
    return False


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FORMATS), NAME, st.dictionaries(NAME, VALUE, max_size=3), THOUGHT)
def test_a_demonstrated_call_is_parsed_as_it_was(
    name: str, tool: str, arguments: dict[str, object], thought: str
) -> None:
    format = tiny(name)
    if format.calls == "xml":
        arguments = {k: v for k, v in arguments.items() if is_plain_in_xml(v)}
    ids = format.demonstration(assistant("", thought or "look", [ToolCall(tool, arguments)]))
    assert format.parse(ids, "end") == CallTurn(tool, arguments, thought or "look")


@settings(deadline=None)
@given(st.sampled_from(FORMATS), st.sampled_from(["YES", "NO"]), WORD, THOUGHT)
def test_a_demonstrated_answer_is_parsed_as_it_was(name: str, word: str, why: str, thought: str) -> None:
    format = tiny(name)
    ids = format.demonstration(assistant(rf"<answer>\boxed{{{word}}}{why}</answer>", thought or "look"))
    turn = format.parse(ids, "end")
    if r"\boxed" not in why:
        assert turn == AnswerTurn(word, why.strip(" \t\r\n"), thought or "look")


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(FORMATS),
    NAME,
    st.dictionaries(NAME, VALUE.filter(lambda v: isinstance(v, dict | list)), max_size=3),
)
def test_real_vocabularies_parse_as_the_small_ones(name: str, tool: str, arguments: dict[str, object]) -> None:
    message = assistant("", "Hα ≈ 6563 Å, 看", [ToolCall(tool, arguments)])
    for vocabulary in (tiny_vocabulary(name), real_vocabulary(name)):
        format = chat_format(name, vocabulary)
        assert format.parse(format.demonstration(message), "end") == CallTurn(tool, arguments, "Hα ≈ 6563 Å, 看")


def each_way(vocabulary: Vocabulary, text: str) -> Iterator[list[int]]:
    """Some of the ways in which ids can spell a text: as encoded, and with one stretch byte by byte."""
    ids = vocabulary.encode(text)
    yield ids
    single = {b: vocabulary.encode(chr(b))[0] for b in range(33, 127)}
    for i, token in enumerate(ids):
        cut = vocabulary.token_bytes(token)
        if token not in vocabulary.control_ids and all(b in single for b in cut):
            yield [*ids[:i], *(single[b] for b in cut), *ids[i + 1 :]]


@each_format
def test_however_real_ids_spell_an_answer_it_is_read_unless_a_tag_is_in_letters(name: str) -> None:
    format = chat_format(name, real_vocabulary(name))
    text = r"Look closer.</think><answer>\boxed{NO} Balmer absorption.</answer>"
    start = [] if format.prefix else format.vocabulary.encode("<think>")
    told = set()
    for ids in each_way(format.vocabulary, text):
        turn = format.parse([*start, *ids, format.stop_ids[0]], "end")
        if turn != AnswerTurn("NO", "Balmer absorption.", "Look closer."):
            told.add(malformed(turn))
    assert told == (set() if name == "qwen2_5_vl" else {"spelled_tag"})


def test_a_trajectory_is_well_formed_by_its_ids_where_it_is_calls_and_then_one_answer() -> None:
    call, answer = CallTurn("look", {}), AnswerTurn("NO")
    for good in ([answer], [call, answer], [call, call, answer]):
        assert well_formed(good)
    for bad in (
        [],
        [call],
        [answer, call],
        [answer, answer],
        [MalformedTurn("nothing", "no"), answer],
        [TruncatedTurn()],
    ):
        assert not well_formed(bad)


def test_words_stay_where_the_xml_template_puts_them() -> None:
    format = tiny("qwen3_5")
    call = ToolCall("look", {"window": [6400, 6700.5], "label": "Hα\n  and\n\nits wings", "n": 3})
    turn = format.parse(format.demonstration(assistant("", "a thought\nof two lines", [call])), "end")
    assert turn == CallTurn("look", call.arguments, "a thought\nof two lines")


def test_a_text_may_still_have_its_end_token_and_has_no_half_characters() -> None:
    format = tiny("qwen3_5")
    body = "look</think>\n\n<answer>\\boxed{NO} so</answer>"
    for end in ("", "<|im_end|>", "<|endoftext|>"):
        assert format.parse_text(body + end) == AnswerTurn("NO", "so", "look")
    assert malformed(format.parse_text(f"<|im_end|>{body}")) == "control_ids"
    turn = format.parse_text("look\ud83d</think>")
    assert malformed(turn) == "not_text"
    assert isinstance(turn, MalformedTurn)
    turn.text.encode()


@pytest.mark.parametrize(
    ("body", "turn"),
    [
        (r"<answer>\boxed{YES} ok</answer>", AnswerTurn("YES", "ok", "thought")),
        ("It is wide.\n<answer>\\boxed{YES} ok</answer>", AnswerTurn("YES", "ok", "thought\n\nIt is wide.")),
        ("", "nothing"),
        ("YES", "nothing"),
        (r"<answer>\boxed{YES} ok</answer> or so", "text_outside"),
        (r"<answer>\boxed{YES}</answer><answer>\boxed{YES}</answer>", "many_answers"),
        (r"<answer>\boxed{YES}\boxed{NO}</answer>", "bad_answer"),
        ('<tool_call>{"name": "x", "arguments": {}}</tool_call>', "bad_call"),
    ],
)
def test_an_answer_apart_from_thought_and_call_may_follow_words_thought_aloud(body: str, turn: object) -> None:
    read = parse_answer(body, reasoning="thought")
    assert (malformed(read) if isinstance(turn, str) else read) == turn
