"""LAMOST, SDSS and DESI layouts, built small with values that can be stated exactly."""

from __future__ import annotations

import io

import numpy as np
import pytest
import spectrum_files as make
from astropy.io import fits

from specvet.spectra import Join, SpectrumReadError, read


def only(data):
    (spectrum,) = read(data, name="test.fits")
    return spectrum


# LAMOST


def test_a_lamost_image_gives_flux_ivar_wavelength_and_the_and_mask():
    spectrum = only(make.lamost_image())
    np.testing.assert_array_equal(spectrum.flux, np.arange(1.0, 51))
    np.testing.assert_array_equal(spectrum.ivar, np.full(50, 4.0))
    np.testing.assert_allclose(spectrum.wavelength, 10.0 ** (3.5682 + 1e-4 * np.arange(50)), rtol=1e-7)
    assert spectrum.mask[3] == 5
    assert spectrum.good.all()
    assert spectrum.id == "101001"
    assert spectrum.ids["designation"] == "LAMOST J220848.54-020324.3"
    assert (spectrum.mjd, spectrum.ra, spectrum.dec, spectrum.resolution) == (55858.0, 332.2, -2.05, 1800.0)
    assert spectrum.file == "test.fits"


def test_a_lamost_image_without_wavelength_row_is_rebuilt_from_coeff0_and_coeff1():
    spectrum = only(make.lamost_image(make.lamost_rows(third=np.linspace(0.2, 1.3, 50)), COEFF0=3.6, COEFF1=0.0002))
    np.testing.assert_allclose(spectrum.wavelength, 10.0 ** (3.6 + 2e-4 * np.arange(50)), rtol=1e-15)
    assert "no wavelength row: grid computed from COEFF0 and COEFF1" in spectrum.warnings


def test_a_lamost_image_with_neither_wavelength_row_nor_coefficients_is_refused():
    rows = make.lamost_rows(third=np.ones(50))
    with pytest.raises(SpectrumReadError, match="no wavelength and the header has no COEFF0/COEFF1"):
        read(make.lamost_image(rows, COEFF0="", COEFF1=""))


def test_a_lamost_image_of_three_rows_is_refused_with_a_question():
    with pytest.raises(SpectrumReadError, match=r"HDU 0 has 3 rows, 5 expected.*medium-resolution"):
        read(make.lamost_image(make.lamost_rows()[:3]), name="a.fits")


def test_a_lamost_table_reads_like_the_image():
    image, table = only(make.lamost_image()), only(make.lamost_table())
    assert table.layout == "lamost-lrs-table"
    for name in ("wavelength", "flux", "ivar", "mask"):
        np.testing.assert_array_equal(getattr(table, name), getattr(image, name))
    assert table.redshift == image.redshift


@pytest.mark.parametrize("column", ["FLUX", "IVAR", "WAVELENGTH"])
def test_a_lamost_table_without_a_needed_column_is_refused_by_its_name(column):
    with pytest.raises(SpectrumReadError, match=f"(?i)no (column )?{column}"):
        read(make.lamost_table(drop=column))


def test_a_redshift_of_minus_9999_is_none():
    spectrum = only(make.lamost_image(Z=-9999.0, Z_ERR=-9999.0))
    assert (spectrum.redshift.value, spectrum.redshift.error, spectrum.redshift.source) == (None, None, "")


def test_class_unknown_has_no_redshift_whatever_the_card_says():
    spectrum = only(make.lamost_image(CLASS="Unknown", SUBCLASS="Non", Z=0.1))
    assert spectrum.redshift.value is None
    assert spectrum.redshift.warning == "class Unknown"
    assert (spectrum.pipeline_class, spectrum.pipeline_subclass) == ("Unknown", "")


def test_the_redshift_may_be_spelled_redshift():
    with fits.open(io.BytesIO(make.lamost_image())) as hdus:
        del hdus[0].header["Z"]
        hdus[0].header["REDSHIFT"] = 0.002
        assert only(hdus).redshift.source == "header REDSHIFT"
        assert only(hdus).redshift.value == 0.002


def test_dead_pixels_keep_ivar_0_and_negative_or_infinite_ivar_becomes_0():
    rows = make.lamost_rows()
    rows[1, 4:8] = [-0.0, np.inf, np.nan, 0.0]
    rows[0, 9] = np.nan
    spectrum = only(make.lamost_image(rows, dtype=">f8"))
    np.testing.assert_array_equal(spectrum.ivar[[4, 5, 6, 7, 9]], 0.0)
    assert spectrum.good.sum() == 45
    assert spectrum.n_pix == 50


def test_mask_bits_never_make_a_pixel_bad():
    rows = make.lamost_rows()
    rows[3:] = 255
    spectrum = only(make.lamost_image(rows))
    assert spectrum.good.all()
    assert set(spectrum.mask) == {255}


def test_five_templates_in_an_image_are_not_taken_for_lamost():
    rows = np.random.default_rng(1).normal(1.0, 0.3, (5, 40))
    with pytest.raises(SpectrumReadError, match="image of 5 rows"):
        read(make.as_bytes(make.with_cards(fits.PrimaryHDU(rows), {"COEFF0": 3.5, "COEFF1": 1e-4})))


@pytest.mark.parametrize("old", [True, False])
def test_both_layouts_of_medium_resolution_are_sorted_and_joined(old):
    blue, red = np.linspace(5000.0, 5300.0, 31), np.linspace(6300.0, 6800.0, 51)
    hdus = [make.with_cards(fits.PrimaryHDU(), make.LAMOST_CARDS)]
    shuffled = blue[::-1] if old else blue
    hdus += [make.mrs_table("COADD_B", shuffled, old=old), make.mrs_table("COADD_R", red, old=old)]
    hdus.append(make.mrs_table("B-84420148", blue, old=old))
    spectrum = only(make.as_bytes(*hdus))
    assert spectrum.layout == "lamost-mrs"
    np.testing.assert_allclose(spectrum.wavelength, np.concatenate([blue, red]))
    np.testing.assert_array_equal(spectrum.flux[:31], np.arange(31.0)[::-1] if old else np.arange(31.0))
    assert spectrum.joins == (Join(pytest.approx(5300.0), pytest.approx(6300.0), "LAMOST MRS blue/red"),)
    assert spectrum.n_exposures == 1


def test_a_missing_arm_of_medium_resolution_is_said():
    primary = make.with_cards(fits.PrimaryHDU(), make.LAMOST_CARDS)
    spectrum = only(make.as_bytes(primary, make.mrs_table("COADD_R", np.linspace(6300.0, 6800.0, 51), old=False)))
    assert "arm B missing" in spectrum.warnings
    assert spectrum.joins == ()


def test_medium_resolution_without_coadds_points_to_its_exposures():
    primary = make.with_cards(fits.PrimaryHDU(), make.LAMOST_CARDS)
    with pytest.raises(
        SpectrumReadError, match=r"1 single exposures and no COADD_B or COADD_R; read them with specvet.exposures"
    ):
        read(make.as_bytes(primary, make.mrs_table("B-1", np.linspace(5000.0, 5300.0, 9), old=True)))


# SDSS


@pytest.mark.parametrize("upper", [True, False])
def test_sdss_columns_may_be_upper_or_lower_case(upper):
    target = {(k if upper else k.lower()): v for k, v in make.SPECOBJ.items()}
    spectrum = only(make.sdss(upper=upper, target=target))
    np.testing.assert_allclose(spectrum.wavelength, 10.0 ** (3.58 + 1e-4 * np.arange(50)), rtol=1e-6)
    np.testing.assert_array_equal(spectrum.mask, np.arange(50))
    assert spectrum.id == "0266-51602-0013"
    assert spectrum.ids["specobjid"] == "299492975510054912"
    assert (spectrum.redshift.value, spectrum.redshift.error) == (-0.00004, 0.0001)
    assert spectrum.redshift.warning == "ZWARNING=4"
    assert (spectrum.ra, spectrum.dec) == (146.9341, -0.6704)
    assert (spectrum.medium, spectrum.frame, spectrum.survey) == ("vacuum", "heliocentric", "SDSS")


def test_sdss_without_target_table_keeps_the_spectrum_and_says_so():
    spectrum = only(make.sdss())
    assert spectrum.redshift.value is None
    assert "no SPECOBJ or SPALL table: redshift and class unknown" in spectrum.warnings
    assert spectrum.id == "0266-51602-0013"
    assert spectrum.ra is None  # RA of the header is the telescope's


def test_an_unsigned_64_bit_specobjid_stays_exact():
    big = np.uint64(2**63 + 12345)
    spectrum = only(make.sdss(target=make.SPECOBJ | {"SPECOBJID": big}))
    assert spectrum.ids["specobjid"] == str(2**63 + 12345)


def test_sdss_v_files_without_fibre_are_named_by_field_mjd_and_catalogid():
    target = {"FIELD": 15000, "MJD": 59146, "CATALOGID": 4375786564, "CLASS": "STAR", "Z": 0.0}
    spectrum = only(make.sdss(target=target, FIBERID=None, PLATEID=None))
    assert spectrum.id == "15000-59146-4375786564"
    assert spectrum.redshift.value == 0.0


@pytest.mark.parametrize("column", ["flux", "ivar"])
def test_sdss_without_a_needed_column_is_refused_by_its_name(column):
    with pytest.raises(SpectrumReadError, match=f"no (column )?{column}"):
        read(make.sdss(drop=column))


# DESI


def test_desi_arms_are_joined_by_inverse_variance_with_exact_values():
    spectrum = only(make.desi([39627866878511337]))
    np.testing.assert_allclose(spectrum.wavelength, 4100.0 + 0.8 * np.arange(27))
    # B and R share 3 pixels, R and Z share 3.
    flux = [1.0] * 8 + [(1 * 1 + 3 * 3) / 4] * 3 + [3.0] * 5 + [(3 * 3 + 5 * 5) / 8] * 3 + [5.0] * 8
    ivar = [1.0] * 8 + [4.0] * 3 + [3.0] * 5 + [8.0] * 3 + [5.0] * 8
    np.testing.assert_allclose(spectrum.flux, flux)
    np.testing.assert_allclose(spectrum.ivar, ivar)
    np.testing.assert_array_equal(spectrum.mask, [1] * 8 + [3] * 8 + [7] * 3 + [5] * 8)
    assert [(round(j.low, 1), round(j.high, 1), j.label) for j in spectrum.joins] == [
        (4106.4, 4108.0, "DESI b/r"),
        (4112.8, 4114.4, "DESI r/z"),
    ]
    assert spectrum.id == "39627866878511337"
    assert (spectrum.ra, spectrum.dec, spectrum.frame) == (10.0, -5.0, "barycentric")


def test_in_an_overlap_a_bad_pixel_of_one_arm_leaves_the_other():
    ivar = np.ones((1, 11))
    ivar[0, 9] = 0.0
    flux = np.ones((1, 11))
    flux[0, 10] = np.nan
    spectrum = only(make.desi([1], B_IVAR=ivar, B_FLUX=flux))
    np.testing.assert_allclose(spectrum.flux[8:11], [2.5, 3.0, 3.0])
    np.testing.assert_allclose(spectrum.ivar[8:11], [4.0, 3.0, 3.0])


def test_in_an_overlap_without_any_good_pixel_the_plain_mean_has_ivar_0():
    zero = np.zeros((1, 11))
    spectrum = only(make.desi([1], B_IVAR=zero, R_IVAR=zero))
    np.testing.assert_allclose(spectrum.flux[8:11], 2.0)
    np.testing.assert_array_equal(spectrum.ivar[8:11], 0.0)


def test_arms_on_different_grids_are_interpolated_and_it_is_said():
    spectrum = only(make.desi([1], shift_r=0.4))
    assert "arms B and R have different pixels in their overlap: interpolated" in spectrum.warnings
    assert bool(np.all(np.diff(spectrum.wavelength) > 0))
    # R begins at 4106.8, so 4106.4 is B's alone; the next two are the weighted mean.
    np.testing.assert_allclose(spectrum.flux[8:11], [1.0, 2.5, 2.5])
    np.testing.assert_allclose(spectrum.ivar[8:11], [1.0, 4.0, 4.0])


@pytest.mark.parametrize(("arms", "missing"), [("BR", "Z"), ("BZ", "R"), ("RZ", "B")])
def test_a_missing_desi_arm_is_said_and_the_others_are_read(arms, missing):
    spectrum = only(make.desi([1], arms=arms))
    assert f"arm {missing} missing" in spectrum.warnings
    assert [j.label for j in spectrum.joins] == [f"DESI {arms[0]}/{arms[1]}".lower().replace("desi", "DESI")]


def test_a_gap_between_arms_is_a_join():
    spectrum = only(make.desi([1], arms="BZ"))
    assert (round(spectrum.joins[0].low, 1), round(spectrum.joins[0].high, 1)) == (4108.0, 4112.8)
    assert spectrum.n_pix == 22


def test_repeated_targetids_stay_entries_of_their_own():
    found = read(make.desi([7, 7, 8]))
    assert [(s.id, s.row) for s in found] == [("7", 0), ("7", 1), ("8", 2)]
    assert [s.ra for s in found] == [10.0, 11.0, 12.0]


def test_a_dead_row_stays_in_its_place_with_a_warning():
    flux = np.ones((2, 11))
    flux[0] = np.nan
    dead, alive = read(make.desi([1, 2], arms="B", B_FLUX=flux))
    assert "no flux value is finite" in dead.warnings
    assert alive.row == 1
    assert "no flux value is finite" not in alive.warnings


def test_redshifts_inside_the_file_are_joined_by_targetid_not_by_position():
    table = make.redrock([(8, 0.2, 4, "GALAXY"), (7, 0.1, 0, "STAR")])
    first, second = read(make.desi([7, 8], redshifts=table))
    assert (first.redshift.value, first.redshift.warning, first.pipeline_class) == (0.1, "", "STAR")
    assert (second.redshift.value, second.redshift.warning, second.pipeline_class) == (0.2, "ZWARN=4", "GALAXY")
    assert second.redshift.source == "redrock Z"
    assert second.pipeline_subclass == "M"


def test_two_redshifts_for_one_targetid_are_no_redshift():
    spectrum = only(make.desi([7], redshifts=make.redrock([(7, 0.2, 0, "GALAXY"), (7, 0.1, 0, "STAR")])))
    assert spectrum.redshift.value is None
    assert spectrum.redshift.warning == "two redrock redshifts for one TARGETID"


def test_the_redrock_catalogue_beside_the_file_is_found_by_structure(tmp_path):
    (tmp_path / "target.fits").write_bytes(make.desi([7, -3], ["TGT", "SKY"]))
    (tmp_path / "redrock-empty.fits").write_bytes(b"not a FITS file")
    (tmp_path / "notes").write_bytes(make.as_bytes(fits.PrimaryHDU(), make.redrock([(7, 0.5, 0, "QSO")])))
    target, sky = read(tmp_path / "target.fits")
    assert (target.redshift.value, target.pipeline_class) == (0.5, "QSO")
    assert sky.redshift.value is None
    assert sky.warnings == ("not a target (OBJTYPE SKY)",)


def test_a_changed_redrock_catalogue_is_read_again(tmp_path):
    (tmp_path / "coadd-1.fits").write_bytes(make.desi([7]))
    catalogue = tmp_path / "redrock-1.fits"
    catalogue.write_bytes(make.as_bytes(fits.PrimaryHDU(), make.redrock([(7, 0.5, 0, "QSO")])))
    assert read(tmp_path / "coadd-1.fits")[0].redshift.value == 0.5
    rows = [(7, 0.75, 0, "QSO")] + [(i, 0.0, 0, "STAR") for i in range(100, 150)]
    catalogue.write_bytes(make.as_bytes(fits.PrimaryHDU(), make.redrock(rows)))
    assert read(tmp_path / "coadd-1.fits")[0].redshift.value == 0.75


def test_a_huge_folder_is_searched_only_so_far_and_it_is_said(tmp_path):
    (tmp_path / "coadd-1.fits").write_bytes(make.desi([7]))
    for number in range(40):
        (tmp_path / f"a{number:02d}.fits").write_bytes(make.lamost_image())
    warnings = read(tmp_path / "coadd-1.fits")[0].warnings
    assert any("looked into 24 of 40 files" in w for w in warnings)


def test_the_names_of_a_folder_are_sorted_once_however_many_of_its_files_are_read(tmp_path, monkeypatch):
    from specvet.spectra.readers import redrock

    names = ["coadd-1.fits", "coadd-2.fits", "redrock-2.fits", "a-redrock.txt", "zbest-1.fits", "b.fit", "notes"]
    for name in names:
        (tmp_path / name).write_bytes(make.desi([7]) if name.startswith("coadd") else b"nothing")
    ranked = []
    kind = redrock._kind
    monkeypatch.setattr(redrock, "_kind", lambda name: ranked.append(name) or kind(name))
    for name in ("coadd-1.fits", "coadd-2.fits", "coadd-1.fits"):
        read(tmp_path / name)
    assert sorted(ranked) == sorted(names)
    folder = redrock._names(str(tmp_path), tmp_path.stat().st_mtime_ns)
    assert [name for _, name in redrock._in_order(folder, "coadd-2.fits")] == [
        "redrock-2.fits", "a-redrock.txt", "zbest-1.fits", "b.fit", "coadd-1.fits", "notes"
    ]  # fmt: skip
    assert next(redrock._in_order(folder, "coadd-2.fits"))[0] == 0
    assert next(redrock._in_order(folder, "coadd-1.fits"))[0] == 1


def test_desi_without_fibermap_has_spectra_without_identity():
    with fits.open(io.BytesIO(make.desi([7]))) as hdus:
        del hdus["FIBERMAP"]
        spectrum = only(hdus)
    assert (spectrum.id, spectrum.ids) == ("", {})
    assert any("no FIBERMAP" in w for w in spectrum.warnings)


def test_a_desi_file_cut_off_between_arms_is_truncated_not_a_file_with_an_arm_missing():
    data = make.desi([7])
    data_of_z = (data.index(b"Z_FLUX") // 2880 + 1) * 2880
    with pytest.raises(SpectrumReadError, match="truncated"):
        read(data[: data_of_z + 40])
    # Only the padding is gone: what is there is whole, but it is said.
    (spectrum,) = read(data[: data_of_z + 44 * 11])
    assert "the file is no whole number of FITS blocks: it may be cut off" in spectrum.warnings


def test_a_redrock_catalogue_alone_asks_for_the_coadd_file():
    with pytest.raises(SpectrumReadError, match="a DESI redrock catalogue, not spectra: give the coadd file beside it"):
        read(make.as_bytes(fits.PrimaryHDU(), make.redrock([(7, 0.1, 0, "STAR")])))


def test_desi_masks_may_be_compressed_images() -> None:
    """A compressed image states its unpacked size, which is no sign that the file was cut off."""
    plain = make.desi([5, 6])
    with fits.open(io.BytesIO(plain)) as hdus:
        packed = fits.HDUList()
        for hdu in hdus:
            if hdu.name.endswith("_MASK"):
                big = np.zeros((2, 11), dtype=np.int32)
                big[:, 3] = 4
                packed.append(fits.CompImageHDU(big, name=hdu.name))
            else:
                packed.append(hdu.copy())
        buffer = io.BytesIO()
        packed.writeto(buffer)
    found = read(buffer.getvalue())
    assert [s.ids["targetid"] for s in found] == ["5", "6"]
    assert found[0].mask is not None
    assert found[0].mask[3] == 4
    assert found[0].mask[0] == 0
