"""What the smallest full views draw of a spectrum: the median of each stretch, one stretch every two pixel columns.

Thousands of pixels in some hundred columns are mostly noise, sky residuals and cosmic rays, if all of them are drawn.
Medians keep the continuum, bands and broad lines; a line narrower than half a stretch is gone, and must be zoomed into.
"""

from __future__ import annotations

import numpy as np

from specvet.views.points import Bools, Floats

BELOW = 300
"""Full views of fewer pixels across are drawn so."""
STRETCH = 2
"""Pixel columns of one stretch: some 60 Å of a survey's spectrum in a full view of 224 pixels."""
LEAST = 4
"""With fewer points a stretch on average, all points are drawn."""


def overview(
    x: Floats, y: Floats, sigma: Floats | None, bad: Bools | None, columns: int
) -> tuple[Floats, Floats, Floats | None, Bools | None]:
    """Wavelengths and medians of the stretches that hold points, ascending; of good points where a stretch has any.
    Errors are left out, and a stretch is bad where all of its points are.

    Args:
        x: Å, shape (n,), sorted, n ≥ 2.
        y: shape (n,), finite.
        bad: points not to be trusted, shape (n,), or None.
        columns: pixel columns of the plot.

    Returns:
        `x`, `y`, `sigma` and `bad` of one shape (m,), m ≥ 2; the first and last wavelengths are the old ones.
    """
    n = max(2, columns // STRETCH)
    if x.size < LEAST * n or not x[-1] > x[0]:
        return x, y, sigma, bad
    stretch = np.minimum(((x - x[0]) * (n / (x[-1] - x[0]))).astype(np.int64), n - 1)
    use = np.ones(x.size, dtype=bool)
    spoilt = None
    if bad is not None and bad.any():
        spoilt = np.bincount(stretch[~bad], minlength=n) == 0
        use = ~bad | spoilt[stretch]
    at, flux = stretch[use], y[use]
    order = np.lexsort((flux, at))
    at, flux = at[order], flux[order]
    filled, first, count = np.unique(at, return_index=True, return_counts=True)
    low, high = flux[first + (count - 1) // 2], flux[first + count // 2]
    middle = x[0] + (filled + 0.5) * ((x[-1] - x[0]) / n)
    if filled.size < 2:  # nearly all points in one stretch
        return x, y, sigma, bad
    middle[0], middle[-1] = x[0], x[-1]
    return middle, 0.5 * low + 0.5 * high, None, None if spoilt is None else spoilt[filled]
