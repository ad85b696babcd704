"""LAMOST with its token, and DESI with many targets a file: from servers on the loopback, joined by id."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator
from pathlib import Path

import get_services as services
import pytest
from get_lab import fetch, files_in, kinds, listed
from get_services import Archive, archive
from get_spectra import HEALPIX, desi_files, lamost_files, target

import specvet
from specvet.catalogue.getting import Ask, Got, Outcome, desi, lamost
from specvet.catalogue.getting.running import IN_A_ROW


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    undo = services.only_loopback()
    yield
    undo()


# LAMOST --------------------------------------------------------------------------------------------------------------

TOKEN = "F0123456789secret"


def obsids() -> list[str]:
    return [path.rsplit("/", 1)[-1] for path in lamost_files()]


@pytest.fixture
def nightly() -> Iterator[Archive]:
    """A LAMOST of three spectra that wants a token."""
    with archive(lamost_files()) as served:
        served.token = TOKEN
        yield served


def test_lamost_is_asked_with_its_token_and_files_lie_by_night_and_plan(nightly: Archive, tmp_path: Path) -> None:
    outcome = fetch([lamost.from_text(obsid) for obsid in obsids()], tmp_path, nightly.url, token=TOKEN)
    assert outcome.there == 3
    for row, obsid in zip(listed(tmp_path), obsids(), strict=True):
        spectrum = specvet.read(tmp_path / row["file"])[0]
        assert (spectrum.id, row["id"]) == (obsid, obsid)
        plan = spectrum.ids["planid"]
        assert row["file"].startswith("dr8/v2.0/fits/20")
        assert f"/{plan}/spec-{spectrum.ids['lmjd']}-{plan}_sp" in row["file"]
        assert row["file"].endswith(".fits.gz")
        assert (tmp_path / row["file"]).read_bytes() == nightly.files[f"dr8/v2.0/spectrum/fits/{obsid}"]
        assert row["address"] == f"{nightly.url}/dr8/v2.0/spectrum/fits/{obsid}"
    nightly.asked.clear()
    assert fetch([lamost.from_text(obsid) for obsid in obsids()], tmp_path, nightly.url, token=TOKEN).fetched == 0
    assert nightly.asked == []


def test_a_token_is_neither_logged_nor_stored_nor_sent_elsewhere(
    nightly: Archive, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for logger in (None, "httpx", "httpcore"):  # libraries that other tests load silence them
        caplog.set_level(logging.DEBUG, logger)
    one, two, three = obsids()
    with archive({"stolen": nightly.files[f"dr8/v2.0/spectrum/fits/{one}"]}) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        nightly.faults[one] = [services.moved(f"{elsewhere}/stolen?token={TOKEN}&x=1")]
        nightly.faults[two] = [services.status(500, f"bad token {TOKEN}")] * 9
        nightly.faults[three] = [services.moved(f"/dr8/v2.0/spectrum/fits/{three}?token={TOKEN}")]
        outcome = fetch([lamost.from_text(obsid) for obsid in obsids()], tmp_path, nightly.url, token=TOKEN)
    assert [got.there for got in outcome.found] == [True, False, True]
    assert other.queries == [{"x": ["1"]}]
    assert nightly.queries[0] == {"token": [TOKEN]}
    assert "HTTP Request" in caplog.text, "the log was looked into"
    assert TOKEN not in caplog.text
    assert all(TOKEN.encode() not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert not any(TOKEN in str(got) for got in outcome.found)


@pytest.mark.parametrize(
    ("token", "hint"), [("", "set LAMOST_TOKEN to your account's token"), ("other", "is LAMOST_TOKEN right")]
)
def test_a_refusal_says_what_to_do_about_the_token_and_ends_a_long_list(
    token: str, hint: str, nightly: Archive, tmp_path: Path
) -> None:
    outcome = fetch([lamost.from_text(str(n)) for n in range(100, 150)], tmp_path, nightly.url, token=token)
    assert hint in outcome.given_up
    assert hint in listed(tmp_path)[0]["problem"]
    assert len(nightly.asked) < 3 * IN_A_ROW


def test_a_login_page_under_status_200_is_no_spectrum(nightly: Archive, tmp_path: Path) -> None:
    nightly.always = services.page("LAMOST - Login")
    outcome = fetch([lamost.from_text(obsids()[0])], tmp_path, nightly.url)
    assert kinds(outcome) == ["page"]
    assert "an HTML page (“LAMOST - Login”) instead of a spectrum" in outcome.found[0].problem
    assert "LAMOST_TOKEN" in outcome.found[0].problem


def test_a_gzip_stream_that_ends_early_is_asked_for_again(nightly: Archive, tmp_path: Path) -> None:
    nightly.faults[obsids()[0]] = [services.shortened(5_000)]
    outcome = fetch([lamost.from_text(obsids()[0])], tmp_path, nightly.url, token=TOKEN)
    assert outcome.there == 1
    assert nightly.count(obsids()[0]) == 2
    gzip.decompress((tmp_path / outcome.found[0].file).read_bytes())


def test_wrong_obsids_are_refused_though_the_archive_names_no_file(nightly: Archive, tmp_path: Path) -> None:
    one, two, _ = obsids()
    nightly.faults[one] = [services.instead(f"dr8/v2.0/spectrum/fits/{two}")]
    outcome = fetch([lamost.from_text(one)], tmp_path, nightly.url, token=TOKEN)
    assert kinds(outcome) == ["wrong"]
    assert files_in(tmp_path) == set()
    assert (tmp_path / ".get" / "wrong" / f"{one}.fits.wrong").is_file()


# DESI ----------------------------------------------------------------------------------------------------------------


def coadd_asks(*numbers: int, redrock: bool = True) -> list[Ask]:
    return [a for n in numbers for a in desi.from_text(f"main/dark/10378/{target(n)}", {}, redrock=redrock)]


def by_id(outcome: Outcome) -> dict[str, Got]:
    return {got.id: got for got in outcome.found}


def test_a_coadd_is_asked_for_once_and_its_targets_are_found_by_id(tmp_path: Path) -> None:
    with archive(desi_files()) as served:
        outcome = fetch(coadd_asks(4, 1, 99), tmp_path, served.url)
        assert len(served.asked) == 2
        assert [(got.there, got.row) for got in outcome.found] == [(True, 4), (True, 1), (False, 0)]
        assert by_id(outcome)[str(target(99))].problem == (
            f"{target(99)} is not in {HEALPIX}/main/dark/103/10378/coadd-main-dark-10378.fits"
        )
        more = fetch(coadd_asks(0, 4), tmp_path, served.url)
        assert len(served.asked) == 2, "another target of a coadd that is there needs no request"
    assert [got.row for got in more.found] == [0, 4]
    rows = {row["id"]: row for row in listed(tmp_path)}
    assert len(rows) == 4
    for n in (0, 1, 4):
        row = rows[str(target(n))]
        spectrum = specvet.read(tmp_path / row["file"])[int(row["row"])]
        assert spectrum.id == row["id"]
        assert spectrum.redshift.value is not None, "redrock lies beside it"


def test_a_redrock_catalogue_that_does_not_come_is_said_and_asked_for_the_next_time(tmp_path: Path) -> None:
    with archive(desi_files()) as served:
        served.faults["redrock-main-dark-10378.fits"] = [services.page("Down")] * 3
        outcome = fetch(coadd_asks(2), tmp_path, served.url)
        assert outcome.there == 1
        assert "redrock-main-dark-10378.fits did not come" in outcome.found[0].problem
        assert fetch(coadd_asks(2), tmp_path, served.url).found[0].problem == ""
        assert served.count("coadd-main-dark-10378.fits") == 1
        assert fetch(coadd_asks(2, redrock=False), tmp_path / "x", served.url).found[0].problem == ""
    assert len(files_in(tmp_path / "x")) == 1


def test_a_coadd_without_any_of_the_targets_is_another_one(tmp_path: Path) -> None:
    with archive(desi_files()) as served:
        outcome = fetch(coadd_asks(98, 99), tmp_path, served.url)
    assert kinds(outcome) == ["wrong", "wrong"]
    assert files_in(tmp_path) == set()
