"""The ledger: the token record of one trajectory, append-only, from rollout to gradient.

    system, user      text ids that the program rendered
    frame             text ids of role headers, separators and the prefix that opens a turn
    image             one picture with its exact number of tokens
    sampled           ids that a model produced, with the log-prob of each
    tool              text ids of an observation
    harness           text ids that the program puts into a turn beside them (a notice)

A turn's prompt is the ledger as it stands; what a model samples is appended as the ids it sampled and is never decoded
and encoded again. Segments are immutable and shared by the branches of a question (`fork`). Each prefix has a digest,
so whoever keeps something computed from a prefix (a KV cache) can tell whether it still fits.

A ledger of a policy without ids (`Ledger.of_text`) holds the words only, says so, and cannot be trained on.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specvet.chat.keeping import Part, pieces, segment_dict, segment_of, transcript
from specvet.chat.messages import Image
from specvet.chat.segments import (
    MAX_ID,
    MAX_PICTURE,
    ImageSegment,
    LedgerError,
    SampledSegment,
    Segment,
    Stop,
    TextRole,
    TextSegment,
    WordsSegment,
)
from specvet.chat.vocabulary import Vocabulary

__all__ = [
    "LEDGER_VERSION",
    "ImageSegment",
    "Ledger",
    "LedgerError",
    "Part",
    "SampledSegment",
    "Segment",
    "Stop",
    "TextRole",
    "TextSegment",
    "WordsSegment",
    "pieces",
    "total_logprob",
    "transcript",
]

LEDGER_VERSION = 1


class Ledger:
    """The token record of one trajectory. `format` names the chat format, `vocabulary` is the tokenizer's hash."""

    def __init__(self, format: str, vocabulary: str = "", *, kind: Literal["tokens", "text"] = "tokens") -> None:
        self.format = format
        self.vocabulary = vocabulary
        self.kind = kind
        self._segments: list[Segment] = []
        start = "\0".join((str(LEDGER_VERSION), kind, format, vocabulary))
        self._digests: list[bytes] = [hashlib.sha256(start.encode()).digest()]
        self._ends: list[int] = [0]

    @classmethod
    def of_text(cls, format: str) -> Ledger:
        """A ledger for a policy that gives words only."""
        return cls(format, kind="text")

    # --- reading

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def n_tokens(self) -> int:
        """Tokens so far, those of pictures included."""
        return self._ends[-1]

    @property
    def digests(self) -> tuple[bytes, ...]:
        """One digest a prefix of whole segments, from the empty one to the whole ledger."""
        return tuple(self._digests)

    @property
    def digest(self) -> bytes:
        """Stands for everything that a model would be shown, segment by segment; not for log-probs and stop reasons.

        Two ledgers have one digest exactly when format, vocabulary and segments (roles, ids, words, pictures) are one.
        """
        return self._digests[-1]

    @property
    def ends(self) -> tuple[int, ...]:
        """Tokens in each prefix of whole segments, as `digests`."""
        return tuple(self._ends)

    @property
    def images(self) -> tuple[ImageSegment, ...]:
        return tuple(s for s in self._segments if isinstance(s, ImageSegment))

    @property
    def sampled(self) -> tuple[SampledSegment, ...]:
        return tuple(s for s in self._segments if isinstance(s, SampledSegment))

    @property
    def n_sampled(self) -> int:
        return sum(s.n_tokens for s in self.sampled)

    @property
    def trainable(self) -> bool:
        """Whether every sampled token has a log-prob, so that a policy gradient can use it."""
        said = self.sampled
        return self.kind == "tokens" and bool(said) and all(s.logprobs is not None for s in said)

    def ids(self) -> NDArray[np.int32]:
        """All token ids, shape (n_tokens,); a picture's are its pad id repeated. Raises LedgerError for words."""
        self._need_tokens()
        parts = [
            np.full(s.n_tokens, s.pad_id, dtype=np.int32)
            if isinstance(s, ImageSegment)
            else np.array(s.ids, dtype=np.int32)
            for s in self._segments
            if not isinstance(s, WordsSegment)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)

    def extends(self, earlier: Ledger) -> bool:
        """Whether `earlier` is a prefix of this ledger: a model that saw this one has seen it, in the same segments."""
        n = len(earlier._segments)
        return n <= len(self._segments) and self._digests[n] == earlier._digests[n]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ledger):
            return NotImplemented
        return self.digest == other.digest and self._segments == other._segments

    __hash__ = None  # type: ignore[assignment]  # it grows; `digest` is what can be a key

    def __repr__(self) -> str:
        return (
            f"<Ledger {self.format}: {self.n_tokens} tokens, {self.n_sampled} sampled, {len(self.images)} images>"
            if self.kind == "tokens"
            else f"<Ledger {self.format}, text only: {len(self)} segments, {len(self.images)} images>"
        )

    # --- writing

    def append(self, segments: Iterable[Segment]) -> None:
        """Append segments, as a rule what the program rendered. All of them, or LedgerError and nothing."""
        added = list(segments)
        for segment in added:
            self._check(segment)
        for segment in added:
            self._add(segment)

    def append_sampled(
        self, ids: Sequence[int], logprobs: Sequence[float] | NDArray[Any] | None, stop: Stop
    ) -> SampledSegment:
        """Append what a model sampled, as it sampled it; `logprobs` None makes it a demonstration.

        Raises LedgerError for counts that differ, no ids, or log-probs that are not finite or above 0.
        """
        segment = SampledSegment(tuple(ids), None if logprobs is None else np.asarray(logprobs), stop)
        self.append([segment])
        return segment

    def fork(self) -> Ledger:
        """A branch: it shares everything so far and goes its own way."""
        branch = Ledger(self.format, self.vocabulary, kind=self.kind)
        branch._segments, branch._digests, branch._ends = self._segments[:], self._digests[:], self._ends[:]
        return branch

    def _check(self, segment: Segment) -> None:
        if isinstance(segment, WordsSegment) != (self.kind == "text") and not isinstance(segment, ImageSegment):
            raise LedgerError(f"a {type(segment).__name__} has no place in a ledger of {self.kind}")
        if isinstance(segment, ImageSegment):
            sizes = (segment.width, segment.height, segment.rows, segment.columns, segment.pad_id)
            if min(sizes) < 0 or max(sizes) > MAX_ID or segment.n_tokens > MAX_PICTURE:
                raise LedgerError(f"a picture of impossible size or id: {segment}")
            if self.kind == "tokens" and (segment.rows < 1 or segment.columns < 1):
                raise LedgerError(
                    f"a picture of {segment.rows} x {segment.columns} tokens; each must have at least one"
                )
            return
        if isinstance(segment, SampledSegment) and not segment.ids:
            raise LedgerError("a turn without tokens; a model says at least its end token")

    def _add(self, segment: Segment) -> None:
        digest = hashlib.sha256(self._digests[-1])
        # No role's name begins another's, so what follows cannot be taken for a part of it.
        if isinstance(segment, ImageSegment):
            size, grid = f"{segment.width}x{segment.height}", f"{segment.rows}x{segment.columns}"
            digest.update(f"image {segment.role} {segment.sha256} {size} {grid} {segment.pad_id}".encode())
        elif isinstance(segment, WordsSegment):
            digest.update(f"{segment.role} {segment.text}".encode())
        else:
            digest.update(b"sampled" if isinstance(segment, SampledSegment) else segment.role.encode())
            digest.update(np.array(segment.ids, dtype="<i8").tobytes())
        self._segments.append(segment)
        self._digests.append(digest.digest())
        self._ends.append(self._ends[-1] + segment.n_tokens)

    def _need_tokens(self) -> None:
        if self.kind != "tokens":
            raise LedgerError("this ledger holds words only: its policy gives no token ids, so it cannot be trained on")

    # --- keeping

    def to_dict(self, vocabulary: Vocabulary | None = None) -> dict[str, Any]:
        """All of it as JSON knows it; `from_dict` reads it back bit for bit. Pictures are kept by hash.

        With the vocabulary, each segment also keeps the bytes of its tokens (`specvet.chat.ledger.pieces`), so that a
        transcript can be shown by whoever lacks the tokenizer.
        """
        return {
            "version": LEDGER_VERSION,
            "kind": self.kind,
            "format": self.format,
            "vocabulary": self.vocabulary,
            "segments": [segment_dict(s, vocabulary) for s in self._segments],
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any], images: Mapping[str, Image] | None = None) -> Ledger:
        """The ledger that `to_dict` gave; `images` (by SHA-256) puts the pictures back. Raises LedgerError."""
        if not isinstance(kept, Mapping) or kept.get("version") != LEDGER_VERSION:
            version = kept.get("version") if isinstance(kept, Mapping) else None
            raise LedgerError(f"a ledger of version {version!r}; this specvet reads {LEDGER_VERSION}")
        if kept.get("kind") not in ("tokens", "text"):
            raise LedgerError(f"a ledger of {kept.get('kind')!r}; there are ledgers of tokens and of text")
        if missing := [name for name in ("format", "vocabulary", "segments") if name not in kept]:
            raise LedgerError(f"a kept ledger without {missing[0]}")
        for name in ("format", "vocabulary"):
            if not isinstance(kept[name], str) or any("\ud800" <= c <= "\udfff" for c in kept[name]):
                raise LedgerError(f"a kept ledger whose {name} is no text")
        if not isinstance(kept["segments"], list | tuple):
            raise LedgerError(f"the segments of a kept ledger are a {type(kept['segments']).__name__}, not a list")
        ledger = cls(kept["format"], kept["vocabulary"], kind=kept["kind"])
        for entry in kept["segments"]:
            segment = segment_of(entry)
            if images and isinstance(segment, ImageSegment) and segment.sha256 in images:
                image = images[segment.sha256]
                if (image.sha256, image.width, image.height) != (segment.sha256, segment.width, segment.height):
                    raise LedgerError(f"the picture given for {segment.sha256[:12]} is another one: {image}")
                segment = replace(segment, png=image.png)
            ledger.append([segment])
        return ledger

    def transcript(self, vocabulary: Vocabulary) -> tuple[Part, ...]:
        """What was said, segment by segment: role, text, and of each token its bytes, weight and log-prob."""
        return transcript(self.to_dict(vocabulary))


def total_logprob(ledger: Ledger) -> float:
    """Sum of the log-probs of all sampled tokens; NaN where a turn has none, 0 where nothing was sampled."""
    said = ledger.sampled
    if any(s.logprobs is None for s in said):
        return math.nan
    return math.fsum(x for s in said if s.logprobs is not None for x in s.logprobs.tolist())
