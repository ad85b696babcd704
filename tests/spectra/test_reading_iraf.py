"""IRAF images: multispec with each kind of dispersion, equispec, and the third axis of bands."""

from __future__ import annotations

import numpy as np
import pytest
import spectrum_files as make
from astropy.io import fits

from specvet.spectra import SpectrumReadError, read

N = 64
DATA = np.arange(1.0, 2 * N + 1).reshape(2, N)


def lines(first: str, second: str = "2 2 0 5000. 2. 64 0. 1. 2.", data=DATA, **cards):
    return read(make.multispec([first, second], data, **cards), name="echelle.fits")


def test_linear_and_log_linear_dispersions_stand_side_by_side():
    found = lines("1 113 0 4000. 0.5 64 0. 23.22 31.27", "2 112 1 3.7 0.0001 64 0. 1. 2.", OBJECT="HD 1")
    assert [s.row for s in found] == [0, 1]
    np.testing.assert_allclose(found[0].wavelength, 4000.0 + 0.5 * np.arange(N), rtol=1e-12)
    np.testing.assert_allclose(found[1].wavelength, 10.0 ** (3.7 + 1e-4 * np.arange(N)), rtol=1e-12)
    np.testing.assert_array_equal(found[1].flux, DATA[1])
    assert found[0].layout == "iraf-multispec"
    assert [(s.id, s.ids["aperture"]) for s in found] == [("HD 1 aperture 1", "1"), ("HD 1 aperture 2", "2")]


def test_a_doppler_factor_is_applied_and_said():
    spectrum = lines("1 1 0 4000. 0.5 64 0.001 1. 2.")[0]
    assert spectrum.wave_min == pytest.approx(4000.0 / 1.001)
    assert "IRAF moved the wavelengths by 1/(1 + 0.001)" in spectrum.warnings


def test_chebyshev_and_legendre_functions_follow_their_definition():
    p = np.arange(1.0, N + 1)
    n = (p - 32.5) / 31.5
    c = (4500.0, 120.0, -2.0, 0.25)
    text = " ".join(str(v) for v in c)
    chebyshev, legendre = lines(
        f"1 1 2 4380. 3.8 64 0. 1. 2. 1. 0. 1 4 1. 64. {text}", f"2 2 2 4380. 3.8 64 0. 1. 2. 1. 0. 2 4 1. 64. {text}"
    )
    expected = c[0] + c[1] * n + c[2] * (2 * n**2 - 1) + c[3] * (4 * n**3 - 3 * n)
    np.testing.assert_allclose(chebyshev.wavelength, expected, rtol=1e-12)
    expected = c[0] + c[1] * n + c[2] * (3 * n**2 - 1) / 2 + c[3] * (5 * n**3 - 3 * n) / 2
    np.testing.assert_allclose(legendre.wavelength, expected, rtol=1e-12)


def test_splines_that_describe_a_straight_line_give_it():
    # Coefficients of a linear spline are its values at the knots; a cubic one with c_i = i gives 6 (s + 1).
    linear, cubic = lines(
        "1 1 2 4000. 2. 64 0. 1. 2. 1. 0. 4 3 1. 64. 4000. 4042. 4084. 4126.",
        "2 2 2 4000. 2. 64 0. 1. 2. 1. 4000. 3 3 1. 64. 0. 7. 14. 21. 28. 35.",
    )
    np.testing.assert_allclose(linear.wavelength, 4000.0 + 2.0 * np.arange(N), rtol=1e-12)
    s = np.arange(N) / 63.0 * 3
    np.testing.assert_allclose(cubic.wavelength, 4000.0 + 42.0 * (s + 1.0), rtol=1e-12)


def test_two_weighted_functions_are_summed():
    first = "1 1 2 4000. 1. 64 0. 1. 2. 0.25 0. 1 2 1. 64. 4100. 63. 0.75 4. 1 2 1. 64. 4104. 63."
    spectrum = lines(first)[0]
    # 0.25 (4100 + 63 n) + 0.75 (4 + 4104 + 63 n)
    assert spectrum.wave_min == pytest.approx(0.25 * (4100 - 63) + 0.75 * (4108 - 63))


def test_a_table_of_wavelengths_is_read_pixel_by_pixel():
    values = " ".join(f"{4000 + 3 * i}." for i in range(N))
    pairs = "1. 4000. 32. 4062. 64. 4126."
    table, samples = lines(
        f"1 1 2 4000. 3. 64 0. 1. 2. 1. 0. 5 64 {values}", f"2 2 2 4000. 2. 64 0. 1. 2. 1. 0. 6 3 0 {pairs}"
    )
    np.testing.assert_allclose(table.wavelength, 4000.0 + 3.0 * np.arange(N))
    np.testing.assert_allclose(samples.wavelength, 4000.0 + 2.0 * np.arange(N))


def test_the_number_of_valid_pixels_cuts_a_shorter_line():
    assert [s.n_pix for s in lines("1 1 0 4000. 2. 40 0. 1. 2.")] == [40, 64]


def test_ltv_and_ltm_move_a_section_of_an_image():
    # A section [11:74] of the line: logical pixel 1 was physical pixel 11.
    assert lines("1 1 0 4000. 2. 200 0. 1. 2.", LTV1=-10.0)[0].wave_min == 4020.0


def test_one_line_taken_out_of_an_image_keeps_its_dispersion():
    specs = ["1 1 0 4000. 2. 64 0. 1. 2.", "2 2 0 5000. 2. 64 0. 1. 2.", "3 3 0 6000. 2. 64 0. 1. 2."]
    (spectrum,) = read(make.multispec(specs, DATA[0], WAXMAP01="1 0 0 2"))
    assert spectrum.wave_min == 6000.0
    assert spectrum.n_pix == N


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("1 1 -1 1. 1. 64 0. 1. 2.", "not dispersion calibrated"),
        ("1 1 7 1. 1. 64 0. 1. 2.", "dispersion type 7; IRAF knows"),
        ("1 1 2 1. 1. 64 0. 1. 2. 1. 0. 9 4 1. 64. 1. 2. 3. 4.", "unknown kind 9; linearise it"),
        ("1 1 2 1. 1. 64 0. 1. 2. 1. 0. 1 4 1. 64. 1. 2. 3.", "Chebyshev polynomial of line 1 is cut off"),
        ("1 1 2 1. 1. 64 0. 1. 2. 1. 0. 1 99999 1. 64. 1. 2. 3.", "Chebyshev polynomial of line 1 is cut off"),
        ("1 1 2 1. 1. 64 0. 1. 2. 1. 0.", "dispersion function of line 1 is cut off"),
        ("1 1 0 4000. two 64 0. 1. 2.", "spec1 holds no numbers"),
        ("1 1 0 4000.", "has 4 fields, 9 expected"),
    ],
)
def test_a_dispersion_that_cannot_be_used_is_refused_by_name(spec, reason):
    with pytest.raises(SpectrumReadError, match=reason):
        lines(spec)


def test_a_header_of_one_endless_word_is_refused_at_once():
    words = {f"WAT2_{i:03d}": "x" * 68 for i in range(1, 1000)}
    with pytest.raises(SpectrumReadError):
        read(make.multispec(["1 1 0 4000. 2. 64 0. 1. 2."], DATA, **words))


def test_a_line_without_its_dispersion_is_refused():
    with pytest.raises(SpectrumReadError, match="no dispersion spec2"):
        read(make.multispec(["1 1 0 4000. 2. 64 0. 1. 2."], DATA))


def test_bands_are_flux_and_sigma_by_their_names_and_the_others_are_named():
    cube = np.stack([DATA, DATA * 10, np.full_like(DATA, 7.0), np.full_like(DATA, 0.5)])
    bands = ("spectrum - background fit, weights variance, clean yes", "spectrum - weights none", "background - fit")
    cards = {f"BANDID{i + 1}": name for i, name in enumerate((*bands, "sigma - background fit"))}
    first, second = lines("1 1 0 4000. 2. 64 0. 1. 2.", data=cube, WCSDIM=3, CTYPE3="LINEAR", **cards)
    np.testing.assert_array_equal(first.flux, DATA[0])
    np.testing.assert_array_equal(second.ivar, 4.0)
    assert first.warnings == (
        "band 2 (spectrum - weights none) ignored",
        "band 3 (background - fit) ignored",
    )


def test_without_a_sigma_band_there_are_no_errors():
    cube = np.stack([DATA, DATA * 2])
    spectrum = lines("1 1 0 4000. 2. 64 0. 1. 2.", data=cube, BANDID1="spectrum", BANDID2="background - fit")[0]
    assert spectrum.ivar is None


def equispec(data: np.ndarray, **cards) -> bytes:
    given = {"WAT0_001": "system=equispec", "WAT1_001": "wtype=linear label=Wavelength units=Angstroms"}
    given |= {"CTYPE1": "LINEAR", "CRVAL1": 4204.5, "CD1_1": 6.0, "DC-FLAG": 0, "APNUM1": "41 3 7.37 13.48"}
    given |= {"APNUM2": "15 1 28.04 34.15", "APID1": "BD+3 7"}
    return make.as_bytes(make.with_cards(fits.PrimaryHDU(data), given | cards))


@pytest.mark.parametrize("shape", [(2, N), (1, 2, N)])
def test_equispec_lines_share_one_scale_and_have_their_own_apertures(shape):
    first, second = read(equispec(DATA.reshape(shape)), name="night.fits")
    assert first.layout == "iraf-equispec"
    np.testing.assert_allclose(second.wavelength, 4204.5 + 6.0 * np.arange(N))
    assert (first.id, second.id) == ("BD+3 7", "night aperture 15")


def test_equispec_may_be_log_linear():
    assert read(equispec(DATA, CRVAL1=3.6, CD1_1=1e-4, **{"DC-FLAG": 1}))[0].wave_min == pytest.approx(10**3.6)
