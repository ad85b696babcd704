"""The check of one trajectory: its texts, the spectrum in the frame that it was shown in, and what they make of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from specvet.data.teacher.plans import names_of
from specvet.records import Decision
from specvet.records.schema import Measurement, TrajectoryRecord
from specvet.spectra import Frame, Spectrum
from specvet.spectra.index_kinds import Index, in_band
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import pixels_of
from specvet.tasks import Task
from specvet.tools import shift
from specvet.vetting.claims.claim import Claim, Says, State
from specvet.vetting.claims.naming import Names, is_width, names_of_task, spans_of
from specvet.vetting.claims.reading import Stated, stated_in
from specvet.vetting.claims.weighing import weigh, weigh_number, weigh_reading

Window = tuple[float, float]

_Z = re.compile(r"rest frame \(z = (-?\d+(?:\.\d+)?)")

_WORST: tuple[State, ...] = ("contradicted", "supported", "not measurable")


def check_claims(record: TrajectoryRecord, spectrum: Spectrum, task: Task, z: float | None = None) -> tuple[Claim, ...]:
    """What a trajectory claims of its spectrum, each claim checked.

    Args:
        record: the trajectory, with its words.
        spectrum: as it was read from its file.
        task: as it was asked; its names, features and evidence say what words mean.
        z: the redshift that was taken out of the wavelengths (`Decision.z`); None takes the one that the record's
            opening names.

    Raises TaskError for a task whose evidence names what is not there.
    """
    names = names_of_task(task)
    if z is None:
        found = _Z.match(record.opening.frame) if record.opening is not None else None
        z = float(found[1]) if found else 0.0
    said = [
        (one, turn, answers, shown) for turn, answers, text, shown in _texts(record) for one in stated_in(text, names)
    ]
    if not said:
        return ()
    check = _Check(names, spectrum, z, [one for one, *_ in said])
    return tuple(check.claim(*of) for of in said)


def check_decision(decision: Decision, spectrum: Spectrum, task: Task) -> tuple[Claim, ...]:
    """The same for a row of a run; nothing for one without a trajectory."""
    if decision.trajectory is None:
        return ()
    return check_claims(decision.trajectory, spectrum, task, decision.z or 0.0)


def _texts(record: TrajectoryRecord) -> Iterator[tuple[int, bool, str, tuple[Window, ...]]]:
    """(turn, whether it is the answer's own text, text, windows shown by then)."""
    shown: list[Window] = []
    reason = record.verdict.reason
    for n, turn in enumerate(record.turns, start=1):
        answers = turn.action.kind == "answer"
        if turn.action.text and not (answers and turn.action.text == reason):
            yield n, False, turn.action.text, tuple(shown)
        if answers and reason:
            yield n, True, reason, tuple(shown)
        o = turn.observation
        if o is not None and o.kind == "view" and o.window:
            shown.append(o.window)


class _Check:
    """One spectrum, ready to be asked."""

    def __init__(self, names: Names, spectrum: Spectrum, z: float, said: Sequence[Stated]) -> None:
        shown = shift(spectrum, Frame(z, "rest" if z else "observed", ""))
        self._names, self._medium = names, shown.medium
        self._meter = Meter(pixels_of(shown, z))
        wanted: dict[str, None] = {}  # all in one pass, which is many times faster than one by one
        for stated in said:
            if stated.reading is not None:
                wanted |= dict.fromkeys(e.index for e, _ in stated.reading.pieces)
            if stated.named is not None:
                wanted |= dict.fromkeys((*stated.named.sizes, *stated.named.others))
        self._measured = self._meter.measure(tuple(wanted), names.indices)

    def claim(self, stated: Stated, turn: int, in_answer: bool, shown: tuple[Window, ...]) -> Claim:
        indices = self._names.indices
        state, key, why, signed = self._weighed(stated)
        m = self._measured.get(key) if key else None
        named, number = stated.named, stated.number
        feature = named.feature if named is not None else names_of(indices[key], "terse")[0] if key else stated.text
        return Claim(
            turn=turn,
            in_answer=in_answer,
            text=stated.text,
            feature=feature,
            says=stated.says,
            stated=signed if number is not None else None,
            unit=number.unit if number is not None else "",
            state=state,
            measured=m,
            window=self._window(indices[key], key, shown) if key else None,
            why=why,
        )

    def _weighed(self, stated: Stated) -> tuple[State, str, str, float | None]:
        """(state, key of what decided, why, the number with its sign): the worse of polarity and number."""
        indices, number, named = self._names.indices, stated.number, stated.named
        found: list[tuple[State, str, str, float | None]] = []
        keys: tuple[str, ...] = ()
        if stated.reading is not None:
            keys = tuple(e.index for e, _ in stated.reading.pieces)
            found.append((*weigh_reading(stated.reading, self._of(keys), stated.negated), None))
        elif named is not None and stated.says != "value":
            keys = self._asked(stated.says, named.sizes, named.others)
            if not keys:
                return "not measurable", "", f"no index measures {named.feature}", None
            found.append((*weigh(stated.says, keys, indices, self._of(keys)), None))
        if number is not None:
            of = (*keys, *(() if named is None else (*named.sizes, *named.others)))
            unique = tuple(dict.fromkeys(of))
            emission = stated.says == "emission"
            held = weigh_number(number, emission, unique, indices, self._of(unique))
            if held is not None:
                state, key, signed, why = held
                found.append((state, key, why, signed))
        if not found:
            return (
                "not measurable",
                "",
                "no index of that unit goes by the name",
                None if number is None else number.value,
            )
        worst = next(f for state in _WORST for f in found if f[0] == state)
        signed_number = next((f[3] for f in found if f[3] is not None), None if number is None else number.value)
        return worst[0], worst[1], worst[2], signed_number

    def _asked(self, says: Says, sizes: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
        if says not in ("broad", "narrow"):
            return sizes
        widths = tuple(k for k in others if is_width(self._names.indices[k]))
        # The instrument's width taken out goes first, where the resolution is known.
        freed = [k for k in widths if "intrinsic" in k and (m := self._of((k,))[k]).value is not None
                 and "the instrument's width is in it" not in m.note]  # fmt: skip
        return tuple(freed) or widths

    def _of(self, keys: tuple[str, ...]) -> dict[str, Measurement]:
        return {k: self._measured[k] for k in keys}

    def _window(self, index: Index, key: str, shown: tuple[Window, ...]) -> Window | None:
        """The last window shown that holds the feature itself."""
        for low, high in reversed(shown):
            spans = spans_of((key,), self._names.indices)
            placed = [in_band((a, b), medium, self._medium) for a, b, medium in spans]
            if placed and all(low <= a and b <= high for a, b in placed):
                return low, high
        return None
