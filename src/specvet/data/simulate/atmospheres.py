"""Spectra of stars from F0 to M10: a continuum, atomic lines, Balmer lines and molecular bands of one layer.

A Schuster-Schwarzschild star: a photosphere that shines as a black body, and above it a cooler layer that absorbs.
`atoms` says how strong lines are in it; molecules come as column densities, which makers choose: dissociation
equilibrium is theirs. A band of optical depth τ leaves 1/(1 + τ), which saturates more slowly than a slab would, as
layers over a range of depths do, down to the light of the layer itself (`surface`). Shapes, strengths and colours were
held against MILES, Indo-US, Pickles and SDSS stars (docs/simulation.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from specvet.data.simulate.atoms import atomic_depths
from specvet.data.simulate.molecules import cross_section, sparse_cross_section
from specvet.data.simulate.physics import (
    FWHM,
    HC_OVER_K,
    add_band,
    add_gaussian,
    add_lorentzian,
    planck,
    vacuum,
    zeros,
)
from specvet.data.simulate.source import GRID, FloatArray
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

_CORE = 0.1
"""What the strongest lines leave in their cores, over the continuum."""


@dataclass(frozen=True, slots=True)
class Photosphere:
    """What a cool star's spectrum is made from."""

    teff_k: float
    log_g: float
    feh: float = 0.0
    """log of metals over the Sun's."""
    abundances: Mapping[str, float] = field(default_factory=dict)
    """Element → log over the Sun's, beside `feh`; `Ca II` changes the ions alone, which one layer has too few of."""
    columns: Mapping[str, float] = field(default_factory=dict)
    """Molecule → log of column density (cm⁻²); `C2/13` and `CN/13` are those with one 13C."""
    molecule_k: float = 0.0
    """K: excitation of the molecules; 0 takes 0.75 of `teff_k`."""
    surface: float = 0.62
    """Temperature over `teff_k` of the layer in which molecules shine themselves: the floor of saturated bands."""
    balmer: float = 1.0
    """Strength of the Balmer lines over what the temperature gives."""
    colour_k: float = 0.0
    """K: black body of the continuum; 0 takes that of F to K stars. Cool stars are redder than their temperature."""
    emission: tuple[tuple[float, float, float], ...] = ()
    """Lines from below the molecules: wavelength (Å, air), equivalent width (Å, positive), FWHM (km/s)."""


_BALMER = (
    *((6562.80, 1.0), (4861.35, 1.35), (4340.47, 1.35), (4101.73, 1.15), (3970.08, 0.9), (3889.06, 0.7)),
    *((3835.40, 0.55), (3797.91, 0.4), (3770.63, 0.3), (3750.15, 0.2), (3734.37, 0.15), (3721.95, 0.1)),
)
"""Air wavelength (Å), depth over Hα's."""
_BALMER_STRENGTH = ((3000.0, 4000.0, 5000.0, 5800.0, 6500.0, 7500.0), (-0.1, 0.0, 0.2, 0.32, 0.15, 0.45))
"""K; log of strength, so that Hα has 1 Å at 4,500 K, 3 Å in the Sun and 6 Å at 7,300 K, as in Indo-US and LAMOST."""


def balmer_depth(teff_k: float, log_g: float, strength: float = 1.0) -> FloatArray:
    """Optical depth of the Balmer lines to H14, over `strength` of what the temperature gives."""
    depth = zeros()
    scale = strength * 10.0 ** float(np.interp(teff_k, *_BALMER_STRENGTH))
    broad = float(np.interp(teff_k, [4500.0, 5800.0, 7500.0], [0.8, 1.6, 4.8])) * 10.0 ** (0.06 * (log_g - 4.0))
    for number, (line, share) in enumerate(_BALMER):
        centre = vacuum(line)
        half = broad * (centre / 6564.6) * (1.0 + 0.05 * number)
        add_lorentzian(depth, centre, 0.55 * share * scale / np.sqrt(1.0 + 0.4 * scale), half, 2.2)
    return depth


_COLOUR = ([3900.0, 4150.0, 4400.0, 5600.0, 6400.0, 7300.0], [0.93, 0.97, 1.03, 1.04, 1.10, 1.13])
"""Colour over effective temperature: from the continua of Indo-US stars, whose lines are drawn one by one."""


def continuum(star: Photosphere) -> FloatArray:
    """Black body of the star's colour, with the Balmer jump of warm stars."""
    flux = planck(star.colour_k or star.teff_k * float(np.interp(star.teff_k, *_COLOUR)))
    jump = float(np.interp(star.teff_k, [5500.0, 7500.0], [0.0, 0.36]))
    if jump > 0.0:
        flux = flux * (1.0 - jump / (1.0 + np.exp((GRID - 3720.0) / 25.0)))
    return flux


_DIFFUSE = {
    "CaOH": ((5550.0, 30.0, 0.6), (6237.0, 18.0, 1.0), (6258.0, 12.0, 0.4)),
    "C3": ((4050.0, 90.0, 1.0), (3980.0, 160.0, 0.5), (3600.0, 400.0, 0.35)),
}
"""Polyatomic bands without structure at this resolution: centre (Å, air), half-width at half depth (Å), strength."""
_SIC2 = ((4977.0, 1.0), (4905.0, 0.35), (4867.0, 0.7), (4640.0, 0.4), (4582.0, 0.3), (5192.0, 0.4))
"""Merrill-Sanford bands of SiC2, air, sharp on the red side; Sarre et al. 2000, MNRAS 319, 103."""


@lru_cache(maxsize=8)
def diffuse(name: str) -> FloatArray:
    """Shape (peak near 1) of CaOH, C3 or SiC2, read-only."""
    depth = zeros()
    if name == "SiC2":
        for head, peak in _SIC2:
            add_band(depth, vacuum(head), peak, 25.0, "red", 6.0)
    else:
        for centre, half, peak in _DIFFUSE[name]:
            depth += peak * np.exp(-0.693 * ((GRID - vacuum(centre)) / half) ** 2)
    depth.flags.writeable = False
    return depth


_RHO_13C = {"C2/13": float(np.sqrt(6.0 / 6.2400)), "CN/13": float(np.sqrt(6.4622 / 6.7412))}
"""Square root of reduced masses, 12C over one 13C; Huber & Herzberg 1979."""


_SPARSE = {"CaH": 0.6, "MgH": 0.75, "CH": 0.9}
"""Hydrides have few strong lines, which saturate one by one: depth grows with this power of what is averaged."""


def molecular_depth(star: Photosphere) -> FloatArray:
    """Optical depth of all molecules of the layer."""
    kelvin = star.molecule_k or 0.75 * star.teff_k
    depth = zeros()
    for name, column in star.columns.items():
        if name in ("CaOH", "C3", "SiC2"):
            depth += 10.0**column * diffuse(name)
        elif name in _SPARSE:
            power = _SPARSE[name]
            depth += 10.0 ** (column * power) * sparse_cross_section(name, kelvin, power)
        else:
            depth += 10.0**column * cross_section(name.partition("/")[0], kelvin, _RHO_13C.get(name, 1.0))
    return depth


def spectrum(star: Photosphere) -> FloatArray:
    """Flux per Å, relative, shape (n_grid,)."""
    light = continuum(star)
    if star.emission:
        lines = zeros()
        for air, width, fwhm in star.emission:
            add_emission(lines, air, width, fwhm)
        light = light * (1.0 + lines)
    depth, wings = atomic_depths(star.teff_k, star.log_g, star.feh, star.abundances)
    if star.balmer > 0.0:
        depth += balmer_depth(star.teff_k, star.log_g, star.balmer)
    if star.columns:
        # Atoms and molecules share the layer: lines drown where bands are deep.
        through = 1.0 / (1.0 + molecular_depth(star))
        depth *= through
        wings *= through
        cooler = 1.0 / (star.surface * star.teff_k) - 1.0 / star.teff_k
        floor = np.exp(-HC_OVER_K * cooler / GRID)
        light = light * (floor + (1.0 - floor) * through)
    return np.asarray(light * (_CORE + (1.0 - _CORE) * np.exp(-depth) / (1.0 + wings)))


def add_emission(lines: FloatArray, air: float, width: float, fwhm_km_s: float) -> None:
    """Add a line of this equivalent width (Å, positive) in units of the continuum."""
    centre = vacuum(air)
    sigma = centre * fwhm_km_s / FWHM / SPEED_OF_LIGHT_KM_S
    add_gaussian(lines, centre, width / (np.sqrt(2.0 * np.pi) * sigma), fwhm_km_s)
