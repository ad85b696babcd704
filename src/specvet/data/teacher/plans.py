"""What a teacher knows of a task before it sees a spectrum: what can be measured, what that is called, what counts.

A task without evidence of its own (a user's YAML with windows alone) gets some from its features: a line or band head
that is there as its kind says speaks for the class, one that is missing against it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from specvet.data.teacher.words import VoiceName, phrases
from specvet.policies.checking import check_names
from specvet.policies.line_indices import task_indices
from specvet.spectra import Medium
from specvet.spectra.formulas import formula_names
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, Range, RatioIndex, WidthIndex, in_band
from specvet.tasks import Evidence, KeyWindow, Rival, Task, builtin_rivals
from specvet.tasks.task import Feature

Kind = Literal["width", "edge blue", "edge red", "depth", "speed", "intrinsic", "fwhm", "value"]
"""What a number is: an equivalent `width`; the ratio across an `edge` that is sharp on its blue or red side; the
`depth` of a band against a continuum farther off; a `speed`; the `fwhm` of a line, with the instrument or without
(`intrinsic`); a `value` of another kind."""

FAR = 45.0
"""Å between a band and its reference from which on their ratio is a depth, not an edge."""

COLOUR = 300.0
"""Å from which on it is a colour."""

NEAR, NEAR_HEAD = 6.0, 12.0
"""Å between a feature and the middle of a line that measures it, and between a band head and an index's band."""

LINE_HALF, LINE_SIDE = 12.0, (18.0, 45.0)
"""Å: half the band and the sides of a line that only a task's feature list names. Bands ours, for R of 1000-2500."""

EDGE_BAND, EDGE_REFERENCE = (3.0, 30.0), (3.0, 22.0)
"""Å from a band head, on the side that it fades to and on the other. Bands ours."""

OF_FEATURE = {"line": (2.0, 1.0), "head": (0.92, 0.03)}
"""Threshold and softness of the evidence made of features: Å of equivalent width, and a ratio."""

FEATURE_WORTH, FEATURE_PRIOR = 1.6, -0.5
"""Log-odds of one feature that is there or missing, and before looking."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that can be measured, and what people call it."""

    key: str
    index: Index
    kind: Kind
    names: tuple[str, ...]

    @property
    def unit(self) -> str:
        return self.index.unit


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A task, prepared. Made by `Plan.of`."""

    task: Task
    evidence: tuple[Evidence, ...]
    prior: float
    rivals: tuple[Rival, ...]
    indices: Mapping[str, Index]
    quantities: Mapping[str, Quantity]
    """By key; all that is measured."""
    asked: tuple[str, ...]
    """Their keys and those of what formulas rest on, sorted."""
    parts: Mapping[str, frozenset[str]]
    """The plain indices that each rests on; a plain one on itself."""
    weights: Mapping[str, float]
    """What each quantity can move, in log-odds; conditions count half."""
    quotes: tuple[str, ...]
    """Phrases of the task and its rivals that may stand in a text as they are, longest first."""
    readings: Mapping[str, frozenset[str]]
    """What a piece of evidence says → the quantities that it may rest on."""
    voice: VoiceName = "full"
    """Whose names and words these are."""
    _spans: dict[Medium, dict[str, Range]] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, voice: VoiceName = "full") -> Plan:
        """Raises TaskError for a task whose evidence names what is not there."""
        check_names(task)
        indices: dict[str, Index] = dict(task_indices(task))
        of_feature: dict[str, Feature] = {}
        for window in task.windows:
            for feature in window.features:
                if feature.name not in of_feature and _index_of(feature, indices) is None:
                    made = _made_index(feature)
                    indices[made.key] = made
                    of_feature[feature.name] = feature
        evidence, prior = task.evidence, task.prior
        if not evidence:
            evidence, prior = _from_features(task, indices), FEATURE_PRIOR
        rivals = tuple(r if isinstance(r, Rival) else builtin_rivals()[r] for r in task.rivals)
        weights: dict[str, float] = {}
        for e in evidence:
            weights[e.index] = max(weights.get(e.index, 0.0), abs(e.yes), abs(e.no))
            for c in e.given:
                weights[c.index] = max(weights.get(c.index, 0.0), 0.5 * max(abs(e.yes), abs(e.no)))
        names = set(weights) | {c.index for u in task.undecidable for c in u.given}
        of_rivals = [e for r in rivals for e in r.evidence]
        names |= {e.index for e in of_rivals} | {c.index for e in of_rivals for c in e.given}
        names |= {index.key for w in task.windows for f in w.features if (index := _index_of(f, indices)) is not None}
        parts: dict[str, frozenset[str]] = {}
        for name in names:
            parts[name] = _plain(name, indices)
        names |= {plain for of_name in parts.values() for plain in of_name}
        parts |= {name: _plain(name, indices) for name in names}
        quantities = {
            name: Quantity(name, indices[name], kind_of(indices[name]), names_of(indices[name], voice))
            for name in names
        }
        quotes = _quotes(task, evidence, rivals, indices.values(), voice)
        readings: dict[str, frozenset[str]] = {}
        for e in (*evidence, *(e for r in rivals for e in r.evidence)):
            for says in filter(None, (e.when, e.otherwise)):
                said = worded(says, voice)
                readings[said] = readings.get(said, frozenset()) | {e.index}
        asked = tuple(sorted(names))
        return cls(task, evidence, prior, rivals, indices, quantities, asked, parts, weights, quotes, readings, voice)

    def called(self, feature: Feature, key: str) -> str:
        """What a plan to look at a feature of a window calls it: its own name, or that of what measures it."""
        return feature.name if self.voice == "full" else self.quantities[key].names[0]

    @property
    def bands(self) -> frozenset[str]:
        """The quantities that rest on ratios of fluxes alone."""
        return frozenset(k for k in self.asked if all(isinstance(self.indices[p], RatioIndex) for p in self.parts[k]))

    def spans(self, medium: Medium) -> Mapping[str, Range]:
        """All that each plain quantity needs to see, Å in `medium`."""
        if medium not in self._spans:
            self._spans[medium] = {
                key: in_band(index.span, index.medium, medium)
                for key in self.asked
                if not isinstance(index := self.indices[key], FormulaIndex)
            }
        return self._spans[medium]

    def within(self, window: Range, medium: Medium) -> list[str]:
        """The plain quantities of which a window shows all, sorted."""
        return [key for key, (low, high) in self.spans(medium).items() if window[0] <= low and high <= window[1]]


def worded(says: str, voice: VoiceName) -> str:
    """What a piece of evidence says, in the words of a voice."""
    says = says.strip()
    if voice == "full":
        return says
    shorter: Mapping[str, str] = phrases(voice)["readings"]
    return shorter.get(says) or re.sub(r" \([^()]*\)$", "", says)


def names_of(index: Index, voice: VoiceName = "full") -> tuple[str, ...]:
    """What people call an index; the first is the plainest."""
    given: Mapping[str, list[str]] = phrases(voice)["names"]
    if index.key in given:
        return tuple(given[index.key])
    name = re.sub(r",? (?:EW|FWHM)\b", "", index.name).strip()
    name = re.sub(r" edge$", "", name) if isinstance(index, LineIndex | WidthIndex) else name
    return (f"the {name}" if name[:1].islower() and voice == "full" else name,)


def kind_of(index: Index) -> Kind:
    """What its number is."""
    if isinstance(index, WidthIndex):
        return {"width": "fwhm", "velocity": "speed", "intrinsic": "intrinsic"}[index.of]  # type: ignore[return-value]
    if isinstance(index, RatioIndex):
        low, high = index.band
        gaps = [max(a - high, low - b) for a, b in index.reference]
        if len(gaps) > 1 or gaps[0] > FAR:
            return "depth" if min(gaps) < COLOUR else "value"
        return "edge red" if high <= index.reference[0][0] else "edge blue"
    if isinstance(index, LineIndex) or index.unit == "Å":
        return "width"
    return "speed" if index.unit == "km/s" else "value"


def _plain(name: str, indices: Mapping[str, Index], above: tuple[str, ...] = ()) -> frozenset[str]:
    index = indices[name]
    if not isinstance(index, FormulaIndex):
        return frozenset((name,))
    return frozenset(p for part in formula_names(index.formula) for p in _plain(part, indices, (*above, name)))


def _index_of(feature: Feature, indices: Mapping[str, Index]) -> Index | None:
    """The index that measures a feature of a window, if there is one; the plainest where several do."""
    head = feature.kind.startswith("band head")
    red = feature.kind == "band head red-sharp"
    found: list[tuple[float, str]] = []
    for key, index in indices.items():
        if isinstance(index, LineIndex) and not head and index.follows is None:
            off = abs(0.5 * sum(in_band(index.band, index.medium, feature.medium)) - feature.wavelength)
            wide = index.band[1] - index.band[0]
            if off <= NEAR and "core" not in index.name and "wings" not in index.name:
                found.append((off + 0.01 * wide, key))
        elif isinstance(index, RatioIndex) and head and kind_of(index) == ("edge red" if red else "edge blue"):
            band = in_band(index.band, index.medium, feature.medium)
            off = abs((band[1] if red else band[0]) - feature.wavelength)
            if off <= NEAR_HEAD:
                found.append((off, key))
        elif isinstance(index, RatioIndex) and not head and kind_of(index) == "depth":
            low, high = in_band(index.band, index.medium, feature.medium)
            if low <= feature.wavelength <= high and high - low < 4.0 * NEAR_HEAD:
                found.append((0.0, key))
    return indices[min(found)[1]] if found else None


def _made_index(feature: Feature) -> LineIndex | RatioIndex:
    """A measurement of a feature that no index covers."""
    at, key = feature.wavelength, f"feature:{feature.name}"
    if not feature.kind.startswith("band head"):
        near, far = LINE_SIDE
        sides = ((at - far, at - near), (at + near, at + far))
        return LineIndex(key, feature.name, (at - LINE_HALF, at + LINE_HALF), sides, feature.medium)
    sign = -1.0 if feature.kind == "band head red-sharp" else 1.0
    band = sorted(at + sign * x for x in EDGE_BAND)
    reference = sorted(at - sign * x for x in EDGE_REFERENCE)
    return RatioIndex(key, feature.name, (band[0], band[1]), ((reference[0], reference[1]),), feature.medium)


def _from_features(task: Task, indices: Mapping[str, Index]) -> tuple[Evidence, ...]:
    """Evidence that a task's features make, each once; those that may be `either` say nothing."""
    made: dict[str, Evidence] = {}
    for window in task.windows:
        for feature in window.features:
            index = _index_of(feature, indices) or indices.get(f"feature:{feature.name}")
            if index is None or index.key in made or feature.kind == "either":
                continue
            name = feature.name
            side: Literal["above", "below"] = "below"
            if feature.kind.startswith("band head"):
                at, soft = OF_FEATURE["head"]
                there, missing = f"the band head of {name} is there", f"no band head of {name}"
            else:
                at, soft = OF_FEATURE["line"]
                if feature.kind == "emission":
                    at = -at
                else:
                    side = "above"
                there, missing = f"{name} in {feature.kind}", f"no {name} in {feature.kind}"
            made[index.key] = Evidence(
                index=index.key, side=side, at=at, soft=soft, yes=FEATURE_WORTH, no=-FEATURE_WORTH,
                when=there, otherwise=missing,
            )  # fmt: skip
    return tuple(made.values())


def _quotes(
    task: Task, evidence: Iterable[Evidence], rivals: Iterable[Rival], indices: Iterable[Index], voice: VoiceName
) -> tuple[str, ...]:
    """Every phrase that a text may take over, with the numbers in it: names of lines, bands and windows."""
    found = {task.name, task.question, *(r.name for r in rivals), *(u.says for u in task.undecidable)}
    for e in (*evidence, *(e for r in rivals for e in r.evidence)):
        found |= {worded(e.when, voice), worded(e.otherwise, voice)}
    for window in task.windows:
        found |= {window.name, *(f.name for f in window.features), *(c.name for c in window.contaminants)}
    for index in indices:
        found |= {*names_of(index, voice)}
    return tuple(sorted(filter(None, found), key=lambda text: (-len(text), text)))


def features_of(plan: Plan, window: KeyWindow) -> tuple[tuple[Feature, str], ...]:
    """The features of a window, each with the key of the quantity that measures it."""
    return _features_of(id(plan), plan, window)


@functools.lru_cache(maxsize=512)
def _features_of(_: int, plan: Plan, window: KeyWindow) -> tuple[tuple[Feature, str], ...]:
    found = []
    for feature in window.features:
        index = _index_of(feature, plan.indices) or plan.indices.get(f"feature:{feature.name}")
        if index is not None and index.key in plan.quantities:
            found.append((feature, index.key))
    return tuple(found)
