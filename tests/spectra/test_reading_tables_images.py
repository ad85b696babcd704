"""Other FITS tables and 1-D images, and the layouts that are refused by name."""

from __future__ import annotations

import numpy as np
import pytest
import spectrum_files as make
from astropy.io import fits

from specvet.spectra import SpectrumReadError, read


def only(data):
    (spectrum,) = read(data, name="test.fits")
    return spectrum


def table(columns: dict, units: dict | None = None, **cards) -> bytes:
    made = []
    for name, values in columns.items():
        array = np.asarray(values)
        kind = "D" if array.ndim == 1 else f"{array.shape[1]}D"
        made.append(fits.Column(name, kind, unit=(units or {}).get(name), array=array))
    return make.as_bytes(make.with_cards(fits.PrimaryHDU(), cards), fits.BinTableHDU.from_columns(made))


def test_a_generic_table_with_named_columns_and_units_is_read():
    spectrum = only(
        table({"WAVE": [400.0, 500.0], "FLUX": [1.0, 2.0], "ERR": [0.5, 0.0]}, {"WAVE": "nm", "FLUX": "Jy"})
    )
    np.testing.assert_array_equal(spectrum.wavelength, [4000.0, 5000.0])
    np.testing.assert_array_equal(spectrum.ivar, [4.0, 0.0])
    assert (spectrum.layout, spectrum.medium, spectrum.flux_unit) == ("table", "unknown", "Jy")


def test_rows_of_vectors_are_one_entry_each():
    wave = np.array([[4000.0, 4001.0], [5000.0, 5001.0]])
    found = read(table({"wavelength": wave, "flux": wave - 4000.0, "ivar": wave * 0 + 1}))
    assert [(s.row, s.wave_min, s.layout) for s in found] == [(0, 4000.0, "table-vector"), (1, 5000.0, "table-vector")]


def test_a_table_with_flux_but_no_wavelength_names_its_columns():
    with pytest.raises(SpectrumReadError, match=r"HDU 1 .*no wavelength column \(it has: FLUX, TEFF\)"):
        read(table({"FLUX": [1.0, 2.0], "TEFF": [3.0, 4.0]}))


def test_wavelengths_without_unit_that_are_no_angstroms_are_refused():
    with pytest.raises(SpectrumReadError, match="400 to 500 without a unit are not plausible wavelengths"):
        read(table({"WAVE": [400.0, 500.0], "FLUX": [1.0, 2.0]}))


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ({"CRVAL1": 4000.0, "CDELT1": 2.0}, [4000.0, 4002.0]),
        ({"CRVAL1": 4000.0, "CD1_1": 2.0}, [4000.0, 4002.0]),
        ({"CRVAL1": 4000.0, "CDELT1": 2.0, "CRPIX1": 11.0}, [3980.0, 3982.0]),
        ({"CRVAL1": 400.0, "CDELT1": 0.2, "CUNIT1": "nm"}, [4000.0, 4002.0]),
        ({"CRVAL1": 4e-7, "CDELT1": 2e-10, "CUNIT1": "m"}, [4000.0, 4002.0]),
        ({"CRVAL1": 3.6, "CDELT1": 1e-4, "DC__FLAG": 1}, [10**3.6, 10**3.6001]),
        ({"COEFF0": 3.6, "COEFF1": 1e-4}, [10**3.6, 10**3.6001]),
    ],
)
def test_an_image_scale_gives_angstroms(cards, expected):
    spectrum = only(make.image(20, **cards))
    np.testing.assert_allclose(spectrum.wavelength[:2], expected, rtol=1e-12)
    assert (spectrum.layout, spectrum.n_pix, spectrum.flux[0]) == ("image-1d", 20, 1.0)


@pytest.mark.parametrize(
    ("cards", "medium"),
    [
        ({"CTYPE1": "AWAV"}, "air"),
        ({"CTYPE1": "WAVE"}, "vacuum"),
        ({"CTYPE1": "LINEAR"}, "unknown"),
        ({"VACUUM": True}, "vacuum"),
        ({"TPLLIB": "MILES"}, "air"),
        ({"STARIDEN": "HD1", "SPECTYPE": "M2III", "ISEXTINC": 0.7}, "air"),
    ],
)
def test_the_medium_of_an_image_is_what_its_header_states(cards, medium):
    assert only(make.image(20, CRVAL1=4000.0, CDELT1=2.0, **cards)).medium == medium


def test_a_named_error_image_is_used():
    error = fits.ImageHDU(np.full(20, 0.5), name="SIGMA")
    assert only(make.image(20, error, CRVAL1=4000.0, CDELT1=2.0)).ivar[0] == 4.0


def test_coordinates_of_another_equinox_are_not_used():
    cards = {"CRVAL1": 4000.0, "CDELT1": 2.0, "RA": "12:00:00", "DEC": "-12:30:00"}
    assert (only(make.image(20, **cards)).ra, only(make.image(20, **cards)).dec) == (180.0, -12.5)
    assert only(make.image(20, EQUINOX=1950.0, **cards)).ra is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (make.as_bytes(fits.PrimaryHDU(), fits.ImageHDU(np.ones((3, 9)), name="BOSS/APO")), "no known layout"),
        (
            make.as_bytes(make.with_cards(fits.PrimaryHDU(np.ones((3, 9))), {"RRTYPE": "STAR"})),
            "templates without a wavelength scale",
        ),
        (
            make.as_bytes(make.with_cards(fits.PrimaryHDU(np.ones((9, 9))), {"COEFF0": 3.5, "COEFF1": 1e-4})),
            "image of 9 rows",
        ),
        (make.as_bytes(fits.PrimaryHDU(np.ones((4, 9)))), "image of 4 rows"),
        (make.as_bytes(fits.PrimaryHDU(np.ones((2, 4, 9)))), "no known layout .*HDU 0 PRIMARY: 2x4x9"),
        (make.as_bytes(fits.PrimaryHDU()), "no known layout"),
    ],
)
def test_known_layouts_that_are_no_single_spectrum_are_refused_by_name(data, reason):
    with pytest.raises(SpectrumReadError, match=reason):
        read(data, name="a.fits")
