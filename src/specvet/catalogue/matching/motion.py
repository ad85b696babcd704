"""Names of fast stars in tables that give no proper motions: by Gaia's motion, where the star was at the table's epoch.

VSX and most lists of names have places of J2000.0 and no motions. What such a table does not have at the place of a
spectrum is looked for where the star's Gaia source was at the table's epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from specvet.catalogue.astrometry import carried, separation_arcsec
from specvet.catalogue.matching.sources import TableSource
from specvet.catalogue.matching.table import Table
from specvet.catalogue.sighting import Gaia, Key, Match, Sighting


def still_epoch(table: Table) -> float | None:
    """The Julian year of a table of names without any proper motion; None for all other tables, and several years."""
    if table.gaia or np.nan_to_num(table.pmra).any() or np.nan_to_num(table.pmdec).any():
        return None
    years = np.unique(table.epoch[np.isfinite(table.epoch)])
    return float(years[0]) if years.size == 1 else None


def sightings_in(
    year: float, sightings: Sequence[Sighting], gaia: Mapping[Key, Gaia], radius_arcsec: float
) -> list[Sighting]:
    """Sightings put where their Gaia sources were in `year`, without a date; only those a radius away from there."""
    moved: list[Sighting] = []
    for s in sightings:
        source = gaia.get(s.key)
        if source is None or source.pmra is None or source.pmdec is None or s.ra is None or s.dec is None:
            continue
        ra, dec = carried(source.ra, source.dec, source.pmra, source.pmdec, source.epoch, year)
        if separation_arcsec(s.ra, s.dec, ra, dec) > radius_arcsec:
            moved.append(dataclasses.replace(s, ra=float(ra), dec=float(dec), mjd=None))
    return moved


def with_moved(
    said: Iterable[Match], source: TableSource, moved: Sequence[Sighting], radius_arcsec: float
) -> list[Match]:
    """What a table says of spectra, and where it knows nothing at their places, what it says of those moved ones."""
    found = {match.key: match for match in said}
    year = still_epoch(source.table)
    for there in source.matches(moved, radius_arcsec, lambda doing, done, total: None):
        before = found.get(there.key)
        if there.known and (before is None or not before.known):
            note = f"{source.name} has it where it was in {year:g} by Gaia's motion"
            found[there.key] = dataclasses.replace(there, notes=(*there.notes, note))
        elif before is None:
            found[there.key] = there
    return list(found.values())
