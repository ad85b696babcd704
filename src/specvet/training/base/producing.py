"""What a producer does: make documents, encode them, and put them into its slots, piece by piece.

Documents are made a window at a time and sorted by length, so that the documents of a piece are of about one length and
little of a batch is padding.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from specvet.chat import LedgerError, Vocabulary, chat_format
from specvet.data.processes import begin_worker
from specvet.training.base.encoding import Encoded, Encoder, TooLongError, piece_of
from specvet.training.base.memory import SLOTS, Letter, Slots
from specvet.training.base.source import Document, Source

MOST_FAILURES = 20
"""Stretches of documents in a row that raise an error before a producer gives up."""


@dataclass(frozen=True, slots=True)
class Order:
    """What one producer is told."""

    source: Source
    vocabulary: Path
    number: int
    """Which producer it is, from 0 …"""
    of: int
    """… of so many."""
    piece: int
    """Documents of a piece."""
    window: int
    """Documents that are sorted together."""
    held_out: int
    """Documents that this one makes to measure by, before all others."""
    max_tokens: int
    slots: Path


@dataclass(frozen=True, slots=True)
class Trouble:
    """Documents that were left out, and why the first was."""

    too_long: int = 0
    failed: int = 0
    first: str = ""
    fatal: bool = False


def produce(order: Order, pipe: Connection) -> None:
    """The whole life of a producer: it ends when its pipe is closed."""
    begin_worker()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        _Producer(order, pipe).run()
    except (BrokenPipeError, ConnectionError, EOFError):
        return  # nobody wants any more
    except BaseException:
        pipe.send(Trouble(first=traceback.format_exc(limit=8), fatal=True))


class _Producer:
    def __init__(self, order: Order, pipe: Connection) -> None:
        self.order, self.pipe = order, pipe
        format = chat_format("qwen2_5_vl", Vocabulary.load(order.vocabulary))
        self.encoder = Encoder(format, order.max_tokens)
        self.slots = Slots(order.slots)
        self.free = list(range(SLOTS))
        self.failures = 0

    def run(self) -> None:
        order = self.order
        if order.held_out:
            made = order.source.held_out(order.number * order.held_out, order.held_out)
            self._hand_on(list(self._encoded(made)), held_out=True)
        self.pipe.send("ready")
        stretch = order.number
        while True:
            made = order.source.documents(stretch * order.window, order.window)
            self._hand_on(list(self._encoded(made)), held_out=False)
            stretch += order.of

    def _encoded(self, made: Iterator[Document]) -> Iterator[Encoded]:
        """What can be learnt from; the rest is told of."""
        while True:
            try:
                document = next(made)
                encoded = self.encoder(document)
            except StopIteration:
                return
            except TooLongError as e:
                self.pipe.send(Trouble(too_long=1, first=str(e)))
            except (LedgerError, ValueError, ArithmeticError, LookupError, RuntimeError):
                # A generator that raised is at its end: the rest of its stretch is lost, and the next one begins.
                self.failures += 1
                if self.failures >= MOST_FAILURES:
                    raise
                self.pipe.send(Trouble(failed=1, first=traceback.format_exc(limit=-4)))
            else:
                self.failures = 0
                yield encoded

    def _hand_on(self, documents: list[Encoded], *, held_out: bool) -> None:
        documents.sort(key=lambda d: d.ids.size)
        waiting = [documents[i : i + self.order.piece] for i in range(0, len(documents), self.order.piece)]
        while waiting:
            some = waiting.pop(0)
            while not self.free:
                self.free.append(self.pipe.recv())
            piece, slot = piece_of(some), self.free[-1]
            layout = self.slots.write(slot, piece)
            if layout is None:
                if len(some) == 1:
                    self.pipe.send(Trouble(too_long=1, first="a document whose pictures do not fit into a slot"))
                else:
                    waiting[:0] = [some[: len(some) // 2], some[len(some) // 2 :]]
                continue
            self.free.pop()
            kinds = piece.kinds if held_out else ()
            self.pipe.send(Letter(slot, layout, piece.tokens, kinds, held_out))
