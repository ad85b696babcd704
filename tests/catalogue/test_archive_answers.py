"""What is read from an answer, and what is refused, without a service in between. All contents are SIMULATED."""

from __future__ import annotations

import pytest
import requests
from archive_services import error_votable, votable
from archive_sky import Table

from specvet.catalogue import Sighting
from specvet.catalogue.archive.choosing import chosen
from specvet.catalogue.archive.errors import AnswerError, PartialError, QuestionError, UnreachableError
from specvet.catalogue.archive.found import Asked, Found, Place, found_in
from specvet.catalogue.archive.transport import check_status
from specvet.catalogue.archive.upload import votable_of
from specvet.catalogue.archive.votable import read_sheet

ECHO = (("specvet_place", "long", "", ""), ("specvet_ra", "double", "", "deg"), ("specvet_dec", "double", "", "deg"))
PLACES = [Place(1, 10.0, 20.0), Place(2, 359.9999, -45.0)]


def found(
    columns: tuple[tuple[str, str, str, str], ...], *rows: tuple[object, ...], catalogue: str = "mine"
) -> list[Found]:
    sheet = read_sheet(votable(Table((*ECHO, *columns), list(rows))), "", "http://x")
    return found_in(sheet, Asked(catalogue, PLACES, 20.0, every_place=False), "http://x")


def test_columns_are_told_by_their_ucd_where_their_names_are_the_authors_own() -> None:
    columns = (
        ("Star", "char", "meta.id;meta.main", ""),
        ("Kind", "char", "src.class", ""),
        ("alpha", "double", "pos.eq.ra;meta.main", "deg"),
        ("delta", "double", "pos.eq.dec;meta.main", "deg"),
        ("mu_a", "double", "pos.pm;pos.eq.ra", "arcsec/yr"),
        ("mu_d", "double", "pos.pm;pos.eq.dec", "arcsec/yr"),
    )
    (row,) = found(columns, (1, 10.0, 20.0, "SIM  1 ", "DA", 10.0001, 20.0001, 0.25, -1.5))
    assert (row.place, row.name, row.type, row.ra, row.dec) == (1, "SIM  1", "DA", 10.0001, 20.0001)
    assert (row.pmra, row.pmdec) == pytest.approx((250.0, -1500.0))
    assert row.epoch == 2000.0


def test_positions_in_sexagesimal_are_no_degrees_and_the_services_distance_is_taken() -> None:
    columns = (
        ("Name", "char", "", ""),
        ("RAJ2000", "char", "pos.eq.ra;meta.main", "h:m:s"),
        ("DEJ2000", "char", "pos.eq.dec;meta.main", "d:m:s"),
    )
    near = (("angDist", "double", "pos.angDistance", "arcsec"), *columns)
    rows = [
        (1, 10.0, 20.0, 2.5, "SIM A", "00 40 00", "+20 00 00"),
        (1, 10.0, 20.0, None, "SIM B", "00 40 00", "+20 00 00"),
    ]
    sources = found(near, *rows)
    where = [Sighting(("a", 0), ra=10.0, dec=20.0)]
    (said,) = chosen(where, [1], {"mine": sources}, {"mine": frozenset({1})}, {"mine": ""}, 3.0)
    assert [(k.name, k.separation_arcsec) for k in said["mine"].known] == [("SIM A", 2.5)]
    with pytest.raises(AnswerError, match="http://x sent no positions in degrees for mine; columns: specvet_place"):
        found(columns, (1, 10.0, 20.0, "SIM A", "00 40 00", "+20 00 00"))


def test_an_id_of_nineteen_digits_keeps_them_all_and_missing_numbers_are_none() -> None:
    columns = tuple(
        (name, "long" if name == "Source" else "double", "", "")
        for name in ("Source", "RA_ICRS", "DE_ICRS", "pmRA", "pmDE", "Plx", "e_Plx", "RUWE", "Gmag", "BP-RP")
    )
    row = (1, 10.0, 20.0, 6917528997577384320, 10.0, 20.0, *[None] * 7)
    (star,) = found(columns, row, catalogue="gaia")
    assert star.name == "6917528997577384320"
    assert star.pmra is None
    assert set(star.numbers.values()) == {None}
    with pytest.raises(AnswerError, match="without an id in digits or a position"):
        found(columns, (1, 10.0, 20.0, None, 10.0, 20.0, *[None] * 7), catalogue="gaia")
    with pytest.raises(AnswerError, match="sent no source ids, positions and parallaxes of Gaia"):
        found(columns[:5], row[:8], catalogue="gaia")


def test_gaia_at_2000_is_carried_from_there() -> None:
    columns = tuple(
        (name, "long" if name == "source_id" else "double", "", "")
        for name in ("source_id", "ra_epoch2000", "dec_epoch2000", "pmra", "pmdec", "parallax")
    )
    (star,) = found(columns, (1, 10.0, 20.0, 5, 10.0, 20.0, 0.0, 1000.0, 1.0), catalogue="gaia")
    assert star.epoch == 2000.0
    where = [Sighting(("a", 0), ra=10.0, dec=20.0 + 10.0 / 3600, mjd=51544.5 + 3652.5)]
    (said,) = chosen(where, [1], {"gaia": [star]}, {"gaia": frozenset({1})}, {"gaia": ""}, 3.0)
    assert said["gaia"].gaia_separation_arcsec == pytest.approx(0.0, abs=1e-5)


def test_two_rows_of_one_name_are_two_objects_and_the_nearest_is_taken() -> None:
    columns = (("name", "char", "", ""), ("ra", "double", "", "deg"), ("dec", "double", "", "deg"))
    rows = [(1, 10.0, 20.0, "SIM", 10.0, 20.0 + arcsec / 3600) for arcsec in (2.0, 1.0, 15.0)]
    where = [Sighting(("a", 0), ra=10.0, dec=20.0)]
    (said,) = chosen(where, [1], {"mine": found(columns, *rows)}, {"mine": frozenset({1})}, {"mine": ""}, 3.0)
    assert said["mine"].known[0].separation_arcsec == pytest.approx(1.0, abs=1e-6)
    assert said["mine"].notes == ("2 objects of mine within 3″; the nearest was taken",)


def test_an_answer_cut_anywhere_is_refused() -> None:
    whole = votable(Table((*ECHO, ("name", "char", "", "")), [(1, 10.0, 20.0, "SIM"), (2, 359.9999, -45.0, "SIM")]))
    assert read_sheet(whole, "", "http://x").rows == 2
    end = len(whole.rstrip())
    for length in range(end):
        with pytest.raises(AnswerError, match=r"^http://x sent "):
            read_sheet(whole[:length], "application/xml", "http://x")


@pytest.mark.parametrize(
    ("body", "kind", "says", "error"),
    [
        (b"", "", "sent an empty answer", AnswerError),
        (b" \n", "", "sent an empty answer", AnswerError),
        (
            b"<html><body>no \x1b[31mred",
            "text/html",
            "a web page (HTML) where a VOTable belongs: `no [31mred`",
            AnswerError,
        ),
        (b'{"error": 1}', "application/json; x=y", "application/json that is none where a VOTable", AnswerError),
        (b"\x1f\x8b\x08\x00", "", "something that is none where a VOTable belongs", AnswerError),
        (b"<VOTABLE></VOTABLE>", "", "sent a VOTable with 0 tables, 1 expected", AnswerError),
        (b"<VOTABLE><RESOURCE></TABLE></VOTABLE>", "", "sent a VOTable that cannot be read", AnswerError),
        (votable(Table(ECHO, []), "OVERFLOW"), "", "gave only a part of the rows", PartialError),
        (error_votable("Message: no\nTrace:\n java"), "", "answered with an error: no", QuestionError),
    ],
)
def test_what_is_no_sound_votable_is_refused(body: bytes, kind: str, says: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        read_sheet(body, kind, "http://x")
    assert str(raised.value).startswith("http://x ")
    assert says in str(raised.value)


def test_entities_that_blow_up_are_refused_at_once() -> None:
    entities = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
    body = f'<!DOCTYPE VOTABLE [<!ENTITY e0 "ha">{entities}]><VOTABLE><RESOURCE>&e12;</RESOURCE></VOTABLE>'
    with pytest.raises(AnswerError, match="cannot be read"):
        read_sheet(body.encode(), "", "http://x")


def response(status: int, **headers: str) -> requests.Response:
    made = requests.Response()
    made.status_code, made.reason = status, "Because"
    made.headers.update({k.replace("_", "-"): v for k, v in headers.items()})
    return made


def test_a_service_is_left_alone_for_as_long_as_it_wants() -> None:
    with pytest.raises(UnreachableError) as raised:
        check_status(response(429, Retry_After="70"), "http://x", b"slow down")
    assert raised.value.after == 70.0
    assert str(raised.value) == "http://x answered HTTP 429 Because (slow down); ask again later"
    with pytest.raises(UnreachableError) as dated:
        check_status(response(503, Retry_After="Fri, 31 Dec 2027 23:59:59 GMT"), "http://x", b"")
    assert dated.value.after == 0.0
    check_status(response(200), "http://x", b"")


def test_what_is_sent_is_a_votable_that_astropy_reads() -> None:
    sheet = read_sheet(votable_of(PLACES).encode(), "", "http://x")
    assert sheet.rows == 2
    assert list(sheet.columns["specvet_place"]) == [1, 2]
    assert list(sheet.columns["specvet_ra"]) == [10.0, 359.9999]
    assert sheet.units["specvet_dec"] == "deg"
