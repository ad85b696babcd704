"""Which row of a table a spectrum belongs to: separations by hand and by astropy, motion, doubts, odd places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import astropy.units as u
import numpy as np
import pytest
from astropy.coordinates import Distance, SkyCoord
from astropy.time import Time

from specvet.catalogue.matching import Table, TableSource, merged
from specvet.catalogue.matching.nearest import pairs, spots
from specvet.catalogue.sighting import Gaia, Known, Match, Sighting

J2016 = 57388.5
"""MJD of the Julian year 2016.0: 51544.5 + 16 · 365.25."""


def table(*rows: dict[str, Any], name: str = "gaia", gaia: bool = True, **columns: Any) -> Table:
    def column(key: str, default: float = np.nan) -> Any:
        return np.array([row.get(key, default) for row in rows], dtype=np.float64)

    return Table(
        name=name, path=f"{name}.csv", sha256="0" * 64, gaia=gaia, ra=column("ra"), dec=column("dec"),
        epoch=column("epoch", 2016.0), pmra=column("pmra"), pmdec=column("pmdec"),
        ids=[row.get("id", str(i + 1)) for i, row in enumerate(rows)] if gaia else [],
        names=[] if gaia else [row.get("name", f"star {i + 1}") for i, row in enumerate(rows)],
        types=[] if gaia else [row.get("type", "") for row in rows],
        values={"parallax": column("parallax"), "g": column("g")}, **columns,
    )  # fmt: skip


def seen(ra: float | None, dec: float | None, mjd: float | None = J2016, file: str = "a.fits", **more: Any) -> Sighting:
    return Sighting((file, 0), ra=ra, dec=dec, mjd=mjd, **more)


def found(of: Table, *sightings: Sighting, radius: float = 2.0) -> list[Match]:
    return list(TableSource(of).matches(sightings, radius, lambda doing, done, total: None))


def one(of: Table, sighting: Sighting, radius: float = 2.0) -> Match:
    (match,) = found(of, sighting, radius=radius)
    return match


def ids(matches: Sequence[Match]) -> list[str | None]:
    return [None if m.gaia is None else m.gaia.source_id for m in matches]


def test_separations_are_those_computed_by_hand() -> None:
    # 0.0003° of declination are 1.08″; 0.0003° of right ascension at 60° of declination half as much.
    assert one(table({"ra": 10.0, "dec": 0.0003}), seen(10.0, 0.0)).gaia_separation_arcsec == pytest.approx(
        1.08, abs=1e-4
    )
    assert one(table({"ra": 10.0003, "dec": 60.0}), seen(10.0, 60.0)).gaia_separation_arcsec == pytest.approx(
        0.54, abs=1e-4
    )
    assert one(table({"ra": 10.0, "dec": 0.0006}), seen(10.0, 0.0)).gaia is None  # 2.16″


def test_a_star_like_barnards_is_carried_to_the_date_of_its_spectrum() -> None:
    # 10.3625″ a year north for the 16 years from 2016.0 back to 2000.0 (MJD 51544.5): 165.8″ to the south.
    barnard = {"ra": 269.0, "dec": 4.0, "pmra": 0.0, "pmdec": 10_362.5}
    then = 4.0 - 16 * 10.3625 / 3600
    match = one(table(barnard), seen(269.0, then, 51544.5))
    assert match.gaia is not None
    assert match.gaia_separation_arcsec == pytest.approx(0.0, abs=0.01)
    assert one(table(barnard), seen(269.0, 4.0, 51544.5)).gaia is None
    assert one(table(barnard), seen(269.0, 4.0, J2016)).gaia is not None


def test_two_epochs_of_a_fast_star_are_both_its_own() -> None:
    fast = {"ra": 10.0, "dec": 0.0, "pmra": 0.0, "pmdec": -1_000.0}
    early, late = seen(10.0, 10.0 / 3600, J2016 - 3652.5, "early"), seen(10.0, -10.0 / 3600, J2016 + 3652.5, "late")
    assert ids(found(table(fast), early, late)) == ["1", "1"]


def test_matches_are_those_of_astropy_for_a_thousand_moving_stars() -> None:
    rng = np.random.default_rng(7)
    n = 1_000
    ra, dec = rng.uniform(0, 360, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    pmra, pmdec = rng.normal(0, 800, (2, n))
    mjd = rng.uniform(51_600, 60_600, n)
    stars = SkyCoord(
        ra * u.deg,
        dec * u.deg,
        pm_ra_cosdec=pmra * u.mas / u.yr,
        pm_dec=pmdec * u.mas / u.yr,
        distance=Distance(10.0 * np.ones(n), u.pc),
        obstime=Time(2016.0, format="jyear", scale="tcb"),
    )
    there = stars.apply_space_motion(Time(mjd, format="mjd", scale="tcb"))
    offset = rng.uniform(0, 3, n)
    places = SkyCoord(there.ra, there.dec).directional_offset_by(rng.uniform(0, 360, n) * u.deg, offset * u.arcsec)
    known = table(
        *({"ra": a, "dec": d, "pmra": p, "pmdec": q} for a, d, p, q in zip(ra, dec, pmra, pmdec, strict=True))
    )
    sightings = [
        seen(float(a), float(d), float(m), f"{i}")
        for i, (a, d, m) in enumerate(zip(places.ra.deg, places.dec.deg, mjd, strict=True))
    ]
    matches = {int(m.key[0]): m for m in found(known, *sightings)}
    near = offset < 1.99
    assert [
        matches[i].gaia is not None and matches[i].gaia.source_id == str(i + 1) for i in np.flatnonzero(near)
    ].count(False) == 0
    assert not any(matches[i].gaia for i in np.flatnonzero(offset > 2.01))
    apart = [matches[i].gaia_separation_arcsec for i in np.flatnonzero(near)]
    assert apart == pytest.approx(offset[near], abs=2e-3)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"ra": 359.9999, "dec": 0.0}, (0.0001, 0.0)),
        ({"ra": 0.0001, "dec": 0.0}, (359.9999, 0.0)),
        ({"ra": 0.0, "dec": 89.9999}, (180.0, 89.9999)),
        ({"ra": 77.0, "dec": 90.0}, (200.0, 89.9998)),
        ({"ra": 10.0, "dec": -90.0}, (300.0, -90.0)),
    ],
    ids=["across 0", "across 360", "over the pole", "from the pole", "at the pole"],
)
def test_the_poles_and_the_meridian_are_places_like_others(row: dict[str, float], place: tuple[float, float]) -> None:
    assert one(table(row), seen(*place)).gaia is not None


def test_a_star_that_moves_over_the_pole_is_found() -> None:
    over = {"ra": 0.0, "dec": 90.0 - 5.0 / 3600, "pmra": 0.0, "pmdec": 1_000.0}
    assert one(table(over), seen(180.0, 90.0 - 5.0 / 3600, J2016 + 3652.5)).gaia is not None


def test_a_motion_that_is_not_known_moves_nothing() -> None:
    half = {"ra": 10.0, "dec": 5.0, "pmra": np.nan, "pmdec": np.nan}
    match = one(table(half), seen(10.0, 5.0, 51544.5))
    assert match.gaia is not None
    assert match.gaia.pmra is None
    assert match.notes == ()


def test_without_a_date_the_row_stays_at_its_epoch_and_that_is_said() -> None:
    moving = {"ra": 10.0, "dec": 5.0, "pmra": 0.0, "pmdec": 2_000.0}
    for mjd in (None, float("nan"), 0.0, 1e9):
        match = one(table(moving), seen(10.0, 5.0, mjd))
        assert match.gaia is not None
        assert match.notes == ("no date of observation: gaia at its own epoch, 2016",)


def test_the_id_that_a_file_states_goes_before_what_is_nearer() -> None:
    known = table({"ra": 10.0, "dec": 0.0001, "id": "17"}, {"ra": 10.0, "dec": 0.0004, "id": "4611686018427387905"})
    stated = seen(10.0, 0.0, gaia_id="4611686018427387905")
    assert one(known, stated).gaia_separation_arcsec == pytest.approx(1.44, abs=1e-4)
    assert one(known, stated).notes == ()
    far = one(table({"ra": 11.0, "dec": 0.0, "id": "5"}), seen(10.0, 0.0, gaia_id="5"))
    assert far.notes == ("the stated Gaia id lies 3600.0″ from the spectrum's place",)
    other = one(known, seen(10.0, 0.0, gaia_id="99"))
    assert other.gaia is not None
    assert other.gaia.source_id == "17"
    assert other.notes[0] == "the stated Gaia id 99 is not in gaia"


def test_a_stated_id_needs_no_position_on_either_side() -> None:
    match = one(table({"id": "5", "g": 12.0}), seen(None, None, gaia_id="5"))
    assert match.gaia is not None
    assert (match.gaia.source_id, match.gaia.g, match.gaia_separation_arcsec) == ("5", 12.0, None)


def test_a_star_that_was_there_at_another_epoch_is_noted_and_not_taken() -> None:
    fast = table({"ra": 10.0, "dec": 0.0, "pmra": 0.0, "pmdec": 1_000.0, "id": "7"})
    at_2000, at_2016 = seen(10.0, -16.0 / 3600, J2016 + 3652.5, "a"), seen(10.0, 0.0, J2016 + 3652.5, "b")
    matches = found(fast, at_2000, at_2016)
    assert ids(matches) == [None, None]
    says = "Gaia 7 was here in {} and {}″ away when this was observed; is the position of that year? Not taken"
    assert [m.notes for m in matches] == [(says.format(2000, "26.0"),), (says.format(2016, "10.0"),)]
    slow = table({"ra": 10.0, "dec": 0.0, "pmra": 0.0, "pmdec": 40.0})
    assert found(slow, seen(10.0, 10.0 / 3600))[0].notes == ()


def test_the_id_of_a_list_counts_where_it_is_one_of_the_table_and_too_long_to_be_a_row_number() -> None:
    known = table({"ra": 10.0, "dec": 0.0, "id": "4611686018427387905"}, {"ra": 20.0, "dec": 0.0, "id": "7"})
    assert ids(found(known, seen(None, None, id="4611686018427387905"))) == ["4611686018427387905"]
    assert found(known, seen(None, None, id="7")) == []
    assert found(known, seen(None, None, id="4611686018427387904")) == []


def test_two_sources_within_the_radius_are_a_doubt_that_is_noted() -> None:
    match = one(table({"ra": 10.0, "dec": 0.0001}, {"ra": 10.0, "dec": -0.0004}), seen(10.0, 0.0))
    assert ids([match]) == ["1"]
    assert match.notes == ("2 sources of gaia within 2″ (0.36″, 1.44″); the nearest was taken",)


def test_a_source_that_a_table_holds_twice_is_one_source() -> None:
    match = one(
        table({"ra": 10.0, "dec": 0.0002, "id": "7", "g": 1.0}, {"ra": 10.0, "dec": 0.0001, "id": "7", "g": 2.0}),
        seen(10.0, 0.0),
    )
    assert match.gaia is not None
    assert (match.gaia.source_id, match.gaia.g) == ("7", 2.0)
    assert match.notes == ("Gaia 7 stands 2 times in gaia; the nearest row was taken",)


def test_a_neighbour_does_not_take_the_source_of_another_star() -> None:
    alone = table({"ra": 10.0, "dec": 0.0})
    star, again, neighbour = (
        seen(10.0, 0.00003, file="star"),
        seen(10.0, 0.00008, file="again"),
        seen(10.0, 0.0005, file="next"),
    )
    matches = found(alone, neighbour, star, again)
    assert ids(matches) == [None, "1", "1"]
    assert matches[0].notes == ("the nearest row of gaia, Gaia 1, is nearer to another spectrum",)
    both = table({"ra": 10.0, "dec": 0.0}, {"ra": 10.0, "dec": 0.0009})
    assert ids(found(both, neighbour, star, again)) == ["2", "1", "1"]


def test_rows_and_spectra_without_a_position_are_left_alone() -> None:
    known = table({"dec": 0.0}, {"ra": 10.0}, {"ra": 10.0, "dec": 0.0})
    placed, lost, half = seen(10.0, 0.0, file="placed"), seen(None, None, file="lost"), seen(10.0, None, file="half")
    matches = found(known, lost, placed, half)
    assert [m.key[0] for m in matches] == ["placed"]
    assert ids(matches) == ["3"]
    assert found(table(), placed) == []


def test_what_a_table_does_not_reach_was_not_asked() -> None:
    field = table({"ra": 10.0, "dec": 0.0}, {"ra": 12.0, "dec": 1.0}, name="mine", gaia=False)
    inside, outside = seen(11.0, 0.5, file="inside"), seen(190.0, 0.5, file="outside")
    assert [(m.key[0], m.asked, m.known) for m in found(field, inside, outside)] == [("inside", ("mine",), ())]
    sky = table(*({"ra": a, "dec": d} for a in (0.0, 120.0, 240.0) for d in (-60.0, 0.0, 60.0)), name="sky", gaia=False)
    assert [m.asked for m in found(sky, inside, outside)] == [("sky",), ("sky",)]


def test_another_table_says_what_the_star_is_called() -> None:
    vsx = table(
        {"ra": 10.0, "dec": 0.0, "name": "U Gem", "type": "UGSS"}, name="vsx", gaia=False, kept={"Period": ["0.177"]}
    )
    match = one(vsx, seen(10.0, 0.0003))
    assert match.gaia is None
    assert match.asked == ("vsx",)
    assert match.known == (Known("vsx", "U Gem", "UGSS", pytest.approx(1.08, abs=1e-4), (("Period", "0.177"),)),)


def test_of_two_gaia_tables_the_nearer_source_stays() -> None:
    key = ("a", 0)
    far, near = (Match(key, Gaia(id, 1.0, 2.0), apart, asked=("gaia",)) for id, apart in (("1", 1.5), ("2", 0.2)))
    named = Match(key, known=(Known("vsx", "U Gem"),), asked=("vsx",), notes=("a note",))
    for first, second in ((far, near), (near, far)):
        both = merged(merged(None, first), second)
        assert both.gaia is not None
        assert both.gaia.source_id == "2"
    everything = merged(merged(far, named), near)
    assert (everything.asked, everything.known, everything.notes) == (("gaia", "vsx"), named.known, ("a note",))


def test_a_hundred_thousand_rows_are_looked_up_in_pieces_without_losing_any() -> None:
    rng = np.random.default_rng(3)
    n = 450_000
    ra, dec = rng.uniform(0, 360, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    known = Table(
        "gaia", "gaia.csv", "0" * 64, True, ra, dec, np.full(n, 2016.0), rng.normal(0, 20, n), rng.normal(0, 20, n),
        [], [], [], {},
    )  # fmt: skip
    chosen = np.arange(0, n, 9)
    where = spots([seen(float(ra[i]), float(dec[i]), J2016) for i in chosen])
    near = pairs(where, known, 2.0)
    closest = {int(s): int(r) for s, r, a in zip(near.spot, near.row, near.arcsec, strict=True) if a < 1e-3}
    assert closest == {i: int(row) for i, row in enumerate(chosen)}
