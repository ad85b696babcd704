"""Every real file beside the checkout is read as the manifest says, or refused for a stated reason."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from specvet.spectra import Spectrum, SpectrumReadError, exposures, read

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}"),
]

REFUSED = {
    r"desi/redrock-.*": "redrock catalogue, not spectra: give the coadd file beside it",
    r"standards/.*/aaareadme\..*": "text without rows of numbers",
    r"templates/fsps_agb/Crich\.teff": "not plausible wavelengths",
    r"templates/fsps_agb/Orich\.teff": "23 unnamed columns",
    r"templates/fsps_agb/README": "text without rows of numbers",
    r"templates/miles/paramsMILES_.*\.txt": "text without rows of numbers",
    r"templates/sdss_idlspec2d/eigeninput_.*star.*\.dat": "words in its columns",
    r"templates/sdss_idlspec2d/eigeninput_star\.par": "text without rows of numbers",
    r"templates/snid_sage/.*": "an HDF5 file, which is not read",
}
"""Path pattern → what the refusal says."""

LAYOUTS = {
    r"lamost/dr[1-8]/.*": "lamost-lrs-image",
    r"lamost/dr9/.*": "lamost-lrs-table",
    r"lamost/mrs.*": "lamost-mrs",
    r"sdss/spec/.*": "sdss-spec",
    r"desi/coadd-.*": "desi-coadd",
    r"desi/spectra-.*": "desi-spectra",
    r"mastar/.*|other/qso/XShooter.*": "table-vector",
    r"templates/(miles|stelib)/.*|other/ondrejov.*|other/qso/SDSSJ220248.*": "image-1d",
    r"templates/bochanski_m/.*": "image-rows",
    r"templates/sdss_idlspec2d/spEigen.*": "sdss-templates",
    r"templates/desi_redrock/.*": "redrock-templates",
    r"sdss/(cv|wd)_ascii/.*|standards/.*|templates/(pickles|koester_da|fsps_agb)/.*|other/(kast|ugem)/.*": "text",
}

SAYS_NOTHING = r"other/ondrejov.*|sdss/(cv|wd)_ascii/.*|standards/.*|templates/(koester_da|fsps_agb)/.*|other/ugem/.*"
"""The manifest knows their medium from papers or measurement; the files do not state it."""

SAYS_MORE = {r"other/qso/SDSSJ220248.*": "vacuum"}
"""Files that state a medium where the manifest leaves it open."""

DESI_PIXELS = {"2751+2326+2881": 2751 + 2326 + 2881 - 51 - 126}
"""The manifest counts the arms; joined, 51 and 126 pixels of the overlaps are one."""

MANIFEST_RANGE_IS_NOMINAL = r"lamost/mrs.*|other/ugem/txhugem40(08|12|16|20|26)|.*/spEigenStar-53054.fits"
"""MRS: design range instead of the data's; U Gem: the range of the first exposure is repeated for all six;
spEigenStar-53054: the end of a pixel that is not there (3892 pixels from 10**3.578 end at 9270.4 Å)."""


def manifest() -> list[dict[str, str]]:
    if not SHARED.is_dir():
        return []
    with open(SHARED / "manifest.csv", newline="") as handle:
        return list(csv.DictReader(handle))


ROWS = manifest()


@cache
def spectra_of(path: str) -> list[Spectrum]:
    return read(SHARED / path)


def matching(table: dict[str, str], path: str) -> str | None:
    return next((value for pattern, value in table.items() if re.fullmatch(pattern, path)), None)


def a_number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["path"])
def test_every_shared_file_is_read_as_the_manifest_says_or_refused_for_a_reason(row):
    path = row["path"]
    reason = matching(REFUSED, path)
    if reason is not None:
        with pytest.raises(SpectrumReadError, match=reason) as caught:
            read(SHARED / path)
        assert str(caught.value).startswith(str(SHARED / path))
        return
    found = spectra_of(path)
    first = found[0]
    assert {s.layout for s in found} == {matching(LAYOUTS, path)}
    assert [s.row for s in found] == list(range(len(found)))
    assert {s.file for s in found} == {str(SHARED / path)}
    count = DESI_PIXELS.get(row["n_pix"], a_number(row["n_pix"]))
    if count is not None:
        assert {s.n_pix for s in found} == {count}
    if not re.fullmatch(MANIFEST_RANGE_IS_NOMINAL, path):
        for column in ("wave_min", "wave_max"):
            stated = a_number(row[column])
            # One decimal, sometimes cut instead of rounded (9092.852 stands as 9092.8).
            assert stated is None or getattr(first, column) == pytest.approx(stated, abs=0.06)
    stated_medium = row["medium"].split(" ")[0]
    if stated_medium in ("air", "vacuum"):
        says_nothing = re.fullmatch(SAYS_NOTHING, path)
        assert first.medium == ("unknown" if says_nothing else stated_medium)
    else:
        assert first.medium == (matching(SAYS_MORE, path) or "unknown")
    for spectrum in found:
        for array in (spectrum.wavelength, spectrum.flux, spectrum.ivar):
            assert array is None or (array.dtype == np.float64 and array.dtype.isnative)
        assert spectrum.mask is None or spectrum.mask.dtype == np.int64
        assert spectrum.ivar is None or bool(np.all((spectrum.ivar >= 0) & np.isfinite(spectrum.ivar)))


@pytest.mark.parametrize("row", [r for r in ROWS if r["path"].startswith("lamost/dr")], ids=lambda r: r["path"])
def test_lamost_redshift_and_class_are_those_of_the_manifest_notes(row):
    stated = re.search(r"CLASS=(\S+) SUBCLASS=(\S+) Z=(\S+) ", row["notes"])
    spectrum = spectra_of(row["path"])[0]
    assert spectrum.pipeline_class == stated[1]
    if stated[1] == "Unknown":
        assert spectrum.redshift.value is None
        assert spectrum.redshift.source == ""
        assert spectrum.pipeline_subclass == ""
    else:
        assert spectrum.redshift.value == pytest.approx(float(stated[3]), rel=1e-3, abs=1e-9)
        assert spectrum.redshift.source == "header Z"
        assert spectrum.pipeline_subclass == stated[2]
    assert (spectrum.frame, spectrum.medium, spectrum.calibration) == ("heliocentric", "vacuum", "relative")
    assert [join.label for join in spectrum.joins] == ["LAMOST blue/red"]


def test_the_lamost_grid_of_dr1_equals_the_wavelength_row_of_dr2():
    old = spectra_of("lamost/dr1/spec-55862-B6212_sp06-003.fits")[0]
    new = spectra_of("lamost/dr2/spec-55919-B5591903_sp01-003.fits")[0]
    np.testing.assert_allclose(old.wavelength, new.wavelength[: old.n_pix], atol=1e-4)
    assert old.id == "55862-B6212_sp06-003"
    assert (old.release, new.release) == ("", "")


def test_one_lamost_exposure_reads_alike_from_its_image_and_its_table_release():
    image = spectra_of("lamost/dr7/spec-55859-F5902_sp01-001_dr7.fits.gz")[0]
    table = spectra_of("lamost/dr9/spec-55859-F5902_sp01-001.fits.gz")[0]
    assert (image.release, table.release) == ("DR7", "DR9")
    assert image.ids["designation"] == table.ids["designation"]
    np.testing.assert_allclose(image.wavelength, table.wavelength, atol=1e-3)
    np.testing.assert_allclose(image.flux, table.flux, rtol=1e-5)


def test_sdss_fields_come_from_the_target_table_not_from_the_telescope_header():
    spectrum = spectra_of("sdss/spec/spec-0332-52367-0639.fits")[0]
    assert spectrum.id == "0332-52367-0639"
    assert (spectrum.ra, spectrum.dec) == (184.03066, -2.2382793)
    assert spectrum.redshift.value == pytest.approx(0.100609764)
    assert spectrum.redshift.source == "SPECOBJ Z"
    assert (spectrum.pipeline_class, spectrum.pipeline_subclass) == ("QSO", "BROADLINE")
    assert spectrum.ids["specobjid"] == "373974455765985280"
    assert spectrum.reduction == "26"


def test_a_desi_coadd_gets_class_and_redshift_from_the_redrock_file_beside_it():
    spectrum = spectra_of("desi/coadd-4-80613-thru20210324.fits")[0]
    assert spectrum.id == "39633345008634465"
    assert spectrum.redshift.value == pytest.approx(0.36874355)
    assert (spectrum.redshift.source, spectrum.redshift.warning) == ("redrock Z", "")
    assert spectrum.pipeline_class == "GALAXY"
    assert (spectrum.reduction, spectrum.release) == ("iron", "DR1")
    assert [j.label for j in spectrum.joins] == ["DESI b/r", "DESI r/z"]
    assert [(round(j.low), round(j.high)) for j in spectrum.joins] == [(5760, 5800), (7520, 7620)]
    assert spectrum.warnings == ()


def test_the_overlap_of_desi_arms_is_their_ivar_weighted_mean():
    with fits.open(SHARED / "desi/coadd-4-80613-thru20210324.fits") as hdus:
        flux_b, flux_r = hdus["B_FLUX"].data[0, -51:].astype(float), hdus["R_FLUX"].data[0, :51].astype(float)
        ivar_b, ivar_r = hdus["B_IVAR"].data[0, -51:].astype(float), hdus["R_IVAR"].data[0, :51].astype(float)
    spectrum = spectra_of("desi/coadd-4-80613-thru20210324.fits")[0]
    overlap = (spectrum.wavelength > 5759.9) & (spectrum.wavelength < 5800.1)
    assert overlap.sum() == 51
    np.testing.assert_allclose(spectrum.ivar[overlap], ivar_b + ivar_r)
    np.testing.assert_allclose(spectrum.flux[overlap], (flux_b * ivar_b + flux_r * ivar_r) / (ivar_b + ivar_r))


def test_desi_rows_that_are_no_targets_are_entries_with_a_warning():
    found = spectra_of("desi/coadd-sv3-dark-26065.fits")
    kinds = [next((w for w in s.warnings if w.startswith("not a target")), "") for s in found]
    assert kinds == [
        "not a target (OBJTYPE empty)",
        "not a target (OBJTYPE empty)",
        "",
        "not a target (OBJTYPE SKY)",
        "",
    ]
    assert [s.id for s in found] == [
        "-2713437",
        "-2713415",
        "39627866878511337",
        "616088619186127404",
        "39627866878514741",
    ]
    assert "all flux values are 0" in found[0].warnings
    assert any("no redrock catalogue beside it" in w for w in found[2].warnings)


def test_lamost_medium_resolution_is_one_spectrum_with_the_gap_as_a_join():
    spectrum = spectra_of("lamost/mrs_dr7/med-58625-TD192102N424113K01_sp12-076.fits.gz")[0]
    assert (spectrum.n_pix, spectrum.resolution) == (4156 + 3800, 7500.0)
    join = spectrum.joins[0]
    assert (round(join.low, 1), round(join.high, 1)) == (5389.9, 6271.8)
    assert spectrum.n_exposures == 6
    assert spectrum.id == "744812076"


def test_the_third_column_is_an_error_only_where_the_file_says_so():
    white_dwarf = spectra_of("sdss/wd_ascii/1237656495115010166.spec")[0]
    assert white_dwarf.ivar[0] == pytest.approx(7.033744454383850e-02)
    assert (white_dwarf.ra, white_dwarf.dec, white_dwarf.survey) == (3.19004, 14.66567, "SDSS")
    kast = spectra_of("other/kast/kastRED_G233-42_20210925.txt")[0]
    assert kast.ivar[0] == pytest.approx(1 / 1.3778751576907111**2)
    assert kast.id == "G233-42"
    assert kast.ra == pytest.approx(15 * (23 + 9 / 60 + 57.90 / 3600))
    standard = spectra_of("standards/esookestan/fbd28d4211.dat")[0]
    assert standard.ivar is None
    assert any("column 3 is the same flux per frequency in mJy" in w for w in standard.warnings)
    assert any("column 4 is not named: ignored" in w for w in standard.warnings)


def test_pickles_files_whose_columns_touch_are_split_by_decimals():
    giant = spectra_of("templates/pickles/m10iii.dat")[0]
    assert giant.flux[giant.wavelength == 9925.0][0] == 100.454491
    assert giant.flux[giant.wavelength == 4145.0][0] == 0.454685


def test_mastar_rows_are_one_entry_each():
    found = spectra_of("mastar/mastar_example_spectral_types.fits")
    assert len(found) == 7
    assert {(s.survey, s.medium, s.n_pix) for s in found} == {("MaStar", "vacuum", 4563)}
    assert found[0].ids["mangaid"] == "60-1981443102866159232"
    assert found[0].mask.max() == 167772160


def test_nanometres_become_angstroms():
    quasar = spectra_of("other/qso/XShooter_XQ100.fits.gz")[0]
    assert quasar.wave_min == pytest.approx(9817.5134, abs=1e-3)
    assert (quasar.id, quasar.frame, quasar.calibration) == ("BR J2349-3712", "heliocentric", "absolute")
    assert quasar.ivar[1] == pytest.approx(1 / 1.8499627e-15**2, rel=1e-6)


ONE_OF_EACH = [
    "lamost/dr1/spec-55862-B6212_sp06-003.fits",
    "lamost/dr8/spec-55859-F5902_sp03-232.fits.gz",
    "lamost/dr9/spec-55859-F5902_sp01-001.fits.gz",
    "lamost/mrs_dr7/med-58625-TD192102N424113K01_sp12-076.fits.gz",
    "sdss/spec/spec-0266-51602-0013.fits",
    "desi/spectra-sv3-dark-26065.fits",
    "mastar/mastar_example_spectral_types.fits",
    "templates/stelib/STELIB_v3.2_HD005820.fits",
    "sdss/cv_ascii/spec-0272-51941-0461-catB.dat",
    "templates/koester_da/koester_t10000g800a6l.spec",
    "templates/pickles/m8iii.dat",
]


def assert_same(found: list[Spectrum], wanted: list[Spectrum]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        for name in ("wavelength", "flux", "ivar", "mask"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for name in ("layout", "medium", "redshift", "ids", "joins", "frame", "mjd", "ra", "dec", "survey", "row"):
            assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("path", ONE_OF_EACH)
def test_a_misleading_name_changes_nothing(path, tmp_path):
    copy = tmp_path / "spec-9999-99999-9999_redrock.csv.h5"
    copy.write_bytes((SHARED / path).read_bytes())
    assert_same(read(copy), spectra_of(path))


@pytest.mark.parametrize("path", ONE_OF_EACH)
def test_bytes_open_files_and_packed_files_read_like_the_path(path):
    data = (SHARED / path).read_bytes()
    wanted = spectra_of(path)
    assert_same(read(data), wanted)
    assert_same(read(gzip.compress(data, 1)), wanted)
    assert_same(read(bz2.compress(data, 1)), wanted)
    with open(SHARED / path, "rb") as handle:
        assert_same(read(handle), wanted)
        assert not handle.closed
    named = read(io.BytesIO(data), name="from the archive")
    assert named[0].file == "from the archive"


@pytest.mark.parametrize("path", [p for p in ONE_OF_EACH if ".fits" in p])
def test_an_open_hdulist_reads_like_the_path_and_stays_open(path):
    with fits.open(SHARED / path) as hdus:
        assert_same(read(hdus), spectra_of(path))
        assert hdus[0].header is not None
        in_memory = fits.HDUList([hdu.copy() for hdu in hdus])
    assert_same(read(in_memory), spectra_of(path))


def test_four_images_of_a_quasar_are_told_apart_by_what_they_hold():
    quasar = spectra_of("other/qso/SDSSJ220248.31+123656.3.fits")[0]
    with fits.open(SHARED / "other/qso/SDSSJ220248.31+123656.3.fits") as hdus:
        np.testing.assert_allclose(quasar.ivar, hdus[1].data)
        np.testing.assert_allclose(np.log10(quasar.wavelength), hdus[2].data, atol=1e-6)
        np.testing.assert_array_equal(quasar.mask, hdus[3].data)
    assert quasar.ra is None  # the header's is the centre of the plate


def test_templates_are_named_as_their_headers_name_them():
    stars = spectra_of("templates/sdss_idlspec2d/spEigenStar-53054.fits")
    assert len(stars) == 40
    assert [s.id for s in stars[4:7]] == ["Carbon", "Carbon_lines", "CarbonWD"]
    components = spectra_of("templates/sdss_idlspec2d/spEigenCVstar-55734.fits")
    resampled = spectra_of("templates/desi_redrock/rrtemplate-STAR-CV-v0.1.fits")
    for old, new in zip(components, resampled, strict=True):
        # DESI resampled the same three components to 0.1 Å: one wavelength scale, or nothing would match.
        inside = (new.wavelength > 4000) & (new.wavelength < 9000)
        expected = np.interp(new.wavelength[inside], old.wavelength, old.flux)
        assert np.median(np.abs(new.flux[inside] - expected)) < 0.01 * np.std(expected)
        assert any("no spectrum of a star by itself" in w for w in old.warnings)


def test_columns_of_a_text_without_names_are_spectra_where_they_are_alike():
    carbon = spectra_of("templates/fsps_agb/Crich.spec")
    assert [s.id for s in carbon] == [f"Crich column {i}" for i in range(2, 7)]
    assert "column 2 is not named: read as one of 5 spectra over one wavelength column" in carbon[0].warnings
    swan = (carbon[0].wavelength > 5166) & (carbon[0].wavelength < 5200)
    redder = (carbon[0].wavelength > 5250) & (carbon[0].wavelength < 5350)
    assert all(np.median(s.flux[redder]) > np.median(s.flux[swan]) * 0.5 for s in carbon)


def test_single_exposures_of_a_full_sdss_file_are_its_cameras_and_agree_with_the_coadd():
    path = SHARED / "sdss/spec/spec-0332-52367-0639.fits"
    coadd = spectra_of("sdss/spec/spec-0332-52367-0639.fits")[0]
    found = exposures(path)
    assert coadd.n_exposures == len(found) == 6
    assert [(s.ids["arm"], s.ids["exposure"]) for s in found[2:4]] == [("b2", "00014180"), ("r2", "00014178")]
    assert {s.row for s in found} == {0}
    assert {s.id for s in found} == {"0332-52367-0639"}
    assert [round(s.mjd, 3) for s in found] == [52367.299, 52367.311, 52367.323] * 2
    for one in found:
        good = one.good
        expected = np.interp(one.wavelength[good], coadd.wavelength, coadd.flux)
        assert np.median(one.flux[good] / expected) == pytest.approx(1.0, abs=0.05)


def test_single_exposures_of_lamost_medium_resolution_have_their_own_times():
    found = exposures(SHARED / "lamost/mrs_dr7/med-58625-TD192102N424113K01_sp12-076.fits.gz")
    assert [s.ids["arm"] for s in found] == ["B"] * 3 + ["R"] * 3
    # LMJM 84420148 is minute 84420148 of Beijing's days: 2019-05-21, 18:28 UTC.
    assert [s.ids["exposure"] for s in found][:2] == ["84420148", "84420171"]
    assert found[0].mjd == pytest.approx(84420148 / 1440 - 8 / 24)
    assert (
        int(found[0].mjd)
        == 58624
        == int(spectra_of("lamost/mrs_dr7/med-58625-TD192102N424113K01_sp12-076.fits.gz")[0].mjd)
    )
    assert {s.id for s in found} == {"744812076"}


def test_rows_of_desi_spectra_are_exposures_and_a_coadd_has_none():
    found = exposures(SHARED / "desi/spectra-sv3-dark-26065.fits")
    assert [s.row for s in found] == list(range(5))
    assert {s.ids["exposure"] for s in found} == {"83734"}
    assert exposures(SHARED / "desi/coadd-sv3-dark-26065.fits") == []
    assert exposures(SHARED / "sdss/spec/spec-0266-51602-0013.fits") == []
    assert exposures(SHARED / "templates/pickles/m1v.dat") == []
