"""How pieces travel from a producer: through a file that both have mapped, a part of it for each piece on its way.

The file lies in /dev/shm where that has room, else in the folder for temporary files: containers often have 64 MB of
shared memory, and a file that is written over and over stays in the page cache.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from specvet.training.base.encoding import Arrays, Piece, Shown

SLOT_BYTES = 16 << 20
"""Of one piece; a larger one is cut in two."""
SLOTS = 2
"""Of one producer."""
_SHARED = Path("/dev/shm")

Layout = tuple[tuple[str, str, tuple[int, ...], int], ...]
"""Of each array its name, dtype, shape, and where it begins."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is told of a piece in a slot."""

    slot: int
    layout: Layout
    tokens: int
    kinds: tuple[tuple[str, ...], ...]
    held_out: bool


def folder_for(n_bytes: int) -> Path:
    """A new folder with room for so many bytes; whoever asks removes it. Raises OSError where there is none."""
    places = [_SHARED] if _SHARED.is_dir() and os.access(_SHARED, os.W_OK) else []
    for place in (*places, Path(tempfile.gettempdir())):
        if shutil.disk_usage(place).free > 1.5 * n_bytes:
            return Path(tempfile.mkdtemp(prefix="specvet-base-", dir=place))
    raise OSError(
        f"{tempfile.gettempdir()}: less than {1.5 * n_bytes / 1e6:,.0f} MB free; set TMPDIR, or fewer workers"
    )


class Slots:
    """The slots of one producer."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        with open(path, "w+b" if create else "r+b") as file:
            if create:
                file.truncate(SLOTS * SLOT_BYTES)
            self._map = mmap.mmap(file.fileno(), SLOTS * SLOT_BYTES)
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)

    def write(self, slot: int, piece: Piece) -> Layout | None:
        """Put a piece there; None where it is too large."""
        arrays = _arrays(piece)
        layout, at = [], 0
        for name, array in arrays.items():
            layout.append((name, array.dtype.str, array.shape, at))
            at += -(-array.nbytes // 64) * 64
        if at > SLOT_BYTES:
            return None
        for array, (_, _, _, start) in zip(arrays.values(), layout, strict=True):
            there = self._part(slot, start, array.nbytes)
            there[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return tuple(layout)

    def read(self, letter: Letter) -> Piece:
        """A copy of the piece there."""
        arrays: Arrays = {}
        for name, dtype, shape, start in letter.layout:
            kind = np.dtype(dtype)
            n_bytes = int(np.prod(shape)) * kind.itemsize
            arrays[name] = self._part(letter.slot, start, n_bytes).copy().view(kind).reshape(shape)
        return _piece(arrays, letter)

    def _part(self, slot: int, start: int, n_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        begin = slot * SLOT_BYTES + start
        return self._bytes[begin : begin + n_bytes]


def _arrays(piece: Piece) -> Arrays:
    arrays: Arrays = {
        "ids": piece.ids,
        "positions": piece.positions,
        "targets": piece.targets,
        "turns": piece.turns,
    }
    for i, shown in enumerate(piece.shown):
        arrays |= {f"pixels{i}": shown.pixels, f"rows{i}": shown.rows, f"starts{i}": shown.starts}
    return arrays


def _piece(arrays: Arrays, letter: Letter) -> Piece:
    a: dict[str, Any] = arrays
    n_sizes = (len(a) - 4) // 3
    shown = tuple(Shown(a[f"pixels{i}"], a[f"rows{i}"], a[f"starts{i}"]) for i in range(n_sizes))
    return Piece(a["ids"], a["positions"], a["targets"], a["turns"], shown, letter.tokens, letter.kinds)
