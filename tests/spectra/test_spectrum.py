"""What a `Spectrum` says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from specvet.spectra import Redshift, Spectrum

W = np.linspace(4000.0, 5000.0, 11)


def test_bad_is_ivar_not_positive_or_anything_not_finite_and_never_a_mask_bit() -> None:
    flux = np.ones(11)
    flux[[0, 1]] = np.nan, np.inf
    ivar = np.full(11, 4.0)
    ivar[[2, 3, 4, 5]] = 0.0, -1.0, np.nan, np.inf
    s = Spectrum(W, flux, ivar, mask=np.full(11, 2**30, dtype=np.int64))
    assert s.good.tolist() == [False] * 6 + [True] * 5
    sigma = s.sigma
    assert sigma is not None
    assert np.isinf(sigma[2:6]).all()
    assert sigma[6:].tolist() == [0.5] * 5
    assert s.snr == 2.0


def test_without_errors_every_finite_pixel_is_good_and_sigma_is_none() -> None:
    s = Spectrum(W, np.where(W > 4500, np.nan, 1.0))
    assert s.good.tolist() == (W <= 4500).tolist()
    assert s.sigma is None


def test_snr_without_errors_follows_the_scatter() -> None:
    rng = np.random.default_rng(0)
    w = np.linspace(4000.0, 8000.0, 4000)
    slope = 100.0 * (1 + (w - 6000) / 4000)
    s = Spectrum(w, slope + rng.normal(0, 5.0, w.size))
    assert s.snr == pytest.approx(20.0, rel=0.05)


@pytest.mark.parametrize("flux", [np.ones(11), np.full(11, np.nan), np.zeros(11)])
def test_snr_is_none_where_nothing_tells_it(flux: np.ndarray) -> None:
    assert Spectrum(W, flux).snr is None
    assert Spectrum(W[:3], flux[:3], np.ones(3)).snr is None


@pytest.mark.parametrize(
    ("wavelength", "flux", "says"),
    [
        (W, np.ones(10), "flux has shape"),
        (W.reshape(1, -1), np.ones((1, 11)), "wavelength has shape"),
        (W[::-1], np.ones(11), "increase strictly"),
        (np.repeat(W[0], 11), np.ones(11), "increase strictly"),
        (np.append(W[:10], np.nan), np.ones(11), "not finite"),
        (np.append(W[:10], np.inf), np.ones(11), "not finite"),
        (np.array([np.nan]), np.ones(1), "not finite"),
        (np.array(5000.0), np.array(1.0), "wavelength has shape"),
    ],
)
def test_arrays_that_are_no_spectrum_are_refused(wavelength: np.ndarray, flux: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Spectrum(wavelength, flux)


def test_ivar_and_mask_must_have_the_shape_too() -> None:
    with pytest.raises(ValueError, match="ivar"):
        Spectrum(W, np.ones(11), np.ones(12))
    with pytest.raises(ValueError, match="mask"):
        Spectrum(W, np.ones(11), mask=np.zeros(3, dtype=np.int64))


def test_an_empty_spectrum_is_one() -> None:
    s = Spectrum(np.empty(0), np.empty(0))
    assert (s.n_pix, s.snr) == (0, None)
    assert np.isnan(s.wave_min)
    assert np.isnan(s.wave_max)
    assert "no pixels" in repr(s)


def test_the_hash_bears_the_last_bits_and_tells_data_apart() -> None:
    rng = np.random.default_rng(1)
    w = np.linspace(3700.0, 9000.0, 3909)
    flux = rng.normal(100, 10, w.size)
    s = Spectrum(w, flux)
    last_bits = Spectrum(np.nextafter(w, 0), flux * (1 + 2.2e-16 * rng.choice([-1, 1], w.size)))
    assert s.content_hash == last_bits.content_hash
    assert s.content_hash == s.replace(id="other", file="x.fits", ivar=np.ones(w.size)).content_hash
    moved = flux.copy()
    moved[7] *= 1 + 3e-5
    assert s.content_hash != Spectrum(w, moved).content_hash


def test_velocity_of_a_redshift() -> None:
    assert Redshift(0.001).velocity_km_s == pytest.approx(299.792458)
    assert Redshift().velocity_km_s is None


def test_exact_zeros_in_a_row_are_a_filled_gap_where_no_errors_say_so() -> None:
    w = np.linspace(4000.0, 4100.0, 41)
    flux = np.full(41, 2.0)
    flux[10:15] = 0.0  # a gap
    flux[20:24] = 0.0  # four zeros may happen
    assert np.flatnonzero(~Spectrum(w, flux).good).tolist() == [10, 11, 12, 13, 14]
    assert Spectrum(w, flux, ivar=np.ones(41)).good.all()  # errors say that these were measured
    assert not Spectrum(w, np.zeros(41)).good.any()
    flux[-5:] = 0.0
    assert not Spectrum(w, flux).good[-5:].any()


def test_smoothing_leaves_a_constant_alone_and_makes_its_errors_smaller() -> None:
    s = Spectrum(np.arange(4000.0, 4100.0), np.full(100, 3.0), np.full(100, 4.0))
    smooth = s.smoothed(2.0)
    np.testing.assert_allclose(smooth.flux, 3.0)
    assert smooth.sigma is not None
    assert smooth.sigma[50] < 0.5 / 2.0
    assert smooth.warnings == ("smoothed by a Gaussian of 2 pixels: errors of neighbours are correlated",)
    assert s.smoothed(0.0) is s


def test_smoothing_passes_over_bad_pixels_and_leaves_wide_gaps_open() -> None:
    flux, ivar = np.ones(60), np.ones(60)
    flux[10], ivar[10] = 1e6, 0.0
    flux[30:50] = np.nan
    ivar[30:50] = 0.0
    smooth = Spectrum(np.arange(4000.0, 4060.0), flux, ivar).smoothed(1.0)
    assert smooth.flux[10] == pytest.approx(1.0)
    assert smooth.flux[[29, 32, 47]].tolist() == pytest.approx([1.0] * 3)
    assert np.isnan(smooth.flux[33:47]).all()
    assert smooth.ivar is not None
    assert not smooth.ivar[33:47].any()
    assert not smooth.good[40]


@pytest.mark.parametrize("sigma", [-1.0, float("nan"), float("inf"), 1e6])
def test_an_impossible_smoothing_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="a smoothing is 0 to 1000 pixels"):
        Spectrum(W, np.ones(11)).smoothed(sigma)
