"""Which labels are about one object, so that a split leaves it on one side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specvet.data.splits import linked

SAME_OBJECT_ARCSEC = 2.0
"""Spectra this near on the sky are of one object, unless the table gives both an object_id."""

Place = tuple[str, int]
"""Absolute path and row: one spectrum."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A label's spectrum, and what is known of its object."""

    file: str
    row: int
    name: str
    object_id: str
    """Empty where the table gives none."""
    position: tuple[float, float] | None
    """Right ascension and declination, degrees."""


def objects_of(found: Sequence[Sighting]) -> list[str]:
    """The object of each. One spectrum is of one object, and so are spectra that share an object_id.

    Spectra at one place on the sky are of one object too, unless both have an object_id: then the table knows better.
    An object is called by its least object_id, else by the least of its spectra's names.
    """
    places = [(os.path.abspath(f.file), f.row) for f in found]
    nodes = {place: f"spectrum {i}" for i, place in enumerate(dict.fromkeys(places))}
    named = {place for place, f in zip(places, found, strict=True) if f.object_id}
    pairs = [
        (nodes[place], f"object {f.object_id}" if f.object_id else nodes[place])
        for place, f in zip(places, found, strict=True)
    ]
    at = {p: f.position for p, f in zip(places, found, strict=True) if f.position is not None}
    pairs += [(nodes[a], nodes[b]) for a, b in _near(at) if a not in named or b not in named]
    root = linked(pairs)
    called: dict[str, tuple[bool, str]] = {}
    for place, f in zip(places, found, strict=True):
        name = (not f.object_id, f.object_id or f.name)
        called[root[nodes[place]]] = min(called.get(root[nodes[place]], name), name)
    taken = {title for is_file, title in called.values() if not is_file}
    titles: dict[str, str] = {}
    for key, (is_file, title) in called.items():
        own, n = title, 1
        while is_file and own in taken:  # a file that is called as another object is
            n += 1
            own = f"{title}-{n}"
        titles[key] = own
        taken.add(own)
    return [titles[root[nodes[place]]] for place in places]


def _near(at: Mapping[Place, tuple[float, float]]) -> list[tuple[Place, Place]]:
    """Pairs within `SAME_OBJECT_ARCSEC`."""
    if len(at) < 2:
        return []
    from scipy.spatial import cKDTree

    ra, dec = np.radians(np.array([*at.values()], dtype=float)).T
    points = np.stack([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)], axis=1)
    places = list(at)
    near = cKDTree(points).query_pairs(np.radians(SAME_OBJECT_ARCSEC / 3600.0))
    return [(places[i], places[j]) for i, j in sorted(near)]
