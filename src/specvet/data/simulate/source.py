"""The `Source`: what is on the sky, noiseless, before air and instrument; and the grid that all sources are made on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

FloatArray = NDArray[np.float64]

STEP = 5e-5
"""Of the grid, in log10 of the wavelength: 34.5 km/s, two pixels of DESI's sharpest arm and five of LAMOST."""

GRID: FloatArray = 10.0 ** np.arange(np.log10(3400.0), np.log10(10_700.0), STEP)
"""Å in vacuum, shape (n_grid,): wider than any survey on both sides, so that shifts of 1,500 km/s find their light."""
GRID.flags.writeable = False

KM_S_PER_PIXEL = SPEED_OF_LIGHT_KM_S * STEP * np.log(10.0)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A noiseless SIMULATED model of one object."""

    flux: FloatArray
    """Per Å, relative: its median is near 1. Shape (n_grid,) on `GRID`, never negative, finite. In the frame of the
    object, without foreground reddening; what is intrinsic (rotation, pressure, discs) has broadened it already."""
    kind: str
    """Key in `specvet.data.simulate.kinds.KINDS`: `wd.DA`."""
    subtype: str = ""
    """Finer, for people: `DA2.5`, `M5III`, `C-N4`."""
    parameters: dict[str, float] = field(default_factory=dict)
    """What it was made from, by name with unit: `teff_k`, `log_g`, `ha_ew_a`."""
    velocity_km_s: float = 0.0
    """Radial velocity, heliocentric, still to be applied to `flux`."""
    redshift: float = 0.0
    """Cosmological; `flux` has it already."""
    ebv: float = 0.0
    """Foreground reddening E(B−V) in mag, still to be applied."""
    template: str = ""
    """File of the real spectrum that seeded it; empty where it is parametric alone."""
