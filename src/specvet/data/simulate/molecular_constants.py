"""Spectroscopic constants of the molecules in cool stars.

Constants are near those of Huber & Herzberg 1979, Constants of Diatomic Molecules, rounded, and were not compared with
its tables one by one; the heads that they predict fall within 1-5 Å of those in real stars. Heads (air, Å) after Pearse
& Gaydon 1976, The Identification of Molecular Spectra, and Keenan & Boeshaar 1980, ApJS 43, 379. Oscillator strengths
are near those of Jørgensen 1994, A&A 284, 179 (TiO) and of Kurucz's lists; between systems of TiO, VO and ZrO they were
set where M giants and S stars of MILES and Indo-US show them (ε of TiO, β, α and B-X of ZrO are lower than published;
so are the shares of the spin components of γ and β of ZrO). The red system of CN is moved by 9 cm⁻¹ onto its heads at
6926 and 7876. CaH and CH, whose spin structure is left out, have origins (within 40 cm⁻¹) and branches as mean M dwarfs
of SDSS and CH stars of MILES show them. Reduced masses in amu.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class State:
    """An electronic state, cm⁻¹: vibration ωe, ωexe and ωeye, rotation Be and αe."""

    we: float
    wexe: float
    b: float
    alpha: float
    weye: float = 0.0


@dataclass(frozen=True, slots=True)
class System:
    """Transitions between two electronic states, absorption from `lower`."""

    name: str
    mu: float
    lower: State
    upper: State
    f: float
    """Oscillator strength, times the share of the molecules that are in `lower` where that is not the ground state."""
    heads: tuple[float, ...] = ()
    """Air wavelengths (Å) of the heads of `band`, one for each spin component."""
    origins: tuple[float, ...] = ()
    """Wavenumbers (cm⁻¹) of the origins of `band` instead, where heads are not what one sees (hydrides)."""
    band: tuple[int, int] = (0, 0)
    """Vibrational levels (upper, lower) of the band whose heads are given."""
    weights: tuple[float, ...] = ()
    """Of the spin components; equal where empty."""
    branches: tuple[float, float, float] = (1.0, 2.0, 1.0)
    """Weights of P, Q and R, which sum to 4: ΔΛ = ±1 at high J; `_PARALLEL`, without Q, for ΔΛ = 0."""
    n_upper: int = 7
    n_lower: int = 7


_PARALLEL = (2.0, 0.0, 2.0)

_TIO_X = State(1009.02, 4.50, 0.5354, 0.00302)
_TIO_A1 = State(1018.27, 4.52, 0.5376, 0.00292)
_TIO = 11.994
_VO_X = State(1011.3, 4.86, 0.5483, 0.00352)
_VO = 12.173
_ZRO_A3 = State(936.5, 3.45, 0.4154, 0.00192)
_ZRO_X = State(969.8, 4.90, 0.42263, 0.0023)
_ZRO = 13.612
_LAO_X = State(817.3, 2.22, 0.35252, 0.00142)
_LAO = 14.343
_YO_X = State(861.0, 2.93, 0.3888, 0.0017)
_YO = 13.556
_C2_A = State(1641.35, 11.67, 1.63246, 0.01661)
_CN_X = State(2068.59, 13.09, 1.89974, 0.01736)
_CN = 6.4622
_CAH_X = State(1298.3, 19.1, 4.2766, 0.097)
_CAH = 0.9830
_CH_X = State(2858.5, 63.0, 14.457, 0.534)
_CH = 0.9297

_ALL = {
    "TiO": (
        System(
            "α C3Δ-X3Δ",
            _TIO,
            _TIO_X,
            State(838.26, 4.76, 0.48989, 0.00306),
            0.106,
            (5166.9, 5167.6, 5168.5),
            branches=_PARALLEL,
            n_upper=9,
        ),
        System("γ' B3Π-X3Δ", _TIO, _TIO_X, State(875.0, 5.0, 0.50617, 0.00318), 0.092, (6158.5, 6186.3, 6214.9)),
        System("γ A3Φ-X3Δ", _TIO, _TIO_X, State(867.78, 3.94, 0.50739, 0.00315), 0.092, (7054.5, 7087.9, 7125.6)),
        System("ε E3Π-X3Δ", _TIO, _TIO_X, State(912.0, 4.0, 0.5170, 0.0031), 0.007, (8432.0, 8442.3, 8451.7)),
        System("β c1Φ-a1Δ", _TIO, _TIO_A1, State(917.5, 4.6, 0.5230, 0.0031), 0.125 * 0.06, (5597.7,)),
        System("δ b1Π-a1Δ", _TIO, _TIO_A1, State(911.2, 3.72, 0.51337, 0.0029), 0.048 * 0.06, (8859.6,)),
    ),
    "VO": (
        System("C4Σ-X4Σ", _VO, _VO_X, State(864.0, 5.6, 0.4952, 0.0036), 0.10, (5736.7,), branches=_PARALLEL),
        System("B4Π-X4Σ", _VO, _VO_X, State(909.8, 4.4, 0.5125, 0.0035), 0.10, (7851.2, 7896.0, 7939.0, 7973.0)),
        System("A4Π-X4Σ", _VO, _VO_X, State(884.0, 5.0, 0.5170, 0.0038), 0.01, (10_471.0, 10_508.0, 10_572.0)),
    ),
    "ZrO": (
        System(
            "γ d3Φ-a3Δ",
            _ZRO,
            _ZRO_A3,
            State(853.0, 3.2, 0.3980, 0.0020),
            0.08,
            (6473.7, 6344.9, 6229.4),
            weights=(1.0, 0.85, 1.15),
        ),
        System(
            "β e3Π-a3Δ",
            _ZRO,
            _ZRO_A3,
            State(845.0, 3.3, 0.4010, 0.0020),
            0.06,
            (5718.1, 5629.5, 5551.7),
            weights=(0.7, 1.0, 0.8),
        ),
        System(
            "α f3Δ-a3Δ",
            _ZRO,
            _ZRO_A3,
            State(820.6, 3.3, 0.3920, 0.0020),
            0.055,
            (4640.6, 4637.9, 4619.8),
            branches=_PARALLEL,
        ),
        System("B1Π-X1Σ", _ZRO, _ZRO_X, State(859.0, 3.0, 0.4018, 0.0019), 0.02, (6508.0,)),
    ),
    "LaO": (
        System("A2Π-X2Σ", _LAO, _LAO_X, State(761.0, 2.1, 0.3466, 0.0015), 0.08, (7403.5, 7910.5)),
        System("B2Σ-X2Σ", _LAO, _LAO_X, State(735.0, 2.0, 0.3410, 0.0015), 0.05, (5599.9,), branches=_PARALLEL),
    ),
    "YO": (System("A2Π-X2Σ", _YO, _YO_X, State(821.0, 3.1, 0.3857, 0.0019), 0.08, (5972.2, 6132.1)),),
    "C2": (
        System(
            "Swan d3Π-a3Π",
            6.0,
            _C2_A,
            State(1788.22, 16.44, 1.7527, 0.01608, -0.507),
            0.030,
            (5165.2,),
            branches=_PARALLEL,
        ),
    ),
    "CN": (
        System(
            "red A2Π-X2Σ",
            _CN,
            _CN_X,
            State(1812.56, 12.6, 1.7151, 0.01708),
            0.0067,
            origins=(9134.4, 9082.4),
            n_upper=9,
        ),
        System("violet B2Σ-X2Σ", _CN, _CN_X, State(2163.9, 20.2, 1.9730, 0.0230), 0.034, (3883.4,), branches=_PARALLEL),
    ),
    "CaH": (
        System(
            "A2Π-X2Σ",
            _CAH,
            _CAH_X,
            State(1333.0, 20.0, 4.348, 0.106),
            0.10,
            origins=(14_470.0, 14_390.0),
            branches=(0.4, 0.8, 2.8),
            n_upper=3,
            n_lower=3,
        ),
        System(
            "B2Σ-X2Σ",
            _CAH,
            _CAH_X,
            State(1285.0, 20.0, 4.407, 0.117),
            0.02,
            origins=(15_793.0,),
            branches=(0.6, 0.0, 3.4),
            n_upper=3,
            n_lower=3,
        ),
    ),
    "MgH": (
        System(
            "A2Π-X2Σ",
            0.9672,
            State(1495.2, 31.9, 5.8257, 0.186),
            State(1599.5, 32.5, 6.191, 0.198),
            0.17,
            origins=(19_296.3, 19_261.3),
            n_upper=3,
            n_lower=3,
        ),
    ),
    "CH": (
        System(
            "A2Δ-X2Π",
            _CH,
            _CH_X,
            State(2930.7, 96.6, 14.934, 0.697),
            0.005,
            origins=(23_190.0, 23_172.0),
            branches=(0.3, 2.6, 1.1),
            n_upper=3,
            n_lower=3,
        ),
        System(
            "B2Σ-X2Π",
            _CH,
            _CH_X,
            State(2200.0, 220.0, 12.95, 0.60),
            0.003,
            origins=(25_711.0, 25_685.0),
            n_upper=1,
            n_lower=2,
        ),
    ),
}

SYSTEMS: Mapping[str, tuple[System, ...]] = MappingProxyType(_ALL)
"""Molecule → its electronic systems within `GRID`."""
