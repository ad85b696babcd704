"""From documents to arrays: ids, positions, what is learnt, grey pixels; and pieces of equally long documents.

A piece is what a producer hands on: some documents, padded to the longest, their pictures together by size.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Image, LedgerError
from specvet.chat.png import decode_plain
from specvet.chat.qwen import PAD, QwenFormat
from specvet.training.base.source import Document

Pixels = NDArray[np.uint8]
Arrays = dict[str, NDArray[np.generic]]


class TooLongError(ValueError):
    """A document of more positions than are allowed."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """One document as a model takes it. Position i predicts token i + 1."""

    ids: NDArray[np.int32]
    """Shape (n,); a picture's positions hold its pad id."""
    positions: NDArray[np.int16]
    """Time, row, column; shape (3, n)."""
    targets: NDArray[np.int32]
    """The next token where it is learnt, else −1; shape (n,)."""
    turns: NDArray[np.int16]
    """Which assistant turn the target belongs to, else −1; shape (n,)."""
    pictures: tuple[tuple[int, Pixels], ...]
    """Where each begins, and its grey pixels."""
    kinds: tuple[str, ...]
    """Of the turns."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The pictures of one size in a piece or batch."""

    pixels: Pixels
    """Shape (k, height, width)."""
    rows: NDArray[np.int32]
    """Whose document; shape (k,)."""
    starts: NDArray[np.int32]
    """Where in it; shape (k,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some documents of about one length, padded on the right."""

    ids: NDArray[np.int32]
    """Shape (n, longest)."""
    positions: NDArray[np.int16]
    """Shape (3, n, longest)."""
    targets: NDArray[np.int32]
    """Shape (n, longest); −1 where nothing is learnt."""
    turns: NDArray[np.int16]
    """Shape (n, longest)."""
    shown: tuple[Shown, ...]
    tokens: int
    """Without padding."""
    kinds: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    """Of each document's turns."""

    @property
    def n(self) -> int:
        return int(self.ids.shape[0])

    @property
    def longest(self) -> int:
        return int(self.ids.shape[1])


class Encoder:
    """Documents → `Encoded`, with the ids that a ledger of the same conversation has.

    A ledger encodes turn by turn and renders twice for each; here the whole conversation is rendered once, cut at its
    learnt spans, and what lies between them, which is often the same, is encoded once.
    """

    MOST_KEPT = 50_000

    def __init__(self, format: QwenFormat, max_tokens: int) -> None:
        self.format, self.max_tokens = format, max_tokens
        self._pad = format.vocabulary.need(PAD)
        self._kept: dict[str, NDArray[np.int32]] = {}

    def __call__(self, document: Document) -> Encoded:
        """Raises TooLongError, LedgerError for a document without an assistant turn, ValueError for a picture that is
        not grey or that the model's processor would resize, ImageError."""
        text, spans = self.format.learnt(document.messages)
        if not spans:
            raise LedgerError("a document without an assistant turn: there is nothing to learn from it")
        parts: list[NDArray[np.int32]] = []
        turns: list[NDArray[np.int16]] = []
        at = 0
        for turn, (start, end) in enumerate(spans):
            for first, last, of in ((at, start, -1), (start, end, turn)):
                parts.append(self._ids(text[first:last], keep=of < 0))
                turns.append(np.full(parts[-1].size, of, dtype=np.int16))
            at = end
        return self._shown(np.concatenate(parts), np.concatenate(turns), document, len(spans))

    def _ids(self, text: str, keep: bool) -> NDArray[np.int32]:
        known = self._kept.get(text)
        if known is None:
            known = np.array(self.format.vocabulary.encode(text), dtype=np.int32)
            if keep and len(self._kept) < self.MOST_KEPT:
                self._kept[text] = known
        return known

    def _shown(self, ids: NDArray[np.int32], turns: NDArray[np.int16], document: Document, n_turns: int) -> Encoded:
        """Each picture's one id becomes as many as it has tokens, and every position gets its place."""
        images = [image for message in document.messages for image in message.images]
        places = np.flatnonzero(ids == self._pad)
        if places.size != len(images):
            raise LedgerError(f"{len(images)} pictures and {places.size} places for them")
        grids = [self.format.geometry.grid(image.width, image.height) for image in images]
        many = np.ones(ids.size, dtype=np.intp)
        many[places] = [rows * columns for rows, columns in grids]
        step = np.ones(ids.size, dtype=np.intp)
        step[places] = [max(grid) for grid in grids]
        starts = (np.cumsum(many) - many)[places]
        first = np.cumsum(step) - step
        ids, turns = np.repeat(ids, many), np.repeat(turns, many)
        positions = np.repeat(first, many).astype(np.int16)[None].repeat(3, axis=0)
        for start, (rows, columns) in zip(starts.tolist(), grids, strict=True):
            row, column = np.divmod(np.arange(rows * columns), columns)
            positions[1, start : start + row.size] += row.astype(np.int16)
            positions[2, start : start + row.size] += column.astype(np.int16)
        end = ids.size - 1  # the last token, a learnt one, is only ever a target
        if end > self.max_tokens:
            raise TooLongError(f"{end:,} positions, more than {self.max_tokens:,}")
        turn_of = turns[1:]
        targets = np.where(turn_of >= 0, ids[1:], -1).astype(np.int32)
        kinds = document.kinds or ("turn",) * n_turns
        return Encoded(
            ids[:end], positions[:, :end], targets, turn_of, self._pictures(document, images, starts, grids), kinds
        )

    def _pictures(
        self, document: Document, images: Sequence[Image], starts: NDArray[np.intp], grids: Sequence[tuple[int, int]]
    ) -> tuple[tuple[int, Pixels], ...]:
        drawn = document.pixels if document.pixels is not None else [grey(image) for image in images]
        unit = self.format.geometry.factor
        found = tuple(zip(starts.tolist(), drawn, strict=True))
        for (_, pixels), (rows, columns) in zip(found, grids, strict=True):
            if pixels.shape != (rows * unit, columns * unit):
                height, width = pixels.shape
                raise ValueError(f"a picture of {width} x {height} pixels, which the model's processor would resize")
        return found


def grey(image: Image) -> Pixels:
    """The grey pixels of a picture, shape (height, width). Raises ValueError for one that has colours."""
    pixels = decode_plain(image.png)
    if pixels is None:
        from PIL import Image as Pillow

        with Pillow.open(io.BytesIO(image.png)) as opened:
            pixels = np.asarray(opened if opened.mode == "L" else opened.convert("RGB"), dtype=np.uint8)
    if pixels.ndim == 3:
        if (pixels != pixels[..., :1]).any():
            raise ValueError(
                "a picture with colours; base training takes drawings of the compact style, which are grey"
            )
        pixels = np.ascontiguousarray(pixels[..., 0])
    return pixels


def piece_of(documents: Sequence[Encoded]) -> Piece:
    """Pad and stack."""
    n, longest = len(documents), max(d.ids.size for d in documents)
    ids = np.zeros((n, longest), dtype=np.int32)
    positions = np.zeros((3, n, longest), dtype=np.int16)
    targets = np.full((n, longest), -1, dtype=np.int32)
    turns = np.full((n, longest), -1, dtype=np.int16)
    by_size: dict[tuple[int, ...], list[tuple[int, int, Pixels]]] = {}
    for row, d in enumerate(documents):
        size = d.ids.size
        ids[row, :size] = d.ids
        positions[:, row, :size] = d.positions
        targets[row, :size] = d.targets
        turns[row, :size] = d.turns
        for start, pixels in d.pictures:
            by_size.setdefault(pixels.shape, []).append((row, start, pixels))
    shown = tuple(
        Shown(
            np.stack([pixels for _, _, pixels in some]),
            np.array([row for row, _, _ in some], dtype=np.int32),
            np.array([start for _, start, _ in some], dtype=np.int32),
        )
        for some in by_size.values()
    )
    return Piece(ids, positions, targets, turns, shown, sum(d.ids.size for d in documents), _kinds(documents))


def joined(pieces: Sequence[Piece], unit: int = 1) -> Piece:
    """One piece of several, its length a multiple of `unit`."""
    longest = -(-max(p.longest for p in pieces) // unit) * unit
    n = sum(p.n for p in pieces)
    ids = np.zeros((n, longest), dtype=np.int32)
    positions = np.zeros((3, n, longest), dtype=np.int16)
    targets = np.full((n, longest), -1, dtype=np.int32)
    turns = np.full((n, longest), -1, dtype=np.int16)
    by_size: dict[tuple[int, ...], list[tuple[int, Shown]]] = {}
    row = 0
    for p in pieces:
        rows = slice(row, row + p.n)
        ids[rows, : p.longest] = p.ids
        positions[:, rows, : p.longest] = p.positions
        targets[rows, : p.longest] = p.targets
        turns[rows, : p.longest] = p.turns
        for shown in p.shown:
            by_size.setdefault(shown.pixels.shape[1:], []).append((row, shown))
        row += p.n
    together = tuple(
        Shown(
            np.concatenate([shown.pixels for _, shown in some]),
            np.concatenate([shown.rows + first for first, shown in some]).astype(np.int32),
            np.concatenate([shown.starts for _, shown in some]),
        )
        for _, some in sorted(by_size.items())
    )
    kinds = tuple(kinds for p in pieces for kinds in p.kinds)
    return Piece(ids, positions, targets, turns, together, sum(p.tokens for p in pieces), kinds)


def _kinds(documents: Iterable[Encoded]) -> tuple[tuple[str, ...], ...]:
    return tuple(d.kinds for d in documents)
