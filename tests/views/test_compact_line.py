"""A polyline as ink: where it is, how much of it, and where it must not be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.views.compact_line import LEVELS, SUB, coverage, envelope, holes, stroke


def ink(u: object, v: object, columns: int, rows: int) -> np.ndarray:
    """Ink of the line through (u, v), both in pixels, as shares of a pixel."""
    at, heights = np.array(u, dtype=float), np.array(v, dtype=float)
    low, high = envelope(at * SUB, heights, holes(at), columns * SUB)
    return coverage(*stroke(low, high), rows) / 255


def test_full_coverage_is_the_largest_byte() -> None:
    assert SUB * LEVELS == 255


def test_a_level_line_is_one_pixel_thick_and_lies_where_it_should() -> None:
    drawn = ink([0, 20], [7.5, 7.5], 20, 15)
    np.testing.assert_array_equal(drawn[7], 1.0)
    assert drawn.sum() == pytest.approx(20, abs=0.01)
    halfway = ink([0, 20], [7.0, 7.0], 20, 15)
    np.testing.assert_allclose(halfway[6:8], 0.5, atol=0.5 / LEVELS + 0.001)


@pytest.mark.parametrize("slope", [0.2, 0.5, 1.0, 2.0, 5.0])
def test_a_sloping_line_has_the_area_of_a_pen_of_one_pixel(slope: float) -> None:
    columns = 60 if slope <= 1 else 30
    rows = int(columns * slope) + 40
    drawn = ink([0, columns], [20.0, 20.0 + slope * columns], columns, rows)
    inner = drawn[:, 5:-5].sum() / (columns - 10)  # ink a column; the pen has no ends there
    assert inner == pytest.approx(np.hypot(1, slope), rel=0.07)
    middle = (drawn * (np.arange(rows)[:, None] + 0.5)).sum(axis=0) / drawn.sum(axis=0)
    expected = 20.0 + slope * (np.arange(columns) + 0.5)
    np.testing.assert_allclose(middle[5:-5], expected[5:-5], atol=0.1)


def test_a_spike_of_one_point_is_one_pixel_wide_and_as_high_as_it_is() -> None:
    u = np.arange(0.0, 40.01, 0.1)
    v = np.full(u.size, 50.0)
    v[205] = 10.0  # at u = 20.5, the middle of column 20
    drawn = ink(u, v, 40, 60)
    np.testing.assert_array_equal(drawn[12:49, 20], 1.0)
    assert drawn[:9].sum() == 0
    assert drawn[12:48, :19].sum() == drawn[12:48, 22:].sum() == 0
    assert drawn[12:48].sum(axis=1) == pytest.approx(1.0, abs=0.4)


def test_many_points_in_a_column_leave_the_same_ink_as_their_extremes() -> None:
    rng = np.random.default_rng(1)
    u = np.sort(rng.uniform(0, 30, 3000))
    v = rng.uniform(10, 40, 3000)
    drawn = ink(u, v, 30, 50)
    for column in range(30):
        here = v[(u >= column) & (u < column + 1)]
        inked = np.flatnonzero(drawn[:, column] > 0.3)
        assert inked[0] == pytest.approx(here.min(), abs=2)
        assert inked[-1] == pytest.approx(here.max(), abs=2)
        assert len(inked) == inked[-1] - inked[0] + 1


@settings(deadline=None, max_examples=100)
@given(n=st.integers(2, 300), seed=st.integers(0, 2**32 - 1))
def test_no_column_between_the_first_and_the_last_point_is_empty(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    u = np.sort(np.concatenate([[0.0, 50.0], rng.uniform(0, 50, n)]))
    v = rng.uniform(-30, 90, n + 2)  # also outside of the plot
    low, high = envelope(u * SUB, v, np.zeros(n + 1, dtype=bool), 50 * SUB)
    assert np.isfinite(low).all()
    assert np.isfinite(high).all()
    np.testing.assert_array_less(low[1:], high[:-1] + 1e-9)  # neighbours touch: no break in the line
    np.testing.assert_array_less(low[:-1], high[1:] + 1e-9)
    assert low.min() == pytest.approx(v.min())
    assert high.max() == pytest.approx(v.max())


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_coverage_is_the_area_of_the_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns, rows = 7, 20
    low = rng.uniform(-5, 25, columns * SUB)
    high = low + rng.uniform(-1, 12, columns * SUB)
    drawn = coverage(low, high, rows).astype(float)
    expected = np.zeros((rows, columns))
    for strip, (a, b) in enumerate(zip(low, high, strict=True)):
        for row in range(rows):
            if b > a:
                expected[row, strip // SUB] += max(0.0, min(b, row + 1) - max(a, row)) / SUB * 255
    np.testing.assert_allclose(drawn, expected, atol=2 * SUB / 2 + 0.01)


def test_a_hole_is_left_open_and_its_edges_are_where_the_data_end() -> None:
    u = np.concatenate([np.arange(0, 20, 0.5), np.arange(30, 50.01, 0.5)])
    drawn = ink(u, np.full(u.size, 5.5), 50, 11)
    full = drawn[5] > 0.99
    assert full[:19].all()
    assert full[30:].all()
    assert drawn[:, 21:29].sum() == 0


def test_one_point_between_two_holes_is_a_dot() -> None:
    u = np.concatenate([np.arange(0, 20, 0.5), [25.5], np.arange(31, 50.01, 0.5)])
    drawn = ink(u, np.full(u.size, 5.5), 50, 11)
    assert 0.4 < drawn[:, 24:27].sum() < 1.0
    assert drawn[5, 25] > 0.4
    assert drawn[:, 21:24].sum() == drawn[:, 28:30].sum() == 0


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_few_points_are_all_connected(n: int) -> None:
    assert not holes(np.array([0.0, 1.0, 1000.0, 1001.0])[:n]).any()


def test_holes_are_judged_by_the_steps_around_them() -> None:
    log_steps = 10 ** np.arange(np.log10(3600), np.log10(10400), 1e-4)
    assert not holes(log_steps).any()
    fine_then_coarse = np.concatenate([np.arange(0, 500, 1.0), np.arange(500, 2000, 50.0)])
    assert not holes(fine_then_coarse).any()
    assert holes(np.concatenate([log_steps[:2000], log_steps[2008:]])).sum() == 1
    assert holes(np.concatenate([np.arange(0, 100.0), [200.0, 201.0, 320.0], np.arange(400.0, 500.0)])).sum() == 3


def test_a_repeated_wavelength_is_a_vertical_line() -> None:
    drawn = ink([0.0, 10.5, 10.5, 20.0], [15.0, 15.0, 5.0, 5.0], 20, 20)
    assert (drawn[6:14, 10] > 0.9).all()
    assert drawn[6:14].sum(axis=1) == pytest.approx(1.0, abs=0.1)
