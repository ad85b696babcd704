"""Light of A, B and O stars: the hydrogen atmosphere, helium and metals on it, rotation."""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.hot_lines import (
    A_METALS,
    B_METALS,
    CA_II_HK,
    CA_II_TRIPLET,
    EARLY_B_METALS,
    HE_I,
    HE_II,
    N_III,
    NA_D,
    O_I,
    O_METALS,
    broad,
    forest,
    narrow,
)
from specvet.data.simulate.hydrogen_atmosphere import hydrogen_star
from specvet.data.simulate.physics import rotated, zeros
from specvet.data.simulate.source import FloatArray


def a_photosphere(
    teff: float,
    log_g: float,
    metals: float,
    v_sin_i: float,
    calcium: float = 1.0,
) -> FloatArray:
    """`metals` is [Fe/H]; `calcium` multiplies Ca II, which an Am star lacks."""
    abundance, depth = 10.0 ** (0.45 * metals), zeros()
    k = float(
        np.interp(
            teff,
            (6_200.0, 7_300.0, 7_700.0, 8_200.0, 8_800.0, 9_500.0, 10_500.0, 12_000.0),
            (13.0, 7.0, 5.0, 3.2, 1.9, 0.9, 0.4, 0.15),
        )
    )
    # H and K are saturated where they are strong, and grow as the root of the abundance.
    saturated = 10.0 ** (float(np.interp(k, (0.5, 7.0), (0.5, 0.37))) * metals)
    broad(depth, CA_II_HK, k * saturated * calcium, 1.1, 2.5, 40.0)
    triplet = float(np.interp(teff, (7_300.0, 8_500.0, 10_000.0, 12_000.0), (2.6, 1.7, 0.7, 0.15)))
    narrow(depth, CA_II_TRIPLET, triplet * abundance * calcium, 90.0)
    ion = float(np.interp(teff, (7_300.0, 8_500.0, 10_000.0, 12_000.0), (0.75, 0.65, 0.4, 0.2)))
    narrow(depth, A_METALS, ion * abundance)
    depth += 0.34 * ion * abundance * forest(True)
    neutral = float(np.interp(teff, (7_300.0, 8_000.0, 9_000.0, 10_500.0), (0.75, 0.45, 0.2, 0.0)))
    depth += 0.26 * neutral * abundance * forest(False)
    narrow(depth, NA_D, 0.6 * neutral * abundance)
    narrow(depth, O_I, float(np.interp(teff, (7_300.0, 9_000.0, 12_000.0), (0.6, 1.0, 0.7))) * abundance)
    return rotated(hydrogen_star(teff, log_g) * np.exp(-depth), v_sin_i)


def b_photosphere(teff: float, log_g: float, v_sin_i: float, rng: np.random.Generator) -> tuple[FloatArray, str]:
    """And its type."""
    depth = zeros()
    helium = float(
        np.interp(teff, (10_300.0, 12_000.0, 15_000.0, 20_000.0, 26_000.0, 30_000.0), (0.05, 0.25, 0.8, 1.3, 1.1, 0.9))
    )
    broad(depth, HE_I, helium * float(np.exp(rng.normal(0.0, 0.1))), 1.2, 2.5, 25.0)
    late = float(np.interp(teff, (10_000.0, 14_000.0, 22_000.0), (0.55, 0.5, 0.15)))
    narrow(depth, B_METALS, late)
    narrow(
        depth, EARLY_B_METALS, float(np.interp(teff, (16_000.0, 22_000.0, 26_000.0, 31_000.0), (0.0, 0.3, 0.45, 0.25)))
    )
    narrow(depth, CA_II_HK, float(np.interp(teff, (10_000.0, 13_000.0, 18_000.0), (0.4, 0.15, 0.0))))
    narrow(depth, CA_II_TRIPLET, float(np.interp(teff, (10_000.0, 13_000.0), (0.4, 0.0))))
    narrow(depth, O_I, float(np.interp(teff, (10_000.0, 15_000.0, 25_000.0), (0.8, 0.5, 0.2))))
    flux = rotated(hydrogen_star(teff, log_g) * np.exp(-depth), v_sin_i)
    number = float(
        np.interp(
            teff,
            (10_400.0, 12_000.0, 13_600.0, 15_600.0, 18_700.0, 22_000.0, 25_500.0, 30_000.0),
            (9, 8, 7, 5, 3, 2, 1, 0),
        )
    )
    return flux, f"B{round(number)}{'V' if log_g > 3.7 else 'III'}"


def o_photosphere(teff: float, log_g: float, v_sin_i: float, rng: np.random.Generator) -> tuple[FloatArray, str]:
    """And its type."""
    depth = zeros()
    of = rng.random() < 0.25
    helium = float(np.interp(teff, (30_500.0, 35_000.0, 40_000.0, 44_000.0), (1.0, 0.8, 0.4, 0.12)))
    narrow(depth, HE_I, helium, 110.0)
    ionised = float(np.interp(teff, (30_500.0, 35_000.0, 44_000.0), (0.45, 0.9, 1.3))) * float(
        np.exp(rng.normal(0.0, 0.1))
    )
    broad(depth, HE_II[1:], 1.3 * ionised, 2.0, 2.5, 20.0)
    broad(depth, HE_II[:1], -0.8 * ionised if of else ionised, 2.0, 2.5, 20.0)
    narrow(depth, O_METALS, float(np.interp(teff, (30_500.0, 44_000.0), (0.6, 0.2))))
    if of:
        narrow(depth, N_III, -float(rng.uniform(0.4, 1.2)), 200.0)
        narrow(depth, ((6562.8, 1.0),), -float(rng.uniform(1.0, 5.0)), 350.0)
    flux = rotated(hydrogen_star(teff, log_g) * np.exp(-depth), v_sin_i)
    number = float(np.interp(teff, (31_500.0, 33_000.0, 36_000.0, 39_000.0, 44_000.0), (9.5, 9.0, 7.5, 6.0, 4.0)))
    return flux, f"O{round(2.0 * number) / 2.0:g}{'f' if of else ''}{'V' if log_g > 3.6 else 'III'}"
