"""What follows from Gaia's numbers: the absolute magnitude with its error, and whether to trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from specvet.catalogue.sighting import Gaia
from specvet.tasks.luminosity import MAX_RUWE, MIN_PARALLAX_OVER_ERROR

LIMIT_SIGMAS = 2.0
"""A limit takes the parallax so many of its errors larger."""

APPROXIMATION = (
    "M_G = G + 5 log10(parallax / 100 mas), as observed: neither extinction nor Gaia's parallax zero-point (a few "
    "hundredths of a mas: Lindegren et al. 2021, A&A 649, A4) is corrected. Its error is that of the parallax alone, "
    "2.17 times error over parallax, to first order."
)


@dataclass(frozen=True, slots=True)
class Luminous:
    """The absolute magnitude of a source, as far as its parallax tells it."""

    m_g: float | None = None
    """Magnitude; None where the parallax is missing, not positive, or below the stated number of its errors."""
    error: float | None = None
    """1σ, from the parallax alone."""
    limit: float | None = None
    """Where there is no `m_g` for want of a sound parallax: the star is brighter than this (2σ)."""
    parallax_over_error: float | None = None
    good_astrometry: bool | None = None
    """RUWE of at most `MAX_RUWE`; None where there is none."""


def luminous(gaia: Gaia, min_parallax_over_error: float = MIN_PARALLAX_OVER_ERROR) -> Luminous:
    """The absolute magnitude M_G of a source; see `APPROXIMATION`."""
    good = None if gaia.ruwe is None else gaia.ruwe <= MAX_RUWE
    parallax, sigma = gaia.parallax, gaia.parallax_error
    if gaia.g is None or parallax is None or sigma is None or sigma <= 0:
        return Luminous(good_astrometry=good)
    ratio = parallax / sigma
    if ratio >= min_parallax_over_error:
        return Luminous(absolute(gaia.g, parallax), 5.0 / math.log(10.0) / ratio, None, ratio, good)
    largest = parallax + LIMIT_SIGMAS * sigma
    return Luminous(None, None, absolute(gaia.g, largest) if largest > 0 else None, ratio, good)


def absolute(g: float, parallax: float) -> float:
    """M_G from G and a parallax in mas, which must be positive."""
    return g + 5.0 * math.log10(parallax / 100.0)
