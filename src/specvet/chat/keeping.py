"""Segments as JSON knows them, and back; and what a transcript needs of them, without the tokenizer.

One segment is one of

    {"role": "user", "ids": […]}                                text that the program rendered
    {"sampled": […], "logprobs": […] | null, "stop": "end"}     a turn of the model
    {"image": {"sha256": …, "rows": …, …}}                      a picture
    {"role": "assistant", "text": "…"}                          words of a text-only ledger

A segment of ids that was kept with its vocabulary also has `lengths`, the bytes of each token, and those bytes joined:
as `text` where they are UTF-8 (a single token need not be: `pieces` cuts it in bytes), else as `base64`.
"""

from __future__ import annotations

import base64
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specvet.chat.segments import (
    STOPS,
    ImageSegment,
    LedgerError,
    SampledSegment,
    Segment,
    TextRole,
    TextSegment,
    WordsSegment,
)
from specvet.chat.vocabulary import Vocabulary

_ROLES = ("system", "user", "tool", "harness", "frame")
_IMAGE = ("role", "sha256", "width", "height", "rows", "columns", "pad_id")


@dataclass(frozen=True, slots=True)
class Part:
    """One segment of a transcript."""

    role: TextRole | Literal["assistant"]
    text: str
    """Its words; bytes that are no UTF-8 show as U+FFFD. Empty for a picture."""
    pieces: tuple[bytes, ...] = ()
    """The bytes of each token; they may cut a character. Empty for words and pictures."""
    ids: tuple[int, ...] = ()
    weight: float = 0.0
    """Of each of its tokens: 1 where the model said it, else 0."""
    logprobs: tuple[float, ...] | None = None
    """Of each of its tokens, where it was sampled."""
    image: ImageSegment | None = None


def segment_dict(segment: Segment, vocabulary: Vocabulary | None = None) -> dict[str, Any]:
    """The segment as JSON knows it; with the bytes of its tokens where a vocabulary is given."""
    match segment:
        case TextSegment():
            return {"role": segment.role, "ids": list(segment.ids), **_words_again(segment.ids, vocabulary)}
        case WordsSegment():
            return {"role": segment.role, "text": segment.text}
        case ImageSegment():
            return {"image": {name: getattr(segment, name) for name in _IMAGE}}
        case SampledSegment():
            logprobs = None if segment.logprobs is None else _short(segment.logprobs)
            kept = {"sampled": list(segment.ids), "logprobs": logprobs, "stop": segment.stop}
            return {**kept, **_words(segment.ids, vocabulary)}


def segment_of(entry: Mapping[str, Any]) -> Segment:
    """The segment that `segment_dict` gave. Raises LedgerError for what is none."""
    try:
        if "image" in entry:
            image = {name: entry["image"][name] for name in _IMAGE}
            if not all(type(image[name]) is int for name in _IMAGE[2:]):
                raise LedgerError("a picture whose sizes are no whole numbers")
            if not isinstance(image["sha256"], str) or not image["sha256"].isascii():
                raise LedgerError("a picture without its hash")
            return ImageSegment(**{**image, "role": _one_of(image["role"], _ROLES)})
        if "sampled" in entry:
            return SampledSegment(entry["sampled"], entry["logprobs"], _one_of(entry["stop"], STOPS))
        if "ids" in entry:
            return TextSegment(entry["ids"], _one_of(entry["role"], _ROLES))
        return WordsSegment(entry["text"], _one_of(entry["role"], (*_ROLES, "assistant")))
    except (KeyError, TypeError, AttributeError) as e:
        raise LedgerError(f"a kept segment that cannot be read: {type(e).__name__}: {e}") from e


def pieces(entry: Mapping[str, Any]) -> list[bytes]:
    """The bytes of each token of a kept segment, in order; a piece may be a part of a character.

    `entry` is one of `Ledger.to_dict(vocabulary)["segments"]`. Joined, the pieces are the segment's text exactly. Empty
    for a picture and for words. Raises LedgerError for a segment of ids that was kept without its vocabulary.
    """
    data, lengths = _kept_bytes(entry)
    ends = [0, *accumulate(lengths)]
    return [data[start:end] for start, end in pairwise(ends)]


def joined(entry: Mapping[str, Any]) -> bytes:
    """All of `pieces` together: what a kept segment of ids says. Raises as it."""
    return _kept_bytes(entry)[0]


def _kept_bytes(entry: Mapping[str, Any]) -> tuple[bytes, Sequence[int]]:
    """The bytes of a kept segment, and how many each of its tokens has."""
    ids = entry.get("sampled", entry.get("ids"))
    if ids is None:
        return b"", ()
    if "lengths" not in entry:
        raise LedgerError("this ledger was kept without the texts of its tokens; only its vocabulary can show them")
    try:
        data = base64.b64decode(entry["base64"], validate=True) if "base64" in entry else entry["text"].encode()
        lengths = list(map(operator.index, entry["lengths"]))
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise LedgerError(f"texts of tokens that cannot be read: {type(e).__name__}: {e}") from e
    if len(lengths) != len(ids) or sum(lengths) != len(data) or min(lengths, default=0) < 0:
        told = f"{len(lengths)} lengths of {sum(lengths)} bytes"
        raise LedgerError(f"{len(ids)} tokens with {told}, {len(data)} bytes kept")
    return data, lengths


def transcript(kept: Mapping[str, Any]) -> tuple[Part, ...]:
    """What was said, segment by segment, from `Ledger.to_dict(vocabulary)`. Raises LedgerError as `pieces`."""
    if not isinstance(entries := kept.get("segments"), list | tuple):
        raise LedgerError(f"the segments of a kept ledger are a {type(entries).__name__}, not a list")
    return tuple(_part(segment_of(entry), pieces(entry)) for entry in entries)


def _part(segment: Segment, cut: Sequence[bytes]) -> Part:
    text = b"".join(cut).decode("utf-8", "replace")
    match segment:
        case TextSegment():
            return Part(segment.role, text, tuple(cut), segment.ids)
        case WordsSegment():
            return Part(segment.role, segment.text)
        case ImageSegment():
            return Part(segment.role, "", image=segment)
        case SampledSegment():
            logprobs = None if segment.logprobs is None else tuple(segment.logprobs.tolist())
            return Part("assistant", text, tuple(cut), segment.ids, 1.0, logprobs)


def _words(ids: Sequence[int], vocabulary: Vocabulary | None) -> dict[str, Any]:
    if vocabulary is None:
        return {}
    cut = [vocabulary.token_bytes(i) for i in ids]
    data = b"".join(cut)
    try:
        words = {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        words = {"base64": base64.b64encode(data).decode("ascii")}
    return {**words, "lengths": [len(c) for c in cut]}


@lru_cache(4_096)
def _words_again(ids: tuple[int, ...], vocabulary: Vocabulary | None) -> dict[str, Any]:
    """As `_words`, of what the program writes: the same again in every trajectory, or in those of a group."""
    return _words(ids, vocabulary)


def _short(logprobs: NDArray[np.float32]) -> list[float]:
    """The shortest decimals that give the same float32, bit for bit: half of what their doubles take in JSON."""
    exact = logprobs.astype(np.float64)
    short = logprobs.astype(np.str_).astype(np.float64)
    # Through a double, the shortest decimal of a float32 could in principle round to its neighbour.
    same = short.astype(np.float32).view(np.int32) == logprobs.view(np.int32)
    values: list[float] = np.where(same, short, exact).tolist()
    return values


def _one_of(word: Any, known: Sequence[str]) -> Any:
    if word not in known:
        raise LedgerError(f"{word!r} where one of {', '.join(known)} is expected")
    return word
