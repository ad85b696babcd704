"""Which spectra of a listing are of one star: its epochs, and what votes on them amount to.

Grouping needs positions, times and identifiers of all spectra, so it is done when it is first asked for, outside any
lock. Of a run the decisions say them; of a list the list itself, and the files that were read when it was opened.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from specvet.records import Decision
from specvet.records.database import connect_to_read
from specvet.review.listing import Listing, item_name
from specvet.review.matched import match_stamp

if TYPE_CHECKING:
    from specvet.catalogue.objects import Group
    from specvet.catalogue.sighting import Key, Match, Sighting

ENTRY = "entry"
"""Entries go by their place here: two of a list may name one row of a file by different identifiers."""

_SQL = (
    "SELECT key, row, max(json_extract(rest, '$.mjd')), max(json_extract(rest, '$.ids')) "
    "FROM decisions GROUP BY key, row"
)


@dataclass(frozen=True, eq=False)
class Grouped:
    """All objects of a listing; equal only to itself."""

    groups: list[Group]
    number: NDArray[np.int64]
    """Place in `groups` of each entry of the listing, shape (n,)."""
    rank: NDArray[np.int64]
    """Place of each entry among its object's epochs, by time, shape (n,)."""
    size: NDArray[np.int64]
    """How many spectra each entry's object has, itself included, shape (n,)."""
    members: list[list[int]]
    """Places in the listing of each group's epochs, by time."""

    def order(self, base: NDArray[np.intp]) -> NDArray[np.intp]:
        """Entries object by object: objects as the first of their spectra comes in `base`, epochs by time."""
        position = np.empty(len(base), np.int64)
        position[base] = np.arange(len(base))
        first = np.full(len(self.groups), len(base))
        np.minimum.at(first, self.number, position)
        return np.lexsort((self.rank, first[self.number]))


class Objects:
    """The objects of a listing, made once, and again where the run was matched anew. Any thread may use it."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._making = threading.Lock()
        self._made: Grouped | None = None
        self._matched = 0

    def grouped(self) -> Grouped:
        with self._making:
            matched = match_stamp(self._listing)
            if self._made is None or matched != self._matched:
                self._made, self._matched = self._make(), matched
            return self._made

    def _make(self) -> Grouped:
        from specvet.catalogue.objects import group

        listing = self._listing
        groups = [_named(g, listing) for g in group(_sightings(listing), matches=_matches(listing))]
        n = len(listing)
        number, rank, size = (np.zeros(n, np.int64) for _ in range(3))
        members = [[s.key[1] for s in g.members] for g in groups]
        for k, inside in enumerate(members):
            number[inside] = k
            rank[inside] = np.arange(len(inside))
            size[inside] = len(inside)
        return Grouped(groups, number, rank, size, members)


def _named(found: Group, listing: Listing) -> Group:
    """`FILE:ROW` of a spectrum without place and Gaia id, as exports call it; `FILE:NAME=VALUE` where so chosen."""
    if found.gaia_id or found.ra is not None:
        return found
    i = found.members[0].key[1]
    chosen = " ".join(f"{name}={value}" for name, value in listing.selections.get(i, ()))
    return replace(found, id=f"{listing.files[i]}:{chosen or listing.rows[i]}")


def _sightings(listing: Listing) -> Iterator[Sighting]:
    from specvet.catalogue.sightings import sighting_of

    stated = listing.stated if listing.run is None else _stated(listing)
    for i in range(len(listing)):
        mjd, ids = stated.get(i, (None, {}))
        about: dict[str, Any] = {"file": ENTRY, "row": i, "id": listing.ids[i], "survey": listing.surveys[i]}
        about |= {"ra": _known(listing.ra[i]), "dec": _known(listing.dec[i]), "snr": _known(listing.snr[i])}
        # All that is read of a decision; a whole one would take ten times as long, and there may be 100,000.
        yield sighting_of(cast(Decision, SimpleNamespace(**about, mjd=mjd, ids=ids)))


def _stated(listing: Listing) -> dict[int, tuple[float | None, dict[str, str]]]:
    """Time and identifiers as the decisions of a run keep them."""
    assert listing.run is not None
    found = {}
    with closing(connect_to_read(listing.run / "run.db")) as db:
        for key, row, mjd, ids in db.execute(_SQL):
            if (i := listing.place.get(item_name(key, row))) is not None and (mjd is not None or ids):
                found[i] = mjd, json.loads(ids) if ids else {}
    return found


def _matches(listing: Listing) -> dict[Key, Match]:
    """What `specvet match` found, by the entries' own names; nothing where it was not run, or is damaged."""
    if listing.run is None:
        return {}
    from specvet.catalogue.matching import read_matches
    from specvet.data.errors import InputError

    try:
        found = read_matches(listing.run)
    except InputError:  # told where the match itself is shown
        return {}
    keys = enumerate(zip(listing.files, listing.rows, strict=True))
    return {(ENTRY, i): match for i, key in keys if (match := found.get(key)) is not None}


def _known(value: np.floating[Any]) -> float | None:
    return float(value) if np.isfinite(value) else None
