"""Datums: shifted by one, weight on what a model said and on nothing else, whatever the conversation."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
from conversation_lab import FORMATS, TOOL, conversations, picture
from hypothesis import given
from hypothesis import strategies as st
from ledger_lab import PAD, TEXTS, image, ledgers, patient, rendered

from specvet.chat import (
    IGNORED,
    Datum,
    ImageSegment,
    Ledger,
    LedgerError,
    Message,
    SampledSegment,
    Segment,
    TextSegment,
    ToolCall,
    WordsSegment,
    rl_datum,
    sft_datum,
)
from specvet.chat.formats import chat_format, ledger_of
from specvet.chat.messages import assistant, system, tool, user
from specvet.chat.tiny import tiny_vocabulary

ADVANTAGE = st.floats(-5, 5, width=32)


def flat(chunks: Sequence[tuple[int, ...] | ImageSegment]) -> list[int]:
    """A model's input, one id a position."""
    return [i for c in chunks for i in ([c.pad_id] * c.n_tokens if isinstance(c, ImageSegment) else c)]


def said(ledger: Ledger) -> dict[int, tuple[int, float | None]]:
    """Position of each sampled token in the ledger: its id and log-prob."""
    found = {}
    for start, segment in zip(ledger.ends, ledger, strict=False):
        if isinstance(segment, SampledSegment):
            for i, token in enumerate(segment.ids):
                found[start + i] = (token, None if segment.logprobs is None else float(segment.logprobs[i]))
    return found


def same(one: Datum, other: Datum) -> bool:
    arrays = ("targets", "weights", "logprobs", "advantages")
    return one.chunks == other.chunks and all(
        np.array_equal(getattr(one, a), getattr(other, a)) if getattr(one, a) is not None else getattr(other, a) is None
        for a in arrays
    )


@patient
@given(ledgers(min_turns=1))
def test_each_position_predicts_the_next_token_where_it_was_said_and_nothing_elsewhere(ledger: Ledger) -> None:
    datum = sft_datum(ledger)
    ids, spoken = ledger.ids().tolist(), said(ledger)
    n = max(spoken) + 1  # what follows the last sampled token is left out
    assert datum.n_tokens == n - 1
    assert flat(datum.chunks) == ids[: n - 1]
    for array in (datum.targets, datum.weights):
        assert array.shape == (n - 1,)
    for i in range(n - 1):
        learnt = i + 1 in spoken
        assert datum.weights[i] == learnt
        assert datum.targets[i] == (ids[i + 1] if learnt else IGNORED)
    assert datum.n_learnt == ledger.n_sampled == len(spoken)
    assert datum.logprobs is None
    assert datum.advantages is None
    assert (datum.targets.dtype, datum.weights.dtype) == (np.int32, np.float32)


@patient
@given(ledgers(min_turns=1), ADVANTAGE)
def test_pictures_stand_whole_and_in_order_between_texts(ledger: Ledger, advantage: float) -> None:
    datum = sft_datum(ledger)
    last = max(i for i, s in enumerate(ledger) if isinstance(s, SampledSegment))
    assert datum.images == tuple(s for s in ledger.segments[:last] if isinstance(s, ImageSegment))
    assert all(c.png == b"png" for c in datum.images)
    for one, other in zip(datum.chunks, datum.chunks[1:], strict=False):
        assert isinstance(one, ImageSegment) or isinstance(other, ImageSegment)
    assert all(c for c in datum.chunks if isinstance(c, tuple))


@patient
@given(ledgers(min_turns=1, logprobs=True), ADVANTAGE)
def test_log_probs_and_the_advantage_stand_on_sampled_tokens_only(ledger: Ledger, advantage: float) -> None:
    datum = rl_datum(ledger, advantage)
    demonstration = sft_datum(ledger)
    assert np.array_equal(datum.targets, demonstration.targets)
    assert np.array_equal(datum.weights, demonstration.weights)
    assert datum.logprobs is not None
    assert datum.advantages is not None
    assert datum.logprobs.dtype == datum.advantages.dtype == np.float32
    spoken = said(ledger)
    for i in range(datum.n_tokens):
        logprob = spoken[i + 1][1] if i + 1 in spoken else 0.0
        assert datum.logprobs[i] == logprob
        assert datum.advantages[i] == (np.float32(advantage) if i + 1 in spoken else 0)
        assert not (i + 1 not in spoken and np.signbit(datum.advantages[i]))
    assert np.count_nonzero(datum.advantages) == (len(spoken) if advantage else 0)


@patient
@given(ledgers(min_turns=1, logprobs=True), st.integers(0, 3).flatmap(rendered))
def test_a_trailing_observation_is_left_out(ledger: Ledger, trailing: list[Segment]) -> None:
    before = rl_datum(ledger, 0.5)
    ledger.append(trailing)
    assert same(rl_datum(ledger, 0.5), before)


@patient
@given(ledgers(min_turns=1))
def test_nothing_in_a_datum_can_be_changed(ledger: Ledger) -> None:
    datum = sft_datum(ledger)
    if ledger.trainable:
        datum = rl_datum(ledger, 1.0)
    for array in (datum.targets, datum.weights, datum.logprobs, datum.advantages):
        if array is not None:
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0
    assert isinstance(datum.chunks, tuple)


def test_a_small_datum_is_what_one_writes_down_by_hand() -> None:
    ledger = Ledger("lab")
    ledger.append([TextSegment((1, 2), "user"), image(1, 2), TextSegment((3,), "frame")])
    ledger.append_sampled([10, 11], [-0.5, -0.25], "end")
    ledger.append([TextSegment((4, 5), "tool")])
    ledger.append_sampled([12], [-1.0], "length")
    ledger.append([TextSegment((6,), "frame")])
    datum = rl_datum(ledger, -2.0)
    assert datum.chunks == ((1, 2), image(1, 2), (3, 10, 11, 4, 5))
    assert datum.targets.tolist() == [IGNORED] * 4 + [10, 11, IGNORED, IGNORED, 12]
    assert datum.weights.tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 1]
    assert datum.logprobs is not None
    assert datum.advantages is not None
    assert datum.logprobs.tolist() == [0, 0, 0, 0, -0.5, -0.25, 0, 0, -1]
    assert datum.advantages.tolist() == [0, 0, 0, 0, -2, -2, 0, 0, -2]


def test_a_picture_may_stand_right_before_a_turn_or_be_all_of_the_prompt() -> None:
    ledger = Ledger("lab")
    ledger.append([image(1, 2)])
    ledger.append_sampled([10], None, "end")
    datum = sft_datum(ledger)
    assert datum.chunks == (image(1, 2),)
    assert datum.targets.tolist() == [IGNORED, 10]


@pytest.mark.parametrize(
    ("segments", "says"),
    [
        ([], "nothing in this ledger was sampled"),
        ([TextSegment((1,), "user"), image()], "nothing in this ledger was sampled"),
        ([SampledSegment((1,), np.zeros(1, np.float32), "end")], "first token of a ledger was sampled"),
        (
            [TextSegment((1,), "user"), image(), SampledSegment((1, PAD), np.zeros(2, np.float32), "end")],
            "the id that stands for pictures",
        ),
    ],
)
def test_what_nothing_can_be_learnt_from_is_refused(segments: list[Segment], says: str) -> None:
    ledger = Ledger("lab")
    ledger.append(segments)
    with pytest.raises(LedgerError, match=says):
        sft_datum(ledger)
    with pytest.raises(LedgerError, match=says):
        rl_datum(ledger, 1.0)


def test_words_and_turns_without_log_probs_give_no_gradient() -> None:
    words = Ledger.of_text("openai")
    words.append([WordsSegment("Is it?", "user"), WordsSegment("No.", "assistant")])
    for made in (sft_datum, lambda ledger: rl_datum(ledger, 1.0)):
        with pytest.raises(LedgerError, match="words only"):
            made(words)
    shown = Ledger("lab")
    shown.append([TextSegment((1,), "user")])
    shown.append_sampled([2], [-1.0], "end")
    shown.append_sampled([3], None, "end")
    assert sft_datum(shown).n_learnt == 2
    with pytest.raises(LedgerError, match="no log-probs"):
        rl_datum(shown, 1.0)


@pytest.mark.parametrize("advantage", [float("nan"), float("inf"), -float("inf"), 1e39])
def test_an_advantage_must_be_finite_also_as_float32(advantage: float) -> None:
    ledger = Ledger("lab")
    ledger.append([TextSegment((1,), "user")])
    ledger.append_sampled([2], [-1.0], "end")
    with pytest.raises(LedgerError, match="finite"):
        rl_datum(ledger, advantage)


# --- through the real formats


@patient
@given(st.sampled_from(FORMATS), conversations(), st.booleans())
def test_a_demonstration_teaches_exactly_the_assistants_tokens_ends_included(
    name: str, messages: list[Message], tools: bool
) -> None:
    format = chat_format(name, tiny_vocabulary(name))
    offered = [TOOL] if tools else []
    ledger = ledger_of(messages, offered, format)
    turns = [m for m in messages if m.role == "assistant"]
    if not turns:
        with pytest.raises(LedgerError):
            sft_datum(ledger)
        return
    datum = sft_datum(ledger)
    text, spans = format.learnt(messages, offered)
    learnt = datum.targets[datum.weights == 1].tolist()
    expected = "".join(text[start:end] for start, end in spans)
    assert format.vocabulary.decode(learnt) == unicodedata.normalize("NFC", expected)
    assert learnt.count(format.stop_ids[0]) == len(turns) == len(spans)
    for start, segment in zip(ledger.ends, ledger, strict=False):
        if isinstance(segment, SampledSegment):  # the end token is learnt, the line after it is not
            end = start + segment.n_tokens
            assert segment.ids[-1] == format.stop_ids[0]
            assert datum.weights[start - 1 : end - 1].all()
            assert not datum.weights[end - 1 : end].any()
    last = max(i for i, m in enumerate(messages) if m.role == "assistant")
    assert [i.sha256 for i in datum.images] == [i.sha256 for m in messages[:last] for i in m.images]
    assert len(datum.images) <= 6
    pad = format.vocabulary.need("<|image_pad|>")
    assert flat(datum.chunks).count(pad) == sum(i.n_tokens for i in datum.images)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("ending", ["end", "other end", "no end"])
def test_separators_that_the_program_inserts_carry_neither_weight_nor_advantage(name: str, ending: str) -> None:
    format = chat_format(name, tiny_vocabulary(name))
    call = format.demonstration(assistant("", "look", [ToolCall("look", {"window": [6400, 6700]})]))
    answer = format.demonstration(assistant(r"<answer>\boxed{NO} so</answer>", "narrow"))
    said_first = {"end": call, "other end": [*call[:-1], format.stop_ids[1]], "no end": call[:-1]}[ending]
    ledger = format.new_ledger()
    ledger.append(format.opening([system("Be brief."), user(picture(), "Is it?")], [TOOL]))
    ledger.append_sampled(said_first, np.full(len(said_first), -0.5), "length" if ending == "no end" else "end")
    before = ledger.n_tokens
    ledger.append(format.observation(ledger, tool(picture(448, 224, 1), "A window.")))
    after = ledger.n_tokens
    ledger.append_sampled(answer, np.full(len(answer), -0.25), "end")
    datum = rl_datum(ledger, 1.5)
    assert datum.advantages is not None
    inserted = ledger.ids()[before:after].tolist()
    closing = format.vocabulary.encode("\n" if ending == "end" else "<|im_end|>\n")
    assert inserted[: len(closing)] == closing
    assert not datum.weights[before - 1 : after - 1].any()
    assert not datum.advantages[before - 1 : after - 1].any()
    assert datum.n_learnt == np.count_nonzero(datum.advantages) == len(said_first) + len(answer)
    assert datum.targets[before - 2] == said_first[-1]
    assert datum.targets[-1] == format.stop_ids[0]
    assert len(datum.images) == 2


@patient
@given(st.sampled_from(FORMATS), conversations(max_turns=3))
def test_branches_of_a_question_share_their_prompt_and_learn_only_their_own_turns(
    name: str, messages: list[Message]
) -> None:
    format = chat_format(name, tiny_vocabulary(name))
    trunk = ledger_of([*messages, user("And?")] if messages[-1].role == "assistant" else messages, [TOOL], format)
    one, other = trunk.fork(), trunk.fork()
    yes = format.demonstration(assistant(r"<answer>\boxed{YES} so</answer>", "wide"))
    no = format.demonstration(assistant(r"<answer>\boxed{NO} so</answer>", "narrow"))
    one.append_sampled(yes, None, "end")
    other.append_sampled(no, None, "end")
    assert one.extends(trunk)
    assert other.extends(trunk)
    first, second = sft_datum(one), sft_datum(other)
    shared = trunk.n_tokens
    assert flat(first.chunks)[:shared] == flat(second.chunks)[:shared] == trunk.ids().tolist()
    assert np.array_equal(first.targets[: shared - 1], second.targets[: shared - 1])
    assert first.targets[shared - 1 :].tolist() == yes
    assert second.targets[shared - 1 :].tolist() == no


@patient
@given(ledgers(min_turns=1), TEXTS)
def test_an_empty_text_changes_no_datum(ledger: Ledger, text: TextSegment) -> None:
    padded = Ledger(ledger.format, ledger.vocabulary)
    for segment in ledger:
        padded.append([TextSegment((), text.role), segment])
    assert same(sft_datum(padded), sft_datum(ledger))
