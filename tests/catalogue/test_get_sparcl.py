"""SPARCL, against a service on the loopback that speaks its protocol: counted, and joined by sparcl_id."""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import get_services as services
import numpy as np
import pytest
from get_services import Sparcl, sparcl_service
from get_spectra import records, target

import specvet
from specvet.catalogue.getting import Ask, Folder, Outcome
from specvet.catalogue.getting import sparcl as getting
from specvet.catalogue.getting.sparcl_client import HARD_LIMIT, SparclClient


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    undo = services.only_loopback()
    yield
    undo()


@pytest.fixture
def service() -> Iterator[Sparcl]:
    """A SPARCL of five targets, the first of them with two spectra."""
    with sparcl_service([dict(record) for record in records()]) as served:
        yield served


def asks(*numbers: int) -> list[Ask]:
    return [getting.from_text(str(target(number))) for number in numbers]


waits: list[float] = []


def fetch(wanted: list[Ask], out: Path, url: str, timeout: float = 20.0) -> Outcome:
    waits.clear()
    with closing(Folder(out)) as folder:
        return getting.get_sparcl(wanted, folder, url, wait=waits.append, timeout=timeout)


def listed(out: Path) -> list[dict[str, str]]:
    with open(out / "get.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def endpoints(service: Sparcl) -> list[str]:
    return [endpoint for endpoint, _ in service.asked]


def test_a_targetid_gets_all_its_spectra_each_in_a_file_of_its_own(service: Sparcl, tmp_path: Path) -> None:
    outcome = fetch(asks(3, 0), tmp_path, service.url)
    assert (outcome.there, outcome.fetched) == (3, 3)
    rows = listed(tmp_path)
    assert [row["id"] for row in rows] == [str(target(3)), str(target(0)), str(target(0))]
    assert len({row["file"] for row in rows}) == 3
    by_id = {record["sparcl_id"]: record for record in records()}
    for row in rows:
        (spectrum,) = specvet.read(tmp_path / row["file"])
        record = by_id[spectrum.ids["sparcl_id"]]
        assert spectrum.ids["targetid"] == row["id"] == str(record["targetid"])
        assert np.array_equal(spectrum.flux, record["flux"])
        assert np.array_equal(spectrum.wavelength, record["wavelength"])
        assert (spectrum.survey, spectrum.medium, spectrum.frame) == ("DESI", "vacuum", "barycentric")
        assert row["file"] == f"sparcl/DESI-DR1/{record['sparcl_id'][:2]}/{record['sparcl_id']}.fits"
        assert row["sha256"] == specvet.records.file_hash(tmp_path / row["file"])


def test_records_in_any_order_twice_or_unasked_are_joined_by_their_sparcl_id(service: Sparcl, tmp_path: Path) -> None:
    service.twice = True
    service.extra = [record | {"sparcl_id": "00000000-0000-0000-0000-00000000ffff"} for record in records()[:2]]
    outcome = fetch(asks(4, 1, 2), tmp_path, service.url)
    assert [got.id for got in outcome.found] == [str(target(n)) for n in (4, 1, 2)]
    assert outcome.there == outcome.fetched == 3
    for got in outcome.found:
        assert specvet.read(tmp_path / got.file)[0].ids["targetid"] == got.id


def test_what_lies_there_is_not_taken_again_and_what_is_damaged_is(service: Sparcl, tmp_path: Path) -> None:
    first = fetch(asks(0, 1), tmp_path, service.url)
    service.asked.clear()
    assert fetch(asks(0, 1), tmp_path, service.url).fetched == 0
    assert "spectras" not in endpoints(service)
    before = listed(tmp_path)
    (tmp_path / first.found[2].file).write_bytes(b"half")
    assert fetch(asks(0, 1), tmp_path, service.url).fetched == 1
    assert ("spectras", 1) in service.asked
    assert [row["sha256"] for row in listed(tmp_path)] == [row["sha256"] for row in before]


def test_a_target_that_the_service_does_not_have_gets_a_row(service: Sparcl, tmp_path: Path) -> None:
    outcome = fetch(asks(1, 77), tmp_path, service.url)
    assert [str(got.kind) for got in outcome.found] == ["", "absent"]
    assert f"no spectrum of TARGETID {target(77)} in DESI-DR1" in listed(tmp_path)[1]["problem"]
    service.records.append(records()[1] | {"targetid": target(77), "sparcl_id": "00000000-0000-0000-0000-000000000777"})
    assert fetch(asks(1, 77), tmp_path, service.url).there == 2
    assert all(row["file"] for row in listed(tmp_path)), "the row that said it was absent is gone"


def test_a_record_that_is_listed_and_not_handed_out_is_asked_for_twice_and_said(
    service: Sparcl, tmp_path: Path
) -> None:
    lost = records()[2]["sparcl_id"]  # of target 1
    service.withheld = {lost}
    outcome = fetch(asks(1, 2), tmp_path, service.url)
    assert [got.there for got in outcome.found] == [False, True]
    assert f"sparcl_id {lost}" in outcome.found[0].problem
    assert [n for endpoint, n in service.asked if endpoint == "spectras"] == [2, 1]


def test_more_records_than_the_service_lists_at_once_are_found_by_halves(tmp_path: Path) -> None:
    base = records()[1]
    many = [
        base | {"targetid": target(n), "sparcl_id": f"{n:08d}-0000-0000-0000-000000000000"} for n in range(1000, 1300)
    ]
    with sparcl_service(many) as service:
        service.most = 60
        with SparclClient(service.url) as client:
            found = client.find([target(n) for n in range(1000, 1300)], "DESI-DR1")
        assert {str(r["targetid"]) for r in found.values()} == {str(r["targetid"]) for r in many}
        assert len(found) == 300
        assert {limit for _, limit in service.asked} == {HARD_LIMIT}, "never the default of 500"


def test_more_spectra_than_one_page_are_taken_page_by_page(
    service: Sparcl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getting, "TAKEN_AT_ONCE", 2)
    monkeypatch.setattr(getting, "ASKED_AT_ONCE", 3)
    outcome = fetch(asks(4, 3, 2, 1, 0), tmp_path, service.url)
    assert outcome.there == 6
    assert [n for endpoint, n in service.asked if endpoint == "spectras"] == [2, 1, 2, 1]
    assert [got.id for got in outcome.found] == [str(target(n)) for n in (4, 3, 2, 1, 0, 0)]


def test_a_count_that_does_not_agree_is_said(service: Sparcl, tmp_path: Path) -> None:
    service.most = 1
    outcome = fetch(asks(0), tmp_path, service.url)
    assert outcome.there == 0
    assert f"counts 2 spectra of TARGETID {target(0)} and lists 1" in outcome.given_up


def test_a_record_of_another_target_is_refused(service: Sparcl, tmp_path: Path) -> None:
    assert records()[2]["targetid"] == target(1)
    wrong = records()[2]["sparcl_id"]
    service.withheld = {wrong}
    service.extra = [records()[3] | {"sparcl_id": wrong}]
    outcome = fetch(asks(1), tmp_path, service.url)
    assert [str(got.kind) for got in outcome.found] == ["wrong"]
    assert f"is TARGETID {target(2)}, not {target(1)}" in outcome.found[0].problem
    assert list(tmp_path.rglob("*.fits")) == []


@pytest.mark.parametrize("busy", [[429], [500, 503]])
def test_a_busy_service_is_asked_again(service: Sparcl, tmp_path: Path, busy: list[int]) -> None:
    service.busy = list(busy)
    assert fetch(asks(1), tmp_path, service.url).there == 1
    assert waits == [1.0, 2.0][: len(busy)]


def test_a_service_that_stays_busy_is_given_up_and_what_is_there_is_kept(service: Sparcl, tmp_path: Path) -> None:
    fetch(asks(1), tmp_path, service.url)
    service.busy = [503] * 100
    outcome = fetch(asks(1, 2), tmp_path, service.url)
    assert [got.there for got in outcome.found] == [True, False]
    assert "asked 4 times" in outcome.given_up
    service.busy = []
    assert fetch(asks(1, 2), tmp_path, service.url).there == 2
    assert [bool(row["file"]) for row in listed(tmp_path)] == [True, True]


def test_a_dead_service_a_page_of_html_and_one_that_is_silent_are_said(service: Sparcl, tmp_path: Path) -> None:
    dead = fetch(asks(1, 2), tmp_path / "dead", services.nobody())
    assert [str(got.kind) for got in dead.found] == ["unreachable"] * 2
    assert "refused" in dead.given_up
    service.html = True
    page = fetch(asks(1), tmp_path / "page", service.url)
    assert "no answer of SPARCL" in page.given_up
    service.html, service.silent = False, threading.Event()
    silent = fetch(asks(1), tmp_path / "silent", service.url, timeout=0.1)
    assert [str(got.kind) for got in silent.found] == ["unreachable"]
    assert all(row["problem"] for out in ("dead", "page", "silent") for row in listed(tmp_path / out))


def test_a_data_set_that_the_service_does_not_have_is_said(service: Sparcl, tmp_path: Path) -> None:
    outcome = fetch([getting.from_text(str(target(1)), "DESI-DR9")], tmp_path, service.url)
    assert "has no data set DESI-DR9; it has DESI-DR1, SDSS-DR17" in outcome.given_up


@pytest.mark.parametrize(
    ("endpoint", "answer", "said"),
    [
        ("api/version", b"15.0", "version 15.0 of SPARCL's protocol"),
        ("api/version", b"soon", "no answer of SPARCL"),
        ("api/version", b"null", "no answer of SPARCL"),
        ("api/datafields", b'[{"x": 1}]', "has no data set DESI-DR1"),
        ("api/datafields", b'{"x": 1}', "no answer of SPARCL"),
        ("api/datafields", b'[{"data_release": "DESI-DR1", "newdp": "flux", "origdp": "f"}]', "has no field"),
        ("api/find", b"[]", "does not count"),
        ("api/find", b'[{}, {"count": "many"}]', "does not count"),
        ("api/find", b"<html>", "no answer of SPARCL"),
        ("api/spectras", b"[1, 2]", "no answer of SPARCL"),
        ("api/spectras", b"\x80\x04pickle", "no answer of SPARCL"),
    ],
)
def test_an_answer_that_is_none_of_sparcl_is_said(
    endpoint: str, answer: bytes, said: str, service: Sparcl, tmp_path: Path
) -> None:
    service.spoilt = {endpoint: answer}
    outcome = fetch(asks(1), tmp_path, service.url)
    assert outcome.there == 0
    assert said in outcome.given_up
    service.spoilt = {}
    assert fetch(asks(1), tmp_path, service.url).there == 1


def test_a_record_without_arrays_is_said(service: Sparcl, tmp_path: Path) -> None:
    service.records[2] |= {"flux": None}
    outcome = fetch(asks(1, 2), tmp_path, service.url)
    assert [str(got.kind) for got in outcome.found] == ["damaged", ""]
    assert "needs wavelength and flux" in listed(tmp_path)[0]["problem"]
