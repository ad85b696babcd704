"""Texts that invite a wrong reading: headers, units, commas, catalogues, several stars in one table."""

from __future__ import annotations

import io

import numpy as np
import pytest
from astropy.io.votable import from_table
from astropy.table import Table

from specvet.spectra import Spectrum, SpectrumReadError, read

N = 300
WAVE = np.linspace(3800.0, 9000.0, N)
FLUX = 1.0 + 0.001 * np.arange(N)
SKY = np.full(N, 50.0) + 0.01 * np.arange(N)
INFRARED_NM = np.linspace(1000.0, 2450.0, N)


def rows(*columns, mark: str = " ") -> str:
    return "\n".join(mark.join(f"{value:.6g}" for value in row) for row in zip(*columns, strict=True)) + "\n"


def only(content: str) -> Spectrum:
    (spectrum,) = read(content.encode(), name="star.dat")
    return spectrum


def refusal(content: str | bytes) -> str:
    with pytest.raises(SpectrumReadError) as caught:
        read(content if isinstance(content, bytes) else content.encode(), name="star.dat")
    return caught.value.problem


# Headers


@pytest.mark.parametrize("mark", ["# ", "", "% "])
@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("wavelength sky flux", (WAVE, SKY, FLUX)),
        ("Wave(A) model Flux", (WAVE, SKY, FLUX)),
        ("pixel wavelength flux", (np.arange(1, N + 1), WAVE, FLUX)),
        ("order wavelength flux", (np.full(N, 7), WAVE, FLUX)),
        ("columns: lambda continuum f_lambda", (WAVE, SKY, FLUX)),
    ],
)
def test_a_header_that_names_wavelength_and_flux_is_used_whatever_else_it_names(mark, names, columns):
    spectrum = only(f"{mark}{names}\n{rows(*columns)}")
    np.testing.assert_allclose(spectrum.wavelength, WAVE, rtol=1e-5)
    np.testing.assert_allclose(spectrum.flux, FLUX, rtol=1e-5)


def test_a_sentence_of_as_many_words_as_columns_is_no_header():
    spectrum = only("# Wavelength calibrated spectrum\n" + rows(WAVE, FLUX, SKY))
    np.testing.assert_allclose(spectrum.flux, FLUX, rtol=1e-5)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("header", ["", "# wavelength flux\n"])
def test_a_column_that_counts_the_rows_is_no_wavelength(start, header):
    counted = np.arange(start, start + 3000)
    words = refusal(header + rows(counted, 1.5 + counted))
    assert "numbers of pixels" in words or "goes down to 0" in words


@pytest.mark.parametrize(
    ("header", "first"),
    [
        ("time,flux,flux_err", np.linspace(2458000, 2458030, N)),
        ("mjd,mag,magerr", np.linspace(58000, 58030, N)),
        ("freq_GHz,flux", np.linspace(1000, 5000, N)),
        ("wavenumber_cm-1,flux", np.linspace(11000, 26000, N)),
        ("velocity_km_s,flux", np.linspace(1, 3000, N)),
        ("energy_eV,counts", np.linspace(300, 10000, N)),
        ("id,ra,dec", np.arange(1, N + 1)),
        ("teff,logg,feh", np.linspace(3500, 7000, N)),
        ("brightness,height", np.linspace(3500, 7000, N)),
    ],
)
@pytest.mark.parametrize("mark", ["", "# "])
def test_a_table_whose_names_hold_no_wavelength_is_refused(header, first, mark):
    names = header.split(",")
    if mark and names[0] == "brightness":
        pytest.skip("two words of a comment may be anything")
    separator = " " if mark else ","
    content = mark + separator.join(names) + "\n" + rows(first, *[FLUX] * (len(names) - 1), mark=separator)
    assert refusal(content) == (f"no column is named as a wavelength (columns: {', '.join(names)}); name it wavelength")


@pytest.mark.parametrize("comment", ["M dwarf", "m giants of the bulge"])
def test_a_comment_below_the_names_is_no_row_of_units(comment):
    assert only(f"# wavelength flux\n# {comment}\n" + rows(WAVE, FLUX)).wave_max == 9000.0


@pytest.mark.parametrize("names", ["x,y", "col1,col2", "# UZ Boo", "UZ Boo, quiet"])
def test_names_that_say_nothing_leave_the_first_column_the_wavelength(names):
    assert only(names + "\n" + rows(WAVE, FLUX, mark=",")).wave_max == 9000.0


@pytest.mark.parametrize("kind", ["ecsv", "votable", "ipac"])
@pytest.mark.parametrize("names", [("hjd", "mag", "mag_err"), ("mjd", "vmag", "err"), ("teff", "logg", "feh")])
def test_a_standard_table_without_a_wavelength_is_refused(kind, names):
    table = Table([np.linspace(3500.0, 7000.0, N), FLUX, SKY], names=names)
    out = io.StringIO()
    if kind == "votable":
        binary = io.BytesIO()
        from_table(table).to_xml(binary)
        out.write(binary.getvalue().decode())
    else:
        table.write(out, format=f"ascii.{kind}")
    assert refusal(out.getvalue()).startswith(f"no column is named as a wavelength (columns: {', '.join(names)})")


def test_of_several_fluxes_the_one_of_that_name_is_taken():
    spectrum = only("wavelength,counts,flux_norm,flux,error\n" + rows(WAVE, SKY, SKY, FLUX, FLUX / 10, mark=","))
    np.testing.assert_allclose(spectrum.flux, FLUX, rtol=1e-5)
    assert spectrum.warnings == ("column 2 (counts) ignored", "column 3 (flux_norm) ignored")


# Units


@pytest.mark.parametrize(
    "header",
    [
        "wavelength flux\nnm  -\n",
        "# wavelength flux\n# nm erg/s/cm2/A\n",
        "# wavelength flux\n# (nm) (Jy)\n",
        "# wavelength unit: nm\n# wavelength flux\n",
        "# WUNIT = nm\n# wavelength flux\n",
        "# Wavelength units: nm\n",
        "# unit of wavelength: nm\n",
        "# CUNIT1 = nm\n",
        "wavelength_nm_air flux\n",
        "wavelength.nm flux\n",
        "wave_nm flux\n",
        "lambda[nm] flux\n",
    ],
)
def test_nanometres_that_are_stated_are_nanometres(header):
    spectrum = only(header + rows(INFRARED_NM, FLUX))
    assert (spectrum.wave_min, spectrum.wave_max) == (pytest.approx(10_000.0), pytest.approx(24_500.0))


def test_a_row_of_units_below_the_names_is_no_row_of_names():
    spectrum = only("wavelength,flux,error\nAngstrom,erg/s/cm2/A,erg/s/cm2/A\n" + rows(WAVE, FLUX, FLUX, mark=","))
    np.testing.assert_allclose(spectrum.flux, FLUX, rtol=1e-5)
    assert spectrum.flux_unit == "erg/s/cm2/A"
    assert spectrum.ivar[0] == pytest.approx(1.0)


def test_what_may_be_nanometres_is_said():
    words = "wavelengths 1000 to 2450 without a unit taken for Å; if they are nm, state the unit"
    assert words in only("# lambda flux\n" + rows(INFRARED_NM, FLUX)).warnings
    assert words not in only("# lambda(A) flux\n" + rows(INFRARED_NM, FLUX)).warnings


@pytest.mark.parametrize(
    "comment", ["wavelengths in rest frame", "Wavelength in heliocentric frame", "wavelengths in the lab"]
)
def test_words_behind_in_that_are_no_unit_are_none(comment):
    assert only(f"# {comment}\n# wavelength flux\n" + rows(WAVE, FLUX)).wave_min == 3800.0


@pytest.mark.parametrize("unit", ["eV", "GHz", "cm-1"])
def test_a_unit_that_is_no_length_is_refused(unit):
    assert f"wavelengths in '{unit}' are not understood" in refusal(f"# wavelength unit: {unit}\n" + rows(WAVE, FLUX))


# Commas


def test_quoted_thousands_with_decimals_are_what_they_say():
    body = "".join(f'{w:.1f},"{1000 * f:,.1f}"\n' for w, f in zip(WAVE, FLUX, strict=True))
    np.testing.assert_allclose(only("wavelength,flux\n" + body).flux, 1000 * FLUX, atol=0.06)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("wavelength\tflux\n4000.0\t1,137\n4001.3\t770\n", "line 2: '1,137' may be a decimal or thousands"),
        ("wavelength;flux\n4000;1,137\n4001;1,770\n", "line 2: '1,137' may be a decimal or thousands"),
        ("wavelength,flux\n4000,1,234\n4001,1,045\n", "fields under 2 names|zeros in front"),
        ("4000,1,234\n4001,1,045\n4002,0,987\n", "zeros in front between commas"),
    ],
)
def test_commas_that_may_be_either_are_refused(content, reason):
    with pytest.raises(SpectrumReadError, match=reason):
        read(content.encode())


def test_decimal_commas_between_blanks_are_decimals():
    spectrum = only("".join(f"{w:.3f} 1,25\n".replace(".", ",") for w in WAVE))
    np.testing.assert_allclose(spectrum.wavelength, WAVE, atol=6e-4)
    assert set(spectrum.flux) == {1.25}


# Several stars, or none


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_text_rows_of_two_stars_are_two_spectra_with_all_digits_of_their_names(shift):
    first, second = 4295806720000000001, 4295806720000000002
    body = rows(WAVE, FLUX, mark=",").splitlines()
    other = rows(WAVE + shift, 50 * FLUX, mark=",").splitlines()
    content = "source_id,wavelength,flux\n" + "\n".join(
        [*(f"{first},{line}" for line in body), *(f"{second},{line}" for line in other)]
    )
    found = read(content.encode())
    assert [(s.id, s.row, s.n_pix) for s in found] == [(str(first), 0, N), (str(second), 1, N)]
    np.testing.assert_allclose(found[1].flux, 50 * FLUX, rtol=1e-5)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_blocks_that_nothing_tells_apart_are_refused(shift):
    content = "# star A\n" + rows(WAVE, FLUX) + "# star B\n" + rows(WAVE + shift, SKY)
    assert ("start again over the same range (2 spectra" if shift else "repeat: not wavelengths of one") in refusal(
        content
    )
    named = content.replace("# star A", "# wavelength flux")
    assert "start again over the same range (2 spectra" in refusal(named)


def test_orders_of_one_spectrum_are_still_put_in_order():
    content = rows(WAVE[:160], FLUX[:160]) + rows(WAVE[140:] + 0.1, FLUX[140:])
    assert only(content).n_pix == N + 20


def test_a_list_of_lines_of_many_stars_is_no_spectrum():
    waves = np.repeat([6562.8, 4861.3, 5006.8], 50)
    content = "id,wavelength,flux,error\n" + rows(np.arange(150), waves, np.ones(150), np.ones(150), mark=",")
    assert "147 of 150 wavelengths repeat" in refusal(content)


def test_broad_bands_are_no_spectrum():
    content = "wavelength,flux,error\n4400,1,1\n5500,2,1\n6600,2,1\n8000,2,1\n12500,1,1\n"
    assert "as far apart as photometric bands" in refusal(content)


@pytest.mark.parametrize("beside", ["# Teff = 3500\n", "# logg: 4.5\n", "# u: 18.1\n# g: 17\n# r: 16.8\n# i: 16.5\n"])
def test_z_beside_a_model_or_magnitudes_is_no_redshift(beside):
    assert only("# Z = 0.001\n" + beside + "# wavelength flux\n" + rows(WAVE, FLUX)).redshift.value is None
    assert only("# Z = 0.001\n# wavelength flux\n" + rows(WAVE, FLUX)).redshift.value == 0.001
