"""A claim against measurements: what is clearly so, clearly not so, and what the noise leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from specvet.policies.scoring import CLEAR
from specvet.records.schema import Measurement
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, RatioIndex
from specvet.tasks import Evidence
from specvet.vetting.claims.claim import Says, State
from specvet.vetting.claims.naming import Reading, is_width
from specvet.vetting.claims.reading import Number

SIGMA, SURE_SIGMA = 2.0, 5.0
"""Errors from which on a measurement is no accident, and from which on it refutes that there is nothing."""

LEAST_LINE, VISIBLE_LINE, PLAIN_LINE = 0.3, 1.0, 3.0
"""Å of equivalent width below which nobody sees a line; that anybody should see at good S/N; that nobody overlooks."""

LEAST_BAND, VISIBLE_BAND, PLAIN_BAND = 0.035, 0.08, 0.15
"""The same of the drop across a band head: the share of the flux that is missing."""

STRONG_LINE, STRONG_BAND = 2.0, 0.12
"""Å, and the drop, below which no line or band is strong."""

BROAD, SOFT = 430.0, 100.0
"""km/s that part broad lines from narrow ones (as the task `cv` has it), and how sharply."""

NARROW = 700.0
"""km/s up to which a line may be called narrow at the resolution of surveys (R of 1000-2500)."""

OFF = {"Å": (0.25, 0.5), "km/s": (0.25, 120.0), "": (0.08, 0.04)}
"""By unit: share of a number, and amount, by which a figure that was read by eye may be off beside 3 errors."""

Found = tuple[State, str]


def weigh(
    says: Says, keys: tuple[str, ...], indices: Mapping[str, Index], measured: Mapping[str, Measurement]
) -> tuple[State, str, str]:
    """(state, key of what decided, why) of a polarity; of a feature with several indices any may bear it out.

    That something is missing must hold of all of them.
    """
    negative = says in ("absent", "no emission", "no absorption")
    found: list[tuple[State, str, str]] = []
    for key in keys:
        m, index = measured[key], indices[key]
        if m.value is None:
            found.append(("not measurable", key, m.note))
            continue
        rule = _band if isinstance(index, RatioIndex) or not index.unit else _width if is_width(index) else _line
        state, why = rule(says, m.value, m.error if m.error is not None else 0.1 * abs(m.value), m.note)
        found.append((state, key, f"{_shown(index, m)}{': ' + why if why else ''}"))
    order: tuple[State, ...] = ("supported", "contradicted", "not measurable")
    if negative:
        order = ("contradicted", "supported", "not measurable")
    elif any(f[0] == "not measurable" for f in found) and len(found) > 1:
        order = ("supported", "not measurable", "contradicted")  # what was not seen may show it
    return next(f for state in order for f in found if f[0] == state)


def _line(says: Says, value: float, error: float, _: str) -> Found:
    """`value` is an equivalent width in Å, positive in absorption."""
    noise = max(SIGMA * error, LEAST_LINE)
    hidden = 3.0 * error > 2.0 * VISIBLE_LINE
    too_noisy: Found = ("not measurable", f"the noise hides lines below {3.0 * error:.1f} Å")
    if says in ("emission", "absorption"):
        size = -value if says == "emission" else value
        if size >= noise:
            return "supported", ""
        if size <= -noise:
            return "contradicted", f"it is in {'absorption' if says == 'emission' else 'emission'}"
        return too_noisy if hidden else ("contradicted", "no line stands out")
    if says in ("no emission", "no absorption"):
        size = -value if says == "no emission" else value
        if size > max(PLAIN_LINE, SURE_SIGMA * error):
            return "contradicted", f"it is in {says.removeprefix('no ')}"
        if size < max(2.0 * VISIBLE_LINE, 3.0 * error):
            return too_noisy if hidden and size > 0 else ("supported", "")
        return "not measurable", "too weak to refute it"
    if says == "absent":
        if abs(value) > max(PLAIN_LINE, SURE_SIGMA * error):
            return "contradicted", "a line is there"
        if abs(value) < max(1.5 * VISIBLE_LINE, 3.0 * error):
            return "supported", ""
        return "not measurable", "a weak line may be there"
    least = STRONG_LINE if says == "strong" else LEAST_LINE
    if abs(value) >= max(least, SIGMA * error):
        return "supported", ""
    if abs(value) + SIGMA * error < max(VISIBLE_LINE, least):
        return "contradicted", "no line stands out" if says == "present" else "it is not strong"
    return "not measurable", f"the noise hides lines below {3.0 * error:.1f} Å"


def _band(says: Says, value: float, error: float, _: str) -> Found:
    """`value` is a ratio of fluxes, below 1 where the band takes flux away."""
    drop = 1.0 - value
    if says in ("absent", "no absorption"):
        if drop > max(PLAIN_BAND, SURE_SIGMA * error):
            return "contradicted", "the flux drops"
        return (
            ("supported", "")
            if drop < max(VISIBLE_BAND, 3.0 * error)
            else ("not measurable", "a weak band may be there")
        )
    if says in ("emission", "no emission"):
        return "not measurable", "a band is no emission line"
    least = STRONG_BAND if says == "strong" else LEAST_BAND
    if drop >= max(least, SIGMA * error):
        return "supported", ""
    if drop + SIGMA * error < max(VISIBLE_BAND, least):
        return "contradicted", "the flux does not drop" if says != "strong" else "it is not strong"
    return "not measurable", "the noise hides it" if drop < least else "within the noise"


def _width(says: Says, value: float, error: float, note: str) -> Found:
    """`value` is a full width at half maximum in km/s."""
    margin = max(SIGMA * error, SOFT)
    upper, lower = "an upper limit" in note, "a lower limit" in note
    if says == "broad":
        if value >= BROAD and not upper:
            return "supported", ""
        return (
            ("contradicted", "it is narrow")
            if value < BROAD - margin and not lower
            else ("not measurable", "on the edge")
        )
    if value <= NARROW and not lower:
        return "supported", ""
    return (
        ("contradicted", "it is broad") if value > NARROW + margin and not upper else ("not measurable", "on the edge")
    )


def weigh_reading(
    reading: Reading, measured: Mapping[str, Measurement], negated: bool = False
) -> tuple[State, str, str]:
    """(state, key, why) of a phrase of the evidence: whether the index lies where the phrase says, by any meaning.

    `negated`: the text says that it is not so.
    """
    found: list[tuple[State, str, str]] = []
    for e, side in reading.pieces:
        m = measured[e.index]
        if m.value is None:
            found.append(("not measurable", e.index, m.note))
            continue
        beyond = _beyond(e, m.value) * (1.0 if side != negated else -1.0)
        where = f"{m.name} {_number_text(m)}, threshold {e.at:g}"
        if beyond >= 0.0:
            found.append(("supported", e.index, where))
        elif -beyond > max(CLEAR * (m.error or 0.0), e.soft):
            found.append(("contradicted", e.index, where))
        else:
            found.append(("not measurable", e.index, f"{where}: too close to tell"))
    for state in ("supported", "contradicted", "not measurable"):
        for one in found:
            if one[0] == state:
                return one
    raise AssertionError("a reading rests on evidence")  # pragma: no cover


def _beyond(e: Evidence, value: float) -> float:
    return value - e.at if e.side == "above" else e.at - value


def weigh_number(
    number: Number, emission: bool, keys: tuple[str, ...], indices: Mapping[str, Index],
    measured: Mapping[str, Measurement],
) -> tuple[State, str, float, str] | None:  # fmt: skip
    """(state, key, the number with its sign, why) of a stated number: held against the nearest that fits its unit.

    None where nothing of that unit goes by the name.
    """
    fitting = [k for k in keys if indices[k].unit == number.unit]
    known = [(k, m.value, m) for k in fitting if (m := measured[k]).value is not None]
    if not known:
        return None if not fitting else ("not measurable", fitting[0], number.value, measured[fitting[0]].note)
    share, amount = OFF.get(number.unit, OFF[""])
    signed = -number.value if emission and number.unit == "Å" and number.value > 0 else number.value
    key, value, m = min(known, key=lambda one: abs(one[1] - signed))
    allowed = max(3.0 * (m.error or 0.0), share * abs(value), amount) + 0.55 * number.step
    off = abs(value - signed)
    if number.bound:
        off = max(0.0, (value - signed) if number.bound == "at most" else (signed - value))
        off = 0.0 if "limit" in m.note else off
    why = f"stated {_plain_number(signed)}, measured {_number_text(m)}"
    return ("supported" if off <= allowed else "contradicted"), key, signed, why


def _shown(index: Index, m: Measurement) -> str:
    kind = "EW" if isinstance(index, LineIndex) or index.unit == "Å" else "FWHM" if is_width(index) else "ratio"
    return f"{kind if not isinstance(index, FormulaIndex) else m.name} {_number_text(m)}"


def _number_text(m: Measurement) -> str:
    assert m.value is not None
    digits = {"Å": 1, "km/s": 0}.get(m.unit, 2)
    error = f" ± {m.error:.{digits}f}" if m.error else ""
    return f"{m.value:.{digits}f}{error} {m.unit}".strip().replace("-", "−")


def _plain_number(value: float) -> str:
    return f"{value:g}".replace("-", "−")
