"""Which row of a table lies where a spectrum was taken, at the time it was taken.

1. A tree over the spectra gives, for each row, all spectra within the radius plus the way the row can have moved.
2. For these pairs the row is carried to the epoch of the spectrum, and separations are measured exactly.
3. A spectrum takes the nearest row. Where a row is the nearest of several spectra that are plainly of different places,
   only those near the closest one keep it; another takes its next nearest, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.catalogue.astrometry import carried, julian_year, separation_arcsec, unit_vectors
from specvet.catalogue.matching.table import Table
from specvet.catalogue.sighting import Sighting

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MJD_RANGE = (15_000.0, 100_000.0)
"""From 1899 to 2132; another number is no date of an observation."""

_LONGEST_YEARS = 40.0
"""Between the epoch of a list and an observation: a star that moves less than the radius in it is never missed."""

_BLOCK = 200_000
"""Rows of a table that are looked up at once."""


@dataclass(frozen=True, slots=True)
class Spots:
    """Places and times of spectra as arrays, shape (n,); nan where not known."""

    ra: Floats
    dec: Floats
    year: Floats
    """Julian years."""

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Which of them have a position."""
        return np.isfinite(self.ra) & np.isfinite(self.dec)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Spectra and rows that lie within the radius of each other, by spectrum and then separation; shape (n_pairs,)."""

    spot: Integers
    row: Integers
    arcsec: Floats
    """At the epoch of observation."""
    east: Floats
    """Of the spectrum from the row, arcsec."""
    north: Floats


def spots(sightings: Sequence[Sighting]) -> Spots:
    """The arrays of a list of sightings."""

    def number(values: list[float | None]) -> Floats:
        return np.array([np.nan if v is None else v for v in values], dtype=np.float64)

    mjd = number([s.mjd for s in sightings])
    mjd[~((mjd > MJD_RANGE[0]) & (mjd < MJD_RANGE[1]))] = np.nan
    return Spots(number([s.ra for s in sightings]), number([s.dec for s in sightings]), julian_year(mjd))


def pairs(where: Spots, table: Table, radius_arcsec: float, least_motion: float = 0.0) -> Pairs:
    """All pairs within the radius at the epoch of observation; at the row's own epoch where that is not known.

    `least_motion`, mas/yr, leaves out slower rows, and those whose motion is not known.
    """
    from scipy.spatial import cKDTree

    placed = np.flatnonzero(where.placed)
    wanted = np.isfinite(table.ra) & np.isfinite(table.dec)
    if least_motion > 0:
        wanted &= np.hypot(table.pmra, table.pmdec) >= least_motion
    rows = np.flatnonzero(wanted)
    found: list[tuple[Integers, Integers]] = []
    if placed.size and rows.size:
        tree = cKDTree(unit_vectors(where.ra[placed], where.dec[placed]))
        for start in range(0, rows.size, _BLOCK):
            block = rows[start : start + _BLOCK]
            reach = radius_arcsec + 0.01 + _way(table, block, where.year)
            chord = 2.0 * np.sin(np.radians(np.minimum(reach / 3600.0, 180.0)) / 2.0) * (1 + 1e-9)
            places = unit_vectors(table.ra[block], table.dec[block])
            some = np.flatnonzero(tree.query_ball_point(places, chord, return_length=True))
            near = tree.query_ball_point(places[some], chord[some])
            counts = np.array([len(of_row) for of_row in near], dtype=np.int64)
            if counts.sum():
                found.append((placed[np.concatenate([n for n in near if n]).astype(np.int64)],
                              np.repeat(block[some], counts)))  # fmt: skip
    spot, row = (np.concatenate([f[k] for f in found]) if found else np.zeros(0, dtype=np.int64) for k in (0, 1))
    return _exact(where, table, spot, row, radius_arcsec)


def at_epoch(table: Table, rows: Sequence[int], sighting: Sighting) -> Floats:
    """Arcsec from one sighting to some rows, carried to its epoch; nan where a place is missing."""
    return _separations(spots([sighting]), table, np.zeros(len(rows), dtype=np.int64), np.asarray(rows, dtype=np.int64))


def missed(where: Spots, table: Table, radius_arcsec: float) -> dict[int, tuple[int, float, float]]:
    """Of spectra without a match: (row that was there at another epoch, that year, arcsec from it when observed).

    Lists often give places of 2000.0, or of the catalogue that they were made from, for spectra of any date.
    """
    found: dict[int, tuple[int, float, float]] = {}
    dated = np.isfinite(where.year)
    slowest = 1000.0 * radius_arcsec / _LONGEST_YEARS
    for year in (2000.0, np.nan):
        then = Spots(np.where(dated, where.ra, np.nan), where.dec, np.full(where.ra.size, year))
        near = pairs(then, table, radius_arcsec, slowest)
        moved = _separations(where, table, near.spot, near.row)
        for spot, row, arcsec in zip(near.spot.tolist(), near.row.tolist(), moved.tolist(), strict=True):
            found.setdefault(spot, (row, table.epoch[row] if np.isnan(year) else year, arcsec))
    return found


def _separations(where: Spots, table: Table, spot: Integers, row: Integers) -> Floats:
    """Arcsec from spectra to rows that were carried to their epochs."""
    ra, dec = carried(
        table.ra[row], table.dec[row], table.pmra[row], table.pmdec[row], table.epoch[row], where.year[spot]
    )
    return separation_arcsec(where.ra[spot], where.dec[spot], ra, dec)


def _way(table: Table, rows: Integers, years: Floats) -> Floats:
    """Arcsec that each row may have moved between its epoch and any of the years."""
    known = years[np.isfinite(years)]
    if not known.size:
        return np.zeros(rows.size)
    longest = np.maximum(np.abs(known.max() - table.epoch[rows]), np.abs(table.epoch[rows] - known.min()))
    way: Floats = np.nan_to_num(np.hypot(table.pmra[rows], table.pmdec[rows])) / 1000.0 * longest
    return way


def _exact(where: Spots, table: Table, spot: Integers, row: Integers, radius_arcsec: float) -> Pairs:
    ra, dec = carried(
        table.ra[row], table.dec[row], table.pmra[row], table.pmdec[row], table.epoch[row], where.year[spot]
    )
    arcsec = separation_arcsec(where.ra[spot], where.dec[spot], ra, dec)
    east, north = _offsets(ra, dec, where.ra[spot], where.dec[spot])
    keep = np.flatnonzero(arcsec <= radius_arcsec)
    keep = keep[np.lexsort((row[keep], arcsec[keep], spot[keep]))]
    return Pairs(spot[keep], row[keep], arcsec[keep], east[keep], north[keep])


def _offsets(ra: Floats, dec: Floats, to_ra: Floats, to_dec: Floats) -> tuple[Floats, Floats]:
    """Arcsec east and north from one place to another nearby, in the tangent plane; the poles are no exception."""
    alpha, delta = np.radians(ra), np.radians(dec)
    way = unit_vectors(to_ra, to_dec) - unit_vectors(ra, dec)
    east = -np.sin(alpha) * way[..., 0] + np.cos(alpha) * way[..., 1]
    north = (
        -np.sin(delta) * np.cos(alpha) * way[..., 0]
        - np.sin(delta) * np.sin(alpha) * way[..., 1]
        + np.cos(delta) * way[..., 2]
    )
    to_arcsec = np.degrees(1.0) * 3600.0
    return east * to_arcsec, north * to_arcsec


def assigned(found: Pairs, n: int, radius_arcsec: float) -> tuple[Integers, Floats, Integers]:
    """(row, separation in arcsec, nearest row that another spectrum kept) of each of `n` spectra; −1 and nan for none.

    Pairs are taken from the closest on. A row that one spectrum has taken is open to another only within half a radius
    of it: these are spectra of one star, the others of its neighbour.
    """
    taken = np.full(n, -1, dtype=np.int64)
    lost = np.full(n, -1, dtype=np.int64)
    apart = np.full(n, np.nan)
    first: dict[int, tuple[float, float]] = {}
    order: Any = np.argsort(found.arcsec, kind="stable")
    columns = (found.spot, found.row, found.arcsec, found.east, found.north)
    for spot, row, arcsec, east, north in zip(*(column[order].tolist() for column in columns), strict=True):
        if taken[spot] >= 0:
            continue
        x, y = first.setdefault(row, (east, north))
        if np.hypot(east - x, north - y) <= radius_arcsec / 2:
            taken[spot], apart[spot] = row, arcsec
        elif lost[spot] < 0:
            lost[spot] = row
    return taken, apart, lost
