"""Air and vacuum wavelengths, and what the sky does to a spectrum.

Spectra stay in the medium they were released in; bands and line lists are converted to it.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.spectrum import Medium

_T = TypeVar("_T", float, NDArray[np.float64])

TELLURIC_BANDS_AIR: tuple[tuple[str, float, float], ...] = (
    ("O2 B", 6867.0, 6944.0),
    ("H2O", 7160.0, 7340.0),
    ("O2 A", 7594.0, 7684.0),
    ("H2O", 8100.0, 8340.0),
    ("H2O", 8940.0, 9800.0),
)
"""Absorption by the Earth's air: name, low, high in Å (air). Observed frame."""

SKY_LINES_AIR: tuple[tuple[str, float], ...] = (
    ("[O I]", 5577.34),
    ("Na I", 5889.95),
    ("Na I", 5895.92),
    ("[O I]", 6300.30),
    ("[O I]", 6363.78),
)
"""Emission of the night sky that leaves residuals: name and Å (air). Observed frame. OH lines follow from 7200 Å on."""


MIN_AIR = 2000.0
"""Å; the convention of air wavelengths begins here. Below, the index is that of 2000 Å: the formula has poles there."""


def refractive_index(vacuum: _T) -> _T:
    """Refractive index of standard dry air at vacuum wavelength `vacuum` in Å (Morton 2000, ApJS 130, 403, eq. 8)."""
    clipped: _T = np.maximum(vacuum, MIN_AIR) if isinstance(vacuum, np.ndarray) else max(vacuum, MIN_AIR)
    s2 = (1e4 / clipped) ** 2
    n: _T = 1.0 + 8.34254e-5 + 2.406147e-2 / (130.0 - s2) + 1.5998e-4 / (38.9 - s2)
    return n


def vacuum_to_air(vacuum: _T) -> _T:
    """Air wavelength in Å of a vacuum wavelength in Å."""
    air: _T = vacuum / refractive_index(vacuum)
    return air


def air_to_vacuum(air: _T) -> _T:
    """Vacuum wavelength in Å of an air wavelength in Å, the inverse of `vacuum_to_air` to better than 1e-7 Å."""
    vacuum: _T = air * refractive_index(air)
    for _ in range(2):
        vacuum = air * refractive_index(vacuum)
    return vacuum


def in_medium(wavelength: float, given: Medium, wanted: Medium) -> float:
    """`wavelength` (Å) converted from one medium to another.

    Where one side is unknown, the middle between air and vacuum is taken: wrong by at most half of the difference
    (0.7 Å at Hβ, 0.9 Å at Hα), which low-resolution indices bear.
    """
    if given == wanted:
        return wavelength
    if given == "air":
        vacuum = air_to_vacuum(wavelength)
        return vacuum if wanted == "vacuum" else 0.5 * (wavelength + vacuum)
    if given == "vacuum":
        air = vacuum_to_air(wavelength)
        return air if wanted == "air" else 0.5 * (wavelength + air)
    shift = 0.5 * (air_to_vacuum(wavelength) - wavelength)
    return wavelength + shift if wanted == "vacuum" else wavelength - shift
