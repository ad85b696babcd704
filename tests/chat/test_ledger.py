"""The ledger: append-only, one token a position, and a digest that stands for all that a model was shown."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger_lab import IDS, IMAGES, PAD, TEXTS, image, ledgers, patient, rendered

from specvet.chat import (
    ImageSegment,
    Ledger,
    LedgerError,
    SampledSegment,
    Segment,
    TextSegment,
    WordsSegment,
)
from specvet.chat.ledger import total_logprob


def small() -> Ledger:
    ledger = Ledger("lab", "vocabulary")
    ledger.append([TextSegment((1, 2), "user"), image(1, 2), TextSegment((3,), "frame")])
    ledger.append_sampled([4, 5, 6], [-0.5, -0.25, 0.0], "end")
    return ledger


@patient
@given(ledgers())
def test_every_position_has_one_token_also_those_of_pictures(ledger: Ledger) -> None:
    ids = ledger.ids()
    assert ids.dtype == np.int32
    assert ids.shape == (ledger.n_tokens,)
    assert len(ledger.ends) == len(ledger.digests) == len(ledger) + 1
    assert ledger.ends[0] == 0
    for segment, start, end in zip(ledger, ledger.ends, ledger.ends[1:], strict=False):
        assert end - start == segment.n_tokens
        if isinstance(segment, ImageSegment):
            assert segment.n_tokens == segment.rows * segment.columns
            assert (ids[start:end] == PAD).all()
        else:
            assert tuple(ids[start:end].tolist()) == segment.ids  # type: ignore[union-attr]
    assert ledger.n_sampled == sum(len(s.ids) for s in ledger.sampled)
    assert [s.sha256 for s in ledger.images] == [s.sha256 for s in ledger if isinstance(s, ImageSegment)]


@patient
@given(ledgers(), st.lists(TEXTS | IMAGES, min_size=1, max_size=3), st.data())
def test_a_branch_extends_what_it_was_forked_from_and_leaves_it_alone(
    ledger: Ledger, more: list[Segment], data: st.DataObject
) -> None:
    digest, n, ids = ledger.digest, len(ledger), ledger.ids().tolist()
    one, other = ledger.fork(), ledger.fork()
    assert one == ledger
    assert one.extends(ledger)
    assert ledger.extends(one)
    one.append_sampled([1, 2], [-1.0, -2.0], "end")
    one.append(more)
    other.append_sampled([1, 3], [-1.0, -2.0], "end")
    for branch in (one, other):
        assert branch.extends(ledger)
        assert not ledger.extends(branch)
        assert branch.digests[: n + 1] == ledger.digests
        assert branch.ids()[: len(ids)].tolist() == ids
    assert not one.extends(other)
    assert not other.extends(one)
    assert (ledger.digest, len(ledger), ledger.ids().tolist()) == (digest, n, ids)
    cut = data.draw(st.integers(0, len(one)))
    prefix = Ledger(ledger.format, ledger.vocabulary)
    prefix.append(one.segments[:cut])
    assert one.extends(prefix)
    assert prefix.digest == one.digests[cut]


def shown(ledger: Ledger) -> tuple[Any, ...]:
    """Everything that a digest stands for."""
    parts: list[Any] = [ledger.kind, ledger.format, ledger.vocabulary]
    for s in ledger:
        if isinstance(s, ImageSegment):
            parts.append(("image", s.role, s.sha256, s.width, s.height, s.rows, s.columns, s.pad_id))
        elif isinstance(s, WordsSegment):
            parts.append((s.role, s.text))
        else:
            parts.append(("sampled" if isinstance(s, SampledSegment) else s.role, s.ids))
    return tuple(parts)


def rebuilt(ledger: Ledger, segments: list[Segment]) -> Ledger:
    made = Ledger(ledger.format, ledger.vocabulary)
    made.append(segments)
    return made


@patient
@given(ledgers(max_turns=2, max_images=2), ledgers(max_turns=2, max_images=2))
def test_digests_are_equal_exactly_where_contents_are(one: Ledger, other: Ledger) -> None:
    assert (one.digest == other.digest) == (shown(one) == shown(other))
    assert one.digest == rebuilt(one, list(one)).digest


@patient
@given(ledgers(min_turns=1), st.data())
def test_any_change_of_what_a_model_was_shown_changes_the_digest(ledger: Ledger, data: st.DataObject) -> None:
    segments = list(ledger)
    i = data.draw(st.integers(0, len(segments) - 1))
    segment = segments[i]
    if isinstance(segment, ImageSegment):
        field = data.draw(st.sampled_from(("sha256", "width", "height", "rows", "columns", "pad_id", "role")))
        changes = {"sha256": "f" * 64, "role": "system"}
        change = {field: changes.get(field, 7_777)}
    elif isinstance(segment, TextSegment):
        change = data.draw(st.sampled_from([{"ids": (*segment.ids, 7)}, {"ids": segment.ids[1:]}, {"role": "nobody"}]))
    else:
        change = {"ids": (*segment.ids[:-1], 7_777)}
        segment = dataclasses.replace(segment, logprobs=None)  # type: ignore[arg-type]
    changed = [*segments[:i], dataclasses.replace(segment, **change), *segments[i + 1 :]]  # type: ignore[arg-type]
    assert rebuilt(ledger, changed).digest != ledger.digest
    assert Ledger("lab2", "vocabulary").digest != Ledger("lab", "vocabulary").digest
    assert Ledger("lab", "vocabulary2").digest != Ledger("lab", "vocabulary").digest


@patient
@given(ledgers(min_turns=1, logprobs=True))
def test_log_probs_and_stops_are_no_part_of_the_digest_but_of_equality(ledger: Ledger) -> None:
    def with_last(**change: Any) -> Ledger:
        i = max(i for i, s in enumerate(ledger) if isinstance(s, SampledSegment))
        segments = list(ledger)
        segments[i] = dataclasses.replace(segments[i], **change)  # type: ignore[type-var]
        return rebuilt(ledger, segments)

    last = ledger.sampled[-1]
    assert last.logprobs is not None
    for changed in (with_last(logprobs=None), with_last(stop="end" if last.stop == "length" else "length")):
        assert changed.digest == ledger.digest
        assert changed != ledger
        assert changed.extends(ledger)
    assert with_last() == ledger


def test_equality_goes_to_the_last_bit() -> None:
    def said(*logprobs: float) -> SampledSegment:
        return SampledSegment((1,) * len(logprobs), np.array(logprobs), "end")

    assert said(-0.5) == said(-0.5)
    assert hash(said(-0.5)) == hash(said(-0.25))
    assert said(-0.0) != said(0.0)
    assert said(-0.5) != SampledSegment((1,), None, "end")
    assert said(-0.5) != "said"
    assert Ledger("lab") != "lab"


def test_segments_split_otherwise_are_another_history() -> None:
    one, other = Ledger("lab"), Ledger("lab")
    one.append([TextSegment((1, 2), "user")])
    other.append([TextSegment((1,), "user"), TextSegment((2,), "user")])
    assert one.ids().tolist() == other.ids().tolist()
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("ids", "logprobs", "says"),
    [
        ([], [], "without tokens"),
        ([1, 2], [-1.0], r"shape \(1,\) for 2"),
        ([1], [[-1.0]], r"shape \(1, 1\) for 1"),
        ([1], [float("nan")], "not finite"),
        ([1], [-math.inf], "not finite"),
        ([1], [-1e300], "not finite"),
        ([1], [2.5], "above 0"),
        ([1], ["?"], "no numbers"),
        ([-1], [-1.0], "-1 lies outside"),
        ([2**31], [-1.0], "2147483648 lies outside"),
        ([1.5], [-1.0], "no whole number"),
        (["1"], [-1.0], "no whole number"),
    ],
)
def test_what_would_make_a_ledger_untrue_is_refused_and_leaves_it_as_it_was(ids: Any, logprobs: Any, says: str) -> None:
    ledger = small()
    before = ledger.to_dict()
    with pytest.raises(LedgerError, match=says):
        ledger.append_sampled(ids, logprobs, "end")
    assert ledger.to_dict() == before


def test_rounding_may_lift_a_log_prob_a_little_above_0() -> None:
    ledger = small()
    assert ledger.append_sampled([1], [1e-4], "end").logprobs == np.float32(1e-4)


@patient
@given(st.integers(0, 3).flatmap(rendered))
def test_all_segments_are_appended_or_none(segments: list[Segment]) -> None:
    ledger = small()
    before = ledger.digests
    for bad in (image(0, 3), WordsSegment("words", "user")):
        with pytest.raises(LedgerError):
            ledger.append([*segments, bad])
        assert ledger.digests == before
    ledger.append(segments)
    assert ledger.digests[: len(before)] == before


@patient
@given(IDS)
def test_ids_of_any_integer_type_become_pythons(ids: tuple[int, ...]) -> None:
    for given_ids in (list(ids), np.array(ids), np.array(ids, dtype=np.uint16)):
        for segment in (TextSegment(given_ids, "user"), SampledSegment(given_ids, None, "end")):  # type: ignore[arg-type]
            assert segment.ids == ids
            assert all(type(i) is int for i in segment.ids)


def test_nothing_in_a_ledger_can_be_changed() -> None:
    ledger = Ledger("lab")
    mine = np.array([-1.0, -2.0], dtype=np.float32)
    ids = [1, 2]
    ledger.append([TextSegment((9,), "user")])
    said = ledger.append_sampled(ids, mine, "end")
    mine[0] = -9.0
    ids[0] = 9
    assert said.ids == (1, 2)
    assert said.logprobs is not None
    assert said.logprobs.tolist() == [-1.0, -2.0]
    with pytest.raises(ValueError, match="read-only"):
        said.logprobs[0] = -9.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        said.logprobs.setflags(write=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        said.ids = (3,)  # type: ignore[misc]
    assert isinstance(ledger.segments, tuple)
    assert isinstance(ledger.digests, tuple)
    ledger.ids()[0] = 77
    assert ledger.ids().tolist() == [9, 1, 2]
    own = SampledSegment((1,), np.zeros(1, dtype=np.float32), "end")  # made elsewhere, fixed all the same
    assert own.logprobs is not None
    assert not own.logprobs.flags.writeable


def test_a_ledger_that_grows_is_no_key_but_its_digest_is() -> None:
    ledger = small()
    with pytest.raises(TypeError, match="unhashable"):
        hash(ledger)
    assert hash(ledger.digest) == hash(small().digest)


def test_what_can_be_trained_on_says_so() -> None:
    ledger = small()
    assert ledger.trainable
    assert repr(ledger) == "<Ledger lab: 8 tokens, 3 sampled, 1 images>"
    ledger.append_sampled([1], None, "end")
    assert not ledger.trainable
    assert not Ledger("lab").trainable


def test_a_ledger_of_words_says_what_it_lacks() -> None:
    ledger = Ledger.of_text("openai")
    ledger.append([WordsSegment("Is it?", "user"), image(0, 0), WordsSegment("No.", "assistant")])
    assert (ledger.kind, ledger.n_tokens, ledger.trainable) == ("text", 0, False)
    assert repr(ledger) == "<Ledger openai, text only: 3 segments, 1 images>"
    with pytest.raises(LedgerError, match="words only"):
        ledger.ids()
    with pytest.raises(LedgerError, match="no place"):
        ledger.append([TextSegment((1,), "user")])
    with pytest.raises(LedgerError, match="no place"):
        ledger.append_sampled([1], [-1.0], "end")


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("Hα 🌟", "Hα 🌟"),
        ("a\ud83db", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("x\ud83c\udf1f", "x🌟"),  # two halves that belong together
        ("x\ud83d", "x\ufffd"),
    ],
)
def test_words_hold_no_half_characters(given_text: str, kept: str) -> None:
    segment = WordsSegment(given_text, "assistant")
    assert segment.text == kept
    segment.text.encode()


@patient
@given(ledgers(logprobs=True))
def test_the_total_log_prob_is_that_of_all_sampled_tokens(ledger: Ledger) -> None:
    expected = math.fsum(float(x) for s in ledger.sampled if s.logprobs is not None for x in s.logprobs)
    assert total_logprob(ledger) == expected
    ledger.append_sampled([1], None, "end")
    assert math.isnan(total_logprob(ledger))
