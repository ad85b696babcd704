"""Friends of friends on the sky, with a guard against chains.

Two places are friends within the radius, and friends of friends are one group (Huchra & Geller 1982, ApJ 257, 423). In
a crowded field that makes chains of strangers, so a group must lie within the radius of its own mean place. One that
does not is divided: the place with most spectra near it takes all within the radius, then the next of those left. No
two places of a group are therefore farther apart than twice the radius.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
"""Unit vectors, shape (n, 3)."""
Labels = NDArray[np.int64]

_MOST_PAIRS = 20_000_000
"""More pairs of friends than this (4,500 spectra of one star) would fill the memory; see `friends`."""
_COARSE = 10.0


def chord(arcsec: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Straight distance on the unit sphere between places `arcsec` apart."""
    return np.asarray(2.0 * np.sin(np.radians(np.minimum(arcsec, 648_000.0) / 3600.0) / 2.0))


def friends(places: Vectors, radius_arcsec: float) -> tuple[Labels, NDArray[np.bool_]]:
    """(n,) the group of each place, numbered from 0, and (n,) whether it comes from a chain that was divided.

    Neither depends on the order of the places. Where thousands of spectra crowd within one radius, places are first
    rounded to a tenth of it.
    """
    from scipy.spatial import cKDTree

    if not len(places):
        return np.zeros(0, np.int64), np.zeros(0, bool)
    unique, where, counts = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    where = where.reshape(-1)
    reach = float(chord(radius_arcsec))
    tree = cKDTree(unique)
    if tree.count_neighbors(tree, reach) > _MOST_PAIRS:
        step = reach / _COARSE
        coarse = np.round(unique / step) * step
        if len(np.unique(coarse, axis=0)) < len(unique):
            labels, divided = friends(np.repeat(coarse, counts, axis=0), radius_arcsec)
            first = np.cumsum(counts) - counts
            return labels[first][where], divided[first][where]
    group = _connected(tree.query_pairs(reach, output_type="ndarray"), len(unique))
    mean = _means(unique, counts, group)
    far = np.linalg.norm(unique - mean[group], axis=1) > reach
    chains = np.unique(group[far])
    divided = np.isin(group, chains)
    next_label = int(group.max()) + 1
    for chain in chains:
        members = np.flatnonzero(group == chain)
        parts = _divided(unique[members], counts[members], reach)
        group[members] = next_label + parts
        next_label += int(parts.max()) + 1
    return np.unique(group, return_inverse=True)[1].reshape(-1)[where], divided[where]


def mean_places(places: Vectors, labels: Labels) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(groups,) right ascension and declination in degrees of the mean place of each group."""
    mean = _means(places, np.ones(len(places), np.int64), labels)
    ra = np.degrees(np.arctan2(mean[:, 1], mean[:, 0])) % 360.0
    dec = np.degrees(np.arctan2(mean[:, 2], np.hypot(mean[:, 0], mean[:, 1])))
    return np.where(ra >= 360.0, 0.0, ra), dec


def _connected(pairs: NDArray[np.int64], n: int) -> Labels:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)


def _means(places: Vectors, counts: NDArray[np.int64], group: Labels) -> Vectors:
    n = int(group.max()) + 1
    sums = np.stack([np.bincount(group, weights=places[:, axis] * counts, minlength=n) for axis in range(3)], axis=1)
    length = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(length > 0, length, 1.0))


def _divided(places: Vectors, counts: NDArray[np.int64], reach: float) -> Labels:
    """The parts of a chain, by falling number of spectra near them, then by place.

    A spectrum at distance d counts as 1 - (d / reach)² (the kernel of Epanechnikov 1969), so that nine of one star make
    a centre, and not the stranger half way to the next.
    """
    from scipy.spatial import cKDTree

    near = cKDTree(places).query_ball_point(places, reach)
    spectra = [
        float(counts[around] @ (1.0 - ((places[around] - here) ** 2).sum(axis=1) / reach**2))
        for here, around in zip(places, map(sorted, near), strict=True)
    ]
    part = np.full(len(places), -1, np.int64)
    n = 0
    for seed in sorted(range(len(places)), key=lambda i: (-spectra[i], i)):
        if part[seed] < 0:
            free = [i for i in near[seed] if part[i] < 0]
            part[free] = n
            n += 1
    return part
