"""What a window shows, put into sentences: lines, widths, band edges, depths, each with its number and its doubt."""

from __future__ import annotations

from specvet.data.teacher.figures import Figure, brief, figure, limit_of
from specvet.data.teacher.plans import Plan, Quantity, features_of
from specvet.data.teacher.sight import Sight
from specvet.data.teacher.words import Speaker, Voice
from specvet.policies.scoring import Weighed, fulfilled
from specvet.records.schema import Measurement
from specvet.spectra.index_kinds import FormulaIndex
from specvet.tasks import KeyWindow

DETECTED, CLEAR = 3.0, 6.0
"""Errors from which on a line is seen, and seen clearly."""

FAINT = 2.0
"""Å of equivalent width below which a line is faint, however sure it is."""

LEAST_LINE = 0.3
"""Å of equivalent width below which nobody sees a line, whatever the errors say."""

STEP, SLIGHT_STEP = 0.08, 0.035
"""Drop across a band head that is plain, and that is only just seen."""

DEEP, SHALLOW = 0.75, 0.95
"""Depth ratios below which a band is deep, and above which it hardly is one."""

ELSEWHERE = 0.3
"""How much less a formula is worth telling of a window that holds only a part of it."""

DOUBTFUL = 0.75
"""Quality below which the reason (a join, telluric absorption) is told."""


def told_figure(q: Quantity, m: Measurement, voice: Voice) -> Figure:
    """The number of a measurement as it is written."""
    assert m.value is not None
    shown = figure(m.value, m.error, q.unit)
    return shown if voice.errors else brief(shown)


def finding(sight: Sight, q: Quantity, m: Measurement, speaker: Speaker) -> str:
    """A sentence about one measurement."""
    assert m.value is not None
    shown = told_figure(q, m, speaker.voice)
    name = speaker.one(q.names)
    v, u = shown.text(), shown.text(absolute=True)
    error = m.error or 0.1 * abs(m.value)
    if q.kind in ("intrinsic", "fwhm"):
        if limit := limit_of(m.note):
            key = "width_limit" if limit == "at most" else "width_least"
            return speaker.say(f"look.{key}", name=name, w=shown.text(with_error=False))
        return speaker.say("look.width_intrinsic" if is_freed(q, m.note) else "look.width", name=name, v=v)
    if isinstance(q.index, FormulaIndex):
        return speaker.say("look.value_width" if q.kind == "width" else "look.value", name=name, v=v)
    if q.kind == "width":
        if m.value < 0 and abs(m.value) > DETECTED * error and sight.crowded(q.key):
            return speaker.say("look.crowded", name=name, v=v)
        if abs(m.value) < max(DETECTED * error, LEAST_LINE):
            return speaker.say("look.no_line", name=name, v=v)
        which = "emission" if m.value < 0 else "absorption"
        faint, sure = abs(m.value) < FAINT, abs(m.value) > CLEAR * error
        how = "" if sure and not faint else "_weak" if sure else "_hint" if faint else "_unsure"
        return speaker.say(f"look.{which}{how}", name=name, v=v, u=u)
    if q.kind in ("edge blue", "edge red"):
        return speaker.say(f"look.{_edge(q, m.value, error)}", name=name, v=v)
    if q.kind == "depth":
        key = "depth_deep" if m.value < DEEP else "depth_some" if m.value < SHALLOW else "depth_none"
        return speaker.say(f"look.{key}", name=name, v=v)
    return speaker.say("look.speed" if q.kind == "speed" else "look.value", name=name, v=v)


def is_freed(q: Quantity, note: str) -> bool:
    """Whether the instrument's width was taken out of a number: where its resolution is not known it is still in it."""
    return q.kind == "intrinsic" and "the instrument's width is in it" not in note


def _edge(q: Quantity, value: float, error: float) -> str:
    drop = 1.0 - value
    if drop > max(STEP, DETECTED * error):
        return "edge_blue" if q.kind == "edge blue" else "edge_red"
    if drop > max(SLIGHT_STEP, DETECTED * error):
        return "edge_weak"
    if drop > STEP:
        return "edge_unsure"
    return "edge_up" if -drop > max(STEP, DETECTED * error) else "edge_none"


def doubt(sight: Sight, q: Quantity, m: Measurement, speaker: Speaker) -> str:
    """A sentence on what spoils a measurement; empty where nothing does."""
    if m.quality >= DOUBTFUL:
        return ""
    for join in sight.data.spectrum.joins:
        if f"in the {join.label} join" in m.note:
            return speaker.say("look.in_join", join=join.label, name=q.names[0])
    return speaker.say("look.in_telluric", name=q.names[0]) if "in telluric" in m.note else ""


def worth_telling(sight: Sight, new: frozenset[str], window: KeyWindow | None, belief: Weighed) -> list[str]:
    """The new quantities of a window that can be told, the most telling first; one a line, and its width."""
    plan = sight.plan
    moved = {e.index: abs(worth) for worth, e, _, _ in belief.counted}
    listed = {key: 0.7 for _, key in features_of(plan, window)} if window else {}
    scores: dict[str, float] = {}
    of_part: dict[str, float] = {}
    for key in sorted(new):
        m, q = sight.measured.get(key), plan.quantities[key]
        if m is None or m.value is None or "core" in q.index.name or "absolute" in q.index.name or q.kind == "speed":
            continue
        if not _in_question(sight, key):
            continue
        if not plan.weights.get(key) and sight.crowded(key):
            continue
        score = max(moved.get(key, 0.0) + 0.3 * plan.weights.get(key, 0.0), listed.get(key, 0.0))
        if q.kind in ("intrinsic", "fwhm"):
            score = score if _has_width(plan, q, sight) else 0.0
        if isinstance(q.index, FormulaIndex) and not plan.parts[key] <= new:
            score *= ELSEWHERE  # a part of it lies in another window: a reader sees the part that is here
            for part in plan.parts[key] & new:
                of_part[part] = max(of_part.get(part, 0.0), score)
        if score > 0.2:
            scores[key] = score
    for part, score in of_part.items():
        m = sight.measured[part]
        if m.value is not None and score > 0.2 and "core" not in plan.indices[part].name:
            scores[part] = max(scores.get(part, 0.0), score / ELSEWHERE)
    chosen: dict[tuple[str, str], str] = {}
    for key in sorted(scores, key=lambda k: (-scores[k], k)):
        chosen.setdefault(_root(plan.quantities[key]), key)
    return list(chosen.values())


def _in_question(sight: Sight, key: str) -> bool:
    """Whether any evidence that rests on it has its conditions met: [S II] over Hα means nothing without Hα."""
    resting = [e for e in sight.plan.evidence if e.index == key]
    resting += [e for e in sight.plan.evidence if any(c.index == key for c in e.given)]
    return not resting or any(
        not e.given or e.index != key or fulfilled(e.given, sight.measured) > 0.5 for e in resting
    )


def _has_width(plan: Plan, q: Quantity, sight: Sight) -> bool:
    """Whether the line of a width is plain enough to have one, and the width is what it says."""
    m = sight.measured[q.key]
    if q.kind == "intrinsic" and "the instrument's width is in it" in m.note:
        return False
    line = next((k for k in plan.asked if plan.indices[k] == getattr(q.index, "line", None)), None)
    of_line = sight.measured.get(line) if line else None
    if of_line is None or of_line.value is None:
        return False
    return abs(of_line.value) > max(CLEAR * (of_line.error or 0.0), 1.0)


def _root(q: Quantity) -> tuple[str, str]:
    """What it is about, and what of it: `Hβ` with its wings and without are one line, which has one strength."""
    name = q.names[0].split(" with its")[0].split(" wings")[0]
    return name, "size" if q.kind in ("intrinsic", "fwhm") else q.kind
