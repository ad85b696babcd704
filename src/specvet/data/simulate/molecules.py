"""Absorption by diatomic molecules, line by line, from their spectroscopic constants.

Each electronic system is built from the constants of its two states (`molecular_constants`): vibrational overlaps of
Morse oscillators, P, Q and R branches of a rotor with centrifugal stretching, Hönl-London weights without spin, and
Boltzmann populations. The origins are fixed so that the first band's heads fall where the atlases measured them, so
that sub-heads, their spacing, and the side on which a band is sharp follow from physics and are not drawn by hand.
What is left out: Λ-doubling, spin-rotation mixing, perturbations, hot bands above the listed levels.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.special import eval_genlaguerre

from specvet.data.simulate.molecular_constants import SYSTEMS, State, System
from specvet.data.simulate.physics import vacuum
from specvet.data.simulate.source import GRID, STEP, FloatArray

K_CM = 0.695_034_8
"""Boltzmann's constant, cm⁻¹/K; CODATA 2018."""
_MORSE = 16.857_629_2
"""ħ²/2 in amu Å² cm⁻¹: B = 16.8576 / (μ r²)."""
TEMPERATURES = (1600.0, 2000.0, 2500.0, 3000.0, 3600.0, 4300.0, 5200.0)
"""K: where cross-sections are computed; between them they are interpolated."""
_F_TO_SIGMA = 8.852_8e-13
"""πe²/mc², cm² for wavenumbers in cm⁻¹."""
_TOP = np.log10(GRID[0])


def term(state: State, v: int) -> float:
    """Vibrational energy above the bottom of the curve, cm⁻¹."""
    return state.we * (v + 0.5) - state.wexe * (v + 0.5) ** 2 + state.weye * (v + 0.5) ** 3


def scaled(state: State, rho: float) -> State:
    """The state of an isotopologue; `rho` is the square root of the ratio of reduced masses, old over new."""
    return State(state.we * rho, state.wexe * rho**2, state.b * rho**2, state.alpha * rho**3, state.weye * rho**3)


def _wave_functions(state: State, mu: float, levels: int, r: FloatArray) -> FloatArray:
    """Normalised Morse functions, shape (levels, r.size)."""
    lam = state.we / (2.0 * state.wexe)
    distance = np.sqrt(_MORSE / (mu * state.b))
    a = np.sqrt(state.wexe * mu / _MORSE)
    z = 2.0 * lam * np.exp(-a * (r - distance))
    functions = np.empty((levels, r.size))
    for v in range(levels):
        s = lam - v - 0.5
        log = s * np.log(z) - 0.5 * z
        functions[v] = np.exp(log - log.max()) * eval_genlaguerre(v, 2.0 * s, z)
    return np.asarray(functions / np.sqrt((functions**2).sum(axis=1, keepdims=True)))


@lru_cache(maxsize=64)
def franck_condon(upper: State, lower: State, mu: float, n_upper: int, n_lower: int) -> FloatArray:
    """Vibrational overlaps squared, shape (n_upper, n_lower), of Morse oscillators; read-only."""
    distances = [np.sqrt(_MORSE / (mu * state.b)) for state in (upper, lower)]
    r = np.linspace(0.6 * min(distances), 1.7 * max(distances), 800)
    overlap = _wave_functions(upper, mu, n_upper, r) @ _wave_functions(lower, mu, n_lower, r).T
    overlap **= 2
    overlap.flags.writeable = False
    return np.asarray(overlap)


def _branches(upper: State, v_upper: int, lower: State, v_lower: int, j: FloatArray) -> tuple[FloatArray, ...]:
    """Wavenumbers from the band's origin (P, Q, R; shape (n_j,)) and the rotational energy of the lower level."""

    def energy(state: State, v: int, n: FloatArray) -> FloatArray:
        b = state.b - state.alpha * (v + 0.5)
        d = 4.0 * state.b**3 / state.we**2
        x = n * (n + 1.0)
        return b * x - d * x * x

    below = energy(lower, v_lower, j)
    return (
        energy(upper, v_upper, j - 1.0) - below,
        energy(upper, v_upper, j) - below,
        energy(upper, v_upper, j + 1.0) - below,
        below,
    )


def _rotor(mu_b: float) -> FloatArray:
    """Rotational quantum numbers up to 8 kT at 6,000 K, at most 260."""
    return np.arange(1.0, min(260.0, np.sqrt(30_000.0 / mu_b)))


def _reach(upper: State, v_upper: int, lower: State, v_lower: int) -> float:
    """Wavenumber of a band's head from its origin: where the R branch turns, or P if the upper state is tighter."""
    p, _, r, _ = _branches(upper, v_upper, lower, v_lower, _rotor(lower.b))
    return float(r.max()) if r.max() < -p.min() else float(p.min())


def origins(system: System) -> tuple[float, ...]:
    """Wavenumber (cm⁻¹) between the bottoms of both curves, one for each spin component."""
    v_upper, v_lower = system.band
    shift = term(system.upper, v_upper) - term(system.lower, v_lower)
    if system.origins:
        return tuple(origin - shift for origin in system.origins)
    reach = _reach(system.upper, v_upper, system.lower, v_lower)
    return tuple(1e8 / vacuum(head) - reach - shift for head in system.heads)


def heads(system: System, v_upper: int, v_lower: int, rho: float = 1.0) -> tuple[float, ...]:
    """Vacuum wavelength (Å) of the heads of a vibrational band, one for each spin component."""
    upper, lower = scaled(system.upper, rho), scaled(system.lower, rho)
    shift = term(upper, v_upper) - term(lower, v_lower) + _reach(upper, v_upper, lower, v_lower)
    return tuple(1e8 / (origin + shift) for origin in origins(system))


@lru_cache(maxsize=256)
def _lines(system: System, kelvin: float, rho: float) -> FloatArray:
    upper, lower = scaled(system.upper, rho), scaled(system.lower, rho)
    mu = system.mu / rho**2
    overlaps = franck_condon(upper, lower, mu, system.n_upper, system.n_lower)
    kt = K_CM * kelvin
    j = _rotor(lower.b)
    levels = np.array([term(lower, v) for v in range(60) if 2 * lower.wexe * v < lower.we]) - term(lower, 0)
    partition = kt / lower.b * np.exp(-levels / kt).sum()
    total = np.zeros(GRID.size)
    components = origins(system)
    weights = np.array(system.weights or (1.0,) * len(components))
    weights /= weights.sum()
    for v_upper in range(system.n_upper):
        for v_lower in range(system.n_lower):
            strength = overlaps[v_upper, v_lower] * np.exp(-levels[v_lower] / kt)
            if strength < 1e-5:
                continue
            *branches, below = _branches(upper, v_upper, lower, v_lower, j)
            populations = strength * (2.0 * j + 1.0) * np.exp(-below / kt) / partition
            shift = term(upper, v_upper) - term(lower, v_lower)
            for origin, weight in zip(components, weights, strict=True):
                for branch, part in zip(branches, system.branches, strict=True):
                    if part:
                        nu = np.maximum(origin + shift + branch, 1.0)
                        position = (8.0 - np.log10(nu) - _TOP) / STEP
                        first = np.floor(position).astype(int)
                        inside = (first >= 0) & (first < GRID.size - 1)
                        first, rest = first[inside], (position - first)[inside]
                        amount = (0.25 * part * weight * populations / nu)[inside]
                        total += np.bincount(first, amount * (1.0 - rest), GRID.size)
                        total += np.bincount(first + 1, amount * rest, GRID.size)
    return np.asarray(total * (_F_TO_SIGMA * system.f / (STEP * np.log(10.0))))


@lru_cache(maxsize=512)
def _cross_section(name: str, kelvin: float, rho: float) -> FloatArray:
    total = sum((_lines(system, kelvin, rho) for system in SYSTEMS[name]), np.zeros(GRID.size))
    total = np.asarray(gaussian_filter1d(total, 0.7))
    total.flags.writeable = False
    return total


def nearest(kelvin: float) -> float:
    """The nearest of `TEMPERATURES`."""
    return min(TEMPERATURES, key=lambda t: abs(float(np.log(t / kelvin))))


def cross_section(name: str, kelvin: float, rho: float = 1.0) -> FloatArray:
    """Cross-section (cm²) of one molecule on `GRID`, every system of it that lies there, read-only.

    Averaged over a pixel. `kelvin` is rounded to the nearest of `TEMPERATURES`; `rho` is that of `scaled`. Raises
    KeyError for a molecule that `molecular_constants` does not list.
    """
    return _cross_section(name, nearest(kelvin), rho)


@lru_cache(maxsize=64)
def _sparse(name: str, kelvin: float, power: float) -> FloatArray:
    total = np.asarray(gaussian_filter1d(_cross_section(name, kelvin, 1.0) ** power, 1.5))
    total.flags.writeable = False
    return total


def sparse_cross_section(name: str, kelvin: float, power: float) -> FloatArray:
    """`cross_section` to a power, for molecules whose few lines saturate one by one, read-only."""
    return _sparse(name, nearest(kelvin), power)
