"""SDSS before and after the spec files: spSpec and spPlate (SDSS-I/II), spec of SDSS-V, mwmVisit and mwmStar."""

from __future__ import annotations

import numpy as np
import pytest
import spectrum_files as make

from specvet.spectra import SpectrumReadError, read


def only(data):
    (spectrum,) = read(data, name="test.fits")
    return spectrum


def test_spspec_is_log10_angstrom_although_its_wcs_says_linear_and_row_3_is_sigma():
    sigma = np.full(60, 0.5)
    sigma[4:6] = 0.0
    spectrum = only(make.spspec(sigma=sigma))
    assert spectrum.layout == "sdss-spspec"
    np.testing.assert_allclose(spectrum.wavelength, 10.0 ** (3.5796 + 1e-4 * np.arange(60)), rtol=1e-12)
    np.testing.assert_array_equal(spectrum.flux, np.arange(1.0, 61))
    np.testing.assert_array_equal(spectrum.ivar[3:7], [4.0, 0.0, 0.0, 4.0])
    assert spectrum.mask.tolist()[1:4] == [0, 2**24, 0]
    assert (spectrum.medium, spectrum.frame, spectrum.survey) == ("vacuum", "heliocentric", "SDSS")


def test_spspec_position_is_the_objects_and_the_identity_that_of_the_spec_files():
    spectrum = only(make.spspec())
    assert (spectrum.ra, spectrum.dec) == (149.46417, 10.976277)
    assert spectrum.id == "1307-52999-0323"
    assert (spectrum.redshift.value, spectrum.redshift.source) == (0.0410313, "header Z")
    assert spectrum.pipeline_class == "GALAXY"
    assert spectrum.flux_unit == "1E-17 erg/cm^2/s/Ang"
    assert spectrum.warnings == ()


@pytest.mark.parametrize(
    ("cards", "warning"),
    [
        ({"Z_WARNIN": 8}, "Z_WARNIN=8"),
        ({"Z_STATUS": 1}, "Z_STATUS=1"),
        ({"Z_STATUS": 0, "Z_WARNIN": 2}, "Z_STATUS=0, Z_WARNIN=2"),
    ],
)
def test_a_redshift_that_spspec_doubts_is_doubted(cards, warning):
    assert only(make.spspec(**cards)).redshift.warning == warning


@pytest.mark.parametrize(("code", "name"), [(0, "UNKNOWN"), (1, "STAR"), (3, "QSO"), (6, "STAR")])
def test_the_class_codes_of_spspec_are_words(code, name):
    assert only(make.spspec(SPEC_CLN=code)).pipeline_class == name


def test_spspec_of_the_first_releases_has_four_rows():
    spectrum = only(make.spspec(rows=4))
    assert (spectrum.ivar[0], spectrum.mask[2]) == (4.0, 2**24)


def test_a_spspec_header_without_its_grid_is_refused():
    with pytest.raises(SpectrumReadError, match="COEFF0 or COEFF1 is no number"):
        read(make.spspec(COEFF1="none"))


def test_a_plate_gives_one_entry_a_fibre_with_its_own_position():
    found = read(make.spplate(["GALAXY", "SKY", "QSO"]))
    assert [(s.row, s.id) for s in found] == [
        (0, "0266-51602-0001"),
        (1, "0266-51602-0002"),
        (2, "0266-51602-0003"),
    ]
    assert [s.flux[0] for s in found] == [1.0, 2.0, 3.0]
    assert [(s.ra, s.dec) for s in found] == [(10.0, -1.0), (11.0, -2.0), (12.0, -3.0)]
    assert [s.ivar[0] for s in found] == [4.0] * 3
    assert found[0].mask[0] == 8
    assert "not a target (OBJTYPE SKY)" in found[1].warnings
    np.testing.assert_allclose(found[2].wavelength, 10.0 ** (3.58 + 1e-4 * np.arange(40)))


def test_a_spec_file_of_sdss_v_needs_no_fibre_and_no_bunit():
    target = {"FIELD": 15000, "MJD": 59146, "CATALOGID": 4375786564, "SDSS_ID": 7, "CLASS": "STAR", "Z": 1e-4}
    target |= {"Z_ERR": 1e-5, "ZWARNING": 0, "RACAT": 12.5, "DECCAT": -1.5, "RUN2D": "v6_1_3"}
    spectrum = only(make.sdss(upper=True, target=target, FIBERID=None, PLATEID=None, VERS2D="v6_1_3"))
    assert spectrum.id == "15000-59146-4375786564"
    assert (spectrum.ra, spectrum.dec, spectrum.ids["sdss_id"]) == (12.5, -1.5, "7")
    assert (spectrum.flux_unit, spectrum.reduction) == ("1E-17 erg/cm^2/s/Ang", "v6_1_3")
    assert (spectrum.redshift.value, spectrum.redshift.source) == (1e-4, "SPECOBJ Z")


def test_mwmvisit_gives_one_entry_a_visit_and_says_which_hdus_are_empty():
    found = read(make.mwm({"BOSS/APO": 2}, in_stack=[True, False]))
    assert [(s.row, s.mjd, s.layout) for s in found] == [
        (0, 59600.0, "sdss-mwm-visit"),
        (1, 59601.0, "sdss-mwm-visit"),
    ]
    first, second = found
    assert first.warnings[0] == "read from HDU 1 BOSS/APO; empty: BOSS/LCO, APOGEE/APO, APOGEE/LCO"
    np.testing.assert_allclose(first.wavelength, 10.0 ** (3.5523 + 1e-4 * np.arange(50)), rtol=1e-12)
    np.testing.assert_array_equal(second.flux, 2.0)
    np.testing.assert_array_equal(first.ivar, 4.0)
    assert first.mask[0] == 2**40
    assert (first.medium, first.id, first.ids["catalogid"]) == ("vacuum", "54392544", "4375786564")
    assert (first.ra, first.dec) == (120.5, -3.25)


def test_only_visits_that_went_into_the_coadd_are_at_rest_and_no_redshift_is_stated_twice():
    moved, kept = read(make.mwm({"BOSS/APO": 2}, in_stack=[True, False]))
    assert (moved.frame, kept.frame) == ("rest", "heliocentric")
    assert "moved to rest by the survey's radial velocity, 20.0 km/s" in moved.warnings
    assert "not in the coadd, not moved to rest" in kept.warnings
    assert moved.redshift.value is None


def test_mwmstar_reads_both_instruments_on_their_own_grids():
    boss, apogee = read(make.mwm({"BOSS/LCO": 1, "APOGEE/APO": 1}, star=True))
    assert [s.layout for s in (boss, apogee)] == ["sdss-mwm-star"] * 2
    assert (boss.ids["arm"], apogee.ids["arm"]) == ("BOSS/LCO", "APOGEE/APO")
    assert boss.mjd == 59601.0
    np.testing.assert_allclose(apogee.wavelength, 10.0 ** (4.179 + 6e-6 * np.arange(50)), rtol=1e-12)
    assert [j.label for j in apogee.joins] == []
    assert (boss.resolution, apogee.resolution) == (2000.0, 22_500.0)


def test_an_mwm_file_without_rows_is_refused():
    with pytest.raises(SpectrumReadError, match=r"tables hold no rows .BOSS/APO, BOSS/LCO, APOGEE/APO, APOGEE/LCO."):
        read(make.mwm({}))
