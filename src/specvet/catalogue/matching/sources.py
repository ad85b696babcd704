"""Whoever says what is at the places of spectra: a `Source`. A user's table is one; archives are others.

To add one, write a class with `name`, `told` and `matches`; `specvet.catalogue.matching.run` does the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specvet.catalogue.astrometry import unit_vectors
from specvet.catalogue.matching.nearest import Pairs, Spots, assigned, at_epoch, missed, pairs, spots
from specvet.catalogue.matching.table import Table
from specvet.catalogue.sighting import Gaia, Known, Match, Sighting

Progress = Callable[[str, int, int], None]
"""Told (what is done, how many, of how many)."""

GAIA = "gaia"
"""Under which Gaia stands in `Match.asked`, whatever its table is called."""


LEAST_DIGITS = 12
"""Of an id that a list gives without saying whose it is, to be held against Gaia's."""


class Source(Protocol):
    """Says what is known of places."""

    @property
    def name(self) -> str:
        """Under which its answers are kept; a second source of that name replaces the first."""
        ...

    @property
    def told(self) -> dict[str, Any]:
        """What makes it the same source as before, for the receipt: hashes, versions, settings; plain JSON."""
        ...

    @property
    def complete(self) -> bool:
        """Asked after `matches` is through: whether all was answered. What is not complete is asked again next time."""
        ...

    def matches(self, sightings: Sequence[Sighting], radius_arcsec: float, progress: Progress) -> Iterable[Match]:
        """A match for each sighting that was asked about, found or not, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class TableSource:
    """A table that the user has."""

    table: Table

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def told(self) -> dict[str, Any]:
        return self.table.told

    @property
    def complete(self) -> bool:
        return True

    def matches(self, sightings: Sequence[Sighting], radius_arcsec: float, progress: Progress) -> Iterator[Match]:
        """See `Source`. Sightings without a place, or where the table has no rows far around, are not asked about."""
        table, where = self.table, spots(sightings)
        progress(f"matching {table.name}", 0, len(sightings))
        found = pairs(where, table, radius_arcsec)
        taken, apart, lost = assigned(found, len(sightings), radius_arcsec)
        rivals = _rivals(found, len(sightings))
        covered = where.placed & covers(table, where.ra, where.dec, radius_arcsec)
        by_id = _rows_by_id(table) if table.gaia else {}
        alone = taken < 0
        elsewhere = missed(Spots(np.where(alone, where.ra, np.nan), where.dec, where.year), table, radius_arcsec)
        for i, sighting in enumerate(sightings):
            row, arcsec, notes = int(taken[i]), float(apart[i]), list[str]()
            stated = by_id.get(sighting.gaia_id or _long(sighting.id), [])
            if stated:
                row, arcsec, notes = _stated(table, stated, sighting, radius_arcsec)
            elif table.gaia and sighting.gaia_id and by_id:
                notes.append(f"the stated Gaia id {sighting.gaia_id} is not in {table.name}")
            if row < 0 and not covered[i]:
                continue
            if row >= 0 and not stated:
                notes += self._doubts(rivals.get(i, ()), row, arcsec, radius_arcsec)
            elif row < 0:
                notes += self._missed(int(lost[i]), elsewhere.get(i))
            if row >= 0 and np.isnan(where.year[i]) and np.hypot(table.pmra[row], table.pmdec[row]) > 0:
                notes.append(f"no date of observation: {table.name} at its own epoch, {table.epoch[row]:g}")
            yield self._match(sighting, row, arcsec, tuple(notes))
        progress(f"matching {table.name}", len(sightings), len(sightings))

    def _doubts(self, near: Iterable[tuple[int, float]], row: int, arcsec: float, radius: float) -> Iterator[str]:
        others = [(r, s) for r, s in near if r != row]
        same = [
            r for r, _ in others if self.table.ids and self.table.ids[r] and self.table.ids[r] == self.table.ids[row]
        ]
        others = [(r, s) for r, s in others if r not in same]
        if same:
            times = f"{len(same) + 1} times in {self.table.name}"
            yield f"{_label(self.table, row)} stands {times}; the nearest row was taken"
        if others:
            apart = ", ".join(f"{s:.2f}″" for s in sorted([arcsec, *(s for _, s in others)])[:4])
            yield f"{len(others) + 1} sources of {self.table.name} within {radius:g}″ ({apart}); the nearest was taken"

    def _missed(self, lost: int, elsewhere: tuple[int, float, float] | None) -> Iterator[str]:
        """Why a spectrum without a match may yet be of a star of this table."""
        if lost >= 0:
            yield f"the nearest row of {self.table.name}, {_label(self.table, lost)}, is nearer to another spectrum"
        elif elsewhere is not None:
            row, year, arcsec = elsewhere
            yield (
                f"{_label(self.table, row)} was here in {year:g} and {arcsec:.1f}″ away when this was observed; is the "
                "position of that year? Not taken"
            )

    def _match(self, sighting: Sighting, row: int, arcsec: float, notes: tuple[str, ...]) -> Match:
        table = self.table
        separation = None if np.isnan(arcsec) else round(arcsec, 4)
        if table.gaia:
            gaia = None if row < 0 else gaia_of(table, row)
            return Match(sighting.key, gaia, separation if gaia else None, asked=(GAIA,), notes=notes)
        if row < 0:
            return Match(sighting.key, asked=(table.name,), notes=notes)
        known = Known(
            catalogue=table.name,
            name=table.names[row] if table.names else "",
            type=table.types[row] if table.types else "",
            separation_arcsec=separation,
            columns=tuple((name, values[row]) for name, values in table.kept.items()),
        )
        return Match(sighting.key, known=(known,), asked=(table.name,), notes=notes)


def gaia_of(table: Table, row: int) -> Gaia:
    """A row as Gaia's record."""
    values = {name: _number(column[row]) for name, column in table.values.items()}
    return Gaia(
        source_id=table.ids[row] if table.ids else "",
        ra=float(table.ra[row]),
        dec=float(table.dec[row]),
        epoch=float(table.epoch[row]),
        pmra=_number(table.pmra[row]),
        pmdec=_number(table.pmdec[row]),
        **values,
    )


def covers(table: Table, ra: Any, dec: Any, radius_arcsec: float) -> Any:
    """Whether places lie where the table has rows: in the smallest cap about the middle of its rows, a degree wider.

    A table over the whole sky covers all of it; one of a field covers that field. What lies outside was not asked
    about, so that it is not called new.
    """
    places = unit_vectors(table.ra, table.dec)
    places = places[np.isfinite(places).all(axis=-1)]
    here = np.nan_to_num(unit_vectors(ra, dec))
    if not len(places):
        return np.zeros(len(here), dtype=bool)
    middle = places.mean(axis=0)
    length = float(np.linalg.norm(middle))
    if length < 1e-6:
        return np.ones(len(here), dtype=bool)
    middle /= length
    reach = np.arccos(np.clip(places @ middle, -1, 1).min()) + np.radians(1.0 + radius_arcsec / 3600.0)
    return np.arccos(np.clip(here @ middle, -1, 1)) <= reach


def merged(first: Match | None, second: Match) -> Match:
    """What two sources say of one spectrum; of two Gaia sources the nearer, and the first where both are as near."""
    if first is None:
        return second
    assert first.key == second.key
    ours, theirs = (np.inf if m.gaia_separation_arcsec is None else m.gaia_separation_arcsec for m in (first, second))
    best = second if second.gaia is not None and (first.gaia is None or theirs < ours) else first
    return dataclasses.replace(
        best,
        known=(*first.known, *second.known),
        asked=tuple(dict.fromkeys((*first.asked, *second.asked))),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
    )


def known_as(match: Match) -> str | None:
    """`vsx: U Gem (UGSS); simbad: …`, or `new` where catalogues were asked and none knows it; None where none was."""
    if match.known:
        return "; ".join(
            f"{k.catalogue}: {k.name or 'unnamed'}" + (f" ({k.type})" if k.type else "") for k in match.known
        )
    return "new" if any(name != GAIA for name in match.asked) else None


def _rivals(found: Pairs, n: int) -> dict[int, list[tuple[int, float]]]:
    """Spectrum → (row, separation) of all rows within the radius, for spectra that have more than one."""
    counts = np.bincount(found.spot, minlength=n)
    several = counts[found.spot] > 1
    rivals: dict[int, list[tuple[int, float]]] = {}
    for spot, row, arcsec in zip(
        found.spot[several].tolist(), found.row[several].tolist(), found.arcsec[several].tolist(), strict=True
    ):
        rivals.setdefault(spot, []).append((row, arcsec))
    return rivals


def _rows_by_id(table: Table) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, id in enumerate(table.ids):
        if id:
            rows.setdefault(id, []).append(row)
    return rows


def _stated(table: Table, rows: list[int], sighting: Sighting, radius: float) -> tuple[int, float, list[str]]:
    """The row of a stated id, the nearest of several, with what is odd about it."""
    apart = at_epoch(table, rows, sighting)
    best = int(np.nanargmin(apart)) if np.isfinite(apart).any() else 0
    notes = []
    if len(rows) > 1:
        notes.append(f"{_label(table, rows[0])} stands {len(rows)} times in {table.name}; the nearest row was taken")
    if apart[best] > radius:
        notes.append(f"the stated Gaia id lies {apart[best]:.1f}″ from the spectrum's place")
    return rows[best], float(apart[best]), notes


def _long(id: str) -> str:
    """The id of a list where it may be one of Gaia's, which a row number is not; it counts if the table has it."""
    return id if len(id) >= LEAST_DIGITS else ""


def _label(table: Table, row: int) -> str:
    if table.gaia:
        return f"Gaia {table.ids[row]}" if table.ids and table.ids[row] else f"row {row + 1}"
    return table.names[row] if table.names and table.names[row] else f"row {row + 1}"


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
