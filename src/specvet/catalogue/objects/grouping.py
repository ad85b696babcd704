"""Spectra of one star: by Gaia source id, else by place.

1. Spectra with one Gaia DR3 source id, stated or matched, are one object, wherever they are said to lie. What a file or
   list states goes before a match. Two ids are never one object.
2. A spectrum with a place only joins the object with a Gaia id of which a spectrum, or Gaia's own place, lies within
   the radius; the nearest where there are several. Places are carried to the epoch of that spectrum where a match gives
   the proper motion and both epochs are known.
3. The rest are friends of friends within the radius, see `friends`.
4. A spectrum without a place and without a Gaia id is an object of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from specvet.catalogue.astrometry import carried, julian_year, separation_arcsec, unit_vectors
from specvet.catalogue.objects.friends import chord, friends, mean_places
from specvet.catalogue.objects.naming import gaia_name, iau_name
from specvet.catalogue.sighting import Gaia, Key, Match, Sighting

RADIUS_ARCSEC = 2.0
"""Usual: fibres of the surveys are 2-3.3″ wide, and their positions agree within some 0.5″."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Group:
    """One object: all spectra of one star."""

    id: str
    """`Gaia DR3 …`, else `J123456.78+123456.7`; `FILE:ROW` of a spectrum without a place."""
    gaia_id: str
    """Gaia DR3 source id, digits; empty where none is known."""
    ra: float | None
    """Degrees, ICRS: of the mean place of its spectra; None without any place."""
    dec: float | None
    """Degrees."""
    members: tuple[Sighting, ...]
    """By time, those without one last."""
    notes: tuple[str, ...] = ()
    """For people: `a spectrum of it lies within 2″ of 2 Gaia sources; the nearest was taken`."""

    @property
    def mjds(self) -> tuple[float, ...]:
        """Of the spectra that state one, rising."""
        return tuple(s.mjd for s in self.members if s.mjd is not None)


def group(
    sightings: Iterable[Sighting], radius_arcsec: float = RADIUS_ARCSEC, matches: Mapping[Key, Match] | None = None
) -> list[Group]:
    """The objects that spectra are of, by right ascension, whatever the order of the spectra.

    A spectrum is of exactly one object. `matches` adds Gaia ids and proper motions (`read_matches`). A place that is
    none (not finite, a declination beyond ±90) counts as missing. Raises ValueError for a radius that is not positive,
    or a (file, row) that comes twice.
    """
    if not 0.0 < radius_arcsec < math.inf:
        raise ValueError(f"radius {radius_arcsec:g}: give arcseconds above 0, such as {RADIUS_ARCSEC:g}")
    seen = sorted(sightings, key=lambda s: s.key)
    for one, two in pairwise(seen):
        if one.key == two.key:
            raise ValueError(f"{one.key[0]} row {one.key[1]}: comes twice among the spectra; give each once")
    known = matches or {}
    gaia_ids, notes = _gaia_ids(seen, known)
    ra, dec = _places(seen)
    placed = np.isfinite(ra)
    names = sorted({g for g in gaia_ids if g})
    number = {name: i for i, name in enumerate(names)}
    label = np.array([number.get(g, -1) for g in gaia_ids], dtype=np.int64)
    _join_gaia(seen, known, number, label, ra, dec, radius_arcsec, notes)
    rest = np.flatnonzero((label < 0) & placed)
    found, divided = friends(unit_vectors(ra[rest], dec[rest]), radius_arcsec)
    label[rest] = len(names) + found
    for i in rest[divided]:
        notes[i] = f"stood in a chain of spectra within {radius_arcsec:g}″ of each other that was divided"
    lost = np.flatnonzero(label < 0)
    label[lost] = len(names) + (int(found.max()) + 1 if found.size else 0) + np.arange(lost.size)
    return _groups(
        seen, label, names, (ra, dec), _at_one_date(seen, known, label, names, ra, dec), notes, radius_arcsec
    )


def _gaia_ids(seen: Sequence[Sighting], known: Mapping[Key, Match]) -> tuple[list[str], dict[int, str]]:
    ids, notes = [], {}
    for i, s in enumerate(seen):
        match = known.get(s.key)
        matched = match.gaia.source_id if match is not None and match.gaia is not None else ""
        if s.gaia_id and matched and s.gaia_id != matched:
            notes[i] = f"states Gaia DR3 {s.gaia_id}, which was taken; the match found {matched}"
        ids.append(s.gaia_id or matched)
    return ids, notes


def _places(seen: Sequence[Sighting]) -> tuple[Floats, Floats]:
    """(n,) degrees, nan for both where either is missing or no angle."""
    nan = math.nan
    pairs = [(nan if s.ra is None else s.ra, nan if s.dec is None else s.dec) for s in seen]
    both = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    fits = np.isfinite(both).all(axis=1) & (np.abs(both[:, 1]) <= 90.0) & (np.abs(both[:, 0]) <= 360.0)
    both[~fits] = nan
    return both[:, 0] % 360.0, both[:, 1]


def _join_gaia(
    seen: Sequence[Sighting],
    known: Mapping[Key, Match],
    number: Mapping[str, int],
    label: NDArray[np.int64],
    ra: Floats,
    dec: Floats,
    radius_arcsec: float,
    notes: dict[int, str],
) -> None:
    """Give spectra with a place only the label of the Gaia source near them."""
    from scipy.spatial import cKDTree

    alone = np.flatnonzero((label < 0) & np.isfinite(ra))
    anchors = _anchors(seen, known, number, label, ra, dec) if alone.size else np.zeros((0, 6))
    if not anchors.size:
        return
    epoch = _epochs([seen[i] for i in alone.tolist()])
    at, there_ra, there_dec, since, pmra, pmdec = anchors.T
    years = np.nanmax(np.abs(np.append(epoch, np.nan)[:, None] - _extremes(since)), initial=0.0)
    reach = radius_arcsec + np.nan_to_num(np.hypot(pmra, pmdec)) / 1000.0 * years
    near = cKDTree(unit_vectors(ra[alone], dec[alone])).query_ball_point(
        unit_vectors(there_ra, there_dec), chord(reach) + 1e-12
    )
    pairs = np.array([(a, i) for a, around in enumerate(near) for i in around], dtype=np.int64).reshape(-1, 2)
    a, i = pairs.T
    moved = carried(there_ra[a], there_dec[a], pmra[a], pmdec[a], since[a], epoch[i])
    apart = separation_arcsec(*moved, ra[alone][i], dec[alone][i])
    close = apart <= radius_arcsec
    a, i, apart = a[close], i[close], apart[close]
    order = np.lexsort((at[a], apart, i))
    first = order[np.unique(i[order], return_index=True)[1]]
    label[alone[i[first]]] = at[a[first]].astype(np.int64)
    several = Counter(int(n) for n, _ in {(n, int(at[source])) for n, source in zip(i, a, strict=True)})
    for n, sources in several.items():
        if sources > 1:
            notes[int(alone[n])] = f"lies within {radius_arcsec:g}″ of {sources} Gaia sources; the nearest was taken"


def _anchors(
    seen: Sequence[Sighting],
    known: Mapping[Key, Match],
    number: Mapping[str, int],
    label: NDArray[np.int64],
    ra: Floats,
    dec: Floats,
) -> Floats:
    """(m, 6): number of a Gaia source, a place of it in degrees, when (Julian year), and its motion in mas/yr."""
    sources: dict[str, Gaia] = {}
    for s in seen:
        match = known.get(s.key)
        if match is not None and match.gaia is not None and match.gaia.source_id in number:
            sources.setdefault(match.gaia.source_id, match.gaia)
    motion = {number[g.source_id]: (_nan(g.pmra), _nan(g.pmdec)) for g in sources.values()}
    rows = [(number[g.source_id], g.ra, g.dec, g.epoch, *motion[number[g.source_id]]) for g in sources.values()]
    with_place = np.flatnonzero((label >= 0) & np.isfinite(ra))
    epochs = _epochs([seen[i] for i in with_place.tolist()])
    for i, epoch in zip(with_place, epochs, strict=True):
        n = int(label[i])
        rows.append((n, ra[i], dec[i], float(epoch), *motion.get(n, (math.nan, math.nan))))
    return np.array(rows, dtype=np.float64).reshape(-1, 6)


def _at_one_date(
    seen: Sequence[Sighting],
    known: Mapping[Key, Match],
    label: NDArray[np.int64],
    names: Sequence[str],
    ra: Floats,
    dec: Floats,
) -> tuple[Floats, Floats]:
    """(n,) degrees: places carried to 2016.0 by the motion of the Gaia source that they are of, where it is known."""
    found = (match.gaia for s in seen if (match := known.get(s.key)) is not None and match.gaia is not None)
    motion = {g.source_id: (_nan(g.pmra), _nan(g.pmdec)) for g in found}
    sources = [names[n] if n < len(names) else "" for n in label.tolist()]
    moves = [motion.get(source, (math.nan, math.nan)) for source in sources]
    pmra, pmdec = np.array(moves, dtype=np.float64).reshape(-1, 2).T
    return carried(ra, dec, pmra, pmdec, _epochs(seen), 2016.0)


def _epochs(seen: Sequence[Sighting]) -> Floats:
    """(n,) Julian years, nan where not known."""
    return np.asarray(julian_year([_nan(s.mjd) for s in seen]), dtype=np.float64)


def _extremes(years: Floats) -> Floats:
    known = years[np.isfinite(years)]
    return np.array([known.min(), known.max()]) if known.size else np.array([math.nan])


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _groups(
    seen: Sequence[Sighting],
    label: NDArray[np.int64],
    names: Sequence[str],
    places: tuple[Floats, Floats],
    still: tuple[Floats, Floats],
    notes: Mapping[int, str],
    radius_arcsec: float,
) -> list[Group]:
    """The groups of these labels; `still` are the places without the motion of their stars."""
    ra, dec = places
    placed = np.isfinite(ra)
    members: dict[int, list[int]] = {}
    for i, n in enumerate(label.tolist()):
        members.setdefault(n, []).append(i)
    means: dict[int, tuple[float, float]] = {}
    spread: dict[int, float] = {}
    if placed.any():
        numbers, local = np.unique(label[placed], return_inverse=True)
        mean_ra, mean_dec = mean_places(unit_vectors(ra[placed], dec[placed]), local)
        here = still[0][placed], still[1][placed]
        off = separation_arcsec(*here, *(mean[local] for mean in mean_places(unit_vectors(*here), local)))
        widest = np.zeros(len(numbers))
        np.maximum.at(widest, local, off)
        for n, a, d, w in zip(numbers.tolist(), mean_ra.tolist(), mean_dec.tolist(), widest.tolist(), strict=True):
            means[n], spread[n] = (a, d), w
    ids = {n: _name(n, names, means, seen[inside[0]]) for n, inside in members.items()}
    times = Counter(ids.values())
    nth: Counter[str] = Counter()
    out = []
    for n, inside in sorted(members.items(), key=lambda item: item[1][0]):
        id = ids[n]
        if times[id] > 1:  # truncated to one name: told apart by a letter
            nth[id] += 1
            id = f"{id}{_letters(nth[id])}"
        gaia = names[n] if n < len(names) else ""
        said = list(dict.fromkeys(notes[i] for i in inside if i in notes))
        if gaia and spread.get(n, 0.0) > radius_arcsec:
            said.append(f"one Gaia id, but a spectrum lies {spread[n]:.1f}″ from the mean place")
        ordered = sorted((seen[i] for i in inside), key=lambda s: (s.mjd is None, s.mjd or 0.0, s.key))
        place = means.get(n, (None, None))
        out.append(Group(id, gaia, place[0], place[1], tuple(ordered), tuple(said)))
    return sorted(out, key=lambda g: (g.ra is None, g.ra or 0.0, g.dec or 0.0, g.id))


def _name(n: int, names: Sequence[str], means: Mapping[int, tuple[float, float]], first: Sighting) -> str:
    if n < len(names):
        return gaia_name(names[n])
    if n in means:
        return iau_name(*means[n])
    return f"{first.key[0]}:{first.key[1]}"


def _letters(n: int) -> str:
    """A, B, … Z, AA, AB, …"""
    out = ""
    while n:
        n, letter = divmod(n - 1, 26)
        out = chr(ord("A") + letter) + out
    return out
