"""Whether two expressions are equal: by their trees, by algebra, at eight points. SymPy's `simplify` is not asked.

A pair that differs clearly at a point is wrong before any algebra. All symbols are positive. What the model wrote is
never given to SymPy as a string: trees become SymPy objects one by one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import comb
from typing import Any

from specvet.records.problems import Gold
from specvet.tasks.physics.expressions import CONVENTIONS, Parser
from specvet.tasks.physics.numbers import side
from specvet.tasks.physics.patience import OutOfPatience, patience
from specvet.tasks.physics.plain import plain
from specvet.tasks.physics.reasons import Flag, Matched, Reason, UnreadError
from specvet.tasks.physics.trees import (
    Apply,
    Expression,
    Number,
    Symbol,
    Vocabulary,
    rounded,
    split_name,
    symbols,
)
from specvet.tasks.physics.values import value

POINTS = 8
_DRAWS = 60
_SEED = 20260511
EXACT = 1e-9
"""Relative; of expressions without rounded numbers."""
_CLEAR = 1e-6
PATIENCE = 1.0
"""Seconds of CPU for the algebra of one pair."""
_MOST_TERMS = 300


@dataclass(frozen=True, slots=True)
class _Reading:
    tree: Expression
    usual: bool


def match_expression(text: str, gold: Gold) -> Matched:
    """Whether a text is the expression of a symbolic gold."""
    try:
        theirs = list(_gold_readings(gold))
    except UnreadError:
        return Matched(False, Reason.GOLD_UNREAD)
    if _same_writing(text, gold):
        return Matched(True, Reason.SAME_TEXT)
    best: Matched | None = None
    for reading, vocabulary in theirs:
        try:
            said = _reduced(plain(text), gold, vocabulary)
            answers = list(_readings(said, vocabulary))
        except UnreadError as e:
            best = best or Matched(False, e.reason)
            continue
        for answer in answers:
            flags = frozenset() if answer.usual and reading.usual else frozenset({Flag.FRACTION_AMBIGUOUS})
            if answer.tree == reading.tree:
                decision = Matched(True, Reason.SAME_TEXT, flags=flags)
            else:
                decision = _equal(answer.tree, reading.tree, gold)
                decision = Matched(decision.right, decision.reason, flags=flags)
            if decision.right and not flags:
                return decision
            if best is None or (decision.right and not best.right):
                best = decision
    return best or Matched(False, Reason.UNREAD)


def _same_writing(text: str, gold: Gold) -> bool:
    try:
        said, *right = (plain(each).replace(" ", "") for each in (text, str(gold.value), *gold.also))
    except UnreadError:
        return False
    return said in right


def _gold_readings(gold: Gold) -> Iterator[tuple[_Reading, Vocabulary]]:
    """The readings of the right answer: as a program writes it, and as people do (`mgh` is a name, or a product)."""
    for written in (str(gold.value), *gold.also):
        text = plain(written)
        _, right = side(text)
        found: list[Expression] = []
        for identifiers in (True, False):
            try:
                readings = list(_readings(right, Vocabulary.of((), gold.aliases), identifiers=identifiers))
            except UnreadError:
                if not identifiers and not found:
                    raise
                continue
            for reading in readings:
                if reading.tree not in found:
                    found.append(reading.tree)
                    yield reading, Vocabulary.of(symbols(reading.tree), gold.aliases)


def _reduced(text: str, gold: Gold, vocabulary: Vocabulary) -> str:
    """The right side of `x = …`. Raises UnreadError where another symbol stands on the left."""
    exact, about, _ = text.partition("≈")
    left, right = side(exact if about and "=" in exact else text)  # `v = sqrt(2gh) ≈ 4.4 m/s`
    if left and gold.asked:
        first = left.replace("≈", "=").partition("=")[0].strip()
        first = first.partition("(")[0].strip()  # `x(t) = …`
        names = Vocabulary.of({*vocabulary.written.values(), split_name(gold.asked)}, gold.aliases)
        tree = Parser(first, names).whole()
        asked = Parser(plain(gold.asked), names, identifiers="\\" not in gold.asked).whole()
        if tree != asked:
            raise UnreadError(Reason.ASKED_OTHER)
    return right.rstrip(".,; ")


def _readings(text: str, vocabulary: Vocabulary, *, identifiers: bool = False) -> Iterator[_Reading]:
    for convention in CONVENTIONS:
        parser = Parser(text, vocabulary, convention, identifiers=identifiers)
        yield _Reading(parser.whole(), convention == CONVENTIONS[0])
        if not parser.ambiguous:
            return


def _equal(answer: Expression, gold: Expression, row: Gold) -> Matched:
    tolerance = max(row.tolerance, EXACT) if rounded(gold) else EXACT
    integers = frozenset(row.integers)
    if probed(answer, gold, max(tolerance, _CLEAR), integers) is False:  # no algebra can make these equal
        return Matched(False, Reason.EXPRESSION if symbols(answer) <= symbols(gold) else Reason.OTHER_SYMBOLS)
    late, proof = False, None
    import sympy  # noqa: F401  (its import is not the algebra's time)

    try:
        with patience(PATIENCE), suppress(Exception):  # whatever SymPy stumbles over, the points decide
            proof = _proof(answer, gold, integers)
        if proof is not None:
            return Matched(True, proof)
    except OutOfPatience:
        late = True
    equal = probed(answer, gold, tolerance, integers)
    if equal is None:
        return Matched(False, Reason.TIMEOUT if late else Reason.UNDECIDED)
    if equal:
        return Matched(True, Reason.PROBED)
    return Matched(False, Reason.EXPRESSION if symbols(answer) <= symbols(gold) else Reason.OTHER_SYMBOLS)


def probed(
    a: Expression, b: Expression, tolerance: float = EXACT, integers: frozenset[str] = frozenset()
) -> bool | None:
    """Whether both are equal at eight positive points (fixed seed); None where there are no eight with both values."""
    names = sorted(symbols(a) | symbols(b))
    draw = random.Random(_SEED)
    seen = 0
    for _ in range(_DRAWS):
        at = {name: float(draw.randint(1, 9)) if name in integers else draw.uniform(0.2, 3.0) for name in names}
        try:
            ours, theirs = value(a, at), value(b, at)
        except ArithmeticError:
            continue
        size = max(abs(ours), abs(theirs))
        # Where terms cancel, floats keep 1e-16 of the terms, not of the difference.
        if abs(ours - theirs) > tolerance * abs(theirs) + 1e-13 * max(size, _largest(a, at), _largest(b, at)):
            return False
        seen += 1
        if seen == POINTS:
            return True
    return None


def _largest(tree: Expression, at: dict[str, float]) -> float:
    """The largest term of the sums at the top."""
    if isinstance(tree, Apply) and tree.op in ("+", "-", "neg"):
        return max(_largest(arg, at) for arg in tree.args)
    return abs(value(tree, at))


def _proof(a: Expression, b: Expression, integers: frozenset[str]) -> Reason | None:
    import sympy

    if not (_small(a) and _small(b)):
        return None
    ours, theirs = _object(a, integers), _object(b, integers)
    if (ours - theirs).has(sympy.zoo, sympy.nan, sympy.oo):
        return None
    if ours == theirs:
        return Reason.STRUCTURE
    difference = ours - theirs
    if difference == 0 or sympy.expand(difference) == 0:
        return Reason.ALGEBRA
    if _terms(a) * _terms(b) <= _MOST_TERMS and sympy.cancel(sympy.together(difference)) == 0:
        return Reason.ALGEBRA
    return None


def _small(tree: Expression) -> bool:
    """Whether SymPy can take it: no large powers (it computes those of numbers at once), no flood of terms."""
    return _powers_small(tree) and _terms(tree) <= _MOST_TERMS


def _powers_small(tree: Expression) -> bool:
    if isinstance(tree, Number):
        return max(abs(tree.value.numerator), tree.value.denominator) < 10**40
    if isinstance(tree, Symbol):
        return True
    try:
        if tree.op == "^" and not symbols(tree.args[1]) and abs(value(tree.args[1])) > 20:
            return False
        if not symbols(tree) and abs(value(tree)) > 1e40:
            return False
    except ArithmeticError:
        return False
    return all(map(_powers_small, tree.args))


def _terms(tree: Expression) -> int:
    """At most so many terms has the tree when it is expanded."""
    if not isinstance(tree, Apply):
        return 1
    counts = [_terms(arg) for arg in tree.args]
    if max(counts) > _MOST_TERMS:
        return _MOST_TERMS + 1
    if tree.op in ("+", "-"):
        return sum(counts)
    if tree.op in ("*", "/"):
        return counts[0] * counts[1]
    if tree.op == "^" and counts[0] > 1:
        try:
            power = round(abs(value(tree.args[1])))
        except (ArithmeticError, KeyError):
            return counts[0]
        return min(comb(counts[0] + power - 1, power), _MOST_TERMS + 1) if power < 50 else _MOST_TERMS + 1
    return counts[0]


def _object(tree: Expression, integers: frozenset[str]) -> Any:
    """The SymPy object of a tree; every symbol is positive."""
    import sympy

    if isinstance(tree, Number):
        return sympy.Rational(tree.value.numerator, tree.value.denominator)
    if isinstance(tree, Symbol):
        if tree.name in ("e", "pi"):
            return sympy.E if tree.name == "e" else sympy.pi
        return sympy.Symbol(tree.name, positive=True, **({"integer": True} if tree.name in integers else {}))
    args = [_object(arg, integers) for arg in tree.args]
    match tree.op:
        case "+":
            return args[0] + args[1]
        case "-":
            return args[0] - args[1]
        case "*":
            return args[0] * args[1]
        case "/":
            return args[0] / args[1]
        case "^":
            return args[0] ** args[1]
        case "neg":
            return -args[0]
        case "abs":
            return sympy.Abs(args[0])
        case name:
            return getattr(sympy, name)(*args)
