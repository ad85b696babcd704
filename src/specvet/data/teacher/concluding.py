"""The last turn: a short weighing, and the answer with its evidence in the form that tasks ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specvet.data.teacher.figures import limit_of, two_digits
from specvet.data.teacher.findings import is_freed, told_figure
from specvet.data.teacher.plans import Quantity
from specvet.data.teacher.sight import HOLDS, Opened, Sight
from specvet.data.teacher.telling import POOR, READING, Teller
from specvet.data.teacher.words import a, capital
from specvet.policies.scoring import Weighed, fulfilled, leaning, step, weighed
from specvet.records.schema import Measurement
from specvet.spectra.index_kinds import WidthIndex
from specvet.tasks import Evidence, Rival

SURE, FAIR = 0.95, 0.80
"""Probability from which on an answer is said without hedging, and with little."""

CLEAR_ERRORS = 2.0
"""Errors from its threshold at which a measurement may name a rival."""

REQUIRED, REQUIRED_SOFT = -2.0, 0.5
"""Log-odds of what a class must have, where it is missing; softnesses beyond its threshold at which it is there."""

RIVAL_NAMED, RIVAL_SURE, RIVAL_MEASURED = 0.7, 2.0, 0.4
"""Log-odds from which on a rival is named, and named without hedging; least share of its evidence that was seen."""


SURE_REASONS = 2.0
"""Log-odds of all reasons given from which on a conclusion is said without hedging. That one of several ways to
be of the class fails is worth its share."""


@dataclass(frozen=True, slots=True)
class _Reason:
    """Something that speaks one way."""

    says: str
    text: str
    """With the number behind it."""
    worth: float
    """Log-odds, of itself."""


@dataclass(frozen=True, slots=True)
class Lean:
    """What the evidence says."""

    belief: Weighed

    @property
    def yes(self) -> bool:
        return self.belief.log_odds > 0

    @property
    def word(self) -> str:
        return "YES" if self.yes else "NO"

    @property
    def degree(self) -> str:
        p = 1.0 / (1.0 + 2.718281828 ** -min(30.0, abs(self.belief.log_odds)))
        return "sure" if p >= SURE else "fair" if p >= FAIR else "weak"


def concluded(teller: Teller, lean: Lean, opened: Opened, seen: frozenset[str], at_once: bool) -> tuple[str, str]:
    """The last thought and the answer; empty where nothing that was measured says why."""
    counted = lean.belief.counted if lean.yes else [_failing(teller, seen, c) for c in lean.belief.counted]
    reasons = _reasons(teller, counted, 1 if lean.yes else -1)
    if not lean.yes:
        said_already = {reason.says for reason in reasons}
        reasons += [reason for reason in _failing_ways(teller, seen) if reason.says not in said_already]
    if not reasons:
        return "", ""
    reasons = reasons[: teller.speaker.voice.reasons - (1 if teller.speaker.sometimes(0.35) else 0)]
    best = reasons[0].says
    degree = "fair" if lean.degree == "sure" and not _settle(reasons) else lean.degree
    thought = teller.say("final.at_once" if at_once and degree == "sure" else f"final.{degree}", best=best)
    texts = [reason.text for reason in reasons]
    said = [teller.say(f"answer.{lean.word.lower()}_{degree}", reasons="; ".join(texts))]
    against = _reasons(teller, lean.belief.counted, -1 if lean.yes else 1)
    if against and (degree != "sure" or teller.speaker.sometimes(teller.speaker.voice.doubts)):
        said.append(teller.say("answer.against", what=against[0].text))
    if not lean.yes and (rival := likelier(teller.sight, seen)) is not None:
        name, found = rival
        why = _reasons(teller, [c for c in found.counted if _is_clear(c)], 1)
        how = "sure" if found.log_odds > RIVAL_SURE else "fair"
        if why:
            said.append(teller.say(f"answer.rival_{how}", rival=name, a_rival=a(name), why=why[0].text))
    if opened.snr is not None and 0.5 <= opened.snr < POOR and teller.speaker.sometimes(0.5):
        said.append(teller.say("answer.poor", snr=two_digits(opened.snr)))
    return thought, rf"<answer>\boxed{{{lean.word}}} {' '.join(filter(None, said))}</answer>"


def likelier(sight: Sight, seen: frozenset[str]) -> tuple[str, Weighed] | None:
    """The one rival class that fits both what was seen and the whole spectrum; None where none does, or several do.

    A wrong name is worse than none: all that its evidence requires must stand clear of the errors, nothing of it may
    speak against it, and emission between bands counts as none.
    """
    measured = {key: m for key, m in sight.measured.items() if not _is_hump(sight, key)}
    fits = [rival for rival in sight.plan.rivals if _weigh(rival, measured).log_odds > RIVAL_NAMED]
    if len(fits) != 1 or not _stands(fits[0], measured):
        return None
    found = _weigh(fits[0], {key: m for key, m in measured.items() if key in seen})
    return (fits[0].name, found) if _fits(fits[0], found) else None


def _is_hump(sight: Sight, key: str) -> bool:
    """Whether a number is of emission, or of the width of emission, that only crowded bands leave between them."""
    index = sight.plan.indices[key]
    if isinstance(index, WidthIndex):
        return any(_is_hump(sight, k) for k in sight.plan.asked if sight.plan.indices[k] == index.line)
    m = sight.measured[key]
    return m.value is not None and m.value < 0 and sight.crowded(key)


def _stands(rival: Rival, measured: Mapping[str, Measurement]) -> bool:
    """Whether a class has all that it must have, clear of the errors, and no veto is cast against it."""
    of_group: dict[str | int, bool] = {}
    for i, e in enumerate(rival.evidence):
        m = measured.get(e.index)
        if m is None or m.value is None:
            continue
        beyond = (m.value - e.at) * (1.0 if e.side == "above" else -1.0)
        holds = fulfilled(e.given, measured)
        if e.yes < 0:
            if beyond > 0 and -e.yes * min(1.0, 2.0 * holds) > READING:
                return False
        elif e.no <= REQUIRED:
            clear = holds >= HOLDS and beyond > CLEAR_ERRORS * (m.error or 0.0) and beyond > e.soft * REQUIRED_SOFT
            group = e.group or i
            of_group[group] = of_group.get(group, False) or clear
    return all(of_group.values())


def _is_clear(counted: tuple[float, Evidence, Measurement, bool]) -> bool:
    """Whether a measurement stands clear of its threshold."""
    _, e, m, _ = counted
    return m.value is not None and abs(m.value - e.at) > CLEAR_ERRORS * (m.error or 0.0)


def _weigh(rival: Rival, measured: dict[str, Measurement]) -> Weighed:
    return weighed(rival.evidence, rival.prior, measured)


def _fits(rival: Rival, found: Weighed) -> bool:
    speaking = any(worth > READING and e.when for worth, e, _, shows in found.counted if shows)
    return found.log_odds > RIVAL_NAMED and found.measured >= RIVAL_MEASURED and speaking and bool(rival.name)


def _reasons(teller: Teller, counted: Sequence[tuple[float, Evidence, Measurement, bool]], sign: int) -> list[_Reason]:
    """What speaks one way, strongest first."""
    found = []
    used: set[str] = set()
    for worth, e, m, shows in counted:
        says = teller.sight.reading(e, m, shows)
        if sign * worth < READING or not says or e.index in used:
            continue
        used.add(e.index)  # one number speaks once
        q = teller.sight.plan.quantities[e.index]
        key = "with_value_after_bracket" if says.endswith(")") else "with_value"
        text = teller.say(f"answer.{key}", says=says, value=_value(teller, q, m, says))
        ways = sum(other.group == e.group for other in teller.sight.plan.evidence) if e.group and sign < 0 else 1
        found.append(_Reason(says, text, _own_worth(e, m, worth) / max(1, ways)))
    return found


def _own_worth(e: Evidence, m: Measurement, worth: float) -> float:
    """What a measurement is worth by itself, in log-odds, whatever its group as a whole is worth."""
    if not e.group or m.value is None:
        return abs(worth)
    return min(abs(worth), m.quality * abs(leaning(step(m, e.side, e.at, e.soft), e.yes, e.no)))


def _settle(reasons: Sequence[_Reason]) -> bool:
    """Whether the reasons that are given can make a reader sure, whatever else was seen."""
    return sum(reason.worth for reason in reasons) >= SURE_REASONS


def _failing_ways(teller: Teller, seen: frozenset[str]) -> list[_Reason]:
    """For a NO that rests on a list of ways to be of the class: those that were seen to fail, each with its number."""
    ways = []
    for e in teller.sight.plan.evidence:
        m = teller.sight.measured[e.index]
        beyond = 0.0 if m.value is None else (e.at - m.value) * (1.0 if e.side == "above" else -1.0)
        if e.group and e.yes > 0 and e.no < 0 and e.index in seen and beyond > CLEAR_ERRORS * (m.error or 0.0):
            ways.append((e.no, e, m, False))
    return _reasons(teller, ways, -1)


def _failing(
    teller: Teller, seen: frozenset[str], counted: tuple[float, Evidence, Measurement, bool]
) -> tuple[float, Evidence, Measurement, bool]:
    """For ways to be of the class of which none showed: the first in the task's order that was clearly seen to fail.

    The group itself gives the one that came nearest, which in a star of another kind is by chance any.
    """
    worth, e, _, shows = counted
    if not e.group or shows:
        return counted
    for other in teller.sight.plan.evidence:
        found = teller.sight.measured[other.index]
        if other.group != e.group or other.index not in seen or found.value is None:
            continue
        beyond = (other.at - found.value) * (1.0 if other.side == "above" else -1.0)
        if beyond > CLEAR_ERRORS * (found.error or 0.0) and teller.sight.reading(other, found, False):
            return worth, other, found, False
    return counted


def _value(teller: Teller, q: Quantity, m: Measurement, says: str) -> str:
    """`EW −32 ± 1 Å`, `TiO5 0.62 ± 0.02`: with the name, unless what is said names it."""
    shown, limit = told_figure(q, m, teller.speaker.voice), limit_of(m.note) if q.kind in ("intrinsic", "fwhm") else ""
    name, text = teller.speaker.one(q.names), shown.limit(limit) if limit else shown.text()
    named = plain_name(q).lower() in says.lower()
    what = {"width": "EW", "fwhm": "FWHM", "intrinsic": "FWHM", "speed": "", "value": ""}.get(q.kind, "ratio")
    if teller.speaker.voice.errors:
        after = " without the instrument" if is_freed(q, m.note) else " as observed" if q.kind == "intrinsic" else ""
    else:
        after = ", instrument out" if is_freed(q, m.note) else ""
    if q.kind == "depth" or (what == "ratio" and name.endswith("edge")):
        what = "at" if not named else what
    return " ".join(filter(None, ("" if named and what else name, what, text))) + after


def plain_name(q: Quantity) -> str:
    """`C2 5165` of the C2 5165 edge, `Hβ` of Hβ with its wings."""
    return (
        q.names[0]
        .removeprefix("the ")
        .removesuffix(" edge")
        .split(" with its")[0]
        .split(" wings")[0]
        .removeprefix("core of ")
    )


def joined(sentences: Sequence[str]) -> str:
    """One paragraph; what follows a full stop begins with a capital letter."""
    text = " ".join(s for s in sentences if s)
    return re.sub(r"(?<=[.?] )[a-z]", lambda m: m[0].upper(), capital(text))
