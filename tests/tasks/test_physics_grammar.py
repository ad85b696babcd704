"""The grammar of physics expressions: what it reads, what it refuses with which help, and that SymPy sees no text."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sympy = pytest.importorskip("sympy", reason="needs the extra `physics`")

from specvet.tasks.physics.grammar import SIZES, GrammarError, document, evaluate, parse, shown  # noqa: E402
from specvet.tasks.physics.grammar.words import WORDS  # noqa: E402
from specvet.tasks.physics.grammar.words.measures import CONSTANTS, DEFINED, constant, measured  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "physics.md"
x, y, m, v, g, r = sympy.symbols("x y m v g r")


def refusal(line: str) -> GrammarError:
    with pytest.raises(GrammarError) as caught:
        evaluate(line)
    return caught.value


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("2πr²", 2 * sympy.pi * r**2),
        ("½*m*v^2", m * v**2 / 2),
        ("2½", sympy.Rational(5, 2)),
        ("12½*2", sympy.Integer(25)),
        ("x⁻¹", 1 / x),
        ("x^-2", x**-2),
        ("−3×10^8", sympy.Integer(-300000000)),
        ("√2", sympy.sqrt(2)),
        ("√x*y", sympy.sqrt(x) * y),
        ("√(x+1)", sympy.sqrt(x + 1)),
        ("2√3", 2 * sympy.sqrt(3)),
        ("sin(30°)", sympy.Rational(1, 2)),
        ("2x", 2 * x),
        ("2(x+1)", 2 * (x + 1)),
        ("(x+1)(x-1)", (x + 1) * (x - 1)),
        ("2 m g", 2 * m * g),
        ("3 sqrt(x)", 3 * sympy.sqrt(x)),
        ("6÷4·x", sympy.Rational(3, 2) * x),
        ("v₀ + v_0", 2 * sympy.Symbol("v_0")),
        ("μ₀", sympy.Symbol("mu_0")),
        ("Δx/Δt", sympy.Symbol("Delta_x") / sympy.Symbol("Delta_t")),
        ("ωt", sympy.Symbol("omega") * sympy.Symbol("t")),
        ("h*c/λ", sympy.Symbol("h") * sympy.Symbol("c") / sympy.Symbol("lambda")),
        ("lambda*f", sympy.Symbol("lambda") * sympy.Symbol("f")),
        ("2e3", sympy.Float(2000)),
        ("2e", 2 * sympy.Symbol("e")),
        ("3+4j", 3 + 4 * sympy.I),
        ("E + I + N + c", sum(sympy.symbols("E I N c"))),
        ("x ≤ 2", x <= 2),
        ("0 < x < 2", sympy.And(sympy.Lt(0, x, evaluate=False), x < 2)),
        ("x > 0 and not x > 2", sympy.And(x > 0, x <= 2)),
        ("(x > 0) & (x < 2)", sympy.And(x > 0, x < 2)),
        ("x == 2", sympy.Eq(x, 2)),
        ("∞", sympy.oo),
        ("(\nx\n+ 1)", x + 1),
        ("abs(3-4j)", sympy.Integer(5)),
        ("10 − 2 − 3", sympy.Integer(5)),
        ("2**3**2", sympy.Integer(512)),
        ("-2**2", sympy.Integer(-4)),
    ],
)
def test_the_spelling_of_physics_is_read(line: str, value: Any) -> None:
    assert evaluate(line) == value
    assert parse(line) == value


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("solve(v**2 == v0**2 + 2*a*s, s)", "[(v**2 - v0**2)/(2*a)]"),
        ("solve(V - I*R, I)", "[V/R]"),
        ("solve(x**2 - 4)", "[-2, 2]"),
        ("solve(x**2 == 4, x)[1]", "2"),
        ("solve([x + y == 3, x - y == 1], [x, y])[x]", "2"),
        ("solve([x**2 + y**2 == 25, x == 3], [x, y])", "[(3, -4), (3, 4)]"),
        ("solve(x**2 < 4, x)", "(-2 < x) & (x < 2)"),
        ("N(solve(x**3 - 3*x + 1, x))", "[0.347296355333861, 1.53208888623796, -1.87938524157182]"),
        ("integrate(x**2, x, 0, 3)", "9"),
        ("integrate(exp(-x**2), (x, -oo, oo))", "sqrt(pi)"),
        ("integrate(x*y, (x, 0, 1), (y, 0, 2))", "1"),
        ("diff(x(t)**2, t)", "2*x(t)*Derivative(x(t), t)"),
        ("diff(sin(x), x, 3)", "-cos(x)"),
        ("diff(x**2*y**3, x, y)", "6*x*y**2"),
        ("limit(1/x, x, 0, -1)", "-oo"),
        ("dsolve(diff(x(t), t, 2) == -g, x(t))", "Eq(x(t), C1 + C2*t - g*t**2/2)"),
        ("dsolve(diff(y(t), t) == -k*y(t), y(t), y(0) == A)", "Eq(y(t), A*exp(-k*t))"),
        ("sqrt(-4)", "2*1j"),
        ("simplify(exp(x)*exp(1 - x))", "exp(1)"),
        ("N(1.6e-19*2)", "3.2e-19"),
        ("N(6.62607015e-34*3e8/500e-9)", "3.97564209e-19"),
        ("subs(x + y, x, y, y, x)", "x + y"),
        ("subs(m*v**2/2, (m, 2), (v, 3))", "9"),
        ("dot([1, 2, 3], [4, 5, 6])", "32"),
        ("cross([1, 0, 0], [0, 1, 0])", "Matrix([[0], [0], [1]])"),
        ("Matrix([[1, 2], [3, 4]])*inv([[1, 2], [3, 4]])", "Matrix([[1, 0], [0, 1]])"),
        ("det([[a, b], [c, d]])", "a*d - b*c"),
        ("eigenvals([[0, 1], [1, 0]])", "{-1: 1, 1: 1}"),
        ("convert(72*km/h, m/s)", "20*m/s"),
        ("convert(planck_constant*speed_of_light/(500*nm), eV)", "2.47968396866401*eV"),
        ("convert(2*kWh, MJ)", "36*MJ/5"),
        ("si(unit(eV))", "801088317/5000000000000000000000000000"),
        ("solve(2*unit(kg)*a == 10*unit(N), a)", "[5*N/kg]"),
        ("unit(m)*m", "m*unit(m)"),
        ("convert([1*km, 1*mile], m)", "[1000*m, 201168*m/125]"),
    ],
)
def test_physics_is_answered(line: str, result: str) -> None:
    assert shown(evaluate(line)) == result


@pytest.mark.parametrize(
    ("line", "help_"),
    [
        ("x = 5", "assignments"),
        ('x = symbols("x"); solve(x - 1)', "assignments"),
        ("Matrix([[1,2],[3,4]]).det()", "write det(expr, …), not expr.det"),
        ("expr.subs(x, 2)", "write subs(expr, …)"),
        ("sympy.solve(x - 1, x)", "without 'sympy.'"),
        ("Symbol(x, positive=True)", "leave out positive=…"),
        ("solve(x**2 = 4, x)", "Eq(left, right)"),
        ("symbols('x')", "every name is a symbol already"),
        ("3,000*x", "3000, not 3,000"),
        ("5!", "factorial(n)"),
        ("50%", "a/100"),
        ("|x|", "abs(x)"),
        ("sin x", "write sin(x)"),
        ("Sin(x)", "write sin(x)"),
        ("k(t+1)", "write k*(…) for a product"),
        ("\\frac{1}{2}", "LaTeX"),
        ("7 // 2", "floor(a/b)"),
        ("convert(5*kg, m)", "the quantity is kg, the units asked for are m"),
        ("convert(25*degC, K)", "no unit"),
        ("si(1*unit(m) + 1*unit(s))", "m and s are added"),
        ("solve(x, y, z", "1 '(' but 0 ')'"),
        ("subs(x)", "write subs(expr, x, value)"),
        ("sin(1, 2)", "write sin(x)"),
        ("2 3", "two numbers"),
        ("x.5", "0.5"),
        ("0x1F", "decimal"),
        ("1_000", "underscores"),
    ],
)
def test_what_models_write_otherwise_is_refused_with_what_to_write(line: str, help_: str) -> None:
    assert help_ in refusal(line).message


def test_a_plain_expression_neither_solves_nor_integrates() -> None:
    plain = {entry.name for entry in WORDS.values() if entry.plain}
    assert {"sin", "sqrt", "exp", "Eq", "Piecewise", "convert"} <= plain
    for name in ("solve", "integrate", "simplify", "dsolve", "Matrix", "diff", "expand"):
        assert name not in plain
        with pytest.raises(GrammarError, match="plain expression"):
            parse(f"{name}(x, x)")


def test_no_text_reaches_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way by which SymPy reads a text ends in its parser. Only formulas of numbers that it made itself do."""
    from sympy.parsing import sympy_parser

    words = list(dict.fromkeys(WORDS.values()))
    for entry in words:
        evaluate(entry.example)  # SymPy's modules read texts of their own when they are imported
    sympy.core.cache.clear_cache()
    seen: list[str] = []

    def entered(text: str, *_: object, **__: object) -> Any:
        seen.append(text)
        return parse(text)

    monkeypatch.setattr(sympy_parser, "parse_expr", entered)
    assert sympy.sympify("x + 1") == x + 1
    assert seen == ["x + 1"]
    for entry in words:
        evaluate(entry.example)
    assert {name for text in seen[1:] for name in re.findall("[A-Za-z_]+", text)} <= {"sqrt", "log", "exp", "pi"}


@pytest.mark.parametrize("entry", dict.fromkeys(WORDS.values()), ids=lambda entry: entry.name)
def test_the_example_of_each_word_has_a_result_that_can_be_read_back(entry: Any) -> None:
    value = evaluate(entry.example)
    said = shown(value)
    if entry.group == "units" or re.search(r"[{]|O\(|y\(t\)", said):
        return  # units, tables of solutions, orders and unknown functions are only shown
    again = evaluate(said)
    if isinstance(value, sympy.Expr):
        difference = sympy.simplify(again - value)
        assert difference == 0 or abs(difference) < 1e-12
    else:
        assert again == value


def test_the_page_lists_the_words_constants_and_sizes_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert document.updated(page) == page, "run python -m specvet.tasks.physics.grammar.document docs/physics.md"


def test_the_calls_of_the_page_give_what_it_says() -> None:
    """Of the grammar part; those of the tool are asked in tests/tools."""
    for line in re.findall(
        r"`(solve\([^`]+\]|[^`]*[π½√°²×₀Δ][^`]*)`", PAGE.read_text(encoding="utf-8").split("<!--")[0]
    ):
        evaluate(line)


def test_units_agree_with_pint() -> None:
    pint = pytest.importorskip("pint")
    registry = pint.UnitRegistry()
    theirs = {"u": "unified_atomic_mass_unit", "h": "hour", "hr": "hour", "gauss": "gauss", "pc": "parsec",
              "psi": "psi", "percent": "percent", "AU": "astronomical_unit", "ly": "light_year", "yr": "year",
              "rev": "turn", "deg": "degree", "T": "tesla", "lb": "pound", "lbf": "pound_force", "mph": "mile/hour",
              "L": "liter", "mL": "milliliter", "tonne": "metric_ton", "rpm": "revolution/minute", "cal": "calorie",
              "kcal": "kilocalorie", "kpc": "kiloparsec", "Mpc": "megaparsec", "Gpc": "gigaparsec", "mas": "mas",
              "marcsec": "milliarcsecond", "erg": "erg", "dyn": "dyne", "min": "minute", "Wh": "watt*hour",
              "kWh": "kilowatt*hour", "MWh": "megawatt*hour", "GWh": "gigawatt*hour", "C": "coulomb", "F": "farad",
              "kyr": "kiloyear", "Myr": "megayear", "Gyr": "gigayear"}  # fmt: skip
    assert DEFINED["gauss"].factor == sympy.Rational(1, 10**4)  # pint's is of the Gaussian system
    for name, unit in DEFINED.items():
        if name == "gauss":
            continue
        other = registry.Quantity(1, theirs.get(name, name)).to_base_units()
        factor = float(other.magnitude)
        dimensions = {str(k).strip("[]"): n for k, n in other.dimensionality.items()}
        order = ("length", "mass", "time", "current", "temperature", "substance", "luminosity")
        assert float(unit.factor) == pytest.approx(factor, rel=2e-6), name
        assert [float(n) for n in unit.dimension] == [dimensions.get(d, 0) for d in order], name


def test_constants_agree_with_scipy() -> None:
    from scipy import constants as codata

    theirs = {
        "speed_of_light": codata.c, "gravitational_constant": codata.G, "standard_gravity": codata.g,
        "planck_constant": codata.h, "reduced_planck_constant": codata.hbar, "boltzmann_constant": codata.k,
        "elementary_charge": codata.e, "avogadro_constant": codata.N_A, "gas_constant": codata.R,
        "stefan_boltzmann_constant": codata.sigma, "wien_constant": codata.Wien, "electron_mass": codata.m_e,
        "proton_mass": codata.m_p, "neutron_mass": codata.m_n, "atomic_mass_constant": codata.atomic_mass,
        "vacuum_permittivity": codata.epsilon_0, "vacuum_permeability": codata.mu_0,
        "fine_structure_constant": codata.alpha, "rydberg_constant": codata.Rydberg,
        "bohr_radius": codata.value("Bohr radius"), "bohr_magneton": codata.value("Bohr magneton"),
        "faraday_constant": codata.value("Faraday constant"),
        "coulomb_constant": 1 / (4 * codata.pi * codata.epsilon_0),
    }  # fmt: skip
    assert set(CONSTANTS) - set(theirs) == {
        "solar_mass", "solar_radius", "solar_luminosity", "earth_mass", "earth_radius"
    }  # fmt: skip
    for name, value in theirs.items():
        assert float(measured(constant(name))[0]) == pytest.approx(value, rel=2e-9), name


def test_constants_are_consistent_by_dimension() -> None:
    assert shown(evaluate("convert(electron_mass*speed_of_light**2, MeV)")).startswith("0.5109989")
    assert shown(evaluate("convert(elementary_charge**2*coulomb_constant/(2*bohr_radius), eV)")).startswith("13.6056")
    assert float(evaluate("si(elementary_charge**2*coulomb_constant/(reduced_planck_constant*speed_of_light))")) == (
        pytest.approx(7.2973525693e-3, rel=1e-9)
    )


def test_rounding_errors_of_real_roots_go_and_small_values_of_si_stay() -> None:
    assert all(root.is_real for root in evaluate("N(solve(x**3 - 3*x + 1, x))"))
    assert shown(evaluate("N(electron_mass)")) == "9.1093837015e-31*kg"
    assert shown(evaluate("N(1e-30 + 2e-30j)")) == "1.0e-30 + 2.0e-30*1j"


def test_numeric_solutions_are_right_also_on_the_scales_of_si() -> None:
    for line, known in (("nsolve(cos(x) == x, x, 1)", 0.739085133215161),
                        ("nsolve(x**3 == 2e-30, x, 1e-10)", 2e-30 ** (1 / 3)),
                        ("nsolve(exp(x) - 1e12, x, 30)", 27.6310211159285), ("nsolve(x**2 - 2, x, 0)", 2**0.5),
                        ("nsolve(5*(1 - exp(-x)) == x, x, 5)", 4.96511423174428)):  # fmt: skip
        assert abs(float(evaluate(line))) == pytest.approx(known, rel=1e-13)
    assert refusal("nsolve(x**2 + 1, x, 1)").kind == "domain"
    assert refusal("nsolve(x + y, x, 1)").kind == "domain"


LEAVES = st.sampled_from(["x", "y", "2", "3", "0", "-1", "0.5", "10", "pi", "1j", "oo", "99", "7/3"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/^<"), inner),
        st.builds("{}({})".format, st.sampled_from(["sin", "exp", "sqrt", "log", "factorial", "gamma", "abs"]), inner),
        st.builds("[{}, {}]".format, inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_a_random_expression_has_a_value_or_a_typed_refusal(line: str) -> None:
    refused, value = None, None
    try:
        value = parse(line)
    except GrammarError as error:
        refused = error
    if refused is None:
        assert shown(value)
    else:
        assert refused.kind in ("syntax", "unsupported", "too_large", "domain")
        assert "\n" not in refused.message
        assert len(refused.message) < 220


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text_has_a_value_or_a_typed_refusal(text: str) -> None:
    with contextlib.suppress(GrammarError):
        parse(text)


def test_sizes_are_checked_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    power = sympy.Integer._eval_power

    def watched(base: Any, exponent: Any) -> Any:
        assert abs(exponent) <= 10_000, "a large power was computed"
        return power(base, exponent)

    monkeypatch.setattr(sympy.Integer, "_eval_power", watched)
    for line in ("10**10**10", "9**9**9", "2**-40000", "99**(10**5)", "subs(x**y, x, 10, y, 10**10)"):
        assert refusal(line).kind == "too_large"
    assert refusal("x" * (SIZES.characters + 1)).kind == "too_large"
