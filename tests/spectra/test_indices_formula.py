"""Formulas: arithmetic, errors, and what is never evaluated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specvet.records.schema import Measurement
from specvet.spectra import Spectrum
from specvet.spectra.indices import FormulaIndex, Index, formula_names, measure

EMPTY = Spectrum(np.empty(0), np.empty(0))


def known(**values: float | tuple[float, float]) -> dict[str, Measurement]:
    out = {}
    for name, v in values.items():
        number, error = v if isinstance(v, tuple) else (v, None)
        out[name] = Measurement(index=name, name=name, value=number, error=error, quality=0.5, note=f"of {name}")
    return out


def formula(text: str, **values: float | tuple[float, float]) -> Measurement:
    return measure(["f"], EMPTY, {"f": FormulaIndex("f", "F", text, "Å")}, known(**values))["f"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * 2", 2 + 3 * 2),
        ("(a + b) * 2", 10),
        ("a - b - 1", -2),
        ("-a / b", -2 / 3),
        ("--a", 2),
        ("min(a, b)", 2),
        ("max(a, b, 7)", 7),
        ("abs(a - b)", 1),
        ("min(a, -b) * .5", -1.5),
        ("1e-2 * a", 0.02),
        ("  a +\tb  ", 5),
        ("a − b", -1),  # a typeset minus
        ("1", 1),
    ],
)
def test_arithmetic(text: str, expected: float) -> None:
    m = formula(text, a=2, b=3)
    assert m.value == pytest.approx(expected)
    assert (m.name, m.unit, m.error) == ("F", "Å", None)


def test_names_come_once_and_in_order() -> None:
    assert formula_names("b + a * b - max(c, a)") == ["b", "a", "c"]
    assert formula_names("1 + 2") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b", math.hypot(0.3, 0.4)),
        ("2 * a - b", math.hypot(0.6, 0.4)),
        ("a * b", math.hypot(0.3 * 5, 0.4 * 2)),
        ("a * a", 2 * 2 * 0.3 + 0.09),  # one part, moved as a whole
        ("min(a, b)", 0.3),
        ("max(a, b)", 0.4),
        ("abs(-a)", 0.3),
    ],
)
def test_errors_are_added_in_quadrature(text: str, expected: float) -> None:
    assert formula(text, a=(2, 0.3), b=(5, 0.4)).error == pytest.approx(expected)


def test_errors_of_a_quotient_are_the_analytic_ones_where_they_are_small() -> None:
    assert formula("a / b", a=(2, 0.002), b=(5, 0.004)).error == pytest.approx(0.4 * math.hypot(1e-3, 8e-4), rel=0.01)


def test_quality_is_the_worst_and_notes_are_joined() -> None:
    m = formula("a + b", a=1, b=2)
    assert (m.quality, m.note) == (0.5, "of a; of b")


@pytest.mark.parametrize("text", ["1 / (a - a)", "a / 0", "1 / (a - 2)", "1 / (a - 2.3)"])
def test_division_by_zero_also_within_the_error_is_not_measurable(text: str) -> None:
    m = formula(text, a=(2, 0.3))
    if text.endswith("2.3)"):
        assert m.value is None or m.error is None or m.error > 1e10
    else:
        assert (m.value, m.note) == (None, "division by zero")


def test_values_and_errors_that_overflow_are_not_measurable() -> None:
    assert formula("a * a", a=1e200).note == "the value is not finite"
    assert formula("a * 1e200 - a * 1e200", a=1e200).note == "the value is not finite"
    assert formula("a * 1e10", a=(1, 1e305)).note == "its error is not finite"


def test_a_part_that_was_not_measured_is_named() -> None:
    parts = {"a": Measurement(index="a", name="A", note="the continuum is not detected")}
    m = measure(["f"], EMPTY, {"f": FormulaIndex("f", "F", "a + 1")}, parts)["f"]
    assert (m.value, m.quality, m.note) == (None, 0.0, "a: the continuum is not detected")


FORBIDDEN = [
    "a.b",
    "a.__class__",
    "().__class__.__bases__",
    "__import__('os').system('true')",
    "open('x')",
    "eval(a)",
    "a(b)",
    "min(*a)",
    "min(a, key=b)",
    "max(a, b)(1)",
    "a[0]",
    "[a]",
    "{a}",
    "(a, b)",
    "a if b else 1",
    "lambda: 1",
    "a and b",
    "a < b",
    "not a",
    "~a",
    "+a",
    "a ** b",
    "9 ** 9 ** 9",
    "a // b",
    "a % b",
    "a << 9",
    "a @ b",
    "'text'",
    "b'x'",
    "1j",
    "True",
    "None",
    "...",
    "f'{a}'",
    "a := 1",
    "(a := 1)",
    "[x for x in a]",
    "await a",
    "yield",
    "a; b",
    "a\nb",
    "import os",
    "a = 1",
    "",
    "   ",
    "a +",
    "((a)",
    "a b",
    "\x00",
    "1e999",
    "9" * 400,
    "min()",
    "min(a)",
    "abs()",
    "abs(a, b)",
    "pow(a, 2)",
    "sum(a, b)",
    "(" * 249 + "a" + ")" * 249,
    "-" * 400 + "a",
    "a" + "+a" * 200,
    "a" * 501,
    "a + " * 100_000 + "a",
]


@pytest.mark.parametrize("text", FORBIDDEN, ids=range(len(FORBIDDEN)))
def test_everything_else_is_refused_and_never_evaluated(text: str) -> None:
    with pytest.raises(ValueError, match="formula") as caught:
        formula_names(text)
    assert len(str(caught.value)) < 400
    with pytest.raises(ValueError, match="formula"):
        formula(text, a=1, b=2)


def test_a_formula_of_fifty_terms_is_read() -> None:
    assert formula("a" + "+a" * 50, a=1).value == 51


def test_a_formula_that_rests_on_itself_is_refused() -> None:
    indices: dict[str, Index] = {
        "f": FormulaIndex("f", "f", "g + 1"),
        "g": FormulaIndex("g", "g", "2 * f"),
        "h": FormulaIndex("h", "h", "h"),
    }
    for name in indices:
        with pytest.raises(ValueError, match="refers to itself"):
            measure([name], EMPTY, indices)


def test_formulas_may_rest_on_formulas_but_not_without_end() -> None:
    chain: dict[str, Index] = {f"f{i}": FormulaIndex(f"f{i}", "f", f"f{i + 1} + 1") for i in range(2000)}
    chain["f5"] = FormulaIndex("f5", "f", "10")
    assert measure(["f0"], EMPTY, chain)["f0"].value == 15
    del chain["f5"]
    chain["f5"] = FormulaIndex("f5", "f", "f6 + 1")
    with pytest.raises(ValueError, match="formulas rest on one another"):
        measure(["f0"], EMPTY, chain)


def test_an_unknown_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        measure(["f"], EMPTY, {"f": FormulaIndex("f", "f", "nothing + 1")})


@given(st.text(max_size=60))
def test_any_text_is_a_formula_or_a_value_error(text: str) -> None:
    try:
        names = formula_names(text)
    except ValueError:
        return
    m = measure(["f"], EMPTY, {"f": FormulaIndex("f", "f", text)}, known(**dict.fromkeys(names, 2.0)))["f"]
    assert m.value is None or math.isfinite(m.value)


def test_the_error_of_a_minimum_feels_each_part_both_ways() -> None:
    """min(−8.40 ± 9, −8.36 ± 8, 3 ± 7): moved upwards alone, the parts would seem to matter by 0.04."""
    known = {
        n: Measurement(index=n, name=n, value=v, error=e)
        for n, v, e in (("a", -8.4, 9.0), ("b", -8.36, 8.0), ("c", 3, 7))
    }
    index = FormulaIndex("low", "low", "min(a, b, c)", "Å")
    found = measure(["low"], Spectrum(np.empty(0), np.empty(0)), {"low": index}, known=known)["low"]
    assert found.value == pytest.approx(-8.4)
    assert found.error == pytest.approx(np.hypot(9.0, 7.96), rel=1e-3)
