"""Emergent light of hydrogen atmospheres: DA white dwarfs, hot subdwarfs, horizontal-branch stars, O to A stars.

A grey temperature law, cooled at the surface as line blanketing does, flattened below by convection where a white dwarf
convects; hydrostatic equilibrium; then the light at each wavelength from the opacities of `hydrogen`. Gravity thus
makes what it makes in stars: the width of the lines, the last line of the series, the jumps at 3646 and 8204 Å.
Models are made at the nodes of a grid, when first asked for (about 10 ms each), and interpolated.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from specvet.data.simulate import hydrogen
from specvet.data.simulate.source import GRID, FloatArray

DEPTHS = 36
_TAU = np.logspace(-6.0, 1.9, DEPTHS)

SURFACE, SURFACE_COOL = 0.25, 0.42
"""Hopf's function at the surface, above 12,000 and below 8,000 K, where a grey atmosphere has 0.577: lines cool what
lies above them. Set so that line cores have the depth of Koester's models."""

SLOPE = ((10_000.0, 14_000.0, 20_000.0, 30_000.0, 40_000.0, 60_000.0), (1.05, 1.35, 1.6, 1.2, 0.5, 0.25))
"""Teff → how much faster than grey T⁴ grows with depth; set on the strength of lines in Koester's models. Ultraviolet
light, which escapes from deeper than the Rosseland mean tells, makes the hottest flatter."""

COOL = 8_000.0
"""K, below which lines are made weaker, as in Koester's models."""

DECREMENT = ((6_000.0, 7_300.0, 8_200.0, 9_500.0), (4.0, 2.6, 1.6, 0.0))
"""Teff → power of the wavelength by which line opacity, right at Hβ, is too small at Hα and too large at Hγ in late A
and F stars; set on the Balmer lines of A2 to A9 stars of Indo-US and LAMOST."""

TEFFS = (
    5500.0, 6000.0, 6500.0, 7000.0, 7500.0, 8000.0, 8600.0, 9200.0, 10_000.0, 11_000.0, 12_000.0, 13_500.0, 15_500.0,
    18_000.0, 21_000.0, 25_000.0, 30_000.0, 36_000.0, 44_000.0, 56_000.0, 72_000.0, 95_000.0,
)  # fmt: skip
LOG_GS = (2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0)

PURE = 6.5
"""log g from which on heavier elements have sunk."""

_STELLAR = (0.1, 1e-4)
"""Helium and metals to one hydrogen atom of a star's atmosphere; a white dwarf's is pure."""


def hydrogen_star(teff: float, log_g: float, lines: bool = True) -> FloatArray:
    """Flux per Å of a hydrogen atmosphere, relative, shape (n_grid,) on `GRID`: not normalised, lines not rotated.

    From log g `PURE` on the gas is pure hydrogen, below it has the helium and the electrons of a star. Teff and log g
    are cut to the grid (5,500 to 95,000 K, 2.5 to 9). Without `lines` only the continuum, jumps included, on the same
    scale.
    """
    i, x = _between(np.log(teff), _LOG_TEFFS)
    j, y = _between(log_g, np.array(LOG_GS))
    total = np.zeros(GRID.size)
    for a, at in ((1.0 - x, i), (x, i + 1)):
        for b, over in ((1.0 - y, j), (y, j + 1)):
            if a * b > 1e-6:
                total += a * b * _node(at, over, lines)
    return np.exp(total)


_LOG_TEFFS = np.log(TEFFS)


def _between(value: float, nodes: FloatArray) -> tuple[int, float]:
    i = int(np.clip(np.searchsorted(nodes, value, side="right") - 1, 0, nodes.size - 2))
    return i, float(np.clip((value - nodes[i]) / (nodes[i + 1] - nodes[i]), 0.0, 1.0))


@lru_cache(maxsize=2 * len(TEFFS) * len(LOG_GS))
def _node(i: int, j: int, lines: bool) -> FloatArray:
    """ln of the flux of one model on `GRID`."""
    wavelength, flux = emergent(TEFFS[i], LOG_GS[j], lines)
    out = np.interp(GRID, wavelength, np.log(flux))
    out.flags.writeable = False
    return out


def emergent(teff: float, log_g: float, lines: bool = True) -> tuple[FloatArray, FloatArray]:
    """Wavelength (Å, vacuum; dense where lines are) and flux per Å, relative, both of shape (n,), of one model."""
    helium, metals = (0.0, 0.0) if log_g >= PURE else _STELLAR
    temperature, pressure, column = structure(teff, log_g)
    g = hydrogen.gas(temperature, pressure, helium, metals)
    wavelength = _wavelengths()
    weaker = min(1.0, (teff / COOL) ** 3.0)
    scattering = hydrogen.THOMSON * g.electrons
    absorbed = hydrogen.continuum(wavelength, g) - scattering
    if lines:
        absorbed += weaker * _steeper(wavelength, teff, log_g)[:, None] * hydrogen.lines(wavelength, g)
    # Light that electrons scatter has the colour of where it was last absorbed, which is deeper.
    opacity = np.sqrt(absorbed * (absorbed + scattering)) / g.density
    # Optical depth at the layers' borders, then the flux: 2 ∫ B dE3, E3 by three Gaussian angles.
    depth = np.zeros((wavelength.size, DEPTHS))
    depth[:, 0] = opacity[:, 0] * column[0]
    step = np.diff(np.log(column)) * np.sqrt(opacity[:, 1:] * column[1:] * opacity[:, :-1] * column[:-1])
    depth[:, 1:] = depth[:, :1] + np.cumsum(step, axis=1)
    through = _third_integral(depth)
    planck = wavelength[:, None] ** -5.0 / np.expm1(hydrogen.HC_OVER_K / (wavelength[:, None] * temperature))
    middle = 0.5 * (planck[:, 1:] + planck[:, :-1])
    flux = (planck[:, 0] * (0.5 - through[:, 0])) + np.sum(middle * -np.diff(through, axis=1), axis=1)
    flux += planck[:, -1] * through[:, -1]
    return wavelength, flux * (1e15 / teff**4)


def _steeper(wavelength: FloatArray, teff: float, log_g: float) -> FloatArray:
    """Factor on the Balmer lines of stars cooler than `DECREMENT` tells, by wavelength; 1 in white dwarfs."""
    power = float(np.interp(teff, *DECREMENT)) if log_g < PURE else 0.0
    return np.asarray(np.where(wavelength < 7500.0, (wavelength / 4862.7) ** power, 1.0))


@lru_cache(maxsize=8)
def structure(teff: float, log_g: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Temperature (K), pressure (dyn/cm²) and column mass (g/cm²) at `DEPTHS` layers, outside in."""
    scale = 1.0
    for _ in range(3):
        temperature, column = _stratified(teff * scale, log_g, _convects(teff, log_g))
        # What convection carries below comes out as radiation above: the light must be that of Teff.
        through = _third_integral(_TAU)
        light = 2.0 * np.sum(0.5 * (temperature[1:] ** 4 + temperature[:-1] ** 4) * -np.diff(through))
        light += 2.0 * (temperature[0] ** 4 * (0.5 - through[0]) + temperature[-1] ** 4 * through[-1])
        scale *= float((teff**4 / light) ** 0.25)
    return temperature, 10.0**log_g * column, column


def _convects(teff: float, log_g: float) -> float:
    """How far convection flattens the temperature: 0 not at all, 1 to the adiabat. In stars of low gravity it carries
    too little to matter here; in white dwarfs it dies out above 13,000 K (Tremblay et al. 2010, ApJ 712, 1345)."""
    return float(np.clip((13_500.0 + 1_500.0 * (log_g - 8.0) - teff) / 5_000.0, 0.0, 1.0)) if log_g >= PURE else 0.0


def _stratified(teff: float, log_g: float, convection: float) -> tuple[FloatArray, FloatArray]:
    """Temperature and column mass."""
    gravity, pure = 10.0**log_g, log_g >= PURE
    surface = float(np.interp(teff, (8_000.0, 12_000.0), (SURFACE_COOL, SURFACE)))
    hopf = 0.71 - (0.71 - surface) * np.exp(-_TAU / 0.05)
    grey = (teff * (0.75 * (_TAU * float(np.interp(teff, *SLOPE)) + hopf)) ** 0.25).tolist()
    tau = _TAU.tolist()
    t, mass = grey[0], 1e-8
    for _ in range(8):
        mass = tau[0] / rosseland(t, gravity * mass, pure)
    temperature, column = [t], [mass]
    for k in range(1, DEPTHS):
        t, before = temperature[-1] * grey[k] / grey[k - 1], mass
        for _ in range(2):  # κ at the near side of the step, then at the far one
            mass = before + (tau[k] - tau[k - 1]) / rosseland(t, gravity * mass, pure)
        if convection > 0.0:
            rising = _looked_up(_tables(pure)[1], temperature[-1], gravity * mass)
            t -= convection * max(t - temperature[-1] * (mass / before) ** rising, 0.0)
        temperature.append(t)
        column.append(mass)
    return np.array(temperature), np.array(column)


def _third_integral(depth: FloatArray) -> FloatArray:
    """E3 by three Gaussian angles: the share of an isotropic source's light that passes."""
    through = np.zeros_like(depth)
    for mu, weight in ((0.1127, 0.2778), (0.5, 0.4444), (0.8873, 0.2778)):
        through += mu * weight * np.exp(-np.minimum(depth / mu, 80.0))
    return through


_LOG_T, _LOG_P = np.linspace(np.log(3_000.0), np.log(400_000.0), 60), np.linspace(np.log(1e-4), np.log(1e13), 60)
_FIRST_T, _STEP_T = float(_LOG_T[0]), float(_LOG_T[1] - _LOG_T[0])
_FIRST_P, _STEP_P = float(_LOG_P[0]), float(_LOG_P[1] - _LOG_P[0])


@lru_cache(maxsize=2)
def _tables(pure: bool) -> tuple[list[list[float]], list[list[float]]]:
    """Over (`_LOG_T`, `_LOG_P`): ln of the Rosseland mean (cm²/g; lines left out), and d ln T / d ln P of hydrogen that
    rises and ionises on the way (Unsöld 1955)."""
    t, p = (np.exp(a) for a in np.meshgrid(_LOG_T, _LOG_P, indexing="ij"))
    g = hydrogen.gas(t, p, *((0.0, 0.0) if pure else _STELLAR))
    wavelength = np.logspace(np.log10(80.0), np.log10(60_000.0), 70)
    kappa = hydrogen.continuum(wavelength, g) / g.density
    x = np.minimum(hydrogen.HC_OVER_K / (wavelength[:, None, None] * t), 300.0)
    weight = x**5 * np.exp(-x) / np.expm1(-x) ** 2  # dB/dT dν, for steps of equal ln λ
    mean = np.log(weight.sum(axis=0) / (weight / kappa).sum(axis=0))
    ionised, energy = g.protons / (g.protons + g.neutral), 2.5 + hydrogen.IONISATION_K / t
    half = ionised * (1.0 - ionised)
    return mean.tolist(), ((2.0 + half * energy) / (5.0 + half * energy**2)).tolist()


def _looked_up(table: list[list[float]], temperature: float, pressure: float) -> float:
    x, i = _position((math.log(temperature) - _FIRST_T) / _STEP_T)
    y, j = _position((math.log(pressure) - _FIRST_P) / _STEP_P)
    low = (1.0 - y) * table[i][j] + y * table[i][j + 1]
    return (1.0 - x) * low + x * ((1.0 - y) * table[i + 1][j] + y * table[i + 1][j + 1])


def _position(at: float) -> tuple[float, int]:
    """How far behind which of the 60 nodes of an axis lies a place that counts in their steps."""
    i = min(max(int(at), 0), 58)
    return min(max(at - i, 0.0), 1.0), i


def rosseland(temperature: float, pressure: float, pure: bool) -> float:
    """Rosseland mean opacity, cm²/g, of `pure` hydrogen or of a star's gas."""
    return math.exp(_looked_up(_tables(pure)[0], temperature, pressure))


@lru_cache(maxsize=1)
def _wavelengths() -> FloatArray:
    """Where models are computed: fine in line cores and crowded series, coarse elsewhere."""
    pieces = [np.arange(3395.0, 10_720.0, 18.0), np.arange(3640.0, 3920.0, 1.0), np.arange(8200.0, 8700.0, 2.5)]
    offsets = np.concatenate([np.arange(0.0, 3.0, 0.6), np.geomspace(3.0, 260.0, 26)])
    for lower, uppers in ((2, range(3, 10)), (3, range(7, 13))):
        for upper in uppers:
            centre = hydrogen.line_wavelength(lower, upper)
            pieces += [centre - offsets, centre + offsets]
    every = np.unique(np.round(np.concatenate(pieces), 2))
    return np.asarray(every[(every > 3390.0) & (every < 10_725.0)])
