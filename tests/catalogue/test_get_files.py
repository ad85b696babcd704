"""Files come over a real HTTP connection from a server on the loopback: whole, the right ones, once, politely."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import get_services as services
import pytest
from get_lab import fetch, files_in, kinds, listed, waits
from get_services import Archive, archive
from get_spectra import field_file, sdss_files, sdss_ids

import specvet
from specvet.catalogue.getting import Ask, sdss
from specvet.catalogue.getting.line import AGENT
from specvet.catalogue.getting.running import IN_A_ROW


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    undo = services.only_loopback()
    yield
    undo()


@pytest.fixture
def plates() -> Iterator[Archive]:
    """An SDSS of three plates."""
    with archive(sdss_files()) as served:
        yield served


def plate_asks() -> list[Ask]:
    return [sdss.from_text(text) for text in sdss_ids()]


def first() -> tuple[str, str, str]:
    """(path, end of the path, id) of the first plate's spectrum."""
    path = next(iter(sdss_files()))
    return path, path.rsplit("/", 1)[-1], sdss_ids()[0]


def test_no_address_but_loopback_can_be_reached_by_these_tests(tmp_path: Path) -> None:
    with pytest.raises(services.LeftTheMachineError):
        fetch(plate_asks(), tmp_path, "https://data.sdss.org")
    with pytest.raises(services.LeftTheMachineError):
        fetch(plate_asks(), tmp_path, "http://192.0.2.1")


def test_files_lie_as_in_the_archive_and_the_list_has_their_hashes_and_addresses(
    plates: Archive, tmp_path: Path
) -> None:
    outcome = fetch(plate_asks(), tmp_path, plates.url)
    assert (outcome.there, outcome.fetched, outcome.given_up) == (3, 3, "")
    assert outcome.bytes == sum(map(len, sdss_files().values()))
    for path, content in sdss_files().items():
        assert (tmp_path / path).read_bytes() == content
    rows = listed(tmp_path)
    assert [row["id"] for row in rows] == sdss_ids()
    for row, (path, content) in zip(rows, sdss_files().items(), strict=True):
        assert (row["file"], row["row"], row["bytes"]) == (path, "0", str(len(content)))
        assert row["sha256"] == specvet.records.bytes_hash(content)
        assert (row["address"], row["problem"]) == (f"{plates.url}/{path}", "")
    assert set(plates.agents) == {AGENT}
    assert AGENT.startswith(f"specvet/{specvet.__version__} ")


def test_spectra_are_joined_by_id_whatever_the_order_of_asking_and_answering(plates: Archive, tmp_path: Path) -> None:
    outcome = fetch(plate_asks()[::-1], tmp_path, plates.url, connections=3)
    assert [got.id for got in outcome.found] == sdss_ids()[::-1]
    assert [row["id"] for row in listed(tmp_path)] == sdss_ids()[::-1]
    for row in listed(tmp_path):
        assert specvet.read(tmp_path / row["file"])[0].id == row["id"]


def test_a_reduction_that_is_not_known_is_tried_out_and_an_absent_spectrum_gets_a_row(tmp_path: Path) -> None:
    path, end, _ = first()
    with archive({path.replace("/26/", "/104/"): sdss_files()[path]}) as served:
        outcome = fetch([*plate_asks()[:1], sdss.from_text("266-51602-13")], tmp_path, served.url)
    assert [got.there for got in outcome.found] == [True, False]
    assert served.count(end) == 3
    assert listed(tmp_path)[0]["file"] == path.replace("/26/", "/104/")
    absent = listed(tmp_path)[1]
    assert (absent["file"], absent["row"], absent["id"]) == ("", "", "0266-51602-0013")
    assert absent["problem"].startswith(f"not in the archive: {served.url}/sas/dr17/")
    assert "nor at 2 other places" in absent["problem"]


def test_another_objects_file_is_refused_kept_aside_and_said(plates: Archive, tmp_path: Path) -> None:
    path, end, id = first()
    other = list(sdss_files())[1]
    plates.faults[end] = [services.instead(other)]
    outcome = fetch(plate_asks(), tmp_path, plates.url)
    assert kinds(outcome) == ["wrong", "", ""]
    assert path not in files_in(tmp_path)
    problem = listed(tmp_path)[0]["problem"]
    assert f"is {sdss_ids()[1]}, not {id}" in problem
    aside = tmp_path / ".get" / "wrong" / f"{end}.wrong"
    assert problem.endswith(f"kept as .get/wrong/{end}.wrong")
    assert aside.read_bytes() == sdss_files()[other]
    assert fetch(plate_asks(), tmp_path, plates.url).there == 3


@pytest.mark.parametrize(
    ("fault", "wait"),
    [
        (services.status(503, Retry_After="7"), 7.0),
        (services.status(429, Retry_After="3"), 3.0),
        (services.status(500), 1.0),
        (services.status(502), 1.0),
        (services.cut(1000), 1.0),
        (services.reset, 1.0),
        (services.shortened(20_000), 1.0),
        (services.shortened(0), 1.0),
        (services.page("Down for maintenance"), 1.0),
    ],
    ids=["503", "429", "500", "502", "cut", "reset", "truncated", "empty", "page"],
)
def test_what_passes_is_asked_for_again_after_a_wait(
    fault: services.Fault, wait: float, plates: Archive, tmp_path: Path
) -> None:
    path, end, _ = first()
    plates.faults[end] = [fault]
    outcome = fetch(plate_asks()[:1], tmp_path, plates.url)
    assert outcome.there == 1
    assert plates.count(end) == 2
    assert len(waits) == 1
    assert wait - 0.5 < waits[0] <= wait
    assert (tmp_path / path).read_bytes() == sdss_files()[path]


def test_a_service_that_is_slow_is_asked_again(plates: Archive, tmp_path: Path) -> None:
    path, end, _ = first()
    plates.faults[end] = [services.hold]
    assert fetch(plate_asks()[:1], tmp_path, plates.url, timeout=0.5).there == 1
    assert plates.count(end) >= 2
    assert (tmp_path / path).read_bytes() == sdss_files()[path]


@pytest.mark.parametrize(
    ("fault", "kind", "said", "times"),
    [
        (services.status(503, Retry_After="0"), "unreachable", "HTTP 503; asked 5 times", 5),
        (services.status(503, Retry_After="9000"), "unreachable", "left alone for 9,000 s", 1),
        (services.status(403), "refused", "HTTP 403", 1),
        (services.status(400), "page", "HTTP 400", 1),
        (services.page("Down"), "page", "an HTML page (“Down”) instead of a spectrum", 3),
        (services.shortened(20_000), "damaged", "truncated", 3),
        (services.cut(100), "unreachable", "asked 5 times", 5),
        (services.reset, "unreachable", "asked 5 times", 5),
        (services.moved("/elsewhere"), "absent", "not in the archive", 0),
        (services.moved("ftp://127.0.0.1/x"), "page", "redirects to ftp", 1),
        (services.moved("http://[x"), "page", "what is no address", 1),
    ],
    ids=[
        "503",
        "wait-too-long",
        "403",
        "400",
        "page",
        "truncated",
        "cut",
        "reset",
        "moved-to-nothing",
        "moved-to-ftp",
        "moved-nowhere",
    ],
)
def test_what_does_not_pass_is_given_up_and_the_row_says_why(
    fault: services.Fault, kind: str, said: str, times: int, plates: Archive, tmp_path: Path
) -> None:
    _, end, _ = first()
    plates.faults[end] = [fault] * 20
    outcome = fetch(plate_asks(), tmp_path, plates.url)
    assert kinds(outcome) == [kind, "", ""]
    assert said in listed(tmp_path)[0]["problem"]
    assert len(files_in(tmp_path)) == 2
    assert plates.count(end) == (times or 3)
    assert not list((tmp_path / ".get" / "parts").iterdir())


def test_a_file_that_moved_is_followed_and_its_last_address_is_kept(plates: Archive, tmp_path: Path) -> None:
    path, end, _ = first()
    plates.files["new/place.fits"] = sdss_files()[path]
    plates.faults[end] = [services.moved("/new/place.fits")]
    assert fetch(plate_asks()[:1], tmp_path, plates.url).there == 1
    row = listed(tmp_path)[0]
    assert (row["file"], row["address"]) == (path, f"{plates.url}/new/place.fits")
    plates.files["loop"] = b""
    plates.faults["new/loop"] = [services.moved("/new/loop")] * 20
    plates.faults[list(sdss_files())[1].rsplit("/", 1)[-1]] = [services.moved("/new/loop")] * 20
    outcome = fetch(plate_asks()[1:2], tmp_path, plates.url)
    assert "redirected more than 5 times" in outcome.found[0].problem


def test_what_lies_there_is_not_asked_for_again_and_what_is_damaged_is(plates: Archive, tmp_path: Path) -> None:
    paths = list(sdss_files())
    fetch(plate_asks(), tmp_path, plates.url)
    plates.asked.clear()
    again = fetch(plate_asks(), tmp_path, plates.url)
    assert (again.there, again.fetched, plates.asked) == (3, 0, [])
    content = bytearray(sdss_files()[paths[0]])
    content[9000] ^= 1  # a bit of a pixel: it still reads
    (tmp_path / paths[0]).write_bytes(bytes(content))
    (tmp_path / paths[1]).unlink()
    (tmp_path / paths[2]).write_bytes(sdss_files()[paths[2]][:10_000])
    assert fetch(plate_asks(), tmp_path, plates.url).fetched == 3
    assert sorted(plates.asked) == sorted(paths)
    assert all((tmp_path / path).read_bytes() == sdss_files()[path] for path in paths)


def test_a_file_that_somebody_else_put_there_is_taken_if_it_is_the_right_one(plates: Archive, tmp_path: Path) -> None:
    paths = list(sdss_files())
    for path, content in zip(paths, [sdss_files()[paths[0]], sdss_files()[paths[2]]], strict=False):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(content)
    assert fetch(plate_asks()[:2], tmp_path, plates.url).there == 2
    assert plates.asked == [paths[1]]
    assert (tmp_path / paths[1]).read_bytes() == sdss_files()[paths[1]]
    assert listed(tmp_path)[0]["address"] == ""


def test_a_folder_remembers_what_was_asked_before_and_keeps_its_order(plates: Archive, tmp_path: Path) -> None:
    fetch(plate_asks()[1:2], tmp_path, plates.url)
    fetch([sdss.from_text("266-51602-13"), *plate_asks()], tmp_path, plates.url)
    one, two, three = sdss_ids()
    assert [row["id"] for row in listed(tmp_path)] == [two, "0266-51602-0013", one, three]
    fetch([sdss.from_text(three)], tmp_path, plates.url)
    assert [row["id"] for row in listed(tmp_path)] == [two, "0266-51602-0013", one, three]


def test_a_dead_service_is_left_alone_and_what_was_not_asked_for_says_so(plates: Archive, tmp_path: Path) -> None:
    many = [sdss.from_text(f"300-52000-{n}", run2d="26") for n in range(1, 40)]
    outcome = fetch(many, tmp_path, services.nobody())
    assert outcome.there == 0
    assert set(kinds(outcome)) == {"unreachable", "stopped"}
    assert kinds(outcome).count("unreachable") < 3 * IN_A_ROW
    assert "refused" in outcome.given_up.lower()
    rows = listed(tmp_path)
    assert len(rows) == 39
    assert all(row["problem"] for row in rows)
    assert rows[-1]["problem"].startswith("not got: the service had stopped answering")


def test_a_dead_service_does_not_make_what_is_there_forgotten(plates: Archive, tmp_path: Path) -> None:
    fetch(plate_asks(), tmp_path, plates.url)
    before = listed(tmp_path)
    assert fetch(plate_asks(), tmp_path, services.nobody()).there == 3
    assert listed(tmp_path) == before


def test_no_more_connections_are_open_than_allowed(tmp_path: Path) -> None:
    content = next(iter(sdss_files().values()))
    many = [sdss.from_text(f"300-52000-{n}", run2d="26") for n in range(1, 30)]
    with archive({ask.paths[0]: content for ask in many}) as served:
        outcome = fetch(many, tmp_path, served.url, connections=2)
    assert served.most_at_once <= 2
    assert set(kinds(outcome)) == {"wrong"}
    assert len(served.asked) == 29


def test_a_stop_ends_with_what_is_under_way_and_the_next_call_goes_on(plates: Archive, tmp_path: Path) -> None:
    stop = threading.Event()

    def tell(done: int, total: int) -> None:
        if done:
            stop.set()

    outcome = fetch(plate_asks(), tmp_path, plates.url, stop=stop, tell=tell)
    assert 1 <= outcome.there < 3
    rest = [row for row in listed(tmp_path) if not row["file"]]
    assert {row["problem"] for row in rest} == {"not got: the command was stopped"}
    plates.asked.clear()
    assert fetch(plate_asks(), tmp_path, plates.url).there == 3
    assert len(plates.asked) == 3 - outcome.there


def test_sdss_v_is_joined_by_field_night_and_catalogid(tmp_path: Path) -> None:
    path, content = field_file()
    with archive({path: content}) as served:
        outcome = fetch([sdss.from_text("15000-59146-4375924756")], tmp_path, served.url)
        wrong = sdss.from_text("15000-59146-4375924757")
        served.files[wrong.paths[0]] = content
        other = fetch([wrong], tmp_path, served.url)
    assert (outcome.there, outcome.found[0].file) == (1, path)
    assert kinds(other) == ["wrong"]
