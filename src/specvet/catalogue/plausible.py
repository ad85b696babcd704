"""Numbers and ids that a star can have. Catalogues fill gaps with numbers (99.99, −999, 1e20): they are no stars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

FASTEST = 20_000.0
"""mas/yr: twice Barnard's star, the fastest. What is given as faster is no motion."""

BOUNDS: Mapping[str, tuple[float, float]] = {
    "g": (-3.0, 30.0), "bp": (-3.0, 30.0), "rp": (-3.0, 30.0), "bp_rp": (-5.0, 15.0), "parallax": (-900.0, 900.0),
    "parallax_error": (0.0, 900.0), "ruwe": (0.0, 900.0),
}  # fmt: skip
"""Meaning → between what it lies, in the units of `specvet.catalogue.sighting.Gaia`: wider than anything in Gaia DR3,
whose largest parallax is 768 mas, of Proxima Centauri."""

FILLS = (-9999.0, -999.0, 9999.0, 999.0)
"""No faster than the fastest star, and in use for motions that are not known."""


def plausible(meaning: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Which values can be what they are said to be, in its unit; all of a meaning without bounds. nan is none."""
    numbers = np.asarray(values, dtype=np.float64)
    low, high = BOUNDS.get(meaning, (-np.inf, np.inf))
    sound: NDArray[np.bool_] = (numbers > low) & (numbers < high)
    return sound


def moves(pmra: ArrayLike, pmdec: ArrayLike) -> NDArray[np.bool_]:
    """Which motions, mas/yr, a star can have. nan is none."""
    east, north = np.asarray(pmra, dtype=np.float64), np.asarray(pmdec, dtype=np.float64)
    sound: NDArray[np.bool_] = (np.hypot(east, north) <= FASTEST) & ~(np.isin(east, FILLS) & np.isin(north, FILLS))
    return sound


def is_source_id(text: str) -> bool:
    """Whether a text can be a source id of Gaia: digits, in 63 bits."""
    return re.fullmatch(r"[0-9]{1,19}", text) is not None and int(text) < 2**63


def went_through_floats(ids: Iterable[str]) -> bool:
    """Whether source ids look as if a program had held them as floating-point numbers, which leaves whole digits.

    Gaia's ids are multiples of 128 (their last 7 bits are not in use), floats of that size multiples of 256 to 1024. So
    that all of them are such by chance has odds of one in a million before this is true.
    """
    bits = 0
    for number in (int(text) for text in ids if text):
        if int(float(number)) != number:
            return False
        bits += max(0, number.bit_length() - 53 - 7)
    return bits >= 20
