"""Archives that fail, lie, stop half-way or are slow: what is refused, what is asked again, what others still say."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from archive_services import Services
from archive_sky import Star

from specvet.catalogue import Match, Sighting
from specvet.catalogue.archive import Cache, Settings, asked, named, transport
from specvet.catalogue.archive.tap import availability

pytest.importorskip("pyvo", reason="needs the archive extra")

STARS = [
    Star(5_000 + i, 10.0 + i, -20.0 + i, 100.0, -50.0, simbad=f"SIM {i}", otype="CV*", vsx=f"V{i}" if i % 2 else "")
    for i in range(12)
]
SIGHTINGS = [
    Sighting((f"s{i}", 0), ra=star.ra, dec=star.dec, mjd=57388.5, gaia_id=str(star.source_id))
    for i, star in enumerate(STARS)
]


@pytest.fixture(scope="module")
def running() -> Iterator[Services]:
    with Services(STARS) as made:
        yield made


@pytest.fixture
def services(running: Services) -> Services:
    running.asked.clear()
    running.deleted.clear()
    running.jobs.clear()
    running._faults.clear()
    return running


def settings(services: Services, **more: object) -> Settings:
    return Settings.model_validate({"addresses": services.addresses, "poll_s": 0, "backoff_s": 0, **more})


class Told(list[str]):
    """What people were told."""

    def match(
        self, services: Services, text: str, folder: Path, rows: Sequence[Sighting] = SIGHTINGS, **more: object
    ) -> list[Match]:
        return list(asked(rows, named(text), settings(services, **more), Cache(folder), tell=self.append))


@pytest.fixture
def told() -> Told:
    return Told()


def sound(found: Sequence[Match]) -> bool:
    return [m.gaia.source_id if m.gaia else "" for m in found] == [str(s.source_id) for s in STARS]


REFUSED = {
    "html200": "sent a web page (HTML) where a VOTable belongs: `Maintenance We are back at noon`",
    "503": "answered HTTP 503 Service Unavailable (busy)",
    "html503": "answered HTTP 503 Service Unavailable; ask again later",
    "empty": "sent an empty answer",
    "csv": "sent text/csv that is none where a VOTable belongs: `angDist,specvet_place 0.1,1`",
    "truncated": "sent a VOTable that is cut short after",
    "cut": "sent a VOTable that is cut short after",
    "miscounted": "announced 13 rows and sent 12",
    "reset": "could not be reached, or broke off",
    "strangers": "sent rows that nobody asked for (specvet_place 999999, 1 in all)",
    "rotated": "mixed up its rows: place",
    "far": "″ away, where 19″ were asked",
    "contradicting": "says two different things of Gaia source 5000",
    "nameless": "did not send back specvet_place, specvet_ra, specvet_dec",
}
NO_JOB = "answered with something that is no TAP job"
"""Where TAP sends a page in place of a job."""
ROUTES = {"xmatch": "gaia", "gaia": "gaia@tap"}


@pytest.mark.parametrize("service", ROUTES)
@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_is_refused_with_the_address_and_the_second_answer_is_taken(
    services: Services, told: Told, tmp_path: Path, service: str, fault: str
) -> None:
    services.fault(service, fault)
    assert sound(told.match(services, ROUTES[service], tmp_path))
    (line,) = told
    assert line.startswith(services.addresses[service])
    assert (NO_JOB if (service, fault) == ("gaia", "html200") else REFUSED[fault]) in line
    assert line.endswith("Trying again in 0 s (1 of 4)")


@pytest.mark.parametrize("service", ROUTES)
@pytest.mark.parametrize("fault", ["reversed", "twice"])
def test_another_order_and_rows_that_come_twice_change_nothing(
    services: Services, told: Told, tmp_path: Path, service: str, fault: str
) -> None:
    services.fault(service, fault)
    found = told.match(services, ROUTES[service], tmp_path)
    assert sound(found)
    assert all(m.notes == () for m in found)
    assert told == []


def test_places_that_tap_leaves_out_are_noticed_by_their_number(services: Services, told: Told, tmp_path: Path) -> None:
    services.fault("gaia", "dropped")
    assert sound(told.match(services, "gaia@tap", tmp_path))
    assert "left out 6 of 12 places" in told[0]


def test_places_that_xmatch_leaves_out_are_noticed_by_the_sources_that_files_state(
    services: Services, told: Told, tmp_path: Path
) -> None:
    services.fault("xmatch", "dropped")
    assert sound(told.match(services, "gaia", tmp_path))
    assert "left out 6 places that have Gaia sources" in told[0]
    assert services.count("xmatch") == 3  # the list, what is missing, the list again


@pytest.mark.parametrize("fault", [f for f in REFUSED if f != "contradicting"])
def test_a_service_that_goes_on_failing_is_given_up_and_the_others_answer(
    services: Services, told: Told, tmp_path: Path, fault: str
) -> None:
    services.fault("simbad", *[fault] * 3)
    found = told.match(services, "gaia,simbad@tap,vsx", tmp_path, tries=3, piece=4)
    assert sound(found)
    for i, m in enumerate(found):
        assert m.asked == ("gaia", "vsx")
        assert [k.name for k in m.known] == ([f"V{i}"] if i % 2 else [])
        (note,) = m.notes
        assert note.startswith(f"simbad was not asked: {services.addresses['simbad']}")
        said = NO_JOB if fault == "html200" else REFUSED[fault]
        assert said.replace("sent 12", "sent 4").replace("announced 13", "announced 5") in note
    assert told[-1].startswith("simbad is not asked any more: ")
    assert len(told) == 3
    again = told.match(services, "gaia,simbad@tap,vsx", tmp_path, piece=4)  # it is back
    assert sound(again)
    assert {m.asked for m in again} == {("gaia", "simbad", "vsx")}
    assert [m.known[0].name for m in again] == [f"SIM {i}" for i in range(12)]
    assert services.count("xmatch") == 6  # two catalogues in three pieces, once each


def test_a_service_that_is_not_there_is_asked_for_one_piece_of_one_catalogue_only(
    services: Services, told: Told, tmp_path: Path
) -> None:
    with socket.socket() as taken:  # bound, and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/xmatch"
        addresses = {**services.addresses, "xmatch": nobody}
        found = told.match(services, "gaia@tap,simbad,vsx", tmp_path, addresses=addresses, piece=4, tries=2)
    assert sound(found)
    assert {m.asked for m in found} == {("gaia",)}
    assert len(told) == 2
    assert f"{nobody} could not be reached, or broke off: Connection refused; check the network" in told[0]
    assert all([n.partition(":")[0] for n in m.notes] == ["simbad was not asked", "vsx was not asked"] for m in found)


@pytest.mark.parametrize("service", ROUTES)
@pytest.mark.parametrize("fault", ["silent", "dripping"])
def test_a_slow_service_is_left_at_the_time_that_was_set(
    services: Services, told: Told, tmp_path: Path, service: str, fault: str
) -> None:
    services.fault(service, fault)
    found = told.match(services, ROUTES[service], tmp_path, timeout_s=0.4, tries=1)
    assert {m.asked for m in found} == {()}
    assert told == [
        f"gaia is not asked any more: {services.addresses[service]} did not answer within 0.4 s; ask again later, in "
        "smaller pieces, or with a larger --timeout"
    ]


@pytest.mark.parametrize(("fault", "says"), [("dripping", "did not answer within 0.4 s"), ("bomb", "sent more than")])
def test_a_job_that_drips_or_unpacks_to_no_end_is_left(
    services: Services, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, says: str
) -> None:
    monkeypatch.setattr(services, "job_fault", fault)
    monkeypatch.setattr(transport, "SMALL", 2**16)
    found = told.match(services, "gaia@tap", tmp_path, timeout_s=0.4 if fault == "dripping" else 60.0, tries=1)
    assert {m.asked for m in found} == {()}
    assert says in told[0]


@pytest.mark.parametrize("phase", ["QUEUED", "HELD", "EXECUTING"])
def test_a_job_that_never_ends_is_left_and_deleted(
    services: Services, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    monkeypatch.setattr(services, "phases", (phase,) * 2)
    monkeypatch.setattr(services, "endless", True)
    found = told.match(services, "gaia@tap", tmp_path, timeout_s=0.3, tries=1)
    assert {m.asked for m in found} == {()}
    assert "did not answer within 0.3 s" in told[0]
    assert services.jobs == {}


@pytest.mark.parametrize("service", ROUTES)
def test_a_piece_with_too_many_rows_is_halved_until_it_fits(
    services: Services, told: Told, tmp_path: Path, service: str
) -> None:
    assert sound(told.match(services, ROUTES[service], tmp_path, most_rows=5))
    sizes = [
        fields[k][1].count(b"<TR>") for _, fields in services.asked for k in fields if isinstance(fields[k], tuple)
    ]
    assert sizes == [12, 6, 3, 3, 6, 3, 3]
    assert told == []


def test_a_place_with_too_many_sources_for_the_service_is_told_and_the_rest_is_answered(
    services: Services, told: Told, tmp_path: Path
) -> None:
    services.fault("xmatch", *["overflow:0"] * 5)  # 12, 6, 3, then 1: the first place for itself
    found = told.match(services, "gaia", tmp_path)
    assert [m.asked for m in found] == [(), *[("gaia",)] * 11]
    assert found[0].notes == ("gaia was not asked: it gave only a part of what is there, also for this place alone",)
    assert [m.gaia.source_id for m in found[1:] if m.gaia] == [str(s.source_id) for s in STARS[1:]]


def test_what_a_service_calls_wrong_is_said_once_and_not_asked_again(
    services: Services, told: Told, tmp_path: Path
) -> None:
    found = told.match(services, "gaia,a=J/NO/SUCH,b=J/NO/SUCH@tap,c=nowhere@tap,d=B/vsx/vsx", tmp_path, piece=6)
    assert {m.asked for m in found} == {("gaia", "d")}
    vizier = services.addresses["vizier"]
    assert told == [
        f"a is not asked any more: {services.addresses['xmatch']} answered HTTP 400 Bad Request (Catalogue must be a "
        "URL or simbad or vizier:tabName: 'vizier:J/NO/SUCH')",
        f"b is not asked any more: {vizier} has no table J/NO/SUCH; give it as the service names it, as in "
        "J/A+A/662/A40/knownhsd",
        f"c is not asked any more: {vizier} has no table nowhere; give it as the service names it, as in "
        "J/A+A/662/A40/knownhsd",
    ]


def test_an_error_within_a_votable_with_status_200_and_a_ban_are_said(
    services: Services, told: Told, tmp_path: Path
) -> None:
    services.fault("xmatch", "error200")
    services.fault("simbad", "error200")
    assert {m.asked for m in told.match(services, "gaia,simbad@tap", tmp_path)} == {()}
    assert [line.partition("more: ")[2] for line in told] == [
        f"{services.addresses['xmatch']} answered with an error: the database is away",
        f"{services.addresses['simbad']} answered with an error: the database is away",
    ]
    told.clear()
    services.fault("xmatch", "403")
    told.match(services, "gaia", tmp_path)
    assert "HTTP 403 Forbidden (your address is banned); it does not serve this machine" in told[0]


def test_a_job_that_ends_with_an_error_says_which_and_is_deleted(
    services: Services, told: Told, tmp_path: Path
) -> None:
    found = told.match(services, "simbad:no_such_column@tap", tmp_path)
    assert {m.asked for m in found} == {()}
    (line,) = told
    assert line == (
        f"simbad is not asked any more: {services.addresses['simbad']} ended the job with ERROR: "
        "no such column: c.no_such_column"
    )
    assert services.jobs == {}
    assert len(services.deleted) == 1


def test_a_page_in_place_of_a_job_is_refused(services: Services, told: Told, tmp_path: Path) -> None:
    addresses = {**services.addresses, "gaia": f"{services.root}/nothing/here"}
    told.match(services, "gaia@tap", tmp_path, addresses=addresses, tries=2)
    assert "/nothing/here answered HTTP 404" in told[-1]
    told.clear()
    addresses["gaia"] = f"{services.root}/pages/tap"
    services.fault("pages", "html200")
    found = told.match(services, "gaia@tap", tmp_path, addresses=addresses, tries=2)
    assert "/pages/tap answered with something that is no TAP job" in told[0]
    assert {m.asked for m in found} == {("gaia",)}


def test_a_tap_service_that_is_down_says_so_itself(services: Services, told: Told, tmp_path: Path) -> None:
    assert availability(services.addresses["gaia"]) == ""
    assert availability(f"{services.root}/nothing") == ""
    services.fault("gaia", "503", "down")
    told.match(services, "gaia@tap", tmp_path, tries=1)
    assert told[0].endswith("(its /availability says: disk full until noon)")


def test_what_was_answered_is_not_asked_again_and_a_damaged_file_is(
    services: Services, told: Told, tmp_path: Path
) -> None:
    text = "gaia,simbad@tap,c=B/vsx/vsx@tap"
    first = told.match(services, text, tmp_path, piece=5)
    asked_first = len(services.asked)
    assert asked_first == 3 + 3 + 1 + 3
    assert told.match(services, text, tmp_path, piece=5) == first
    assert len(services.asked) == asked_first
    for number, path in enumerate(sorted(tmp_path.glob("*.vot.gz"))):
        data = path.read_bytes()
        damaged = (b"", data[: len(data) // 2], data[:40] + b"\xff\xff\xff" + data[43:], b"<html></html>")
        path.write_bytes(damaged[number % 4])
    assert told.match(services, text, tmp_path, piece=5) == first
    assert len(services.asked) == 2 * asked_first
    # Another question, another answer: a wider search is asked anew.
    told.match(services, "gaia", tmp_path, piece=5, radius_arcsec=5.0)
    assert len(services.asked) == 2 * asked_first + 3


_MATCH = """
import sys
from specvet.catalogue import Sighting
from specvet.catalogue.archive import Cache, Settings, asked, named
address, folder = sys.argv[1:]
rows = [Sighting((f"s{i}", 0), ra=10.0 + i, dec=-20.0 + i, mjd=57388.5) for i in range(12)]
settings = Settings(addresses={"xmatch": address}, piece=3)
for number, match in enumerate(asked(rows, named("gaia,simbad"), settings, Cache(folder))):
    print(number, flush=True)
    if number == 5:
        sys.stdin.read()
"""


def test_a_match_that_was_killed_goes_on_where_it_stood(services: Services, told: Told, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _MATCH, services.addresses["xmatch"], str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(6)] == [str(i) for i in range(6)]
        os.kill(process.pid, signal.SIGKILL)
    assert services.count("xmatch") == 4
    rows = [Sighting(s.key, ra=s.ra, dec=s.dec, mjd=s.mjd) for s in SIGHTINGS]
    assert sound(told.match(services, "gaia,simbad", tmp_path, rows, piece=3))
    assert services.count("xmatch") == 8
    assert told == []


def test_progress_counts_places_by_catalogue(services: Services, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    rows = [*SIGHTINGS, SIGHTINGS[0]]
    list(asked(rows, named("gaia,vsx"), settings(services, piece=8), Cache(tmp_path), lambda *p: seen.append(p)))
    assert seen == [(f"asking {name}", n, 12) for n in (8, 12) for name in ("gaia", "vsx")]
