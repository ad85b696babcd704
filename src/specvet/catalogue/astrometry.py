"""Places on the sky at another epoch: proper motion carried, separations measured.

Motion is straight and uniform in space, without parallax and radial velocity, as in the standard model of
The Hipparcos and Tycho Catalogues (ESA SP-1200, vol. 1, section 1.5.5) with both set to zero: the unit vector moves
along its tangent plane and is scaled back to the sphere, so the poles are no exception. The parallax that is left out
moves a star by at most its own size, below 0.8″ for every star but the Sun.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Degrees = NDArray[np.float64]

MAS_PER_RADIAN = np.degrees(1.0) * 3_600_000.0
J2000_MJD = 51544.5


def julian_year(mjd: ArrayLike) -> Degrees:
    """MJD in days as a Julian year: 51544.5 is 2000.0. The difference of time scales, a minute, is left out."""
    return 2000.0 + (np.asarray(mjd, dtype=np.float64) - J2000_MJD) / 365.25


def carried(
    ra: ArrayLike, dec: ArrayLike, pmra: ArrayLike, pmdec: ArrayLike, epoch_from: ArrayLike, epoch_to: ArrayLike
) -> tuple[Degrees, Degrees]:
    """(ra, dec) in degrees, ICRS, at `epoch_to`, from a place at `epoch_from`.

    Angles are in degrees, motions in mas/yr (that in right ascension with cos δ), epochs in Julian years; shapes follow
    numpy's broadcasting. A motion that is not known, nan, moves nothing, and neither does an epoch that is not known.
    """
    here = unit_vectors(ra, dec)
    alpha, delta = np.radians(np.asarray(ra, dtype=np.float64)), np.radians(np.asarray(dec, dtype=np.float64))
    years = np.asarray(epoch_to, dtype=np.float64) - np.asarray(epoch_from, dtype=np.float64)
    east = np.stack(np.broadcast_arrays(-np.sin(alpha), np.cos(alpha), np.zeros_like(alpha)), axis=-1)
    north = np.stack(
        np.broadcast_arrays(-np.sin(delta) * np.cos(alpha), -np.sin(delta) * np.sin(alpha), np.cos(delta)), axis=-1
    )
    moved = [np.nan_to_num(np.asarray(rate, dtype=np.float64) * years / MAS_PER_RADIAN) for rate in (pmra, pmdec)]
    there = here + moved[0][..., None] * east + moved[1][..., None] * north
    still = (moved[0] == 0) & (moved[1] == 0)
    new_ra = np.degrees(np.arctan2(there[..., 1], there[..., 0])) % 360.0
    new_dec = np.degrees(np.arctan2(there[..., 2], np.hypot(there[..., 0], there[..., 1])))
    return np.where(still, ra, new_ra), np.where(still, dec, new_dec)


def separation_arcsec(ra: ArrayLike, dec: ArrayLike, other_ra: ArrayLike, other_dec: ArrayLike) -> Degrees:
    """Arcseconds on the sky between places in degrees; exact also for the smallest (half the chord's arcsine)."""
    chord = np.linalg.norm(unit_vectors(ra, dec) - unit_vectors(other_ra, other_dec), axis=-1)
    arcsec: Degrees = np.degrees(2.0 * np.arcsin(np.clip(chord / 2.0, 0.0, 1.0))) * 3600.0
    return arcsec


def unit_vectors(ra: ArrayLike, dec: ArrayLike) -> Degrees:
    """(..., 3) unit vectors of places in degrees."""
    alpha, delta = np.radians(np.asarray(ra, dtype=np.float64)), np.radians(np.asarray(dec, dtype=np.float64))
    return np.stack(
        np.broadcast_arrays(np.cos(delta) * np.cos(alpha), np.cos(delta) * np.sin(alpha), np.sin(delta)), axis=-1
    )
