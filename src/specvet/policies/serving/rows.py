"""Which row holds which prefix: found again by the ledger's digests, and given away when rows run out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from specvet.chat import ImageSegment, Ledger

if TYPE_CHECKING:
    from torch import Tensor

State: TypeAlias = "dict[int, tuple[Tensor, Tensor]]"
"""Recurrent state of one row, by layer."""

MAX_SNAPSHOTS = 16
"""Recurrent states of shared prefixes that are kept: some 50 MB each for a 4-billion-weight hybrid model."""


@dataclass(slots=True, eq=False)
class Row:
    """One row of the arena."""

    slot: int
    digests: tuple[bytes, ...] = ()
    """Of the prefixes of whole segments that it holds, the empty one included."""
    ends: tuple[int, ...] = ()
    """Tokens in each."""
    filled: int = 0
    """Tokens that the model has seen here: one fewer than the last end after a sampled turn."""
    busy: bool = False
    over: bool = False
    """Its trajectory has ended: it goes first."""
    used: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """How much of a ledger need not be computed, and where it lies."""

    row: Row | None = None
    length: int = 0
    taken_over: bool = False
    """The row itself goes on; else its prefix is copied."""
    state: State | None = None
    """The recurrent state at `length`, where the row's own has gone on."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One row that reads tokens `start` to `end` of a ledger."""

    slot: int
    ledger: Ledger
    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start

    @property
    def pictures(self) -> list[ImageSegment]:
        """Pictures of which it reads some token."""
        spans = zip(self.ledger.ends, self.ledger.ends[1:], self.ledger, strict=False)
        return [s for a, b, s in spans if isinstance(s, ImageSegment) and b > self.start and a < self.end]


class Rows:
    """All rows. `recurrent` says that a row's state fits no earlier prefix than its own end."""

    def __init__(self, limit: int, *, recurrent: bool) -> None:
        self.limit, self.recurrent = limit, recurrent
        self._slots: list[Row | None] = []
        self._holders: dict[bytes, dict[Row, None]] = {}
        """Rows by the prefixes that they hold."""
        self._tips: dict[bytes, dict[Row, None]] = {}
        """Rows by the longest of them: a question's prefix is held by many rows and is the tip of few."""
        self._snapshots: OrderedDict[bytes, State] = OrderedDict()
        self._clock = 0

    def at(self, slot: int) -> Row | None:
        return self._slots[slot] if slot < len(self._slots) else None

    @property
    def n_slots(self) -> int:
        """Slots in use so far; none beyond them holds anything."""
        return len(self._slots)

    def find(self, ledger: Ledger) -> Found:
        """The longest prefix that some row holds, of all but the last token, whose logits are still needed."""
        last = ledger.n_tokens - 1
        for digest, end in zip(ledger.digests[:0:-1], ledger.ends[:0:-1], strict=True):
            holders = self._holders.get(digest)
            if not holders:
                continue
            for row in self._tips.get(digest, ()):
                if row.filled <= min(end, last) and not row.busy:
                    return Found(row, row.filled, taken_over=True)
            if not self.recurrent:
                row = max(holders, key=lambda r: min(r.filled, end))
                return Found(row, min(row.filled, end, last))
            whole = next((row for row in holders if row.filled >= end), None)
            if whole is not None and end <= last and digest in self._snapshots:
                self._snapshots.move_to_end(digest)
                return Found(whole, end, state=self._snapshots[digest])
        return Found()

    def free(self, n: int, keep: Collection[Row]) -> list[Row] | None:
        """n rows to write into, lowest slots first, or None where there are too few: unused ones, then those whose
        trajectory is over, then those not used for longest. Busy rows and `keep` stay."""
        if n == 0:
            return []
        kept = set(keep)
        spare = [r for r in self._slots if r is not None and not r.busy and r not in kept]
        holes = [i for i, r in enumerate(self._slots) if r is None]
        room = self.limit - len(self._slots)
        if len(spare) + len(holes) + room < n:
            return None
        slots = holes[:n]
        new = min(room, n - len(slots))
        slots += range(len(self._slots), len(self._slots) + new)
        self._slots += [None] * new
        spare.sort(key=lambda r: (not r.over, r.used))
        for row in spare[: n - len(slots)]:
            self.drop(row)
            slots.append(row.slot)
        rows = [Row(slot) for slot in sorted(slots)]
        for row in rows:
            self._slots[row.slot] = row
        return rows

    def hold(self, row: Row, ledger: Ledger, filled: int, *, busy: bool) -> None:
        """From here on the row holds the ledger's first `filled` tokens."""
        self._unindex(row)
        row.digests, row.ends, row.filled, row.busy, row.over = ledger.digests, ledger.ends, filled, busy, False
        self._clock += 1
        row.used = self._clock
        for digest in row.digests[1:]:
            self._holders.setdefault(digest, {})[row] = None
        self._tips.setdefault(row.digests[-1], {})[row] = None

    def release(self, ledger: Ledger) -> None:
        """The ledger's trajectory is over: rows that hold it, or a turn of it, go first."""
        for digest in ledger.digests[1:]:
            for row in self._tips.get(digest, ()):
                row.over = row.over or not row.busy

    def drop(self, row: Row) -> None:
        """Forget what a row holds; its slot is free."""
        self._unindex(row)
        self._slots[row.slot] = None

    def exchange(self, slot: int, other: int) -> None:
        """Note that the arena's two rows were exchanged."""
        one, two = self._slots[slot], self._slots[other]
        self._slots[slot], self._slots[other] = two, one
        if one is not None:
            one.slot = other
        if two is not None:
            two.slot = slot

    def keep_state(self, digest: bytes, state: State) -> None:
        """Keep the recurrent state at the end of a prefix that several ledgers share."""
        self._snapshots[digest] = state
        self._snapshots.move_to_end(digest)
        while len(self._snapshots) > MAX_SNAPSHOTS:
            self._snapshots.popitem(last=False)

    def clear(self) -> None:
        self._slots.clear()
        self._holders.clear()
        self._tips.clear()
        self._snapshots.clear()

    def _unindex(self, row: Row) -> None:
        for digest in row.digests[1:]:
            _take_out(self._holders, digest, row)
        if row.digests:
            _take_out(self._tips, row.digests[-1], row)
        row.digests, row.ends = (), ()


def _take_out(index: dict[bytes, dict[Row, None]], digest: bytes, row: Row) -> None:
    rows = index.get(digest)
    if rows is not None:
        rows.pop(row, None)
        if not rows:
            del index[digest]
