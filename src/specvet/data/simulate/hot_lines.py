"""Lines of helium and of metals in hot stars and white dwarfs.

Lists hold (wavelength in air, relative strength); wavelengths are NIST's, strengths were set by eye on real spectra of
their kind: Indo-US stars of idlspec2d, ESO standards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from specvet.data.simulate import physics
from specvet.data.simulate.atomic_lines import LINES
from specvet.data.simulate.source import GRID, KM_S_PER_PIXEL, STEP, FloatArray
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

Lines = tuple[tuple[float, float], ...]

HE_I: Lines = (
    (3819.6, 0.75), (3867.5, 0.15), (3888.6, 0.6), (3964.7, 0.3), (4009.3, 0.35), (4026.2, 1.0), (4120.8, 0.3),
    (4143.8, 0.5),
    (4387.9, 0.65), (4437.6, 0.12), (4471.5, 1.0), (4713.1, 0.35), (4921.9, 0.7), (5015.7, 0.45), (5047.7, 0.2),
    (5875.6, 0.9), (6678.2, 0.7), (7065.2, 0.5), (7281.3, 0.3),
)  # fmt: skip
HE_II: Lines = (
    (4685.7, 1.0), (4199.8, 0.35), (4541.6, 0.55), (5411.5, 0.7), (4100.0, 0.25), (4338.7, 0.4), (4859.3, 0.55),
    (6560.1, 0.8), (6683.2, 0.1), (6890.9, 0.12), (7177.5, 0.15), (8236.8, 0.25), (9344.9, 0.25), (10123.6, 0.9),
)  # fmt: skip
"""4686 and the Pickering series, of which every second line lies on a Balmer line."""

CA_II_HK: Lines = ((3933.66, 1.0), (3968.47, 0.75))
CA_II_TRIPLET: Lines = ((8498.02, 0.4), (8542.09, 1.0), (8662.14, 0.85))
NA_D: Lines = ((5889.95, 1.0), (5895.92, 0.75))
O_I: Lines = ((7771.94, 0.4), (7774.17, 0.35), (7775.39, 0.25), (8446.4, 0.6))

A_METALS: Lines = ((4481.23, 0.8), (4128.05, 0.2), (4130.89, 0.22), (4554.03, 0.12), (6347.11, 0.3), (6371.37, 0.2),
                   (4290.2, 0.2), (4294.1, 0.25), (4300.0, 0.3), (4307.9, 0.3), (4312.9, 0.2))  # fmt: skip
"""Mg II, Si II, Ba II, and the blends of Ti II and Fe at 4300; iron and its like elsewhere are in `forest`."""
B_METALS: Lines = ((4267.2, 0.5), (4481.23, 0.6), (4128.05, 0.35), (4130.89, 0.4), (6347.11, 0.35), (6371.37, 0.25),
                   (5056.0, 0.15), (6578.05, 0.2), (6582.88, 0.15))  # fmt: skip
EARLY_B_METALS: Lines = (
    (3995.0, 0.3), (4069.8, 0.4), (4075.9, 0.45), (4119.2, 0.3), (4267.2, 0.5), (4349.4, 0.4), (4414.9, 0.4),
    (4552.62, 0.7),
    (4567.82, 0.6), (4574.76, 0.4), (4590.97, 0.25), (4596.18, 0.2), (4641.8, 0.45), (4649.1, 0.6), (4661.6, 0.2),
    (5739.7, 0.3),
)  # fmt: skip
O_METALS: Lines = ((4088.85, 0.5), (4116.1, 0.35), (4647.4, 0.4), (4650.2, 0.3), (5592.25, 0.4), (5801.33, 0.2),
                   (5811.98, 0.15), (5695.9, 0.1))  # fmt: skip
N_III: Lines = ((4634.1, 0.5), (4640.6, 0.9), (4097.3, 0.4), (4514.9, 0.2))
FE_II_EMISSION: Lines = (
    (4233.17, 0.5), (4351.77, 0.3), (4549.5, 0.5), (4583.84, 0.7), (4629.34, 0.3), (4923.93, 0.8), (5018.44, 1.0),
    (5169.03, 1.0), (5197.58, 0.5), (5234.63, 0.5), (5275.99, 0.6), (5316.62, 1.0), (5362.9, 0.3), (6247.56, 0.25),
    (6318.0, 0.3), (6384.0, 0.2), (6456.38, 0.4), (7711.7, 0.4),
)  # fmt: skip


_FOREST_K = 8_000.0
"""Temperature at which the lower levels of the forest are filled."""
_SATURATED = 0.6
"""Power of their strength with which lines grow on the flat part of the curve of growth: many weak ones, few strong."""


@lru_cache(maxsize=2)
def forest(ionised: bool) -> FloatArray:
    """Optical depth of the many weak lines of iron and its like in an A star, read-only; Mg I b or Fe II 5169 has 1."""
    depth = physics.zeros()
    for element, (shift, reference) in (_IONS if ionised else _NEUTRALS).items():
        for air, energy, log_gf in LINES[element]:
            strength = 10.0 ** (log_gf - 5_040.0 / _FOREST_K * energy - reference + shift)
            narrow(depth, ((air, min(strength**_SATURATED, 1.5)),), 0.4)
    peak = float(np.interp(place(5169.03 if ionised else 5183.6), GRID, depth))
    depth /= peak
    depth.flags.writeable = False
    return depth


_NEUTRALS = {"Mg I": (0.0, -1.9), "Fe I": (0.0, -1.9), "Ca I": (-0.9, -1.9), "Cr I": (-1.3, -1.9), "Mn I": (-1.6, -1.9)}
_IONS = {
    "Fe II": (0.0, -2.7),
    "Ti II": (-2.2, -2.7),
    "Sc II": (-4.0, -2.7),
    "Sr II": (-3.9, -2.7),
    "Si II": (3.3, -2.7),
}
"""Ion → log of its abundance over that of iron, and of what a line of strength 1 has."""


@lru_cache(maxsize=512)
def place(air: float) -> float:
    """Vacuum wavelength, remembered."""
    return physics.vacuum(air)


def narrow(into: FloatArray, lines: Iterable[tuple[float, float]], ew: float, fwhm_km_s: float = 70.0) -> None:
    """Add the optical depth of Gaussian lines; `ew` (Å) is what a line of strength 1 takes away while it is weak."""
    sigma = fwhm_km_s / physics.FWHM
    velocity = velocities(3.5 * sigma)
    add_profile(into, lines, ew, np.exp(-0.5 * (velocity / sigma) ** 2) / (sigma * np.sqrt(2.0 * np.pi)))


def velocities(reach_km_s: float) -> FloatArray:
    """Pixels of `GRID` about a line, in km/s, an odd number of them."""
    half = int(reach_km_s / KM_S_PER_PIXEL) + 1
    return np.asarray(np.arange(-half, half + 1) * KM_S_PER_PIXEL)


def add_profile(into: FloatArray, lines: Iterable[tuple[float, float]], ew: float, profile: FloatArray) -> None:
    """Add one `profile` (per km/s, on `velocities`) at each line, `ew` Å times the line's strength in area.

    One profile serves all lines, since `GRID` is even in velocity; places are rounded to its pixels.
    """
    reach = profile.size // 2
    for air, strength in lines:
        centre = place(air)
        i = round(math.log10(centre / GRID[0]) / STEP)
        low, high = max(i - reach, 0), min(i + reach + 1, GRID.size)
        if low < high:
            height = strength * ew * SPEED_OF_LIGHT_KM_S / centre
            into[low:high] += height * profile[low - i + reach : high - i + reach]


def broad(
    into: FloatArray,
    lines: Iterable[tuple[float, float]],
    ew: float,
    half_width: float,
    power: float = 2.5,
    reach: float = 30.0,
) -> None:
    """Add the optical depth of lines with wings `1/(1 + |Δλ/half_width|^power)`, cut at `reach` half-widths (Å)."""
    for air, strength in lines:
        centre = place(air)
        area = 2.0 * half_width * np.pi / power / np.sin(np.pi / power)
        low, high = np.searchsorted(GRID, (centre - reach * half_width, centre + reach * half_width))
        x = np.abs(GRID[low:high] - centre) / half_width
        into[low:high] += strength * ew / area / (1.0 + x**power)


def dust(rng: np.random.Generator, mean: float) -> float:
    """E(B−V) in mag, exponential with this mean, at most six times it."""
    return float(min(rng.exponential(mean), 6.0 * mean))
