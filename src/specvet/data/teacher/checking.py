"""Reads a finished demonstration again, number by number, and holds each against the spectrum.

The checker knows the task's words and the spectrum, and nothing of what the teacher meant. It goes through each text
from left to right: the name of a line or band says what a number is of, the words between the two what of it, the unit
the rest. Then the number is measured again (`remeasuring`). The draft is refused when a number

- stands where nothing says what it is,
- is farther from what is measured than its rounding and a share of its stated error allow,
- has a stated error smaller than the real one, or much larger,
- is of something that no window before it showed,
- is a limit and is told as a value with an error, or the reverse,
- is a width of which the instrument is said to be taken out although its resolution is not known,
- is a range that was not called, or in the sentence that announces a call another than that which is called,

or when

- a sentence names a feature as one that the class should show, although no evidence for the class rests on it,
- a call's label names a feature that lies outside the range called.

Names with numbers in them (`He I 6678`, `ZrO 6474, 6345 and 5551`) must be names of the task, letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from specvet.data.teacher.checking_words import Words
from specvet.data.teacher.expecting import expected_of
from specvet.data.teacher.figures import limit_of, unit_of, unit_of_two
from specvet.data.teacher.findings import is_freed
from specvet.data.teacher.plans import Quantity, features_of
from specvet.data.teacher.remeasuring import Remeasured
from specvet.data.teacher.sight import ANCHOR_HALF, ANCHORS
from specvet.spectra.index_kinds import Range
from specvet.tools import Observation

if TYPE_CHECKING:
    from specvet.data.teacher.taught import Turn

Role = Literal["width", "fwhm", "ratio", "speed", "value", "error", "snr", "range", "place", "colour", "slope"]

NUMBER = r"[−-]?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"\[?({NUMBER})(?:-| to | and |, )({NUMBER})\]?(?: Å)?")
_COLOUR = re.compile(rf"near ({NUMBER}) Å [^.]*?({NUMBER}) times that near ({NUMBER}) Å")
_COLOUR_ALONE = re.compile(rf"^(Red|Blue|Flat), ({NUMBER})\.$")
_PLACE = re.compile(rf"near ({NUMBER}) Å")
_SNR = re.compile(rf"S/N[^.;\d]{{0,40}}?({NUMBER})")
_PERCENT = re.compile(rf"({NUMBER}) %")
_CLAIM = re.compile(rf"({NUMBER})(?: ± ({NUMBER}))?(?: (Å|km/s))?")
_DIGIT = re.compile(r"\d")
_SENTENCE = re.compile(r"(?<=[.?]) (?=[^a-z])")
_MASK = "\ue000"

_MOST = re.compile(r"at most|below|not resolved|unresolved|as narrow as", re.IGNORECASE)
_LEAST = re.compile(r"at least", re.IGNORECASE)
"""Words that make a number a limit."""

_LEADS = re.compile(r"matters most|decides most|show itself|should show (?:first )?in|first test|most telling place|"
                    r"I (?:need|want) .* first")  # fmt: skip
_EXPECTS = re.compile(r"should (?:agree|fit|tell the same story)|^Would .*\?|second witness|independent check|"
                      r"^(?:Support|Confirm) |^To (?:make sure|back this up)|second sign|"
                      r"One window is not enough")  # fmt: skip
"""What announces a feature that matters most for a class, or that it should show."""

SHARE_OF_ERROR = 0.5
"""Of the stated error that a value may be off by, beyond its rounding."""

ERROR_LOW, ERROR_HIGH = 0.7, 2.0
"""A stated error must be at least and at most so many times the real one, beyond its rounding."""

EYE = 0.06
"""Relative error that may be stated of a value known better: figures are read by eye."""

PLACE_HALF, PLACE_OFF = 14.0, 6.0
"""Å around a stated place in which the peak is looked for, and from it at most."""

END_OFF = 6.0
"""Å by which a stated end of the data may be off: it is rounded to tens."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number of a text."""

    role: Role
    of: str
    """Key of the quantity, or what else it belongs to (`spectrum`, `window`, `join`, `call`)."""
    value: float
    """As written; negative in emission also where the word says so."""
    unit: str
    measured: float
    """Measured again; for a range the end that it must equal."""
    tolerance: float
    """How far `value` may be from `measured`."""
    window: Range | None
    """The last window that had been shown, Å; None before the first."""
    turn: int
    """Which of the assistant's turns, from 0; the answer's text belongs to the last."""
    text: str
    """The number as written."""
    span: tuple[int, int]
    """Where it stands in that turn's thought, or in the answer."""
    in_answer: bool = False


class _WrongError(ValueError):
    """A number that does not stand up to the spectrum."""


@dataclass(slots=True, eq=False)
class Checker:
    """Checks one demonstration; see the module."""

    words: Words
    opening: Observation
    turns: Sequence[Turn]
    answer: str
    _facts: list[Fact] = field(default_factory=list)
    _shown: list[Range] = field(default_factory=list)
    _turn: int = 0
    _in_answer: bool = False
    _start: int = 0
    """Where the sentence at hand begins in its text."""
    _said: str = ""
    """The sentence at hand."""
    _calls: list[Range] = field(default_factory=list)
    """Ranges called up to this turn, this turn's own included."""
    _next: Range | None = None
    """What this turn calls."""
    _again: Remeasured = field(init=False)

    def checked(self) -> list[Fact] | str:
        """The facts of all texts, or what is wrong with the first number that fails."""
        assert self.opening.data is not None
        data = self.opening.data
        self._again = Remeasured(data.spectrum, data.frame.z, self.words.plan.indices)
        try:
            for i, turn in enumerate(self.turns):
                self._turn = i
                self._calls = [self._range_of(t) for t in self.turns[: i + 1] if t.arguments]
                self._next = self._range_of(turn) if turn.arguments else None
                self._text(turn.thought)
                self._label(str((turn.arguments or {}).get("label", "")))
                if turn.observation is not None and turn.observation.ok and self._next:
                    self._shown.append(self._next)
            self._in_answer = True
            self._text(self.answer.removeprefix("<answer>").removesuffix("</answer>"), len("<answer>"))
        except _WrongError as e:
            return str(e)
        return self._facts

    @staticmethod
    def _range_of(turn: Turn) -> Range:
        low, high = (turn.arguments or {})["wavelength_range"]
        return min(low, high), max(low, high)

    def _text(self, text: str, start: int = 0) -> None:
        ends = [m.start() for m in _SENTENCE.finditer(text)]
        begins = [0, *(e + 1 for e in ends)]
        for begin, end in zip(begins, [*ends, len(text)], strict=True):
            self._sentence(text[begin:end], start + begin, last=end == len(text))

    def _sentence(self, sentence: str, start: int, last: bool) -> None:
        """One sentence; what has been read is masked, and no digit may be left."""
        self._start = start
        self._said = sentence
        if self._next and not self._in_answer:
            self._expects(sentence)
        rest = sentence
        subjects: list[tuple[int, tuple[Quantity, ...]]] = []
        for found in self.words.phrases.finditer(sentence):
            rest = _masked(rest, found.start(), found.end())
            quantities = self.words.subjects.get(found[0].lower())
            if quantities:
                subjects.append((found.end(), quantities))
        rest = self._each(rest, _COLOUR, self._colour)
        rest = self._each(rest, _COLOUR_ALONE, self._colour_alone)
        rest = self._each(rest, _SNR, self._snr)
        rest = self._each(rest, _RANGE, lambda m: self._range(m, last))
        rest = self._each(rest, _PLACE, self._place)
        rest = self._each(rest, _PERCENT, self._percent)
        rest = self._each(rest, _CLAIM, lambda m: self._claim(m, subjects))
        if _DIGIT.search(rest):
            raise _WrongError(f"a number without a meaning in {sentence!r}")

    def _expects(self, sentence: str) -> None:
        """Whether features that are announced as those of the class are such."""
        known = expected_of(self.words.plan)
        keys = known.leading if _LEADS.search(sentence) else known.counting if _EXPECTS.search(sentence) else None
        if keys is None:
            return
        for name, found in self._features(sentence):
            if not found & keys:
                raise _WrongError(f"{name} is not what the evidence expects, in {sentence!r}")

    def _features(self, text: str) -> list[tuple[str, set[str]]]:
        """The features and quantities that a text names, each with the keys that it may mean."""
        plan = self.words.plan
        found = []
        for m in self.words.phrases.finditer(text):
            keys = {q.key for q in self.words.subjects.get(m[0].lower(), ())}
            keys |= {k for w in plan.task.windows for f, k in features_of(plan, w) if f.name.lower() == m[0].lower()}
            if keys and m[0].lower() != plan.task.name.lower():
                found.append((m[0], keys))
        return found

    def _label(self, label: str) -> None:
        """Whether all that a call's label names lies in the range called."""
        if not label or self._next is None:
            return
        low, high = self._next
        windows = [w for w in self.words.plan.task.windows if w.name == label]
        places = [(f.name, f.wavelength) for w in windows for f in w.features]
        if not windows:
            named = {m[0].lower() for m in self.words.phrases.finditer(label)}
            of_name: dict[str, float] = {}
            for f in (f for w in self.words.plan.task.windows for f in w.features):
                if f.name.lower() in named:
                    at = of_name.get(f.name, f.wavelength)
                    of_name[f.name] = f.wavelength if low < f.wavelength < high else at
            places = list(of_name.items())
        for name, at in places:
            if not low < at < high:
                raise _WrongError(
                    f"{name} at {at:g} Å lies outside {low:g}-{high:g} Å, which the label {label!r} names"
                )

    def _each(self, rest: str, pattern: re.Pattern[str], read: object) -> str:
        while found := pattern.search(rest):
            read(found)  # type: ignore[operator]
            rest = _masked(rest, found.start(), found.end())
        return rest

    def _fact(self, role: Role, of: str, m: re.Match[str], group: int, measured: float | None, tolerance: float,
              value: float | None = None, unit: str = "") -> None:  # fmt: skip
        text = m[group]
        said = float(text.replace("−", "-")) if value is None else value
        if measured is None:
            raise _WrongError(f"{text} of {of} cannot be measured, in {self._said!r}")
        if not abs(said - measured) <= tolerance:
            raise _WrongError(f"{text} of {of}: {measured:.4g} was measured again, in {self._said!r}")
        window = self._shown[-1] if self._shown else None
        span = (self._start + m.start(group), self._start + m.end(group))
        self._facts.append(
            Fact(role, of, said, unit, measured, tolerance, window, self._turn, text, span, self._in_answer)
        )

    def _colour(self, m: re.Match[str]) -> None:
        a, b = (float(m[i].replace("−", "-")) for i in (1, 3))
        if (a, b) not in ANCHORS and (b, a) not in ANCHORS:
            raise _WrongError(f"{m[1]} and {m[3]} Å are no places where slopes are told, in {self._said!r}")
        near, far = (self._again.flux_near(x, ANCHOR_HALF) for x in (a, b))
        ratio = near / far if near is not None and far else None
        self._fact("place", "anchor", m, 1, a, 0.1, unit="Å")
        self._fact("colour", "spectrum", m, 2, ratio, 0.55 * unit_of_two(m[2]) + 0.02 * abs(ratio or 0.0))
        self._fact("place", "anchor", m, 3, b, 0.1, unit="Å")

    def _colour_alone(self, m: re.Match[str]) -> None:
        """A ratio that names no place: that of the two that lie farthest apart, the brighter over the fainter."""
        said = float(m[2])
        places = sorted(ANCHORS, key=lambda ends: ends[0] - ends[1])
        for a, b in places:
            near, far = (self._again.flux_near(x, ANCHOR_HALF) for x in ((b, a) if m[1] == "Red" else (a, b)))
            seen = min(self._again.covered((x - ANCHOR_HALF, x + ANCHOR_HALF)) for x in (a, b)) > 0.9
            ratio = near / far if seen and near is not None and far else None
            if ratio is not None and abs(said - ratio) <= 0.55 * unit_of_two(m[2]) + 0.02 * abs(ratio):
                self._fact("colour", "spectrum", m, 2, ratio, 0.55 * unit_of_two(m[2]) + 0.02 * abs(ratio))
                return
        raise _WrongError(f"{m[2]} is no slope of the spectrum, in {self._said!r}")

    def _snr(self, m: re.Match[str]) -> None:
        whole = not self._shown or self._in_answer or "overall" in self._said
        window = None if whole else self._shown[-1]
        if "there" in self._said and self._shown:
            window = self._shown[-1]
        self._fact("snr", "window" if window else "spectrum", m, 1, self._again.snr(window), _rounding(m[1]))

    def _range(self, m: re.Match[str], last: bool) -> None:
        low, high = float(m[1].replace("−", "-")), float(m[2].replace("−", "-"))
        s = self._again.spectrum
        good = s.wavelength[self._again.good]
        known: list[tuple[str, Range, float]] = []
        if last and self._next and not self._in_answer:
            known.append(("call", self._next, 0.5))
        else:
            known += [("call", window, 0.5) for window in self._calls]
            known += [("join", (j.low, j.high), 0.6) for j in s.joins if "join" in self._said]
            if "data" in self._said.lower() or "spectrum" in self._said or "S/N" in self._said or "view" in self._said:
                known.append(("spectrum", (float(good[0]), float(good[-1])), END_OFF))
            if re.search(r"pixels|gap|missing", self._said, re.IGNORECASE):
                steps = np.flatnonzero(np.diff(good) > 50.0)
                known += [("gap", (float(good[i]), float(good[i + 1])), 0.6) for i in steps]
        for of, ends, off in known:
            if abs(low - ends[0]) <= off and abs(high - ends[1]) <= off:
                self._fact("range", of, m, 1, ends[0], off, unit="Å")
                self._fact("range", of, m, 2, ends[1], off, unit="Å")
                return
        raise _WrongError(f"the range {m[0]} was not called, in {self._said!r}")

    def _place(self, m: re.Match[str]) -> None:
        self._fact("place", "peak", m, 1, self._again.peak_near(float(m[1]), PLACE_HALF), PLACE_OFF, unit="Å")

    def _percent(self, m: re.Match[str]) -> None:
        if not self._shown:
            raise _WrongError(f"a slope before any window, in {self._said!r}")
        change = self._again.change(self._shown[-1])
        up = re.search(r"rises|climbs|grows|goes up", self._said)
        said = 0.01 * float(m[1].replace("−", "-")) * (1.0 if up else -1.0)
        self._fact("slope", "window", m, 1, change, 0.0055 * unit_of_two(m[1]) + 0.01, value=said, unit="%")

    def _claim(self, m: re.Match[str], subjects: list[tuple[int, tuple[Quantity, ...]]]) -> None:
        before = [(end, qs) for end, qs in subjects if end <= m.start()]
        if not before:
            raise _WrongError(f"{m[0]} is of nothing, in {self._said!r}")
        end, quantities = before[-1]
        between = self._said[end : m.start()]
        around = self._said[: m.start()].split(";")[-1] + self._said[m.end() : m.end() + 60].split(";")[0]
        unit = m[3] or ""
        fitting = [q for q in quantities if q.unit == unit and self._fits(q, around)]
        if not fitting:
            raise _WrongError(f"{m[0]} is no number of {quantities[0].names[0]}, in {self._said!r}")
        written = float(m[1].replace("−", "-"))
        # A reading (`TiO bands`) may rest on one of several quantities; the number says on which.
        q = (
            min(fitting, key=lambda q: abs((self._again.value(q.key) or 0.0) - written))
            if len(fitting) > 1
            else fitting[0]
        )
        self._was_shown(q)
        if q.kind in ("fwhm", "intrinsic"):
            self._limited(q, m, self._said[: m.start()].split(";")[-1])
        emission = q.kind == "width" and written > 0 and re.search(r"emission|emits", between)
        value = -written if emission else written
        measured, real = self._again.value(q.key), self._again.error(q.key)
        stated = float(m[2]) if m[2] else None
        role: Role = {"width": "width", "fwhm": "fwhm", "intrinsic": "fwhm", "speed": "speed", "value": "value"}.get(
            q.kind, "ratio"
        )  # type: ignore[assignment]
        step = 0.55 * unit_of(m[1]) if stated is None else 0.55 * min(unit_of(m[1]), unit_of(m[2]))
        tolerance = step + SHARE_OF_ERROR * (stated if stated is not None else real or 0.0)
        self._fact(role, q.key, m, 1, measured, tolerance, value=value, unit=unit)
        if stated is not None:
            low = ERROR_LOW * (real or 0.0) - unit_of(m[2])
            high = max(ERROR_HIGH * (real or 0.0), EYE * abs(measured or 0.0)) + 1.5 * unit_of(m[2])
            self._fact("error", q.key, m, 2, 0.5 * (low + high), 0.5 * (high - low), unit=unit)

    def _fits(self, q: Quantity, around: str) -> bool:
        """Whether the words around a number say what it is: a width with the instrument's in it, or without."""
        if q.kind not in ("fwhm", "intrinsic"):
            return True
        return ("instrument" in around) == (q.kind == "intrinsic" and is_freed(q, self._again.note(q.key)))

    def _limited(self, q: Quantity, m: re.Match[str], before: str) -> None:
        """A limit must be told as one, without an error, and a value not as a limit."""
        found = "at most" if _MOST.search(before) else "at least" if _LEAST.search(before) else ""
        limit = limit_of(self._again.note(q.key))
        if found != limit or (limit and m[2]):
            is_what = f"a limit ({limit})" if limit else "no limit"
            raise _WrongError(f"{m[0]} of {q.key} is {is_what}, in {self._said!r}")

    def _was_shown(self, q: Quantity) -> None:
        """Whether a window, or the whole view where no key window does, has shown all of it."""
        plan, medium = self.words.plan, self._again.spectrum.medium
        if not self._shown:
            return  # an answer at once, from the whole view
        spans = plan.spans(medium)
        for part in plan.parts[q.key]:
            low, high = spans[part]
            if any(a <= low and high <= b for a, b in self._shown):
                continue
            if any(w.range[0] <= low and high <= w.range[1] for w in plan.task.windows if self._holds(w.range)):
                raise _WrongError(f"{q.names[0]} is told, but no window has shown it, in {self._said!r}")

    def _holds(self, window: Range) -> bool:
        return self._again.covered(window) >= 0.5


def _rounding(text: str) -> float:
    return 0.55 * unit_of_two(text)


def _masked(text: str, start: int, end: int) -> str:
    return text[:start] + _MASK * (end - start) + text[end:]
