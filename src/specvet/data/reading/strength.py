"""How strong each line and band is, roughly and all at once: for choosing what to measure, never to tell."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from specvet.data.reading.catalogue import catalogue
from specvet.spectra import Medium
from specvet.spectra.index_kinds import LineIndex, RatioIndex, in_band
from specvet.spectra.pixels import Pixels

SURE = 3.0
"""Errors below which nothing is there."""

STRONG_LINE, STRONG_DROP = 5.0, 0.3
"""Å of equivalent width, and drop across an edge or in a band, that count fully."""

_Floats = NDArray[np.float64]


def strengths(pixels: Pixels) -> Mapping[str, float]:
    """Strength (0-1) of each quantity of the catalogue, from whole pixels and means; a width has that of its line."""
    keys, low, high, per_line = _bands(pixels.spectrum.medium)
    length = np.where(pixels.good, pixels.right - pixels.left, 0.0)
    sigma = np.zeros(length.size) if pixels.sigma is None else pixels.sigma
    flux = np.where(pixels.good, pixels.flux, 0.0)
    sums = np.zeros((3, length.size + 1))
    np.cumsum([length, length * flux, (length * sigma) ** 2], axis=1, out=sums[:, 1:])
    first, last = pixels.wavelength.searchsorted(low), pixels.wavelength.searchsorted(high)
    total, light, square = sums[:, last] - sums[:, first]  # each of shape (n_keys, 3): band and two references
    with np.errstate(all="ignore"):
        level, variance = light / total, square / total**2
        below = 0.5 * (level[:, 1] + level[:, 2])
        change = 1.0 - level[:, 0] / below
        error = np.sqrt(variance[:, 0] + 0.25 * (variance[:, 1] + variance[:, 2])) / below
        size = np.where(per_line > 0.0, np.abs(change) * per_line / STRONG_LINE, change / STRONG_DROP)
        there = (below > 0.0) & (np.abs(change) > SURE * error)
    found = dict(zip(keys, np.where(there, np.clip(size, 0.0, 1.0), 0.0).tolist(), strict=True))
    return found | {width: found[line] for width, line in catalogue().line_of.items()}


@functools.cache
def _bands(medium: Medium) -> tuple[tuple[str, ...], _Floats, _Floats, _Floats]:
    """Keys; lower and upper ends of band and references, Å, shape (n_keys, 3); width of a line's band, 0 of others."""
    keys, bands, widths = [], [], []
    for key, index in catalogue().indices.items():
        if isinstance(index, LineIndex):
            given = (index.band, *index.sides)
        elif isinstance(index, RatioIndex):
            given = (index.band, index.reference[0], index.reference[-1])
        else:
            continue
        keys.append(key)
        bands.append([in_band(band, index.medium, medium) for band in given])
        widths.append(index.band[1] - index.band[0] if isinstance(index, LineIndex) else 0.0)
    ends = np.array(bands)
    return tuple(keys), ends[:, :, 0], ends[:, :, 1], np.array(widths)
