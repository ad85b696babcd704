"""`line-indices`: a transparent inspector that looks where an expert would and measures.

    look at each key window through the zoom tool → measure → weigh → YES, NO or UNSURE

It uses no pipeline class, no file name and no metadata: only what its windows show. The thresholds stand in the task's
YAML file, so that everything it says can be checked and changed there. It is a baseline, not the agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from specvet.policies.base import Action, Answered, Call, Capability, Trajectory
from specvet.policies.checking import check_names
from specvet.policies.scoring import Score, fulfilled, score
from specvet.records import text_hash
from specvet.records.schema import Answer, EvidenceItem, Measurement, Verdict
from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import (
    FormulaIndex,
    Index,
    LineIndex,
    RatioIndex,
    WidthIndex,
    formula_names,
    in_band,
    measure,
)
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


class LineIndices:
    """Looks at the task's windows in order, then answers from the measured indices."""

    name = "line-indices"
    capabilities: frozenset[Capability] = frozenset()

    @property
    def fingerprint(self) -> str:
        """Hash of the built-in indices and rivals; a task's own thresholds are in the task's hash."""
        rivals = (rival.model_dump_json() for rival in builtin_rivals().values())
        return text_hash("\n".join((*map(repr, BUILTIN_INDICES.values()), *rivals)))

    def act(self, trajectory: Trajectory) -> Action:
        """The next window that holds data, or the verdict when all have been seen."""
        asked = [t.action.arguments for t in trajectory.turns if isinstance(t.action, Call)]
        low, high = _extent(trajectory)
        for window in trajectory.task.windows:
            call = _call(window)
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
        indices = task_indices(task)
        rivals = [r if isinstance(r, Rival) else builtin_rivals()[r] for r in task.rivals]
        names = _names(task.evidence) | {c.index for u in task.undecidable for c in u.given}
        measured, windows = _measured(trajectory, names | _names(e for r in rivals for e in r.evidence), indices)
        result = score(task.evidence, task.prior, measured, windows)
        verdict = _verdict(task, result, measured, self._likelier(rivals, measured, windows))
        shown = tuple(m for name, m in measured.items() if name in names)
        return Answered(verdict, shown, text=verdict.reason)

    @staticmethod
    def _likelier(
        rivals: list[Rival], measured: Mapping[str, Measurement], windows: Mapping[str, str]
    ) -> tuple[str, Score] | None:
        """The rival class that the measurements fit best, if any fits."""
        scores = [(r.name, score(r.evidence, r.prior, measured, windows)) for r in rivals]
        scores = [(name, s) for name, s in scores if s.log_odds > 0 and s.measured >= MIN_MEASURED_NO]
        return max(scores, key=lambda pair: pair[1].log_odds, default=None)


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


def _extent(trajectory: Trajectory) -> tuple[float, float]:
    data = trajectory.opening.data
    if data is None:
        return (0.0, 0.0)
    finite = data.spectrum.wavelength[np.isfinite(data.spectrum.flux)]
    return (float(finite[0]), float(finite[-1])) if finite.size else (0.0, 0.0)


def _measured(
    trajectory: Trajectory, names: set[str], indices: Mapping[str, Index]
) -> tuple[dict[str, Measurement], dict[str, str]]:
    """Every index measured in the narrowest window looked at that holds it, else in the whole spectrum.

    Also says in which window (its key) each was measured; `` stands for the whole spectrum.
    """
    keys = [(_call(w).arguments, w.key) for w in trajectory.task.windows]
    looks = [
        (next((key for arguments, key in keys if arguments == t.action.arguments), ""), t.observation.data)
        for t in trajectory.turns
        if isinstance(t.action, Call) and t.observation is not None and t.observation.ok and t.observation.data
    ]
    looks.sort(key=lambda look: look[1].spectrum.wave_max - look[1].spectrum.wave_min)
    assert trajectory.opening.data is not None
    looks.append(("", trajectory.opening.data))
    plain = _plain_names(names, indices)
    by_look: dict[int, list[str]] = {}
    windows: dict[str, str] = {}
    for name in sorted(plain):
        index = indices[name]
        assert not isinstance(index, FormulaIndex)
        i = next((i for i, (_, data) in enumerate(looks) if _holds(data, index)), len(looks) - 1)
        by_look.setdefault(i, []).append(name)
        windows[name] = looks[i][0]
    measured: dict[str, Measurement] = {}
    for i, group in by_look.items():
        data = looks[i][1]
        measured.update(measure(group, data.spectrum, indices, z=data.frame.z))
    everything = measure(sorted(names), _nothing(), indices, known=measured)
    for name in names - plain:
        first = formula_names(indices[name].formula)  # type: ignore[union-attr]
        windows[name] = next((windows[n] for n in first if windows.get(n)), "")
    return {name: everything[name] for name in sorted(names | plain)}, windows


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


def _holds(data: WindowData, index: LineIndex | WidthIndex | RatioIndex) -> bool:
    s = data.spectrum
    low, high = in_band(index.span, index.medium, s.medium)
    return s.wave_min <= low and high <= s.wave_max


def _plain(x: float) -> float | int:
    """Whole Å as people and models write them."""
    return int(x) if x.is_integer() else x


def _nothing() -> Spectrum:
    return Spectrum(np.empty(0), np.empty(0))


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
