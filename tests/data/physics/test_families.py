"""Every family: gold recomputed in another way with units, golds that are sensible, choices that differ, figures."""

from __future__ import annotations

import io
from collections import Counter
from functools import cache

import numpy as np
import pytest
from laws import LAWS, Q, quantities
from PIL import Image

from specvet.data.physics.families import FAMILIES, Degenerate, Draw, Situation
from specvet.data.physics.solving import APART, _distractors, agrees, asked, gold_of
from specvet.tasks.physics.matching import match

N = 200


@cache
def situations(name: str) -> tuple[Situation, ...]:
    found: list[Situation] = []
    attempt = 0
    while len(found) < N:
        attempt += 1
        assert attempt < 40 * N, f"{name} rejects nearly all draws"
        try:
            found.append(FAMILIES[name][1](Draw(f"test:{name}:{attempt}")))
        except Degenerate:
            continue
    return tuple(found)


def test_there_are_more_families_than_were_asked_for() -> None:
    assert len(FAMILIES) == 24
    assert len({subject for subject, _ in FAMILIES.values()}) == 8


@pytest.mark.parametrize("name", FAMILIES)
def test_two_hundred_problems_have_the_value_and_dimension_that_a_second_way_gives(name: str) -> None:
    checked: Counter[str] = Counter()
    for situation in situations(name):
        given = quantities(situation.givens)
        for target in situation.targets:
            if target.value is None:
                continue
            again = LAWS[name, target.key](given)
            # Converting raises where the dimensions differ.
            assert again.to(target.unit).m == pytest.approx(target.value, rel=2e-3), (
                name,
                target.key,
                situation.givens,
            )
            checked[target.key] += 1
    assert set(checked) == {key for family, key in LAWS if family == name}
    assert sum(checked.values()) >= N


@pytest.mark.parametrize("name", ["motion-function", "work-energy", "rc-circuit"])
def test_symbolic_answers_have_the_values_of_a_numerical_derivative_or_integral(name: str) -> None:
    from specvet.tasks.physics.grammar import parse

    for situation in situations(name)[:10]:
        g = {key: value for key, (value, _) in situation.givens.items()}
        for target in (t for t in situation.targets if t.symbolic):
            expression = parse(target.symbolic)
            (symbol,) = expression.free_symbols
            for at in (0.7, 1.9):
                value = float(expression.subs(symbol, at))
                assert value == pytest.approx(_numerically(name, target.key, g, at), rel=1e-4, abs=1e-6)


def _numerically(name: str, key: str, g: dict[str, float], at: float) -> float:
    step = 1e-4
    if name == "motion-function":
        x = np.polynomial.Polynomial([g["start"], g["c"], -g["b"], g["a"]])
        ends = [x(at + k * step) for k in (-1, 0, 1)]
        return (ends[2] - ends[0]) / (2 * step) if key == "v" else (ends[2] - 2 * ends[1] + ends[0]) / step**2
    if name == "work-energy":
        x = (np.arange(20_000) + 0.5) * at / 20_000
        return float(np.sum(g["a"] + g["b"] * x ** g["n"]) * at / 20_000)
    u, tau = g["V0"], g["R"] * g["C"] * 1e-3
    for _ in range(20_000):  # Euler's midpoint steps of tau du/dt = V - u
        half = u + (g["V"] - u) / tau * at / 40_000
        u += (g["V"] - half) / tau * at / 20_000
    return u


@pytest.mark.parametrize("name", FAMILIES)
def test_golds_are_sensible_numbers_and_choices_differ_by_more_than_any_tolerance(name: str) -> None:
    some = 0
    for situation in situations(name)[:60]:
        for target in situation.targets:
            if target.value is None or not 1e-4 <= abs(target.value) < 1e6:
                continue
            gold = gold_of(target)
            assert gold.kind == "numeric"
            assert gold.tolerance < APART
            values = [*_distractors(target), target.value]
            some += len(values) == 4
            for i, value in enumerate(values):
                assert all(abs(value - other) > APART * max(abs(value), abs(other)) for other in values[:i])
    assert some > 0, f"{name} never offers choices"


@pytest.mark.parametrize("name", FAMILIES)
def test_the_boxed_answer_matches_its_gold_strictly_and_choices_are_part_of_the_question(name: str) -> None:
    kinds: Counter[str] = Counter()
    for i, situation in enumerate(situations(name)[:25]):
        try:
            question = asked(situation, Draw(f"ask:{name}:{i}"), (0, 1, 2, 3))
        except Degenerate:
            continue
        decision = match(rf"\boxed{{{question.boxed}}}", question.gold, "strict")
        assert decision.right, (question.boxed, question.gold, decision)
        kinds[question.gold.kind] += 1
        if question.gold.kind == "mcq":
            assert all(choice in question.text for choice in question.gold.choices)
    assert sum(kinds.values()) >= 20


@pytest.mark.parametrize("name", ["velocity-plot", "position-plot", "resistors", "kirchhoff", "lens-bench"])
def test_figures_are_png_pictures_that_follow_from_the_numbers_and_are_drawn_alike_each_time(name: str) -> None:
    drawn = {}
    for attempt in range(1, 30):
        try:
            situation = FAMILIES[name][1](Draw(f"test:{name}:{attempt}"))
            again = FAMILIES[name][1](Draw(f"test:{name}:{attempt}"))
        except Degenerate:
            continue
        assert situation.figure is not None
        assert situation.figure == again.figure
        pixels = np.asarray(Image.open(io.BytesIO(situation.figure)))
        assert pixels.shape[0] >= 200
        assert pixels.shape[1] >= 360
        assert 0.01 < np.mean(pixels < 128) < 0.2, "dark lines on white"
        drawn[situation.figure] = situation.givens
    assert len(drawn) > 10


def test_the_corners_of_a_plot_are_dark_dots_at_their_values() -> None:
    from specvet.data.physics.figures import HEIGHT, WIDTH, plot

    pixels = np.asarray(Image.open(io.BytesIO(plot([0, 5, 10], [0, 8, 4], "t", "v"))))
    assert pixels.shape == (HEIGHT, WIDTH)
    left, right, top, bottom = 46, WIDTH - 14, 24, HEIGHT - 38
    for t, v in ((0, 0), (5, 8), (10, 4)):
        x = left + t / 10.2 * (right - left)
        y = bottom - (v + 0.64) / (8 + 1.28) * (bottom - top)
        assert pixels[int(y), int(x)] < 40


def test_a_draw_is_the_same_on_every_machine() -> None:
    draw = Draw("a seed")
    assert [draw.number(1, 9, 0.5), draw.whole(0, 99), draw.one("abcdef"), round(draw.chance(), 6)] == [
        7.0,
        64,
        "a",
        0.708033,
    ]


def test_numbers_in_results_are_found_whatever_their_form() -> None:
    assert agrees("{x: 1.66667, y: 1.33333}", 4 / 3)
    assert agrees("[-20/3, 100]", -6.6667)
    assert agrees("1.2e-7", 1.2e-7)
    assert not agrees("[2.5, 7]", 3.0)
    assert Q(1, "percent").to("").m == pytest.approx(0.01)
