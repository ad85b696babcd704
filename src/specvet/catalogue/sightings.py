"""Where and when the spectra of a run were taken: `Sighting`s from its decisions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from specvet.catalogue.sighting import Key, Sighting
from specvet.records import Decision

GAIA_IDS = ("gaia_dr3", "gaia_dr3_source_id", "gaia_source_id", "gaiadr3")
"""Names under which files state a Gaia DR3 source id; ids of DR2 may differ and are not taken."""

_NAMED = re.compile(r"Gaia (?:E?DR3) (\d{1,19})")


def sightings_of(decisions: Iterable[Decision]) -> list[Sighting]:
    """One sighting for each (file, row), in the order of the decisions; the first about it counts."""
    found: dict[Key, Sighting] = {}
    for decision in decisions:
        key = decision.file, decision.row
        if key not in found:
            found[key] = sighting_of(decision)
    return list(found.values())


def sighting_of(decision: Decision) -> Sighting:
    """Place and time of the spectrum that a decision is about."""
    ids = tuple(decision.ids.items())
    return Sighting(
        key=(decision.file, decision.row),
        id=decision.id,
        ra=decision.ra,
        dec=decision.dec,
        mjd=decision.mjd,
        gaia_id=_gaia_id(decision.id, ids),
        survey=decision.survey,
        ids=ids,
        snr=decision.snr,
    )


def _gaia_id(id: str, ids: tuple[tuple[str, str], ...]) -> str:
    stated = {name.lower(): value for name, value in ids}
    for name in GAIA_IDS:
        value = stated.get(name, "").strip()
        if value.isdecimal() and int(value) > 0:
            return value
    named = _NAMED.fullmatch(id.strip())
    return named[1] if named else ""
