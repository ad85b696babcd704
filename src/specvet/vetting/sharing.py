"""One list, several processes: which entries are whose.

`Sharing` hands out entries that no other process has in hand (see `specvet.records.shared`): all go through the same
list, each takes the next few that are free, and at the end whoever is left waits for the others and takes over what
one of them has lost. `shard_of` cuts a list without asking anybody, by the entries' names.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from specvet.data.files import printable
from specvet.records.shared import Leases
from specvet.vetting.items import Item
from specvet.vetting.rows import asked_row, selection

AT_ONCE = 16
"""Entries that are claimed together: few, so that the last of a list are spread over all processes."""

WAIT_S = 0.2
"""How long one waits before one asks again for what others have in hand."""


def name_of(item: Item, key: Callable[[str], str]) -> str:
    """An entry by a name that is the same in every process: its file, row and selection."""
    row = asked_row(item)
    return "\n".join((key(printable(item.file)), "" if row is None else str(row), selection(item)))


def shard_of(items: Iterable[Item], part: int, parts: int) -> Iterator[Item]:
    """The entries of part `part` (from 1) of `parts`; those of one file and row are always in the same part.

    The parts are about equally long and each lies all over the list. A file without a row is one entry, however many
    targets it holds.
    """
    for item in items:
        # By the file's name without folders: the list of another machine may have other mount points.
        file = printable(item.file).replace("\\", "/").rpartition("/")[2]
        row = asked_row(item)
        text = f"{file}\n{'' if row is None else row}\n{selection(item)}"
        if zlib.crc32(text.encode("utf-8", "replace")) % parts == part - 1:
            yield item


class Sharing:
    """Entries of a list that this process may begin. Each must be given back by `over` when it is done with."""

    def __init__(self, leases: Leases, key: Callable[[str], str], stop: threading.Event) -> None:
        self._leases, self._key, self._stop = leases, key, stop

    def of(self, items: Iterable[Item], settle: Callable[[], None]) -> Iterator[Item]:
        """The entries, in the list's order as far as others leave them; `settle` finishes what is under way here.

        An entry that others had in hand comes last, decided or not: whoever takes it finds what is left of it.
        """
        later: list[Item] = []
        left = iter(items)
        while chunk := list(islice(left, AT_ONCE)):
            granted, others = self._claimed(chunk)
            later += others
            yield from granted
        settle()  # so that nobody waits for us while we wait for them
        while later and not self._stop.is_set():
            granted, rest = self._claimed(later[:AT_ONCE])
            later = later[AT_ONCE:] + rest
            yield from granted
            if not granted:
                self._leases.flush()
                self._stop.wait(WAIT_S)
            settle()

    def over(self, item: Item) -> None:
        """All of an entry is on disk."""
        self._leases.over(name_of(item, self._key))

    def _claimed(self, items: list[Item]) -> tuple[list[Item], list[Item]]:
        names = [name_of(item, self._key) for item in items]
        mine = self._leases.claim(names)
        granted = [item for item, name in zip(items, names, strict=True) if name in mine]
        return granted, [item for item, name in zip(items, names, strict=True) if name not in mine]
