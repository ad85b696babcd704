"""FITS files that invite a wrong reading: arms, skies, pixels, tables of lines, scaled images, masked ids."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest
import spectrum_files as make
from astropy.io import fits
from astropy.table import MaskedColumn, Table

from specvet.spectra import Spectrum, SpectrumReadError, read

N = 300
WAVE = 3800.0 + np.arange(N)
FLUX = 1.0 + 0.001 * np.arange(N)
SKY = 50.0 + 0.01 * np.arange(N)
SCALE = {"CTYPE1": "WAVE", "CRVAL1": 3800.0, "CDELT1": 1.0, "CUNIT1": "Angstrom"}


def image(values, name: str = "", **cards) -> fits.ImageHDU:
    return make.with_cards(fits.ImageHDU(np.asarray(values), name=name), cards)


def primary(values, **cards) -> fits.PrimaryHDU:
    return make.with_cards(fits.PrimaryHDU(np.asarray(values)), {k.replace("__", "-"): v for k, v in cards.items()})


def table(name: str = "", **columns) -> fits.BinTableHDU:
    return fits.BinTableHDU(Table(columns), name=name)


def only(*hdus) -> Spectrum:
    (spectrum,) = read(make.as_bytes(*hdus), name="a.fits")
    return spectrum


def refusal(*hdus) -> str:
    with pytest.raises(SpectrumReadError) as caught:
        read(make.as_bytes(*hdus), name="a.fits")
    return caught.value.problem


# Images


@pytest.mark.parametrize("bits", ["i2", "i4", "u1"])
def test_a_scaled_image_is_read_alike_from_everywhere(bits, tmp_path):
    raw = make.as_bytes(primary(np.arange(120).repeat(30).astype(bits), **SCALE))
    header = fits.Header.fromstring(raw[:2880].decode())
    header.update(BSCALE=0.5, BZERO=1.0)
    data = header.tostring(endcard=True, padding=True).encode() + raw[2880:]
    path = tmp_path / "a.fits"
    path.write_bytes(data)
    with fits.open(path) as hdus:
        for source in (path, data, hdus):
            (spectrum,) = read(source)
            np.testing.assert_array_equal(spectrum.flux[[0, 30, 60]], [1.0, 1.5, 2.0])
    with pytest.raises(SpectrumReadError, match="truncated"):
        read(data[:-2880])


@pytest.mark.parametrize("red", [200, N])
def test_images_with_a_scale_of_their_own_are_entries_of_their_own(red):
    arms = (
        image(FLUX, "BLUE", **SCALE),
        image(np.full(N, 0.5), "BLUE_ERR"),
        image(np.full(red, 3.0), "RED", **SCALE | {"CRVAL1": 5300.0, "CDELT1": 2.0}),
        image(np.full(red, 0.25), "RED_ERR"),
        image(np.full(red, 9.0), "SKY", **SCALE | {"CRVAL1": 5300.0}),
    )
    found = read(make.as_bytes(fits.PrimaryHDU(), *arms))
    assert [(s.row, s.ids["hdu"], s.n_pix, s.wave_min) for s in found] == [
        (0, "BLUE", N, 3800.0),
        (1, "RED", red, 5300.0),
    ]
    assert [(s.flux[0], s.ivar[0]) for s in found] == [(1.0, 4.0), (3.0, 16.0)]


def test_an_image_that_is_not_read_is_named():
    spectrum = only(primary(FLUX, **SCALE), image(np.ones(7), "RED"))
    assert "image 1 (RED, 7 pixels) ignored" in spectrum.warnings


@pytest.mark.parametrize("name", ["SKY", "LSF", "MODEL", "SKY_MODEL", "CONTINUUM", "TELLURIC", "FIT"])
def test_what_is_named_for_something_else_is_no_flux(name):
    spectrum = only(fits.PrimaryHDU(), image(SKY, name, **SCALE), image(FLUX, "SCI", **SCALE))
    np.testing.assert_array_equal(spectrum.flux, FLUX)
    assert f"image 1 ({name}) ignored" in spectrum.warnings
    assert "no known layout" in refusal(fits.PrimaryHDU(), image(SKY, name, **SCALE))


def test_a_flux_of_many_rows_beside_wavelengths_is_one_entry_a_row():
    flux = np.arange(20.0)[:, None] + FLUX
    beside = (image(SKY, "SKY"), image(WAVE, "WAVELENGTH"), image(np.full((20, N), 4.0), "IVAR"))
    found = read(make.as_bytes(fits.PrimaryHDU(), image(flux, "FLUX"), *beside))
    assert [(s.row, s.flux[0], s.ivar[0]) for s in found] == [(row, 1.0 + row, 4.0) for row in range(20)]
    np.testing.assert_array_equal(found[7].wavelength, WAVE)


def test_a_cube_is_refused_and_its_line_spread_function_is_no_spectrum():
    words = refusal(fits.PrimaryHDU(), image(np.ones((N, 3, 3)), "DATA"), image(SKY, "LSF"), image(WAVE, "WAVE"))
    assert words.startswith("image 1 (DATA) has shape (300, 3, 3)")


@pytest.mark.parametrize(
    "cards",
    [
        {"CTYPE1": "PIXEL", "CRVAL1": 1.0, "CDELT1": 1.0},
        {"CTYPE1": "LINEAR", "CRVAL1": 1.0, "CD1_1": 1.0, "WAT1_001": "wtype=linear label=Pixel"},
        {"CTYPE1": "TIME", "CRVAL1": 51544.0, "CDELT1": 1.0},
        {"CTYPE1": "POSITION", "CRVAL1": 0.0, "CDELT1": 1.0},
        {"CTYPE1": "RA---TAN", "CRVAL1": 4000.0, "CDELT1": 1.0},
        {"CTYPE1": "LINEAR", "CRVAL1": 4000.0, "CDELT1": 1.0, "WAT1_001": "wtype=linear label=Velocity"},
        {"CRVAL1": 0.0, "CDELT1": 1.0},
        {"CRVAL1": 1.0, "CDELT1": 1.0},
    ],
)
def test_a_scale_of_pixels_or_times_is_no_wavelength(cards):
    words = refusal(primary(np.ones(3000), **cards))
    assert any(reason in words for reason in ("counts pixels", "no wavelength", "numbers of pixels"))


def test_pixels_in_angstrom_are_wavelengths():
    assert only(primary(FLUX, CTYPE1="PIXEL", CRVAL1=3800.0, CDELT1=1.0, CUNIT1="Angstrom")).wave_min == 3800.0


@pytest.mark.parametrize(("unit", "first"), [("nm", 2.58), ("Angstrom", 3.58), ("", 3.58), ("m", -6.42)])
def test_a_log_scale_keeps_its_unit(unit, first):
    spectrum = only(primary(FLUX, DC__FLAG=1, CRVAL1=first, CDELT1=1e-4, CUNIT1=unit))
    assert spectrum.wave_min == pytest.approx(10**3.58)


# Tables


@pytest.mark.parametrize("more", [{"flux": [10.0, 20.0]}, {}])
def test_a_table_of_lines_does_not_replace_the_spectrum(more):
    lines = table("LINES", wave=[4861.3, 6562.8], ew=[1.0, 2.0], **more)
    spectrum = only(primary(FLUX, **SCALE), lines)
    assert (spectrum.layout, spectrum.n_pix) == ("image-1d", N)
    assert "table 1 (LINES) beside the image ignored" in spectrum.warnings


def test_a_table_as_long_as_the_image_is_still_read():
    assert only(primary(FLUX, **SCALE), table(wave=WAVE, flux=FLUX, err=FLUX)).layout == "table"


@pytest.mark.parametrize("other", ["counts", "spec", "f", "flux_norm", "intensity"])
def test_the_column_named_flux_is_the_flux(other):
    spectrum = only(fits.PrimaryHDU(), table(wave=WAVE, **{other: SKY}, flux=FLUX))
    np.testing.assert_array_equal(spectrum.flux, FLUX)
    np.testing.assert_array_equal(only(fits.PrimaryHDU(), table(wave=WAVE, **{other: SKY})).flux, SKY)


def test_the_unit_in_a_columns_name_counts_where_none_is_stated():
    nm = np.linspace(1000.0, 2450.0, N)
    spectrum = only(fits.PrimaryHDU(), table(wave_nm=nm, flux=FLUX))
    np.testing.assert_allclose(spectrum.wavelength, 10 * nm)


def test_a_log_table_of_anybody_is_not_called_sdss():
    spectrum = only(fits.PrimaryHDU(), table(loglam=3.58 + 1e-4 * np.arange(N), flux=FLUX, ivar=FLUX))
    assert (spectrum.layout, spectrum.survey, spectrum.medium, spectrum.joins) == ("table", "unknown", "unknown", ())
    assert spectrum.wave_min == pytest.approx(10**3.58)
    assert (spectrum.flux_unit, spectrum.resolution, spectrum.calibration) == ("", None, "unknown")


IDS = np.array([39627770420002757, 39627770420002759, 39627770420002761])


@pytest.mark.parametrize("source", ["bytes", "hdus"])
def test_masked_identifiers_keep_all_digits_of_the_others(source):
    two = np.tile(WAVE, (3, 1))
    hdu = table(TARGETID=MaskedColumn(IDS, mask=[0, 0, 1]), WAVELENGTH=two, FLUX=two)
    data = make.as_bytes(fits.PrimaryHDU(), hdu)
    found = read(data if source == "bytes" else fits.open(io.BytesIO(data)))
    assert [s.id for s in found] == [str(IDS[0]), str(IDS[1]), ""]


@pytest.mark.parametrize("scale", [(1.0, 0.0), (0.5, 3.0)])
def test_tnull_is_missing_wherever_the_file_comes_from(scale):
    raw = np.array([100, 200, -32768, 400] * 10, dtype="i2")
    columns = [
        fits.Column("WAVE", "D", array=np.arange(5000.0, 5040.0)),
        fits.Column("FLUX", "I", array=raw, null=-32768),
    ]
    data = make.as_bytes(fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns))
    if scale != (1.0, 0.0):  # as cards: astropy would scale the values while it writes
        cards = f"TSCAL2  = {scale[0]:20}".ljust(80) + f"TZERO2  = {scale[1]:20}".ljust(80) + "END".ljust(80)
        end = data.rindex(b"END" + b" " * 77)
        data = data[:end] + cards.encode() + data[end + len(cards) :]
    from_bytes, from_hdus = (read(source)[0] for source in (data, fits.open(io.BytesIO(data))))
    expected = np.where(raw == -32768, np.nan, raw * scale[0] + scale[1])
    np.testing.assert_array_equal(from_bytes.flux, expected)
    np.testing.assert_array_equal(from_hdus.flux, expected)
    assert (from_hdus.file, from_hdus.id) == ("", "")


def test_cells_of_two_axes_are_refused_wherever_the_file_comes_from():
    cells = np.tile(4000.0 + np.arange(10), (3, 2, 1))
    columns = [fits.Column(name, "20D", dim="(10,2)", array=cells) for name in ("WAVE", "FLUX")]
    data = make.as_bytes(fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns))
    for source in (data, fits.open(io.BytesIO(data))):
        with pytest.raises(SpectrumReadError, match=r"a spectrum of shape \(2, 10\)"):
            read(source)


@pytest.mark.parametrize("names", [("RA", "DEC"), ("RAJ2000", "DEJ2000")])
def test_rows_have_their_own_date_and_position_also_at_zero(names):
    two = np.tile(WAVE, (2, 1))
    position = dict(zip(names, ([0.0, 10.0], [-5.0, 0.0]), strict=True))
    hdu = table(NAME=["a", "b"], MJD=[58000.0, 58001.0], **position, WAVE=two, FLUX=two)
    head = make.with_cards(fits.PrimaryHDU(), {"MJD-OBS": 57000.5, "RA": 150.0, "DEC": 2.0})
    found = read(make.as_bytes(head, hdu))
    assert [(s.id, s.mjd, s.ra, s.dec) for s in found] == [("a", 58000.0, 0.0, -5.0), ("b", 58001.0, 10.0, 0.0)]


# IRAF


def multispec(spec: str) -> Spectrum:
    (spectrum,) = read(make.multispec([spec], np.ones((1, 500))))
    return spectrum


def test_a_log_dispersion_is_divided_by_the_doppler_factor_as_iraf_does():
    assert multispec("1 1 1 3.7 1.E-4 500 0.001 1 2").wave_min == pytest.approx(10**3.7 / 1.001, rel=1e-12)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.3, 0.9)])
def test_weighted_functions_are_averaged_as_iraf_does(weights):
    functions = " ".join(f"{weight} 0. 1 2 1. 500. 5250. 250." for weight in weights)
    assert multispec(f"1 1 2 5000. 1. 500 0. 1 2 {functions}").wave_min == pytest.approx(5000.0)


# Redrock


def coadd_with(tmp_path, **catalogues) -> Spectrum:
    (tmp_path / "coadd-sv3-bright-1.fits").write_bytes(make.desi([7]))
    for name, z in catalogues.items():
        hdus = (fits.PrimaryHDU(), make.redrock([(7, z, 0, "QSO")]))
        (tmp_path / f"redrock-{name.replace('_', '-')}.fits").write_bytes(make.as_bytes(*hdus))
    os.utime(tmp_path)
    return read(tmp_path / "coadd-sv3-bright-1.fits")[0]


def test_the_redshift_of_another_programs_catalogue_says_whose_it_is(tmp_path):
    found = coadd_with(tmp_path, sv3_dark_1=1.1).redshift
    assert (found.value, found.source) == (1.1, "redrock Z of redrock-sv3-dark-1.fits")


def test_catalogues_that_contradict_each_other_give_no_redshift(tmp_path):
    found = coadd_with(tmp_path, sv3_dark_1=1.1, main_dark_1=0.5).redshift
    assert (found.value, found.warning) == (None, "redrock catalogues beside the file contradict each other")


def test_the_files_own_catalogue_goes_before_all_others(tmp_path):
    found = coadd_with(tmp_path, sv3_bright_1=0.9, main_dark_1=0.5).redshift
    assert (found.value, found.source) == (0.9, "redrock Z")
