"""A vocabulary that is learnt: exact, the same for the same texts, and one token for what never varies."""

from __future__ import annotations

from pathlib import Path

import pytest

from specvet.chat import AnswerTurn, CallTurn, MalformedTurn, ToolCall, Vocabulary, VocabularyError, chat_format
from specvet.chat.learning import MACROS, SIZE, learn_vocabulary
from specvet.chat.messages import assistant
from specvet.chat.tiny import write_tiny

TEXTS = (
    "S/N 28, 3700 to 9100 Å. Red, 1.8. First C2 5165: 5090-5260 Å.",
    "C2 5165 edge, ratio 0.41. Points to carbon. Next C2 4737: 4640-4830 Å.",
    "Hα 6563 absorption, EW 12 Å. He II 4686 not seen.",
    "<|im_start|>user\nRead it.<|im_end|>\n<|im_start|>assistant\nRed, ratio 0.41.<|im_end|>\n",
)
CALL = ToolCall("spectral_visualization_tool", {"wavelength_range": [5090, 5260]})
ODD = "µ ✨ \x00 naïve <think>half</think> ５ 12345 <|im_end|> \r\n\t \\boxed{YES} <tool_call> { 龍"


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(learn_vocabulary(TEXTS))


def test_every_text_comes_back_byte_for_byte(vocabulary: Vocabulary) -> None:
    for text in (*TEXTS, *MACROS, ODD):
        assert vocabulary.decode(vocabulary.encode(text)) == text


def test_words_of_the_texts_are_one_token_and_digits_stay_single(vocabulary: Vocabulary) -> None:
    pieces = [vocabulary.decode([i]) for i in vocabulary.encode("C2 5165 edge, ratio 0.41")]
    assert pieces == ["C", "2", " ", "5", "1", "6", "5", " edge", ",", " ratio", " ", "0", ".", "4", "1"]


def test_a_turn_that_calls_takes_one_token_for_all_that_never_varies(vocabulary: Vocabulary) -> None:
    format = chat_format("qwen2_5_vl", vocabulary)
    ids = format.demonstration(assistant(reasoning="Red.", calls=[CALL]))
    said = [vocabulary.decode([i]) for i in ids]
    head = '\n{"name": "spectral_visualization_tool", "arguments": {"wavelength_range": ['
    assert said[:8] == ["<think>", "Red", ".", "</think>", "\n", "<tool_call>", head, "5"]
    assert format.parse(ids, "end") == CallTurn(CALL.name, {"wavelength_range": [5090, 5260]}, "Red.")


def test_the_word_of_an_answer_is_one_token_between_macros(vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode("<think>Enough.</think>\n<answer>\\boxed{YES} C2.</answer><|im_end|>")
    pieces = [vocabulary.decode([i]) for i in ids]
    at = pieces.index("<answer>\\boxed{")
    assert pieces[at + 1 : at + 3] == ["YES", "}"]
    turn = chat_format("qwen2_5_vl", vocabulary).parse(ids, "end")
    assert turn == AnswerTurn("YES", "C2.", "Enough.")


def test_a_thought_spelled_in_letters_is_not_one(vocabulary: Vocabulary) -> None:
    ids = [i for letter in "<think>Red.</think>" for i in vocabulary.encode(letter)] + [vocabulary.need("<|im_end|>")]
    turn = chat_format("qwen2_5_vl", vocabulary).parse(ids, "end")
    assert isinstance(turn, MalformedTurn)
    assert turn.kind == "spelled_tag"


def test_macros_are_no_control_tokens(vocabulary: Vocabulary) -> None:
    assert not vocabulary.control_ids & {vocabulary.need(macro) for macro in MACROS}


def test_the_order_of_the_texts_does_not_matter(vocabulary: Vocabulary) -> None:
    again = Vocabulary(learn_vocabulary(reversed(TEXTS)))
    assert again.fingerprint == vocabulary.fingerprint


def test_it_has_at_most_the_ids_that_were_asked_for(vocabulary: Vocabulary) -> None:
    assert vocabulary.size <= SIZE
    exact = Vocabulary(learn_vocabulary(TEXTS, size=300))
    assert exact.size == 300
    assert exact.decode(exact.encode(ODD)) == ODD


@pytest.mark.parametrize(
    ("size", "macros", "words"),
    [
        (250, (), "bytes, control tokens and macros take 278"),
        (SIZE, ("",), "is empty"),
        (SIZE, ("<answer>", "<answer>"), "a token already"),
        (SIZE, ("a<|im_end|>",), r"holds the token <\|im_end\|>"),
        (SIZE, ("\n<tool_call>\n{",), "holds the token <tool_call>"),
    ],
)
def test_what_cannot_be_a_vocabulary_is_refused(size: int, macros: tuple[str, ...], words: str) -> None:
    with pytest.raises(VocabularyError, match=words):
        learn_vocabulary(TEXTS, size, macros)


def test_transformers_reads_the_same_ids(vocabulary: Vocabulary, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_tiny("qwen2_5_vl", tmp_path, vocabulary)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in (*TEXTS, *MACROS, ODD):
        assert theirs(text)["input_ids"] == vocabulary.encode(text)
    assert Vocabulary.load(tmp_path).fingerprint == vocabulary.fingerprint
