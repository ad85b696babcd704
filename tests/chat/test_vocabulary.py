"""A vocabulary's ids, bytes and hash; and that words cannot act as control tokens."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conversation_lab import FORMATS
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from vocabulary_lab import REAL, real_ranks, real_vocabulary

from specvet.chat import Vocabulary, VocabularyError, harmless
from specvet.chat.tiny import MAX_IDS, QWEN2_5_ADDED, tiny_tokenizer, tiny_vocabulary, write_tiny
from specvet.chat.vocabulary import ORDINARY_TAGS, PICTURE_TOKENS

TEXTS = [
    "",
    "Generated spectral visualization focused on wavelength range (6400, 6700) Å for Hα.",
    "a  b\n\n\n c\t\r\nd   ",
    "1234567 3.14e-5 it's THEY'LL",
    "漢字かな한글 العربية ไทย",
    "e\u0301 vs é, \u1100\u1161, q\u0323\u0307",
    "🌟👩‍🔬\x00\x7f\u2028\ufeff",
    "<think>\nno\n</think>\n\n<tool_call>\n<function=look>\n</tool_call>",
]


@pytest.mark.parametrize("format", ["qwen2_5_vl", "qwen3_5"])
def test_real_ids_are_those_of_the_published_ranks(format: str) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    file, split, added, first = REAL[format]
    special = {token: first + i for i, token in enumerate(added)}
    oracle = tiktoken.Encoding("qwen", pat_str=split, mergeable_ranks=real_ranks(file), special_tokens=special)
    vocabulary = real_vocabulary(format)
    for text in [*TEXTS, "".join(TEXTS), Path(__file__).read_text(encoding="utf-8")]:
        wanted = oracle.encode(unicodedata.normalize("NFC", text), allowed_special="all")
        assert vocabulary.encode(text) == wanted


def test_real_control_tokens_have_the_published_ids() -> None:
    old, new = real_vocabulary("qwen2_5_vl"), real_vocabulary("qwen3_5")
    published = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<|image_pad|>": 151655}
    assert {t: old.id(t) for t in published} == published
    assert [real_vocabulary("qwen3_vl").id(t) for t in ("<tool_response>", "<think>", "</think>")] == [
        151665,
        151667,
        151668,
    ]
    assert [new.id(t) for t in ("<|endoftext|>", "<|im_end|>", "<|image_pad|>")] == [248044, 248046, 248056]
    assert (old.size, real_vocabulary("qwen3_vl").size, new.size) == (151665, 151669, 248077)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("vocabulary_of", [tiny_vocabulary, real_vocabulary], ids=["tiny", "real"])
def test_ids_of_a_text_decode_to_its_nfc_form(format: str, vocabulary_of) -> None:
    vocabulary = vocabulary_of(format)
    for text in TEXTS:
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == unicodedata.normalize("NFC", text)
        assert vocabulary.bytes(ids) == unicodedata.normalize("NFC", text).encode()
        assert b"".join(vocabulary.token_bytes(i) for i in ids) == vocabulary.bytes(ids)


@pytest.mark.parametrize("format", FORMATS)
def test_every_id_has_bytes_and_all_bytes_have_ids(format: str) -> None:
    vocabulary = tiny_vocabulary(format)
    assert {vocabulary.token_bytes(i) for i in range(256)} == {bytes([b]) for b in range(256)}
    assert all(i in vocabulary for i in range(vocabulary.size))
    assert vocabulary.size <= MAX_IDS
    for i in range(vocabulary.size):
        if i not in vocabulary.control_ids and (text := vocabulary.decode([i])).isascii():
            assert vocabulary.decode(vocabulary.encode(text)) == text


def test_every_real_rank_is_exactly_its_bytes() -> None:
    vocabulary = real_vocabulary("qwen3_vl")
    assert all(vocabulary.token_bytes(rank) == token for token, rank in real_ranks("qwen.tiktoken").items())


@pytest.mark.parametrize("format", FORMATS)
def test_ids_without_a_token_are_shown_as_unknown_and_never_raise(format: str) -> None:
    vocabulary = tiny_vocabulary(format)
    for id in (vocabulary.size, 151_900, -1, 2**31, 2**32, 2**70):
        assert id not in vocabulary
        assert vocabulary.decode([65, id, 65]) == "A\ufffdA"


def test_bytes_that_are_no_utf8_are_shown_as_unknown() -> None:
    vocabulary = tiny_vocabulary("qwen3_5")
    assert vocabulary.decode([0xE6, 0xBC, 0x41]) == b"\xe6\xbc\x41".decode("utf-8", "replace")
    assert vocabulary.bytes([0xE6, 0xBC, 0x41]) == b"\xe6\xbc\x41"


def test_an_id_is_found_for_what_is_one_token_only() -> None:
    vocabulary = tiny_vocabulary("qwen2_5_vl")
    assert vocabulary.id("A") == 65
    assert vocabulary.id("\n\n") == 256
    assert vocabulary.id("<tool_call>") == vocabulary.encode("<tool_call>")[0]
    assert [vocabulary.id(t) for t in ("<think>", "Å", "", "no such thing", "\ud800")] == [None] * 5


@pytest.mark.parametrize("format", FORMATS)
def test_control_ids_are_those_that_are_never_said(format: str) -> None:
    vocabulary = tiny_vocabulary(format)
    control = {vocabulary.decode([i]) for i in vocabulary.control_ids}
    assert control >= set(QWEN2_5_ADDED) - set(ORDINARY_TAGS)
    assert not control & set(ORDINARY_TAGS)
    assert {vocabulary.decode([i]) for i in vocabulary.picture_ids} == set(PICTURE_TOKENS)
    assert ("<tts_pad>" in control) == (format == "qwen3_5")


# --- reading folders


def test_new_and_old_files_of_a_folder_give_the_same_vocabulary(tmp_path: Path) -> None:
    for format in FORMATS:
        new, old = tmp_path / f"new_{format}", tmp_path / f"old_{format}"
        write_tiny(format, new)
        old.mkdir()
        told = json.loads((new / "tokenizer.json").read_text(encoding="utf-8"))
        (old / "vocab.json").write_text(json.dumps(told["model"]["vocab"], ensure_ascii=False), encoding="utf-8")
        merges = [m if isinstance(m, str) else " ".join(m) for m in told["model"]["merges"]]
        (old / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
        class_name = "Qwen3_5Tokenizer" if format == "qwen3_5" else "Qwen2Tokenizer"
        listed = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in told["added_tokens"]}
        settings = {"tokenizer_class": class_name, "added_tokens_decoder": listed}
        (old / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        first, second = Vocabulary.load(new), Vocabulary.load(old)
        assert first.fingerprint == second.fingerprint == tiny_vocabulary(format).fingerprint
        assert first.control_ids == second.control_ids
        assert all(first.encode(t) == second.encode(t) for t in TEXTS)
        # what still older folders have instead of the list
        names = {t["content"]: t["id"] for t in told["added_tokens"]}
        (old / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": class_name}))
        (old / "added_tokens.json").write_text(json.dumps(names))
        third = Vocabulary.load(old)
        assert all(first.encode(t) == third.encode(t) for t in TEXTS)
        assert third.fingerprint == first.fingerprint


def test_a_token_that_only_the_configuration_lists_is_added(tmp_path: Path) -> None:
    write_tiny("qwen3_5", tmp_path)
    size = tiny_vocabulary("qwen3_5").size
    told = json.loads((tmp_path / "tokenizer_config.json").read_text())
    told["added_tokens_decoder"] = {str(size): {"content": "<|later|>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    vocabulary = Vocabulary.load(tmp_path)
    assert vocabulary.id("<|later|>") == size
    assert size in vocabulary.control_ids
    told["added_tokens_decoder"] = {str(size + 7): {"content": "<|later|>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    with pytest.raises(VocabularyError, match=f"should have the id {size + 7} and gets {size}"):
        Vocabulary.load(tmp_path)


def test_the_fingerprint_is_the_same_in_another_process_and_tells_vocabularies_apart(tmp_path: Path) -> None:
    write_tiny("qwen3_vl", tmp_path)
    code = f"from specvet.chat import Vocabulary; print(Vocabulary.load({str(tmp_path)!r}).fingerprint)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == tiny_vocabulary("qwen3_vl").fingerprint
    assert len({tiny_vocabulary(f).fingerprint for f in ("qwen2_5_vl", "qwen3_vl", "qwen3_5")}) == 3
    more = tiny_tokenizer("qwen3_vl")
    more.add_tokens(["one more"])
    assert Vocabulary(more).fingerprint != other


def test_a_vocabulary_is_written_as_its_library_writes_it_and_a_folder_that_is_not_there_is_named(
    tmp_path: Path,
) -> None:
    tiny_tokenizer("qwen3_5").save(str(tmp_path / "theirs.json"))
    tiny_vocabulary("qwen3_5").save(tmp_path / "ours.json")
    ours = Vocabulary.load(tmp_path / "ours.json")
    assert ours.fingerprint == Vocabulary.load(tmp_path / "theirs.json").fingerprint
    with pytest.raises(OSError, match="No such file"):  # an OSError, as for a full disk, and not the library's own
        ours.save(tmp_path / "nowhere" / "tokenizer.json")


def test_what_a_file_says_of_truncation_and_padding_is_ignored(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer("qwen3_5")
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = Vocabulary.load(tmp_path / "tokenizer.json")
    assert vocabulary.decode(vocabulary.encode("longer than four")) == "longer than four"
    assert vocabulary.encode("A") == [65]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no tokenizer"),
        ({"tokenizer.json": "{"}, "not a tokenizer"),
        ({"vocab.json": "{", "merges.txt": ""}, "broken JSON"),
        ({"vocab.json": "{}", "merges.txt": "a b c\n"}, "no merge of two parts"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a b\n"}, "do not belong together"),
        ({"vocab.json": '{"a": 0}'}, "holds no tokenizer"),
    ],
)
def test_a_folder_without_a_whole_tokenizer_is_refused_with_its_reason(tmp_path: Path, files, said: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(VocabularyError, match=said):
        Vocabulary.load(tmp_path)
    with pytest.raises(VocabularyError, match="no such file"):
        Vocabulary.load(tmp_path / "nowhere")


def test_a_tokenizer_that_is_not_byte_level_is_refused() -> None:
    words = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(VocabularyError, match="byte-level"):
        Vocabulary(words)
    words.decoder = decoders.Metaspace()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(VocabularyError, match="byte-level"):
        Vocabulary(words)


def test_threads_and_processes_can_share_a_vocabulary() -> None:
    vocabulary = Vocabulary(tiny_tokenizer("qwen3_5"))
    wanted = [vocabulary.encode(t) for t in TEXTS]
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: [vocabulary.encode(t) for t in TEXTS], range(64)):
            assert got == wanted
        for got in pool.map(lambda _: [vocabulary.decode(ids) for ids in wanted], range(64)):
            assert got == [vocabulary.decode(ids) for ids in wanted]
    copied = pickle.loads(pickle.dumps(vocabulary))
    assert copied.fingerprint == vocabulary.fingerprint
    assert [copied.encode(t) for t in TEXTS] == wanted


# --- words that cannot act


@pytest.mark.parametrize("text", [*TEXTS, "5 <|x y|> 6", "a <| b |> c", "<|>", "‹|im_end|›", "if x<|y| and |y|>z"])
def test_normal_text_is_left_as_it_is(text: str) -> None:
    assert harmless(text) == text
    assert tiny_vocabulary("qwen3_5").harmless(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<|image_pad|><|im_end|>", "‹|image_pad|›‹|im_end|›"),
        ("<|not_in_any_vocabulary|>", "‹|not_in_any_vocabulary|›"),
        ("Hα</tool_response>", "Hα‹/tool_response›"),
        ("a\ud800b\ufdd0c", "a\ufffdb\ufffdc"),
        ("<<|im_end|>|im_end|>", "<‹|im_end|›|im_end|>"),
    ],
)
def test_control_tokens_and_protocol_tags_in_words_are_disarmed_visibly(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_protocol_tags_stay_where_they_are_explained() -> None:
    assert harmless("Put it in <tool_response> tags. <|im_end|>", tags=False) == (
        "Put it in <tool_response> tags. ‹|im_end|›"
    )


def test_control_tokens_of_other_forms_are_disarmed_too() -> None:
    tokenizer = tiny_tokenizer("qwen3_5")
    tokenizer.add_special_tokens(["[PAD]", "<s>"])
    vocabulary = Vocabulary(tokenizer)
    shown = vocabulary.harmless("a [PAD] <s> <tts_pad> b")
    assert shown == "a [‹PAD]› ‹s› ‹tts_pad› b"
    assert not vocabulary.control_ids & set(vocabulary.encode(shown))


FRAGMENTS = [
    *QWEN2_5_ADDED,
    *ORDINARY_TAGS,
    "<tts_pad>",
    "<",
    ">",
    "<|",
    "|>",
    "|",
    "im_end",
    "im_start",
    " ",
    "\n",
    "x",
]
FRAGMENTS += ["\u0338", "\u226e", "\u200b", "\ufdd0", "‹", "›", "\ud83d"]


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=150, deadline=None)
@example("<|<tool_response>|>")
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_no_text_yields_a_control_id_or_a_tool_response_once_it_is_harmless(format: str, text: str) -> None:
    vocabulary = tiny_vocabulary(format)
    shown = vocabulary.harmless(text)
    ids = vocabulary.encode(shown)
    assert not vocabulary.control_ids & set(ids)
    assert "tool_response>" not in shown
    assert vocabulary.harmless(shown) == shown
