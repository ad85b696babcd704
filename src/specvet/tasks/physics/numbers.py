"""Numbers with units as people write them, and whether one is the right one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from specvet.records.problems import Gold
from specvet.tasks.physics import units
from specvet.tasks.physics.expressions import CONVENTIONS, Parser
from specvet.tasks.physics.plain import plain
from specvet.tasks.physics.reasons import Flag, Matched, Reason, UnreadError
from specvet.tasks.physics.units import OtherDimensionError, Unit
from specvet.tasks.physics.values import real_value

SLACK = 1e-12
"""Relative; what floats lose on the way, so that a tolerance includes its bound."""

_LEAD = re.compile(
    r"(?i)\A(?:(?:the )?(?:final )?answer(?: is)?\b:?|is\b|(?:about|approximately|roughly|around)\b|approx\.?)\s*"
)
_LIST = re.compile(r";|,(?!\d{3})|\b(?:or|and)\b")
_LABEL = re.compile(r"\A[A-Za-z][A-Za-z ]{1,40}: ")


@dataclass(frozen=True, slots=True)
class Written:
    """One reading of a number and what follows it."""

    number: float
    unit: str
    flags: frozenset[Flag] = frozenset()


def side(text: str) -> tuple[str, str]:
    """(what stands before the last `=` or `≈`, what stands after it), of a text in plain notation.

    Raises UnreadError (`several`) where more than one thing is said to be equal: `x = 2 or x = -3`.
    """
    before, _, after = text.replace("≈", "=").rpartition("=")
    if _LIST.search(re.sub(r"\([^()]*\)", "", before)):
        raise UnreadError(Reason.SEVERAL)
    return before.strip(), after.strip()


def written(text: str, *, inner: bool = False) -> list[Written]:
    """All readings of a text, the usual first. Raises UnreadError.

    A name before `=` and words like `about` are left out; the last of a chain counts. `inner`: no more parentheses
    around all of it are taken off.
    """
    _, text = side(plain(text))
    text = _LABEL.sub("", text)
    while (shorter := _LEAD.sub("", text)) != text:
        text = shorter
    text = re.sub(r"[.,;:!]+\Z", "", text.strip())
    if not text:
        raise UnreadError(Reason.UNREAD)
    found: list[Written] = []
    for convention in CONVENTIONS:
        parser = Parser(text, convention=convention, numeric=True)
        try:
            tree = parser.sum()
        except UnreadError:
            if not (found or inner) and text[0] in "([{" and text[-1] in ")]}":
                return written(text[1:-1], inner=True)
            raise
        number = real_value(tree)
        flags = {Flag.UNCERTAINTY} if parser.uncertain else set()
        flags |= {Flag.FRACTION_AMBIGUOUS} if found else set()
        unit = text[parser.end :].strip()
        if all((number, unit) != (other.number, other.unit) for other in found):
            found.append(Written(number, unit, frozenset(flags)))
        if not parser.ambiguous:
            break
    return found


def match_number(text: str, gold: Gold) -> Matched:
    """Whether a text is the number of a numeric gold. Flags say what was assumed."""
    if not isinstance(gold.value, float):
        return Matched(False, Reason.GOLD_UNREAD)
    try:
        asked = units.readings(gold.unit)[0]
    except UnreadError:
        return Matched(False, Reason.GOLD_UNREAD)
    try:
        answers = written(text)
    except UnreadError as e:
        return Matched(False, e.reason)
    decisions = [decision for answer in answers for decision in _decisions(answer, gold, asked)]
    right = [decision for decision in decisions if decision.right]
    return min(right, key=lambda decision: len(decision.flags)) if right else decisions[0]


def _decisions(answer: Written, gold: Gold, asked: Unit) -> list[Matched]:
    """One decision for each reading of the unit."""
    if not answer.unit:
        return [_bare(answer, gold, asked)]
    try:
        readings = units.readings(answer.unit)
    except UnreadError as e:
        return [Matched(False, e.reason, flags=answer.flags)]
    decisions = []
    for unit in readings:
        flags = answer.flags | ({Flag.UNIT_AMBIGUOUS} if unit.ambiguous else set())
        if not asked.powers:
            decisions.append(_unasked(answer.number, unit, gold, flags))
            continue
        try:
            number = units.converted(answer.number, unit, asked)
        except OtherDimensionError as e:
            decisions.append(Matched(False, Reason.UNIT_ANGLE if e.angle else Reason.UNIT_DIMENSION, flags=flags))
        else:
            decisions.append(_compared(number, gold, flags))
    return decisions


def _bare(answer: Written, gold: Gold, asked: Unit) -> Matched:
    """A number without a unit: whole where the right answer is a pure number, else taken to be in its unit."""
    if not asked.powers:
        return _compared(answer.number, gold, answer.flags)
    missing = _compared(answer.number, gold, answer.flags | {Flag.UNIT_MISSING})
    if units.is_pure(asked):
        pure = _compared(units.converted(answer.number, Unit(()), asked), gold, answer.flags)
        return pure if pure.right or not missing.right else missing
    return missing


def _unasked(number: float, unit: Unit, gold: Gold, flags: frozenset[Flag]) -> Matched:
    """A unit where none was asked for: `50 %` is 0.5; of others the number counts, and a flag says so."""
    extra = _compared(number, gold, flags | {Flag.UNIT_EXTRA})
    if units.is_pure(unit):
        pure = _compared(units.converted(number, unit, Unit(())), gold, flags)
        return pure if pure.right or not extra.right else extra
    return extra


def _compared(number: float, gold: Gold, flags: frozenset[Flag]) -> Matched:
    right = float(gold.value or 0)
    bound = gold.tolerance * (abs(right) if right else gold.scale or 0.0)
    if abs(number - right) <= bound + SLACK * abs(right):
        return Matched(True, Reason.WITHIN_TOLERANCE, flags=flags)
    if right and abs(number + right) <= bound:
        return Matched(False, Reason.SIGN, flags=flags)
    if right and number / right > 0 and _power_of_ten(number / right, gold.tolerance):
        return Matched(False, Reason.POWER_OF_TEN, flags=flags)
    return Matched(False, Reason.VALUE, flags=flags)


def _power_of_ten(ratio: float, tolerance: float) -> bool:
    power = round(math.log10(ratio)) if math.isfinite(ratio) else 0
    return power != 0 and abs(ratio / 10.0**power - 1) <= min(tolerance, 0.05) + SLACK
