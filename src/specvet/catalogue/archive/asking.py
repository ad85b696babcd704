"""Asking: a list in pieces, each catalogue for each piece, from disk where it was answered before.

A service that fails is given up for the rest of the list, and the others go on. What a service says is kept as soon as
it was checked, so a match that was killed, or that found a service dead, goes on where it stood when it is asked again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar

import numpy as np

from specvet.catalogue.archive.adql import columns_in, known_select, match_request, schema_request, schema_select
from specvet.catalogue.archive.cache import Cache, Request
from specvet.catalogue.archive.choosing import chosen
from specvet.catalogue.archive.errors import AnswerError, GivenUpError, PartialError, ServiceError
from specvet.catalogue.archive.found import Asked, Found, Place, found_in
from specvet.catalogue.archive.names import GAIA, Catalogue
from specvet.catalogue.archive.settings import LONGEST_ARCSEC, Settings, installed
from specvet.catalogue.archive.tap import availability, tap_answer
from specvet.catalogue.archive.votable import Sheet, read_sheet
from specvet.catalogue.archive.xmatch import xmatch_answer, xmatch_request
from specvet.catalogue.matching.nearest import spots
from specvet.catalogue.matching.sources import merged
from specvet.catalogue.sighting import Match, Sighting

Progress = Callable[[str, int, int], None]
"""(what is done, places that are through, places in all)."""
Tell = Callable[[str], None]
"""One line for people: a service that is asked again, or given up."""

T = TypeVar("T")

_LONGEST_PAUSE_S = 120.0
_EPOCHS = (2000.0, 2016.0)
"""Julian years at which catalogues give their positions: CDS XMatch takes Gaia's at the first."""


def asked(
    sightings: Iterable[Sighting],
    catalogues: Sequence[Catalogue],
    settings: Settings,
    cache: Cache,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Iterator[Match]:
    """What `catalogues` say of each sighting: one `Match` each, in order of pieces of the list.

    A catalogue that did not answer is missing in `Match.asked`, and `notes` tell why; a sighting without a position is
    asked of none. Raises `ArchiveError` where the extra is missing, and `OSError` where the cache cannot be written.
    """
    for sighting, said in asked_apart(sightings, catalogues, settings, cache, progress, tell):
        if said:
            yield reduce(merged, said.values())
        else:
            yield Match(sighting.key, notes=("it has no position: no archive was asked",))


def asked_apart(
    sightings: Iterable[Sighting],
    catalogues: Sequence[Catalogue],
    settings: Settings,
    cache: Cache,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Iterator[tuple[Sighting, dict[str, Match]]]:
    """See `asked`: each sighting with what each catalogue says of it; nothing for one without a position."""
    installed()
    asking = _Asking(settings, cache, tell or (lambda _: None))
    placed: dict[tuple[float, float], list[Sighting]] = {}
    for sighting in sightings:
        if (place := _place(sighting)) is None:
            yield sighting, {}
        else:
            placed.setdefault(place, []).append(sighting)
    groups = list(placed.items())
    for start in range(0, len(groups), settings.piece):
        piece = groups[start : start + settings.piece]
        places = [Place(number, ra, dec) for number, ((ra, dec), _) in enumerate(piece, start + 1)]
        rows = [(s, place.number) for place, (_, here) in zip(places, piece, strict=True) for s in here]
        radius = _wide(settings, [s for s, _ in rows])
        stated = frozenset(number for s, number in rows if s.gaia_id)
        found, answered = {}, {}
        for catalogue in catalogues:
            answer = asking.answer(catalogue, places, radius, stated if catalogue.name == GAIA else frozenset())
            if answer is not None:
                found[catalogue.name] = answer.found
                answered[catalogue.name] = frozenset(p.number for p in places) - answer.overfull
            if progress is not None:
                progress(f"asking {catalogue.name}", start + len(piece), len(groups))
        why = {c.name: asking.why(c) for c in catalogues}
        near = [s for s, _ in rows]
        said = chosen(near, [n for _, n in rows], found, answered, why, settings.radius_arcsec)
        yield from zip(near, said, strict=True)


def _place(sighting: Sighting) -> tuple[float, float] | None:
    ra, dec = sighting.ra, sighting.dec
    if ra is None or dec is None or not (math.isfinite(ra) and 0 <= ra <= 360 and -90 <= dec <= 90):
        return None
    return (ra, dec)


def _wide(settings: Settings, sightings: Sequence[Sighting]) -> float:
    """Arcsec within which to ask, so that whoever moves as fast as `settings.fastest` is still inside."""
    years = spots(sightings).year
    longest = max(abs(year - epoch) for year in (*years[np.isfinite(years)].tolist(), *_EPOCHS) for epoch in _EPOCHS)
    # In whole arcseconds, so that one more spectrum of another night rarely makes another request.
    return float(min(LONGEST_ARCSEC, math.ceil(settings.radius_arcsec + settings.fastest * longest)))


@dataclass(slots=True)
class _Answer:
    found: list[Found] = field(default_factory=list)
    overfull: frozenset[int] = frozenset()
    """Places of which not even one at a time came back in full."""


@dataclass(slots=True)
class _Asking:
    settings: Settings
    cache: Cache
    tell: Tell
    _dead: dict[str, str] = field(default_factory=dict)
    """By address and by catalogue: why it is not asked any more."""
    _selects: dict[str, tuple[list[str], str, str]] = field(default_factory=dict)

    def address(self, catalogue: Catalogue) -> str:
        return self.settings.addresses.get(catalogue.service, catalogue.service)

    def why(self, catalogue: Catalogue) -> str:
        """Why a catalogue gave no answer for a place."""
        reason = self._dead.get(catalogue.name) or self._dead.get(self.address(catalogue))
        return reason or "it gave only a part of what is there, also for this place alone"

    def answer(
        self, catalogue: Catalogue, places: Sequence[Place], radius: float, stated: frozenset[int]
    ) -> _Answer | None:
        """The sources near `places`; None where the service does not answer. Places in `stated` must have some."""
        try:
            return self._halving(catalogue, places, radius, stated)
        except ServiceError as e:
            if not isinstance(e, GivenUpError):
                address = self.address(catalogue)
                reason = f"{e}{availability(address) if e.gone and catalogue.by_tap else ''}"
                self._dead[address if e.gone else catalogue.name] = reason
                self.tell(f"{catalogue.name} is not asked any more: {reason}")
            return None

    def _halving(self, catalogue: Catalogue, places: Sequence[Place], radius: float, stated: frozenset[int]) -> _Answer:
        try:
            return _Answer(self._asked(catalogue, places, radius, stated))
        except PartialError:
            if len(places) == 1:
                return _Answer(overfull=frozenset((places[0].number,)))
        middle = len(places) // 2
        parts = [self._halving(catalogue, part, radius, stated) for part in (places[:middle], places[middle:])]
        return _Answer([f for p in parts for f in p.found], parts[0].overfull | parts[1].overfull)

    def _asked(
        self, catalogue: Catalogue, places: Sequence[Place], radius: float, stated: frozenset[int]
    ) -> list[Found]:
        request = self._request(catalogue, places, radius)
        what = Asked(catalogue.name, places, radius, catalogue.by_tap, catalogue.keep)

        def read(sheet: Sheet) -> list[Found]:
            return found_in(sheet, what, request.address)

        def check(found: list[Found]) -> None:
            self._check_stated(catalogue, places, radius, stated - {f.place for f in found})

        return self._answered(catalogue, request, read, check if catalogue.service == "xmatch" else None, len(places))

    def _check_stated(
        self, catalogue: Catalogue, places: Sequence[Place], radius: float, empty: frozenset[int]
    ) -> None:
        """Places whose Gaia source the survey states, and where nothing came back, are asked once more by themselves.

        CDS XMatch leaves out places without a source, so that rows lost on the way show only here.
        """
        again = [p for p in reversed(places) if p.number in empty]  # in another order, lest it be the same request
        if again and (found := self._asked(catalogue, again, radius, frozenset())):
            raise AnswerError(
                f"{self.address(catalogue)} left out {len({f.place for f in found}):,} places that have Gaia sources; "
                "ask again later"
            )

    def _request(self, catalogue: Catalogue, places: Sequence[Place], radius: float) -> Request:
        address, most = self.address(catalogue), self.settings.most_rows
        if not catalogue.by_tap:
            return xmatch_request(catalogue, address, places, radius, most)
        if catalogue.name not in self._selects:
            self._selects[catalogue.name] = self._select(catalogue, address)
        return match_request(catalogue, address, places, radius, most, self._selects[catalogue.name])

    def _select(self, catalogue: Catalogue, address: str) -> tuple[list[str], str, str]:
        keep = catalogue.keep
        if catalogue.service in ("gaia", "simbad"):
            return known_select(catalogue.service, keep)
        request = schema_request(catalogue, address)
        columns, role = self._answered(catalogue, request, lambda sheet: columns_in(sheet, catalogue, address), None, 0)
        return schema_select(columns, role, catalogue.name, keep)

    def _answered(
        self,
        catalogue: Catalogue,
        request: Request,
        read: Callable[[Sheet], T],
        check: Callable[[T], None] | None,
        places: int,
    ) -> T:
        """What `read` makes of the answer: of the one on disk, else of the first of several tries that is sound."""
        kept = self.cache.get(request)
        if kept is not None:
            try:
                return read(read_sheet(kept, "", request.address))
            except ServiceError:
                pass  # damaged on disk: asked again
        if reason := self._dead.get(catalogue.name) or self._dead.get(request.address):
            raise GivenUpError(reason)
        for attempt in range(1, self.settings.tries + 1):
            try:
                body, content_type = self._sent(catalogue, request)
                sheet = read_sheet(body, content_type, request.address)
                if sheet.rows >= self.settings.most_rows:  # a service may stop there without a word
                    raise PartialError(f"{request.address} gave {sheet.rows:,} rows, the most that were asked for")
                answer = read(sheet)
                if check is not None:
                    check(answer)
                break
            except ServiceError as e:
                if not e.again or attempt == self.settings.tries:
                    raise
                pause = min(_LONGEST_PAUSE_S, max(e.after, self.settings.backoff_s * 2 ** (attempt - 1)))
                self.tell(f"{e}. Trying again in {pause:g} s ({attempt} of {self.settings.tries})")
                time.sleep(pause)
        self.cache.put(request, body, places, sheet.rows)
        return answer

    def _sent(self, catalogue: Catalogue, request: Request) -> tuple[bytes, str]:
        if catalogue.by_tap:
            return tap_answer(request, self.settings.timeout_s, self.settings.poll_s)
        return xmatch_answer(request, self.settings.timeout_s)
