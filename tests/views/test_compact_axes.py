"""Ticks: round, few, exact in decimal, and short to write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specvet.views.compact_axes import axis


@pytest.mark.parametrize(
    ("low", "high", "most", "labels", "factor"),
    [
        (3700.0, 9100.0, 6, ("4000", "5000", "6000", "7000", "8000", "9000"), ""),
        (6400.5, 6699.3, 4, ("6500", "6600"), ""),
        (6400.0, 6700.0, 4, ("6400", "6500", "6600", "6700"), ""),
        (6562.0, 6563.2, 6, ("6562.0", "6562.2", "6562.4", "6562.6", "6562.8", "6563.0", "6563.2"), ""),
        (-0.2, 3.4, 6, ("0", "1", "2", "3"), ""),
        (1.2e-17, 3.4e-17, 6, ("1.5", "2.0", "2.5", "3.0"), "×1e-17"),
        (0.2, 0.9, 6, ("2", "4", "6", "8"), "×1e-1"),
        (-5e6, 2.1e7, 6, ("-0.5", "0.0", "0.5", "1.0", "1.5", "2.0"), "×1e7"),
        (9.9e149, 1e150, 4, ("9.90", "9.95", "10.00"), "×1e149"),
    ],
)
def test_ticks_are_round_numbers_with_the_factor_apart(
    low: float, high: float, most: int, labels: tuple[str, ...], factor: str
) -> None:
    ticks = axis(low, high, most)
    assert ticks.labels == labels
    assert ticks.factor == factor
    scale = float(factor.removeprefix("×") or 1)
    assert ticks.major == tuple(pytest.approx(float(label) * scale, rel=1e-12, abs=1e-300) for label in labels)


@given(
    middle=st.floats(-1, 1),
    share=st.floats(0.02, 4),
    power=st.integers(-250, 140),
    most=st.integers(2, 12),
)
def test_any_axis_has_few_ticks_inside_it_and_short_labels(middle: float, share: float, power: int, most: int) -> None:
    scale = float(f"1e{power}")
    width = share * max(abs(middle), 0.01)
    low, high = (middle - width / 2) * scale, (middle + width / 2) * scale
    ticks = axis(low, high, most)
    assert 0 < len(ticks.major) <= most + 1 or most <= 3
    slack = (high - low) * 1e-6
    assert all(low - slack <= tick <= high + slack for tick in (*ticks.major, *ticks.minor))
    assert all(len(label) <= 6 for label in ticks.labels)
    assert len(set(ticks.labels)) == len(ticks.labels) == len(ticks.major)
    assert not set(ticks.major) & set(ticks.minor)
