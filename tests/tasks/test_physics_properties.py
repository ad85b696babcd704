"""What holds of every number, unit and expression, and of whatever a model may write."""

from __future__ import annotations

import random
import resource
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.records.problems import Gold
from specvet.tasks.physics import units
from specvet.tasks.physics.matching import match
from specvet.tasks.physics.patience import OutOfPatience, patience
from specvet.tasks.physics.plain import GREEK_NAMES, LONGEST, plain
from specvet.tasks.physics.reasons import STRICT_REFUSES, Flag, Reason, UnreadError
from specvet.tasks.physics.symbolic import match_expression, probed
from specvet.tasks.physics.trees import Apply, Expression, Number, Symbol


def numeric(value: float, unit: str = "", **more: object) -> Gold:
    return Gold.model_validate({"kind": "numeric", "value": float(value), "unit": unit, **more})


def symbolic(value: str, **more: object) -> Gold:
    return Gold.model_validate({"kind": "symbolic", "value": value, **more})


# The measured defects of a public matcher: each is refused, and what it refused though right is right.


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"2\sqrt{3}", symbolic("2*pi")),
        (r"2\sqrt{3}", numeric(6.283185)),
        ("3 km/s", numeric(3, "m/s")),
        ("3,000", numeric(3)),
        ("2mg", symbolic("2*m*g/k")),
        ("0", numeric(1e-7)),
        ("1e-7 T", numeric(0, "T", scale=1e-6)),
        ("9^9^9", numeric(5)),
        ("the answer is not 5 m but 6", numeric(5, "m")),
        ("it is to the left or right", Gold(kind="text", value="to the left")),
    ],
)
def test_no_measured_defect_is_taken_for_right(answer: str, gold: Gold) -> None:
    assert not match(answer, gold).right


@pytest.mark.parametrize(("answer", "gold"), [("3,000", numeric(3000)), ("50%", numeric(0.5))])
def test_what_such_matchers_refuse_though_right_is_right(answer: str, gold: Gold) -> None:
    decision = match(answer, gold)
    assert (decision.right, decision.flags) == (True, frozenset())


# Numbers

MANTISSAS = st.integers(100, 999)
POWERS = st.integers(-12, 12)


def ways(mantissa: int, power: int) -> list[str]:
    """The number mantissa/100 · 10^power in ten and more writings."""
    digits = f"{mantissa // 100}.{mantissa % 100:02d}"
    raised = str(power).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    exact = Fraction(mantissa, 100) * Fraction(10) ** power
    return [
        f"{digits}e{power}",
        f"{digits}E{power:+03d}",
        f"{digits}*10^{power}",
        f"{digits}*10**{power}",
        f"{digits} x 10^{power}".replace(" x ", " × "),
        rf"{digits} \times 10^{{{power}}}",
        rf"${digits}\cdot10^{{{power}}}$",
        f"{digits}×10{raised}",
        rf"\frac{{{mantissa}}}{{100}} \times 10^{{{power}}}",
        rf"\dfrac{{{exact.numerator}}}{{{exact.denominator}}}",
        f"{exact.numerator}/{exact.denominator}",
        f"x = {digits}e{power}",
        f"{mantissa}e{power}%",
        f"{float(exact):.15f}" if power > -6 else f"{digits}e{power}",
        f"{int(exact):,}" if exact.denominator == 1 else f"+{digits}e{power}",
    ]


def negative(way: str) -> str:
    lead, _, rest = way.rpartition("= ")
    if lead:
        return f"{lead}= -{rest}"
    return way.replace("$", "$-", 1) if way[0] == "$" else "−" + way.lstrip("+")


@settings(max_examples=60, deadline=None)
@given(MANTISSAS, POWERS, st.booleans())
def test_a_number_is_the_same_in_fifteen_writings_and_never_with_the_other_sign(
    mantissa: int, power: int, minus: bool
) -> None:
    value = mantissa / 100 * 10.0**power * (-1 if minus else 1)
    gold = numeric(value, tolerance=1e-9)
    for written in ways(mantissa, power):
        way = negative(written) if minus else written
        decision = match(way, gold)
        assert (decision.right, decision.flags) == (True, frozenset()), way
        assert match(way, numeric(-value)).reason is Reason.SIGN, way
        assert not match(way, numeric(value * 1.02)).right, way


@settings(max_examples=150, deadline=None)
@given(st.floats(1e-6, 1e6), st.sampled_from([0.0, 0.001, 0.01, 0.05]), st.floats(-0.2, 0.2))
def test_the_tolerance_is_that_of_the_row_and_relative_to_its_value(value: float, rel: float, off: float) -> None:
    answer = value * (1 + off)
    if abs(abs(off) - rel) > 1e-6:
        assert match(repr(answer), numeric(value, tolerance=rel)).right == (abs(off) < rel)


def test_the_bound_of_a_tolerance_is_within_it() -> None:
    assert match("1.01", numeric(1.0)).right
    assert match("0.99", numeric(1.0)).right
    assert not match("1.0101", numeric(1.0)).right


# Units

FAMILIES = [
    ["m", "km", "cm", "mm", "µm", "nm", "Å", "ft", "mi", "inch", "light_year", "AU", "pc"],
    ["m/s", "km/h", "mph", "cm s^-1", "km s⁻¹"],
    ["J", "kJ", "eV", "MeV", "cal", "kWh", "erg", "N·m", "W s"],
    ["Pa", "kPa", "bar", "atm", "mmHg", "psi", "N/m^2"],
    ["N", "kN", "dyn", "lbf", "kg m/s^2"],
    ["K", "°C", "°F"],
    ["rad", "°", "arcmin", "arcsec", "rev"],
    ["V", "mV", "kV", "J/C", "W/A"],
    ["Ω", "kΩ", r"\mathrm{k\Omega}", "V/A"],
    ["T", "G", "Wb/m²", "N/(A m)"],
    ["kg", "g", "u", "lb", "t"],
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FAMILIES), st.data(), st.floats(1.0, 1e3))
def test_a_quantity_is_the_same_there_and_back(family: list[str], data: st.DataObject, number: float) -> None:
    one, other = data.draw(st.sampled_from(family)), data.draw(st.sampled_from(family))
    source, target = units.readings(one)[0], units.readings(other)[0]
    moved = units.converted(number, source, target)
    assert units.converted(moved, target, source) == pytest.approx(number, rel=1e-9, abs=1e-9)
    assert match(f"{moved!r} {other}", numeric(number, one, tolerance=1e-6)).right


def test_no_unit_of_one_family_is_one_of_another() -> None:
    firsts = [family[0] for family in FAMILIES]
    for at, one in enumerate(firsts):
        for other in firsts[at + 1 :]:
            decision = match(f"5 {other}", numeric(5, one), "strict")
            assert not decision.right, (one, other)


@pytest.mark.parametrize("kelvin", [4.2, 77.0, 273.15, 300.0, 5778.0])
def test_offset_temperatures_are_built_and_not_multiplied(kelvin: float) -> None:
    celsius, fahrenheit = kelvin - 273.15, kelvin * 1.8 - 459.67
    gold = numeric(kelvin, "K", tolerance=1e-6)
    assert match(f"{celsius:.6f} °C", gold).right
    assert match(f"{fahrenheit:.6f} °F", gold).right
    assert not match(f"{kelvin} °C", gold).right


def test_what_lenient_flags_strict_refuses() -> None:
    for answer, gold, flag in [
        ("5", numeric(5, "m"), Flag.UNIT_MISSING),
        ("5 m", numeric(5), Flag.UNIT_EXTRA),
        ("5 C", numeric(5, "degC"), Flag.UNIT_AMBIGUOUS),
        ("1/2π", numeric(0.1591549), Flag.FRACTION_AMBIGUOUS),
    ]:
        assert match(answer, gold).flags == {flag}
        strict = match(answer, gold, "strict")
        assert not strict.right
        assert strict.reason in (Reason.FLAGGED, Reason.UNIT_MISSING, Reason.UNIT_EXTRA)
    assert match("5.0 ± 0.1 m", numeric(5, "m"), "strict").right
    assert Flag.UNCERTAINTY not in STRICT_REFUSES


# Expressions


@pytest.mark.parametrize("way", ["v0", "v_0", "v_{0}", "v_o", r"v_{\text{0}}", "v₀", r"v_{ 0 }"])
def test_a_symbol_is_one_however_its_subscript_is_written(way: str) -> None:
    assert match(f"{way}^2/2", symbolic("v0**2/2")).reason is Reason.SAME_TEXT


@pytest.mark.parametrize("name", sorted(GREEK_NAMES - {"pi", "ell"}))
def test_greek_letters_are_one_as_sign_command_and_word(name: str) -> None:
    gold = symbolic(f"2*{'lamda' if name == 'lambda' else name}*x")
    for way in (rf"2\{name} x", f"2 {name} x", f"2*{name}*x"):
        assert match(way, gold).right, way


TREES = st.recursive(
    st.one_of(
        st.integers(1, 9).map(lambda n: Number(Fraction(n))), st.sampled_from("abxyt").map(Symbol)
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner).map(lambda t: Apply(t[0], t[1:])),
        inner.map(lambda t: Apply("sin", (t,))),
        inner.map(lambda t: Apply("neg", (t,))),
        st.tuples(inner, st.integers(1, 3)).map(lambda t: Apply("^", (t[0], Number(Fraction(t[1]))))),
    ),
    max_leaves=8,
)  # fmt: skip


def as_latex(tree: Expression) -> str:
    if isinstance(tree, Number):
        return str(tree.value)
    if isinstance(tree, Symbol):
        return tree.name
    args = [as_latex(arg) for arg in tree.args]
    if tree.op == "/":
        return rf"\frac{{{args[0]}}}{{{args[1]}}}"
    if tree.op == "sin":
        return rf"\sin\left({args[0]}\right)"
    if tree.op == "neg":
        return f"(-({args[0]}))"
    if tree.op == "^":
        return rf"({args[0]})^{{{args[1]}}}"
    sign = r"\cdot" if tree.op == "*" else tree.op
    return f"({args[0]}) {sign} ({args[1]})"


def as_program(tree: Expression) -> str:
    if isinstance(tree, Number):
        return str(tree.value)
    if isinstance(tree, Symbol):
        return tree.name
    args = [as_program(arg) for arg in tree.args]
    match tree.op:
        case "sin":
            return f"sin({args[0]})"
        case "neg":
            return f"(-({args[0]}))"
        case "^":
            return f"({args[0]})**({args[1]})"
        case op:
            return f"(({args[0]}) {op} ({args[1]}))"


@settings(max_examples=80, deadline=None)
@given(TREES)
def test_an_expression_is_the_same_in_latex_and_as_a_program_and_its_double_is_not(tree: Expression) -> None:
    gold = symbolic(as_program(tree))
    assert match(as_latex(tree), gold).right
    zero = probed(tree, Number(Fraction(0)))
    other = match(f"2({as_latex(tree)})", gold)
    assert other.right == (zero is True) or not other.judged


def test_what_cannot_be_probed_is_undecided_and_scores_nothing() -> None:
    for answer, gold in [(r"\ln(x-x)", "log(y - y)"), ("e^{e^{e^{20x}}}", "2*exp(exp(exp(20*x)))")]:
        decision = match(answer, symbolic(gold))
        assert (decision.right, decision.credit, decision.judged) == (False, 0.0, False)
        assert decision.reason is Reason.UNDECIDED


def test_a_gold_that_cannot_be_read_is_said_and_not_raised() -> None:
    assert match("5 m", numeric(5, "quux")).reason is Reason.GOLD_UNREAD
    assert match("x", symbolic("][")).reason is Reason.GOLD_UNREAD


def test_patience_ends_python_code_in_a_thread_of_its_own() -> None:
    def forever(ended: list[str]) -> None:
        try:
            with patience(0.05):
                while True:
                    sum(map(int, "123"))
                    len([abs(-1)])
        except OutOfPatience:
            ended.append("ended")

    ended: list[str] = []
    thread = threading.Thread(target=forever, args=(ended,))
    thread.start()
    thread.join(20)
    assert ended == ["ended"]


def test_decisions_are_the_same_in_worker_threads() -> None:
    pairs = [("5 kgm/s", numeric(5, "N*s")), (r"\frac12 mv^2", symbolic("m*v**2/2")), ("27 °C", numeric(300, "K"))]
    here = [match(*pair) for pair in pairs]
    there: list[object] = []
    threads = [threading.Thread(target=lambda: there.append([match(*pair) for pair in pairs])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert there == [here] * 8


# Hostile texts

HOSTILE = [
    "9^9^9", "9**9**9", "10^{10^{10}}", "1e999999", "1e-999999", "-1e400", "10^400", "10^-400", "2^{2^{2^{2^{2^2}}}}",
    "99999999999!", "(" * 500 + "1" + ")" * 500, "{" * 5000, r"\frac{" * 300, r"\sqrt{" * 300 + "2" + "}" * 300,
    r"\boxed{" * 2000, r"\text{" * 400, "1" * 1999, "1" * 10**6, "1+" * 900 + "1", "x" * 1500, "-" * 1500 + "1",
    "5 " + "m/" * 600 + "s", "5 m^999999999", "5 m^{9/0}", "5 (((((((((m)))))))))", "a^" * 500 + "a", "x_" * 500,
    "1,000" * 300, "((((a+b)^99)^99)^99)^99", "(a+b+c+d)^{300}", r"\exp(\exp(\exp(10 e)))",
    "exp(" * 30 + "9" + ")" * 30, "__import__('os').system('true')", "().__class__.__base__.__subclasses__()",
    "lambda: 0", "f'{x}'",
    "5 m; import os", "\x00\x01\x02", "\ud800", "٣ m", "½" * 900, "²" * 1900, "∞", "nan", "inf", "-inf", "NaN m",
    "0x10", "1_000", "1j", "|" * 1000, "'" * 1000, "=" * 1500, "≈" * 1500, "$" * 1900, "\\" * 1500, "5 " + "C" * 70,
    "5 " + "m " * 39, "%" * 1000, "A, B, C, D " * 100, "sin " * 400 + "x", "sin^-1" * 300, "x = " * 400,
    r"\sin\cos" * 200 + "x", "1/" * 900 + "1", r"\mu" * 600, r"\Omega " * 250, "a/" * 180 + "b c", "sin a b " * 60,
    "1 1/2 " * 300, "°" * 1500, "(a) " + "," * 7000 + "x", "(a) " + "\\" * 7000, "part " * 1600, "( " * 4000,
    "<" + " " * 7000, "1e300", "1e-300", "a, " * 2500,
]  # fmt: skip
TWO_PARTS = {"a": {"kind": "numeric", "value": 5.0}, "b": {"kind": "text", "value": "up"}}
GOLDS = [
    numeric(5),
    numeric(5, "m/s"),
    symbolic("v0**2*sin(2*theta)/g"),
    symbolic("(a+b)**6"),
    Gold(kind="mcq", value="A", choices=("1", "2")),
    Gold(kind="text", value="up"),
    Gold.model_validate({"kind": "multipart", "parts": TWO_PARTS}),
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:24])
def test_a_hostile_text_is_wrong_in_bounded_time_and_memory(text: str) -> None:
    peak, before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    decisions = [match(text, gold) for gold in GOLDS]
    spent = time.process_time() - before
    assert not any(decision.right for decision in decisions)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 64 * 1024  # KiB
    assert spent < 10  # a bound on hangs, not a measurement: most take milliseconds


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0159.,^{}()[]\\/+-*=±°%eEπ√½² mskgJNCKΩµvx_fracsqtine", max_size=60))
def test_no_text_raises_anything(text: str) -> None:
    for gold in GOLDS:
        assert match(text, gold).reason in Reason


def test_the_ends_of_floats_are_compared() -> None:
    assert match("1e300", numeric(1e-300)).reason is Reason.VALUE
    assert match("1e300 km", numeric(1e-300, "nm")).reason is Reason.VALUE
    assert match("1e308 light_year", numeric(1.0, "nm")).reason is Reason.VALUE


@pytest.mark.parametrize("seed", range(3))
def test_long_products_of_sums_are_not_expanded(seed: int) -> None:
    draw = random.Random(seed)
    text = "*".join(f"(x+{draw.randint(1, 9)}y)^{draw.randint(5, 9)}" for _ in range(8))
    gold = symbolic(text.replace("^", "**").replace("y", "*y"))
    assert match_expression(text + "*(x/x)", gold).reason is Reason.PROBED


def test_plain_text_is_bounded() -> None:
    with pytest.raises(UnreadError):
        plain("x" * (LONGEST + 1))
