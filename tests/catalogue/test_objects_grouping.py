"""Which spectra are of one star, and what it is called."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.catalogue import Gaia, Match, Sighting
from specvet.catalogue.astrometry import carried, separation_arcsec
from specvet.catalogue.objects import Group, group
from specvet.catalogue.objects.friends import friends
from specvet.catalogue.objects.naming import iau_name
from specvet.spectra import read

ARCSEC = 1 / 3600.0


def seen(
    n: int, ra: float | None = None, dec: float | None = None, gaia: str = "", mjd: float | None = None
) -> Sighting:
    return Sighting((f"{n}.fits", 0), id=str(n), ra=ra, dec=dec, gaia_id=gaia, mjd=mjd)


def files(found: list[Group]) -> list[list[str]]:
    """The members of each object by their number, in order."""
    return sorted(sorted(s.key[0].removesuffix(".fits") for s in g.members) for g in found)


def east(ra: float, dec: float, arcsec: float) -> float:
    return ra + arcsec * ARCSEC / math.cos(math.radians(dec))


def test_spectra_within_the_radius_are_one_object_and_others_are_not():
    found = group([seen(1, 10.0, 45.0), seen(2, east(10.0, 45.0, 1.9), 45.0), seen(3, east(10.0, 45.0, 4.2), 45.0)])
    assert files(found) == [["1", "2"], ["3"]]
    assert files(group([seen(1, 10.0, 45.0), seen(2, east(10.0, 45.0, 1.9), 45.0)], 1.0)) == [["1"], ["2"]]


def test_zero_hours_is_no_border():
    found = group([seen(1, 359.9999, -20.0), seen(2, 0.0001, -20.0)])
    assert files(found) == [["1", "2"]]
    assert min(found[0].ra, 360.0 - found[0].ra) < 1e-9
    assert files(group([seen(1, 360.0, 5.0), seen(2, 0.0, 5.0)])) == [["1", "2"]]


@pytest.mark.parametrize("pole", [90.0, -90.0])
def test_round_a_pole_right_ascension_says_nothing(pole: float):
    near = pole - math.copysign(0.5 * ARCSEC, pole)
    found = group([seen(1, 0.0, near), seen(2, 180.0, near), seen(3, 90.0, near), seen(4, 12.0, pole)])
    assert files(found) == [["1", "2", "3", "4"]]
    assert found[0].dec == pytest.approx(pole, abs=1e-4)


def test_a_gaia_id_wins_over_position_both_ways():
    far = group([seen(1, 10.0, 0.0, "42"), seen(2, 200.0, 50.0, "42")])
    assert files(far) == [["1", "2"]]
    assert "one Gaia id" in far[0].notes[0]
    near = group([seen(1, 10.0, 0.0, "42"), seen(2, 10.0, 0.0, "43")])
    assert files(near) == [["1"], ["2"]]
    assert {g.id for g in near} == {"Gaia DR3 42", "Gaia DR3 43"}


def test_a_spectrum_with_a_place_only_joins_the_nearest_gaia_source_and_is_told_of_the_other():
    dec = 30.0
    found = group(
        [seen(1, 10.0, dec, "42"), seen(2, east(10.0, dec, 2.5), dec, "43"), seen(3, east(10.0, dec, 1.0), dec)]
    )
    assert files(found) == [["1", "3"], ["2"]]
    (joined,) = [g for g in found if len(g.members) == 2]
    assert joined.gaia_id == "42"
    assert joined.notes == ("lies within 2″ of 2 Gaia sources; the nearest was taken",)


def test_two_gaia_ids_are_never_joined_by_what_lies_between_them():
    dec = 0.0
    between = [seen(n, east(10.0, dec, 0.3 * n), dec) for n in range(3, 8)]
    found = group([seen(1, 10.0, dec, "42"), seen(2, east(10.0, dec, 3.0), dec, "43"), *between])
    assert all(len({s.gaia_id for s in g.members if s.gaia_id}) == 1 for g in found)
    assert sum(len(g.members) for g in found) == 7


def test_without_coordinates_a_spectrum_is_an_object_of_its_own_named_by_its_file():
    found = group([seen(1), seen(2), seen(3, 10.0), seen(4, math.nan, 2.0), seen(5, 10.0, 95.0), seen(6, gaia="42")])
    assert files(found) == [["1"], ["2"], ["3"], ["4"], ["5"], ["6"]]
    assert {g.id for g in found} == {*(f"{n}.fits:0" for n in range(1, 6)), "Gaia DR3 42"}
    assert all(g.ra is None and g.dec is None for g in found)


def test_survey_ids_that_repeat_join_nothing_and_are_kept():
    one = Sighting(("a", 0), id="007", ra=10.0, dec=0.0, ids=(("targetid", "39627"),))
    two = Sighting(("b", 0), id="007", ra=20.0, dec=0.0, ids=(("targetid", "39627"),))
    found = group([two, one])
    assert [g.members[0].ids for g in found] == [(("targetid", "39627"),)] * 2
    assert len(found) == 2


def test_a_row_that_comes_twice_is_refused():
    with pytest.raises(ValueError, match=r"1\.fits row 0: comes twice"):
        group([seen(1, 10.0, 0.0), seen(1, 20.0, 0.0)])
    with pytest.raises(ValueError, match="radius 0"):
        group([], 0.0)
    assert group([]) == []


def test_a_chain_of_strangers_is_divided_so_that_no_object_is_wider_than_two_radii():
    chain = [seen(n, east(10.0, 20.0, 1.5 * n), 20.0) for n in range(12)]
    found = group(chain)
    assert 4 <= len(found) <= 6
    for g in found:
        for a in g.members:
            assert all(separation_arcsec(a.ra, a.dec, b.ra, b.dec) <= 4.0 for b in g.members)
        assert g.notes == ("stood in a chain of spectra within 2″ of each other that was divided",)


def test_nine_spectra_of_one_star_do_not_swallow_the_neighbour_of_their_neighbour():
    star = [seen(n, 10.0, 20.0) for n in range(9)]
    found = group([*star, seen(9, east(10.0, 20.0, 1.9), 20.0), seen(10, east(10.0, 20.0, 3.8), 20.0)])
    assert sorted(len(g.members) for g in found) == [1, 10]


def test_a_fast_star_is_joined_through_its_gaia_id():
    """1″ a year, seen 20 years apart."""
    ra, dec = carried(10.0, 30.0, 0.0, 1000.0, 2000.0, 2020.0)
    found = group([seen(1, 10.0, 30.0, "42", 51544.5), seen(2, float(ra), float(dec), "42", 58849.5)])
    assert files(found) == [["1", "2"]]
    assert found[0].mjds == (51544.5, 58849.5)


def test_a_fast_star_is_joined_by_position_only_when_a_match_gives_the_proper_motion():
    there = [float(x) for x in carried(10.0, 30.0, 600.0, 800.0, 2000.0, 2020.0)]
    first, second = seen(1, 10.0, 30.0, mjd=51544.5), seen(2, *there, mjd=58849.5)
    assert files(group([first, second])) == [["1"], ["2"]]
    at_2016 = [float(x) for x in carried(10.0, 30.0, 600.0, 800.0, 2000.0, 2016.0)]
    star = Gaia("42", *at_2016, pmra=600.0, pmdec=800.0)
    for key in (first.key, second.key):
        found = group([first, second], matches={key: Match(key, star, 0.1)})
        assert files(found) == [["1", "2"]]
        assert found[0].id == "Gaia DR3 42"
    still = Gaia("42", *at_2016)
    assert files(group([first, second], matches={first.key: Match(first.key, still)})) == [["1"], ["2"]]


def test_the_way_that_a_star_went_is_nothing_odd_about_its_group_where_its_motion_is_known():
    year = 365.25
    first, later = seen(1, 10.0, 0.0, "7", 51544.5), seen(2, 10.0, 10.0 * ARCSEC, "7", 51544.5 + 10 * year)
    moving = Gaia("7", 10.0, 16.0 * ARCSEC, 2016.0, pmra=0.0, pmdec=1000.0)
    known = {s.key: Match(s.key, moving) for s in (first, later)}
    assert [g.notes for g in group([first, later], matches=known)] == [()]
    assert [g.notes for g in group([first, later])] == [("one Gaia id, but a spectrum lies 5.0″ from the mean place",)]
    assert [g.notes for g in group([first, later], matches={later.key: known[later.key]})] == [()]
    astray = seen(3, 10.0, 30.0 * ARCSEC, "7", 51544.5)
    (found,) = group([first, later, astray], matches={**known, astray.key: Match(astray.key, moving)})
    assert found.notes == ("one Gaia id, but a spectrum lies 20.0″ from the mean place",)


def test_a_fast_star_does_not_take_what_lies_where_it_will_be():
    there = [float(x) for x in carried(10.0, 30.0, 600.0, 800.0, 2000.0, 2020.0)]
    star = Gaia("42", 10.0, 30.0, epoch=2000.0, pmra=600.0, pmdec=800.0)
    first, background = seen(1, 10.0, 30.0, mjd=51544.5), seen(2, *there, mjd=51544.5)
    assert files(group([first, background], matches={first.key: Match(first.key, star)})) == [["1"], ["2"]]


def test_a_stated_gaia_id_goes_before_a_match_and_says_so():
    one = seen(1, 10.0, 0.0, "42")
    (found,) = group([one], matches={one.key: Match(one.key, Gaia("43", 10.0, 0.0))})
    assert found.gaia_id == "42"
    assert found.notes == ("states Gaia DR3 42, which was taken; the match found 43",)


@pytest.mark.parametrize(
    ("ra", "dec", "name"),
    [
        (188.7365833333, 12.5824166667, "J123456.78+123456.7"),
        (188.73662, 12.58243, "J123456.78+123456.7"),  # truncated: 56.789 s, 56.75″
        (0.0, -0.00001, "J000000.00-000000.0"),
        (359.99999999, 89.99999999, "J235959.99+895959.9"),
        (10.0, 90.0, "J004000.00+900000.0"),
        (360.0, -5.5, "J000000.00-053000.0"),
    ],
)
def test_names_of_places_are_truncated_as_the_iau_asks(ra: float, dec: float, name: str):
    assert iau_name(ra, dec) == name


def test_two_objects_whose_places_truncate_to_one_name_get_letters():
    found = group([seen(1, 10.000001, 0.0), seen(2, 10.000003, 0.0)], 0.005)
    assert [g.id for g in found] == ["J004000.00+000000.0A", "J004000.00+000000.0B"]


places = st.tuples(
    st.sampled_from([0.0, 0.0002, 359.9998, 10.0, 10.0003]),
    st.sampled_from([90.0, -90.0, 89.9999, 0.0, 0.0003, 0.0007, 45.0]),
    st.floats(-0.0012, 0.0012),
    st.sampled_from(["", "", "", "1", "2"]),
    st.sampled_from([None, 51544.5, 58849.5]),
    st.booleans(),
)


def _sightings(drawn: list[tuple[float, float, float, str, float | None, bool]]) -> list[Sighting]:
    return [
        seen(n, None if lost else ra + off, None if lost else min(90.0, max(-90.0, dec + off / 2)), gaia, mjd)
        for n, (ra, dec, off, gaia, mjd, lost) in enumerate(drawn)
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(places, max_size=25), st.randoms(use_true_random=False))
def test_grouping_is_a_partition_and_independent_of_order(drawn, shuffler: random.Random):
    given_ = _sightings(drawn)
    found = group(given_)
    assert sorted(s.key for g in found for s in g.members) == sorted(s.key for s in given_)
    assert len({g.id for g in found}) == len(found)
    for g in found:
        assert {s.gaia_id for s in g.members} - {""} <= {g.gaia_id}
        if not g.gaia_id and g.ra is not None:
            for a in g.members:
                assert all(separation_arcsec(a.ra, a.dec, b.ra, b.dec) <= 4.0 + 1e-6 for b in g.members)
    for gaia in {s.gaia_id for s in given_} - {""}:
        assert sum(g.gaia_id == gaia for g in found) == 1
    again = list(given_)
    shuffler.shuffle(again)
    assert group(again) == found


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(-6, 6), st.floats(-6, 6)), min_size=1, max_size=20))
def test_groups_that_are_no_chains_are_those_of_brute_force(offsets):
    from specvet.catalogue.astrometry import unit_vectors

    ra, dec = np.array([10 + x * ARCSEC for x, _ in offsets]), np.array([y * ARCSEC for _, y in offsets])
    labels, divided = friends(unit_vectors(ra, dec), 2.0)
    apart = separation_arcsec(ra[:, None], dec[:, None], ra[None], dec[None])
    if np.any(np.abs(apart - 2.0) < 1e-6):
        return
    linked = apart <= 2.0
    for _ in offsets:
        linked = (linked.astype(int) @ linked.astype(int)) > 0
    whole = ~divided
    assert np.array_equal((labels[:, None] == labels[None])[whole][:, whole], linked[whole][:, whole])


def test_thousands_of_spectra_of_one_star_are_one_object():
    rng = np.random.default_rng(3)
    n = 12_000
    star = [seen(i, 50.0 + x, 10.0 + y) for i, (x, y) in enumerate(rng.normal(0, 0.1 * ARCSEC, (n, 2)))]
    found = group([*star, seen(n, 50.01, 10.0)])
    assert sorted(len(g.members) for g in found) == [1, n]


def test_a_hundred_thousand_sightings_come_back_as_the_stars_they_were_made_from():
    rng = np.random.default_rng(10)
    n = 40_000
    ra, dec = rng.uniform(0, 360, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    epochs = rng.integers(1, 5, n)
    star = np.repeat(np.arange(n), epochs)
    jitter = rng.normal(0, 0.2 * ARCSEC, (len(star), 2))
    assert len(star) > 98_000
    away = np.clip(dec[star] + jitter[:, 1], -90, 90)
    along = ra[star] + jitter[:, 0] / np.maximum(np.cos(np.radians(dec[star])), 1e-3)
    gaia = np.where(star % 3 == 0, 1, 0)
    sightings = [
        Sighting(
            (f"{s}-{i}", 0), ra=float(a), dec=float(d), gaia_id=str(10_000 + s) if g and i % 2 else "", mjd=55000.0 + i
        )
        for i, (s, a, d, g) in enumerate(zip(star, along, away, gaia, strict=True))
    ]
    found = group(sightings)
    whose = [{s.key[0].split("-")[0] for s in g.members} for g in found]
    mixed = sum(len(w) > 1 for w in whose)
    assert mixed <= 20  # strangers within 2″ by chance
    assert abs(len(found) - n) <= 40


SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"


@pytest.fixture(scope="module")
def lamost() -> list[Sighting]:
    if not SHARED.is_dir():
        pytest.skip(f"the real spectra are not there: {SHARED}")
    found = []
    for file in sorted((SHARED / "lamost").rglob("*.fits*")):
        s = read(file)[0]
        found.append(Sighting((str(file), 0), s.id, s.ra, s.dec, s.mjd, ids=tuple(s.ids.items())))
    return found


def test_names_are_those_that_lamost_itself_gives(lamost: list[Sighting]):
    named = [(s, dict(s.ids)["designation"].removeprefix("LAMOST ")) for s in lamost if "designation" in dict(s.ids)]
    other = [name for s, name in named if iau_name(s.ra, s.dec) != name]
    assert len(named) == 144
    assert other == ["J024510.46+514502.3"]  # 8″ from where its own RA and DEC lie


def test_real_stars_that_lamost_saw_twice_are_31_objects(lamost: list[Sighting]):
    found = group(s for s in lamost if "/dr8/" in s.key[0])
    assert [len(g.members) for g in found] == [2] * 31
    assert all(g.mjds[1] - g.mjds[0] > 50 for g in found)
    assert {g.id for g in group(found[0].members[:1])} == {dict(found[0].members[0].ids)["designation"][7:]}
