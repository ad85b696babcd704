"""What all layouts say alike: that it is simulated, and what the pipeline said."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from specvet.data.simulate.layouts.fitsbytes import card, comment
from specvet.data.simulate.observed import Arm, Observed

ORIGIN = "SIMULATED by specvet"
FILL = -9999.0
"""Where a pipeline states nothing."""

LABEL = (
    card("ORIGIN", ORIGIN),
    card("SIMULATE", True, "SIMULATED data, not an observation"),
    comment("SIMULATED by specvet: no telescope has seen this. Not for science."),
)
"""Cards of every primary header; `specvet.read` turns SIMULATE into a warning."""


def filled(value: float | None) -> float:
    """A number, or the fill value."""
    return FILL if value is None else float(value)


def median_snr(arm: Arm, low: float, high: float) -> float:
    """Median of flux·√ivar over the good pixels between two wavelengths (Å); 0 without any."""
    first, last = np.searchsorted(arm.wavelength, (low, high))
    ivar = arm.ivar[first:last]
    good = ivar > 0
    if not good.any():
        return 0.0
    return float(np.median(arm.flux[first:last][good] * np.sqrt(ivar[good])))


def day(mjd: int) -> date:
    """Of a Modified Julian Date."""
    return date(1858, 11, 17) + timedelta(days=mjd)


def sexagesimal(observed: Observed) -> str:
    """`J220848.54-020324.3`: cut off, not rounded, as the IAU has designations made."""
    hours, rest = divmod(int(observed.ra % 360.0 / 15.0 * 360_000), 360_000)
    degrees, arc = divmod(int(abs(observed.dec) * 36_000), 36_000)
    sign = "-" if observed.dec < 0 else "+"
    right = f"{hours:02d}{rest // 6000:02d}{rest % 6000 / 100:05.2f}"
    return f"J{right}{sign}{degrees:02d}{arc // 600:02d}{arc % 600 / 10:04.1f}"


def fitted(flux: NDArray[np.float32], ivar: NDArray[np.float32]) -> NDArray[np.float32]:
    """A smooth curve in place of a pipeline's model, shape (n_pix,): running means of `flux` over good pixels.

    Made of the noisy flux alone, so that it tells no more than that does.
    """
    from scipy.ndimage import uniform_filter1d

    good = (ivar > 0).astype(np.float64)
    weight = uniform_filter1d(good, 51, mode="constant")
    mean = uniform_filter1d(np.where(good > 0, flux, 0.0), 51, mode="constant")
    return np.where(weight > 1e-9, mean / np.maximum(weight, 1e-9), 0.0).astype(np.float32)
