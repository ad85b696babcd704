"""Which of the sources near a place is the star: the nearest at the epoch of observation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.catalogue.archive.found import Found
from specvet.catalogue.archive.names import GAIA
from specvet.catalogue.astrometry import carried, separation_arcsec
from specvet.catalogue.matching.nearest import spots
from specvet.catalogue.sighting import Gaia, Known, Match, Sighting

_J2000 = 2000.0


@dataclass(frozen=True, slots=True)
class Near:
    """A source near a sighting."""

    found: Found
    separation: float
    """Arcsec, at the epoch of observation as far as a motion is known."""
    unmoved: float
    """Arcsec, the least of those at the catalogue's own epoch and at J2000.0."""


def chosen(
    sightings: Sequence[Sighting],
    places: Sequence[int],
    answers: Mapping[str, Sequence[Found]],
    answered: Mapping[str, frozenset[int]],
    unasked: Mapping[str, str],
    radius_arcsec: float,
) -> list[dict[str, Match]]:
    """What each catalogue says of each sighting, in order.

    `places` are the numbers of the sightings' places, `answers` the sources by catalogue, `answered` the places that
    each catalogue answered for, `unasked` why a catalogue did not, for all of them.
    """
    gaia = _near(sightings, places, answers.get(GAIA, ()), None)
    stars = [_star(sighting, near, radius_arcsec) for sighting, near in zip(sightings, gaia, strict=True)]
    motions = np.array([(math.nan, math.nan) if s is None else _motion(s.found) for s, _ in stars]).reshape(-1, 2)
    others = {name: _near(sightings, places, found, motions) for name, found in answers.items() if name != GAIA}
    made: list[dict[str, Match]] = []
    for i, (sighting, place) in enumerate(zip(sightings, places, strict=True)):
        said = {}
        for name, why in unasked.items():
            if place not in answered.get(name, ()):
                said[name] = Match(sighting.key, notes=(f"{name} was not asked: {why}",))
            elif name == GAIA:
                said[name] = _gaia_match(sighting, *stars[i])
            else:
                said[name] = _known_match(sighting, name, others[name][i], radius_arcsec)
        made.append(said)
    return made


def _gaia_match(sighting: Sighting, star: Near | None, notes: Sequence[str]) -> Match:
    if star is None:
        return Match(sighting.key, asked=(GAIA,), notes=tuple(notes))
    return Match(sighting.key, gaia_of(star.found), round(star.separation, 4), asked=(GAIA,), notes=tuple(notes))


def _known_match(sighting: Sighting, name: str, near: Sequence[Near], radius: float) -> Match:
    inside = [n for n in near if n.separation <= radius]
    notes = (f"{len(inside)} objects of {name} within {radius:g}″; the nearest was taken",) if len(inside) > 1 else ()
    known = () if not inside else (_known(name, inside[0]),)
    return Match(sighting.key, known=known, asked=(name,), notes=notes)


def gaia_of(f: Found) -> Gaia:
    """What Gaia says, as the rest of specvet knows it. Without BP − RP it is made of the two magnitudes."""
    assert f.ra is not None
    assert f.dec is not None
    told = dict(f.numbers)
    bp, rp = told.pop("bp", None), told.pop("rp", None)
    if told.get("bp_rp") is None and bp is not None and rp is not None:
        told["bp_rp"] = bp - rp
    return Gaia(f.name, f.ra, f.dec, f.epoch, f.pmra, f.pmdec, **told)


def _known(catalogue: str, near: Near) -> Known:
    f = near.found
    return Known(catalogue, f.name, f.type, round(near.separation, 4), f.columns)


def _motion(f: Found) -> tuple[float, float]:
    return (math.nan if f.pmra is None else f.pmra, math.nan if f.pmdec is None else f.pmdec)


def _star(sighting: Sighting, near: Sequence[Near], radius: float) -> tuple[Near | None, list[str]]:
    """The Gaia source that is the star, and what a person should know of the choice."""
    inside = [n for n in near if n.separation <= radius]
    stated = next((n for n in inside if n.found.name == sighting.gaia_id), None)
    notes = []
    if not inside and (missed := min(near, key=lambda n: n.unmoved, default=None)) and missed.unmoved <= radius:
        notes.append(
            f"Gaia {missed.found.name} lies {missed.unmoved:.1f}″ away at the catalogue's epoch but "
            f"{missed.separation:.1f}″ on the day of observation; is the position of another epoch?"
        )
    if sighting.gaia_id and inside and stated is None:
        notes.append(f"the spectrum's file states Gaia {sighting.gaia_id}, which is not within {radius:g}″")
    if stated is not None and stated is not inside[0]:
        notes.append(f"Gaia {inside[0].found.name} is nearer; the source that the file states was taken")
    elif len(inside) > 1:
        notes.append(f"{len(inside)} Gaia sources within {radius:g}″; the nearest was taken")
    return stated or (inside[0] if inside else None), notes


def _near(
    sightings: Sequence[Sighting],
    places: Sequence[int],
    found: Sequence[Found],
    motions: NDArray[np.float64] | None,
) -> list[list[Near]]:
    """For each sighting the sources near it, the nearest first.

    A source without a motion of its own is held against the place where the star, moving as Gaia says (`motions`,
    mas/yr), was at the catalogue's epoch.
    """
    at: dict[int, list[Found]] = defaultdict(list)
    for f in found:
        at[f.place].append(f)
    pairs = [(i, f) for i, place in enumerate(places) for f in at[place]]
    result: list[list[Near]] = [[] for _ in sightings]
    if not pairs:
        return result
    rows = np.array([i for i, _ in pairs])
    where = spots(sightings)
    here, years = (where.ra[rows], where.dec[rows]), where.year[rows]
    ra, dec, pmra, pmdec, epoch = np.array([_numbers(f) for _, f in pairs]).T
    apart = separation_arcsec(*here, *carried(ra, dec, pmra, pmdec, epoch, years))
    if motions is not None:
        back = carried(*here, motions[rows, 0], motions[rows, 1], years, epoch)
        apart = np.where(np.isnan(pmra), separation_arcsec(*back, ra, dec), apart)
    in_2000 = carried(ra, dec, pmra, pmdec, epoch, _J2000)
    unmoved = np.minimum(separation_arcsec(*here, ra, dec), separation_arcsec(*here, *in_2000))
    measured = np.array([math.inf if f.distance_arcsec is None else f.distance_arcsec for _, f in pairs])
    apart = np.where(np.isnan(apart), measured, apart)
    for (i, f), separation, least in zip(pairs, apart.tolist(), unmoved.tolist(), strict=True):
        result[i].append(Near(f, separation, least))
    for near in result:
        near.sort(key=lambda n: (n.separation, n.found.name))
    return result


def _numbers(f: Found) -> tuple[float, ...]:
    return tuple(math.nan if v is None else v for v in (f.ra, f.dec, f.pmra, f.pmdec, f.epoch))
