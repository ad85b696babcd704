"""Ledgers are kept as JSON and read back bit for bit; transcripts need no tokenizer."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import numpy as np
import pytest
from conversation_lab import FORMATS, conversations
from hypothesis import given
from hypothesis import strategies as st
from ledger_lab import IDS, LOGPROB, image, ledgers, patient

from specvet.chat import Image, ImageSegment, Ledger, LedgerError, Message, SampledSegment, TextSegment, WordsSegment
from specvet.chat.datum import rl_datum
from specvet.chat.formats import chat_format, ledger_of
from specvet.chat.keeping import segment_dict
from specvet.chat.ledger import pieces, transcript
from specvet.chat.tiny import tiny_vocabulary
from specvet.views.png import encode_png

VOCABULARY = tiny_vocabulary("qwen3_5")


def through_json(kept: Any) -> Any:
    """As a file holds it: UTF-8, without NaN."""
    return json.loads(json.dumps(kept, ensure_ascii=False, allow_nan=False).encode())


@patient
@given(ledgers(), st.booleans())
def test_a_ledger_reads_back_as_it_was(ledger: Ledger, with_text: bool) -> None:
    kept = through_json(ledger.to_dict(VOCABULARY if with_text else None))
    read = Ledger.from_dict(kept)
    assert read == ledger
    assert read.digests == ledger.digests
    assert read.ends == ledger.ends
    assert read.ids().tolist() == ledger.ids().tolist()
    assert read.to_dict() == ledger.to_dict()
    for one, other in zip(read.sampled, ledger.sampled, strict=True):
        assert (one.logprobs is None) == (other.logprobs is None)
        if one.logprobs is not None and other.logprobs is not None:
            assert one.logprobs.tobytes() == other.logprobs.tobytes()
            assert not one.logprobs.flags.writeable


@patient
@given(st.lists(LOGPROB, min_size=1, max_size=50))
def test_log_probs_are_kept_to_the_bit_also_zeros_and_denormals(values: list[float]) -> None:
    exact = np.array(values, dtype=np.float32)
    kept = through_json(segment_dict(SampledSegment((1,) * len(values), exact, "end")))
    assert np.array(kept["logprobs"], dtype=np.float32).tobytes() == exact.tobytes()


def test_all_orders_of_magnitude_are_kept_to_the_bit() -> None:
    bits = np.random.default_rng(0).integers(0x80000000, 0xFF800000, 50_000, dtype=np.uint32)
    exact = bits.view(np.float32)
    kept = through_json(segment_dict(SampledSegment((1,) * exact.size, exact, "end")))
    assert np.array(kept["logprobs"], dtype=np.float32).view(np.uint32).tolist() == bits.tolist()


def test_log_probs_are_kept_as_the_shortest_decimals() -> None:
    kept = segment_dict(SampledSegment((1, 2, 3), np.array([-0.1, -0.0, -1.4e-45]), "end"))
    assert json.dumps(kept["logprobs"]) == "[-0.1, -0.0, -1e-45]"


@patient
@given(st.sampled_from(FORMATS), conversations())
def test_a_real_conversation_reads_back_and_its_transcript_is_the_rendered_text(
    name: str, messages: list[Message]
) -> None:
    format = chat_format(name, tiny_vocabulary(name))
    ledger = ledger_of(messages, [], format)
    kept = through_json(ledger.to_dict(format.vocabulary))
    assert Ledger.from_dict(kept) == ledger
    parts = transcript(kept)
    assert parts == ledger.transcript(format.vocabulary)
    whole = b"".join(b"".join(p.pieces) if p.image is None else b"<|image_pad|>" for p in parts)
    ids = [
        i
        for segment in ledger
        for i in ([format.vocabulary.need("<|image_pad|>")] if hasattr(segment, "sha256") else segment.ids)  # type: ignore[union-attr]
    ]
    assert whole == format.vocabulary.bytes(ids)
    assert [p.image.sha256 for p in parts if p.image] == [i.sha256 for m in messages for i in m.images]


@patient
@given(IDS, st.booleans())
def test_pieces_are_the_exact_bytes_of_each_token(ids: tuple[int, ...], sampled: bool) -> None:
    segment = SampledSegment(ids, None, "end") if sampled else TextSegment(ids, "user")
    kept = through_json(segment_dict(segment, VOCABULARY))
    assert pieces(kept) == [VOCABULARY.token_bytes(i) for i in ids]
    assert ("text" in kept) != ("base64" in kept)


def test_text_is_kept_as_text_where_it_is_text_also_across_tokens() -> None:
    star = "🌟".encode()
    kept = segment_dict(TextSegment(tuple(star), "user"), VOCABULARY)  # four tokens, one character
    assert kept == {"role": "user", "ids": list(star), "text": "🌟", "lengths": [1, 1, 1, 1]}
    assert pieces(kept) == [bytes([b]) for b in star]
    kept = segment_dict(TextSegment(tuple(star[:3]), "user"), VOCABULARY)
    assert kept == {"role": "user", "ids": list(star[:3]), "base64": "8J+M", "lengths": [1, 1, 1]}
    assert b"".join(pieces(kept)) == star[:3]


def test_pictures_and_words_have_no_pieces() -> None:
    assert pieces(segment_dict(image(), VOCABULARY)) == []
    assert pieces(segment_dict(WordsSegment("No.", "assistant"), VOCABULARY)) == []


def test_pieces_that_were_not_kept_or_do_not_fit_are_told() -> None:
    with pytest.raises(LedgerError, match="without the texts"):
        pieces(segment_dict(TextSegment((65, 66), "user")))
    kept = segment_dict(TextSegment((65, 66), "user"), VOCABULARY)
    for lengths in ([1], [1, 1, 0], [1, 2]):
        with pytest.raises(LedgerError, match="2 tokens with"):
            pieces({**kept, "lengths": lengths})


def test_a_transcript_tells_role_text_weight_and_log_prob_of_each_token() -> None:
    ledger = Ledger("lab")
    ledger.append([TextSegment(tuple(b"Is it?"), "user"), image(1, 2), TextSegment((0xCE,), "frame")])
    ledger.append_sampled([0xB1, 65], [-0.5, -0.25], "length")
    ledger.append_sampled([66], None, "end")
    question, picture, frame, said, shown = ledger.transcript(VOCABULARY)
    assert (question.role, question.text, question.weight, question.logprobs) == ("user", "Is it?", 0.0, None)
    assert question.pieces == tuple(bytes([b]) for b in b"Is it?")
    assert picture.image == image(1, 2)
    assert (picture.role, picture.text, picture.ids) == ("user", "", ())
    assert (frame.text, frame.pieces) == ("\ufffd", (b"\xce",))
    assert (said.role, said.text, said.ids, said.weight) == ("assistant", "\ufffdA", (0xB1, 65), 1.0)
    assert said.logprobs == (-0.5, -0.25)
    assert (shown.role, shown.weight, shown.logprobs) == ("assistant", 1.0, None)


def test_a_ledger_of_words_reads_back_and_shows_its_words() -> None:
    ledger = Ledger.of_text("openai")
    ledger.append([WordsSegment("Hα?\ud800", "user"), image(0, 0), WordsSegment("No.", "assistant")])
    kept = through_json(ledger.to_dict())
    assert Ledger.from_dict(kept) == ledger
    assert [(p.role, p.text) for p in transcript(kept)] == [("user", "Hα?\ufffd"), ("user", ""), ("assistant", "No.")]


def test_pictures_are_put_back_by_their_hash() -> None:
    ledger = Ledger("lab")
    ledger.append([image(seed=1), image(seed=2)])
    kept = through_json(ledger.to_dict())
    sha256 = ledger.images[0].sha256
    read = Ledger.from_dict(kept, {sha256: Image(b"pixels", 84, 56, sha256)})
    assert [s.png for s in read.images] == [b"pixels", None]
    assert read == ledger


TOKENS = {"version": 1, "kind": "tokens", "format": "lab", "vocabulary": ""}
PICTURE = segment_dict(image())["image"]


@pytest.mark.parametrize(
    "kept",
    [
        None,
        [],
        {},
        {**TOKENS, "version": 2, "segments": []},
        {**TOKENS, "kind": "sounds", "segments": []},
        {"version": 1, "kind": "tokens", "vocabulary": "", "segments": []},
        TOKENS,
        {**TOKENS, "segments": [{}]},
        {**TOKENS, "segments": [None]},
        {**TOKENS, "segments": 3},
        {**TOKENS, "segments": [{"role": "user", "text": "words in a ledger of tokens"}]},
        {**TOKENS, "segments": [{"role": "nobody", "ids": [1]}]},
        {**TOKENS, "segments": [{"role": "user", "ids": ["1"]}]},
        {**TOKENS, "segments": [{"role": "user", "ids": 1}]},
        {**TOKENS, "segments": [{"sampled": [1], "stop": "end"}]},
        {**TOKENS, "segments": [{"sampled": [1], "logprobs": None, "stop": "bored"}]},
        {**TOKENS, "segments": [{"sampled": [1], "logprobs": [-1.0, -2.0], "stop": "end"}]},
        {**TOKENS, "segments": [{"sampled": [], "logprobs": [], "stop": "end"}]},
        {**TOKENS, "segments": [{"image": {**PICTURE, "rows": 0}}]},
        {**TOKENS, "segments": [{"image": {**PICTURE, "rows": "2"}}]},
        {**TOKENS, "segments": [{"image": {"sha256": PICTURE["sha256"]}}]},
    ],
)
def test_what_is_no_kept_ledger_is_refused(kept: Any) -> None:
    with pytest.raises(LedgerError):
        Ledger.from_dict(kept)


HOSTILE = [None, True, -1, 10**30, 2**31, 1.5, float("nan"), float("inf"), "\ud800", "x", [], {}, [None], ["1"], [[1]]]


def places(kept: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a kept ledger, numbers of a list by its first."""
    if isinstance(kept, dict):
        return [path, *(p for k, v in kept.items() for p in places(v, (*path, k)))]
    if isinstance(kept, list) and kept and isinstance(kept[0], dict):
        return [path, *(p for i, v in enumerate(kept) for p in places(v, (*path, i)))]
    return [path]


def test_whatever_is_changed_in_a_kept_ledger_it_reads_back_usable_or_raises_ledger_error() -> None:
    ledger = Ledger("qwen3_5", VOCABULARY.fingerprint)
    ledger.append([TextSegment((1, 2), "user"), image(), TextSegment((3,), "frame")])
    ledger.append_sampled([4, 5], [-0.1, -0.2], "end")
    kept = through_json(ledger.to_dict(VOCABULARY))
    for path in places(kept)[1:]:
        for value in HOSTILE:
            changed = copy.deepcopy(kept)
            at = changed
            for part in path[:-1]:
                at = at[part]
            at[path[-1]] = value
            with contextlib.suppress(LedgerError):
                read = Ledger.from_dict(changed)
                assert read.ids().size == read.n_tokens
                rl_datum(read, 1.0)
                assert Ledger.from_dict(through_json(read.to_dict())) == read
            with contextlib.suppress(LedgerError):
                transcript(changed)


def test_pieces_that_cannot_be_read_are_ledger_errors() -> None:
    kept = segment_dict(TextSegment((65, 66), "user"), VOCABULARY)
    for change in ({"lengths": [3, -1]}, {"lengths": 5}, {"lengths": ["1", "1"]}, {"text": None}, {"base64": "!"}):
        with pytest.raises(LedgerError):
            pieces({**kept, **change})


def test_a_picture_put_back_must_be_the_one_that_was_shown() -> None:
    shown, other = (Image.of(encode_png(np.full((28, 28, 3), c, np.uint8))) for c in (1, 2))
    segment = ImageSegment(shown.sha256, 28, 28, 1, 1, 9, "user", shown.png)
    ledger = Ledger("qwen3_5")
    ledger.append([segment])
    read = Ledger.from_dict(ledger.to_dict(), {shown.sha256: shown})
    assert read.images[0].png == shown.png
    with pytest.raises(LedgerError, match="is another one"):
        Ledger.from_dict(ledger.to_dict(), {shown.sha256: other})
