"""What others have reported of their readers, one test a report; numbers are rows of the project's list of reports.

The first part are reports of what libraries do to units, masks and identifiers, the second those of issue trackers.

Reports about other rooms, and where they belong: 26, 27 and 29 in part (paging, order, retries and moved links: the
download of archives), 32 (NaN in JSON: the server of the review page), 33 (gaps and lone pixels: drawing), 34, 35
(masks, NULLs and non-ASCII in FITS, VOTable and ECSV: tests/records, tests/vetting/test_export*), 36, 38, 40, 41, 44
(one stored redshift, no network, autosave, keys: review page), 45 and 46 in part (reasons for rejecting: review page).
"""

from __future__ import annotations

import io
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spectrum_files as make
from astropy import units as u
from astropy.io import fits

from specvet.spectra import Spectrum, SpectrumReadError, choose_frame, from_record, read
from specvet.spectra.lines import air_to_vacuum, vacuum_to_air
from specvet.spectra.units import flux_unit


def only(data, name="a.fits") -> Spectrum:
    (spectrum,) = read(data, name=name)
    return spectrum


# What today's libraries do


def test_lamost_images_and_tables_are_identified():
    """specutils identifies neither LAMOST layout (`IORegistryError`; `could not identify wavelength column`)."""
    assert only(make.lamost_image()).layout == "lamost-lrs-image"
    assert only(make.lamost_table()).layout == "lamost-lrs-table"


@pytest.mark.parametrize("version", [None, "26", "v5_13_2", "v6_1_3"])
def test_an_sdss_file_is_identified_by_structure_whatever_its_version_card_says(version):
    """specutils wants VERS2D to start with v5 or v6; files without it, or with '26', are not identified."""
    assert only(make.sdss(target=make.SPECOBJ, VERS2D=version)).layout == "sdss-spec"


def test_a_spectrum_whose_every_pixel_is_flagged_is_all_good():
    """specutils masks all 3909 pixels where and_mask is nowhere 0."""
    with fits.open(io.BytesIO(make.sdss(target=make.SPECOBJ))) as hdus:
        hdus[1].data["and_mask"] = 2**23
        spectrum = only(hdus)
    assert spectrum.good.all()
    assert set(spectrum.mask.tolist()) == {2**23}


def test_a_desi_coadd_without_z_says_so():
    """specutils loads two arms of a coadd without Z_* and says nothing."""
    assert "arm Z missing" in only(make.desi([1], arms="BR")).warnings


def test_one_call_reads_one_target_or_many():
    """`Spectrum.read` of specutils fails on a DESI coadd, which only `SpectrumList.read` reads."""
    assert [len(read(data)) for data in (make.desi([1, 2, 3]), make.lamost_image())] == [3, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1E-17 erg/cm^2/s/Ang", 1e-17 * u.erg / u.cm**2 / u.s / u.AA),
        ("10**-17 erg/(s cm2 Angstrom)", 1e-17 * u.erg / u.cm**2 / u.s / u.AA),
        ("Flux (10^-17 erg/s/cm^2/Ang)", 1e-17 * u.erg / u.cm**2 / u.s / u.AA),
        ("10^-17 erg/s/cm^2/A", 1e-17 * u.erg / u.cm**2 / u.s / u.AA),
        ("ergs", u.erg),
        ("ADU", u.adu),
        ("relative flux", None),
    ],
)
def test_unit_strings_of_surveys_are_understood_and_a_is_angstrom(text, expected):
    """astropy refuses `1E-17 erg/cm^2/s/Ang`, `ergs` and `ADU`, and reads the A of `…/cm^2/A` as ampere."""
    found = flux_unit(text)
    assert found is None if expected is None else (1 * found).to_value(expected) == pytest.approx(1.0)


def test_parquet_keeps_nan_whole_identifiers_and_names_that_look_like_numbers():
    """FITS, VOTable and pandas change masks, uint64 and the names 'NA', '007', 'nan'; Parquet does not."""
    table = pa.table(
        {
            "id": ["NA", "007", "nan"],
            "specobjid": pa.array([2**63 + 1, 2, 3], pa.uint64()),
            "wavelength": [[4000.0, 4001.0, 4002.0]] * 3,
            "flux": [[1.0, float("nan"), 3.0]] * 3,
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    found = read(out.getvalue())
    assert [s.ids["id"] for s in found] == ["NA", "007", "nan"]
    assert found[0].ids["specobjid"] == str(2**63 + 1)
    assert np.isnan(found[0].flux[1])


def test_z_of_minus_9999_is_no_redshift_and_leaves_the_wavelengths_in_place():
    """The public tool divides by 1 + z = −9998: every zoom is then refused."""
    spectrum = only(make.lamost_image(Z=-9999.0))
    frame = choose_frame(spectrum)
    assert (spectrum.redshift.value, frame.z, frame.name) == (None, 0.0, "observed")


# What issue trackers say


def test_row_1_new_lamost_files_are_recognised_by_structure():
    """1, CoolStarsCU/PHEW#21: a reader fails on 'new' LAMOST files."""
    image, table = only(make.lamost_image(DATA_V="LAMOST DR9")), only(make.lamost_table(DATA_V="LAMOST DR7"))
    assert (image.layout, table.layout) == ("lamost-lrs-image", "lamost-lrs-table")
    np.testing.assert_array_equal(image.flux, table.flux)


def test_row_2_a_damaged_file_or_an_empty_date_is_the_trouble_of_that_file_only():
    """2, hypergravity/laspec, 2025-03-25 and 2026-03-20: a batch dies on one damaged file or an empty DATE-BEG."""
    outcomes = []
    for data in (
        make.lamost_image(),
        make.lamost_image()[:3300],
        make.lamost_image(**{"DATE-BEG": "", "DATE-END": ""}),
    ):
        try:
            outcomes.append(len(read(data, name="one.fits")))
        except SpectrumReadError as error:
            outcomes.append(str(error).partition(":")[0])
    assert outcomes == [1, "one.fits", 1]


def test_row_3_spspec_is_log10_of_angstrom():
    """3, astropy/specutils#1066: the log grid is taken as linear, in metres."""
    spectrum = only(make.spspec())
    np.testing.assert_allclose(spectrum.wavelength, 10.0 ** (3.5796 + 0.0001 * np.arange(60)), rtol=1e-12)


@pytest.mark.parametrize(
    ("air", "vacuum"),
    # H and K of Ca II, Balmer and Ca II lines as SDSS lists them (classic.sdss.org, from Morton's formula).
    [(3933.68, 3934.79), (4861.363, 4862.721), (6562.79, 6564.603), (8542.09, 8544.44)],
)
def test_row_4_air_and_vacuum_follow_morton(air, vacuum):
    """4, astropy/specutils#1162: the default conversion was off by 0.07 Å."""
    assert air_to_vacuum(air) == pytest.approx(vacuum, abs=0.012)
    assert vacuum_to_air(air_to_vacuum(air)) == pytest.approx(air, abs=1e-7)


def test_row_5_an_mwm_file_with_boss_only_is_read_and_the_hdu_is_named():
    """5, astropy/specutils#1182, #1185: mwmVisit with only BOSS data fails."""
    spectrum = only(make.mwm({"BOSS/LCO": 1}))
    assert spectrum.warnings[0] == "read from HDU 2 BOSS/LCO; empty: BOSS/APO, APOGEE/APO, APOGEE/LCO"


def test_row_8_paths_bytes_files_and_hdulists_are_accepted_alike(tmp_path):
    """8, astropy/specutils#723: an HDUList in memory is refused."""
    data = make.sdss(target=make.SPECOBJ)
    path = tmp_path / "a.fits"
    path.write_bytes(data)
    with open(path, "rb") as handle, fits.open(path) as hdus:
        memory = fits.HDUList([hdu.copy() for hdu in hdus])
        hashes = {only(source).content_hash for source in (path, str(path), data, handle, hdus, memory)}
    assert len(hashes) == 1


@pytest.mark.parametrize("kind", ["B", "I", "J", "K"])
def test_row_11_masks_stay_whole_numbers(kind):
    """11, astropy/specutils#1104, astropy#11963: the mask is dropped, or int8 becomes bool."""
    columns = [fits.Column("wave", "D", array=4000.0 + np.arange(5)), fits.Column("flux", "D", array=np.ones(5))]
    columns.append(fits.Column("mask", kind, array=np.array([0, 1, 2, 64, 127])))
    spectrum = only(make.as_bytes(fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns)))
    assert spectrum.mask.dtype == np.int64
    assert spectrum.mask.tolist() == [0, 1, 2, 64, 127]


def test_row_13_errors_add_with_the_square_of_the_kernel_when_smoothing():
    """13, astropy/specutils#1305: the uncertainty is wrong after smoothing."""
    rng = np.random.default_rng(13)
    sigma = 0.25
    wave = 4000.0 + np.arange(60_000)
    noisy = Spectrum(wave, 1.0 + rng.normal(0.0, sigma, wave.size), np.full(wave.size, 1 / sigma**2))
    smooth = noisy.smoothed(2.0)
    inner = slice(20, -20)
    assert np.std(smooth.flux[inner]) == pytest.approx(smooth.sigma[1000], rel=0.02)
    kernel = np.exp(-0.5 * (np.arange(-6, 7) / 2.0) ** 2)
    assert smooth.sigma[1000] == pytest.approx(sigma * np.sqrt((kernel**2).sum()) / kernel.sum())
    holed = noisy.replace(ivar=np.where(np.arange(wave.size) == 1000, 0.0, noisy.ivar), flux=noisy.flux.copy())
    holed.flux[1000] = 1e9
    assert holed.smoothed(2.0).flux[1000] == pytest.approx(1.0, abs=1.0)
    assert holed.smoothed(2.0).ivar[1000] < smooth.ivar[1000]


def test_row_14_the_most_specific_reader_goes_first_and_says_which_it_was():
    """14, spacetelescope/specviz#351: the automatic loader picks the wrong reader, units are empty."""
    spectrum = only(make.sdss(target=make.SPECOBJ))
    assert (spectrum.layout, spectrum.flux_unit) == ("sdss-spec", "1E-17 erg/cm^2/s/Ang")
    assert only(make.spspec()).layout == "sdss-spspec"  # also a five-row image, like LAMOST's


@pytest.mark.parametrize("arms", ["B", "R", "Z", "BR", "BZ", "RZ"])
def test_row_15_any_set_of_arms_is_read_and_the_missing_ones_are_named(arms):
    """15, desihub/prospect#74, desihub/desispec#1303: 'set of bands not supported'."""
    spectrum = only(make.desi([1], arms=arms))
    assert [w for w in spectrum.warnings if w.startswith("arm")] == [f"arm {a} missing" for a in "BRZ" if a not in arms]


def test_row_16_a_bad_arm_leaves_the_good_ones():
    """16, desihub/desispec#1604: a bad z arm removed b and r from the coadd."""
    spectrum = only(make.desi([1], Z_IVAR=np.zeros((1, 11)), Z_FLUX=np.full((1, 11), np.nan)))
    assert spectrum.good[:19].all()
    assert not spectrum.good[19:].any()


def test_row_18_repeated_targetids_are_rows_of_their_own():
    """18, desihub/desispec#2481: duplicate TARGETIDs break the coadd of arms."""
    found = read(make.desi([7, 7]))
    assert [(s.id, s.row, s.ra) for s in found] == [("7", 0, 10.0), ("7", 1, 11.0)]


@pytest.mark.parametrize(
    ("data", "label"),
    [(make.desi([1]), "DESI b/r"), (make.lamost_image(make.lamost_rows(2200)), "LAMOST blue/red")],
)
def test_row_19_arm_joins_are_stated_where_they_are(data, label):
    """19, desihub/desispec#929, #1025, #1249: steps and troughs at b/r and r/z pass for features."""
    assert label in [join.label for join in only(data).joins]


def test_row_20_the_state_of_a_fibre_is_said():
    """20, desihub/desispec#966: a dead CCD column makes a broad fake feature."""
    with fits.open(io.BytesIO(make.desi([1, 2]))) as hdus:
        hdus["FIBERMAP"].data["COADD_FIBERSTATUS"] = [0, 256]
        first, second = read(hdus)
    assert not [w for w in first.warnings if "fibre" in w]
    assert "fibre status 256" in second.warnings


def test_row_21_flags_alone_never_blank_a_spectrum():
    """21, desihub/prospect#92, astro-datalab/notebooks-latest#213: all pixels flagged, a blank plot, no y limits."""
    rows = make.lamost_rows()
    rows[3:] = 2**10
    spectrum = only(make.lamost_image(rows))
    assert spectrum.good.all()
    assert spectrum.snr == pytest.approx(51.0)  # flux 1 to 50, σ = 0.5


def test_row_22_sigma_is_one_over_the_root_of_ivar_and_infinite_where_ivar_is_0():
    """22, spacetelescope/jdaviz#2279: ivar is drawn as if it were sigma."""
    rows = make.lamost_rows()
    rows[1, 5] = 0.0
    sigma = only(make.lamost_image(rows)).sigma
    assert (sigma[4], sigma[5]) == (0.5, np.inf)


def test_row_23_mask_and_errors_survive_on_the_way_out_and_back():
    """23, spacetelescope/jdaviz#1146: mask and uncertainty are lost on load."""
    pytest.importorskip("specutils", reason="specutils is not installed (pip install specutils)")
    spectrum = only(make.sdss(target=make.SPECOBJ))
    back = Spectrum.from_specutils(spectrum.to_specutils())
    np.testing.assert_array_equal(back.ivar, spectrum.ivar)
    np.testing.assert_array_equal(back.mask, spectrum.mask)


@pytest.mark.parametrize(
    "data",
    [
        make.lamost_image(dtype=">f4"),
        make.lamost_table(),
        make.sdss(target=make.SPECOBJ),
        make.desi([1]),
        make.spspec(),
        make.mwm({"BOSS/APO": 1}),
        make.image(20, CRVAL1=4000.0, CDELT1=2.0),
        make.multispec(["1 1 0 4000. 2. 9 0. 1. 2."], np.ones((1, 9))),
    ],
)
def test_row_25_arrays_are_native_whatever_the_file_holds(data):
    """25, cositools/cosipy#636, mperrin/webbpsf#159: big-endian arrays crash compiled code."""
    spectrum = only(data)
    for array in (spectrum.wavelength, spectrum.flux, spectrum.ivar):
        assert array is None or (array.dtype == np.float64 and array.dtype.isnative and array.flags.c_contiguous)
    assert spectrum.mask is None or (spectrum.mask.dtype == np.int64 and spectrum.mask.dtype.isnative)


def test_row_26_a_record_is_identified_by_its_sparcl_id_since_specids_repeat():
    """26, astro-datalab/notebooks-latest#174: specid is not unique."""
    shared = {"specid": 5, "wavelength": [4000.0, 4001.0], "flux": [1.0, 2.0]}
    one, other = from_record(shared | {"sparcl_id": "a-1"}), from_record(shared | {"sparcl_id": "b-2"})
    assert (one.id, other.id) == ("a-1", "b-2")
    assert one.ids["specid"] == other.ids["specid"] == "5"


def test_row_27_redshifts_are_joined_by_identifier_never_by_position():
    """27, nasa-fornax/fornax-demo-notebooks#281: spectra end on the wrong objects where the order differs."""
    found = read(
        make.desi([3, 1, 2], redshifts=make.redrock([(1, 0.1, 0, "STAR"), (2, 0.2, 0, "QSO"), (3, 0.3, 0, "GALAXY")]))
    )
    assert [(s.id, s.redshift.value) for s in found] == [("3", 0.3), ("1", 0.1), ("2", 0.2)]


def test_row_28_a_dead_row_keeps_its_place_and_all_later_ones_theirs():
    """28, MultimodalUniverse's LAMOST script: a failed file shifts every later row of the catalogue."""
    flux = np.ones((3, 11))
    flux[1] = np.nan
    found = read(make.desi([1, 2, 3], arms="B", B_FLUX=flux))
    assert [(s.id, s.row, bool(s.good.any())) for s in found] == [("1", 0, True), ("2", 1, False), ("3", 2, True)]


@pytest.mark.parametrize(
    "page",
    [
        b"<!DOCTYPE html>\n<html><body>503</body></html>",
        b"<html>\nnot found\n",
        b'<?xml version="1.0"?>\n<Error>gone</Error>\n',
    ],
)
def test_row_29_the_error_page_of_an_archive_is_named_as_such(page):
    """29, astropy/astroquery#743, #3169: the archive answers with an HTML page, saved as the spectrum."""
    with pytest.raises(SpectrumReadError, match=r"an HTML or XML page, not a spectrum .an archive's error page"):
        read(page, name="spec-0266-51602-0031.fits")


def test_row_39_stars_may_come_towards_us():
    """39, Samreay/Marz#148, #154: no negative z."""
    spectrum = only(make.lamost_image(Z=-0.001))
    assert spectrum.redshift.velocity_km_s == pytest.approx(-299.8, abs=0.1)
    assert choose_frame(spectrum).z == -0.001


@pytest.mark.parametrize(
    "data",
    [
        make.lamost_image(make.lamost_rows(2600)),
        make.lamost_table(2600),
        make.sdss(2600, target=make.SPECOBJ),
        make.spspec(2600),
        make.mwm({"BOSS/APO": 1}, n=2800),
    ],
    ids=["lamost-image", "lamost-table", "sdss-spec", "sdss-spspec", "sdss-mwm"],
)
def test_row_42_a_line_lies_where_it_was_put_in_every_log_format(data):
    """42, PyHammer spectrum.py: row 2 of DR7 (error) taken for ivar, wavelengths of linear FITS with the wrong sign."""
    spectrum = only(data)
    # Vacuum Hα, by the grid of each format: 10**(first + 1e-4 i).
    index = round((np.log10(6564.61) - np.log10(spectrum.wave_min)) / 1e-4)
    assert spectrum.wavelength[index] == pytest.approx(6564.61, abs=0.8)
    assert spectrum.medium == "vacuum"
    assert bool(np.all(np.diff(spectrum.wavelength) > 0))


def test_row_42_an_error_is_no_inverse_variance():
    """42: σ = 0.5 is ivar 4, not 0.5."""
    assert only(make.spspec(sigma=np.full(60, 0.5))).ivar[0] == 4.0


def test_row_45_an_unknown_class_has_no_redshift_and_says_why():
    """45, arXiv:2303.09836: LAMOST's 'Unknown' spectra carry −9999 or a z that means nothing."""
    spectrum = only(make.lamost_image(CLASS="Unknown", SUBCLASS="Non", Z=0.3))
    assert (spectrum.redshift.value, spectrum.redshift.warning) == (None, "class Unknown")


def test_reading_never_warns_on_the_users_terminal():
    """Non-standard cards make astropy warn a page for each of 100,000 files; what matters is in `warnings`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        only(make.spspec())
        only(make.image(20, CRVAL1=4000.0, CDELT1=2.0, DATE__OBS="31/12/99"))
