"""Rows of an answer, joined to the places asked by their number, never by their order; what does not fit is refused."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specvet.catalogue.archive.errors import AnswerError
from specvet.catalogue.archive.names import GAIA
from specvet.catalogue.archive.roles import Roles, roles
from specvet.catalogue.archive.votable import Sheet
from specvet.catalogue.astrometry import carried, separation_arcsec
from specvet.catalogue.plausible import BOUNDS, is_source_id, moves

ID, RA, DEC = "specvet_place", "specvet_ra", "specvet_dec"
"""Columns of the list that is sent; unlike any that a catalogue has."""

_ECHO_ARCSEC = 0.01
"""A place that comes back elsewhere is another row's."""
_SLACK_ARCSEC = 1.0
"""Beyond the radius: services measure at their own epoch, and round."""


@dataclass(frozen=True, slots=True)
class Place:
    """One position that is asked for."""

    number: int
    ra: float
    """Degrees, ICRS."""
    dec: float
    """Degrees."""


@dataclass(frozen=True, slots=True)
class Found:
    """One source near one place, as the catalogue says."""

    place: int
    name: str
    ra: float | None
    """Degrees at `epoch`; None where the catalogue gives none in degrees."""
    dec: float | None
    epoch: float
    """Julian year."""
    pmra: float | None = None
    """mas/yr, with cos δ."""
    pmdec: float | None = None
    type: str = ""
    distance_arcsec: float | None = None
    """As the service measured it, at an epoch of its own."""
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    """Of Gaia: `parallax`, `ruwe`, …"""
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, to hold an answer against."""

    catalogue: str
    places: Sequence[Place]
    radius_arcsec: float
    every_place: bool
    """Whether places without a source must come back too (a LEFT JOIN)."""
    keep: Collection[str] = ()


def found_in(sheet: Sheet, asked: Asked, address: str) -> list[Found]:
    """The sources in an answer, each once.

    Raises `AnswerError` where a needed column is missing, a row is of a place that was not asked or came back
    elsewhere, a source is far from its place, one Gaia source is told in two ways, or places are missing.
    """
    if missing := [name for name in (ID, RA, DEC) if name not in sheet.columns]:
        raise AnswerError(f"{address} did not send back {', '.join(missing)}; columns: {_names(sheet)}")
    places = {place.number: place for place in asked.places}
    numbers = _place_numbers(sheet, places, address)
    _check_echo(sheet, numbers, places, address)
    if asked.every_place and (lost := len(places) - len(set(numbers))):
        raise AnswerError(f"{address} left out {lost:,} of {len(places):,} places; ask again, or in smaller pieces")
    role = roles(sheet, asked.catalogue, address) if sheet.rows else Roles()
    made = (_row(sheet, role, i, number, asked) for i, number in enumerate(numbers))
    result = list({_told(f): f for f in made if f is not None}.values())
    if asked.catalogue == GAIA:
        _check_once(result, address)
    _check_near(result, places, asked.radius_arcsec, address)
    return result


def _place_numbers(sheet: Sheet, places: Mapping[int, Place], address: str) -> list[int]:
    try:
        numbers = [int(value) for value in sheet.columns[ID]]
    except (TypeError, ValueError):
        raise AnswerError(f"{address}: {ID} came back with values that are no numbers; ask again later") from None
    if strange := sorted(set(numbers) - set(places)):
        raise AnswerError(
            f"{address} sent rows that nobody asked for ({ID} {strange[0]}, {len(strange):,} in all); ask again later"
        )
    return numbers


def _check_echo(sheet: Sheet, numbers: Sequence[int], places: Mapping[int, Place], address: str) -> None:
    if not numbers:
        return
    sent = np.array([(places[n].ra, places[n].dec) for n in numbers])
    back: list[Any] = [np.ma.filled(np.ma.asarray(sheet.columns[name], dtype=float), np.nan) for name in (RA, DEC)]
    apart = separation_arcsec(sent[:, 0], sent[:, 1], back[0], back[1])
    if not np.all(apart <= _ECHO_ARCSEC):
        bad = int(np.argmax(~(apart <= _ECHO_ARCSEC)))
        raise AnswerError(f"{address} mixed up its rows: place {numbers[bad]} came back elsewhere; ask again later")


def _row(sheet: Sheet, role: Roles, i: int, place: int, asked: Asked) -> Found | None:
    name = text(sheet, role.name, i)
    ra, dec = number(sheet, role.ra, i), number(sheet, role.dec, i)
    distance = number(sheet, role.distance, i)
    if not name and ra is None and distance is None:
        return None  # of a LEFT JOIN: nothing is there
    epoch = number(sheet, role.epoch_column, i)
    motion = _motion(number(sheet, role.pmra, i), number(sheet, role.pmdec, i), role.motion_scale)
    return Found(
        place=place,
        name=name,
        ra=ra,
        dec=dec,
        epoch=role.epoch if epoch is None else epoch,
        pmra=motion[0],
        pmdec=motion[1],
        type=text(sheet, role.type, i),
        distance_arcsec=distance,
        numbers={word: _sound(word, number(sheet, column, i)) for word, column in role.numbers.items()},
        columns=tuple((column, text(sheet, column, i)) for column in asked.keep if column in sheet.columns),
    )


def _sound(meaning: str, value: float | None) -> float | None:
    """A value, unless no star can have it."""
    low, high = BOUNDS[meaning]
    return value if value is not None and low < value < high else None


def _motion(east: float | None, north: float | None, scale: float) -> tuple[float | None, float | None]:
    """A motion in mas/yr, unless no star can have it."""
    if east is None or north is None or not moves(east * scale, north * scale):
        return None, None
    return east * scale, north * scale


def number(sheet: Sheet, column: str, i: int) -> float | None:
    """The value as a finite number, None where it is missing; of four bytes with the digits that were meant."""
    if not column:
        return None
    value = sheet.columns[column][i]
    if value is np.ma.masked:
        return None
    try:
        found = float(str(value)) if isinstance(value, np.float32) else float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def text(sheet: Sheet, column: str, i: int) -> str:
    """The value as text, whole numbers with all their digits; empty where it is missing."""
    if not column:
        return ""
    value = sheet.columns[column][i]
    if value is np.ma.masked or (isinstance(value, float | np.floating) and not math.isfinite(value)):
        return ""
    said = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return said.strip()


def _told(f: Found) -> tuple[Any, ...]:
    """All but the distance, which services round."""
    return (f.place, f.name, f.ra, f.dec, f.pmra, f.pmdec, f.type, tuple(f.numbers.items()), f.columns)


def _check_once(sources: Sequence[Found], address: str) -> None:
    """A Gaia source has digits, a position and one row; two rows that differ mean that an answer cannot be trusted."""
    told: dict[str, tuple[Any, ...]] = {}
    for f in sources:
        if not is_source_id(f.name) or f.ra is None or f.dec is None:
            raise AnswerError(f"{address} sent a Gaia source `{f.name}` without an id in digits or a position")
        if told.setdefault(f.name, _told(f)[2:]) != _told(f)[2:]:
            raise AnswerError(f"{address} says two different things of Gaia source {f.name}; ask again later")


def _check_near(sources: Sequence[Found], places: Mapping[int, Place], radius: float, address: str) -> None:
    placed = [f for f in sources if f.ra is not None and f.dec is not None]
    if placed:
        here = np.array([(places[f.place].ra, places[f.place].dec) for f in placed])
        ra, dec, pmra, pmdec, epoch = np.array([(f.ra, f.dec, f.pmra or 0, f.pmdec or 0, f.epoch) for f in placed]).T
        apart = np.minimum(
            separation_arcsec(here[:, 0], here[:, 1], ra, dec),
            separation_arcsec(here[:, 0], here[:, 1], *carried(ra, dec, pmra, pmdec, epoch, 2000.0)),
        )
        if (worst := float(np.max(apart))) > radius + _SLACK_ARCSEC:
            f = placed[int(np.argmax(apart))]
            raise AnswerError(
                f"{address} sent {f.name or 'a source'} for place {f.place}, {worst:,.0f}″ away, where {radius:g}″ "
                "were asked; ask again later"
            )


def _names(sheet: Sheet) -> str:
    return ", ".join(list(sheet.columns)[:12]) or "none"
