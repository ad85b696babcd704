"""Paths built from a survey's own columns: flat folders and the archives' own trees, the first that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from specvet.vetting.inputs import expand_inputs
from specvet.vetting.items import Item

LAMOST = "obsid|lmjd|planid|spid|fiberid|ra|dec\n000123|55859|F5902|1|1|10.5|-2\n"
SDSS = "specobjid,plate,mjd,fiberid\n299489677444933632,266,51602,13\n"
SDSS_V = "FIELD,MJD,CATALOGID\n15143,59205,4544940698\n"
DESI = "TARGETID,SURVEY,PROGRAM,HEALPIX\n39627612345678901,sv3,dark,26065\n"


def item(folder: Path, text: str, path: str | None) -> Item:
    root = folder / "survey"
    root.mkdir(exist_ok=True)
    if path:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    (folder / "list.csv").write_text(text)
    (one,) = expand_inputs([str(folder / "list.csv")], root=str(root))
    return one


@pytest.mark.parametrize(
    "path",
    [
        "spec-55859-F5902_sp01-001.fits.gz",
        "spec-55859-F5902_sp01-001.fits",
        "20111024/F5902/spec-55859-F5902_sp01-001.fits.gz",
        "fits/20111024/F5902/spec-55859-F5902_sp01-001.fits.gz",
        "F5902/spec-55859-F5902_sp01-001.fits",
    ],
)
def test_lamost_columns_lead_to_the_file(tmp_path: Path, path: str) -> None:
    assert item(tmp_path, LAMOST, path) == Item(str(tmp_path / "survey" / path), id="000123", ra=10.5, dec=-2.0)


@pytest.mark.parametrize(
    "path",
    [
        "spec-0266-51602-0013.fits",
        "0266/spec-0266-51602-0013.fits",
        "26/spectra/lite/0266/spec-0266-51602-0013.fits",
        "spectra/0266/spec-0266-51602-0013.fits",
    ],
)
def test_sdss_columns_lead_to_the_file(tmp_path: Path, path: str) -> None:
    assert item(tmp_path, SDSS, path) == Item(str(tmp_path / "survey" / path), id="299489677444933632")


@pytest.mark.parametrize(
    "path",
    [
        "spec-015143-59205-4544940698.fits",
        "spectra/lite/015143/59205/spec-015143-59205-4544940698.fits",
        "v6_1_3/spectra/daily/lite/015XXX/015143/59205/spec-015143-59205-4544940698.fits",
    ],
)
def test_sdss_v_columns_lead_to_the_file(tmp_path: Path, path: str) -> None:
    assert item(tmp_path, SDSS_V, path) == Item(str(tmp_path / "survey" / path), id="4544940698")


@pytest.mark.parametrize("path", ["healpix/sv3/dark/260/26065/coadd-sv3-dark-26065.fits", "coadd-sv3-dark-26065.fits"])
def test_desi_columns_lead_to_the_file_and_select_the_target(tmp_path: Path, path: str) -> None:
    target = "39627612345678901"
    assert item(tmp_path, DESI, path) == Item(str(tmp_path / "survey" / path), id=target, ids=(("targetid", target),))


def test_a_missing_file_is_named_with_what_was_tried(tmp_path: Path) -> None:
    one = item(tmp_path, DESI, None)
    assert one.file == f"{tmp_path}/survey/healpix/sv3/dark/260/26065/coadd-sv3-dark-26065.fits"
    assert one.problem.startswith(f"{tmp_path}/list.csv line 2: no such file: {one.file} (also tried ")
    lamost = item(tmp_path, LAMOST, None)
    assert lamost.file == f"{tmp_path}/survey/spec-55859-F5902_sp01-001.fits.gz"
    assert "20111024/F5902" in lamost.problem


def test_a_healpix_in_two_programs_is_not_guessed(tmp_path: Path) -> None:
    other = tmp_path / "survey/healpix/main/bright/260/26065/coadd-main-bright-26065.fits"
    other.parent.mkdir(parents=True)
    other.write_text("x")
    text = "targetid,healpix\n5,26065\n"
    one = item(tmp_path, text, "healpix/sv3/dark/260/26065/coadd-sv3-dark-26065.fits")
    assert one.problem.endswith(
        "healpix 26065 exists for main/bright and sv3/dark; the list needs the columns survey and program"
    )


@pytest.mark.parametrize(
    ("plan", "said"),
    [("../../etc", "cannot be part of a file name"), ("", "planid is empty"), ("a/b", "cannot be part")],
)
def test_an_identifier_cannot_lead_out_of_the_root(tmp_path: Path, plan: str, said: str) -> None:
    assert said in item(tmp_path, f"lmjd,planid,spid,fiberid\n55859,{plan},1,1\n", None).problem


def test_whole_numbers_saved_as_floats_are_whole_numbers(tmp_path: Path) -> None:
    name = "spec-0266-51602-0013.fits"
    assert item(tmp_path, "plate,mjd,fiber\n266.0,51602.0,13.0\n", name).file == str(tmp_path / "survey" / name)
    bad = item(tmp_path, "plate,mjd,fiber\n266.5,51602,13\n", None)
    assert bad.problem == f"{tmp_path}/list.csv line 2: plate is '266.5', a whole number is needed"
