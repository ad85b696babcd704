"""Images with named rows, template sets, arrays beside a flux that no name explains, and every kind of scale."""

from __future__ import annotations

import numpy as np
import pytest
import spectrum_files as make
from astropy import units as u
from astropy.io import fits
from astropy.wcs import WCS

from specvet.spectra import SpectrumReadError, read

N = 200
GRID = {"CRVAL1": 4000.0, "CDELT1": 2.0}
RNG = np.random.default_rng(5)
SIGMA = np.linspace(0.02, 0.05, N)
FLUX = 1.0 + RNG.normal(0.0, SIGMA)


def only(data, name="rows.fits"):
    (spectrum,) = read(data, name=name)
    return spectrum


def primary(data, *others, **cards) -> bytes:
    given = {key.replace("__", "-"): value for key, value in cards.items()}
    return make.as_bytes(make.with_cards(fits.PrimaryHDU(np.asarray(data)), given), *others)


# Rows


@pytest.mark.parametrize(
    "names",
    [
        {"ROW1": "flux", "ROW2": "error"},
        {"ARRAY1": "SPECTRUM", "ARRAY2": "SIGMA"},
        {"EXTEN0": "Flux (erg/s/cm2/A)", "EXTEN1": "Uncertainty (erg/s/cm2/A)"},
        {"BANDID1": "flux - optimal", "BANDID2": "sigma - optimal"},
    ],
)
def test_rows_that_the_header_names_are_what_it_says(names):
    spectrum = only(primary([FLUX, SIGMA], **GRID, **names))
    assert spectrum.layout == "image-rows"
    np.testing.assert_array_equal(spectrum.flux, FLUX)
    np.testing.assert_allclose(spectrum.ivar, 1 / SIGMA**2)
    np.testing.assert_allclose(spectrum.wavelength, 4000.0 + 2.0 * np.arange(N))


def test_four_named_rows_give_flux_ivar_and_mask_and_the_sky_is_left_out_by_name():
    rows = [np.full(N, 9.0), FLUX, np.full(N, 4.0), np.arange(N)]
    spectrum = only(primary(rows, ROW1="sky", ROW2="flux", ROW3="ivar", ROW4="mask", **GRID))
    np.testing.assert_array_equal(spectrum.flux, FLUX)
    assert (spectrum.ivar[0], spectrum.mask[7]) == (4.0, 7)
    assert spectrum.warnings == ("row 1 (sky) ignored",)


def test_spextool_rows_are_wavelength_flux_and_error():
    wave = np.linspace(0.8, 2.4, N)
    spectrum = only(primary([wave, FLUX, SIGMA], XUNITS="um", YUNITS="Wm-2um-1", WAVETYPE="Vacuum"))
    np.testing.assert_allclose(spectrum.wavelength, wave * 1e4)
    np.testing.assert_allclose(spectrum.ivar, 1 / SIGMA**2)
    assert (spectrum.medium, spectrum.flux_unit) == ("vacuum", "Wm-2um-1")


def test_a_first_row_that_rises_all_the_way_in_a_stated_unit_is_the_wavelength():
    spectrum = only(primary([5000.0 + np.arange(N), FLUX, SIGMA], CUNIT1="angstroms"))
    assert (spectrum.wave_min, spectrum.wave_max) == (5000.0, 5199.0)
    assert "row 3 is not named: taken for the error by what it holds" in spectrum.warnings


def test_rows_that_nothing_explains_are_refused_with_a_way_out():
    with pytest.raises(SpectrumReadError, match=r"image of 2 rows .* name the rows in cards ROW1, ROW2"):
        read(primary([FLUX, SIGMA], **GRID))


# Templates


def test_named_templates_are_one_entry_each_with_a_warning():
    found = read(primary([FLUX, FLUX * 2], COEFF0=3.578, COEFF1=1e-4, NAME0="A0", NAME1="Carbon_lines"))
    assert [(s.row, s.id, s.layout) for s in found] == [
        (0, "A0", "sdss-templates"),
        (1, "Carbon_lines", "sdss-templates"),
    ]
    np.testing.assert_allclose(found[1].wavelength, 10.0 ** (3.578 + 1e-4 * np.arange(N)))
    assert "a template, no observed spectrum" in found[0].warnings
    assert (found[0].medium, found[0].frame) == ("vacuum", "rest")


@pytest.mark.parametrize(
    ("cards", "layout"),
    [
        ({"COEFF0": 3.55, "COEFF1": 1e-4, "EIGEN0": 14.0, "EIGEN1": 2.0, "OBJECT": "STAR CV"}, "sdss-templates"),
        ({"RRTYPE": "STAR", "RRSUBTYP": "CV", **GRID}, "redrock-templates"),
        ({"RRTYPE": "STAR", "RRSUBTYP": "CV", "CRVAL1": 3.55, "CDELT1": 1e-4, "LOGLAM": True}, "redrock-templates"),
    ],
)
def test_principal_components_say_that_they_are_no_spectra(cards, layout):
    found = read(primary([FLUX, -FLUX], **cards))
    assert [s.id for s in found] == ["STAR CV 0", "STAR CV 1"]
    assert {s.layout for s in found} == {layout}
    assert "principal component 2 of 2, which is no spectrum of a star by itself" in found[1].warnings
    if layout == "sdss-templates" or "LOGLAM" in cards:
        assert found[0].wave_max == pytest.approx(10.0 ** (3.55 + 1e-4 * (N - 1)))


def test_the_m_dwarf_templates_of_bochanski_give_their_mean():
    spectrum = only(primary([FLUX, FLUX + 1, SIGMA, SIGMA], CRVAL1=3825.0, CD1_1=0.1, NUMOFFIL=67), "m2.all.na.k.fits")
    np.testing.assert_array_equal(spectrum.flux, FLUX)
    assert (spectrum.id, spectrum.medium, spectrum.ivar) == ("m2.all.na.k", "vacuum", None)


# Arrays that no name explains


@pytest.mark.parametrize(("values", "word"), [(SIGMA, "error"), (1 / SIGMA**2, "inverse variance")])
def test_an_unnamed_image_is_told_by_the_scatter_of_the_flux(values, word):
    spectrum = only(primary(FLUX, fits.ImageHDU(values), **GRID))
    np.testing.assert_allclose(spectrum.ivar, 1 / SIGMA**2)
    assert f"image 1 is not named: taken for the {word} by what it holds" in spectrum.warnings


@pytest.mark.parametrize(
    "values",
    [
        SIGMA * 100,  # far too large an error, far too small an ivar
        np.full(N, 1.0),  # σ = 1/σ²: both or neither
        -SIGMA,
        np.full(N, np.nan),
    ],
)
def test_an_unnamed_image_that_fits_neither_is_left_out_and_it_is_said(values):
    spectrum = only(primary(FLUX, fits.ImageHDU(values), **GRID))
    assert spectrum.ivar is None
    assert "no error array" in spectrum.warnings


def test_unnamed_images_of_wavelengths_and_bits_are_recognised():
    wave = np.log10(10.0 ** (3.55 + 1e-4 * np.arange(N))).astype(">f4")
    bits = np.zeros(N, dtype=">i4")
    bits[3] = 4
    spectrum = only(primary(FLUX, fits.ImageHDU(wave), fits.ImageHDU(bits), COEFF0=3.55, COEFF1=1e-4))
    assert spectrum.mask[3] == 4
    assert spectrum.warnings == ("image 2 is not named: taken for the mask by what it holds", "no error array")


def test_named_images_need_no_scale_in_the_header():
    parts = {"FLUX": FLUX, "WAVELENGTH": 400.0 + 0.2 * np.arange(N), "ERR": SIGMA, "QUALITY": np.arange(N)}
    hdus = [fits.ImageHDU(values, name=name) for name, values in parts.items()]
    hdus[1].header["BUNIT"] = "nm"
    spectrum = only(make.as_bytes(fits.PrimaryHDU(), *hdus))
    np.testing.assert_allclose(spectrum.wavelength, 4000.0 + 2.0 * np.arange(N))
    np.testing.assert_allclose(spectrum.ivar, 1 / SIGMA**2)
    assert spectrum.mask[7] == 7


# Scales


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ({"CRVAL1": 4000.0, "CDELT1": 1.0, "CD1_1": 2.0}, [4000.0, 4002.0]),
        ({"CRVAL1": 4000.0, "CDELT1": 4.0, "PC1_1": 0.5}, [4000.0, 4002.0]),
        ({"CRVAL1": 4000.0, "CDELT1": 2.0, "CRPIX1": 0.0}, [4002.0, 4004.0]),
        ({"CRVAL1": 0.4, "CDELT1": 2e-4, "CUNIT1": "um", "CTYPE1": "WAVE"}, [4000.0, 4002.0]),
        ({"CRVAL1": 4e-7, "CDELT1": 2e-10, "CTYPE1": "WAVE"}, [4000.0, 4002.0]),
        ({"CRVAL1": 0.4, "CDELT1": 2e-4, "WAT1_001": "wtype=linear label=Wavelength units=microns"}, [4000.0, 4002.0]),
        ({"CRVAL1": 3.6, "CDELT1": 1e-4, "CTYPE1": "WAVE-LOG"}, [10**3.6, 10**3.6001]),
        ({"CRVAL1": 3.6, "CDELT1": 1e-4, "CUNIT1": "log(Angstrom)"}, [10**3.6, 10**3.6001]),
        ({"CRVAL1": -6.4, "CDELT1": 1e-4, "DC__FLAG": 1}, [10**3.6, 10**3.6001]),
        ({"CRVAL1": 4000.0, "CDELT1": 2.0, "LTV1": -10.0, "LTM1_1": 1.0}, [4000.0, 4002.0]),
        ({"CRVAL1": 8000.0, "CDELT1": -2.0}, [8000.0 - 2.0 * (N - 1), 8000.0 - 2.0 * (N - 2)]),
    ],
)
def test_a_scale_gives_angstroms(cards, expected):
    np.testing.assert_allclose(only(primary(FLUX, **cards)).wavelength[:2], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["WAVE-LOG", "AWAV-LOG", "WAVE-F2W", "AWAV-F2A", "WAVE-V2W"])
@pytest.mark.parametrize("unit", ["Angstrom", "nm"])
def test_scales_of_paper_iii_agree_with_wcslib(kind, unit):
    scale = {"Angstrom": 1.0, "nm": 0.1}[unit]
    cards = {"CTYPE1": kind, "CUNIT1": unit, "CRVAL1": 5000.0 * scale, "CDELT1": 2.0 * scale, "CRPIX1": 11.0}
    cards["RESTWAV"] = 5e-7
    wcs = WCS(fits.Header({"NAXIS": 1} | cards))
    expected = (wcs.pixel_to_world_values(np.arange(N)) * u.Unit(wcs.world_axis_units[0])).to_value(u.AA)
    spectrum = only(primary(FLUX, **cards))
    np.testing.assert_allclose(spectrum.wavelength, expected, rtol=1e-10)
    assert spectrum.medium == ("vacuum" if kind.startswith("WAVE") else "air")


@pytest.mark.parametrize("kind", ["FREQ", "VRAD", "ENER", "FREQ-LOG"])
def test_a_scale_that_is_no_wavelength_is_refused_by_name(kind):
    with pytest.raises(SpectrumReadError, match=f"CTYPE1={kind} is no wavelength"):
        read(primary(FLUX, CRVAL1=4000.0, CDELT1=2.0, CTYPE1=kind))


def test_a_scale_that_stands_in_a_table_is_refused_by_name():
    with pytest.raises(SpectrumReadError, match="WAVE-TAB stands in a table"):
        read(primary(FLUX, CRVAL1=4000.0, CDELT1=2.0, CTYPE1="WAVE-TAB"))


def test_a_table_without_wavelengths_takes_the_scale_of_its_header():
    columns = [fits.Column("flux", "D", array=FLUX), fits.Column("err", "D", array=SIGMA)]
    data = make.as_bytes(
        make.with_cards(fits.PrimaryHDU(), GRID | {"CUNIT1": "Angstrom", "BUNIT": "Jy"}),
        fits.BinTableHDU.from_columns(columns),
    )
    spectrum = only(data)
    np.testing.assert_allclose(spectrum.wavelength, 4000.0 + 2.0 * np.arange(N))
    np.testing.assert_allclose(spectrum.ivar, 1 / SIGMA**2)
    assert spectrum.flux_unit == "Jy"


def test_every_table_of_a_file_is_read_and_named():
    def arm(name: str, start: float) -> fits.BinTableHDU:
        wave = start + np.arange(N)
        return fits.BinTableHDU.from_columns(
            [fits.Column("LAMBDA", f"{N}D", array=wave[None]), fits.Column("SPEC", f"{N}D", array=FLUX[None])],
            name=name,
        )

    found = read(make.as_bytes(fits.PrimaryHDU(), arm("BLUE", 4000.0), arm("RED", 6000.0)), name="a.fits")
    assert [(s.row, s.id, s.ids["hdu"], s.wave_min) for s in found] == [
        (0, "a BLUE", "BLUE", 4000.0),
        (1, "a RED", "RED", 6000.0),
    ]


def test_masks_of_64_bits_stay_exact_in_tables():
    big = 2**53 + 1
    columns = [
        fits.Column("wave", "D", array=4000.0 + np.arange(N)),
        fits.Column("flux", "D", array=FLUX),
        fits.Column("mask", "K", array=np.full(N, big)),
    ]
    assert only(make.as_bytes(fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns))).mask[0] == big
