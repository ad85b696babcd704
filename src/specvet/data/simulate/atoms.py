"""How deep atomic lines are in the layer above a cool star's photosphere.

Atoms follow Boltzmann and Saha at 0.90 of the effective temperature and at an electron pressure that scales with
temperature and gravity; the strength of a line is its opacity over that of H⁻. Narrow lines come as equivalent widths
from a curve of growth, strong ones with the wings of damping by radiation and pressure. Two constants are set so that
the Sun's lines come out (Moore, Minnaert & Houtgast 1966; `tests/data/simulate/test_sim_cool_stars.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from specvet.data.simulate.atomic_lines import ELEMENTS, FOREST_BIN, FOREST_START, FOREST_WEIGHTS, LINES
from specvet.data.simulate.source import GRID, KM_S_PER_PIXEL, STEP, FloatArray
from specvet.spectra.lines import air_to_vacuum

_STRENGTH = 1.9
"""log of line over continuous opacity, for the constants left out below: fixed by the Sun's Fe I 5250.2 of 66 mÅ."""
_DAMPING = 1.5e9
"""s⁻¹, by hydrogen atoms in the Sun's photosphere: a few times Unsöld's value; fixed by Ca II K, Mg b and Na D."""
_TIGHT = dict.fromkeys((f"{element} {ion}" for element in ("Sc", "Ti", "V", "Cr", "Mn", "Fe", "Co", "Ni")
                        for ion in ("I", "II")), 0.35) | {"Ca I": 0.2}  # fmt: skip
"""Damping over that of the others: metals of the iron group collide less (Barklem et al. 2000, A&AS 142, 467); Ca I as
its 4227 in M dwarfs shows."""
_SUN = (5772.0, 4.44)
_LAYER = 0.90
_H_MINUS = ((3400.0, 4000.0, 5000.0, 8500.0, 10_700.0), (-0.3, -0.22, -0.12, 0.0, -0.03))
"""log of the opacity of H⁻ over that at 8,500 Å; Gray 2005, fig. 8.3."""

FOREST = 9000
"""Weak lines that no list holds: the same in every star, since they are drawn with a seed of their own."""
_SEED = 68
_LOW_EV = 2.25
"""eV: between the two sorts of weak lines that `FOREST_WEIGHTS` weighs apart."""

_RESOLVED = (0.7 * KM_S_PER_PIXEL) ** 2
"""(km/s)²: optical depth in a wing times velocity squared, above which a wing is drawn and not only counted."""
_REACH = 2500
"""Pixels to either side, at most, that a wing is drawn."""
_VELOCITIES: FloatArray = np.arange(-_REACH, _REACH + 1) * KM_S_PER_PIXEL


def electron_pressure(teff_k: float, log_g: float, feh: float = 0.0) -> float:
    """log of electron pressure (dyn/cm²) where lines form: a fit to standard models, Gray 2005, appendix D."""
    return 0.6 + 0.4 * (log_g - _SUN[1]) + 0.6 * (teff_k - _SUN[0]) / 1000.0 + 0.25 * feh


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """All lines, sorted by wavelength; arrays have shape (n_lines,)."""

    first: NDArray[np.intp]
    """Pixel of `GRID` to the blue of it."""
    rest: FloatArray
    """Distance from that pixel, in pixels."""
    ion: NDArray[np.intp]
    """2 × number of the element in `ELEMENTS`, + 1 for an ion."""
    excitation: FloatArray
    """eV."""
    constant: FloatArray
    """Natural logarithm of gf, abundance, wavelength and the run of H⁻'s opacity."""
    damping: FloatArray
    """km/s for 1 s⁻¹ of damping: wavelength over 4π."""
    tight: FloatArray
    """Damping by collisions over `_DAMPING`."""
    weight: FloatArray
    """How many lines it stands for: 1 for listed ones, `FOREST_WEIGHTS` for weak ones."""


@lru_cache(maxsize=1)
def _lines() -> _Lines:
    names = list(ELEMENTS)
    rows = []
    for species, lines in LINES.items():
        element, stage = species.split()
        ion = 2 * names.index(element) + (stage == "II")
        rows += [(float(air_to_vacuum(np.array([air]))[0]), ion, energy, gf) for air, energy, gf in lines]
    rng = np.random.default_rng(_SEED)
    wavelength = 3380.0 - 1500.0 * np.log1p(-rng.random(FOREST) * 0.993)
    energy = rng.uniform(0.0, 4.5, FOREST)
    strength = -5.5 - 2.5 * rng.power(1.6, FOREST) - 0.2 * np.maximum(wavelength - 5500.0, 0.0) / 1000.0
    ionised = rng.random(FOREST) < 0.08
    ion_number = 2 * names.index("Fe") + ionised
    weak = np.column_stack([wavelength, ion_number, energy, strength + 0.95 * energy + 1.2 * ionised])
    bins = np.floor((wavelength - FOREST_START) / FOREST_BIN).astype(np.intp)
    inside = (bins >= 0) & (bins < len(FOREST_WEIGHTS[0]))
    heavy = np.array(FOREST_WEIGHTS)[(energy >= _LOW_EV).astype(np.intp), np.clip(bins, 0, len(FOREST_WEIGHTS[0]) - 1)]
    weak = np.column_stack([weak, np.where(inside, heavy, 1.0)])
    table = np.vstack([np.column_stack([np.array(rows), np.ones(len(rows))]), weak])
    table = table[np.argsort(table[:, 0], kind="stable")]
    table = table[(table[:, 0] > GRID[2]) & (table[:, 0] < GRID[-3])]
    wavelength, ion, energy, gf, weight = table.T
    number = ion.astype(np.intp) // 2
    abundance = np.array([row[0] for row in ELEMENTS.values()])[number]
    constant = gf + abundance + np.log10(wavelength / 5000.0) - np.interp(wavelength, *_H_MINUS) + _STRENGTH
    position = (np.log10(wavelength) - np.log10(GRID[0])) / STEP
    first = position.astype(np.intp)
    return _Lines(
        first,
        position - first,
        ion.astype(np.intp),
        energy,
        constant * np.log(10.0),
        wavelength * 1e-13 / (4.0 * np.pi),
        np.array([_TIGHT.get(f"{name} {stage}", 1.0) for name in names for stage in ("I", "II")])[ion.astype(np.intp)],
        weight,
    )


def _shares(theta: float, pressure: float, feh: float, abundances: Mapping[str, float]) -> FloatArray:
    """log of the share of each element's atoms and ions over their partition functions, abundance changes included.

    Shape (2 n_elements,), atoms and ions alternating; `theta` is 5040/T.
    """
    _, ionisation, atom, ion = np.array(list(ELEMENTS.values())).T
    saha = 2.5 * np.log10(5040.0 / theta) - 0.48 + np.log10(2.0 * ion / atom) - ionisation * theta - pressure
    ratio = 10.0 ** np.clip(saha, -12.0, 12.0)
    extra = np.array([feh + abundances.get(name, 0.0) for name in ELEMENTS])
    atoms = extra - np.log10((1.0 + ratio) * atom)
    ions = extra + np.log10(ratio / (1.0 + ratio) / ion)
    ions += [abundances.get(f"{name} II", 0.0) for name in ELEMENTS]
    return np.column_stack([atoms, ions]).ravel()


def opacities(teff_k: float, log_g: float, feh: float, abundances: Mapping[str, float]) -> FloatArray:
    """Line over continuous opacity at the centre of each line, shape (n_lines,)."""
    lines = _lines()
    theta = 5040.0 / (_LAYER * teff_k)
    pressure = electron_pressure(teff_k, log_g, feh)
    h_minus = pressure + 2.5 * np.log10(theta) + 0.754 * theta
    table = (_shares(theta, pressure, feh, abundances) - h_minus) * np.log(10.0)
    return np.asarray(np.exp(lines.constant + table[lines.ion] - (theta * np.log(10.0)) * lines.excitation))


def doppler_width(log_g: float) -> float:
    """km/s: heat and turbulence, which grows towards giants."""
    return 1.6 + 0.4 * float(max(4.5 - log_g, 0.0) ** 0.8)


def atomic_depths(
    teff_k: float, log_g: float, feh: float, abundances: Mapping[str, float]
) -> tuple[FloatArray, FloatArray]:
    """Depth of the narrow lines, and of the wings of strong ones: they leave exp(−depth) / (1 + wings).

    Arrays have shape (n_grid,) and are the caller's own.
    """
    lines = _lines()
    strength = opacities(teff_k, log_g, feh, abundances)
    doppler = doppler_width(log_g)
    pressure = 10.0 ** (0.4 * (log_g - _SUN[1]) - 0.2 * (_SUN[0] - teff_k) / 1000.0 - 0.3 * feh)
    # τ = wings / velocity², far from the centre: a Voigt profile with a = damping / doppler.
    wings = strength * lines.damping * (1.0e8 + _DAMPING * pressure * lines.tight) * (doppler / np.sqrt(np.pi))
    resolved = wings > _RESOLVED
    # Curve of growth, squared: linear, then the square root of the logarithm, then (unless drawn) that of the wings.
    width = (1.772 * strength) ** 2
    width *= 1.0 / (1.0 + width / (4.0 * np.log1p(strength) + 1e-30))
    width *= doppler**2
    width[~resolved] += np.pi**2 * wings[~resolved]
    width = np.sqrt(width) * lines.weight / KM_S_PER_PIXEL
    right = width * lines.rest
    depth = np.bincount(lines.first, width - right, GRID.size)
    depth[1:] += np.bincount(lines.first, right, GRID.size)[:-1]
    far = np.zeros(GRID.size)
    core = (KM_S_PER_PIXEL / 2.0) ** 2
    for index in np.flatnonzero(resolved):
        wing, centre = wings[index], lines.first[index]
        reach = min(_REACH, int(10.0 * np.sqrt(wing) / KM_S_PER_PIXEL) + 3)
        low, high = max(centre - reach, 0), min(centre + reach, GRID.size)
        velocity = _VELOCITIES[low - centre + _REACH : high - centre + _REACH] - lines.rest[index] * KM_S_PER_PIXEL
        far[low:high] += wing / (velocity * velocity + core)
    return np.asarray(gaussian_filter1d(depth, 0.8, truncate=3.0)), far
