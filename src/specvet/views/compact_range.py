"""The flux range of a compact drawing: all that is surely there, and no more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL_SURE = 2.5
"""A level counts where it and one beside it stand this many σ off the middle, to the same side."""
SURE = 3.0
"""A peak counts where it stands this many σ beyond the levels."""
ESTIMATED = 1.35
"""Errors that are not stated are taken for this much more than the scatter: 64 pixels tell it to 15 %."""
LINE_SHARE = 0.25
"""A peak is a line where three pixels in a row reach this share of its height. The profile of an unresolved line is 2
to 3 pixels wide (FWHM; LAMOST 2.5, SDSS 2.2): the lowest of its best three stands at 0.3 to 0.7 of the highest, as it
falls on the pixels. A cosmic ray or a bad pixel hits one or two."""
BLOCK = 9
"""Pixels of which the median is one level; fewer where there are few pixels. Odd, so that it is the middle one."""
NOISE_BLOCK = 64
"""Pixels over which the scatter is measured."""
FEW = 5
"""With fewer pixels, nothing tells noise from shape: all are shown."""
GENEROUS = 0.25
"""Outliers are left in while they cost no more than this share of the range."""
MARGIN = 0.04
"""Empty share of the range above and below."""
LEAST_SHARE = 0.01
"""The range is at least this share of the largest level: labels stay short, and a flat spectrum looks flat."""
LEAST = 1e-280
"""Ranges below this are taken for zero."""


def flux_range(flux: Floats, good: NDArray[np.bool_] | None = None, sigma: Floats | None = None) -> tuple[float, float]:
    """(low, high) of the flux axis: robust against noise and cosmic rays, generous to lines.

    1. Levels are medians of `BLOCK` pixels. The range holds all that stand off the middle one beyond doubt
       (`LEVEL_SURE`), so continuum, bands and broad lines fit, and an edge of pure noise does not count.
    2. It holds every peak and dip that stands `SURE` σ beyond that and is a line (`LINE_SHARE`): a narrow, strong
       emission line is never cut; a cosmic ray on one or two pixels is.
    3. It holds three σ of the typical noise on both sides, and whatever else fits into a quarter more.

    What remains outside is cut by the drawing, which marks it.

    Args:
        flux: shape (n,), n ≥ 1, finite, in the order of wavelength.
        good: pixels that count, shape (n,); None, or none at all, for all of them.
        sigma: 1σ errors, shape (n,), or None. σ is never taken for less than the scatter from pixel to pixel.

    Returns:
        low < high, finite. A constant flux gets 1 % of itself, zero gets −1 to 1.
    """
    if good is not None and not good.all() and good.any():
        flux, sigma = flux[good], None if sigma is None else sigma[good]
    lowest, highest = float(flux.min()), float(flux.max())
    if flux.size < FEW:
        return _widened(lowest, highest)
    scatter = _scatter(flux)
    middles, level = _levels(flux)
    noise = _noise(middles, scatter, sigma)
    # A median of k pixels scatters by 1.25 σ / √k; the σ in the middle of a block stands for all of it.
    k = max(1, int(middles[1] - middles[0]))
    middle = _median(level)
    low, high = _sure_levels(level, middle, noise * (1.0 if k == 1 else 1.25 / np.sqrt(float(k))))
    if highest > high:
        high = _top_of_lines(flux, scatter, sigma, low, high, middle)
    if lowest < low:
        low = -_top_of_lines(-flux, scatter, sigma, -high, -low, -middle)
    typical = 3.0 * _median(noise)
    low, high = max(lowest, low - typical), min(highest, high + typical)
    extra = GENEROUS * (high - low)
    low = lowest if lowest >= low - extra else low
    high = highest if highest <= high + extra else high
    return _widened(low, high)


def _scatter(flux: Floats) -> Floats:
    """σ of the pixels of each block of `NOISE_BLOCK`, from second differences, which are blind to smooth shapes.

    The largest of a block and the two beside it: noise that ends within a block is not taken for less.
    """
    bend: Floats = np.abs(flux[1:-1] - (flux[:-2] + flux[2:]) / 2)
    k = min(NOISE_BLOCK, bend.size)
    blocks = bend[: bend.size // k * k].reshape(-1, k)
    # The median of |x| is 0.6745 σ; a pixel minus the mean of two others scatters by √1.5 σ.
    own = np.partition(blocks, k // 2, axis=1)[:, k // 2] / (0.6745 * np.sqrt(1.5))
    out: Floats = own.copy()
    np.maximum(out[1:], own[:-1], out=out[1:])
    np.maximum(out[:-1], own[1:], out=out[:-1])
    return out


def _noise(pixels: NDArray[np.intp], scatter: Floats, sigma: Floats | None) -> Floats:
    """σ of some pixels: as stated, but at least the scatter of their block; a bit more of that where not stated."""
    local: Floats = scatter[np.minimum(pixels // NOISE_BLOCK, scatter.size - 1)]
    if sigma is None:
        return ESTIMATED * local
    stated = sigma[pixels]
    return np.maximum(local, np.where(np.isfinite(stated) & (stated > 0), stated, 0.0))


def _levels(flux: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The middle pixel of each block, and the median of the block."""
    k = max(1, min(BLOCK, flux.size // 64))
    k -= 1 - k % 2
    n = flux.size // k * k
    level = flux if k == 1 else np.partition(flux[:n].reshape(-1, k), k // 2, axis=1)[:, k // 2]
    return np.arange(k // 2, n, k), level


def _sure_levels(level: Floats, middle: float, error: Floats) -> tuple[float, float]:
    """The lowest and the highest level that noise can hardly have made of the middle one."""
    ends = []
    for off in (middle - level, level - middle):
        clear = off > LEVEL_SURE * error
        held = np.concatenate(([False], clear[1:] & clear[:-1], [False]))
        found = level[held[1:] | held[:-1]]
        ends.append(found if found.size else np.array([middle]))
    return float(ends[0].min()), float(ends[1].max())


def _top_of_lines(flux: Floats, scatter: Floats, sigma: Floats | None, low: float, high: float, middle: float) -> float:
    """`high`, or the highest peak of a line beyond it. Heights of peaks are taken from the middle of the range."""
    beyond = np.flatnonzero(flux > high)
    beyond = beyond[flux[beyond] - SURE * _noise(beyond, scatter, sigma) > high]
    if not beyond.size:
        return high
    base = min((low + high) / 2, middle)
    # The best of the three triples that hold a pixel: the height that three in a row reach.
    nothing = np.full(2, -np.inf)
    five = np.concatenate((nothing, flux, nothing))[beyond + np.arange(5)[:, None]]
    triples = np.minimum(np.minimum(five[:3], five[1:4]), five[2:])
    line = beyond[triples.max(axis=0) - base >= LINE_SHARE * (flux[beyond] - base)]
    return max(high, float(flux[line].max())) if line.size else high


def _widened(low: float, high: float) -> tuple[float, float]:
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    least = LEAST_SHARE * max(abs(low), abs(high))
    if least < LEAST:
        return -1.0, 1.0
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    return low, high


def _median(values: Floats) -> float:
    """The upper median; a value of the array, so that nothing is rounded."""
    return float(np.partition(values, values.size // 2)[values.size // 2])
