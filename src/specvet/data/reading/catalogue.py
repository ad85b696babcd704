"""What can be read by name: the lines, bands and widths of all built-in tasks, and the windows that show them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from specvet.data.teacher.plans import Plan, Quantity
from specvet.spectra import Medium
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, Range, WidthIndex, in_band
from specvet.tasks import KeyWindow, builtin_tasks

LEAST_WEIGHT = 1.0
"""What a line counts that no task's evidence rests on, beside the log-odds of those that do."""

_NOT_READ = ("core", "absolute", "at the velocity")
"""In the names of indices that nobody reads from a figure."""


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """All readable quantities, under the names that the terse voice gives them, and the key windows of all tasks."""

    plan: Plan
    """A plan whose quantities are those of all tasks, for the teacher's own sentences."""
    quantities: Mapping[str, Quantity]
    indices: Mapping[str, Index]
    weights: Mapping[str, float]
    """How often each is asked for, relative to others."""
    windows: tuple[KeyWindow, ...]
    line_of: Mapping[str, str]
    """Key of a width → key of the line that it is of."""
    roots: Mapping[str, tuple[str, str]]
    """What each is about and what of it: a line with its wings and without is one line, and told once."""
    _spans: dict[Medium, dict[str, Range]] = field(default_factory=dict)
    _shown: dict[Medium, list[tuple[Range, list[str]]]] = field(default_factory=dict)

    def within(self, window: Range, medium: Medium) -> list[str]:
        """The keys of what a window shows all of, Å in `medium`."""
        low, high = window
        return [key for key, (a, b) in self.spans(medium).items() if low <= a and b <= high]

    def spans(self, medium: Medium) -> Mapping[str, Range]:
        """All that each quantity needs to see, Å in `medium`."""
        found = self._spans.get(medium)
        if found is None:
            found = self._spans[medium] = {
                key: in_band(index.span, index.medium, medium)
                for key, index in self.indices.items()
                if not isinstance(index, FormulaIndex)
            }
        return found

    def shown_by_windows(self, medium: Medium) -> list[tuple[Range, list[str]]]:
        """The range of each key window, and the keys of what it shows all of."""
        found = self._shown.get(medium)
        if found is None:
            found = self._shown[medium] = [(w.range, self.within(w.range, medium)) for w in self.windows]
        return found


@functools.cache
def catalogue() -> Catalogue:
    """That of the built-in tasks."""
    plans = [Plan.of(task, "terse") for task in builtin_tasks().values()]
    quantities: dict[str, Quantity] = {}
    weights: dict[str, float] = {}
    windows: dict[tuple[Range, tuple[str, ...]], KeyWindow] = {}
    for plan in plans:
        for key, q in plan.quantities.items():
            unread = isinstance(q.index, FormulaIndex) or q.kind == "speed"
            if unread or any(words in q.index.name for words in _NOT_READ):
                continue
            quantities.setdefault(key, q)
            weights[key] = max(weights.get(key, LEAST_WEIGHT), plan.weights.get(key, 0.0))
        for window in plan.task.windows:
            windows.setdefault((window.range, tuple(f.name for f in window.features)), window)
    quantities = dict(sorted(quantities.items()))
    indices = {key: q.index for key, q in quantities.items()}
    lines = {index: key for key, index in indices.items() if isinstance(index, LineIndex)}
    line_of = {
        key: lines[index.line]
        for key, index in indices.items()
        if isinstance(index, WidthIndex) and index.line in lines
    }
    roots = {key: (q.names[0].removesuffix(" wings"), _what(q)) for key, q in quantities.items()}
    whole = replace(plans[0], indices=indices, quantities=quantities, weights=weights)
    return Catalogue(whole, quantities, indices, weights, tuple(windows.values()), line_of, roots)


def _what(q: Quantity) -> str:
    return "size" if q.kind in ("fwhm", "intrinsic") else q.kind
