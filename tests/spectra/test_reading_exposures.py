"""`exposures`: single exposures with their arm, number and time, and the spectrum they belong to."""

from __future__ import annotations

import io

import numpy as np
import pytest
import spectrum_files as make
from astropy.io import fits

import specvet
from specvet.spectra import SpectrumReadError, exposures, read


def full_sdss(names: list[str], tai: float | None = 4524535542.0) -> bytes:
    with fits.open(io.BytesIO(make.sdss(target=make.SPECOBJ))) as hdus:
        parts = [hdu.copy() for hdu in hdus]
    for i, name in enumerate(names):
        columns = [
            fits.Column("flux", "E", array=np.full(20, i + 1.0)),
            fits.Column("loglam", "E", array=3.6 + 1e-4 * np.arange(20)),
            fits.Column("ivar", "E", array=np.full(20, 4.0)),
            fits.Column("mask", "J", array=np.full(20, 2)),
        ]
        hdu = fits.BinTableHDU.from_columns(columns, name=name)
        parts.append(make.with_cards(hdu, {"TAI-BEG": tai}))
    return make.as_bytes(*parts)


def test_sdss_cameras_and_exposure_numbers_come_from_the_hdus_names():
    data = full_sdss(["B1-00014178-00014176-00014177", "R1-00014178-00014176-00014177"])
    blue, red = exposures(data, name="full.fits")
    assert [(s.ids["arm"], s.ids["exposure"], s.flux[0]) for s in (blue, red)] == [
        ("b1", "00014178", 1.0),
        ("r1", "00014178", 2.0),
    ]
    # 4524535542 s after MJD 0, less 37 s of leap seconds.
    assert blue.mjd == pytest.approx((4524535542.0 - 37.0) / 86400)
    np.testing.assert_allclose(blue.wavelength, 10.0 ** (3.6 + 1e-4 * np.arange(20)), rtol=1e-6)
    assert (blue.ivar[0], blue.mask[0], blue.row, blue.file) == (4.0, 2, 0, "full.fits")


def test_exposures_of_sdss_v_have_both_cameras_and_the_join_between_them():
    """idlspec2d names them `MJD_EXP_` and configuration, hyphen, number."""
    with fits.open(io.BytesIO(full_sdss(["MJD_EXP_05123-00", "MJD_EXP_05123-01"]))) as hdus:
        for hdu in hdus[3:]:
            hdu.data["loglam"] = 3.765 + 5e-4 * np.arange(20)
        first, second = exposures(hdus)
    assert [(s.ids["arm"], s.ids["exposure"]) for s in (first, second)] == [("b+r", "05123-00"), ("b+r", "05123-01")]
    assert [j.label for j in first.joins] == ["SDSS blue/red"]


def test_an_exposure_shares_identity_position_and_redshift_with_its_spectrum():
    data = full_sdss(["B1-00014178-00014176-00014177"])
    (spectrum,) = read(data)
    (one,) = exposures(data)
    assert spectrum.n_exposures == 1
    assert one.n_exposures == 0
    for name in ("id", "ra", "dec", "redshift", "pipeline_class", "medium", "frame", "flux_unit", "survey", "layout"):
        assert getattr(one, name) == getattr(spectrum, name), name


def test_an_exposure_without_a_time_has_none():
    assert exposures(full_sdss(["B1-00014178-00014176-00014177"], tai=None))[0].mjd is None


def test_a_dead_exposure_stays_in_its_place():
    data = full_sdss(["B1-00000001-00000002-00000003"] * 2)
    with fits.open(io.BytesIO(data)) as hdus:
        hdus[3].data["flux"] = np.nan
        dead, alive = exposures(hdus)
    assert "no flux value is finite" in dead.warnings
    assert alive.good.all()


@pytest.mark.parametrize("old", [True, False])
def test_lamost_exposures_are_read_with_and_without_coadds(old):
    blue, red = np.linspace(5000.0, 5300.0, 31), np.linspace(6300.0, 6800.0, 51)
    primary = make.with_cards(fits.PrimaryHDU(), make.LAMOST_CARDS)
    coadds = [make.mrs_table("COADD_B", blue, old=old), make.mrs_table("COADD_R", red, old=old)]
    singles = [make.mrs_table("B-84420148", blue[::-1], old=old), make.mrs_table("R-84420148", red, old=old)]
    for parts in ([primary, *coadds, *singles], [primary, *singles]):
        found = exposures(make.as_bytes(*parts))
        assert [(s.ids["arm"], s.ids["exposure"], s.n_pix) for s in found] == [
            ("B", "84420148", 31),
            ("R", "84420148", 51),
        ]
        assert found[0].mjd == pytest.approx(84420148 / 1440 - 1 / 3)
        np.testing.assert_allclose(found[0].wavelength, blue)
        assert (found[0].survey, found[0].resolution, found[0].id) == ("LAMOST", 7500.0, "101001")


def test_rows_of_desi_spectra_name_the_arms_they_have():
    with fits.open(io.BytesIO(make.desi([7, 8], arms="BZ"))) as hdus:
        hdus["FIBERMAP"].columns.del_col("COADD_FIBERSTATUS")
        found = exposures(hdus)
    assert [(s.ids["arm"], s.ids["exposure"], s.row) for s in found] == [("b+z", "row 0", 0), ("b+z", "row 1", 1)]


def test_visits_of_mwm_files_are_exposures_and_stars_have_none():
    visits = exposures(make.mwm({"BOSS/APO": 2, "APOGEE/APO": 1}))
    assert [(s.ids["exposure"], s.ids["arm"], s.row) for s in visits] == [
        ("MJD 59600", "BOSS/APO", 0),
        ("MJD 59601", "BOSS/APO", 1),
        ("MJD 59600", "APOGEE/APO", 2),
    ]
    assert exposures(make.mwm({"BOSS/APO": 1}, star=True)) == []


@pytest.mark.parametrize(
    "data",
    [
        make.lamost_image(),
        make.sdss(target=make.SPECOBJ),
        make.desi([1, 2]),
        make.image(20, CRVAL1=4000.0, CDELT1=2.0),
        b"4000 1\n4001 2\n",
    ],
)
def test_a_file_of_coadds_only_has_no_exposures(data):
    assert exposures(data) == []


def test_trouble_is_the_same_as_with_read(tmp_path):
    with pytest.raises(SpectrumReadError, match="no such file"):
        exposures(tmp_path / "gone.fits")
    data = full_sdss(["B1-00014178-00014176-00014177"])
    with pytest.raises(SpectrumReadError, match="truncated"):
        exposures(data[:-2880])
    assert specvet.exposures is exposures
