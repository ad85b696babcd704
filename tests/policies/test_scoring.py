"""Log-odds: exact arithmetic of steps, gates, groups and qualities."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_lab import c, e, m

from specvet.policies.scoring import STEEPNESS, fulfilled, score, step


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [(0.0, None, 0.5), (1.0, None, logistic(1.7)), (-2.0, None, logistic(-3.4)), (3.0, math.sqrt(8), logistic(1.7)),
     (1e9, None, 1.0), (-1e9, 0.0, 0.0)],
)  # fmt: skip
def test_a_step_is_logistic_in_units_of_softness_and_error(value: float, error: float | None, expected: float) -> None:
    assert step(m(value, error), "above", 0.0, 1.0) == pytest.approx(expected, abs=1e-12)
    assert step(m(value, error), "below", 0.0, 1.0) == pytest.approx(1 - expected, abs=1e-12)
    assert STEEPNESS == 1.7


def test_evidence_is_worth_yes_on_its_side_no_on_the_other_and_nothing_at_the_threshold() -> None:
    for value, worth in ((100.0, 3.0), (-100.0, -2.0), (0.0, 0.0)):
        s = score([e()], -1.0, {"x": m(value)}, {})
        assert s.log_odds == pytest.approx(-1.0 + worth)
        assert s.p == pytest.approx(logistic(-1.0 + worth))


def test_between_threshold_and_end_the_worth_follows_the_step() -> None:
    lean = 2 * logistic(1.7) - 1
    assert score([e()], 0.0, {"x": m(1.0)}, {}).log_odds == pytest.approx(3.0 * lean, abs=1e-3)
    assert score([e()], 0.0, {"x": m(-1.0)}, {}).log_odds == pytest.approx(-2.0 * lean, abs=1e-3)


def test_what_drowns_in_its_error_is_worth_nothing() -> None:
    assert abs(score([e()], 0.0, {"x": m(1.0, 1e4)}, {}).log_odds) < 1e-3


def test_quality_multiplies() -> None:
    assert score([e()], 0.0, {"x": m(100.0, quality=0.4)}, {}).log_odds == pytest.approx(1.2)
    assert score([e()], 0.0, {"x": m(100.0, quality=0.0)}, {}).items == ()


def test_the_weakest_condition_counts_and_what_was_not_measured_is_half() -> None:
    assert fulfilled([], {}) == 1.0
    assert fulfilled([c("a")], {"a": m(1.0)}) == pytest.approx(logistic(1.7))
    assert fulfilled([c("a"), c("b")], {"a": m(1e9), "b": m(0.0)}) == pytest.approx(0.5)
    assert fulfilled([c("a")] * 9 + [c("b")], {"a": m(1.0), "b": m(-1.0)}) == pytest.approx(logistic(-1.7))
    assert fulfilled([c("a")], {}) == 0.5
    assert fulfilled([c("a")], {"a": m(None)}) == 0.5


def test_a_gate_scales_evidence_of_its_own_to_nothing() -> None:
    gated = e(given=[c("a")])
    for gate in (-1e9, 0.0, 1e9):
        open_ = fulfilled([c("a")], {"a": m(gate)})
        for value, worth in ((100.0, 3.0), (-100.0, -2.0)):
            s = score([gated], 0.0, {"x": m(value), "a": m(gate)}, {})
            assert s.log_odds == pytest.approx(open_ * worth)


def test_of_a_group_only_the_best_way_counts_and_a_closed_gate_is_worth_no() -> None:
    ways = [e("x", group="g", yes=5.0, no=-2.0), e("y", group="g", yes=3.0, no=-1.0, given=[c("a")]), e("z", yes=0.5)]
    found = {"x": m(-100.0), "y": m(100.0), "z": m(100.0), "a": m(1e9)}
    assert score(ways, 0.0, found, {}).log_odds == pytest.approx(3.5)
    assert score(ways, 0.0, {**found, "a": m(-1e9)}, {}).log_odds == pytest.approx(-0.5)  # −1 is better than −2
    assert score(ways, 0.0, {**found, "x": m(100.0)}, {}).log_odds == pytest.approx(5.5)
    half = score(ways, 0.0, {**found, "a": m(0.0)}, {})
    assert half.log_odds == pytest.approx(0.5)  # the second way stands at its threshold


def test_items_say_what_they_show_strongest_first_without_the_negligible() -> None:
    evidence = [e("x", when="strong x", otherwise="no x"), e("y", yes=4.0, when="strong y"), e("z", yes=0.04, no=0.0)]
    s = score(evidence, 0.0, {"x": m(-100.0, name="x"), "y": m(100.0, name="y"), "z": m(1e9)}, {"y": "window_of_y"})
    assert [(i.says, i.log_odds, i.window) for i in s.items] == [("strong y", 4.0, "window_of_y"), ("no x", -2.0, "")]
    assert s.log_odds == pytest.approx(2.04)
    assert score([e()], 0.0, {"x": m(100.0)}, {}).items[0].says == "X above 0"
    assert score([e()], 0.0, {"x": m(-100.0)}, {}).items[0].says == "X not above 0"


def test_the_measured_share_is_by_weight() -> None:
    evidence = [e("x", yes=3.0, no=-2.0), e("y", yes=0.5, no=-1.0), e("z", yes=6.0)]
    s = score(evidence, 0.0, {"x": m(0.0), "y": m(None)}, {})
    assert s.measured == pytest.approx(3.0 / 10.0)
    assert score([], 0.0, {}, {}).measured == 0.0
    assert score([e(yes=0.0, no=0.0)], 0.0, {"x": m(1.0)}, {}).measured == 0.0
    veto = e("w", yes=-10.0, no=0.0)
    assert score([*evidence, veto], 0.0, {"x": m(0.0), "y": m(None)}, {}).measured == pytest.approx(3.0 / 10.0)


def test_essential_evidence_that_is_missing_is_named() -> None:
    evidence = [e("x", essential=True), e("y", essential=True), e("z")]
    assert score(evidence, 0.0, {"x": m(1.0), "y": m(None, name="y")}, {}).missing == ("Y",)
    assert score(evidence, 0.0, {}, {}).missing == ("x", "y")


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(-20, 20), st.floats(-20, 20), st.floats(0, 1))
def test_no_piece_is_worth_more_than_it_says(value: float, error: float, yes: float, no: float, quality: float) -> None:
    s = score([e(yes=yes, no=no)], 0.0, {"x": m(value, error, quality)}, {})
    low, high = sorted((min(yes, no, 0.0) * quality, max(yes, no, 0.0) * quality))
    assert low - 1e-3 <= s.log_odds <= high + 1e-3
    assert 0.0 <= s.p <= 1.0


def test_a_yes_needs_something_that_stands_clear_of_its_errors() -> None:
    """Many faint leanings add up to a YES on pure noise; no one of them stands 2.5σ beyond its threshold."""
    faint = {name: m(2.0, 1.0, name=name) for name in "abcdefgh"}
    leanings = [e(name) for name in faint]
    assert score(leanings, 0.0, faint, {}).p > 0.99
    assert not score(leanings, 0.0, faint, {}).clear
    assert score(leanings, 0.0, {**faint, "a": m(3.1, 1.0, name="a")}, {}).clear
    assert not score(leanings, 0.0, {**faint, "a": m(-30.0, 1.0, name="a")}, {}).clear  # clear, but against
    assert score(leanings, 0.0, {"a": m(0.5, None, name="a")}, {}).clear  # no error stated, none to stand clear of
