"""Ids as people write them become addresses as the surveys lay them out; what cannot be asked for says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.table import Table

from specvet.catalogue.getting import AskError, desi, lamost, lists, sdss
from specvet.catalogue.getting.asks import Asks, understood
from specvet.catalogue.getting.services import address

SPECOBJID = 7841030947256686592
"""Of plate 6964, MJD 56748, fibre 960, reduction v5_13_2: a real number, of eBOSS."""


def sdss_asks(*arguments: str) -> Asks:
    return understood(lists.given(arguments), lambda text: [sdss.from_text(text)], lambda row: [sdss.from_row(row)])


def test_a_plate_lies_where_dr17_has_it_and_where_its_reduction_is_not_known_all_are_tried() -> None:
    ask = sdss.from_text("2108-53473-415")
    assert (ask.id, ask.ids) == ("2108-53473-0415", (("plate", "2108"), ("mjd", "53473"), ("fiberid", "415")))
    below = "spectra/lite/2108/spec-2108-53473-0415.fits"
    assert ask.paths == tuple(f"sas/dr17/sdss/spectro/redux/{run2d}/{below}" for run2d in ("26", "103", "104"))
    known = sdss.from_text("spec-0266-51602-0013.fits", run2d="26", full=True)
    assert known.paths == ("sas/dr17/sdss/spectro/redux/26/spectra/0266/spec-0266-51602-0013.fits",)


def test_a_plate_of_boss_is_sought_under_eboss_too_and_full_files_have_a_folder_of_their_own() -> None:
    ask = sdss.from_text("6964-56748-960", full=True)
    name = "v5_13_2/spectra/full/6964/spec-6964-56748-0960.fits"
    assert ask.paths == (f"sas/dr17/sdss/spectro/redux/{name}", f"sas/dr17/eboss/spectro/redux/{name}")
    later = sdss.from_text("6964-56748-960", release="dr19")
    assert later.paths == ("sas/dr19/spectro/sdss/redux/v5_13_2/spectra/lite/6964/spec-6964-56748-0960.fits",)
    with pytest.raises(AskError, match="--run2d"):
        sdss.from_text("6964-56748-960", release="dr12")


def test_a_specobjid_is_decoded_into_plate_mjd_fibre_and_reduction() -> None:
    assert sdss.specobjid(SPECOBJID) == (6964, 56748, 960, "v5_13_2")
    legacy = (266 << 50) | (1 << 38) | ((51630 - 50000) << 24) | (26 << 10)
    assert sdss.specobjid(legacy) == (266, 51630, 1, "26")


def test_a_specobjid_above_the_range_of_int64_that_a_table_made_negative_is_understood() -> None:
    number = (9000 << 50) | (7 << 38) | ((57000 - 50000) << 24) | (1302 << 10)
    assert number > 2**63
    assert sdss.specobjid(number - 2**64) == sdss.specobjid(number) == (9000, 57000, 7, "v5_13_2")


def test_sdss_v_lies_by_field_and_night_and_its_reduction_names_the_release() -> None:
    flat = "spectra/lite/015000/59146/spec-015000-59146-4375924756.fits"
    grouped = "spectra/daily/lite/015XXX/015000/59146/spec-015000-59146-4375924756.fits"
    ask = sdss.from_text("015000-59146-4375924756")
    assert ask.paths == tuple(f"sas/dr19/spectro/boss/redux/v6_1_3/{place}" for place in (flat, grouped))
    assert ask.ids == (("field", "15000"), ("mjd", "59146"), ("catalogid", "4375924756"))
    dr20 = sdss.from_text("15000-59146-4375924756", run2d="v6_2_1")
    assert dr20.paths == tuple(f"sas/dr20/spectro/boss/redux/v6_2_1/{place}" for place in (grouped, flat))
    old = sdss.from_text("15000-59146-4375924756", run2d="v6_0_4")
    assert old.paths[0] == (
        "sas/dr18/spectro/boss/redux/v6_0_4/spectra/lite/15000p/59146/spec-15000-59146-04375924756.fits"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "no plate-mjd-fiberid"),
        ("266-51602-0", "no spectrum of SDSS"),
        ("266-51602-1001", "no spectrum of SDSS"),
        ("123456789012345678", "no specobjid"),
        ("../../etc-51602-5", "no plate-mjd-fiberid"),
        ("", "no plate-mjd-fiberid"),
    ],
)
def test_what_is_no_id_of_sdss_says_so(text: str, why: str) -> None:
    with pytest.raises(AskError, match=why):
        sdss.from_text(text)


@pytest.mark.parametrize("release", ["../dr17", "17", "dr17/x", "dr"])
def test_no_release_leads_out_of_the_archive(release: str) -> None:
    with pytest.raises(AskError):
        sdss.from_text("266-51602-13", release=release)
    with pytest.raises(AskError):
        lamost.from_text("1", release=release + "/..")
    with pytest.raises(AskError):
        sdss.from_row({"plate": "266", "mjd": "51602", "fiberid": "13", "run2d": "../.."})


def test_lamost_asks_by_obsid_and_keeps_files_as_the_archive_does() -> None:
    assert lamost.from_text("101001").paths == ("dr8/v2.0/spectrum/fits/101001",)
    assert lamost.from_text("101001", release="dr10/v2.0", medium=True).paths == ("dr10/v2.0/medspectrum/fits/101001",)
    ids = {"lmjd": "55859", "planid": "F5902", "spid": "1", "fiberid": "1"}
    assert lamost.place(ids, "dr8/v2.0", packed=True, medium=False) == (
        "dr8/v2.0/fits/20111024/F5902/spec-55859-F5902_sp01-001.fits.gz"
    )
    with pytest.raises(AskError, match="PLANID"):
        lamost.place(ids | {"planid": "../x"}, "dr8/v2.0", packed=True, medium=False)


def zcat(path: Path, **columns: object) -> Path:
    Table(columns).write(path, format="fits")
    return path


def test_a_desi_target_lies_where_the_id_the_list_or_a_catalogue_says(tmp_path: Path) -> None:
    folder = "public/dr1/spectro/redux/iron/healpix/main/dark/103/10378"
    (by_id,) = desi.from_text("main/dark/10378/39627652591521181", {})
    assert by_id.paths == (f"{folder}/coadd-main-dark-10378.fits",)
    assert by_id.beside == (f"{folder}/redrock-main-dark-10378.fits",)
    row = {"targetid": "39627652591521181", "survey": "main", "program": "dark", "healpix": "10378"}
    assert desi.from_row(row, {})[0].key == by_id.key
    catalogue = zcat(
        tmp_path / "zall-pix-iron.fits",
        TARGETID=np.array([5, 39627652591521181, 39627652591521181, 6, 7, 7]),
        SURVEY=["sv3", "sv3", "main", "main", "sv1", "sv3"],
        PROGRAM=["dark", "bright", "dark", "dark", "dark", "dark"],
        HEALPIX=[1, 10378, 10378, 4, 9, 8],
        ZCAT_PRIMARY=[True, False, True, True, False, False],
    )
    where = desi.coadds_of(str(catalogue), {39627652591521181, 7, 8})
    (by_catalogue,) = desi.from_text("39627652591521181", where)
    assert by_catalogue.key == by_id.key
    assert [ask.paths[0].rsplit("/")[-1] for ask in desi.from_text("7", where)] == [
        "coadd-sv1-dark-9.fits",
        "coadd-sv3-dark-8.fits",
    ]
    with pytest.raises(AskError, match="--zcat"):
        desi.from_text("8", where)


def test_a_zpix_catalogue_without_survey_columns_is_understood_by_its_name(tmp_path: Path) -> None:
    catalogue = zcat(tmp_path / "zpix-main-bright.fits", TARGETID=np.array([5]), HEALPIX=[12])
    assert desi.coadds_of(str(catalogue), {5}) == {5: (desi.Coadd("main", "bright", 12),)}
    with pytest.raises(AskError, match="SURVEY and PROGRAM"):
        desi.coadds_of(str(zcat(tmp_path / "x.fits", TARGETID=np.array([5]), HEALPIX=[12])), {5})
    (tmp_path / "bad.fits").write_text("nothing")
    with pytest.raises(AskError, match="cannot be read"):
        desi.coadds_of(str(tmp_path / "bad.fits"), {5})


def csv(table: Table, path: Path) -> Path:
    table.write(path.with_suffix(".csv"), format="ascii.csv")
    return path.with_suffix(".csv")


def fits(table: Table, path: Path) -> Path:
    table.write(path.with_suffix(".fits"))
    return path.with_suffix(".fits")


def votable(table: Table, path: Path) -> Path:
    for name in table.colnames:
        if table[name].dtype == np.uint64:
            table[name] = table[name].astype(np.int64)  # VOTable has no unsigned integers of 64 bits
    table.write(path.with_suffix(".vot"), format="votable")
    return path.with_suffix(".vot")


def parquet(table: Table, path: Path) -> Path:
    pq.write_table(pa.table({name: list(table[name]) for name in table.colnames}), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def text(table: Table, path: Path) -> Path:
    lines = [" ".join(table.colnames), *(" ".join(map(str, row)) for row in table)]
    path.with_suffix(".txt").write_text("# a comment\n" + "\n".join(lines) + "\n")
    return path.with_suffix(".txt")


@pytest.mark.parametrize("write", [csv, fits, votable, parquet, text])
def test_a_list_is_read_whatever_table_it_is_and_no_digit_is_lost(
    write: Callable[[Table, Path], Path], tmp_path: Path
) -> None:
    plates = Table({"PLATE": [266, 2108], "MJD": [51602, 53473], "FIBERID": [13, 415], "RUN2D": ["26", "103"]})
    asks = sdss_asks(str(write(plates, tmp_path / "plates"))).asks
    assert [(ask.id, ask.paths) for ask in asks] == [
        ("0266-51602-0013", ("sas/dr17/sdss/spectro/redux/26/spectra/lite/0266/spec-0266-51602-0013.fits",)),
        ("2108-53473-0415", ("sas/dr17/sdss/spectro/redux/103/spectra/lite/2108/spec-2108-53473-0415.fits",)),
    ]
    ids = Table({"specObjID": np.array([SPECOBJID, (9000 << 50) | (7 << 38) | (7000 << 24)], dtype=np.uint64)})
    assert [ask.id for ask in sdss_asks(str(write(ids, tmp_path / "ids"))).asks] == [
        "6964-56748-0960",
        "9000-57000-0007",
    ]


def test_a_text_list_may_have_an_id_a_line_and_duplicates_are_asked_once(tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_text("266-51602-13\n\n# the next is the same one\nspec-0266-51602-0013.fits\n1200-52668-3 # note\nbad\n")
    asks = sdss_asks(str(file), "2108-53473-415", "0266-51602-0013")
    assert [ask.id for ask in asks.asks] == ["0266-51602-0013", "1200-52668-0003", "2108-53473-0415"]
    assert asks.duplicates == 2
    assert [where for where, _ in asks.problems] == ["ids.txt line 6"]


def test_an_id_that_a_table_made_a_float_is_refused_and_not_rounded(tmp_path: Path) -> None:
    Table({"specobjid": [float(SPECOBJID)]}).write(tmp_path / "ids.fits")
    asks = sdss_asks(str(tmp_path / "ids.fits"))
    assert not asks.asks
    assert "lost digits" in asks.problems[0][1]
    (tmp_path / "ids.csv").write_text("targetid,survey,program,healpix\n3.96e+16,main,dark,10378\n")
    wrong = understood(lists.given([str(tmp_path / "ids.csv")]), lambda _: [], lambda row: desi.from_row(row, {}))
    assert "lost digits" in wrong.problems[0][1]


def test_the_address_of_a_service_can_be_set_and_may_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    assert address("sdss") == "https://data.sdss.org"
    monkeypatch.setenv("SPECVET_SDSS_URL", "http://mirror.example/data/")
    assert address("sdss") == "http://mirror.example/data"
    assert address("sdss", ["desi=http://d.example", "sdss=http://127.0.0.1:8000"]) == "http://127.0.0.1:8000"
    for wrong in ("sdss", "nasa=http://x", "sdss=ftp://x", "sdss=http://user:secret@host", "sdss=http://x/?token=1"):
        with pytest.raises(AskError) as caught:
            address("sdss", [wrong])
        assert "secret" not in str(caught.value)
