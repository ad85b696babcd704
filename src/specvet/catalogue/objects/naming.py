"""What an object is called: after Gaia, else after its place, as the IAU recommends."""

from __future__ import annotations

import math

_SLACK = 1e-6
"""Of the last digit: a place that was given to that digit is not truncated to the one below by rounding in binary."""


def gaia_name(source_id: str) -> str:
    """`Gaia DR3 4472832130942575872`."""
    return f"Gaia DR3 {source_id}"


def iau_name(ra: float, dec: float) -> str:
    """`J123456.78+123456.7` of a place in degrees, ICRS.

    Truncated, not rounded, so that the name says in which field of 0.01 s by 0.1″ it lies (IAU recommendations for
    nomenclature, 1999). `ra` may be any angle; `dec` is within ±90.
    """
    hundredths = math.floor((ra % 360.0) / 15.0 * 360_000.0 + _SLACK) % 8_640_000
    tenths = math.floor(abs(dec) * 36_000.0 + _SLACK)
    hours, minutes = divmod(hundredths // 6_000, 60)
    seconds = hundredths % 6_000
    degrees, arcminutes = divmod(tenths // 600, 60)
    arcseconds = tenths % 600
    sign = "-" if dec < 0 else "+"
    right = f"{hours:02d}{minutes:02d}{seconds // 100:02d}.{seconds % 100:02d}"
    return f"J{right}{sign}{degrees:02d}{arcminutes:02d}{arcseconds // 10:02d}.{arcseconds % 10}"
