"""Where a teacher looks next, and how wide: where most can be learnt or disproved, sometimes where nothing can."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from specvet.data.teacher.expecting import expected_of
from specvet.data.teacher.plans import features_of
from specvet.data.teacher.sight import Sight
from specvet.data.teacher.words import Speaker
from specvet.policies.scoring import Weighed
from specvet.spectra.index_kinds import Range
from specvet.tasks import KeyWindow

Purpose = Literal["first", "confirm", "disprove", "rescue", "other", "idle", "narrow", "swapped", "outside"]
"""Why a window is looked at. `rescue` could still make a YES of a NO; `idle` is beside the point and `narrow` too
tight; `swapped` and `outside` are calls that the tool refuses."""

Reason = Literal["leads", "expected", "missing", "rivals", "hope", "neutral"]
"""What makes a look's features worth it: they `lead`, are `expected` of the class as believed so far, would speak
against it when `missing`, belong to `rivals`, could still speak for it (`hope`); or nothing that the evidence says."""

LEAST_WORTH = 0.4
"""Log-odds that a window must be able to move to be worth another look."""

UNLED = 0.1
"""How much less likely a first look is that shows nothing of what speaks for the class."""

FOCUS_SHARE = 0.3
"""Of looks that go closer to the one feature that matters most."""


@dataclass(frozen=True, slots=True)
class Look:
    """A call that is planned."""

    purpose: Purpose
    range: tuple[float, float]
    """As it is called; for `swapped` the larger number stands first."""
    features: tuple[str, ...]
    """What is looked for, as people call it."""
    key: str
    """Of the key window; empty for a look beside the point."""
    label: str | None
    focused: bool = False
    """Whether it shows only a part of its key window."""
    reason: Reason = "neutral"

    @property
    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {"wavelength_range": [_plain(x) for x in self.range]}
        return found | ({"label": self.label} if self.label else {})


def next_look(
    sight: Sight,
    seen: frozenset[str],
    done: Sequence[str],
    purpose: Purpose,
    speaker: Speaker,
    parts: Sequence[str] = (),
    belief: Weighed | None = None,
) -> Look | None:
    """The key window that could move the belief most (for `disprove` and `rescue`: against it); None when none is left.

    `done` are the keys of windows looked at so far, `parts` those of which only a part
    was seen: they may be looked at again, whole. `belief` is what is held so far; its reasons follow from it.

    Chance decides among windows of like worth, so that teachers differ as people do.
    """
    left = [w for w in sight.windows if w.key not in done or w.key in parts]
    if not left:
        return None
    leaning = {"disprove": True, "rescue": False}.get(purpose)
    medium = sight.data.spectrum.medium
    moves = sight.worths(seen, leaning)
    expected = expected_of(sight.plan)
    chances, worths = [], []
    for window in left:
        shown = frozenset(sight.plan.within(window.range, medium))
        worth = sum(moves.get(key, 0.0) * _part_shown(sight, key, seen, shown) for key in sight.plan.asked)
        order = sight.plan.task.windows.index(window)
        worths.append(worth)
        counts = any(key in expected.counting for _, key in features_of(sight.plan, window))
        share = 1.0 if counts or purpose != "first" else UNLED
        chances.append(share * (0.3 + worth) ** 2 / (1.0 + (1.0 if purpose == "first" else 0.35) * order))
    if purpose != "first" and max(worths) < LEAST_WORTH:
        return None
    at = speaker.rng.random() * sum(chances)
    window = left[min(int(np.searchsorted(np.cumsum(chances), at)), len(left) - 1)]
    now = expected.counting if belief is None else expected.now(sight.plan, belief, sight.only(seen))
    return _into(sight, window, purpose, speaker, window.key not in done, now - seen, seen)


def _part_shown(sight: Sight, key: str, seen: frozenset[str], shown: frozenset[str]) -> float:
    """How much (0-1) of what a quantity still lacks a window shows; a mean of three bands may need three windows."""
    lacking = sight.plan.parts[key] - seen - sight.whole
    return len(lacking & shown) / len(lacking) if lacking else 0.0


def useless_look(sight: Sight, purpose: Purpose, speaker: Speaker) -> Look | None:
    """A look that shows nothing to the point (`idle`), or too little of a window (`narrow`)."""
    low, high = sight.data.spectrum.wave_min, sight.data.spectrum.wave_max
    if purpose == "narrow":
        if not sight.windows:
            return None
        window = sight.windows[0]
        features = [(f, key) for f, key in features_of(sight.plan, window) if low < f.wavelength < high]
        middle = features[0][0].wavelength if features else 0.5 * sum(window.range)
        half = 5.0 * (1 + speaker.below(2))
        found = (float(math.floor(middle - half)), float(math.ceil(middle + half)))
        return Look(purpose, found, (sight.plan.called(*features[0]) if features else window.name,), window.key, None)
    for _ in range(8):
        span = 50.0 * (2 + speaker.below(7))
        start = 50.0 * math.floor((low + speaker.rng.random() * max(high - low - span, 0.0)) / 50.0)
        found = (start, start + span)
        if start < low or start + span > high or any(_share(found, w.range) > 0.2 for w in sight.plan.task.windows):
            continue
        return Look(purpose, found, (), "", None)
    return None


def refused_look(sight: Sight, planned: Look, purpose: Purpose) -> Look | None:
    """A call that the tool answers with an error: `planned` with its ends `swapped`, or one `outside` the data."""
    if purpose == "swapped":
        return Look(purpose, (planned.range[1], planned.range[0]), planned.features, planned.key, planned.label,
                    reason=planned.reason)  # fmt: skip
    high = sight.data.spectrum.wave_max
    beyond = [w for w in sight.plan.task.windows if w.range[0] > high + 20.0]
    if not beyond:
        return None
    window = beyond[0]
    features = tuple(f.name for f in window.features[:2]) or (window.name,)
    return Look(purpose, (window.range[0], window.range[1]), features, "", None)


def _into(
    sight: Sight, window: KeyWindow, purpose: Purpose, speaker: Speaker, may_focus: bool,
    expected: frozenset[str], seen: frozenset[str],
) -> Look:  # fmt: skip
    medium = sight.data.spectrum.medium
    spans = sight.plan.spans(medium)
    inside = [key for key in sight.plan.within(window.range, medium) if sight.measured[key].value is not None]
    low, high = window.range
    focus, focus_key = "", ""
    told = [(f, key) for f, key in features_of(sight.plan, window) if key in sight.measured]
    if may_focus and inside and speaker.sometimes(FOCUS_SHARE):
        wanted = expected_of(sight.plan).counting if purpose == "first" else expected
        pool = [key for key in inside if key in wanted and purpose in ("first", "confirm")] or inside
        best = max(pool, key=lambda key: (sight.plan.weights.get(key, 0.0), key))
        low, high = spans[best]
        related = [
            spans[key] for key in inside if key != best and low <= spans[key][0] and spans[key][1] <= high + 30.0
        ]
        high = max([high, *(b for _, b in related)])
        pad = (0.1 + 0.4 * speaker.rng.random()) * (high - low)
        low, high = max(window.range[0], low - pad), min(window.range[1], high + pad)
        focus, focus_key = sight.plan.quantities[best].names[0], best
    else:
        span = high - low
        low += (0.10 * speaker.rng.random() - 0.07) * span
        high += (0.07 - 0.10 * speaker.rng.random()) * span
        if inside:  # what the window is looked at for stays in it
            low = min(low, *(spans[key][0] for key in inside))
            high = max(high, *(spans[key][1] for key in inside))
    found = _rounded(low, high, speaker)
    data = (math.ceil(sight.data.spectrum.wave_min), math.floor(sight.data.spectrum.wave_max))
    found = (max(found[0], data[0]), min(found[1], data[1]))
    told = [(f, key) for f, key in told if found[0] < f.wavelength < found[1]]
    told = [(f, key) for f, key in told if key not in seen] or told
    shown = {focus: focus_key} if focus else {sight.plan.called(f, key): key for f, key in told}
    reason, names = _reason(sight, purpose, shown, expected)
    order = sorted(names, key=lambda name: (-sight.plan.weights.get(shown[name], 0.0), names.index(name)))
    chosen = set(order[: 1 + speaker.below(speaker.voice.features)])
    features = tuple(name for name in names if name in chosen) or (window.name,)
    label = None
    if speaker.sometimes(speaker.voice.labels):
        whole = all(found[0] < f.wavelength < found[1] for f in window.features)
        label = window.name if speaker.sometimes(0.6) and whole and not focus else ""
        label = label or " and ".join(f.removeprefix("the ") for f in features[:2])
    if label == window.name and not all(found[0] < f.wavelength < found[1] for f in window.features):
        label = None
    return Look(purpose, found, features, window.key, label, bool(focus), reason)


def _reason(
    sight: Sight, purpose: Purpose, shown: Mapping[str, str], expected: frozenset[str]
) -> tuple[Reason, list[str]]:
    """What a look may be said to be for, and the names that this is true of; `shown` gives the key of each name."""
    known = expected_of(sight.plan)
    orders: Mapping[str, tuple[tuple[Reason, frozenset[str]], ...]] = {
        "first": (("leads", known.leading), ("neutral", known.counting), ("rivals", known.against)),
        "confirm": (("expected", expected), ("rivals", known.against)),
        "disprove": (("rivals", known.against), ("missing", expected & known.required)),
        "rescue": (("hope", known.counting),),
    }
    for reason, keys in orders.get(purpose, ()):
        if names := [name for name, key in shown.items() if key in keys]:
            return reason, names
    return "neutral", list(shown)


def _rounded(low: float, high: float, speaker: Speaker) -> tuple[float, float]:
    """Outward to the steps that people take."""
    span = high - low
    steps = (50.0, 50.0, 25.0) if span > 400.0 else (10.0, 20.0, 25.0) if span > 120.0 else (5.0, 10.0)
    step = steps[speaker.below(len(steps))]
    return step * math.floor(low / step), step * math.ceil(high / step)


def _share(a: Range, b: Range) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0])) / (a[1] - a[0])


def _plain(x: float) -> float | int:
    return int(x) if float(x).is_integer() else x
