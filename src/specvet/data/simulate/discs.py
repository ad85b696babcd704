"""Accretion discs: line profiles, emission and absorption series, continua. All arrays on `GRID`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from specvet.data.simulate.physics import FWHM, power_law, vacuum
from specvet.data.simulate.source import GRID, FloatArray
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

BALMER: tuple[float, ...] = tuple(
    vacuum(w)
    for w in (
        6562.80,
        4861.35,
        4340.47,
        4101.74,
        3970.07,
        3889.05,
        3835.38,
        3797.90,
        3770.63,
        3750.15,
        3734.37,
        3721.94,
        3711.97,
    )
)
"""Hα to H15, Å in vacuum."""

PASCHEN: tuple[float, ...] = tuple(
    vacuum(w)
    for w in (10_049.37, 9545.97, 9229.01, 9014.91, 8862.78, 8750.47, 8665.02, 8598.39, 8545.38, 8502.48, 8467.25)
)
"""P7 (Paδ) to P17, Å in vacuum."""

HELIUM_I: Mapping[float, float] = {
    vacuum(air): ratio
    for air, ratio in (
        (3888.65, 0.5),
        (4026.21, 0.45),
        (4387.93, 0.12),
        (4471.50, 0.50),
        (4713.15, 0.12),
        (4921.93, 0.35),
        (5015.68, 0.24),
        (5875.62, 1.0),
        (6678.15, 0.50),
        (7065.19, 0.38),
        (7281.35, 0.10),
    )
}
"""Vacuum wavelength → equivalent width over that of 5876. Those of 4471, 5016, 6678 and 7065 are near the medians of
the cataclysmic variables of SDSS (0.50, 0.29 with Fe II 5018, 0.50 and 0.36); the others are ours."""

FE_II: Mapping[float, float] = {
    vacuum(air): ratio
    for air, ratio in (
        (4233.2, 0.35),
        (4583.8, 0.3),
        (4923.9, 0.5),
        (5018.4, 0.5),
        (5169.0, 1.0),
        (5197.6, 0.5),
        (5234.6, 0.5),
        (5316.6, 0.6),
    )
}
"""Relative to 5169: multiplet 42 and its neighbours."""

CA_TRIPLET: Mapping[float, float] = {vacuum(8498.02): 0.85, vacuum(8542.09): 1.0, vacuum(8662.14): 0.9}

CA_HK: Mapping[float, float] = {vacuum(3933.66): 1.0, vacuum(3968.47): 0.9}

HE_II_4686, HE_II_5411 = vacuum(4685.70), vacuum(5411.52)

BOWEN: Mapping[float, float] = {
    vacuum(air): part for air, part in ((4634.1, 0.2), (4640.6, 0.35), (4647.4, 0.3), (4650.3, 0.15))
}
"""N III 4634 and 4641, C III 4647 and 4650: parts of the blend."""

VELOCITIES: NDArray[np.float64] = np.linspace(-1.0, 1.0, 121)
"""Abscissa of a profile, in units of its reach."""


class Profile:
    """The shape of a line in velocity, of area 1 over km/s."""

    def __init__(self, reach_km_s: float, shape: NDArray[np.float64]) -> None:
        """`shape` at `VELOCITIES`, in units of `reach_km_s`; it should be near 0 at both ends. Scaled to area 1."""
        self.reach = reach_km_s
        self.shape = shape / (shape.sum() * reach_km_s * (VELOCITIES[1] - VELOCITIES[0]))

    def add(self, into: FloatArray, centre: float, flux: float, stretch: float = 1.0, shift_km_s: float = 0.0) -> None:
        """Add a line of this flux (flux density times Å) at `centre` (Å), wider by `stretch`."""
        reach = self.reach * stretch
        middle = centre * (1.0 + shift_km_s / SPEED_OF_LIGHT_KM_S)
        half = middle * reach / SPEED_OF_LIGHT_KM_S
        low, high = np.searchsorted(GRID, (middle - half, middle + half))
        if high - low < 2:
            return
        x = (GRID[low:high] - middle) / half
        into[low:high] += flux * (self.reach / half) * np.interp(x, VELOCITIES, self.shape)

    @property
    def fwhm_km_s(self) -> float:
        """Between the outermost crossings of half the peak."""
        inside = np.flatnonzero(self.shape >= 0.5 * self.shape.max())
        return float((VELOCITIES[inside[-1]] - VELOCITIES[inside[0]]) * self.reach)


def gaussian(fwhm_km_s: float, narrow_km_s: float = 0.0, narrow_share: float = 0.0) -> Profile:
    """A Gaussian profile, with a second, narrower one of some share of the flux."""
    sigma = fwhm_km_s / FWHM
    reach = 4.0 * sigma
    v = VELOCITIES * reach
    shape = (1.0 - narrow_share) / sigma * np.exp(-0.5 * (v / sigma) ** 2)
    if narrow_share > 0.0:
        # Never narrower than the sampling of the profile can hold.
        thin = max(narrow_km_s / FWHM, 1.2 * reach * (VELOCITIES[1] - VELOCITIES[0]))
        shape = shape + narrow_share / thin * np.exp(-0.5 * (v / thin) ** 2)
    return Profile(reach, shape)


_RADII = np.linspace(0.0, 1.0, 40)
_PHASES = (np.arange(96) + 0.5) * (2.0 * np.pi / 96)


def disc(
    v_outer: float,
    inner: float,
    slope: float,
    sin_i: float,
    local_km_s: float,
    spot: tuple[float, float] = (0.0, 0.0),
) -> Profile:
    """The line of a Keplerian disc: Smak 1969, Acta Astr. 19, 155 and 1981, Acta Astr. 31, 395.

    `v_outer` is the projected speed of the outer edge (half the distance of the two peaks, km/s), `inner` the inner
    radius over the outer, `slope` b of an emissivity r^−b, `sin_i` the inclination (it deepens the middle by the shear
    of an optically thick disc: Horne & Marsh 1986, MNRAS 218, 761), `local_km_s` the FWHM of everything else that
    broadens, `spot` the share of the flux in a hot spot and its place between the peaks (−1 to 1).
    """
    radius = inner + (1.0 - inner) * _RADII**1.5
    steps = np.gradient(radius)
    sine, cosine = np.sin(_PHASES), np.cos(_PHASES)
    tangent = sin_i / np.sqrt(max(1.0 - sin_i**2, 0.03))
    shear = np.sqrt(1.0 + (2.0 * sin_i * tangent * sine * cosine) ** 2)
    weights = np.outer(radius ** (1.0 - slope) * steps, shear)
    speeds = np.outer(v_outer * radius**-0.5, sine)
    reach = v_outer * inner**-0.5 + 1.5 * local_km_s
    counts, _ = np.histogram(
        speeds / reach, bins=VELOCITIES.size, range=(-1.0 - 0.5 / 60, 1.0 + 0.5 / 60), weights=weights
    )
    shape = counts / counts.sum()
    share, place = spot
    step = reach * (VELOCITIES[1] - VELOCITIES[0])
    if share > 0.0:
        width = max(0.3 * v_outer, 1.5 * step)
        bump = np.exp(-0.5 * ((VELOCITIES * reach - place * v_outer) / width) ** 2)
        shape = (1.0 - share) * shape + share * bump / bump.sum()
    sigma = max(local_km_s / FWHM / step, 0.8)
    half = int(3.0 * sigma) + 1
    kernel = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    smooth = np.convolve(shape, kernel / kernel.sum(), mode="full")[half : half + shape.size]
    return Profile(reach, smooth)


def add_series(
    into: FloatArray, light: FloatArray, widths: Mapping[float, float], profile: Profile, stretch: float = 1.0
) -> None:
    """Add lines by equivalent width: Å of the continuum `light` that each shines with, positive in emission."""
    levels = np.interp(np.fromiter(widths, float), GRID, light)
    for (centre, width), level in zip(widths.items(), levels, strict=True):
        profile.add(into, centre, width * float(level), stretch)


def balmer_widths(ha: float, hb: float, fall: float) -> dict[float, float]:
    """Equivalent widths (Å) of the Balmer series: Hα, Hβ, then each next `fall` times the one before."""
    values = [ha, hb]
    while len(values) < len(BALMER):
        values.append(values[-1] * fall)
    return dict(zip(BALMER, values, strict=True))


def paschen_widths(strength: float) -> dict[float, float]:
    """Equivalent widths (Å) of the Paschen series, P9 with `strength`."""
    return {w: strength * 0.86 ** (n - 3) for n, w in enumerate(PASCHEN)}


def thick_lines(widths: Mapping[float, float], core_km_s: float, wings_km_s: float) -> FloatArray:
    """Optical depth of broad, shallow absorption: the Stark wings of a thick disc, smeared by its rotation.

    `widths` are equivalent widths (Å) in the limit of weak lines; a core of FWHM `core_km_s` and wings of `wings_km_s`
    share the depth.
    """
    depth = np.zeros(GRID.size)
    for part, fwhm in ((0.55, core_km_s), (0.45, wings_km_s)):
        profile = gaussian(fwhm)
        for centre, width in widths.items():
            profile.add(depth, centre, part * width)
    return depth


def thick_continuum(index: float, bend: float = 0.0, jump: float = 0.0) -> FloatArray:
    """A thick disc: λ^index with a curvature of `bend` in log-log, and a Balmer jump (mag, positive in absorption)."""
    flux = power_law(index) * np.exp(-bend * np.log(GRID / 6000.0) ** 2)
    if jump:
        flux = flux * 10.0 ** (-0.4 * jump / (1.0 + np.exp((GRID - 3690.0) / 25.0)))
    return flux
