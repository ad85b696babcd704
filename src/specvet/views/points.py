"""The points that a figure shows, in any style, and which cannot be drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MIN_POINTS = 2
# Beyond these, axis limits overflow or the box of text becomes wider than the figure.
MAX_WAVELENGTH = 1e12
MAX_FLUX = 1e150


def points(
    wavelength: ArrayLike,
    flux: ArrayLike,
    window: tuple[float, float] | None = None,
    sigma: ArrayLike | None = None,
    bad: ArrayLike | None = None,
) -> tuple[Floats, Floats, Floats | None, Bools | None]:
    """What a drawing shows: points finite in wavelength and flux, inside the window, sorted; errors and bad with them.

    A flux beyond `MAX_FLUX` is no measurement, and missing like one that is not finite; where too few are left, they
    stay for `check_points` to refuse.

    Raises:
        ValueError: shapes differ or are not one-dimensional, or the window is none.
    """
    x, y = np.asarray(wavelength, dtype=np.float64), np.asarray(flux, dtype=np.float64)
    s = None if sigma is None else np.asarray(sigma, dtype=np.float64)
    b = None if bad is None else np.asarray(bad, dtype=bool)
    for name, array in (("flux", y), ("sigma", s), ("bad", b)):
        if x.ndim != 1 or (array is not None and array.shape != x.shape):
            shape = None if array is None else array.shape
            raise ValueError(f"wavelength has shape {x.shape} and {name} {shape}; arrays of one shape (n,) expected")
    keep = np.isfinite(x) & np.isfinite(y)
    if window is not None:
        low, high = window
        if not low <= high:
            raise ValueError(f"window ({low}, {high}) Å is not (low, high)")
        keep &= (x >= low) & (x <= high)
    within = keep & (np.abs(y) <= MAX_FLUX)
    if np.count_nonzero(within) >= MIN_POINTS:
        keep = within
    if not keep.all():
        x, y = x[keep], y[keep]
        s, b = None if s is None else s[keep], None if b is None else b[keep]
    if not bool((x[1:] > x[:-1]).all()):
        order = np.lexsort((y, x))  # flux breaks ties, so that the order of the input never shows
        x, y = x[order], y[order]
        s, b = None if s is None else s[order], None if b is None else b[order]
    return x, y, s, b


def check_points(x: Floats, y: Floats, window: tuple[float, float] | None) -> None:
    """Raises ValueError where `points` cannot be drawn."""
    if x.size < MIN_POINTS:
        where = "" if window is None else f" in {window[0]}-{window[1]} Å"
        raise ValueError(f"{x.size} finite points{where}; a figure needs at least {MIN_POINTS}")
    for name, low, high, limit in (("wavelength", x[0], x[-1], MAX_WAVELENGTH), ("flux", y.min(), y.max(), MAX_FLUX)):
        if max(-float(low), float(high)) > limit:
            raise ValueError(f"{name} holds values beyond {limit:g}, which cannot be drawn")
