"""The smallest full views: medians of stretches of wavelength."""

from __future__ import annotations

import numpy as np
import pytest

from specvet.spectra import Spectrum
from specvet.views import compact_array, full_view, zoom_view
from specvet.views.compact_overview import overview


def test_each_stretch_gives_the_median_of_its_points() -> None:
    x = np.arange(40.0)
    y = np.array([1.0, 2.0, 3.0, 100.0] * 10)
    at, flux, sigma, bad = overview(x, y, np.ones(40), None, 4)  # two stretches of 20 points
    assert at.tolist() == [0.0, 39.0]
    assert flux.tolist() == [2.5, 2.5]
    assert sigma is None
    assert bad is None


def test_ends_stay_and_middles_are_those_of_stretches() -> None:
    x = np.linspace(4000.0, 9000.0, 1001)
    at, flux, _, _ = overview(x, 2.0 * x, None, None, 20)
    assert at[[0, -1]].tolist() == [4000.0, 9000.0]
    assert at[1:-1] == pytest.approx(np.arange(4750.0, 8500.0, 500.0))
    assert flux[1:-1] == pytest.approx(2.0 * at[1:-1], abs=5.0)


def test_bad_points_count_only_where_there_are_no_others() -> None:
    x = np.arange(40.0)
    y = np.where(x % 2 == 0, 5.0, 900.0)
    bad = x % 2 == 1
    bad[20:] = True
    _, flux, _, spoilt = overview(x, y, None, bad, 4)
    assert flux.tolist() == [5.0, 452.5]
    assert spoilt is not None
    assert spoilt.tolist() == [False, True]


def test_few_points_are_all_drawn() -> None:
    x, y = np.arange(30.0), np.arange(30.0)
    assert overview(x, y, None, None, 176)[0] is x


def test_points_in_one_stretch_are_all_drawn() -> None:
    x = np.concatenate((np.linspace(0.0, 1e-9, 99), [1.0]))
    bad = np.zeros(100, dtype=bool)
    bad[-1] = True
    y = np.ones(100)
    assert overview(x, y, None, bad, 8)[1].size in (2, 100)


def _spectrum(line: float) -> Spectrum:
    x = np.linspace(3700.0, 9100.0, 3900)
    y = 1.0 + line * (np.abs(x - 6563.0) < 8.0) + 0.2 * (x > 7000.0)
    return Spectrum(wavelength=x, flux=y, ivar=np.full(x.size, 1e4))


def test_a_narrow_line_is_gone_from_the_small_full_view_and_there_in_a_zoom() -> None:
    with_line, without = (full_view(_spectrum(line), style="compact", size="tiny") for line in (0.5, 0.0))
    assert with_line.size == (224, 168)
    assert with_line.png == without.png
    assert with_line.content_hash != without.content_hash
    zooms = [zoom_view(_spectrum(line), (6400.0, 6700.0), style="compact", size="tiny") for line in (0.5, 0.0)]
    assert zooms[0].size == (252, 196)
    assert zooms[0].png != zooms[1].png


def test_a_larger_full_view_shows_the_line() -> None:
    arrays = [compact_array(s.wavelength, s.flux, size=(448, 280)) for s in (_spectrum(0.5), _spectrum(0.0))]
    assert (arrays[0] != arrays[1]).any()


def test_a_break_that_is_wide_enough_stays() -> None:
    array = compact_array(_spectrum(0.0).wavelength, _spectrum(0.0).flux, size=(224, 168))
    line = (array < 128)[18:150, 40:216]
    heights = [int(np.flatnonzero(column)[0]) for column in line.T if column.any()]
    assert heights[20] - heights[-20] > 80
