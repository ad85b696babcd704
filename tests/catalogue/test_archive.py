"""What archives say of a list: real clients and protocols against services on 127.0.0.1 over a SIMULATED sky."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from archive_services import Services
from archive_sky import Star

from specvet.catalogue import Match, Sighting
from specvet.catalogue.archive import Cache, Settings, asked, named

pytest.importorskip("pyvo", reason="needs the archive extra")

BY_XMATCH = "gaia,simbad,vsx,cvs=J/TEST/1/cvs"
BY_TAP = "gaia@tap,simbad@tap,vsx@tap,cvs=J/TEST/1/cvs@tap"
FAST = 4_000_000_000_000_000_003


def mjd(year: float) -> float:
    return 51544.5 + (year - 2000.0) * 365.25


def simulated_stars() -> list[Star]:
    """Forty SIMULATED stars, among them one of 2.1″/yr, with a bystander where it was in 2016."""
    rng = np.random.default_rng(3)
    made = [
        Star(
            4_000_000_000_000_000_100 + i,
            ra=float(rng.uniform(0, 360)),
            dec=float(np.degrees(np.arcsin(rng.uniform(-1, 1)))),
            pmra=float(rng.normal(0, 30)),
            pmdec=float(rng.normal(0, 30)),
            parallax=None if i == 5 else float(rng.uniform(0.5, 20)),
            simbad=f"SIM J{i:04d}" if i % 3 == 0 else "",
            otype="CV*" if i % 2 else "WD*",
            vsx=f"SIM V{i}" if i % 4 == 0 else "",
            vsx_type="UGSU",
            cv=f"SIM cv {i}" if i % 5 == 0 else "",
        )
        for i in range(37)
    ]
    fast = Star(FAST, 150.0, 30.0, 1500.0, -1470.0, 120.0, simbad="SIM fast", otype="PM*", vsx="SIM fast V", cv="fast")
    return [*made, fast, Star(FAST + 1, 150.0, 30.0002, 0.0, 0.0, 0.4), Star(FAST + 2, 359.9999, -89.9, None, None)]


STARS = simulated_stars()


def sightings_of(stars: Sequence[Star], year: float = 2006.0) -> list[Sighting]:
    made = []
    for i, star in enumerate(stars):
        ra, dec = star.at(year)
        made.append(Sighting((f"spec-{i}.fits", 0), id=f"secret-{i}", ra=ra, dec=dec, mjd=mjd(year), survey="sdss"))
    return made


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with Services(STARS) as running:
        yield running


def settings(services: Services, **more: object) -> Settings:
    return Settings.model_validate(
        {"addresses": services.addresses, "poll_s": 0, "backoff_s": 0, "fastest": 2.5, **more}
    )


def match(services: Services, sightings: Sequence[Sighting], text: str, folder: Path, **more: object) -> list[Match]:
    return list(asked(sightings, named(text), settings(services, **more), Cache(folder)))


@pytest.mark.parametrize("text", [BY_XMATCH, BY_TAP], ids=["xmatch", "tap"])
def test_every_star_is_found_as_the_sky_has_it(services: Services, tmp_path: Path, text: str) -> None:
    found = match(services, sightings_of(STARS), text, tmp_path, piece=7)
    assert [m.key for m in found] == [(f"spec-{i}.fits", 0) for i in range(len(STARS))]
    for m, star in zip(found, STARS, strict=True):
        assert m.asked == ("gaia", "simbad", "vsx", "cvs")
        assert m.gaia is not None
        assert m.gaia.source_id == str(star.source_id)
        assert m.gaia_separation_arcsec == pytest.approx(0.0, abs=0.01)
        assert (m.gaia.ra, m.gaia.dec, m.gaia.epoch) == (star.ra, star.dec, 2016.0)
        assert (m.gaia.pmra, m.gaia.pmdec, m.gaia.parallax) == (star.pmra, star.pmdec, star.parallax)
        assert (m.gaia.parallax_error, m.gaia.ruwe, m.gaia.g) == (0.05, 1.01, star.g)
        assert m.gaia.bp_rp == pytest.approx(0.5)
        known = {k.catalogue: k for k in m.known}
        expected = {"simbad": star.simbad, "vsx": star.vsx, "cvs": star.cv}
        assert {name: k.name for name, k in known.items()} == {name: n for name, n in expected.items() if n}
        for k in known.values():
            assert k.separation_arcsec == pytest.approx(0.0, abs=0.01)
        if star.simbad:
            assert known["simbad"].type == star.otype
        if star.vsx:
            assert known["vsx"].type == star.vsx_type


@pytest.mark.parametrize("text", ["gaia", "gaia@tap"])
def test_a_fast_star_is_itself_and_not_who_stands_where_it_was(services: Services, tmp_path: Path, text: str) -> None:
    fast = next(s for s in STARS if s.source_id == FAST)
    sightings = []
    for year in (2001.0, 2016.0, 2020.0):
        ra, dec = fast.at(year)
        sightings.append(Sighting((f"{year}", 0), ra=ra, dec=dec, mjd=mjd(year)))
    found = {m.key[0]: m for m in match(services, sightings, text, tmp_path)}
    assert {m.gaia.source_id for m in found.values() if m.gaia} == {str(FAST)}
    # In 2016 it passes its bystander: both lie within the radius, and that is said.
    assert found["2016.0"].notes == ("2 Gaia sources within 3″; the nearest was taken",)
    assert found["2001.0"].notes == ()


def test_a_catalogue_without_motions_is_read_where_the_star_was_in_2000(services: Services, tmp_path: Path) -> None:
    fast = [s for s in STARS if s.source_id == FAST]
    (with_gaia,) = match(services, sightings_of(fast, 2020.0), "gaia,vsx,cvs=J/TEST/1/cvs", tmp_path)
    assert {k.catalogue: k.name for k in with_gaia.known} == {"vsx": "SIM fast V", "cvs": "fast"}
    (without,) = match(services, sightings_of(fast, 2020.0), "vsx", tmp_path)
    assert without.known == ()
    assert without.asked == ("vsx",)


@pytest.mark.parametrize("how", ["wds=J/TEST/2/wds", "wds=J/TEST/2/wds@tap"])
@pytest.mark.parametrize("year", [2001.0, 2016.0, 2020.0])
def test_a_table_with_the_positions_of_gaia_is_carried_from_their_epoch(
    services: Services, tmp_path: Path, how: str, year: float
) -> None:
    fast = [s for s in STARS if s.source_id == FAST]
    (found,) = match(services, sightings_of(fast, year), how, tmp_path)
    assert [(k.name, k.separation_arcsec) for k in found.known] == [("fast", pytest.approx(0.0, abs=0.01))]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_service_that_has_moved_gets_the_list_at_its_new_address(
    services: Services, tmp_path: Path, status: int
) -> None:
    addresses = {**services.addresses, "xmatch": f"{services.root}/moved/{status}"}
    (found,) = match(services, sightings_of(STARS[:1]), "gaia", tmp_path, addresses=addresses)
    assert found.gaia is not None
    assert found.gaia.source_id == str(STARS[0].source_id)


def test_what_was_read_is_closed_before_more_is_asked(services: Services) -> None:
    from specvet.catalogue.archive.transport import Deadline, session

    with session(Deadline(20)) as line:
        answers = [line.get(f"{services.root}/gaia/tap/capabilities", stream=True) for _ in range(4)]
        assert [answer.raw.closed for answer in answers] == [True, True, True, False]
    assert answers[3].raw.closed


def test_a_position_of_another_epoch_is_suspected(services: Services, tmp_path: Path) -> None:
    fast = next(s for s in STARS if s.source_id == FAST)
    ra, dec = fast.at(2000.0)
    (found,) = match(services, [Sighting(("a", 0), ra=ra, dec=dec, mjd=mjd(2020.0))], "gaia", tmp_path)
    assert found.gaia is None
    assert found.notes == (
        f"Gaia {FAST} lies 0.0″ away at the catalogue's epoch but 42.0″ on the day of observation; "
        "is the position of another epoch?",
    )


def test_the_source_that_a_file_states_is_taken_and_a_stranger_is_told(services: Services, tmp_path: Path) -> None:
    fast = next(s for s in STARS if s.source_id == FAST)
    ra, dec = fast.at(2016.0)
    stated = [
        Sighting((who, 0), ra=ra, dec=dec, mjd=mjd(2016.0), gaia_id=who) for who in (str(FAST), str(FAST + 1), "77")
    ]
    found = {m.key[0]: m for m in match(services, stated, "gaia", tmp_path)}
    assert [m.gaia.source_id for m in found.values() if m.gaia] == [str(FAST), str(FAST + 1), str(FAST)]
    assert found[str(FAST + 1)].notes == (f"Gaia {FAST} is nearer; the source that the file states was taken",)
    assert found["77"].notes[0] == "the spectrum's file states Gaia 77, which is not within 3″"


def test_nothing_but_numbered_positions_is_sent(services: Services, tmp_path: Path) -> None:
    before = len(services.asked)
    match(services, sightings_of(STARS[:3]), f"{BY_XMATCH.replace('cvs=', 'other=')},", tmp_path / "x")
    match(services, sightings_of(STARS[:3]), BY_TAP, tmp_path / "t")
    uploads = [
        value[1].decode()
        for _, fields in services.asked[before:]
        for value in fields.values()
        if isinstance(value, tuple)
    ]
    assert len(uploads) == 8
    for upload in uploads:
        assert upload.count("<TR>") == 3
        assert upload.count("<FIELD") == 3
        assert all(word not in upload for word in ("secret", "spec-", "sdss", "53736", ".fits"))


def test_without_a_position_nothing_is_asked_and_one_position_is_asked_once(services: Services, tmp_path: Path) -> None:
    before = services.count("xmatch")
    ra, dec = STARS[0].at(2006.0)
    rows = [
        Sighting(("none", 0)),
        Sighting(("nan", 0), ra=float("nan"), dec=1.0),
        Sighting(("off", 0), ra=10.0, dec=91.0),
        *(Sighting(("same", i), ra=ra, dec=dec, mjd=mjd(2006.0) + i) for i in range(3)),
        Sighting(("nowhere", 0), ra=200.0, dec=-5.0),
    ]
    found = {m.key: m for m in match(services, rows, "gaia", tmp_path)}
    for name in ("none", "nan", "off"):
        assert found[name, 0].asked == ()
        assert found[name, 0].notes == ("it has no position: no archive was asked",)
    assert {found["same", i].gaia.source_id for i in range(3)} == {str(STARS[0].source_id)}  # type: ignore[union-attr]
    assert (found["nowhere", 0].gaia, found["nowhere", 0].asked) == (None, ("gaia",))
    assert services.count("xmatch") == before + 1
    assert services.asked[-1][1]["cat1"][1].count(b"<TR>") == 2


@pytest.mark.parametrize(("year", "arcsec"), [(2006.0, 19.0), (2020.5, 24.0), (None, 19.0)])
def test_the_search_is_as_wide_as_a_star_can_have_moved(
    services: Services, tmp_path: Path, year: float | None, arcsec: float
) -> None:
    where = Sighting(("a", 0), ra=1.0, dec=1.0, mjd=None if year is None else mjd(year))
    match(services, [where], "gaia", tmp_path, fastest=1.0)
    assert float(services.asked[-1][1]["distMaxArcsec"]) == arcsec
    match(services, [Sighting(("a", 0), ra=1.0, dec=1.0, mjd=0.0)], "gaia", tmp_path / "0", fastest=1.0)
    assert float(services.asked[-1][1]["distMaxArcsec"]) == 19.0  # MJD 0 is no date


def _with_columns(part: str, kept: dict[str, str]) -> str:
    return next((part.replace(name, more) for name, more in kept.items() if name in part), part)


def test_columns_that_were_asked_for_are_kept(services: Services, tmp_path: Path) -> None:
    kept = {"simbad": "simbad:sp_type", "vsx": "vsx:Period:max", "J/TEST/1/cvs": "J/TEST/1/cvs:Porb-h"}
    for text in (BY_XMATCH, BY_TAP):
        asked_for = ",".join(_with_columns(part, kept) for part in text.split(","))
        (found, *_) = match(services, sightings_of(STARS[:1]), asked_for, tmp_path)
        assert {k.catalogue: k.columns for k in found.known} == {
            "simbad": (("sp_type", "DA2"),),
            "vsx": (("Period", "0.06"), ("max", "17.0")),
            "cvs": (("Porb-h", "1.5"),),
        }


def test_what_is_posted_to_xmatch_is_what_astroquery_posts_and_astroquery_reads_the_service(services: Services) -> None:
    import astropy.units as u
    from astropy.table import Table
    from astroquery.xmatch import XMatchClass

    from specvet.catalogue.archive.found import Place
    from specvet.catalogue.archive.xmatch import xmatch_request

    address = services.addresses["xmatch"]
    (catalogue,) = named("gaia")
    ours = xmatch_request(catalogue, address, [Place(1, STARS[0].ra, STARS[0].dec)], 5.0, 1000)
    client = XMatchClass()
    client.URL = address
    client.get_available_tables = lambda **_: ["simbad", "I/355/gaiadr3"]  # type: ignore[method-assign]
    upload = Table.read(io.BytesIO(ours.upload.encode()), format="votable")
    asking = {
        "cat1": upload,
        "cat2": "vizier:I/355/gaiadr3",
        "max_distance": 5 * u.arcsec,
        "colRA1": "specvet_ra",
        "colDec1": "specvet_dec",
    }
    theirs, _ = client.query(**asking, get_query_payload=True)
    mine = dict(ours.parameters)
    assert {k: str(v) for k, v in theirs.items() if k != "distMaxArcsec"}.items() <= mine.items()
    assert float(theirs["distMaxArcsec"]) == float(mine["distMaxArcsec"])
    assert set(mine) - set(theirs) == {"selection", "MAXREC"}
    read = client.query(**asking, cache=False)
    assert list(read["Source"]) == [STARS[0].source_id]
    assert list(read["specvet_place"]) == [1]


def test_pyvo_finds_the_tap_services_as_the_standard_has_them(services: Services) -> None:
    from pyvo.dal import TAPService

    from specvet.catalogue.archive.found import Place
    from specvet.catalogue.archive.upload import votable_of

    service = TAPService(services.addresses["gaia"])
    assert [str(m.ivo_id) for m in service.upload_methods] == ["ivo://ivoa.net/std/TAPRegExt#upload-inline"]
    upload = io.BytesIO(votable_of([Place(7, STARS[0].ra, STARS[0].dec)]).encode())
    query = (
        "SELECT u.specvet_place, g.source_id FROM TAP_UPLOAD.places AS u JOIN gaiadr3.gaia_source AS g ON 1=CONTAINS("
        "POINT('ICRS', g.ra, g.dec), CIRCLE('ICRS', u.specvet_ra, u.specvet_dec, 0.001))"
    )
    for run in (service.run_sync, service.run_async):
        upload.seek(0)
        (row,) = run(query, uploads={"places": upload})
        assert (row["specvet_place"], row["source_id"]) == (7, STARS[0].source_id)
