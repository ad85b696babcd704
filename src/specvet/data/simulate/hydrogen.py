"""Hydrogen gas: how it ionises, what its levels absorb, how pressure dissolves them. CGS units, wavelengths in Å.

Opacities are those of a stellar atmosphere in local thermal equilibrium: bound-free and free-free of H, H⁻, electron
scattering, and the Balmer and Paschen lines with Stark wings. Occupation probabilities (Hummer & Mihalas 1988,
ApJ 331, 794) end the series where the field of the neighbours tears the upper level off (Inglis & Teller), and turn
what the lines lose into a continuum (Däppen, Anderson & Mihalas 1987, ApJ 319, 195).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specvet.data.simulate.source import FloatArray

K_BOLTZMANN = 1.380649e-16
HC_OVER_K = 1.438776877e8
"""Å K; CODATA 2018."""
RYDBERG = 911.7634
"""Å in vacuum; the Lyman limit of ¹H."""
IONISATION_K = 157_887.5
"""13.598 eV over k."""
MASS_H = 1.6735e-24
THOMSON = 6.6524e-25
"""cm² an electron scatters."""

LAST_LEVEL = 28
"""The highest upper level with a line of its own; what lies above is blended at any survey's resolution."""

_GAUNT = {2: (0.757, 0.822, 0.844, 0.855, 0.861), 3: (0.766, 0.828, 0.856, 0.873, 0.886)}
"""f over Kramers' f for the first lines of a series; the limit of the series has 0.876 and 0.90 (Wiese & Fuhr 2009)."""

_STARK = {2: (0.0080, 0.0190, 0.033, 0.045, 0.065), 3: (0.124, 0.171, 0.223, 0.261, 0.342)}
"""Å shift per unit of field strength F0, first five lines of a series. After Kurucz 1970, SAO Special Report 309; Hα,
which has a strong unshifted component, made narrower and the others wider, as Koester's models have them."""

WING = ((14.5, 16.0, 17.0, 18.0), (1.9, 3.2, 4.6, 5.6))
"""Of the Stark profile, S(β) → w β^(−5/2), against log10 of the electrons per cm³. Ions alone have 1.5, with electrons
that act as slowly as ions 3; above that it was set on Koester's models, below on A stars."""

_NORM = 2.0 * np.pi / 2.5 / np.sin(np.pi / 2.5)
"""∫ dx / (1 + |x|^2.5)."""


@dataclass(frozen=True, slots=True)
class Gas:
    """The state of the gas at some depths; all arrays have one shape."""

    temperature: FloatArray
    electrons: FloatArray
    """Per cm³, as the rest."""
    protons: FloatArray
    neutral: FloatArray
    density: FloatArray
    """g/cm³."""


def gas(temperature: FloatArray, pressure: FloatArray, helium: float = 0.0, metals: float = 0.0) -> Gas:
    """Saha's equilibrium at a temperature (K) and pressure (dyn/cm²).

    `helium` atoms to one of hydrogen add weight and pressure, no electrons; `metals` atoms to one of hydrogen are
    ionised once (Mg, Si, Fe, which feed H⁻ in cool stars).
    """
    saha = 2.4146e15 * temperature**1.5 * np.exp(-IONISATION_K / temperature)
    total = pressure / (K_BOLTZMANN * temperature)
    # With N nuclei of hydrogen: e = x N + m N, total = N (1 + helium + x + m) and e x/(1−x) = saha, quadratic in x.
    b = metals * total + (helium + metals) * saha
    c = (1.0 + helium + metals) * saha
    x = np.clip(2.0 * c / (b + np.sqrt(b**2 + 4.0 * (total + saha) * c) + 1e-300), 1e-14, 1.0 - 1e-9)
    nuclei = total / (1.0 + helium + x + metals)
    neutral = nuclei * np.where(x < 0.999, 1.0 - x, (x + metals) * nuclei / (saha + (x + metals) * nuclei))
    return Gas(temperature, (x + metals) * nuclei, x * nuclei, neutral, nuclei * MASS_H * (1.0 + 3.97 * helium))


def occupation(n: FloatArray | float, g: Gas) -> FloatArray:
    """Probability that level `n` survives its neighbours; `n` broadcasts against the depths.

    Charged: fit of Hubeny, Hummer & Lanz 1994, A&A 282, 151, appendix A. Neutral: excluded volume with half the
    hydrogenic radius (Bergeron et al. 1991, ApJ 367, 253).
    """
    n = np.asarray(n, dtype=np.float64)
    k = np.where(n > 3.0, 16.0 / 3.0 * n / (n + 1.0) ** 2, 1.0)
    beta = 8.3e14 * np.maximum(g.electrons, 1.0) ** (-2.0 / 3.0) * k * n**-4.0
    a = 0.09 * np.maximum(g.electrons, 1.0) ** (1.0 / 6.0) / np.sqrt(g.temperature)
    x = (1.0 + a) ** 3.15
    f = 0.1402 * (x + 4.0 * a**3) * beta**3 / (1.0 + 0.1285 * x * beta**1.5)
    radius = 0.5 * 5.29177e-9 * (n**2 + 1.0)
    return np.asarray(f / (1.0 + f) * np.exp(-np.minimum(4.0 / 3.0 * np.pi * radius**3 * g.neutral, 300.0)))


def level(n: int, g: Gas) -> FloatArray:
    """Atoms in level `n` per cm³."""
    return np.asarray(g.neutral * n**2 * np.exp(-IONISATION_K * (1.0 - n**-2.0) / g.temperature) * occupation(n, g))


def continuum(wavelength: FloatArray, g: Gas) -> FloatArray:
    """Opacity per cm without lines, shape (n_wavelength, *depths), for gas of shape (*depths)."""
    lam = wavelength.reshape(-1, *([1] * np.ndim(g.temperature)))
    # Bound-free as Kramers has it; free-free, and the levels above 8 as if they were a continuum (Unsöld's integral).
    tail = np.exp(np.minimum(IONISATION_K / 81.0 / g.temperature, 50.0))
    total = lam**3 * (3.692e8 / 2.99792458e18**3 / np.sqrt(g.temperature) * g.electrons * g.protons * tail)
    for n in range(1, 9):
        rows = slice(0, int(np.searchsorted(wavelength, RYDBERG * n**2, side="right")))
        total[rows] += lam[rows] ** 3 * (1.0449e-26 / n**5 * level(n, g))
    for n in (2, 3):
        rows = slice(int(np.searchsorted(wavelength, RYDBERG * n**2, side="right")), wavelength.size)
        if wavelength[rows].size and np.ndim(g.temperature) == 1:
            total[rows] += lam[rows] ** 3 * (1.0449e-26 / n**5 * level(n, g)) * _dissolved(n, wavelength[rows], g)
    stimulated = -np.expm1(-HC_OVER_K / (lam * g.temperature))
    if float(g.temperature.min()) < 13_000.0:  # H⁻ does not survive above
        if np.ndim(g.temperature) == 1 and wavelength.size > 600:  # smooth enough for few nodes
            nodes = np.linspace(float(wavelength[0]), float(wavelength[-1]), 200)
            total += _interpolated(wavelength, nodes, _h_minus(nodes[:, None], g))
        else:
            total += _h_minus(lam, g)
    return np.asarray(total * stimulated + THOMSON * g.electrons)


def _interpolated(at: FloatArray, nodes: FloatArray, values: FloatArray) -> FloatArray:
    """`values`, shape (n_nodes, n_depth), at places among evenly spaced nodes, shape (n_at, n_depth)."""
    place = np.clip((at - nodes[0]) / (nodes[1] - nodes[0]), 0.0, nodes.size - 1.001)
    i = place.astype(int)
    x = (place - i)[:, None]
    return np.asarray((1.0 - x) * values[i] + x * values[i + 1])


def _dissolved(n: int, wavelength: FloatArray, g: Gas) -> FloatArray:
    """Share of level n's light absorption beyond its edge that ends in a level that is torn off."""
    upper = np.minimum((n**-2.0 - RYDBERG / wavelength) ** -0.5, 99.0)
    # The extrapolation is not meant for levels below n + 2, which keep their lines; it fades out there.
    nodes = np.geomspace(n + 1.2, 99.0, 60)
    share = (1.0 - occupation(nodes[:, None], g)) * np.clip((nodes[:, None] - n - 1.2) / 1.5, 0.0, 1.0)
    return _interpolated(np.log(upper), np.log(nodes), share)


def _h_minus(lam: FloatArray, g: Gas) -> FloatArray:
    """H⁻ per cm without stimulated emission: bound-free of John 1988, A&A 193, 189; free-free of Gray 2005, 8.13."""
    micron = np.minimum(lam / 1e4, 1.6419)
    u = np.maximum(1.0 / micron - 1.0 / 1.6419, 0.0)
    fit = np.zeros_like(u)
    for power, c in enumerate((152.519, 49.534, -118.858, 92.536, -34.194, 4.982)):
        fit += c * u ** (power / 2.0)
    cross = 1e-18 * micron**3 * u**1.5 * np.maximum(fit, 0.0)
    t = g.temperature
    bound = 0.750 * t**-2.5 * np.exp(np.minimum(1.4388e4 / (1.6419 * t), 50.0)) * cross
    log = np.log10(np.clip(lam, 2600.0, 113_900.0))
    f0 = -2.2763 - 1.6850 * log + 0.76661 * log**2 - 0.053346 * log**3
    f1 = 15.2827 - 9.2846 * log + 1.99381 * log**2 - 0.142631 * log**3
    f2 = -197.789 + 190.266 * log - 67.9775 * log**2 + 10.6913 * log**3 - 0.625151 * log**4
    theta = np.log10(5040.0 / np.clip(t, 2500.0, 12_000.0))
    free = 1e-26 * 10.0 ** (f0 + f1 * theta + f2 * theta**2)
    return np.asarray((bound + free) * g.electrons * K_BOLTZMANN * t * g.neutral)


def line_wavelength(lower: int, upper: int) -> float:
    """Å in vacuum."""
    return float(RYDBERG / (lower**-2.0 - upper**-2.0))


def oscillator_strength(lower: int, upper: int) -> float:
    """Of absorption: Kramers' value times a Gaunt factor."""
    kramers = 32.0 / (3.0 * np.pi * np.sqrt(3.0)) * (lower**-2.0 - upper**-2.0) ** -3.0 / (lower**5 * upper**3)
    known, limit = _GAUNT[lower], {2: 0.876, 3: 0.90}[lower]
    i = upper - lower - 1
    return float(kramers * (known[i] if i < len(known) else limit - (limit - known[-1]) * (lower + 5) / upper))


def lines(wavelength: FloatArray, g: Gas) -> FloatArray:
    """Opacity per cm of the Balmer and Paschen lines, shape (n_wavelength, n_depth); `wavelength` rises."""
    total = np.zeros((wavelength.size, g.temperature.size))
    field = 1.25e-9 * g.electrons ** (2.0 / 3.0)
    # What survives of each level, counted from level 1.
    surviving = occupation(np.arange(1.0, LAST_LEVEL + 1.0)[:, None], g)
    wing = np.interp(np.log10(g.electrons), *WING)
    thermal = np.sqrt(2.0 * K_BOLTZMANN * g.temperature / MASS_H + 4e10) / 2.99792458e10  # 2 km/s of turbulence
    for lower in (2, 3):
        atoms = level(lower, g)
        for upper in range(lower + 1, LAST_LEVEL + 1):
            centre = line_wavelength(lower, upper)
            reach = 600.0 if upper < lower + 4 else 250.0
            low, high = np.searchsorted(wavelength, (centre - reach, centre + reach))
            if low == high:
                continue
            # Of the upper level, given that the lower does.
            survive = surviving[upper - 1] / surviving[lower - 1]
            strength = 8.853e-21 * centre**2 * oscillator_strength(lower, upper) * atoms * survive
            strength *= -np.expm1(-HC_OVER_K / (centre * g.temperature))
            stark = wing * (field * _stark_shift(lower, upper)) ** 1.5
            # Ali & Griem 1966, Phys. Rev. 144, 366: resonance broadening of level 2, much the same for its lines.
            lorentz = 0.25e-20 * (centre / 6564.6) ** 2 * g.neutral
            _add_line(total[low:high], wavelength[low:high] - centre, strength, (stark, lorentz, centre * thermal))
    return total


def _stark_shift(lower: int, upper: int) -> float:
    known, i = _STARK[lower], upper - lower - 1
    return float(known[i] if i < len(known) else 6e-5 * (lower * upper) ** 4 / (upper**2 - lower**2))


def _add_line(
    into: FloatArray, away: FloatArray, strength: FloatArray, broadening: tuple[FloatArray, FloatArray, FloatArray]
) -> None:
    """Add a line of this strength (cm⁻¹ Å): Stark wings over a core of thermal width, self-broadened by neutral atoms.

    `broadening` holds the wing's coefficient (Å^1.5), the Lorentz half-width and the Doppler width (Å) at each depth.
    """
    stark, lorentz, doppler = broadening
    width = np.sqrt((_NORM * stark) ** (4.0 / 3.0) + doppler**2 + lorentz**2)
    core = np.maximum(1.0 - _NORM * stark / width**1.5 - lorentz / width, 0.0)
    wings = width**2.5 + (np.abs(away) ** 2.5)[:, None]
    into += np.divide(strength * stark, wings, out=wings)
    if float(np.max(lorentz / width)) > 1e-3:
        into += (strength * lorentz / np.pi) / (width**2 + (away**2)[:, None])
    inside = slice(*np.searchsorted(away, (-6.0 * float(doppler.max()), 6.0 * float(doppler.max()))))
    x = away[inside, None] / doppler
    into[inside] += strength * core / (np.sqrt(np.pi) * doppler) * np.exp(-(x**2))
