"""Where documents come from: a `Source` makes any stretch of an endless row of them, in any process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specvet.chat import Message
from specvet.data.demonstrations import Demonstration, read_demonstrations
from specvet.data.errors import InputError
from specvet.data.pictures import picture
from specvet.training.base.config import BaseConfig

HELD_OUT_AT = 1_000_000_000
"""Documents from this number on are measured by and never learnt from."""
HELD_OUT_SHARE = 0.05
"""Of a file of demonstrations, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One conversation to learn from."""

    messages: tuple[Message, ...]
    """Every assistant turn is learnt."""
    kinds: tuple[str, ...] = ()
    """Of each assistant turn, to count by; empty: all are `turn`."""
    pixels: tuple[NDArray[np.uint8], ...] | None = None
    """Of each picture, grey, where they are at hand; None: the pictures' PNGs are decoded."""


class Source(Protocol):
    """Must be picklable: each producer has its own."""

    def documents(self, start: int, n: int) -> Iterator[Document]:
        """Those of numbers `start` to `start + n`."""
        ...

    def held_out(self, start: int, n: int) -> Iterator[Document]:
        """As `documents`, of others, which `documents` never gives; fewer where there are not so many."""
        ...


@dataclass(frozen=True, slots=True)
class ReadingSource:
    """SIMULATED spectra, and what can be read off them (`specvet.data.reading`)."""

    seed: int = 0
    templates: str | None = None

    def documents(self, start: int, n: int) -> Iterator[Document]:
        from specvet.data.reading import read_documents

        for made in read_documents(self.seed, start, n, templates=_templates(self.templates)):
            yield Document(made.messages, made.kinds, made.pictures)

    def held_out(self, start: int, n: int) -> Iterator[Document]:
        return self.documents(HELD_OUT_AT + start, n)


@dataclass(frozen=True, slots=True)
class DemonstrationSource:
    """A file of demonstrations, gone through in another order each time; a few objects are held out."""

    path: str
    seed: int = 0
    share: float = HELD_OUT_SHARE
    """Of its objects, held out."""

    @property
    def rows(self) -> int:
        """How many are learnt from each time."""
        return len(_parts(self.path, self.seed, self.share)[0])

    def documents(self, start: int, n: int) -> Iterator[Document]:
        rows, _ = _parts(self.path, self.seed, self.share)
        order, epoch = np.zeros(0, dtype=np.int64), -1
        for number in range(start, start + n):
            if number // len(rows) != epoch:
                epoch = number // len(rows)
                order = np.random.default_rng((self.seed, epoch)).permutation(len(rows))
            yield _spoken(rows[order[number % len(rows)]])

    def held_out(self, start: int, n: int) -> Iterator[Document]:
        for row in _parts(self.path, self.seed, self.share)[1][start : start + n]:
            yield _spoken(row)


def source_of(config: BaseConfig) -> Source:
    """The source that a configuration names. Raises InputError for a file that cannot be learnt from."""
    if config.data == "reading":
        return ReadingSource(config.seed, None if config.templates is None else os.path.abspath(config.templates))
    share = HELD_OUT_SHARE if config.held_out else 0.0
    source = DemonstrationSource(os.path.abspath(config.data), config.seed, share)
    next(source.documents(0, 1))
    return source


@lru_cache(maxsize=1)
def _templates(folder: str | None) -> Any:
    from specvet.data.simulate.templates import load_templates

    return None if folder is None else load_templates(folder)


@lru_cache(maxsize=2)
def _parts(path: str, seed: int, share: float) -> tuple[list[Demonstration], list[Demonstration]]:
    """Those to learn from, and those to measure by; all of one object are on one side. Raises InputError."""
    rows = read_demonstrations(path)
    objects = sorted({row.object_id or row.id for row in rows})
    n_held = int(share * len(objects))
    held = {objects[i] for i in np.random.default_rng(seed).permutation(len(objects))[:n_held]}
    learnt = [row for row in rows if (row.object_id or row.id) not in held]
    return learnt, [row for row in rows if (row.object_id or row.id) in held]


def _spoken(row: Demonstration) -> Document:
    if row.tools:
        raise InputError(f"{row.where}: its prompt lists tools; base training takes the short wording, which has none")
    return Document(tuple(row.spoken(picture)))


def length_of(config: BaseConfig, source: Source) -> int:
    """On how many documents to train; 0 where a time says it."""
    if config.epochs is not None and isinstance(source, DemonstrationSource):
        return config.epochs * source.rows
    return config.documents or 0
