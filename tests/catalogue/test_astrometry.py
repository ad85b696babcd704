"""Places carried by proper motion, held against astropy."""

from __future__ import annotations

import numpy as np
import pytest

from specvet.catalogue.astrometry import carried, julian_year, separation_arcsec


def test_a_julian_year_counts_from_j2000():
    assert julian_year(51544.5) == 2000.0
    assert julian_year(57388.5) == 2016.0


def test_barnards_star_moves_ten_arcseconds_a_year():
    ra, dec = carried(269.4485, 4.7394, -801.551, 10362.394, 2016.0, 2000.0)
    assert separation_arcsec(ra, dec, 269.4485, 4.7394) == pytest.approx(16 * 10.39335, abs=1e-3)
    assert dec < 4.7394
    assert ra > 269.4485


@pytest.mark.filterwarnings("ignore:ERFA function")  # it finds so great a distance strange
def test_carried_agrees_with_astropy_everywhere_also_at_the_poles_and_across_zero_hours():
    import astropy.units as u
    from astropy.coordinates import Distance, SkyCoord
    from astropy.time import Time

    rng = np.random.default_rng(10)
    ra, dec = rng.uniform(0, 360, 200), np.degrees(np.arcsin(rng.uniform(-1, 1, 200)))
    ra[:3], dec[:6] = (0.00001, 359.99999, 0.0), (10.0, -10.0, 0.0, 89.9999, -89.9999, 89.0)
    pmra, pmdec = rng.normal(0, 3000, 200), rng.normal(0, 3000, 200)
    # A distance so great that straight motion in space gives no change of the rate by perspective.
    start = SkyCoord(
        ra * u.deg,
        dec * u.deg,
        distance=Distance(1e3 * u.pc),
        pm_ra_cosdec=pmra * u.mas / u.yr,
        pm_dec=pmdec * u.mas / u.yr,
        radial_velocity=0 * u.km / u.s,
        obstime=Time(2016.0, format="jyear"),
    )
    oracle = start.apply_space_motion(new_obstime=Time(1990.0, format="jyear"))
    found = carried(ra, dec, pmra, pmdec, 2016.0, 1990.0)
    assert np.max(separation_arcsec(*found, oracle.ra.deg, oracle.dec.deg)) < 1e-3


def test_an_unknown_motion_or_epoch_moves_nothing_bit_for_bit():
    places = np.array([359.9999999, 12.3456789]), np.array([-45.6, 90.0])
    for still in (carried(*places, np.nan, np.nan, 2016.0, 2010.0), carried(*places, 100.0, 5.0, 2016.0, np.nan)):
        assert np.array_equal(still[0], places[0])
        assert np.array_equal(still[1], places[1])


def test_separations_are_exact_from_milliarcseconds_to_half_the_sky():
    assert separation_arcsec(10.0, 0.0, 10.0 + 1e-3 / 3600, 0.0) == pytest.approx(1e-3, rel=1e-6)
    assert separation_arcsec(359.9999, 0.0, 0.0001, 0.0) == pytest.approx(0.72, rel=1e-9)
    assert separation_arcsec(0.0, 90.0, 123.0, -90.0) == pytest.approx(180 * 3600)
