"""The flux range: lines stay, cosmic rays and noise do not decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.spectra import read
from specvet.views.compact_range import flux_range

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"
N = 3900
WAVELENGTH = np.linspace(3700.0, 9100.0, N)


def noise(sigma: float, seed: int = 0, n: int = N) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, sigma, n)


def line(centre: int, height: float, fwhm: float, phase: float = 0.0, n: int = N) -> np.ndarray:
    """A Gaussian line: centre, and width (FWHM) in pixels; `phase` moves it by a part of a pixel."""
    x = np.arange(n) - centre - phase
    return height * np.exp(-4 * np.log(2) * (x / fwhm) ** 2)


@pytest.mark.parametrize("sigma", [None, np.full(N, 0.1)], ids=["no errors", "errors"])
@pytest.mark.parametrize("fwhm", [2.2, 2.5, 4.0, 12.0])
@pytest.mark.parametrize("phase", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("height", [30.0, -0.9])
def test_a_narrow_strong_line_is_never_cut(sigma: np.ndarray | None, fwhm: float, phase: float, height: float) -> None:
    flux = 1.0 + noise(0.1 if sigma is not None else 0.02) + line(2067, height, fwhm, phase)
    low, high = flux_range(flux, None, sigma)
    assert low < flux.min()
    assert high > flux.max()
    assert high - low < 1.2 * np.ptp(flux)


@pytest.mark.parametrize("sigma", [None, np.full(N, 0.1)], ids=["no errors", "errors"])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("height", [50.0, -50.0, 1e6])
def test_a_cosmic_ray_does_not_set_the_range(sigma: np.ndarray | None, width: int, height: float) -> None:
    clean = 1.0 + noise(0.1)
    flux = clean.copy()
    flux[1000 : 1000 + width] += height
    np.testing.assert_allclose(flux_range(flux, None, sigma), flux_range(clean, None, sigma), atol=0.5)


def test_a_wild_pixel_at_either_end_does_not_set_the_range() -> None:
    flux = 1.0 + noise(0.05)
    flux[0], flux[-1] = 40.0, -40.0
    low, high = flux_range(flux)
    assert -0.5 < low < 1.0 < high < 2.0


def test_a_wild_pixel_whose_error_says_so_does_not_set_the_range_beside_others() -> None:
    flux, sigma = 1.0 + noise(0.05), np.full(N, 0.05)
    flux[1000:1004] = 30.0
    sigma[1000:1004] = 20.0
    low, high = flux_range(flux, None, sigma)
    assert 0.0 < low < 1.0 < high < 2.0


def test_bad_pixels_do_not_set_the_range_unless_all_are_bad() -> None:
    flux = 1.0 + noise(0.05)
    flux[500:900] = -20.0
    good = np.ones(N, dtype=bool)
    good[500:900] = False
    low, high = flux_range(flux, good)
    assert 0.0 < low < 1.0 < high < 2.0
    assert flux_range(flux, np.zeros(N, dtype=bool)) == flux_range(flux)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("stated", [False, True])
def test_noise_at_the_blue_edge_does_not_blow_the_range(stated: bool, seed: int) -> None:
    sigma = np.where(WAVELENGTH < 3950, 3.0, 0.05)
    flux = 1.0 + noise(1.0, seed) * sigma
    low, high = flux_range(flux, None, sigma if stated else None)
    assert high - low < 4.0 < np.ptp(flux) / 3
    assert low < 0.9
    assert high > 1.1


def test_a_continuum_that_rises_into_the_noise_fits() -> None:
    level = 1.0 + 9.0 * (WAVELENGTH < 4100)
    sigma = np.where(WAVELENGTH < 4100, 4.0, 0.1)
    low, high = flux_range(level + noise(1.0) * sigma, None, sigma)
    assert low < 1.0
    assert high > 10.0


def test_noise_all_over_is_shown_as_it_is() -> None:
    flux = 10.0 + noise(3.0)
    low, high = flux_range(flux)
    assert low < flux.min()
    assert high > flux.max()


def test_bands_and_continuum_always_fit() -> None:
    flux = np.exp((WAVELENGTH - 9100.0) / 1500.0) * (1 - 0.7 * (np.sin(WAVELENGTH / 120.0) > 0.6))
    low, high = flux_range(flux + noise(0.001))
    assert low < 0.01
    assert high > flux.max()


@pytest.mark.parametrize(
    ("flux", "expected"),
    [
        (np.zeros(50), (-1.0, 1.0)),
        (np.full(50, 5.0), (4.975, 5.025)),
        (np.full(50, -2e-17), (-2.01e-17, -1.99e-17)),
        (np.array([1.0, 3.0]), (0.92, 3.08)),
        (np.array([7.0]), (6.965, 7.035)),
        (np.full(4, 1e-300), (-1.0, 1.0)),
    ],
    ids=["zero", "constant", "tiny constant", "two points", "one point", "below all"],
)
def test_flat_and_few(flux: np.ndarray, expected: tuple[float, float]) -> None:
    np.testing.assert_allclose(flux_range(flux), expected, rtol=1e-9)


@settings(deadline=None, max_examples=200)
@given(
    n=st.integers(1, 400),
    seed=st.integers(0, 2**32 - 1),
    power=st.integers(-200, 149),
    with_errors=st.booleans(),
    wild=st.floats(-1e3, 1e3),
)
def test_any_flux_gets_a_finite_range_that_holds_its_middle_and_scales_with_it(
    n: int, seed: int, power: int, with_errors: bool, wild: float
) -> None:
    rng = np.random.default_rng(seed)
    flux = rng.normal(1, rng.uniform(0, 2), n)
    flux[rng.integers(0, n)] += wild
    sigma = rng.choice([0.5, np.inf, np.nan, 0.0], n) if with_errors else None
    scale = float(f"1e{power}")
    low, high = flux_range(flux, None, sigma)
    assert np.isfinite([low, high]).all()
    assert low < np.sort(flux)[n // 2] < high
    assert low >= flux.min() - 0.2 * (high - low) - 0.01 * abs(flux).max()
    assert high <= flux.max() + 0.2 * (high - low) + 0.01 * abs(flux).max()
    again = flux_range(flux * scale, None, None if sigma is None else sigma * scale)
    np.testing.assert_allclose(np.array(again) / scale, (low, high), rtol=1e-6, atol=1e-9 * (high - low))


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no real spectra at {SHARED}")
@pytest.mark.parametrize("name", ["spec-1436-53054-0057", "spec-1195-52724-0403", "spec-0380-51792-0575"])
def test_the_lines_of_real_cataclysmic_variables_are_not_cut(name: str) -> None:
    (spectrum,) = read(str(SHARED / "sdss" / "cv_ascii" / f"{name}-catB.dat"))
    low, high = flux_range(spectrum.flux, spectrum.good, spectrum.sigma)
    for centre in (4341.7, 4862.7, 6564.6):  # Hγ, Hβ, Hα, vacuum
        near = np.abs(spectrum.wavelength - centre) < 20
        assert low < spectrum.flux[near].min()
        assert high > spectrum.flux[near].max()
