"""Text and NPZ spectra: what is read, what is refused and why."""

from __future__ import annotations

import io

import numpy as np
import pytest

from specvet.spectra import SpectrumReadError, read

GRID = [4000.0 + 0.5 * i for i in range(30)]


def rows(*columns, mark: str = " ") -> str:
    return "\n".join(mark.join(str(value) for value in row) for row in zip(*columns, strict=True)) + "\n"


def only(content: str, name: str = "star.dat"):
    (spectrum,) = read(content.encode(), name=name)
    return spectrum


@pytest.mark.parametrize("mark", [" ", "\t", ",", ";", "   "])
def test_two_columns_without_header_are_wavelength_and_flux(mark):
    spectrum = only(rows(GRID, range(30), mark=mark))
    np.testing.assert_array_equal(spectrum.wavelength, GRID)
    np.testing.assert_array_equal(spectrum.flux, np.arange(30.0))
    assert spectrum.ivar is None
    assert (spectrum.medium, spectrum.layout, spectrum.id) == ("unknown", "text", "star")
    assert spectrum.warnings == ("no error array",)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("# wavelength flux ivar\n", 4.0),
        ("wavelength,flux,ivar\n", 4.0),
        ("# Wave (Angstrom)\tFlux (Jy)\tUncertainty (Jy)\n", 0.0625),
        ("# lambda flux sigma\n", 0.0625),
        ("# wave flux variance\n", 0.25),
        ("# column 1: wavelength\n# column 2: flux\n# column 3: inverse variance\n", 4.0),
        ("# column 1: wavelength\n# column 2: flux\n# third column is the error\n", 0.0625),
    ],
)
def test_a_named_third_column_is_what_its_name_says(header, expected):
    spectrum = only(header + rows(GRID, range(30), [4.0] * 30, mark="," if "," in header else "\t"))
    assert spectrum.ivar[0] == expected
    assert spectrum.warnings == ()


def test_an_unnamed_third_column_is_ignored_with_a_warning():
    spectrum = only("# flux calibrated, good to 5 percent error\n" + rows(GRID, range(30), [0.5] * 30))
    assert spectrum.ivar is None
    assert spectrum.warnings[0] == "column 3 is not named: ignored; name it to have it used (ivar, error)"


def test_the_same_flux_in_millijansky_is_recognised_by_its_ratio():
    wave, flux = np.array(GRID), np.linspace(10.0, 20.0, 30)
    spectrum = only(rows(wave, flux, flux * wave**2 * 3.33564095e-9))
    assert "same flux per frequency in mJy, for flux in 1e-16" in spectrum.warnings[0]
    assert spectrum.ivar is None


def test_named_columns_may_come_in_any_order_with_others_between():
    spectrum = only(
        ",flux,model,wavelength_vac,and_mask\n" + rows(range(30), range(30), range(30), GRID, [8] * 30, mark=",")
    )
    np.testing.assert_array_equal(spectrum.wavelength, GRID)
    assert spectrum.medium == "vacuum"
    assert spectrum.mask[0] == 8
    assert "column 3 (model) ignored" in spectrum.warnings


def test_of_two_columns_the_one_that_is_not_the_wavelength_is_the_flux():
    spectrum = only("brightness,wavelength\n" + rows(range(30), GRID, mark=","))
    np.testing.assert_array_equal(spectrum.wavelength, GRID)
    assert "column 1 (brightness) taken for the flux" in spectrum.warnings


def test_words_of_a_comment_are_not_taken_for_column_names():
    spectrum = only("# Wavelength calibrated spectrum\n" + rows(GRID, range(30), [7.0] * 30))
    assert spectrum.flux[29] == 29.0
    assert "column 3 is not named" in spectrum.warnings[0]


def test_zero_errors_are_bad_pixels():
    spectrum = only("# wave flux err\n" + rows(GRID, range(30), [0.0, -1.0] + [2.0] * 28))
    np.testing.assert_array_equal(spectrum.ivar[:3], [0.0, 0.0, 0.25])


@pytest.mark.parametrize(
    ("header", "scale"),
    [
        ("# wavelength(nm) flux\n", 10.0),
        ("wave_nm flux\n", 10.0),
        ("# wavelength in nm\n# wave flux\n", 10.0),
        ("# wave[um] flux\n", 1e4),
        ("# wave(Angstrom) flux\n", 1.0),
    ],
)
def test_a_stated_wavelength_unit_is_converted(header, scale):
    grid = np.array(GRID) / scale
    spectrum = only(header + rows(grid, range(30)))
    np.testing.assert_allclose(spectrum.wavelength, GRID)


def test_log_wavelengths_by_name_are_powers_of_ten():
    spectrum = only("loglam,flux\n" + rows([3.6, 3.7], [1, 2], mark=","))
    np.testing.assert_allclose(spectrum.wavelength, [10**3.6, 10**3.7])


@pytest.mark.parametrize(
    ("header", "medium"),
    [
        ("# wavelengths in air\n", "air"),
        ("# wavelength (vacuum) in Angstrom\n", "vacuum"),
        ("# VACUUM = True\n", "vacuum"),
        ("# AIRMASS = 1.2\n# AIRTEMP: 12 C\n", "unknown"),
        ("# wavelengths converted from air to vacuum\n", "unknown"),
        ("# wave_air flux\n", "air"),
    ],
)
def test_the_medium_is_what_the_header_states(header, medium):
    assert only(header + rows(GRID, range(30))).medium == medium


def test_metadata_lines_fill_the_fields():
    header = "# OBJECT: UZ Boo\n# RA = 14:44:01.3\n# DEC = +22:00:55\nz 0.0001\n# zmag: 18.7\n# MJD: 53000.5\n"
    spectrum = only(header + rows(GRID, range(30)))
    assert (spectrum.id, spectrum.mjd) == ("UZ Boo", 53000.5)
    assert spectrum.ra == pytest.approx(221.005416667)
    assert spectrum.dec == pytest.approx(22.0152777778)
    assert (spectrum.redshift.value, spectrum.redshift.source) == (0.0001, "header z")


def test_missing_values_and_fortran_exponents_are_numbers():
    spectrum = only("wavelength,flux,ivar\n4000,1.5D-16,1\n4001,,1\n4002,nan,1\n4003,3e-16,--\n")
    np.testing.assert_array_equal(spectrum.flux, [1.5e-16, np.nan, np.nan, 3e-16])
    np.testing.assert_array_equal(spectrum.ivar, [1.0, 0.0, 0.0, 0.0])


def test_unsorted_and_repeated_wavelengths_are_put_right_with_a_warning():
    spectrum = only("4000 1\n4003 4\n4001 2\n4001 9\nnan 7\n4002 3\n4004 5\n4005 6\n4006 7\n4007 8\n4008 9\n")
    np.testing.assert_array_equal(spectrum.wavelength, np.arange(4000.0, 4009.0))
    np.testing.assert_array_equal(spectrum.flux, np.arange(1.0, 10.0))
    assert "wavelengths were not in order: sorted" in spectrum.warnings
    assert "1 pixels with a repeated wavelength dropped" in spectrum.warnings


def test_descending_wavelengths_are_turned_without_a_warning():
    spectrum = only(rows(GRID[::-1], range(30)))
    assert spectrum.flux[0] == 29.0
    assert spectrum.warnings == ("no error array",)


def test_touching_columns_in_the_format_of_pickles_are_split():
    content = "\n".join(f"{9900.0 + 5 * i:7.1f}{99.9 + 0.1 * i:10.6f}{0.5:10.6f}" for i in range(12))
    spectrum = only(content)
    np.testing.assert_allclose(spectrum.flux, 99.9 + 0.1 * np.arange(12))
    assert spectrum.wave_max == 9955.0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("# only\n# a header\n", "header lines only"),
        ("A text.\nIt has no numbers in rows.\n", "text without rows of numbers"),
        ("4000 1\n4001 2\n4002\n4003 4\n", "line 3 has 1 columns, 2 expected"),
        ("4000 1\n4001 2 3\n", "line 2 has 3 columns, 2 expected"),
        ("4000 1\n4001 two\n", "line 2, column 2: 'two' is not a number"),
        (rows(range(3586, 3596), range(55181, 55191), range(344, 354)), "list of plate, MJD and fibre numbers"),
        (rows([3586, 3586, 3587] * 3, [55181] * 9, [1, 2, 3] * 3, [0.1] * 9), "list of plate, MJD and fibre"),
        (rows([5, 3, 9] * 4, [1, 2, 3] * 4), "whole numbers in no order"),
        ("3586 55181 344 Carbon\n3587 55182 626 Carbon\n", "words in its columns"),
        ("# color,  Teff for all metallicities\n5.86 2000.0\n5.08 2400.0\n", "not plausible wavelengths"),
        (rows(GRID, *[range(30)] * 5), "6 unnamed columns that are not alike .* name the columns in a header line"),
        (rows([400.5 + i for i in range(30)], range(30)), "not plausible wavelengths in Å; name the unit"),
        (rows([-5.0, *GRID[1:]], range(30)), "goes down to -5"),
        ("# wavelength (parsec) flux\n" + rows(GRID, range(30)), "'parsec' are not understood"),
        (
            "a,wavelength,b\n" + rows(range(30), GRID, range(30), mark=","),
            "no column is named flux .columns: a, wavelength",
        ),
        ("1\n2\n3\n", "single column"),
        ("4000 " + "1 " * 60_000 + "\n", "a line of 120005 characters is no row of a spectrum"),
        ("4000 1\n", "1 pixels with a wavelength; a spectrum needs at least 2"),
        ("4000 nan\n4001 nan\n", "all NaN"),
        ("<!DOCTYPE html>\n<html>\n", "HTML or XML page"),
    ],
)
def test_a_text_that_is_no_spectrum_is_refused_with_the_reason(content, reason):
    with pytest.raises(SpectrumReadError, match=reason) as caught:
        read(content.encode(), name="list.txt")
    assert str(caught.value).startswith("list.txt: ")


def npz(**arrays) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def test_an_npz_with_wavelength_flux_and_redshift_is_read():
    (spectrum,) = read(
        npz(wavelength=np.array(GRID), flux=np.arange(30, dtype=">f4"), redshift=-0.0002), name="a/b.npz"
    )
    assert (spectrum.layout, spectrum.id) == ("npz", "b")
    assert (spectrum.redshift.value, spectrum.redshift.source) == (-0.0002, "redshift")
    assert spectrum.flux.dtype.isnative
    np.testing.assert_array_equal(spectrum.wavelength, GRID)


def test_an_npz_of_many_spectra_gives_one_entry_a_row():
    found = read(npz(wavelength=GRID, flux=np.arange(60.0).reshape(2, 30), ivar=np.ones((2, 30)), z=[0.1, -9999.0]))
    assert [s.row for s in found] == [0, 1]
    assert [s.redshift.value for s in found] == [0.1, None]
    assert found[1].flux[0] == 30.0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (npz(wavelength=GRID, flux=np.array([{"a": 1}] * 30, dtype=object)), "object arrays"),
        (npz(wavelength=GRID), "arrays named wavelength and flux; it has: wavelength"),
        (npz(wavelength=GRID, flux=np.arange(9.0)), "flux has shape"),
        (npz(wavelength=GRID, flux=np.array(["a"] * 30)), "numbers .* expected"),
        (npz(wavelength=GRID, flux=np.arange(30.0))[:200], "damaged"),
    ],
)
def test_a_bad_npz_is_refused_with_the_reason(data, reason):
    with pytest.raises(SpectrumReadError, match=reason):
        read(data, name="a.npz")


def test_an_ecsv_table_of_astropy_is_read_with_its_units():
    header = (
        "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: wavelength, unit: nm, datatype: float64}\n"
        "# - {name: flux, datatype: float64}\n# schema: astropy-2.0\nwavelength flux\n"
    )
    spectrum = only(header + rows(np.array(GRID) / 10, range(30)))
    np.testing.assert_allclose(spectrum.wavelength, GRID)


@pytest.mark.parametrize(
    ("words", "unit_factor", "medium"),
    [
        ("wavelength in Angstrom (vacuum), flux", 1.0, "vacuum"),
        ("wavelength (Angstrom, air), flux", 1.0, "air"),
        ("wavelength (nm) (vacuum), flux", 10.0, "vacuum"),
        ("wavelength [in air], flux", 1.0, "air"),
    ],
)
def test_a_medium_in_brackets_is_no_unit(words: str, unit_factor: float, medium: str) -> None:
    rows = "\n".join(f"{(4000 + i) / unit_factor:.4f}, {1 + 0.01 * i:.3f}" for i in range(60))
    (spectrum,) = read(f"{words}\n{rows}\n".encode())
    assert spectrum.wave_min == pytest.approx(4000.0)
    assert spectrum.medium == medium
