"""To specutils and back, and our readers against its loaders where it has the format."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import spectrum_files as make
from astropy import units as u
from astropy.io import fits
from astropy.nddata import InverseVariance, StdDevUncertainty, VarianceUncertainty

from specvet import Spectrum, read
from specvet.spectra import Redshift

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"


@pytest.fixture
def specutils():
    return pytest.importorskip("specutils", reason="specutils is not installed (pip install specutils)")


def assert_equal(one: Spectrum, other: Spectrum) -> None:
    for field in dataclasses.fields(Spectrum):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name


@pytest.mark.parametrize(
    "data",
    [
        make.lamost_image(),
        make.sdss(target=make.SPECOBJ),
        make.desi([39627866878511337]),
        make.image(30, CRVAL1=4000.0, CDELT1=2.0, BUNIT="relative flux"),
    ],
    ids=["lamost", "sdss", "desi", "image"],
)
def test_a_round_trip_gives_the_same_spectrum(specutils, data):
    (spectrum,) = read(data, name="a.fits")
    assert_equal(Spectrum.from_specutils(spectrum.to_specutils()), spectrum)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}")
@pytest.mark.parametrize(
    "path",
    [
        "lamost/dr8/spec-55859-F5902_sp03-232.fits.gz",
        "sdss/spec/spec-0332-52367-0639.fits",
        "desi/coadd-4-80613-thru20210324.fits",
        "mastar/mastar_example_spectral_types.fits",
        "templates/stelib/STELIB_v3.2_LTT4364.fits",
        "sdss/cv_ascii/spec-0272-51941-0461-catB.dat",
    ],
)
def test_a_round_trip_of_a_real_file_gives_the_same_spectra(specutils, path):
    for spectrum in read(SHARED / path):
        assert_equal(Spectrum.from_specutils(spectrum.to_specutils()), spectrum)


def test_units_errors_and_the_mask_arrive_as_specutils_means_them(specutils):
    rows = make.lamost_rows()
    rows[1, 7] = 0.0
    (spectrum,) = read(make.lamost_image(rows, BUNIT="1E-17 erg/cm^2/s/Ang"))
    there = spectrum.to_specutils()
    assert there.flux.unit == u.Unit("1e-17 erg / (s cm2 Angstrom)")
    assert there.spectral_axis.unit == u.AA
    assert isinstance(there.uncertainty, InverseVariance)
    assert np.flatnonzero(there.mask).tolist() == [7]  # True: not to be used
    assert there.meta["mask_bits"].tolist() == spectrum.mask.tolist()
    assert there.meta["mask_bits"].dtype == np.int64
    assert (there.meta["medium"], there.meta["ids"]["obsid"]) == ("vacuum", "101001")
    there.flux[:] = 0 * there.flux.unit
    assert spectrum.flux[3] == 4.0  # a copy


def test_a_unit_that_is_not_understood_is_kept_as_written_and_said(specutils):
    spectrum = Spectrum(np.linspace(4000.0, 5000.0, 9), np.ones(9), flux_unit="relative flux")
    there = spectrum.to_specutils()
    assert there.flux.unit == u.dimensionless_unscaled
    assert there.meta["specvet"]["flux_unit"] == "relative flux"
    assert "'relative flux' is not understood" in there.meta["specvet"]["unit_note"]
    assert Spectrum.from_specutils(there).flux_unit == "relative flux"


@pytest.mark.parametrize(
    "uncertainty",
    [InverseVariance(np.full(9, 4.0)), StdDevUncertainty(np.full(9, 0.5)), VarianceUncertainty(np.full(9, 0.25))],
    ids=["ivar", "std", "var"],
)
def test_a_spectrum_made_by_hand_may_have_any_uncertainty(specutils, uncertainty):
    wave = np.linspace(400.0, 500.0, 9)
    mask = np.arange(9) == 2
    there = specutils.Spectrum(flux=np.ones(9) * u.Jy, spectral_axis=wave * u.nm, uncertainty=uncertainty, mask=mask)
    spectrum = Spectrum.from_specutils(there)
    np.testing.assert_allclose(spectrum.wavelength, wave * 10)
    assert spectrum.ivar.tolist() == [4.0, 4.0, 0.0, *[4.0] * 6]
    assert (spectrum.flux_unit, spectrum.mask, spectrum.medium) == ("Jy", None, "unknown")


def test_integer_masks_stay_bits_and_boolean_ones_without_errors_become_nan(specutils):
    wave = np.linspace(4000.0, 5000.0, 9) * u.AA
    bits = specutils.Spectrum(flux=np.ones(9) * u.ct, spectral_axis=wave, mask=np.arange(9, dtype=np.int8))
    assert Spectrum.from_specutils(bits).mask.tolist() == list(range(9))
    flags = specutils.Spectrum(flux=np.ones(9) * u.ct, spectral_axis=wave, mask=np.arange(9) == 4)
    assert np.flatnonzero(~Spectrum.from_specutils(flags).good).tolist() == [4]


def test_big_endian_arrays_and_frequencies_become_native_angstroms(specutils):
    frequency = (np.linspace(4000.0, 5000.0, 9) * u.AA).to(u.Hz, u.spectral())[::-1]
    flux = np.arange(9.0).astype(">f4")
    spectrum = Spectrum.from_specutils(specutils.Spectrum(flux=flux * u.Jy, spectral_axis=frequency))
    np.testing.assert_allclose(spectrum.wavelength, np.linspace(4000.0, 5000.0, 9))
    assert spectrum.flux.tolist() == list(range(8, -1, -1))
    assert spectrum.flux.dtype.isnative


def test_a_conversion_and_a_mask_made_in_specutils_come_back(specutils):
    (spectrum,) = read(make.sdss(target=make.SPECOBJ))
    there = spectrum.to_specutils()
    converted = there.with_flux_unit(u.Unit("erg / (s cm2 Angstrom)"))
    converted.mask = np.arange(50) < 3
    back = Spectrum.from_specutils(converted)
    np.testing.assert_allclose(back.flux, spectrum.flux * 1e-17)
    assert back.flux_unit == "erg / (Angstrom s cm2)"
    assert np.flatnonzero(~back.good).tolist() == [0, 1, 2]
    np.testing.assert_allclose(back.ivar[3:], spectrum.ivar[3:] * 1e34)
    assert back.redshift == spectrum.redshift


def test_several_spectra_in_one_are_refused_and_so_is_anything_else(specutils):
    two = specutils.Spectrum(flux=np.ones((2, 9)) * u.Jy, spectral_axis=np.linspace(4000.0, 5000.0, 9) * u.AA)
    with pytest.raises(TypeError, match="one by one"):
        Spectrum.from_specutils(two)
    with pytest.raises(TypeError, match="not a dict"):
        Spectrum.from_specutils({})


def test_without_specutils_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "specutils", None)
    with pytest.raises(ImportError, match="pip install specutils"):
        Spectrum(np.array([4000.0, 4001.0]), np.ones(2)).to_specutils()


def test_the_position_is_a_skycoord_or_none():
    spectrum = Spectrum(np.array([4000.0, 4001.0]), np.ones(2), ra=146.9341, dec=-0.67)
    assert (spectrum.coord.ra.deg, spectrum.coord.dec.deg, spectrum.coord.frame.name) == (146.9341, -0.67, "icrs")
    assert spectrum.replace(dec=None).coord is None


# Its loaders as oracles


def test_an_spspec_file_agrees_with_specutils_but_for_its_pixel(specutils, tmp_path):
    """specutils 2.4 gives a pixel the wavelength of the next one: it leaves out CRPIX1 = 1.

    The data model and the line table of a real file (Hα of 1307-52999-323 at 6833.80 Å) say COEFF0 for the first pixel.
    """
    path = tmp_path / "spSpec-52999-1307-323.fit"
    sigma = np.linspace(0.2, 0.4, 60)
    path.write_bytes(make.spspec(sigma=sigma))
    theirs = specutils.Spectrum.read(path, format="SDSS-I/II spSpec")
    (ours,) = read(path)
    np.testing.assert_allclose(theirs.flux.value, ours.flux)
    np.testing.assert_allclose(ours.sigma, theirs.uncertainty.array)
    assert theirs.mask.tolist() == (ours.mask != 0).tolist()
    assert ours.wave_min == pytest.approx(10**3.5796, rel=1e-12)
    offset = np.log10(theirs.spectral_axis.to_value(u.AA)) - np.log10(ours.wavelength)
    assert np.all((np.abs(offset) < 1e-9) | (np.abs(offset - 1e-4) < 1e-9))


@pytest.mark.parametrize("star", [True, False])
def test_mwm_files_agree_with_specutils(specutils, star, tmp_path):
    path = tmp_path / "mwm.fits"
    path.write_bytes(make.mwm({"BOSS/APO": 1, "APOGEE/APO": 1}, star=star))
    with warnings.catch_warnings(action="ignore"):
        theirs = specutils.SpectrumList.read(path, format="SDSS-V mwm")
    ours = read(path)
    assert len(theirs) == len(ours) == 2
    for one, other in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(one.spectral_axis.to_value(u.AA), other.wavelength, rtol=1e-9)
        np.testing.assert_allclose(one.flux.value, other.flux)
        np.testing.assert_allclose(one.uncertainty.array, other.ivar)


def test_a_linear_image_agrees_with_specutils(specutils, tmp_path):
    path = tmp_path / "linear.fits"
    path.write_bytes(
        make.image(40, CRVAL1=5000.0, CDELT1=1.5, CRPIX1=3.0, CUNIT1="Angstrom", CTYPE1="WAVE", BUNIT="Jy")
    )
    theirs = specutils.Spectrum.read(path, format="wcs1d-fits")
    (ours,) = read(path)
    np.testing.assert_allclose(theirs.spectral_axis.to_value(u.AA), ours.wavelength, rtol=1e-12)
    np.testing.assert_allclose(theirs.flux.value, ours.flux)


@pytest.mark.parametrize("kind", [1, 2])
def test_iraf_multispec_agrees_with_specutils(specutils, kind, tmp_path):
    path = tmp_path / "echelle.fits"
    spec = "{0} {0} 2 4380. 3.8 64 0. 1. 2. 1. 0. {1} 4 1. 64. 4500. 120. -2. 0.25"
    data = np.arange(1.0, 129.0).reshape(2, 64)
    path.write_bytes(make.multispec([spec.format(1, kind), spec.format(2, kind)], data))
    theirs = specutils.SpectrumCollection.read(path)
    for row, ours in enumerate(read(path)):
        np.testing.assert_allclose(theirs.spectral_axis[row].to_value(u.AA), ours.wavelength, rtol=1e-10)
        np.testing.assert_allclose(theirs.flux[row].value, ours.flux)


def test_sdss_v_spec_files_agree_with_specutils(specutils, tmp_path):
    path = tmp_path / "spec-15000-59146-4375786564.fits"
    target = {"FIELD": 15000, "MJD": 59146, "CATALOGID": 4375786564, "CLASS": "STAR", "Z": 0.0}
    path.write_bytes(
        make.sdss(upper=True, target=target, FIBERID=None, PLATEID=None, TELESCOP="SDSS 2.5-M", VERS2D="v6_1")
    )
    with fits.open(path) as hdus, warnings.catch_warnings(action="ignore"):
        theirs = specutils.Spectrum.read(hdus, format="SDSS-V spec", hdu=1)
        np.testing.assert_allclose(theirs.spectral_axis.to_value(u.AA), read(path)[0].wavelength, rtol=1e-6)
        np.testing.assert_allclose(theirs.flux.value, read(path)[0].flux)


def test_facts_survive_a_trip_through_plain_lists_and_dicts(specutils):
    (spectrum,) = read(make.lamost_image())
    there = spectrum.to_specutils()
    own = there.meta["specvet"]
    own["redshift"] = dataclasses.asdict(own["redshift"])
    own["joins"] = [dataclasses.asdict(j) for j in own["joins"]]
    own["warnings"] = list(own["warnings"])
    back = Spectrum.from_specutils(there)
    assert isinstance(back.redshift, Redshift)
    assert_equal(back, spectrum)
