"""Air and vacuum: the IAU convention as Morton (2000) wrote it down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specvet.spectra.lines import SKY_LINES_AIR, TELLURIC_BANDS_AIR, air_to_vacuum, in_medium, vacuum_to_air

# Vacuum and air wavelengths of SDSS's line list and of NIST, Å.
PAIRS = {
    "Ca II K": (3934.777, 3933.663),
    "Hδ": (4102.892, 4101.734),
    "Hγ": (4341.684, 4340.464),
    "Hβ": (4862.683, 4861.325),
    "[O III]": (5008.240, 5006.843),
    "Hα": (6564.614, 6562.801),
    "Ca II 8498": (8500.36, 8498.02),
    "Ca II 8542": (8544.44, 8542.09),
    "Ca II 8662": (8664.52, 8662.14),
}


@pytest.mark.parametrize("line", PAIRS)
def test_known_lines_convert_both_ways(line: str) -> None:
    vacuum, air = PAIRS[line]
    assert vacuum_to_air(vacuum) == pytest.approx(air, abs=0.01)
    assert air_to_vacuum(air) == pytest.approx(vacuum, abs=0.01)


@given(st.floats(900.0, 30_000.0))
def test_the_inverse_is_exact_to_1e_7_angstrom(air: float) -> None:
    assert vacuum_to_air(air_to_vacuum(air)) == pytest.approx(air, abs=1e-7)


def test_arrays_convert_as_single_wavelengths_do() -> None:
    w = np.array([3934.777, 6564.614, 8664.52])
    assert vacuum_to_air(w).tolist() == [vacuum_to_air(x) for x in w.tolist()]
    assert np.allclose(air_to_vacuum(vacuum_to_air(w)), w, atol=1e-7, rtol=0)


@given(st.floats(1e-300, 1e300))
def test_no_wavelength_is_too_small_or_too_large_to_convert(wavelength: float) -> None:
    assert np.isfinite(vacuum_to_air(wavelength))
    assert 1.0 < wavelength / vacuum_to_air(wavelength) < 1.0004


def test_an_unknown_medium_is_the_middle() -> None:
    middle = 0.5 * (6562.801 + 6564.614)
    assert in_medium(6562.801, "air", "unknown") == pytest.approx(middle, abs=0.001)
    assert in_medium(6564.614, "vacuum", "unknown") == pytest.approx(middle, abs=0.001)
    assert in_medium(middle, "unknown", "air") == pytest.approx(6562.801, abs=0.001)
    assert in_medium(middle, "unknown", "vacuum") == pytest.approx(6564.614, abs=0.001)
    assert in_medium(middle, "unknown", "unknown") == middle


@pytest.mark.parametrize("medium", ["air", "vacuum", "unknown"])
def test_the_same_medium_changes_no_bit(medium: str) -> None:
    assert in_medium(6562.801, medium, medium) == 6562.801  # type: ignore[arg-type]


def test_sky_tables_lie_where_the_sky_has_them() -> None:
    assert all(low < high for _, low, high in TELLURIC_BANDS_AIR)
    bands = {(name, low): high for name, low, high in TELLURIC_BANDS_AIR}
    assert bands["O2 A", 7594.0] > 7665 > 7594  # K I 7665 lies in it
    assert all(5500 < w < 6400 for _, w in SKY_LINES_AIR)
