"""Full widths at half maximum in km/s."""

from __future__ import annotations

import numpy as np
import pytest
from index_lab import SAMPLINGS, C, gaussian, sloped, spectrum, value

from specvet.spectra import Spectrum

W = SAMPLINGS["0.5 Å"]


@pytest.mark.parametrize("ew", [-20.0, 5.0])
@pytest.mark.parametrize("km_s", [400.0, 800.0, 1500.0])
def test_a_gaussian_has_its_width_in_emission_and_absorption(km_s: float, ew: float) -> None:
    m = value("ha_width", spectrum(W, sloped(W) * (1 - gaussian(W, 6562.8, 6562.8 * km_s / C, ew)), 200.0))
    assert m.value == pytest.approx(km_s, rel=0.03)
    assert m.unit == "km/s"
    assert ("emission" in m.note) == (ew < 0)
    assert ("absorption" in m.note) == (ew > 0)
    assert m.window is not None
    assert 0.5 * sum(m.window) == pytest.approx(6562.8, abs=0.3)


def test_vacuum_spectra_have_the_same_width() -> None:
    flux = 1 + gaussian(W, 6564.61, 20.0, 20.0)
    m = value("ha_width", spectrum(W, flux, 200.0, medium="vacuum"))
    assert m.value == pytest.approx(C * 20.0 / 6564.61, rel=0.02)


def test_a_double_peak_is_as_wide_as_its_outermost_crossings() -> None:
    flux = 1 + gaussian(W, 6551.0, 8.0, 20.0) + gaussian(W, 6574.0, 8.0, 20.0)
    m = value("ha_width", spectrum(W, flux, 200.0))
    assert m.value == pytest.approx(C * (23.0 + 8.0) / 6562.8, rel=0.02)
    uneven = 1 + gaussian(W, 6551.0, 8.0, 20.0) + gaussian(W, 6574.0, 8.0, 6.0)  # the second is below half
    assert value("ha_width", spectrum(W, uneven, 200.0)).value == pytest.approx(C * 8.0 / 6562.8, rel=0.05)


def test_noise_does_not_make_a_faint_narrow_line_wide() -> None:
    rng = np.random.default_rng(3)
    w = SAMPLINGS["log"]
    clean = 1 + gaussian(w, 6562.8, 5.5, 0.6 * 5.5 * 1.064)
    found = [value("ha_width", Spectrum(w, clean + rng.normal(0, 0.125, w.size), np.full(w.size, 64.0), medium="air"))
             for _ in range(200)]  # fmt: skip
    widths = np.array([m.value for m in found if m.value is not None])
    assert widths.size > 150
    assert np.median(widths) == pytest.approx(C * 5.5 / 6562.8, rel=0.1)
    assert (widths > 620).mean() < 0.02


@pytest.mark.parametrize("snr", [None, 30.0])
def test_no_line_has_no_width(snr: float | None) -> None:
    flat = value("ha_width", spectrum(W, sloped(W), snr))
    assert (flat.value, flat.note) == (None, "the line is not detected at 4σ")
    rng = np.random.default_rng(4)
    noisy = [value("ha_width", spectrum(W, 1 + rng.normal(0, 1 / 30, W.size), snr)).value for _ in range(50)]
    assert sum(v is not None for v in noisy) <= 10


def test_a_line_that_fills_the_window_is_a_lower_limit_and_says_so() -> None:
    trough = 1 - 0.5 * ((W > 6495) & (W < 6615))  # it reaches into both sides' ends, not their middles
    m = value("ha_width", spectrum(W, trough, 200.0))
    assert m.value == pytest.approx(C * (6610 - 6505) / 6562.8, rel=0.02)
    assert "absorption; a lower limit: cut by the edge" in m.note


def test_coarse_pixels_make_the_error_larger_than_noise_alone() -> None:
    coarse, fine = SAMPLINGS["5 Å"], SAMPLINGS["0.5 Å"]
    m = value("ha_width", spectrum(coarse, 1 + gaussian(coarse, 6562.8, 30.0, 30.0), 200.0))
    assert m.value == pytest.approx(C * 30.0 / 6562.8, abs=2 * m.error)
    assert m.error > 3 * value("ha_width", spectrum(fine, 1 + gaussian(fine, 6562.8, 30.0, 30.0), 200.0)).error


def test_a_ripple_of_a_model_without_noise_is_no_line() -> None:
    for depth, seen in ((5e-4, False), (5e-3, True)):
        flux = sloped(W) * (1 - depth * np.exp(-0.5 * ((W - 6562.8) / 8) ** 2))
        assert (value("ha_width", spectrum(W, flux)).value is not None) == seen


@pytest.mark.parametrize("resolution", [500.0, 1800.0])
def test_the_intrinsic_width_has_the_instrument_removed(resolution: float) -> None:
    instrument = 6562.8 / resolution
    flux = 1 + gaussian(W, 6562.8, float(np.hypot(25.0, instrument)), 30.0)
    found = value("ha_intrinsic", spectrum(W, flux, 200.0, resolution=resolution))
    assert found.value == pytest.approx(C * 25.0 / 6562.8, rel=0.03)
    assert value("ha_width", spectrum(W, flux, 200.0, resolution=resolution)).value > found.value


def test_an_unresolved_line_has_an_upper_limit_and_an_unknown_resolution_is_said() -> None:
    flux = 1 + gaussian(W, 6562.8, 6562.8 / 1800.0, 10.0)
    found = value("ha_intrinsic", spectrum(W, flux, 200.0, resolution=1800.0))
    assert "not resolved: an upper limit" in found.note
    assert 0 < found.value < 1.2 * C / 1800.0
    bare = value("ha_intrinsic", spectrum(W, flux, 200.0))
    assert bare.value == pytest.approx(value("ha_width", spectrum(W, flux, 200.0)).value)
    assert "the instrument's width is in it: the resolution is not known" in bare.note
    assert bare.name == "Hα FWHM, instrument not removed"
    assert found.name == "Hα FWHM, instrument removed"
