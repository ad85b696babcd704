"""`line-indices`: a transparent inspector that looks where an expert would and measures.

    look at each key window through the zoom tool → measure → weigh → YES, NO or UNSURE

It uses no pipeline class, no file name and no metadata: only what its windows show. The thresholds stand in the task's
YAML file, so that everything it says can be checked and changed there. It is a baseline, not the agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from specvet.policies.base import Action, Answered, Call, Capability, Trajectory
from specvet.policies.checking import check_names
from specvet.policies.scoring import Score, Weighed, fulfilled, score, weighed
from specvet.records import text_hash
from specvet.records.schema import Answer, EvidenceItem, Measurement, Verdict
from specvet.spectra import Medium, Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import (
    FormulaIndex,
    Index,
    LineIndex,
    Meter,
    Range,
    RatioIndex,
    WidthIndex,
    formula_names,
    in_band,
)
from specvet.spectra.pixels import pixels_of
from specvet.tasks import Evidence, IndexDefinition, KeyWindow, Rival, Task, builtin_rivals
from specvet.tools import TOOL_NAME, WindowData

MIN_MEASURED_YES, MIN_MEASURED_NO = 0.2, 0.4
"""Least share of the evidence, by weight, that must have been measurable: a find rests on what is there, a NO on a look
at all that could have been."""

MIN_WINDOW_SEEN = 0.25
"""Share of a key window that must hold data before it is worth a look."""

NO_OPINION = 0.5
"""Probability of YES where the spectrum does not say: an undecidable look, or too little of it measured."""

WORTH_SAYING = 0.5
"""Log-odds from which on a piece of contrary evidence is named in the reason; all are kept in the verdict."""

CONFIDENCE_LIMIT = 0.99
"""No rule of thumb is surer than this."""


MAX_PLANS = 64
"""Tasks whose plans are kept."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a task needs measured."""

    task: Task
    indices: dict[str, Index]
    rivals: tuple[Rival, ...]
    of_task: frozenset[str]
    """Names that the task itself rests on, without its rivals."""
    names: tuple[str, ...]
    """All of them and what their formulas rest on, sorted."""
    plain: tuple[str, ...]
    """Those of `names` that are no formulas."""
    calls: tuple[tuple[KeyWindow, Call], ...]
    """The look at each key window."""
    spans: dict[Medium, list[tuple[str, Range]]] = field(default_factory=dict)
    """All that each of `plain` needs to see, by medium; filled as media come."""

    @classmethod
    def of(cls, task: Task) -> _Plan:
        indices = task_indices(task)
        rivals = tuple(r if isinstance(r, Rival) else builtin_rivals()[r] for r in task.rivals)
        of_task = _names(task.evidence) | {c.index for u in task.undecidable for c in u.given}
        names = of_task | _names(e for r in rivals for e in r.evidence)
        plain = _plain_names(names, indices)
        calls = tuple((w, _call(w)) for w in task.windows)
        return cls(task, indices, rivals, frozenset(of_task), tuple(sorted(names | plain)), tuple(sorted(plain)), calls)

    def spans_in(self, medium: Medium) -> list[tuple[str, Range]]:
        if medium not in self.spans:
            found = ((name, self.indices[name]) for name in self.plain)
            self.spans[medium] = [
                (name, in_band(index.span, index.medium, medium))
                for name, index in found
                if not isinstance(index, FormulaIndex)
            ]
        return self.spans[medium]


@dataclass(frozen=True, slots=True)
class _Spectrum:
    """What is known of the spectrum in hand, whichever task asked."""

    data: WindowData
    meter: Meter
    extent: tuple[float, float]
    """First and last finite pixel, Å."""
    rivals: dict[str, Weighed] = field(default_factory=dict)
    """Built-in rivals weighed so far, by name."""


class LineIndices:
    """Looks at the task's windows in order, then answers from the measured indices."""

    name = "line-indices"
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self) -> None:
        self._plans: dict[int, _Plan] = {}
        self._last: _Spectrum | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of the built-in indices and rivals; a task's own thresholds are in the task's hash."""
        rivals = (rival.model_dump_json() for rival in builtin_rivals().values())
        return text_hash("\n".join((*map(repr, BUILTIN_INDICES.values()), *rivals)))

    def act(self, trajectory: Trajectory) -> Action:
        """The next window that holds data, or the verdict when all have been seen."""
        asked = [t.action.arguments for t in trajectory.turns if isinstance(t.action, Call)]
        plan, data = self._plan(trajectory.task), trajectory.opening.data
        low, high = self._spectrum(data).extent if data is not None else (0.0, 0.0)
        for window, call in plan.calls:
            overlap = min(high, window.range[1]) - max(low, window.range[0])
            if call.arguments in asked or overlap < MIN_WINDOW_SEEN * (window.range[1] - window.range[0]):
                continue
            if trajectory.turns_left <= 1:
                break
            return call
        return self._answer(trajectory)

    def check(self, task: Task) -> None:
        """Whether every index and rival that `task` names is there. Raises TaskError, which tells the others."""
        check_names(task)

    def _answer(self, trajectory: Trajectory) -> Answered:
        task = trajectory.task
        if not task.evidence:
            reason = f"the task {task.key!r} lists no evidence, so there is nothing to measure; a person must look"
            return Answered(Verdict(answer=Answer.UNSURE, confidence=0.5, p_yes=0.5, reason=reason))
        plan = self._plan(task)
        spectrum = self._spectrum(trajectory.opening.data)
        measured, windows = _measured(trajectory, plan, spectrum.meter)
        result = score(task.evidence, task.prior, measured, windows)
        verdict = _verdict(task, result, measured, self._likelier(plan.rivals, measured, windows, spectrum.rivals))
        shown = tuple(m for name, m in measured.items() if name in plan.of_task)
        return Answered(verdict, shown, text=verdict.reason)

    def _plan(self, task: Task) -> _Plan:
        """What is to be measured for `task`; worked out once, as a list asks the same task again and again."""
        plan = self._plans.get(id(task))
        if plan is None or plan.task is not task:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[id(task)] = _Plan.of(task)
        return plan

    def _spectrum(self, data: WindowData | None) -> _Spectrum:
        """The last spectrum where it is asked about again: several tasks share what was measured."""
        assert data is not None  # an opening without data is no trajectory
        last = self._last
        if last is None or last.data.spectrum is not data.spectrum or last.data.frame.z != data.frame.z:
            last = self._last = _Spectrum(data, Meter(pixels_of(data.spectrum, data.frame.z)), _extent(data.spectrum))
            last.meter.prepare((plan.names, plan.indices) for plan in self._plans.values())
        return last

    @staticmethod
    def _likelier(
        rivals: tuple[Rival, ...],
        measured: Mapping[str, Measurement],
        windows: Mapping[str, str],
        known: dict[str, Weighed],
    ) -> tuple[str, Score] | None:
        """The rival class that the measurements fit best, if any fits."""
        fits = []
        for rival in rivals:
            built_in = builtin_rivals().get(rival.name) is rival  # rests on built-in indices: the same for every task
            found = known.get(rival.name) if built_in else None
            if found is None:
                found = weighed(rival.evidence, rival.prior, measured)
                if built_in:
                    known[rival.name] = found
            if found.log_odds > 0 and found.measured >= MIN_MEASURED_NO:
                fits.append((found.log_odds, rival))
        if not fits:
            return None
        best = max(fits, key=lambda pair: pair[0])[1]
        return best.name, score(best.evidence, best.prior, measured, windows)


def _call(window: KeyWindow) -> Call:
    """The look at a key window."""
    arguments = {"wavelength_range": [_plain(x) for x in window.range], "label": window.name}
    return Call(TOOL_NAME, arguments, text=f"Look at {window.name}: {window.why}")


def task_indices(task: Task) -> dict[str, Index]:
    """The built-in indices and the task's own, by name."""
    return {**BUILTIN_INDICES, **{key: _index(key, d) for key, d in task.indices.items()}}


def _index(key: str, d: IndexDefinition) -> Index:
    name = d.name or key
    if d.kind == "formula":
        return FormulaIndex(key, name, d.formula, d.unit)
    assert d.band is not None  # the schema sees to it
    if d.kind == "ratio":
        return RatioIndex(key, name, d.band, d.reference, d.medium)
    line = LineIndex(key, name, d.band, (d.reference[0], d.reference[1]), d.medium)
    return line if d.kind == "line" else WidthIndex(key, name, line, 0.5 * sum(d.band))


def _names(evidence: Iterable[Evidence]) -> set[str]:
    names: set[str] = set()
    for e in evidence:
        names.add(e.index)
        names.update(c.index for c in e.given)
    return names


def _extent(spectrum: Spectrum) -> tuple[float, float]:
    finite = spectrum.wavelength[np.isfinite(spectrum.flux)]
    return (float(finite[0]), float(finite[-1])) if finite.size else (0.0, 0.0)


def _measured(trajectory: Trajectory, plan: _Plan, meter: Meter) -> tuple[dict[str, Measurement], dict[str, str]]:
    """Every index that the plan names, and the key of the narrowest window looked at that shows all of it.

    Windows are cuts of the whole spectrum, pixel for pixel, so an index is measured once and is the same in all of
    them. `` stands for the whole spectrum.
    """
    looks = []
    for t in trajectory.turns:
        if isinstance(t.action, Call) and t.observation is not None and t.observation.ok and t.observation.data:
            s, arguments = t.observation.data.spectrum, t.action.arguments
            key = next((w.key for w, call in plan.calls if call.arguments == arguments), "")
            looks.append((s.wave_max - s.wave_min, s.wave_min, s.wave_max, key))
    looks.sort(key=lambda look: look[0])
    everything = meter.measure(plan.names, plan.indices)
    windows: dict[str, str] = {}
    assert trajectory.opening.data is not None
    for name, (first, last) in plan.spans_in(trajectory.opening.data.spectrum.medium):
        windows[name] = next((key for _, low, high, key in looks if low <= first and last <= high), "")
    for name in plan.names:
        index = plan.indices[name]
        if isinstance(index, FormulaIndex):
            windows[name] = next((windows[n] for n in formula_names(index.formula) if windows.get(n)), "")
    return {name: everything[name] for name in plan.names}, windows


def _plain_names(names: set[str], indices: Mapping[str, Index]) -> set[str]:
    """The non-formula indices that `names` rest on."""
    plain: set[str] = set()
    queue = list(names)
    seen: set[str] = set()
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        index = indices[name]
        if isinstance(index, FormulaIndex):
            queue.extend(formula_names(index.formula))
        else:
            plain.add(name)
    return plain


def _plain(x: float) -> float | int:
    """Whole Å as people and models write them."""
    return int(x) if x.is_integer() else x


def _verdict(
    task: Task, result: Score, measured: Mapping[str, Measurement], likelier: tuple[str, Score] | None
) -> Verdict:
    p = round(min(max(result.p, 1 - CONFIDENCE_LIMIT), CONFIDENCE_LIMIT), 4)
    confidence = round(max(p, 1 - p), 4)
    said = "; ".join(_phrase(item) for item in result.items[:4])
    for rule in task.undecidable:
        if fulfilled(rule.given, measured) > 0.5:
            return _unsure(NO_OPINION, f"{rule.says} ({said or 'nothing stands out'})", result)
    if result.measured < (MIN_MEASURED_YES if p >= 0.5 else MIN_MEASURED_NO):
        missing = sorted({m.name for m in measured.values() if m.value is None})[:4]
        why = f"only {100 * result.measured:.0f} % of the evidence could be measured (not {', '.join(missing)})"
        return _unsure(NO_OPINION, f"{why}; {said}" if said else why, result)
    if p >= 0.5 and result.missing:
        why = f"{' and '.join(result.missing)} could not be measured, and no YES rests without"
        return _unsure(NO_OPINION, f"{why}; {said}" if said else why, result)
    if p >= 0.5 and not result.clear:
        return _unsure(NO_OPINION, f"nothing stands clear of the noise: {said or 'nothing stands out'}", result)
    if confidence < task.undecided:
        return _unsure(p, f"the evidence does not decide: {said or 'nothing stands out'}", result)
    if p >= 0.5:
        reason = f"{task.name}: " + (_reasons(result.items, 1) or "nothing speaks against it")
        return Verdict(answer=Answer.YES, confidence=confidence, p_yes=p, reason=reason, evidence=result.items)
    name = likelier[0] if likelier else None
    reason = f"no {task.name}: " + (_reasons(result.items, -1) or "nothing speaks for it")
    if likelier:
        reason += f". Likelier: {name}"
        if fits := "; ".join(_phrase(item) for item in likelier[1].items[:2] if item.log_odds > 0):
            reason += f" ({fits})"
    return Verdict(
        answer=Answer.NO, confidence=confidence, p_yes=p, reason=reason, likelier_class=name, evidence=result.items
    )


def _unsure(p: float, reason: str, result: Score) -> Verdict:
    return Verdict(
        answer=Answer.UNSURE, confidence=round(max(p, 1 - p), 4), p_yes=p, reason=reason, evidence=result.items
    )


def _reasons(items: tuple[EvidenceItem, ...], sign: int) -> str:
    """Up to three phrases that speak for the answer, and the one that speaks most against it, where it has weight."""
    speaking = [_phrase(i) for i in items if i.log_odds * sign > 0][:3]
    against = [_phrase(i) for i in items if i.log_odds * sign < -WORTH_SAYING][:1]
    return "; ".join(speaking) + (f"; against it: {against[0]}" if against else "")


def _phrase(item: EvidenceItem) -> str:
    m = item.measurement
    if m.value is None:
        return item.says
    digits = 0 if m.unit == "km/s" else 1 if m.unit == "Å" else 2
    if m.error:  # as many digits as the error has something to say in
        digits = max(digits, min(4, -math.floor(math.log10(m.error))))
    error = f" ± {m.error:.{digits}f}" if m.error is not None else ""
    return f"{item.says} ({m.name} {m.value:.{digits}f}{error}{' ' + m.unit if m.unit else ''})"
